"""Converts Arrow structs to JSON texts, byte for byte as in Hudi's ``cdc`` format.

Hudi has two styles:

* ``JACKSON``, for images from base files and logs (``InternalRowToJsonStringConverter``): no white space, no nulls at
  any depth. Map entries and struct fields are in the order of Scala's immutable maps, columns in that of the table.
* ``AVRO``, for images stored by the writer (``HoodieCDCUtils.recordToJson``): a space after ``:`` and ``,``. Nulls
  are written, and map entries are in the order of Java's hash maps.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from hudi_bridge.changes.hash_order import Positions, java_map_order, scala_map_order
from hudi_bridge.changes.json_scalars import (
    ScalarText,
    avro_quoted,
    avro_scalar,
    jackson_digits,
    jackson_quoted,
    jackson_scalar,
    joined,
)
from hudi_bridge.schema.avro_types import AvroArray, AvroMap, AvroRecord, AvroType, AvroUnion
from hudi_bridge.schema.nested import as_lists

Array: TypeAlias = "pa.Array[Any]"

_ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonStyle:
    """The JSON style of one Java library."""

    colon: str
    comma: str
    keeps_nulls: bool
    quoted: Callable[[str], str]
    scalar: ScalarText
    entry_order: Callable[[Array, Positions], Positions]
    structs_are_maps: bool


JACKSON = JsonStyle(
    colon=":",
    comma=",",
    keeps_nulls=False,
    quoted=jackson_quoted,
    scalar=jackson_scalar,
    entry_order=scala_map_order,
    structs_are_maps=True,
)
JACKSON_WITH_DIGITS = replace(JACKSON, scalar=jackson_digits)
AVRO = JsonStyle(
    colon=": ",
    comma=", ",
    keeps_nulls=True,
    quoted=avro_quoted,
    scalar=avro_scalar,
    entry_order=java_map_order,
    structs_are_maps=False,
)


def json_texts(rows: pa.StructArray, style: JsonStyle, avro: AvroRecord | None = None) -> Array:
    """The JSON object of each row, null for null; ``avro`` is the type of the rows, if the style needs it."""
    parts = [
        _struct_texts(rows.slice(start, _ROWS_AT_ONCE), style, avro, in_order=True)
        for start in range(0, len(rows), _ROWS_AT_ONCE)
    ]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.string())


def _texts(array: Array, style: JsonStyle, avro: AvroType | None) -> Array:
    kind = array.type
    if isinstance(avro, AvroUnion):
        members = avro.members
        if types.is_struct(kind) and len(members) > 1:
            return _union_texts(cast("pa.StructArray", array), style, members)
        avro = members[0] if members else None
    if types.is_null(kind):
        return pa.nulls(len(array), pa.string())
    if types.is_struct(kind):
        record = avro if isinstance(avro, AvroRecord) else None
        return _struct_texts(cast("pa.StructArray", array), style, record, in_order=not style.structs_are_maps)
    if types.is_map(kind):
        return _map_texts(array, style, avro.values if isinstance(avro, AvroMap) else None)
    if types.is_list(kind) or types.is_large_list(kind):
        return _list_texts(array, style, avro.items if isinstance(avro, AvroArray) else None)
    if types.is_fixed_size_list(kind):
        return _list_texts(as_lists(array), style, None)
    return style.scalar(array, avro)


def _struct_texts(array: pa.StructArray, style: JsonStyle, avro: AvroRecord | None, *, in_order: bool) -> Array:
    children = array.flatten()
    names = [array.type.field(place).name for place in range(array.type.num_fields)]
    known = {} if avro is None else {field.name: field.type for field in avro.fields}
    order = range(len(names)) if in_order else scala_map_order(pa.array(names, pa.string()), np.array([len(names)]))
    fields: list[Any] = []
    for place in order:
        text: Array = _texts(children[place], style, known.get(names[place]))
        text = text.fill_null("null") if style.keeps_nulls else text
        fields.append(joined(style.comma + style.quoted(names[place]) + style.colon, text).fill_null(""))
    texts = joined(pa.repeat("", len(array)), *fields)
    # The first field has no comma before it.
    return _wrapped(array, "", pc.binary_replace_slice(texts, 0, len(style.comma), "{"), "}")


def _union_texts(array: pa.StructArray, style: JsonStyle, members: tuple[AvroType, ...]) -> Array:
    """A union of several types is a struct with a field for each type, of which one has the value."""
    texts = [_texts(child, style, member) for child, member in zip(array.flatten(), members, strict=True)]
    found: Array = pc.coalesce(*texts)
    return found


def _list_texts(array: Array, style: JsonStyle, avro: AvroType | None) -> Array:
    lengths = pc.list_value_length(array).fill_null(0).to_numpy().astype(np.int64)
    values: Array = cast("pa.ListArray[Any]", array).flatten()
    return _wrapped(array, "[", _joined_by_row(_texts(values, style, avro).fill_null("null"), lengths, style), "]")


def _map_texts(array: Array, style: JsonStyle, avro: AvroType | None) -> Array:
    maps = cast("pa.MapArray[Any, Any]", array)
    offsets = np.asarray(maps.offsets.to_numpy(), dtype=np.int64)
    lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), 0)
    entries = np.arange(int(lengths.sum())) + np.repeat(offsets[:-1] - (np.cumsum(lengths) - lengths), lengths)
    keys: Array = maps.keys.take(pa.array(entries, pa.int64())).cast(pa.string())
    order = style.entry_order(keys, lengths)
    keys, items = keys.take(pa.array(order, pa.int64())), maps.items.take(pa.array(entries[order], pa.int64()))
    values: Array = _texts(items, style, avro)
    values = values.fill_null("null") if style.keeps_nulls else values
    texts = joined(style.scalar(keys, None), style.colon, values)
    if texts.null_count:
        rows = np.repeat(np.arange(len(array)), lengths)
        kept = texts.is_valid().to_numpy(zero_copy_only=False)
        lengths = np.bincount(rows[kept], minlength=len(array))
        texts = texts.drop_null()
    return _wrapped(array, "{", _joined_by_row(texts, lengths, style), "}")


def _joined_by_row(texts: Array, lengths: Positions, style: JsonStyle) -> Array:
    """One text per row: the row's texts, as many as its length, joined by commas."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    lists: Any = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
    by_row: Any = pc.binary_join(lists, style.comma)
    return cast("Array", by_row)


def _wrapped(array: Array, before: str, texts: Array, after: str) -> Array:
    """The texts in brackets; null where the array is null."""
    whole: Array = joined(before, texts, after)
    return whole if array.null_count == 0 else pc.if_else(array.is_valid(), whole, pa.scalar(None, pa.string()))
