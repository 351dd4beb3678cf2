"""Writes native log files in each format, with their header in the key-value metadata, for tests."""

import base64
import io
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from hudi_bridge.logformat.layout import HeaderKey
from hudi_bridge.schema.avro import arrow_schema, parse_avro_schema
from tests.logformat.hfile_writer import field, hfile, varint

FORMATS = ("parquet", "orc", "hfile", pytest.param("lance", marks=pytest.mark.extra))
ENTRIES, DOCUMENT = "entries", "one document"
"""The two forms of the header: Hudi's main branch has written both."""
_FOOTER_LENGTH, _USER_METADATA = 1, 5
"""Field numbers in an ORC file's postscript and footer."""

Row = Mapping[str, Any]


def footer(header: Mapping[int, str], form: str = ENTRIES, version: str = "2") -> dict[str, str]:
    """The key-value metadata with a log block's header."""
    stated = {"VERSION": version} | {HeaderKey(key).name: text for key, text in header.items()}
    if form == ENTRIES:
        return {f"hudi.log.format.{name}": text for name, text in stated.items()}
    return {"hudi.log.format.metadata": json.dumps(stated)}


def write_native(
    path: Path, rows: Sequence[Row], schema: Mapping[str, Any], keys: Sequence[str], metadata: Mapping[str, str]
) -> Path:
    """A file in the format that its name says; ``schema`` is the Avro schema of the rows, ``keys`` are those of cells.

    An HFile has the rows by key.
    """
    if path.suffix == ".hfile":
        path.write_bytes(_hfile(rows, schema, keys, metadata))
        return path
    table = pa.Table.from_pylist(list(rows), arrow_schema(parse_avro_schema(json.dumps(schema), "test")))
    return write_columns(path, table, metadata)


def write_columns(path: Path, table: pa.Table, metadata: Mapping[str, str]) -> Path:
    """A file of columns in the format that its name says."""
    labelled = table.replace_schema_metadata(dict(metadata))
    match path.suffix:
        case ".orc":
            orc.write_table(table, path)
            path.write_bytes(_with_orc_metadata(path.read_bytes(), metadata))
        case ".lance":
            # Most tests write no such file, and run without the package, too.
            from lance.file import LanceFileWriter  # noqa: PLC0415

            with LanceFileWriter(str(path), labelled.schema, version="2.1") as writer:
                for batch in labelled.to_batches():
                    writer.write_batch(batch)
        case _:
            pq.write_table(labelled, path)
    return path


def delete_schema(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The schema of a native log file of deletes, for ordering fields with their Avro types."""
    ordering = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields]
    return {
        "type": "record",
        "name": "deletes",
        "fields": [{"name": "_hoodie_record_key", "type": "string"}, *ordering],
    }


def listed_positions(positions: Sequence[int], base_instant: str) -> dict[int, str]:
    """The header entries for the positions of a native log file's records, in their order."""
    data = struct.pack(">i", len(positions)) + b"".join(map(varint, positions))
    return {
        HeaderKey.RECORD_POSITIONS: base64.b64encode(data).decode(),
        HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: base_instant,
    }


def _hfile(rows: Sequence[Row], schema: Mapping[str, Any], keys: Sequence[str], metadata: Mapping[str, str]) -> bytes:
    writer = fastavro.parse_schema(dict(schema))
    cells = []
    for key, row in sorted(zip(keys, rows, strict=True), key=lambda pair: pair[0].encode()):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, writer, dict(row))
        cells.append((key, out.getvalue()))
    info = {"schema": json.dumps(schema)} | dict(metadata)
    return hfile([cells] if cells else [], info={name: text.encode() for name, text in info.items()})


def _with_orc_metadata(content: bytes, metadata: Mapping[str, str]) -> bytes:
    """The file with user metadata, which Arrow does not write: entries at the end of the footer."""
    size = content[-1]
    postscript, body = content[-1 - size : -1], content[: -1 - size]
    length, after = _varint(postscript, 1)
    assert postscript[0] == _FOOTER_LENGTH << 3
    added = b"".join(
        field(_USER_METADATA, field(1, name.encode()) + field(2, text.encode())) for name, text in metadata.items()
    )
    stated = field(_FOOTER_LENGTH, length + len(added)) + postscript[after:]
    return body + added + stated + bytes([len(stated)])


def _varint(data: bytes, start: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[start]
        start += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, start
