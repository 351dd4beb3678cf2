"""The ids that Hudi gives to columns, in each version of a table's schema.

Source: ``InternalSchema`` of Hudi.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from hudi_bridge.schema.difference import child_path
from hudi_bridge.schema.internal import (
    ArrayType,
    Field,
    FieldType,
    MapType,
    RecordType,
    parse_internal_schema,
    parse_schema_history,
)
from hudi_bridge.splits.split import ReadContext

_PLACE = ".hoodie/.schema"

ColumnIds: TypeAlias = Mapping[str, int]
"""Ids by dotted paths; what is inside a list is its ``element``, inside a map its ``key`` and ``value``."""


def column_ids(context: ReadContext) -> tuple[ColumnIds, ...]:
    """The ids of all columns, and of the fields within them: in the query's schema, then in each earlier version of it.

    Nothing for a table that keeps no history of its schema, where columns are known by their names.

    Raises:
        CorruptTimelineError: the schema is not Hudi's JSON.
    """
    if context.schema_ids is None or context.schema_history is None:
        return ()
    current = parse_internal_schema(context.schema_ids, _PLACE)
    history = parse_schema_history(context.schema_history, _PLACE)
    earlier = (version for version in history if version.version_id < current.version_id)
    return tuple(dict(_ids(version.fields, "")) for version in (current, *earlier))


def _ids(fields: tuple[Field, ...], parent: str) -> Iterator[tuple[str, int]]:
    for field in fields:
        path = child_path(parent, field.name)
        yield path, field.id
        yield from _inner_ids(field.type, path)


def _inner_ids(kind: FieldType, path: str) -> Iterator[tuple[str, int]]:
    match kind:
        case RecordType():
            yield from _ids(kind.fields, path)
        case ArrayType():
            inside = child_path(path, "element")
            yield inside, kind.element_id
            yield from _inner_ids(kind.element, inside)
        case MapType():
            key, value = child_path(path, "key"), child_path(path, "value")
            yield key, kind.key_id
            yield value, kind.value_id
            yield from _inner_ids(kind.key, key)
            yield from _inner_ids(kind.value, value)
