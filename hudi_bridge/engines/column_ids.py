"""The ids that Hudi gives to columns, in each version of a table's schema.

Source: ``InternalSchema`` of Hudi.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from hudi_bridge.readers.split_columns import schema_versions
from hudi_bridge.schema.difference import child_path
from hudi_bridge.schema.internal import (
    ArrayType,
    Field,
    FieldType,
    MapType,
    RecordType,
)
from hudi_bridge.splits.split import ReadContext

ColumnIds: TypeAlias = Mapping[str, int]
"""Ids by dotted path, with ``element`` for the items of a list, ``key`` and ``value`` for those of a map."""


def column_ids(context: ReadContext) -> tuple[ColumnIds, ...]:
    """The ids of all columns and nested fields: those of the query's schema, then those of each earlier version.

    Empty for a table without a schema history, whose columns are matched by name.

    Raises:
        CorruptTimelineError: the schema is not Hudi's JSON.
    """
    versions = schema_versions(context)
    if versions is None:
        return ()
    current, history = versions
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
            element = child_path(path, "element")
            yield element, kind.element_id
            yield from _inner_ids(kind.element, element)
        case MapType():
            key, value = child_path(path, "key"), child_path(path, "value")
            yield key, kind.key_id
            yield value, kind.value_id
            yield from _inner_ids(kind.key, key)
            yield from _inner_ids(kind.value, value)
