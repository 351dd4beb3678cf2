"""Plain schemas of a table, one after another -> a proposed history with column ids.

A table written without schema-on-read is read by name. The proposed ids say the same thing: a name keeps its id as long
as old values can be read as its new type, also over a time in which it is not there; otherwise it gets a new one. What
names alone cannot tell is listed beside it: a column that goes while another comes may have been renamed, and one that
comes back may be another one.

First ids are given by position as ``AvroInternalSchemaConverter`` does, later ones as ``TableChanges`` does.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from hudi_bridge.schema.difference import Change, can_become, child_path, schema_changes
from hudi_bridge.schema.internal import ArrayType, Field, FieldType, InternalSchema, MapType, RecordType
from hudi_bridge.schema.internal_json import schema_history_json

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

    @property
    def changes(self) -> tuple[tuple[Change, ...], ...]:
        """What each version has changed, by the proposed ids; the first one nothing."""
        changes = [schema_changes(before, after, by_id=True) for before, after in pairwise(self.versions)]
        return ((), *changes) if self.versions else ()

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

    ``present`` holds the fields of a record in the version before, ``known`` the last of each name that a record ever
    had, ``inner`` the ids of elements, or of keys and values: all by the id of the field, element or value that is the
    record, list or map.
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

    def _id_of(self, new: Field, known: Mapping[str, Field]) -> int:
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
    instant: str, before: Sequence[Field], after: Sequence[Field], path: str, known: Mapping[str, Field]
) -> Iterable[Ambiguity]:
    """The pairs of a field that went and a new one that may be the same under another name."""
    stay = {one.name for one in before} & {one.name for one in after}
    for old_place, old in _places(before, stay):
        for new_place, new in _places(after, stay):
            is_new = new.name not in known or known[new.name].id != new.id
            if is_new and abs(old_place - new_place) <= _NEAR and _looks_like(old.type, new.type):
                paths = child_path(path, old.name), child_path(path, new.name)
                yield Ambiguity(kind=AmbiguityKind.RENAME_OR_NEW, instant=instant, before=paths[0], after=paths[1])


def _returns(
    instant: str, before: Sequence[Field], after: Sequence[Field], path: str, known: Mapping[str, Field]
) -> Iterable[Ambiguity]:
    """The fields that have got an id that was theirs before the last version."""
    were = {one.name for one in before}
    for new in after:
        if new.name not in were and new.name in known and known[new.name].id == new.id:
            place = child_path(path, new.name)
            yield Ambiguity(kind=AmbiguityKind.SAME_OR_ANOTHER, instant=instant, before=place, after=place)


def _looks_like(old: FieldType, new: FieldType) -> bool:
    """Whether a field of one type may have become one of the other; of records, those that have a field in common."""
    if isinstance(old, RecordType) and isinstance(new, RecordType):
        return bool({one.name for one in old.fields} & {one.name for one in new.fields}) and can_become(old, new)
    return can_become(old, new)


def _places(fields: Sequence[Field], stay: set[str]) -> Iterable[tuple[int, Field]]:
    """The fields that do not stay, each with the number of those before it that do."""
    staying = 0
    for one in fields:
        if one.name in stay:
            staying += 1
        else:
            yield staying, one
