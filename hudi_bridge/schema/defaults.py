"""The defaults of a schema's fields as Arrow values, which stand for fields that the writer of a record did not know.

Source: "Schema Resolution" of the Avro specification; ``ResolvingGrammarGenerator.encode`` of Avro.
"""

from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.schema.avro import parse_json
from hudi_bridge.schema.avro_types import AvroArray, AvroMap, AvroRecord, AvroType, AvroUnion
from hudi_bridge.schema.casts import Array, ArrowType

Defaults: TypeAlias = tuple[tuple[str, str], ...]
"""Paths of fields, and their defaults as JSON. Within lists and maps, paths have ``element`` and ``value``."""

_NULL_JSON = "null"
_EXACT = Context(prec=100)


def iter_defaults(avro: AvroType, path: str = "") -> Iterator[tuple[str, str]]:
    """The defaults that are not null of all fields within a type that is at a path."""
    match avro:
        case AvroRecord():
            for field in avro.fields:
                of_field = f"{path}.{field.name}" if path else field.name
                if field.default_json not in (None, _NULL_JSON):
                    yield of_field, field.default_json
                yield from iter_defaults(field.type, of_field)
        case AvroArray():
            yield from iter_defaults(avro.items, f"{path}.element")
        case AvroMap():
            yield from iter_defaults(avro.values, f"{path}.value")
        case AvroUnion() if len(avro.members) == 1:
            yield from iter_defaults(avro.members[0], path)
        case _:
            return


def default_of(path: str, kind: ArrowType, defaults: Mapping[str, str]) -> "Array | None":
    """The default of the field at a path, an array of one value of the type; None if it is null.

    Raises:
        UnsupportedTableError: the default is not a value of the type.
    """
    text = defaults.get(path)
    if text is None:
        return None
    try:
        return pa.array([_value(parse_json(text), kind, path, defaults)], kind)
    except (ValueError, TypeError, AttributeError, ArithmeticError, pa.ArrowException) as error:
        raise UnsupportedTableError("default", f"{text} of {path}", f"values of type {kind}") from error


def repeated(value: Array, count: int) -> Array:
    """So many copies of the only value of an array."""
    return value.take(pa.array(np.zeros(count), pa.int64()))


def _value(value: Any, kind: ArrowType, path: str, defaults: Mapping[str, str]) -> object:  # noqa: ANN401 - JSON
    """A value of Avro's JSON as Arrow takes it: bytes are texts there, decimals bytes, and dates and times numbers."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            raise TypeError("no record")
        return {field.name: _field(value, field, f"{path}.{field.name}", defaults) for field in kind}
    if pa.types.is_map(kind):
        return [(key, _value(item, kind.item_type, f"{path}.value", defaults)) for key, item in value.items()]
    if pa.types.is_list(kind):
        return [_value(item, kind.value_type, f"{path}.element", defaults) for item in value]
    if pa.types.is_binary(kind):
        return value.encode("latin-1")
    if pa.types.is_decimal(kind):
        unscaled = int.from_bytes(value.encode("latin-1"), "big", signed=True)
        return Decimal(unscaled).scaleb(-kind.scale, _EXACT)
    return value


def _field(record: Mapping[str, Any], field: "pa.Field[Any]", path: str, defaults: Mapping[str, str]) -> object:
    if field.name in record:
        return _value(record[field.name], field.type, path, defaults)
    of_field = default_of(path, field.type, defaults)
    return None if of_field is None else of_field[0]
