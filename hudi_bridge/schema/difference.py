"""Two versions of a table's schema -> what has changed from one to the other.

With column ids, a field is what its id says: under another name it is renamed, and a name that comes back with another
id is another field. Without, a field is what its name says, and no rename can be told from a drop and an add.

Fields are named by dotted paths, in Hudi's own words: ``s.x`` within a record, ``a.element`` and ``m.value`` within
lists and maps (``TableChanges`` of Hudi takes the same paths).
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from hudi_bridge.schema.avro_types import VECTOR_ELEMENTS
from hudi_bridge.schema.casts import ArrowType, plan_cast
from hudi_bridge.schema.internal import ArrayType, Field, FieldType, InternalSchema, MapType, RecordType

FIRST = "first"
"""The place before all its siblings."""


class ChangeKind(StrEnum):
    """What can happen to a field from one version to the next."""

    ADDED = "added"
    DROPPED = "dropped"
    RENAMED = "renamed"
    PROMOTED = "promoted"
    RETYPED = "retyped"
    MOVED = "moved"
    NULLABILITY = "nullability"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one field; ``str`` says it in a sentence.

    ``column`` is the field's path in the newer version, of a dropped field in the older one; ``id`` is None where
    fields go by name. ``before`` and ``after`` are the field's types, or what else has changed: paths of a rename,
    ``optional`` and ``required``, comments. ``place`` is ``FIRST`` or ``after x`` for a field that has moved or has
    been added elsewhere than at the end. A type is promoted if the older files' values can be read as the newer
    type, otherwise retyped.
    """

    kind: ChangeKind
    column: str
    id: int | None
    before: str | None = None
    after: str | None = None
    place: str | None = None

    def __str__(self) -> str:
        match self.kind:
            case ChangeKind.ADDED:
                return " ".join(filter(None, (f"added {self.column} {self.after}", self.place)))
            case ChangeKind.DROPPED:
                return f"dropped {self.column} {self.before}"
            case ChangeKind.RENAMED:
                return f"renamed {self.before} to {self.after}"
            case ChangeKind.PROMOTED | ChangeKind.RETYPED:
                return f"{self.kind} {self.column} from {self.before} to {self.after}"
            case ChangeKind.MOVED:
                return f"moved {self.column} {self.place}"
            case ChangeKind.NULLABILITY:
                return f"made {self.column} {self.after}"
            case ChangeKind.COMMENT:
                return f"changed the comment of {self.column} from {self.before!r} to {self.after!r}"


def schema_changes(before: InternalSchema, after: InternalSchema, *, by_id: bool) -> tuple[Change, ...]:
    """What has changed: of each record the dropped fields, then the others in their new order.

    ``by_id`` says whether the ids are the table's own. Moves are as few as explain the new order.
    """
    walk = _Walk(by_id=by_id)
    return tuple(walk.records(RecordType(fields=before.fields), RecordType(fields=after.fields), "", ""))


def type_name(type_: FieldType) -> str:
    """The type as Hudi spells it; of a record, list or map with all that is inside."""
    match type_:
        case RecordType():
            return f"record<{', '.join(f'{field.name} {type_name(field.type)}' for field in type_.fields)}>"
        case ArrayType():
            return f"array<{type_name(type_.element)}>"
        case MapType():
            return f"map<{type_name(type_.key)}, {type_name(type_.value)}>"
        case _:
            return primitive_name(type_) or str(type_)


def primitive_name(type_: ArrowType) -> str | None:
    """The name that Hudi has for a flat type, None where it has none."""
    if pa.types.is_dictionary(type_):
        return primitive_name(type_.value_type)
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision}, {type_.scale})" if type_.precision <= _MAX_PRECISION else None
    if pa.types.is_fixed_size_binary(type_):
        return f"fixed[{type_.byte_width}]"
    if pa.types.is_fixed_size_list(type_):
        element = next((name for name, kind in VECTOR_ELEMENTS.items() if kind == type_.value_type), None)
        return None if element is None else f"vector[{type_.list_size}, {element.upper()}, FIXED_BYTES]"
    return _NAMES.get(type_)


def can_become(source: FieldType, target: FieldType) -> bool:
    """Whether values of one type can be read as another; of records, whether the fields of the same names can."""
    match source, target:
        case RecordType(), RecordType():
            targets = {field.name: field.type for field in target.fields}
            common = (field for field in source.fields if field.name in targets)
            return all(can_become(field.type, targets[field.name]) for field in common)
        case ArrayType(), ArrayType():
            return can_become(source.element, target.element)
        case MapType(), MapType():
            return can_become(source.key, target.key) and can_become(source.value, target.value)
        case pa.DataType(), pa.DataType():
            return plan_cast(source, target, float_to_double_by_text=True) is not None
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """Goes through two types at once. Paths are those of the older and the newer version."""

    by_id: bool

    def records(self, before: RecordType, after: RecordType, old_path: str, new_path: str) -> Iterator[Change]:
        old = {self._identity(field): field for field in before.fields}
        kept = {self._identity(field) for field in after.fields}
        for identity, field in old.items():
            if identity not in kept:
                path = child_path(old_path, field.name)
                yield Change(kind=ChangeKind.DROPPED, column=path, id=self._id(field), before=type_name(field.type))
        moved = self._moved(before.fields, after.fields)
        for position, field in enumerate(after.fields):
            identity = self._identity(field)
            place = f"after {after.fields[position - 1].name}" if position else FIRST
            path = child_path(new_path, field.name)
            if identity not in old:
                yield Change(
                    kind=ChangeKind.ADDED,
                    column=path,
                    id=self._id(field),
                    after=type_name(field.type),
                    place=None if all(self._identity(other) not in old for other in after.fields[position:]) else place,
                )
                continue
            yield from self._field(old[identity], field, child_path(old_path, old[identity].name), path)
            if identity in moved:
                yield Change(kind=ChangeKind.MOVED, column=path, id=self._id(field), place=place)

    def _field(self, before: Field, after: Field, old_path: str, new_path: str) -> Iterator[Change]:
        id_ = self._id(after)
        if before.name != after.name:
            yield Change(kind=ChangeKind.RENAMED, column=new_path, id=id_, before=old_path, after=new_path)
        yield from self._types(before.type, after.type, old_path, new_path, id_)
        yield from _nullability(before.optional, after.optional, new_path, id_)
        if (before.doc or "") != (after.doc or ""):
            docs = before.doc or "", after.doc or ""
            yield Change(kind=ChangeKind.COMMENT, column=new_path, id=id_, before=docs[0], after=docs[1])

    def _types(
        self, before: FieldType, after: FieldType, old_path: str, new_path: str, id_: int | None
    ) -> Iterator[Change]:
        match before, after:
            case RecordType(), RecordType():
                yield from self.records(before, after, old_path, new_path)
            case ArrayType(), ArrayType():
                inner = after.element_id if self.by_id else None
                paths = child_path(old_path, "element"), child_path(new_path, "element")
                yield from self._types(before.element, after.element, *paths, inner)
                yield from _nullability(before.element_optional, after.element_optional, paths[1], inner)
            case MapType(), MapType():
                yield from self._maps(before, after, old_path, new_path)
            case _ if before != after:
                kind = ChangeKind.PROMOTED if can_become(before, after) else ChangeKind.RETYPED
                names = type_name(before), type_name(after)
                yield Change(kind=kind, column=new_path, id=id_, before=names[0], after=names[1])

    def _maps(self, before: MapType, after: MapType, old_path: str, new_path: str) -> Iterator[Change]:
        key_id, value_id = (after.key_id, after.value_id) if self.by_id else (None, None)
        keys = child_path(old_path, "key"), child_path(new_path, "key")
        values = child_path(old_path, "value"), child_path(new_path, "value")
        yield from self._types(before.key, after.key, *keys, key_id)
        yield from self._types(before.value, after.value, *values, value_id)
        yield from _nullability(before.value_optional, after.value_optional, values[1], value_id)

    def _moved(self, before: Sequence[Field], after: Sequence[Field]) -> set[int | str]:
        """The fields of both versions that are not where their siblings leave them."""
        places = {self._identity(field): place for place, field in enumerate(before)}
        common = [identity for identity in map(self._identity, after) if identity in places]
        resting = _longest_rise([places[identity] for identity in common])
        return {identity for identity in common if places[identity] not in resting}

    def _identity(self, field: Field) -> int | str:
        return field.id if self.by_id else field.name

    def _id(self, field: Field) -> int | None:
        return field.id if self.by_id else None


def child_path(path: str, name: str) -> str:
    """The path of a field within the field of a path, "" for the table itself."""
    return f"{path}.{name}" if path else name


def _nullability(was: bool, is_: bool, path: str, id_: int | None) -> Iterator[Change]:  # noqa: FBT001 - both are data
    if was != is_:
        words = [("required", "optional")[flag] for flag in (was, is_)]
        yield Change(kind=ChangeKind.NULLABILITY, column=path, id=id_, before=words[0], after=words[1])


def _longest_rise(places: Sequence[int]) -> set[int]:
    """The longest rising run that one gets by leaving places out; of several, the one that ends lowest."""
    ends: list[int] = []
    """For each length, the lowest place that a run of that length ends with."""
    previous: dict[int, int | None] = {}
    for place in places:
        length = bisect_left(ends, place)
        previous[place] = ends[length - 1] if length else None
        ends[length : length + 1] = [place]
    rise: set[int] = set()
    step = ends[-1] if ends else None
    while step is not None:
        rise.add(step)
        step = previous[step]
    return rise


_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.time64("us"): "time",
    pa.time32("ms"): "time_millis",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("ms", "UTC"): "timestamp_millis",
    pa.timestamp("ms"): "local_timestamp_millis",
    pa.timestamp("us"): "local_timestamp_micros",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
}

_MAX_PRECISION = 38
