"""Many Avro records of one type, with the fields of a reader's schema.

fastavro skips the other fields faster than Python can.
"""

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from hudi_bridge.errors import CorruptTableError, CorruptTimelineError, UnsupportedTableError
from hudi_bridge.logformat.avro_cursors import DatumBytes
from hudi_bridge.logformat.avro_single import value_step
from hudi_bridge.schema.avro import AvroArray, AvroRecord, inner_types, parse_avro_schema
from hudi_bridge.schema.avro_types import min_width

_MOST_KNOWN = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class DatumType:
    """A record type: ``avro`` to check its bytes, ``parsed`` for fastavro."""

    avro: AvroRecord
    parsed: Any


# The timeline files of a table have only a few distinct schemas.
_known_types: dict[str, DatumType] = {}


def datum_type(schema_text: str, path: str) -> DatumType:
    """The record type of a schema in JSON; ``path`` names its file in errors.

    Raises:
        CorruptTimelineError: the text is not the schema of an Avro record.
        UnsupportedTableError: a type contains itself, or an array can be of any length in no bytes.
    """
    if schema_text not in _known_types:
        if len(_known_types) >= _MOST_KNOWN:
            _known_types.clear()
        _known_types[schema_text] = _parse_schema(schema_text, path)
    return _known_types[schema_text]


def _parse_schema(text: str, path: str) -> DatumType:
    try:
        avro = parse_avro_schema(text, path)
    except CorruptTableError as error:
        raise CorruptTimelineError(path, None, error.found, error.expected) from error
    if any(isinstance(inner, AvroArray) and not min_width(inner.items) for inner in inner_types(avro)):
        found = f"an array of items that take no bytes, in {path}"
        raise UnsupportedTableError("Avro schema", found, "items of at least one byte")
    try:
        return DatumType(avro=avro, parsed=fastavro.parse_schema(json.loads(text)))
    except Exception as error:
        raise CorruptTimelineError(path, None, f"a schema that is none ({error})", "an Avro schema") from error


def iter_datums(
    kind: DatumType,
    content: pa.Buffer,
    spans: Iterable[tuple[int, int]],
    path: str,
    offset: int,
    reader_schema: Any = None,  # noqa: ANN401 - parsed by fastavro
) -> Iterator[dict[str, Any]]:
    """The records at ``spans`` of the content, with the fields of ``reader_schema``, or all fields if it is None.

    ``path`` and ``offset`` locate the content in errors. fastavro trusts the lengths in a datum, so each
    is checked before.

    Raises:
        CorruptTimelineError: a span is not exactly one record.
    """
    try:
        source = DatumBytes.of(content, np.zeros(1, np.int64), path, offset)
        step = value_step(kind.avro, source)
        for start, end in spans:
            if step(start, end) != end:
                raise source.corrupt(start, "bytes after the last field", "the end of the record")
            yield _decode(content.slice(start, end - start).to_pybytes(), kind, reader_schema, path, offset + start)
    except CorruptTableError as error:
        raise CorruptTimelineError(path, error.offset, error.found, error.expected) from error


def _decode(datum: bytes, kind: DatumType, reader_schema: Any, path: str, offset: int) -> dict[str, Any]:  # noqa: ANN401
    try:
        record: Any = fastavro.schemaless_reader(io.BytesIO(datum), kind.parsed, reader_schema)
    except Exception as error:
        raise CorruptTimelineError(path, offset, f"damaged Avro ({error})", "an Avro record") from error
    assert isinstance(record, dict)
    return record
