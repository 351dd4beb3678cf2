"""Converts batches from a writer's schema to the query schema.

With column ids, columns and fields of records are matched by id (``InternalSchemaMerger``), otherwise by name. If the
file has a column of the same name but another id (dropped, then added again), the values are null, not the old ones.

From 0.14 to 1.0, writers labelled timestamps of milliseconds as microseconds, in files and in log blocks. Since 1.1,
the schema of the table has milliseconds again, and readers take the numbers for milliseconds.

If a Parquet file has none of the fields of a record, the record is null, and so is a list of such records. Avro's
resolution of schemas makes records of nulls instead.

A field that an Avro record without column ids lacks has its default.

A VARIANT that the file has shredded is rebuilt (``schema.variants``).

If the query's column is text, Hudi 1.x reads timestamps as text; timestamps in Avro as the text of their numbers. A
partition column that the key generator formats is such a column.

Source: ``SchemaRepair`` and ``HoodieSchemaRepair`` of Hudi 1.2 for those timestamps; ``HoodieParquetReadSupport`` and
Spark's ``ParquetColumnVector`` for records without a field.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

import pyarrow as pa

from hudi_bridge.common.caching import BoundedCache
from hudi_bridge.errors import CorruptTableError, SchemaEvolutionError
from hudi_bridge.schema.avro import Defaults, default_of, repeated
from hudi_bridge.schema.avro_types import is_variant
from hudi_bridge.schema.casts import (
    Array,
    ArrowType,
    as_milliseconds,
    plan_cast,
    rebuild_list,
    rebuild_map,
    rebuild_struct,
    times_as_numbers,
    times_as_text,
    vectors_from_bytes,
)
from hudi_bridge.schema.internal import ArrayType, Field, FieldType, InternalSchema, MapType, RecordType
from hudi_bridge.schema.variants import MalformedVariantError, ShreddedVariant, is_shredded, plan_shredded

_ELEMENT_OF_TWO_LEVELS = "array"

# The conversion of an array; None if it needs none.
_Step = Callable[[Array], Array] | None

# The types with ids of the file and of the query; None if fields are matched by name.
_Ids = tuple[FieldType, FieldType] | None


# Most files of a table have the same columns, so that one plan serves many of them.
_PLANS = BoundedCache(256)


class FloatsByText(StrEnum):
    """The floats that become doubles and decimals by way of their text; other floats keep their exact value."""

    NOWHERE = "nowhere"
    COLUMNS = "columns"  # but not the fields within them
    EVERYWHERE = "everywhere"


class StoredAs(StrEnum):
    """The format that the values of a file or log block are stored in."""

    PARQUET = "Parquet"
    AVRO = "Avro"  # in HFiles, too
    ORC = "ORC"
    LANCE = "Lance"


_LABELLED_BY_HUDI = (StoredAs.PARQUET, StoredAs.AVRO)


@dataclass(frozen=True, slots=True)
class _Nulls:
    """The conversion for a field that the file lacks: to nulls."""

    target: ArrowType

    def __call__(self, array: Array) -> Array:
        nulls: Array = pa.nulls(len(array), self.target)
        return nulls


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """How one column of the query is made.

    ``source`` is the file's column; None for a column that repeats ``default``, or is null.
    """

    field: "pa.Field[ArrowType]"
    source: str | None
    source_type: ArrowType
    step: _Step
    default: "Array | None" = None

    @property
    def has_no_field(self) -> bool:
        """Whether the column is null because the file has none of the fields within."""
        return isinstance(self.step, _Nulls)

    @property
    def is_rebuilt(self) -> bool:
        """Whether the column is a VARIANT that the file has shredded."""
        return isinstance(self.step, ShreddedVariant)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolution:
    """The conversion of the batches of one file.

    Attributes:
        file_columns: the top-level columns to read from the file.
        query_schema: the schema of the converted batches.
        columns: how each column of the query is made.
        path: the file, for errors.
    """

    file_columns: tuple[str, ...]
    query_schema: pa.Schema
    columns: tuple[_Column, ...]
    path: str

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the query schema. The given batch may have further columns, in any order.

        Columns that need no conversion are not copied.

        Raises:
            CorruptTableError: a shredded VARIANT cannot be rebuilt.
            SchemaEvolutionError: a value cannot be cast.
        """
        if not self.columns:
            return batch.select([]).replace_schema_metadata(self.query_schema.metadata)
        arrays = [self._evolved(column, batch) for column in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.query_schema)

    @property
    def rebuilt(self) -> Mapping[str, str]:
        """The column of the file for each column of the query that is a VARIANT, which the file has shredded."""
        return {column.field.name: column.source for column in self.columns if column.is_rebuilt and column.source}

    def of_parts(self, parts: Mapping[str, ArrowType]) -> "Evolution":
        """The same conversion if the file's shredded columns are read in part, with these types."""
        columns = tuple(
            replace(
                column,
                source_type=parts[column.source],
                step=plan_shredded(parts[column.source], column.field.type, column.field.name, self.path),
            )
            if column.source is not None and column.source in parts
            else column
            for column in self.columns
        )
        return replace(self, columns=columns)

    def _evolved(self, column: _Column, batch: pa.RecordBatch) -> Array:
        if column.default is not None:
            return repeated(column.default, batch.num_rows)
        if column.source is None:
            nulls: Array = pa.nulls(batch.num_rows, column.field.type)
            return nulls
        array = batch.column(column.source)
        try:
            return array if column.step is None else column.step(array)
        except MalformedVariantError as error:
            raise CorruptTableError(
                self.path, None, f"{error.found}, in the VARIANT column {column.source}", error.expected
            ) from error
        except pa.ArrowException as error:
            raise SchemaEvolutionError(
                column.field.name, f"{column.source_type} ({error})", str(column.field.type), self.path
            ) from error


def plan_evolution(
    file_schema: pa.Schema,
    query_schema: pa.Schema,
    *,
    file_ids: InternalSchema | None,
    query_ids: InternalSchema | None,
    path: str,
    stored_as: StoredAs,
    floats_by_text: FloatsByText,
    reads_times_as_text: bool = False,
    defaults: Defaults = (),
) -> Evolution:
    """The conversion of a file's batches to the batches of a query.

    Args:
        file_schema: the columns of the file.
        query_schema: the columns of the query, in its order.
        file_ids: the ids of the file's columns, under the file's names; None to match by name.
        query_ids: the ids of the table's columns; None to match by name.
        path: the file, for errors.
        stored_as: the format of the file's values.
        floats_by_text: which floats ``plan_cast`` converts by way of their text.
        reads_times_as_text: whether timestamps are read as text where the query's column is text.
        defaults: the values of fields that the file lacks, which otherwise are null; not used with ids.

    Raises:
        SchemaEvolutionError: a column of the file cannot be read as the query's type.
        UnsupportedTableError: a default does not have its field's type.
    """
    has_ids = file_ids is not None and query_ids is not None
    schemas = *key_of_schema(file_schema), *key_of_schema(query_schema)
    key = (*schemas, stored_as, floats_by_text, reads_times_as_text, query_ids is None, defaults)
    columns: tuple[_Column, ...] | None = None if has_ids else _PLANS.get(key)
    if columns is None:
        plan = column_planner(
            list(file_schema),
            file_ids=file_ids,
            query_ids=query_ids,
            path=path,
            stored_as=stored_as,
            floats_by_text=floats_by_text,
            reads_times_as_text=reads_times_as_text,
            defaults=defaults,
        )
        columns = tuple(map(plan, query_schema))
        if not has_ids:
            _PLANS.put(key, columns, 1)
    file_columns = tuple(dict.fromkeys(column.source for column in columns if column.source is not None))
    return Evolution(
        file_columns=file_columns,
        query_schema=query_schema,
        columns=columns,
        path=path,
    )


def column_planner(
    file_fields: "Sequence[pa.Field[ArrowType]]",
    *,
    file_ids: InternalSchema | None,
    query_ids: InternalSchema | None,
    path: str,
    stored_as: StoredAs,
    floats_by_text: FloatsByText,
    reads_times_as_text: bool = False,
    defaults: Defaults = (),
) -> "Callable[[pa.Field[ArrowType]], _Column]":
    """A function that plans the columns of a query one by one, for a file with the given columns.

    The arguments are as for ``plan_evolution``, and a column raises the same errors.
    """
    ids: _Ids = None
    if file_ids is not None and query_ids is not None:
        ids = RecordType(fields=file_ids.fields), RecordType(fields=query_ids.fields)
    planner = _Planner(
        path=path,
        stored_as=stored_as,
        by_text=floats_by_text is not FloatsByText.NOWHERE,
        by_text_inside=floats_by_text is FloatsByText.EVERYWHERE,
        table_has_ids=query_ids is not None,
        times_as_text=reads_times_as_text and query_ids is None,
        defaults=dict(defaults) if ids is None else {},
    )
    return partial(planner.column, _Level(file_fields, ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planner:
    path: str
    stored_as: StoredAs
    by_text: bool
    by_text_inside: bool
    defaults: Mapping[str, str]
    table_has_ids: bool
    times_as_text: bool
    has_names_of_table: bool = True
    """Whether the file has the names of the table down to here."""

    def column(self, level: "_Level", field: "pa.Field[ArrowType]") -> _Column:
        position, inner = self._locate(level, field, field.name)
        if position is None:
            default = default_of(field.name, field.type, self.defaults)
            return _Column(field=field, source=None, source_type=None, step=None, default=default)
        source = level.file_fields[position]
        step = self._named(source, field).field_step(source, field, inner, field.name)
        return _Column(field=field, source=source.name, source_type=source.type, step=step)

    def field_step(self, source: "pa.Field[ArrowType]", field: "pa.Field[ArrowType]", ids: _Ids, column: str) -> _Step:
        """The conversion of arrays of a field of the file to those of a field of the query."""
        if pa.types.is_struct(source.type) and is_shredded(source.type, field.type):
            if not is_variant(field):
                actual = "a VARIANT that is shredded into typed_value"
                raise SchemaEvolutionError(column, actual, f"a plain {field.type}", self.path)
            return plan_shredded(source.type, field.type, column, self.path)
        return self.step(source.type, field.type, ids, column)

    def step(self, source: ArrowType, target: ArrowType, ids: _Ids, column: str) -> _Step:
        """The conversion of arrays from the source type to the target type."""
        inside = replace(self, by_text=self.by_text_inside, times_as_text=False)
        if pa.types.is_struct(source) and pa.types.is_struct(target):
            return inside.struct_step(source, target, ids, column)
        if pa.types.is_map(source) and pa.types.is_map(target):
            return inside.map_step(source, target, ids, column)
        if (pa.types.is_list(source) or pa.types.is_large_list(source)) and pa.types.is_list(target):
            return inside.list_step(source, target, ids, column)
        if pa.types.is_fixed_size_list(target):
            return self._vector_step(source, target, column)
        if pa.types.is_nested(source) or pa.types.is_nested(target):
            raise self._error(column, source, target)
        if source == target:
            return None
        if takes_micros_for_millis(source, target, self.stored_as):
            return self._millis_step(source, target, column)
        if self.times_as_text and pa.types.is_timestamp(source) and pa.types.is_string(target):
            return partial(times_as_numbers if self.stored_as is StoredAs.AVRO else times_as_text, target)
        cast = plan_cast(source, target, float_to_double_by_text=self.by_text)
        if cast is None:
            raise self._error(column, source, target)
        return cast

    def _millis_step(self, source: ArrowType, target: ArrowType, column: str) -> _Step:
        """The conversion of microseconds that Hudi takes for milliseconds; others have no room in the query's type."""
        is_taken = not self.table_has_ids
        if self.stored_as is StoredAs.PARQUET:
            is_taken = self.has_names_of_table and source.tz is not None and target.tz is not None
        if not is_taken:
            raise self._error(column, source, target)
        return partial(as_milliseconds, target)

    def _named(self, source: "pa.Field[ArrowType]", field: "pa.Field[ArrowType]") -> "_Planner":
        return self if source.name == field.name else replace(self, has_names_of_table=False)

    def _vector_step(self, source: ArrowType, target: ArrowType, column: str) -> _Step:
        """The conversion of a VECTOR, which Parquet files store as bytes; its type never changes."""
        if source == target:
            return None
        width = target.list_size * target.value_type.bit_width // 8
        if not pa.types.is_fixed_size_binary(source) or source.byte_width != width:
            raise self._error(column, source, target)
        return partial(vectors_from_bytes, target)

    def struct_step(self, source: ArrowType, target: ArrowType, ids: _Ids, column: str) -> _Step:
        if ids is not None and not all(isinstance(id_, RecordType) for id_ in ids):
            raise self._error(column, source, target)
        file_fields = [source.field(i) for i in range(source.num_fields)]
        query_fields = [target.field(i) for i in range(target.num_fields)]
        level = _Level(file_fields, ids)
        children: list[tuple[int | None, _Step]] = []
        for field in query_fields:
            name = f"{column}.{field.name}"
            position, inner = self._locate(level, field, name)
            if position is None:
                children.append((None, self._missing(field, name)))
                continue
            source_field = file_fields[position]
            step = self._named(source_field, field).field_step(source_field, field, inner, name)
            children.append((None, None) if isinstance(step, _Nulls) else (position, step))
        unchanged = [(i, None) for i in range(len(file_fields))]
        if children == unchanged and _same_names_and_nullability(file_fields, query_fields):
            return None
        if self.stored_as is StoredAs.PARQUET and all(position is None for position, _ in children):
            return _Nulls(target)
        return partial(rebuild_struct, target, tuple(children))

    def _missing(self, field: "pa.Field[ArrowType]", name: str) -> _Step:
        """What makes the values of a field that structs lack; None for nulls."""
        default = default_of(name, field.type, self.defaults)
        return None if default is None else partial(_default_of_each, default)

    def list_step(self, source: ArrowType, target: ArrowType, ids: _Ids, column: str) -> _Step:
        inner: _Ids = None
        if ids is not None:
            file_type, query_type = ids
            if not (isinstance(file_type, ArrayType) and isinstance(query_type, ArrayType)):
                raise self._error(column, source, target)
            inner = file_type.element, query_type.element
        inside = replace(self, has_names_of_table=self.has_names_of_table and has_two_levels(source))
        step = inside.field_step(source.value_field, target.value_field, inner, f"{column}.element")
        if (
            step is None
            and pa.types.is_list(source)
            and _same_names_and_nullability([source.value_field], [target.value_field])
        ):
            return None
        return _Nulls(target) if isinstance(step, _Nulls) else partial(rebuild_list, target, step)

    def map_step(self, source: ArrowType, target: ArrowType, ids: _Ids, column: str) -> _Step:
        key_ids: _Ids = None
        item_ids: _Ids = None
        if ids is not None:
            file_type, query_type = ids
            if not (isinstance(file_type, MapType) and isinstance(query_type, MapType)):
                raise self._error(column, source, target)
            key_ids, item_ids = (file_type.key, query_type.key), (file_type.value, query_type.value)
        key_step = self.step(source.key_type, target.key_type, key_ids, f"{column}.key")
        item_step = self.field_step(source.item_field, target.item_field, item_ids, f"{column}.value")
        labels = ([type_.field(0), type_.key_field, type_.item_field] for type_ in (source, target))
        if key_step is None and item_step is None and _same_names_and_nullability(*labels):
            return None
        return partial(rebuild_map, target, key_step, item_step)

    def _locate(self, level: "_Level", field: "pa.Field[ArrowType]", column: str) -> tuple[int | None, _Ids]:
        """The position in the file of a field of the query, and the ids within both; None if the file lacks it."""
        name, inner = field.name, None
        if (query_field := level.query_field(name)) is not None:
            file_field = level.file_ids.get(query_field.id)
            if file_field is None:
                return None, None
            name, inner = file_field.name, (file_field.type, query_field.type)
        count = level.file_names.count(name)
        if count > 1:
            raise SchemaEvolutionError(column, f"{count} columns named {name}", str(field.type), self.path)
        return level.file_names.position(name), inner

    def _error(self, column: str, source: ArrowType, target: ArrowType) -> SchemaEvolutionError:
        return SchemaEvolutionError(column, str(source), str(target), self.path)


class _Level:
    """The columns of a file, or the fields of one of its structs, in which the query's fields are looked up."""

    def __init__(self, file_fields: "Sequence[pa.Field[ArrowType]]", ids: _Ids) -> None:
        file_type, query_type = (None, None) if ids is None else ids
        self.file_fields = file_fields
        self.file_names = _Names(field.name for field in file_fields)
        self.file_ids = {field.id: field for field in _fields(file_type)}
        self._query_fields = _fields(query_type)
        self._query_names = _Names(field.name for field in self._query_fields)

    def query_field(self, name: str) -> Field | None:
        """The query's field of a name, with its id; None if it has no ids."""
        position = self._query_names.position(name)
        return None if position is None else self._query_fields[position]


class _Names:
    """The positions of the names of fields."""

    def __init__(self, names: Iterable[str]) -> None:
        self._positions: dict[str, list[int]] = {}
        self._by_lower: dict[str, list[int]] = {}
        for position, name in enumerate(names):
            self._positions.setdefault(name, []).append(position)
            self._by_lower.setdefault(name.lower(), []).append(position)

    def count(self, name: str) -> int:
        return len(self._positions.get(name, ()))

    def position(self, name: str) -> int | None:
        """The index of the name, or else of the only name that differs from it in case alone, as in Spark."""
        if name in self._positions:
            return self._positions[name][0]
        same_but_case = self._by_lower.get(name.lower(), ())
        return same_but_case[0] if len(same_but_case) == 1 else None


def key_of_schema(schema: pa.Schema) -> tuple[pa.Schema, tuple[str, ...]]:
    """A cache key of a schema's columns; unlike Arrow's equality, it has names within lists and marks of VARIANT."""
    # Arrow takes lists for equal whose elements have other names.
    nested = [field for field in schema if pa.types.is_nested(field.type)]
    return schema.remove_metadata(), tuple(f"{field.type} {''.join(_variant_marks(field))}" for field in nested)


def _variant_marks(field: "pa.Field[ArrowType]") -> Iterator[str]:
    """A sign for the field and each field within, which says whether it is marked as a VARIANT."""
    yield "v" if is_variant(field) else "-"
    kind = field.type
    if pa.types.is_nested(kind):
        for position in range(kind.num_fields):
            yield from _variant_marks(kind.field(position))


def has_two_levels(kind: ArrowType) -> bool:
    """Whether a list of a Parquet file has no group around its elements, as Hudi has them in the table's schema.

    Elements without a group are never null.
    """
    return kind.value_field.name == _ELEMENT_OF_TWO_LEVELS and not kind.value_field.nullable


def takes_micros_for_millis(source: ArrowType, target: ArrowType, stored_as: StoredAs) -> bool:
    """Whether Hudi takes timestamps of a file for milliseconds, although the file says microseconds."""
    are_timestamps = pa.types.is_timestamp(source) and pa.types.is_timestamp(target)
    return are_timestamps and stored_as in _LABELLED_BY_HUDI and (source.unit, target.unit) == ("us", "ms")


def _default_of_each(default: Array, structs: Array) -> Array:
    return repeated(default, len(structs))


def _fields(type_: FieldType | None) -> tuple[Field, ...]:
    return type_.fields if isinstance(type_, RecordType) else ()


def _same_names_and_nullability(left: "Iterable[pa.Field[ArrowType]]", right: "Iterable[pa.Field[ArrowType]]") -> bool:
    return all((a.name, a.nullable) == (b.name, b.nullable) for a, b in zip(left, right, strict=True))
