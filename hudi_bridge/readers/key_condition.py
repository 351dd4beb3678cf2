"""The record keys that a filter allows, so that a read may look them up.

A filter names them by ``_hoodie_record_key``, or by the record key fields where the key generator copies their values
into the key: one field as ``value`` or, in some releases, as ``field:value``; several as ``field:value,field:value``.

Source: ``KeyGenUtils.getRecordKey`` and ``ComplexAvroKeyGenerator`` of Hudi.
"""

from collections.abc import Iterable, Mapping
from itertools import product
from math import prod
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import TableConfig
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.arrays import Column
from hudi_bridge.readers.filter_values import allowed_values
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.splits.split import ReadContext

RecordKey: TypeAlias = str | int | Mapping[str, str | int | None]
"""A record key as text, the whole number of a key of one field, or the values of all record key fields."""
MOST_KEYS = 100_000
"""A filter with more keys is read as any other filter."""

_NULL_PART = "__null__"
_EMPTY_PART = "__empty__"


def keys_of_filter(row_filter: pc.Expression | None, context: ReadContext) -> "Column | None":
    """The record keys among which is that of every row passing the filter; None if it does not name any.

    They are texts, and may include keys of which the table has no rows.
    """
    if row_filter is None:
        return None
    by_meta_column, by_fields = _by_meta_column(row_filter, context), _by_fields(row_filter, context)
    found = by_fields if by_meta_column is None else by_meta_column
    return None if found is None else text_column(found)


def text_column(keys: Iterable[str]) -> Column:
    """Record keys as a column.

    Raises:
        QueryError: a key is no Unicode text.
    """
    try:
        return pa.array(sorted(keys), pa.string())
    except UnicodeEncodeError as error:
        raise QueryError("keys", ascii(error.object), "Unicode text") from error


def spellings_of(keys: RecordKey | Iterable[RecordKey], context: ReadContext | TableConfig) -> Column:
    """The ways to write one key, or each of some, as in ``_hoodie_record_key``, as a column.

    Raises:
        QueryError: a key does not fit the record key fields, or is no Unicode text.
    """
    given = [keys] if isinstance(keys, str | int | Mapping) else keys
    return text_column({text for key in given for text in spelled_keys(key, context)})


def spelled_keys(key: object, context: ReadContext | TableConfig) -> tuple[str, ...]:
    """The ways to write a key as in ``_hoodie_record_key``; a record has one of them.

    ``key`` is the record key as text, the whole number of a key of one field, or a mapping with the values of all
    record key fields.

    Raises:
        QueryError: the key does not fit the record key fields.
    """
    if isinstance(key, str):
        return (key,)
    names = context.record_key_fields
    if isinstance(key, int) and len(names) == 1:
        key = {names[0]: key}
    if not isinstance(key, Mapping) or not all(_is_part(value) for value in key.values()):
        raise QueryError("keys", repr(key), "texts as in _hoodie_record_key, or texts and numbers by record key field")
    if set(key) != set(names):
        raise QueryError("keys", f"fields {', '.join(map(str, key))}", f"record key fields {', '.join(names)}")
    return _spellings(names, tuple(_part(key[name], len(names)) for name in names), context)


def _by_meta_column(row_filter: pc.Expression, context: ReadContext) -> set[str] | None:
    if not context.populates_meta_fields:
        return None
    return _texts(allowed_values(row_filter, RECORD_KEY_COLUMN), pa.string())


def _by_fields(row_filter: pc.Expression, context: ReadContext) -> set[str] | None:
    if not context.fields_spell_keys:
        return None
    names = context.record_key_fields
    parts = []
    for name in names:
        texts = _texts(allowed_values(row_filter, name), context.schema.field(name).type)
        # Releases differ in how an empty text becomes part of a key.
        if texts is None or "" in texts:
            return None
        parts.append(texts)
    if prod(map(len, parts)) > MOST_KEYS:
        return None
    return {spelling for values in product(*parts) for spelling in _spellings(names, values, context)}


def _texts(values: "Column | None", column_type: pa.DataType) -> set[str] | None:
    """Distinct values as texts; None for values of types that might be written otherwise."""
    if values is None or len(values) > MOST_KEYS:
        return None
    if not len(values):
        return set()
    as_text = _is_text(values.type) and _is_text(column_type)
    as_number = pa.types.is_integer(values.type) and pa.types.is_integer(column_type)
    return set(map(str, values.to_pylist())) if as_text or as_number else None


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_part(value: object) -> bool:
    return value is None or (isinstance(value, str | int) and not isinstance(value, bool))


def _part(value: object, fields: int) -> str:
    if fields == 1:
        return str(value)
    return _NULL_PART if value is None else str(value) or _EMPTY_PART


def _spellings(names: tuple[str, ...], values: tuple[str, ...], context: ReadContext | TableConfig) -> tuple[str, ...]:
    named = ",".join(f"{name}:{value}" for name, value in zip(names, values, strict=True))
    if len(names) > 1:
        return (named,)
    return (values[0], named) if context.populates_meta_fields else values
