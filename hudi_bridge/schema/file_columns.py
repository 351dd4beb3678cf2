"""A file's columns and a query's -> for each of them, where it comes from or why it is not read.

Every step is asked of ``plan_evolution``, which the readers use, one level of nesting at a time.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import pyarrow as pa

from hudi_bridge.errors import SchemaEvolutionError
from hudi_bridge.schema.casts import ArrowType
from hudi_bridge.schema.difference import child_path, primitive_name
from hudi_bridge.schema.evolve import FloatsByText, plan_evolution
from hudi_bridge.schema.internal import ArrayType, Field, FieldType, InternalSchema, MapType, RecordType


class Outcome(StrEnum):
    """What becomes of a column."""

    READ = "as is"
    CAST = "cast"
    CHANGED_INSIDE = "changed inside"
    ADDED_LATER = "null: added later"
    ANOTHER_COLUMN = "null: same name, but another column (dropped and added again)"
    MISSING = "null: not in the file"
    FROM_PATH = "from the partition path"
    DROPPED = "not read: dropped"
    NOT_IN_QUERY = "not read: not in the query"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """How one column, or field within one, stands in a file and in a query; ``str`` says what happens.

    ``column`` and ``file_column`` are dotted paths, None where there is no such column; types are in Hudi's words,
    of nested columns without what is inside, which has mappings of its own. ``id`` is None where columns go by name.
    """

    column: str | None
    id: int | None
    file_column: str | None
    file_type: str | None
    query_type: str | None
    outcome: Outcome

    @property
    def is_renamed(self) -> bool:
        """Whether the file has the column under another name."""
        if self.column is None or self.file_column is None:
            return False
        return self.column.rpartition(".")[2].lower() != self.file_column.rpartition(".")[2].lower()

    def __str__(self) -> str:
        words = ["renamed"] if self.is_renamed else []
        if self.outcome is Outcome.CAST:
            words.append(f"cast {self.file_type} to {self.query_type}")
        elif self.outcome is Outcome.REFUSED:
            words.append(f"refused: {self.file_type} cannot be read as {self.query_type}")
        elif self.outcome is not Outcome.READ or not words:
            words.append(str(self.outcome))
        return ", ".join(words)


def map_columns(
    file_schema: pa.Schema,
    query_schema: pa.Schema,
    *,
    file_ids: InternalSchema | None,
    query_ids: InternalSchema | None,
    path_columns: Sequence[str],
) -> tuple[ColumnMapping, ...]:
    """The query's columns in their order, each with the fields inside it; then the file's that are not read.

    Ids as for ``plan_evolution``. ``path_columns`` are read from the partition path and not from files.
    """
    ids: _Ids = None
    if file_ids is not None and query_ids is not None:
        ids = RecordType(fields=file_ids.fields), RecordType(fields=query_ids.fields)
    top = _Place(file_path="", path="", ids=ids)
    return tuple(_iter_mappings(list(file_schema), list(query_schema), top, path_columns))


# The records with ids of the file and of the query; None where fields go by name.
_Ids: TypeAlias = tuple[RecordType, RecordType] | None

_Fields: TypeAlias = "Sequence[pa.Field[ArrowType]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The record that the walk is in: its paths in the file and in the query, "" for the table itself, and the ids."""

    file_path: str
    path: str
    ids: _Ids


def _iter_mappings(
    stored: _Fields, wanted: _Fields, place: _Place, path_columns: Sequence[str] = ()
) -> Iterator[ColumnMapping]:
    """The mappings of a record's fields, and of all that is inside each."""
    read = set(path_columns)
    for field in wanted:
        known, own = _by_id(field.name, place.ids)
        column, id_ = child_path(place.path, field.name), own.id if own else None
        if field.name in path_columns:
            yield _not_in_file(column, id_, field, Outcome.FROM_PATH)
            continue
        try:
            source, is_same = _plan(stored, field, place.ids)
        except SchemaEvolutionError as error:
            read.add(known.name if known else field.name)
            yield _refused(place, id_, known, error)
            continue
        if source is None:
            yield _not_in_file(column, id_, field, _why_null(stored, field.name, own))
            continue
        read.add(source.name)
        ids = _inner_ids(known.type, own.type) if known and own else None
        inside = _Place(file_path=child_path(place.file_path, source.name), path=column, ids=ids)
        inner = tuple(_iter_mappings(_inner_fields(source.type), _inner_fields(field.type), inside))
        yield _read(source.type, field.type, id_, inside, _outcome(source.type, field.type, inner, is_same=is_same))
        yield from inner
    yield from (_not_read(place, field) for field in stored if field.name not in read)


def _plan(stored: _Fields, wanted: "pa.Field[ArrowType]", ids: _Ids) -> "tuple[pa.Field[ArrowType] | None, bool]":
    """The field of the file that a field of the query is, None without one, and whether it is right as it is."""
    file_ids, query_ids = map(_as_schema, ids) if ids is not None else (None, None)
    evolution = plan_evolution(
        pa.schema(stored),
        pa.schema([wanted]),
        file_ids=file_ids,
        query_ids=query_ids,
        path="",
        floats_by_text=FloatsByText.EVERYWHERE,
    )
    (column,) = evolution.columns
    if column.source is None:
        return None, False
    return next(field for field in stored if field.name == column.source), column.step is None


def _by_id(name: str, ids: _Ids) -> tuple[Field | None, Field | None]:
    """The file's field with the id of the query's field of that name, and the latter."""
    if ids is None:
        return None, None
    own = next((field for field in ids[1].fields if field.name == name), None)
    known = next((field for field in ids[0].fields if own is not None and field.id == own.id), None)
    return known, own


def _inner_fields(type_: ArrowType) -> _Fields:
    """What is inside a type, as the fields of a record."""
    if pa.types.is_struct(type_):
        return list(type_)
    if pa.types.is_map(type_):
        return [pa.field("key", type_.key_type), pa.field("value", type_.item_type)]
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [pa.field("element", type_.value_type)]
    return []


def _inner_ids(stored: FieldType, wanted: FieldType) -> _Ids:
    """The same with ids; elements, keys and values are the same on both sides, whatever their ids."""
    match stored, wanted:
        case RecordType(), RecordType():
            return stored, wanted
        case ArrayType(), ArrayType():
            elements = (("element", wanted.element_id),)
            return _record(elements, stored.element), _record(elements, wanted.element)
        case MapType(), MapType():
            entries = ("key", wanted.key_id), ("value", wanted.value_id)
            return _record(entries, stored.key, stored.value), _record(entries, wanted.key, wanted.value)
        case _:
            return None


def _record(ids: Iterable[tuple[str, int]], *types: FieldType) -> RecordType:
    fields = (
        Field(id=id_, name=name, optional=True, type=type_) for (name, id_), type_ in zip(ids, types, strict=True)
    )
    return RecordType(fields=tuple(fields))


def _as_schema(record: RecordType) -> InternalSchema:
    return InternalSchema(version_id=0, max_column_id=0, fields=record.fields)


def _why_null(stored: _Fields, name: str, own: Field | None) -> Outcome:
    if own is None:
        return Outcome.MISSING
    return Outcome.ANOTHER_COLUMN if any(field.name == name for field in stored) else Outcome.ADDED_LATER


def _outcome(source: ArrowType, target: ArrowType, inner: Sequence[ColumnMapping], *, is_same: bool) -> Outcome:
    if pa.types.is_nested(target) and not pa.types.is_fixed_size_list(target):
        # Arrow tells lists apart by the name of their elements as well, which changes nothing for the reader.
        is_unchanged = all(one.outcome is Outcome.READ and not one.is_renamed for one in inner)
        return Outcome.READ if is_unchanged else Outcome.CHANGED_INSIDE
    return Outcome.READ if is_same or _shallow_name(source) == _shallow_name(target) else Outcome.CAST


def _read(source: ArrowType, target: ArrowType, id_: int | None, place: _Place, outcome: Outcome) -> ColumnMapping:
    return ColumnMapping(
        column=place.path,
        id=id_,
        file_column=place.file_path,
        file_type=_shallow_name(source),
        query_type=_shallow_name(target),
        outcome=outcome,
    )


def _not_in_file(column: str, id_: int | None, field: "pa.Field[ArrowType]", outcome: Outcome) -> ColumnMapping:
    return ColumnMapping(
        column=column,
        id=id_,
        file_column=None,
        file_type=None,
        query_type=_shallow_name(field.type),
        outcome=outcome,
    )


def _not_read(place: _Place, field: "pa.Field[ArrowType]") -> ColumnMapping:
    known = next((one for one in place.ids[0].fields if one.name == field.name), None) if place.ids else None
    return ColumnMapping(
        column=None,
        id=known.id if known else None,
        file_column=child_path(place.file_path, field.name),
        file_type=_shallow_name(field.type),
        query_type=None,
        outcome=Outcome.DROPPED if known else Outcome.NOT_IN_QUERY,
    )


def _refused(place: _Place, id_: int | None, known: Field | None, error: SchemaEvolutionError) -> ColumnMapping:
    """The mapping of a field that cannot be read, or of the one inside it that is the reason."""
    name, _, inside = error.column.partition(".")
    stored = child_path(place.file_path, known.name if known else name)
    return ColumnMapping(
        column=child_path(place.path, error.column),
        id=None if inside else id_,
        file_column=f"{stored}.{inside}" if inside else stored,
        file_type=error.from_type,
        query_type=error.to_type,
        outcome=Outcome.REFUSED,
    )


def _shallow_name(type_: ArrowType) -> str:
    if pa.types.is_struct(type_):
        return "record"
    if pa.types.is_map(type_):
        return "map"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return "array"
    return primitive_name(type_) or str(type_)
