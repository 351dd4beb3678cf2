"""Plain schemas of a table, one after another -> a proposed history with column ids.

A table written without schema-on-read is read by name. The proposed ids say the same thing: a name keeps its id as long
as old values can be read as its new type, also over a time in which it is not there; otherwise it gets a new one. What
names alone cannot tell is listed beside it: a column that goes while another comes may have been renamed, and one that
comes back may be another one.

First ids are given by position as ``AvroInternalSchemaConverter`` does, later ones as ``TableChanges`` does.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, count
from typing import Any

import pyarrow as pa

from hudi_bridge.schema.avro import (
    NULL,
    AvroArray,
    AvroMap,
    AvroRecord,
    AvroType,
    AvroUnion,
    arrow_type,
)
from hudi_bridge.schema.difference import can_become, child_path, type_name
from hudi_bridge.schema.internal import (
    ArrayType,
    Field,
    FieldType,
    InternalSchema,
    MapType,
    RecordType,
    internal_from_arrow,
)

_NEAR = 1
"""How many of the siblings that stay may lie between the places of a column that goes and of one that comes."""


class AmbiguityKind(StrEnum):
    """What names alone do not tell."""

    RENAME_OR_NEW = "rename or new"
    SAME_OR_ANOTHER = "same or another"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguity:
    """A step of the history that may have been another; ``str`` says it in a sentence.

    ``instant`` is that of the newer version, ``before`` the path of a field that went, ``after`` that of the one that
    came. Where a field came back, both are the same.
    """

    kind: AmbiguityKind
    instant: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.kind is AmbiguityKind.RENAME_OR_NEW:
            return (
                f"{self.before} went and {self.after} came: could be a rename of {self.before} to {self.after}, "
                "or a drop and an add (proposed)"
            )
        return f"{self.after} came back: could be the same column (proposed), or another one of that name"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaProposal:
    """A proposed history, oldest version first; ``instants`` are those that the versions came with."""

    instants: tuple[str, ...]
    versions: tuple[InternalSchema, ...]
    ambiguities: tuple[Ambiguity, ...]

    def to_json(self) -> str:
        """The history as Hudi keeps it in the files of ``.hoodie/.schema``."""
        return schema_history_json(self.versions)


def infer_schema_history(schemas: Iterable[tuple[str, InternalSchema]]) -> SchemaProposal:
    """A proposed history of a table.

    Args:
        schemas: instants with the schemas that came with them, oldest first; their own ids do not count, and a schema
            that is like the one before it is passed over.
    """
    instants: list[str] = []
    versions: list[InternalSchema] = []
    ids = _Ids()
    for instant, schema in schemas:
        record = RecordType(fields=schema.fields)
        ids.instant = instant
        fields = ids.record(record, _TABLE, "").fields
        if versions and versions[-1].fields == fields:
            continue
        version_id = int(instant) if versions else 0
        instants.append(instant)
        versions.append(InternalSchema(version_id=version_id, max_column_id=ids.greatest, fields=fields))
    return SchemaProposal(instants=tuple(instants), versions=tuple(versions), ambiguities=tuple(ids.ambiguities))


_TABLE = -1
"""Stands for the id of what holds the columns."""


@dataclass(slots=True, kw_only=True)
class _Ids:
    """Gives ids, and remembers which names had which.

    ``present`` holds the fields of a record in the version before, ``known`` all that a record ever had, both by the
    id of the field, element or value that is the record.
    """

    instant: str = ""
    greatest: int = -1
    present: dict[int, tuple[Field, ...]] = field(default_factory=dict)
    known: dict[int, dict[str, Field]] = field(default_factory=dict)
    inner: dict[int, tuple[int, ...]] = field(default_factory=dict)
    ambiguities: list[Ambiguity] = field(default_factory=list)

    def record(self, record: RecordType, holder: int, path: str) -> RecordType:
        """The record with ids: siblings before what is inside them."""
        known = self.known.setdefault(holder, {})
        was = self.present.get(holder, ())
        ids = [self._id_of(new, known) for new in record.fields]
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
        if was:
            self.ambiguities += _renames(self.instant, was, fields, path, known)
            self.ambiguities += _returns(self.instant, was, fields, path, known)
        known.update((one.name, one) for one in fields)
        self.present[holder] = fields
        return RecordType(fields=fields)

    def _id_of(self, new: Field, known: dict[str, Field]) -> int:
        old = known.get(new.name)
        return old.id if old is not None and can_become(old.type, new.type) else self._next()

    def _type(self, type_: FieldType, holder: int, path: str) -> FieldType:
        match type_:
            case RecordType():
                return self.record(type_, holder, path)
            case ArrayType():
                (element_id,) = self._inner_ids(holder, 1)
                element = self._type(type_.element, element_id, child_path(path, "element"))
                return ArrayType(element_id=element_id, element=element, element_optional=type_.element_optional)
            case MapType():
                key_id, value_id = self._inner_ids(holder, 2)
                return MapType(
                    key_id=key_id,
                    key=type_.key,
                    value_id=value_id,
                    value=self._type(type_.value, value_id, child_path(path, "value")),
                    value_optional=type_.value_optional,
                )
            case _:
                return type_

    def _inner_ids(self, holder: int, number: int) -> tuple[int, ...]:
        """The ids of the elements of a list, or of the keys and values of a map."""
        if holder not in self.inner:
            self.inner[holder] = tuple(self._next() for _ in range(number))
        return self.inner[holder]

    def _next(self) -> int:
        self.greatest += 1
        return self.greatest


def _renames(
    instant: str, before: Sequence[Field], after: Sequence[Field], path: str, known: dict[str, Field]
) -> Iterable[Ambiguity]:
    """The pairs of a field that went and a new one that may be the same under another name."""
    stay = {one.name for one in before} & {one.name for one in after}
    for old_place, old in _places(before, stay):
        for new_place, new in _places(after, stay):
            is_new = new.name not in known
            if is_new and abs(old_place - new_place) <= _NEAR and can_become(old.type, new.type):
                paths = child_path(path, old.name), child_path(path, new.name)
                yield Ambiguity(kind=AmbiguityKind.RENAME_OR_NEW, instant=instant, before=paths[0], after=paths[1])


def _returns(
    instant: str, before: Sequence[Field], after: Sequence[Field], path: str, known: dict[str, Field]
) -> Iterable[Ambiguity]:
    """The fields that have got an id that was theirs before the last version."""
    were = {one.name for one in before}
    for new in after:
        if new.name not in were and new.name in known and known[new.name].id == new.id:
            place = child_path(path, new.name)
            yield Ambiguity(kind=AmbiguityKind.SAME_OR_ANOTHER, instant=instant, before=place, after=place)


def _places(fields: Sequence[Field], stay: set[str]) -> Iterable[tuple[int, Field]]:
    """The fields that do not stay, each with the number of those before it that do."""
    staying = 0
    for one in fields:
        if one.name in stay:
            staying += 1
        else:
            yield staying, one


def plain_schema(leading: Iterable[str], record: AvroRecord) -> InternalSchema:
    """The columns of a writer's schema after some text columns, which it may have as well; ids are by position.

    Raises:
        UnsupportedTableError: a decimal has more digits than any Arrow type.
    """
    texts = tuple(leading)
    own = (_nullable_field(one.name, one.type) for one in record.fields if one.name not in texts)
    return internal_from_arrow(pa.schema(chain((pa.field(name, pa.string()) for name in texts), own)))


def _nullable_field(name: str, avro: AvroType) -> "pa.Field[Any]":
    type_, nullable = _nullable_type(avro)
    return pa.field(name, type_, nullable)


def _nullable_type(avro: AvroType) -> tuple[Any, bool]:
    """The Arrow type with what Avro says about nulls inside, and whether the value itself may be null."""
    match avro:
        case AvroUnion():
            members = avro.members
            inner = _nullable_type(members[0])[0] if len(members) == 1 else arrow_type(avro)
            return inner, NULL in avro.branches
        case AvroRecord():
            return pa.struct([_nullable_field(one.name, one.type) for one in avro.fields]), False
        case AvroArray():
            return pa.list_(_nullable_field("element", avro.items)), False
        case AvroMap():
            return pa.map_(pa.string(), _nullable_field("value", avro.values)), False
        case _:
            return arrow_type(avro), avro == NULL


def schema_history_json(versions: Sequence[InternalSchema]) -> str:
    """A history, oldest version first, as Hudi keeps it (``SerDeHelper``)."""
    documents = [
        {
            "max_column_id": version.max_column_id,
            "version_id": version.version_id,
            **_document(RecordType(fields=version.fields)),
        }
        for version in reversed(versions)
    ]
    return json.dumps({"schemas": documents}, ensure_ascii=False, separators=(",", ":"))


def _document(type_: RecordType | ArrayType | MapType) -> dict[str, Any]:
    match type_:
        case RecordType():
            return {"type": "record", "fields": [_field_document(one) for one in type_.fields]}
        case ArrayType():
            return {
                "type": "array",
                "element_id": type_.element_id,
                "element": _type_document(type_.element),
                "element_optional": type_.element_optional,
            }
        case MapType():
            return {
                "type": "map",
                "key_id": type_.key_id,
                "key": _type_document(type_.key),
                "value_id": type_.value_id,
                "value": _type_document(type_.value),
                "value_optional": type_.value_optional,
            }


def _field_document(one: Field) -> dict[str, Any]:
    document = {"id": one.id, "name": one.name, "optional": one.optional, "type": _type_document(one.type)}
    return document if one.doc is None else document | {"doc": one.doc}


def _type_document(type_: FieldType) -> str | dict[str, Any]:
    return _document(type_) if isinstance(type_, RecordType | ArrayType | MapType) else type_name(type_)


# ``count`` numbers ids elsewhere; here they outlive a schema.
__all__ = [
    "Ambiguity",
    "AmbiguityKind",
    "SchemaProposal",
    "infer_schema_history",
    "plain_schema",
    "schema_history_json",
]
