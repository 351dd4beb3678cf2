"""Name mappings, which give field ids to the columns of files that have none.

A mapping is for the whole table: a name that two columns have had means the one that has it now.

Source: the Iceberg specification, "Column Projection" and "Name Mapping Serialization".
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TypeAlias

from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from hudi_bridge.engines import child_path

Ids: TypeAlias = Mapping[str, int]
"""Ids by dotted path; lists contain ``element``, maps contain ``key`` and ``value``."""


def map_names(schema: Schema, earlier: Sequence[Ids]) -> NameMapping:
    """The mapping of a schema; columns keep names of ``earlier`` versions that no other column has.

    Names that differ in nothing but case count as one, since Trino refuses a mapping with both.
    """
    return NameMapping(_mapped_siblings(schema.fields, earlier))


def _mapped_siblings(fields: Sequence[NestedField], earlier: Sequence[Ids]) -> list[MappedField]:
    taken = {field.name.lower() for field in fields}
    mapped = []
    for field in fields:
        names = [field.name]
        for version in earlier:
            for former in (path.rpartition(".")[2] for path, id_ in version.items() if id_ == field.field_id):
                if former.lower() not in taken:
                    taken.add(former.lower())
                    names.append(former)
        inner = _mapped_siblings(_inner_fields(field.field_type), earlier)
        mapped.append(_field(field.field_id, names, inner))
    return mapped


def _inner_fields(kind: IcebergType) -> tuple[NestedField, ...]:
    match kind:
        case StructType():
            return kind.fields
        case ListType():
            return (kind.element_field,)
        case MapType():
            return kind.key_field, kind.value_field
        case _:
            return ()


def names_to_ids(mapping: NameMapping, schema: Schema) -> Ids:
    """The ids of the mapping by dotted path, without those that the schema does not have."""
    return {path: id_ for path, id_ in _iter_names(mapping.root, "") if id_ in schema.field_ids}


def mapped_ids(mapping: NameMapping) -> set[int]:
    """All ids of the mapping."""
    return {id_ for _, id_ in _iter_names(mapping.root, "")}


def _iter_names(fields: list[MappedField], parent: str) -> Iterator[tuple[str, int]]:
    for field in fields:
        for name in field.names:
            path = child_path(parent, name)
            if field.field_id is not None:
                yield path, field.field_id
            yield from _iter_names(field.fields, path)


def complete(mapping: NameMapping, paths: Mapping[str, int | None], first_id: int) -> NameMapping:
    """The mapping with those of ``paths`` that it lacks.

    A path whose id is None gets a new one, from ``first_id`` on: some clients refuse files with columns that are not in
    the mapping.
    """
    completed = mapping.model_copy(deep=True)
    new_ids = count(first_id)
    known = dict(_iter_names(completed.root, ""))
    for path in sorted(paths, key=lambda one: one.count(".")):
        if path not in known:
            id_ = paths[path]
            known[path] = next(new_ids) if id_ is None else id_
            siblings = _inside(completed.root, path.split(".")[:-1])
            siblings.append(_field(known[path], [path.rpartition(".")[2]], []))
    return completed


def _inside(fields: list[MappedField], parents: Sequence[str]) -> list[MappedField]:
    for name in parents:
        fields = next(field.fields for field in fields if name in field.names)
    return fields


def _field(id_: int, names: list[str], fields: list[MappedField]) -> MappedField:
    return MappedField.model_validate({"field-id": id_, "names": names, "fields": fields})
