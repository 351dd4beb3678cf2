"""Compares two versions of a table's schema.

Fields are matched by column id, or by name if there are no ids. By name, a rename looks like a drop and an add.
Paths are as in ``TableChanges``: ``s.x`` in a record, ``a.element`` and ``m.value`` in lists and maps.
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
"""The place of a field before all its siblings."""
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


class SchemaChangeKind(StrEnum):
    """How a field can change from one version to the next."""

    ADDED = "added"
    DROPPED = "dropped"
    RENAMED = "renamed"
    PROMOTED = "promoted"
    RETYPED = "retyped"
    MOVED = "moved"
    NULLABILITY = "nullability"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """One change of one field; ``str`` gives it as a sentence.

    Part of a ``SchemaVersion``.

    Attributes:
        kind: what has changed. A type is promoted if older values can be read as the newer type, otherwise retyped.
        column: the path of the field in the newer version, or in the older one if it was dropped.
        id: the column id; None if fields are matched by name.
        before: the old type; or the old path of a rename, ``optional`` or ``required``, or the old comment.
        after: the same in the newer version.
        place: ``FIRST`` or ``after x``, for a field that was moved, or was added anywhere but at the end.
    """

    kind: SchemaChangeKind
    column: str
    id: int | None
    before: str | None = None
    after: str | None = None
    place: str | None = None

    def __str__(self) -> str:
        match self.kind:
            case SchemaChangeKind.ADDED:
                return " ".join(filter(None, (f"added {self.column} {self.after}", self.place)))
            case SchemaChangeKind.DROPPED:
                return f"dropped {self.column} {self.before}"
            case SchemaChangeKind.RENAMED:
                return f"renamed {self.before} to {self.after}"
            case SchemaChangeKind.PROMOTED | SchemaChangeKind.RETYPED:
                return f"{self.kind} {self.column} from {self.before} to {self.after}"
            case SchemaChangeKind.MOVED:
                return f"moved {self.column} {self.place}"
            case SchemaChangeKind.NULLABILITY:
                return f"made {self.column} {self.after}"
            case SchemaChangeKind.COMMENT:
                return f"changed the comment of {self.column} from {self.before!r} to {self.after!r}"


def schema_changes(before: InternalSchema, after: InternalSchema, *, by_id: bool) -> tuple[SchemaChange, ...]:
    """The changes: for each record its dropped fields, then the others in their new order.

    ``by_id`` is whether the schemas have the ids of the table. The fewest moves that explain the new order are listed.
    """
    walk = _Walk(by_id=by_id)
    return tuple(walk.records(RecordType(fields=before.fields), RecordType(fields=after.fields), "", ""))


def type_name(type_: FieldType) -> str:
    """The type as Hudi spells it, nested types in full."""
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
    """Hudi's name for a flat type, None if it has none."""
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


def is_readable_as(source: FieldType, target: FieldType) -> bool:
    """Whether values of one type can be read as another; for records, whether the fields of the same names can."""
    match source, target:
        case RecordType(), RecordType():
            targets = {field.name: field.type for field in target.fields}
            common = (field for field in source.fields if field.name in targets)
            return all(is_readable_as(field.type, targets[field.name]) for field in common)
        case ArrayType(), ArrayType():
            return is_readable_as(source.element, target.element)
        case MapType(), MapType():
            return is_readable_as(source.key, target.key) and is_readable_as(source.value, target.value)
        case pa.DataType(), pa.DataType():
            return plan_cast(source, target, float_to_double_by_text=True) is not None
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """Walks two types at once; ``old_path`` and ``new_path`` lead to them in the older and the newer version."""

    by_id: bool

    def records(self, before: RecordType, after: RecordType, old_path: str, new_path: str) -> Iterator[SchemaChange]:
        old = {self._identity(field): field for field in before.fields}
        identities = {self._identity(field) for field in after.fields}
        for identity, field in old.items():
            if identity not in identities:
                path = child_path(old_path, field.name)
                yield SchemaChange(
                    kind=SchemaChangeKind.DROPPED, column=path, id=self._id(field), before=type_name(field.type)
                )
        moved = self._moved(before.fields, after.fields)
        for position, field in enumerate(after.fields):
            identity = self._identity(field)
            position_text = f"after {after.fields[position - 1].name}" if position else FIRST
            path = child_path(new_path, field.name)
            if identity not in old:
                yield SchemaChange(
                    kind=SchemaChangeKind.ADDED,
                    column=path,
                    id=self._id(field),
                    after=type_name(field.type),
                    place=None
                    if all(self._identity(other) not in old for other in after.fields[position:])
                    else position_text,
                )
                continue
            yield from self._field(old[identity], field, child_path(old_path, old[identity].name), path)
            if identity in moved:
                yield SchemaChange(kind=SchemaChangeKind.MOVED, column=path, id=self._id(field), place=position_text)

    def _field(self, before: Field, after: Field, old_path: str, new_path: str) -> Iterator[SchemaChange]:
        id_ = self._id(after)
        if before.name != after.name:
            yield SchemaChange(kind=SchemaChangeKind.RENAMED, column=new_path, id=id_, before=old_path, after=new_path)
        yield from self._types(before.type, after.type, old_path, new_path, id_)
        yield from _nullability(before.optional, after.optional, new_path, id_)
        if (before.doc or "") != (after.doc or ""):
            docs = before.doc or "", after.doc or ""
            yield SchemaChange(kind=SchemaChangeKind.COMMENT, column=new_path, id=id_, before=docs[0], after=docs[1])

    def _types(
        self, before: FieldType, after: FieldType, old_path: str, new_path: str, id_: int | None
    ) -> Iterator[SchemaChange]:
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
                kind = SchemaChangeKind.PROMOTED if is_readable_as(before, after) else SchemaChangeKind.RETYPED
                names = type_name(before), type_name(after)
                yield SchemaChange(kind=kind, column=new_path, id=id_, before=names[0], after=names[1])

    def _maps(self, before: MapType, after: MapType, old_path: str, new_path: str) -> Iterator[SchemaChange]:
        key_id, value_id = (after.key_id, after.value_id) if self.by_id else (None, None)
        keys = child_path(old_path, "key"), child_path(new_path, "key")
        values = child_path(old_path, "value"), child_path(new_path, "value")
        yield from self._types(before.key, after.key, *keys, key_id)
        yield from self._types(before.value, after.value, *values, value_id)
        yield from _nullability(before.value_optional, after.value_optional, values[1], value_id)

    def _moved(self, before: Sequence[Field], after: Sequence[Field]) -> set[int | str]:
        """The smallest set of fields whose moves explain the order of the fields of both versions."""
        positions = {self._identity(field): position for position, field in enumerate(before)}
        common = [identity for identity in map(self._identity, after) if identity in positions]
        unmoved = _longest_increasing([positions[identity] for identity in common])
        return {identity for identity in common if positions[identity] not in unmoved}

    def _identity(self, field: Field) -> int | str:
        return field.id if self.by_id else field.name

    def _id(self, field: Field) -> int | None:
        return field.id if self.by_id else None


def child_path(path: str, name: str) -> str:
    """The path of a field within the record at ``path``, which is "" for the table itself."""
    return f"{path}.{name}" if path else name


def _nullability(before: bool, after: bool, path: str, id_: int | None) -> Iterator[SchemaChange]:  # noqa: FBT001 - data
    if before != after:
        words = [("required", "optional")[is_optional] for is_optional in (before, after)]
        yield SchemaChange(kind=SchemaChangeKind.NULLABILITY, column=path, id=id_, before=words[0], after=words[1])


def _longest_increasing(positions: Sequence[int]) -> set[int]:
    """The longest increasing subsequence; of several, the one with the lowest end."""
    ends: list[int] = []
    """For each length, the lowest end of an increasing subsequence of that length."""
    previous: dict[int, int | None] = {}
    for position in positions:
        length = bisect_left(ends, position)
        previous[position] = ends[length - 1] if length else None
        ends[length : length + 1] = [position]
    longest: set[int] = set()
    step = ends[-1] if ends else None
    while step is not None:
        longest.add(step)
        step = previous[step]
    return longest
