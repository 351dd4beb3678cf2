"""Proposes a schema history with column ids for a table that has none.

The proposed ids give the same rows as reading by name. A name keeps its id, even if it is dropped and added again, as
long as old values can be read as its new type. Changes that names do not determine are listed as ambiguities. The first
ids are the positions of a writer's columns; columns are optional if its Avro schema makes them so. The proposal is
written as Hudi's JSON, which ``schema.internal`` reads.

Source: ``AvroInternalSchemaConverter`` (first ids), ``TableChanges`` (later ids), ``SerDeHelper`` (JSON).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any

import pyarrow as pa

from hudi_bridge.common.display import html_of_properties, html_of_rows
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.schema.avro import NULL, AvroArray, AvroMap, AvroRecord, AvroType, AvroUnion, arrow_type
from hudi_bridge.schema.avro_types import variant_mark
from hudi_bridge.schema.difference import SchemaChange, child_path, is_readable_as, primitive_name, schema_changes
from hudi_bridge.schema.internal import (
    ArrayType,
    Field,
    FieldType,
    InternalSchema,
    MapType,
    RecordType,
    has_constant_ids,
    internal_from_arrow,
)

_MAX_DISTANCE = 1
"""How many common columns may lie between a dropped and an added one for a rename to be likely."""
_MAX_SIDESTEP = 8
"""How far apart a dropped and an added column may be among those that go and come at one place."""
_ROOT = -1
"""The parent id of top-level columns."""


def schema_history_json(versions: Sequence[InternalSchema]) -> str:
    """The text of a ``.schemacommit`` file; ``versions`` come oldest first.

    Raises:
        UnsupportedTableError: Hudi's InternalSchema does not have a type.
    """
    documents = [
        {"max_column_id": version.max_column_id, "version_id": version.version_id} | _record(version.fields)
        for version in reversed(versions)
    ]
    return json.dumps({"schemas": documents}, ensure_ascii=False, separators=(",", ":"))


def _record(fields: Sequence[Field]) -> dict[str, Any]:
    return {"type": "record", "fields": [_field(field) for field in fields]}


def _field(field: Field) -> dict[str, Any]:
    document = {"id": field.id, "name": field.name, "optional": field.optional, "type": _type(field.type)}
    return document if field.doc is None else document | {"doc": field.doc}


def _type(type_: FieldType) -> str | dict[str, Any]:
    match type_:
        case RecordType():
            return _record(type_.fields)
        case ArrayType():
            return {
                "type": "array",
                "element_id": type_.element_id,
                "element": _type(type_.element),
                "element_optional": type_.element_optional,
            }
        case MapType():
            return {
                "type": "map",
                "key_id": type_.key_id,
                "key": _type(type_.key),
                "value_id": type_.value_id,
                "value": _type(type_.value),
                "value_optional": type_.value_optional,
            }
        case _:
            return _primitive(type_)


def _primitive(type_: pa.DataType) -> str:
    name = primitive_name(type_)
    if name is None:
        raise UnsupportedTableError("type in a schema with column ids", str(type_), "types of Hudi's InternalSchema")
    return name


class SchemaAmbiguityKind(StrEnum):
    """What names do not determine."""

    RENAME_OR_NEW = "rename or new"
    SAME_OR_ANOTHER = "same or another"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaAmbiguity:
    """A change that may have been another one; ``str`` returns it as a sentence.

    ``instant`` is the instant of the newer version, ``before`` the path of the dropped field, ``after`` the path of the
    added one; for a field that came back, both are the same.

    Part of a ``SchemaProposal``.
    """

    kind: SchemaAmbiguityKind
    instant: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.kind is SchemaAmbiguityKind.RENAME_OR_NEW:
            return (
                f"{self.before} went and {self.after} came: could be a rename of {self.before} to {self.after}, "
                "or a drop and an add (proposed)"
            )
        return f"{self.after} came back: could be the same column (proposed), or another one of that name"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaProposal:
    """A proposed history, oldest version first; ``instants`` has the instant of each version.

    Made by ``HudiTable.propose_schema_history``.
    """

    instants: tuple[str, ...]
    versions: tuple[InternalSchema, ...]
    ambiguities: tuple[SchemaAmbiguity, ...]

    @property
    def changes(self) -> tuple[tuple[SchemaChange, ...], ...]:
        """The changes of each version, by the proposed ids; the first version has none."""
        changes = [schema_changes(before, after, by_id=True) for before, after in pairwise(self.versions)]
        return ((), *changes) if self.versions else ()

    def _repr_html_(self) -> str:
        header = ("in force from", "columns", "changes")
        rows = (
            (instant, len(version.fields), tuple(map(str, changes)))
            for instant, version, changes in zip(self.instants, self.versions, self.changes, strict=True)
        )
        properties = (("versions", f"{len(self.versions):,}"), ("ambiguous", tuple(map(str, self.ambiguities))))
        return html_of_properties("SchemaProposal", properties) + html_of_rows("Versions", header, rows)

    def to_json(self) -> str:
        """The history as Hudi keeps it in the files of ``.hoodie/.schema``."""
        return schema_history_json(self.versions)


def infer_schema_history(schemas: Iterable[tuple[str, InternalSchema]]) -> SchemaProposal:
    """A proposed history of a table.

    Args:
        schemas: instants with their schemas, oldest first. Ids in them are ignored, and so is a schema that equals
            the one before it.
    """
    instants: list[str] = []
    versions: list[InternalSchema] = []
    ids = _Ids()
    for instant, schema in schemas:
        record = RecordType(fields=schema.fields)
        ids.instant = instant
        fields = ids.record(record, _ROOT, "").fields
        if versions and versions[-1].fields == fields:
            continue
        version_id = int(instant) if versions else 0
        instants.append(instant)
        versions.append(InternalSchema(version_id=version_id, max_column_id=ids.max_id, fields=fields))
    return SchemaProposal(instants=tuple(instants), versions=tuple(versions), ambiguities=tuple(ids.ambiguities))


@dataclass(slots=True, kw_only=True)
class _Ids:
    """Assigns ids, and remembers the ones assigned so far.

    Attributes:
        instant: the instant of the current version.
        max_id: the last id that was assigned.
        previous: the fields of each record in the version before, by the id of its parent.
        named: the latest field of each name that a record ever had, by the id of its parent.
        inner: the ids of the elements, or of the keys and values, of each list and map, by the id of its parent.
        ambiguities: the ambiguities so far.

    The parent is the field, element or value whose type is the record, list or map.
    """

    instant: str = ""
    max_id: int = -1
    previous: dict[int, tuple[Field, ...]] = field(default_factory=dict)
    named: dict[int, dict[str, Field]] = field(default_factory=dict)
    inner: dict[int, tuple[int, ...]] = field(default_factory=dict)
    ambiguities: list[SchemaAmbiguity] = field(default_factory=list)

    def record(self, record: RecordType, parent: int, path: str) -> RecordType:
        """The record with ids; siblings get theirs before the fields within them."""
        named = self.named.setdefault(parent, {})
        before = self.previous.get(parent, ())
        ids = [self._id_of(new, named) for new in record.fields]
        fields = tuple(
            Field(
                id=id_,
                name=new.name,
                optional=new.optional,
                type=self._type(new.type, id_, child_path(path, new.name)),
                doc=new.doc,
            )
            for id_, new in zip(ids, record.fields, strict=True)
        )
        if before:
            self.ambiguities += _possible_renames(self.instant, before, fields, path, named)
            self.ambiguities += _returns(self.instant, before, fields, path, named)
        named.update((new.name, new) for new in fields)
        self.previous[parent] = fields
        return RecordType(fields=fields)

    def _id_of(self, new: Field, named: Mapping[str, Field]) -> int:
        old = named.get(new.name)
        return old.id if old is not None and is_readable_as(old.type, new.type) else self._next()

    def _type(self, type_: FieldType, parent: int, path: str) -> FieldType:
        match type_:
            case RecordType():
                return type_ if has_constant_ids(type_) else self.record(type_, parent, path)
            case ArrayType():
                (element_id,) = self._inner_ids(parent, 1)
                element = self._type(type_.element, element_id, child_path(path, "element"))
                return ArrayType(element_id=element_id, element=element, element_optional=type_.element_optional)
            case MapType():
                key_id, value_id = self._inner_ids(parent, 2)
                return MapType(
                    key_id=key_id,
                    key=type_.key,
                    value_id=value_id,
                    value=self._type(type_.value, value_id, child_path(path, "value")),
                    value_optional=type_.value_optional,
                )
            case _:
                return type_

    def _inner_ids(self, parent: int, count: int) -> tuple[int, ...]:
        """The ids of the elements of a list, or of the keys and values of a map."""
        if parent not in self.inner:
            self.inner[parent] = tuple(self._next() for _ in range(count))
        return self.inner[parent]

    def _next(self) -> int:
        self.max_id += 1
        return self.max_id


def _possible_renames(
    instant: str, before: Sequence[Field], after: Sequence[Field], path: str, named: Mapping[str, Field]
) -> Iterable[SchemaAmbiguity]:
    """The pairs of a dropped field and a new one that may be the same under another name."""
    common = {old.name for old in before} & {new.name for new in after}
    dropped, others = (_by_place(fields, common) for fields in (before, after))
    added = {
        index: [new for new in fields if new.name not in named or named[new.name].id != new.id]
        for index, fields in others.items()
    }
    for index, fields in dropped.items():
        for position, old in enumerate(fields):
            for new in _near(index, position, len(fields), added):
                if _may_be_same(old.type, new.type):
                    paths = child_path(path, old.name), child_path(path, new.name)
                    yield SchemaAmbiguity(
                        kind=SchemaAmbiguityKind.RENAME_OR_NEW, instant=instant, before=paths[0], after=paths[1]
                    )


def _near(index: int, position: int, count: int, added: Mapping[int, Sequence[Field]]) -> Iterable[Field]:
    """The added fields near one of the ``count`` fields that were dropped at a place, by its position among them.

    Positions are counted from the first and from the last one, because others may have gone or come at either end. Few
    fields come from each place, so that all columns may have other names without every pair of them being likely.
    """
    for other in range(index - _MAX_DISTANCE, index + _MAX_DISTANCE + 1):
        fields = added.get(other, ())
        if other < index:
            yield from fields[-_MAX_SIDESTEP:]
        elif other > index:
            yield from fields[:_MAX_SIDESTEP]
        else:
            positions = {
                near
                for same in (position, position + len(fields) - count)
                for near in range(same - _MAX_SIDESTEP, same + _MAX_SIDESTEP + 1)
            }
            yield from (fields[near] for near in sorted(positions) if 0 <= near < len(fields))


def _returns(
    instant: str, before: Sequence[Field], after: Sequence[Field], path: str, named: Mapping[str, Field]
) -> Iterable[SchemaAmbiguity]:
    """The fields that are back with their old id, having been absent from the version before."""
    names_before = {old.name for old in before}
    for new in after:
        if new.name not in names_before and new.name in named and named[new.name].id == new.id:
            column = child_path(path, new.name)
            yield SchemaAmbiguity(
                kind=SchemaAmbiguityKind.SAME_OR_ANOTHER, instant=instant, before=column, after=column
            )


def _may_be_same(old: FieldType, new: FieldType) -> bool:
    """Whether the types allow a rename; records must have a field in common."""
    if isinstance(old, RecordType) and isinstance(new, RecordType):
        common = {field.name for field in old.fields} & {field.name for field in new.fields}
        return bool(common) and is_readable_as(old, new)
    return is_readable_as(old, new)


def _by_place(fields: Sequence[Field], common: set[str]) -> Mapping[int, Sequence[Field]]:
    """The fields that are not in ``common``, by the number of common fields before them."""
    by_position: dict[int, list[Field]] = {}
    kept_before = 0
    for column in fields:
        if column.name in common:
            kept_before += 1
        else:
            by_position.setdefault(kept_before, []).append(column)
    return by_position


def writer_schema_from_avro(record: AvroRecord, leading: Sequence[str], trailing: Sequence[str]) -> InternalSchema:
    """The schema of a table, from the Avro schema of a writer; see ``writer_schema_from_arrow``.

    Raises:
        UnsupportedTableError: a decimal has more digits than any Arrow type.
    """
    return writer_schema_from_arrow(
        pa.schema([_arrow_field(field.name, field.type) for field in record.fields]), leading, trailing
    )


def writer_schema_from_arrow(schema: pa.Schema, leading: Sequence[str], trailing: Sequence[str]) -> InternalSchema:
    """The schema of a table, from the columns of a writer.

    A writer may leave out meta fields and partition columns; they are added as strings.

    Args:
        schema: the writer's columns.
        leading: the meta fields, which come first.
        trailing: the partition columns that the writer drops, which come last.
    """
    first = [pa.field(name, pa.string()) for name in leading]
    last = [pa.field(name, pa.string()) for name in trailing if name not in schema.names]
    data = (field for field in schema if field.name not in leading)
    return internal_from_arrow(pa.schema([*first, *data, *last]))


def _arrow_field(name: str, avro: AvroType) -> "pa.Field[Any]":
    type_, nullable = _arrow_type(avro)
    return pa.field(name, type_, nullable, metadata=variant_mark(avro))


def _arrow_type(avro: AvroType) -> tuple[Any, bool]:
    """The Arrow type, and whether the value may be null."""
    match avro:
        case AvroUnion():
            members = avro.members
            type_ = _arrow_type(members[0])[0] if len(members) == 1 else arrow_type(avro)
            return type_, NULL in avro.branches
        case AvroRecord():
            return pa.struct([_arrow_field(field.name, field.type) for field in avro.fields]), False
        case AvroArray():
            return pa.list_(_arrow_field("element", avro.items)), False
        case AvroMap():
            return pa.map_(pa.string(), _arrow_field("value", avro.values)), False
        case _:
            return arrow_type(avro), avro == NULL
