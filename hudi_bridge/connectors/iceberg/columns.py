"""The columns of a query as an Iceberg schema with stable field ids, with name mappings and partition specs.

With a schema history, field ids are Hudi's plus 100; lower ones are for columns without an id in Hudi. Otherwise a name
keeps its first id. A name mapping, for files without ids, is for the whole table: a name that two columns have had
means the one that has it now. PyIceberg's models are copied before they become JSON, since other threads use them.

Partition columns are a partition spec, so that clients prune files by partition. Files whose rows may have other values
than the partition path belong to the unpartitioned spec.

Source: the Iceberg specification, "Schemas and Data Types", "Column Projection" and "Name Mapping Serialization";
``InternalSchema`` of Hudi.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import IcebergBaseModel
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from hudi_bridge.engines import ColumnIds
from hudi_bridge.engines.stored_base_file import in_path_and_file
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.schema.difference import child_path
from hudi_bridge.schema.meta_columns import META_COLUMNS, OPERATION_COLUMN
from hudi_bridge.splits.split import RealtimeFileSplit

Ids: TypeAlias = Mapping[str, int]
"""Ids by dotted path; lists contain ``element``, maps contain ``key`` and ``value``."""
_FIRST_ID_OF_HUDI = 100
_FIELD_ID = b"PARQUET:field_id"
_META_IDS = {name: position + 1 for position, name in enumerate((*META_COLUMNS, OPERATION_COLUMN))}
# For partition columns that are in no file.
_FIRST_ID_WITHOUT_HUDI = len(_META_IDS) + 1
ArrowType: TypeAlias = Any
_PRIMITIVES: Mapping[pa.DataType, IcebergType] = {
    pa.bool_(): BooleanType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.time32("ms"): TimeType(),
    pa.time64("us"): TimeType(),
    pa.timestamp("ms"): TimestampType(),
    pa.timestamp("us"): TimestampType(),
}
_ARROW: Mapping[IcebergType, pa.DataType] = {
    **{iceberg: arrow for arrow, iceberg in _PRIMITIVES.items()},
    TimeType(): pa.time64("us"),
    TimestampType(): pa.timestamp("us"),
    TimestamptzType(): pa.timestamp("us", "UTC"),
}
PATH_ID, POSITION_ID = 2147483546, 2147483545
ROW_POSITION_ID = 2147483645
WITHOUT_PARTITION = PartitionSpec(spec_id=0)
_TYPES = (pa.bool_(), pa.int32(), pa.int64(), pa.string(), pa.date32())


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of a snapshot. ``ids`` are the field ids by dotted path, nested fields included."""

    schema: Schema
    ids: Ids
    mapping: NameMapping

    @property
    def arrow(self) -> pa.Schema:
        """The schema, with field ids, of the Parquet files that are written for the snapshot."""
        return pa.schema([_arrow_field(field) for field in self.schema.fields])


def columns_of(query_schema: pa.Schema, hudi_ids: Sequence[ColumnIds], earlier: Ids) -> Columns:
    """The columns of a query.

    ``hudi_ids`` are the ids of its schema and of earlier versions, as ``column_ids`` returns them. ``earlier`` are
    the ids of earlier snapshots; they are used if the table has no schema history.

    Raises:
        UnsupportedTableError: a column has a type that Iceberg lacks, fields of a struct have names that clients take
            for one, or the table has no columns.
    """
    if not len(query_schema):
        raise UnsupportedTableError("table", "no columns: nothing has been committed yet", "a table with columns")
    versions = [{path: id_ + _FIRST_ID_OF_HUDI for path, id_ in version.items()} for version in hudi_ids]
    of_hudi = [id_ for version in versions for id_ in version.values()]
    # Those below the ids of Hudi are enough for most tables.
    without_hudi = chain(range(_FIRST_ID_WITHOUT_HUDI, _FIRST_ID_OF_HUDI), count(max(of_hudi, default=0) + 1))
    numbering = _Numbering(versions[0], without_hudi) if versions else _Numbering(earlier, count(_next_id(earlier)))
    fields = [numbering.field(field, "") for field in query_schema]
    schema = Schema(*fields)
    return Columns(schema=schema, ids=numbering.ids, mapping=map_names(schema, versions[1:]))


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
    """The ids of the mapping by dotted path, as far as the schema has them."""
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
    ids_by_path = dict(_iter_names(completed.root, ""))
    for path in sorted(paths, key=lambda path: path.count(".")):
        if path not in ids_by_path:
            id_ = paths[path]
            ids_by_path[path] = next(new_ids) if id_ is None else id_
            siblings = _inside(completed.root, path.split(".")[:-1])
            siblings.append(_field(ids_by_path[path], [path.rpartition(".")[2]], []))
    return completed


def _inside(fields: list[MappedField], parents: Sequence[str]) -> list[MappedField]:
    for name in parents:
        fields = next(field.fields for field in fields if name in field.names)
    return fields


def _field(id_: int, names: list[str], fields: list[MappedField]) -> MappedField:
    return MappedField.model_validate({"field-id": id_, "names": names, "fields": fields})


def _next_id(ids: Ids) -> int:
    return max((*ids.values(), _FIRST_ID_OF_HUDI - 1)) + 1


class _Numbering:
    """Assigns field ids: the id that a path has, or else the next new one."""

    def __init__(self, ids: Ids, new_ids: Iterator[int]) -> None:
        self._assigned = {**ids, **_META_IDS}
        self._new_ids = new_ids
        self.ids: dict[str, int] = {}

    def field(self, field: "pa.Field[Any]", parent: str) -> NestedField:
        """A column, or a field of a struct."""
        path = child_path(parent, field.name)
        return NestedField(self._id(path), field.name, self._type(field.type, path), required=False)

    def _id(self, path: str) -> int:
        if path in self.ids:
            raise UnsupportedTableError("columns in Iceberg", f"two with the path {path}", "names without dots")
        if path not in self._assigned:
            self._assigned[path] = next(self._new_ids)
        self.ids[path] = self._assigned[path]
        return self.ids[path]

    def _type(self, kind: ArrowType, path: str) -> IcebergType:
        if pa.types.is_struct(kind):
            _refuse_twins(kind, path)
            return StructType(*(self.field(kind.field(position), path) for position in range(kind.num_fields)))
        if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
            inside = child_path(path, "element")
            return ListType(self._id(inside), self._type(kind.value_type, inside), element_required=False)
        if pa.types.is_map(kind):
            key, value = child_path(path, "key"), child_path(path, "value")
            key_id, value_id = self._id(key), self._id(value)
            return MapType(
                key_id,
                self._type(kind.key_type, key),
                value_id,
                self._type(kind.item_type, value),
                value_required=False,
            )
        return _primitive(kind, path)


def _refuse_twins(struct: ArrowType, path: str) -> None:
    """Refuses fields of a struct whose names differ only in case: Trino 476 reads one of them for both."""
    paths: dict[str, str] = {}
    for position in range(struct.num_fields):
        field_path = child_path(path, struct.field(position).name)
        if (other := paths.setdefault(field_path.lower(), field_path)) != field_path:
            twins = f"{other} and {field_path}"
            raise UnsupportedTableError("fields in Iceberg", twins, "names that differ in more than case")


def _primitive(kind: ArrowType, path: str) -> IcebergType:
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind) and kind.unit in ("ms", "us") and kind.tz is not None:
        return TimestamptzType()
    if kind == pa.int8():
        return IntegerType()
    if kind not in _PRIMITIVES:
        raise UnsupportedTableError("column type in Iceberg", f"{path} of type {kind}", "types of Iceberg version 2")
    return _PRIMITIVES[kind]


def with_types(schema: pa.Schema, replaced: Callable[[ArrowType], ArrowType]) -> pa.Schema:
    """The schema with other types in place of all that are not nested, also within nested ones."""
    return pa.schema([_with_type(field, replaced) for field in schema])


def _with_type(field: "pa.Field[Any]", replaced: Callable[[ArrowType], ArrowType]) -> "pa.Field[Any]":
    kind: Any = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_with_type(kind.field(index), replaced) for index in range(kind.num_fields)]))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_with_type(kind.value_field, replaced)))
    if pa.types.is_map(kind):
        key, value = _with_type(kind.key_field, replaced), _with_type(kind.item_field, replaced)
        entries: ArrowType = pa.map_(key, value)
        return field.with_type(entries)
    return field.with_type(replaced(kind))


def _arrow_field(field: NestedField) -> "pa.Field[Any]":
    metadata = {_FIELD_ID: str(field.field_id).encode()}
    return pa.field(field.name, _arrow_type(field.field_type), nullable=not field.required, metadata=metadata)


def _arrow_type(kind: IcebergType) -> pa.DataType:
    match kind:
        case StructType():
            return pa.struct([_arrow_field(field) for field in kind.fields])
        case ListType():
            return pa.list_(_arrow_field(kind.element_field))
        case MapType():
            key, value = _arrow_field(kind.key_field), _arrow_field(kind.value_field)
            entries: pa.DataType = pa.map_(key, value)  # type: ignore[call-overload]
            return entries
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case _:
            return _ARROW[kind]


POSITION_DELETES = pa.schema(
    [
        _arrow_field(NestedField(PATH_ID, "file_path", StringType(), required=True)),
        _arrow_field(NestedField(POSITION_ID, "pos", LongType(), required=True)),
    ]
)
"""The columns of a position-delete file, with the ids that Iceberg reserves for them."""


def model_json(model: IcebergBaseModel) -> str:
    """A model as JSON text.

    A schema keeps in its ``__dict__`` what it has looked up, and PyIceberg walks that when it writes: another thread
    that looks up a field meanwhile would end it. A copy is this thread's own.
    """
    return model.model_copy().model_dump_json()


def model_document(model: IcebergBaseModel) -> dict[str, Any]:
    """A model as the document of its JSON text; as ``model_json`` in all else."""
    return model.model_copy().model_dump(mode="json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The partition columns of a snapshot; none if the Iceberg table is unpartitioned.

    Without ``nulls``, files whose rows have no value in a partition column have no partition.
    """

    names: tuple[str, ...]
    nulls: bool = True

    def spec(self, schema: Schema) -> PartitionSpec:
        """The spec of files that have a partition."""
        if not self.names:
            return WITHOUT_PARTITION
        fields = (
            PartitionField(
                schema.find_field(name).field_id, PARTITION_FIELD_ID_START + position, IdentityTransform(), name
            )
            for position, name in enumerate(self.names)
        )
        return PartitionSpec(*fields, spec_id=1)

    def of_file(self, split: RealtimeFileSplit, stored: pa.Schema, footer: pq.FileMetaData) -> tuple[Any, ...] | None:
        """The partition of a slice's file, in Iceberg's form; None if it has none. ``stored`` is the file's schema."""
        values = dict(split.partition_values)
        if not self.names or not values.keys() >= set(self.names):
            return None
        if not self.nulls and not all(values[name].is_valid for name in self.names):
            return None
        is_in_path_and_file = in_path_and_file(split, stored, footer)
        if not all(is_in_path_and_file.get(name, False) for name in self.names):
            return None
        return tuple(_iceberg_value(values[name]) for name in self.names)


def partitioning_of(partition_fields: tuple[str, ...], schema: pa.Schema) -> Partitioning:
    """The partition columns of a table; none unless all are columns of types that partition paths can hold exactly."""
    is_supported = all(name in schema.names and schema.field(name).type in _TYPES for name in partition_fields)
    return Partitioning(names=partition_fields if is_supported else ())


def _iceberg_value(value: "pa.Scalar[Any]") -> Any:  # noqa: ANN401 - of any type
    """The value, of a date its number of days since 1970."""
    return (value.cast(pa.int32()) if pa.types.is_date32(value.type) else value).as_py()
