"""Explains how the columns of a file are converted to the columns of a query, which are not read, and why.

The answers come from ``evolve.column_planner``, one level of nesting at a time.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

import pyarrow as pa

from hudi_bridge.common.caching import BoundedCache
from hudi_bridge.errors import SchemaEvolutionError
from hudi_bridge.schema.casts import ArrowType
from hudi_bridge.schema.difference import child_path, primitive_name
from hudi_bridge.schema.evolve import (
    FloatsByText,
    StoredAs,
    column_planner,
    key_of_schema,
    takes_micros_for_millis,
)
from hudi_bridge.schema.internal import ArrayType, Field, FieldType, InternalSchema, MapType, RecordType
from hudi_bridge.schema.variants import METADATA

_MAPPINGS_BY_NAME = BoundedCache(64)
# The records with ids of the file and of the query; None if fields are matched by name.
_Ids: TypeAlias = tuple[RecordType, RecordType] | None
_Fields: TypeAlias = "Sequence[pa.Field[ArrowType]]"
_NO_IDS = InternalSchema(version_id=0, max_column_id=0, fields=())


class Outcome(StrEnum):
    """What becomes of a column."""

    READ = "as is"
    CAST = "cast"
    MILLISECONDS = "milliseconds, labelled as microseconds"
    CHANGED_INSIDE = "changed inside"
    REBUILT = "rebuilt from typed_value"
    ADDED_LATER = "null: added later"
    NO_FIELD = "null: the file has none of its fields"
    ANOTHER_COLUMN = "null: same name, but another column (dropped and added again)"
    MISSING = "null: not in the file"
    DEFAULT = "its default: not in the file"
    FROM_PATH = "from the partition path"
    DROPPED = "not read: dropped"
    NOT_IN_QUERY = "not read: not in the query"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """How one column, or a field within one, is read from a file; ``str`` says it in words.

    Part of a ``FileColumns``.

    Attributes:
        column: the dotted path in the query; None for a column that is only in the file.
        id: the column id; None if columns are matched by name.
        file_column: the dotted path in the file; None for a column that is only in the query.
        file_type: the type in the file, as Hudi spells it; of nested types just the kind, since their fields have
            mappings of their own.
        query_type: the type in the query, likewise.
        outcome: what becomes of the column.
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
    stored_as: StoredAs,
    defaults: Collection[str] = (),
) -> tuple[ColumnMapping, ...]:
    """The mappings of the query's columns, in their order, each followed by its fields; then the columns not read.

    Ids and ``stored_as`` are as for ``plan_evolution``. ``path_columns`` come from the partition path, not from files.
    ``defaults`` are the paths of fields with a default that is used if the file lacks them, unless they have ids.
    """
    has_ids = query_ids is not None
    top = _Scope(file_path="", path="", ids=None, table_has_ids=has_ids, stored_as=stored_as, defaults=defaults)
    if file_ids is not None and query_ids is not None:
        ids = RecordType(fields=file_ids.fields), RecordType(fields=query_ids.fields)
        by_id = replace(top, ids=ids, defaults=())
        return tuple(_iter_mappings(list(file_schema), list(query_schema), by_id, path_columns))
    # Most files of a table have the same columns.
    schemas = *key_of_schema(file_schema), *key_of_schema(query_schema)
    key = (*schemas, tuple(path_columns), stored_as, has_ids, tuple(defaults))
    cached: tuple[ColumnMapping, ...] | None = _MAPPINGS_BY_NAME.get(key)
    if cached is None:
        cached = tuple(_iter_mappings(list(file_schema), list(query_schema), top, path_columns))
        _MAPPINGS_BY_NAME.put(key, cached, 1)
    return cached


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """A record: its paths in the file and in the query, "" for the table itself, and the ids of its fields.

    ``defaults`` are the paths of all fields that have a default.
    """

    file_path: str
    path: str
    ids: _Ids
    table_has_ids: bool
    stored_as: StoredAs
    defaults: Collection[str]


def _iter_mappings(
    file_fields: _Fields, query_fields: _Fields, scope: _Scope, path_columns: Sequence[str] = ()
) -> Iterator[ColumnMapping]:
    """The mappings of a record's fields, each followed by the mappings of its nested fields."""
    in_path = frozenset(path_columns)
    read = set(in_path)
    file_ids, query_ids = None, _NO_IDS if scope.table_has_ids else None
    if scope.ids is not None:
        file_ids, query_ids = map(_as_schema, scope.ids)
    plan = column_planner(
        file_fields,
        file_ids=file_ids,
        query_ids=query_ids,
        path="",
        stored_as=scope.stored_as,
        floats_by_text=FloatsByText.EVERYWHERE,
        reads_times_as_text=not scope.path,
    )
    fields = _KnownFields(file_fields, scope.ids)
    for field in query_fields:
        in_file, in_query = fields.by_id(field.name)
        column, id_ = child_path(scope.path, field.name), in_query.id if in_query else None
        if field.name in in_path:
            yield _not_in_file(column, id_, field, Outcome.FROM_PATH)
            continue
        try:
            planned = plan(field)
        except SchemaEvolutionError as error:
            read.add(in_file.name if in_file else field.name)
            yield _refused(scope, id_, in_file, error)
            continue
        if planned.source is None:
            missing = fields.why_null(field.name)
            yield _not_in_file(column, id_, field, Outcome.DEFAULT if column in scope.defaults else missing)
            continue
        read.add(planned.source)
        ids = _inner_ids(in_file.type, in_query.type) if in_file and in_query else None
        file_path, source = child_path(scope.file_path, planned.source), planned.source_type
        inside = replace(scope, file_path=file_path, path=column, ids=ids)
        if planned.is_rebuilt:
            yield _read(source, field.type, id_, inside, Outcome.REBUILT)
            yield from _rebuilt_parts(field.type, inside)
            continue
        inner = tuple(_iter_mappings(_inner_fields(source), _inner_fields(field.type), inside))
        outcome = Outcome.NO_FIELD if planned.has_no_field else _outcome(source, field.type, inner, scope.stored_as)
        yield _read(source, field.type, id_, inside, outcome)
        yield from inner
    yield from (_not_read(scope, field, fields.in_file(field.name)) for field in file_fields if field.name not in read)


class _KnownFields:
    """The fields of a record in the file, and the fields with ids in both, looked up by name and by id."""

    def __init__(self, file_fields: _Fields, ids: _Ids) -> None:
        of_file, of_query = ((), ()) if ids is None else (ids[0].fields, ids[1].fields)
        self._stored = frozenset(field.name for field in file_fields)
        self._file_by_name = {field.name: field for field in of_file}
        self._file_by_id = {field.id: field for field in of_file}
        self._query_by_name = {field.name: field for field in of_query}

    def by_id(self, name: str) -> tuple[Field | None, Field | None]:
        """The query's field of that name, and the file's field with its id: (in the file, in the query)."""
        in_query = self._query_by_name.get(name)
        return None if in_query is None else self._file_by_id.get(in_query.id), in_query

    def in_file(self, name: str) -> Field | None:
        """The file's field of that name, with its id."""
        return self._file_by_name.get(name)

    def why_null(self, name: str) -> Outcome:
        """Why there is no value of the query's field of that name."""
        if name not in self._query_by_name:
            return Outcome.MISSING
        return Outcome.ANOTHER_COLUMN if name in self._stored else Outcome.ADDED_LATER


def _inner_fields(type_: ArrowType) -> _Fields:
    """The parts of a nested type, as the fields of a record."""
    if pa.types.is_struct(type_):
        return list(type_)
    if pa.types.is_map(type_):
        return [pa.field("key", type_.key_type), pa.field("value", type_.item_type)]
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [pa.field("element", type_.value_type)]
    return []


def _inner_ids(in_file: FieldType, in_query: FieldType) -> _Ids:
    """Like ``_inner_fields``, with ids; elements, keys and values match whatever their ids in the file."""
    match in_file, in_query:
        case RecordType(), RecordType():
            return in_file, in_query
        case ArrayType(), ArrayType():
            elements = (("element", in_query.element_id),)
            return _record(elements, in_file.element), _record(elements, in_query.element)
        case MapType(), MapType():
            entries = ("key", in_query.key_id), ("value", in_query.value_id)
            return _record(entries, in_file.key, in_file.value), _record(entries, in_query.key, in_query.value)
        case _:
            return None


def _record(ids: Iterable[tuple[str, int]], *types: FieldType) -> RecordType:
    fields = (
        Field(id=id_, name=name, optional=True, type=type_) for (name, id_), type_ in zip(ids, types, strict=True)
    )
    return RecordType(fields=tuple(fields))


def _as_schema(record: RecordType) -> InternalSchema:
    return InternalSchema(version_id=0, max_column_id=0, fields=record.fields)


def _outcome(source: ArrowType, target: ArrowType, inner: Sequence[ColumnMapping], stored_as: StoredAs) -> Outcome:
    if pa.types.is_nested(target) and not pa.types.is_fixed_size_list(target):
        # List types of Arrow may differ in the name of their elements alone, which means nothing here.
        is_unchanged = all(mapping.outcome is Outcome.READ and not mapping.is_renamed for mapping in inner)
        return Outcome.READ if is_unchanged else Outcome.CHANGED_INSIDE
    if takes_micros_for_millis(source, target, stored_as):
        return Outcome.MILLISECONDS
    return Outcome.READ if _shallow_name(source) == _shallow_name(target) else Outcome.CAST


def _read(source: ArrowType, target: ArrowType, id_: int | None, scope: _Scope, outcome: Outcome) -> ColumnMapping:
    return ColumnMapping(
        column=scope.path,
        id=id_,
        file_column=scope.file_path,
        file_type=_shallow_name(source),
        query_type=_shallow_name(target),
        outcome=outcome,
    )


def _rebuilt_parts(target: ArrowType, scope: _Scope) -> Iterator[ColumnMapping]:
    """The parts of a VARIANT that the file has shredded."""
    for part in target:
        inside = replace(
            scope, file_path=child_path(scope.file_path, part.name), path=child_path(scope.path, part.name)
        )
        yield _read(part.type, part.type, None, inside, Outcome.READ if part.name == METADATA else Outcome.REBUILT)


def _not_in_file(column: str, id_: int | None, field: "pa.Field[ArrowType]", outcome: Outcome) -> ColumnMapping:
    return ColumnMapping(
        column=column,
        id=id_,
        file_column=None,
        file_type=None,
        query_type=_shallow_name(field.type),
        outcome=outcome,
    )


def _not_read(scope: _Scope, field: "pa.Field[ArrowType]", in_file: Field | None) -> ColumnMapping:
    return ColumnMapping(
        column=None,
        id=in_file.id if in_file else None,
        file_column=child_path(scope.file_path, field.name),
        file_type=_shallow_name(field.type),
        query_type=None,
        outcome=Outcome.DROPPED if in_file else Outcome.NOT_IN_QUERY,
    )


def _refused(scope: _Scope, id_: int | None, in_file: Field | None, error: SchemaEvolutionError) -> ColumnMapping:
    """The mapping of a field that cannot be read, or of the field within it that is the reason."""
    name, _, inside = error.column.partition(".")
    file_path = child_path(scope.file_path, in_file.name if in_file else name)
    return ColumnMapping(
        column=child_path(scope.path, error.column),
        id=None if inside else id_,
        file_column=f"{file_path}.{inside}" if inside else file_path,
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
