"""The columns of a base file as stored, their statistics and ids, and whether an engine can read the file in place.

Source: ``InternalSchema`` of Hudi, for the ids of columns.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.readers.base_file import OpenBaseFile
from hudi_bridge.readers.base_formats.legacy_dates import LegacyDates
from hudi_bridge.readers.blobs import blob_columns
from hudi_bridge.readers.split_columns import internal_schemas, schema_versions
from hudi_bridge.schema.difference import child_path
from hudi_bridge.schema.file_columns import ColumnMapping, Outcome, map_columns
from hudi_bridge.schema.internal import ArrayType, Field, FieldType, MapType, RecordType, has_constant_ids
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit

_NULL_IN_BOTH = (Outcome.ADDED_LATER, Outcome.MISSING)
_NOT_IN_RESULT = (Outcome.DROPPED, Outcome.NOT_IN_QUERY)
BYTES_ELSEWHERE = "the bytes of its BLOBs are in other files"
_NO_BOUNDS = (pa.ArrowException, ValueError, OverflowError, TypeError, NotImplementedError)
ColumnIds: TypeAlias = Mapping[str, int]
"""Ids by dotted path, with ``element`` for items of a list, ``key`` and ``value`` for keys and items of a map."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBaseFile:
    """A base file as stored.

    Attributes:
        path: its path relative to the table.
        rows: its number of rows.
        parquet_footer: None if engines cannot read the file in place, because it is not Parquet.
        schema: the columns of the file with Arrow types.
        columns: maps each column and nested field of the query to the file, followed by columns that only the file has;
            it does not consider that ``path_columns`` are read from the partition path.
        path_columns: the columns that are read from the partition path.
        has_path_values: whether the path has a value for each of them; columns without one are read from the file.
        has_bytes_elsewhere: whether BLOB columns refer to bytes in other files.

    Made by ``SliceDelta.base_file``.
    """

    path: str
    rows: int
    parquet_footer: pq.FileMetaData | None
    schema: pa.Schema
    columns: tuple[ColumnMapping, ...]
    path_columns: tuple[str, ...]
    has_path_values: bool
    has_bytes_elsewhere: bool = False

    @property
    def footer(self) -> pq.FileMetaData:
        """The Parquet footer of a file for which ``reason_unreadable`` gives no reason.

        Raises:
            UnsupportedTableError: the file has none.
        """
        if self.parquet_footer is None:
            raise UnsupportedTableError("base file format", self.path, "Parquet, to be read in place")
        return self.parquet_footer

    def fields(self) -> "Iterator[tuple[str, pa.Field[Any]]]":
        """All columns and nested fields of the file, with their dotted paths."""
        return iter_fields(self.schema)

    def reason_unreadable(self, *, ignores_case: bool = False) -> str | None:
        """The reason why engines misread the file, whatever the query; None if they can read it.

        With ``ignores_case``, names that differ only in case count as the same.
        """
        if self.parquet_footer is None:
            return "it is no Parquet file with all columns"
        if self.has_bytes_elsewhere:
            return BYTES_ELSEWHERE
        names = [path.lower() for path, _ in self.fields()] if ignores_case else self.schema.names
        if any(count > 1 for count in Counter(names).values()):
            return (
                "names of its columns differ in nothing but case"
                if ignores_case
                else "two of its columns have one name"
            )
        if any(self.footer.schema.column(index).physical_type == "INT96" for index in range(self.footer.num_columns)):
            return "it has times of 96 bits"
        if LegacyDates.of(self.footer, self.schema, self.path) is not None:
            return "it has dates in the calendar of Spark 2"
        return None

    def reason_incompatible(
        self, *, ignores_case: bool = False, widens: Collection[tuple[str, str]] = ()
    ) -> str | None:
        """The reason why an engine that reads the file in place gets other rows than Hudi; None if it gets the same.

        The engine is expected to find columns by name, to return null for missing ones, and to take partition columns
        from the path. ``widens`` are the conversions that it makes: pairs of the stored type and the type of the query
        in Hudi's names, such as ``("int", "long")``. They apply to whole columns only, not to nested fields.
        """
        if (reason := self.reason_unreadable(ignores_case=ignores_case)) is not None:
            return reason
        if not self.has_path_values:
            return "its partition path does not tell the values of the partition columns"
        names = {name.lower() if ignores_case else name for name in self.schema.names}
        for column in self.columns:
            name, stored_name = _last_part(column.column), _last_part(column.file_column)
            if ignores_case:
                name, stored_name = name.lower(), stored_name.lower()
            if column.column in self.path_columns or column.outcome in _NOT_IN_RESULT:
                continue
            is_within = "." in (column.column or "")
            is_same = column.outcome is Outcome.READ and name == stored_name
            is_missing = column.outcome in _NULL_IN_BOTH and not is_within and name not in names
            is_widened = (
                column.outcome is Outcome.CAST and (column.file_type, column.query_type) in widens and not is_within
            )
            if not (is_same or is_missing or is_widened):
                return f"{column.column}: {column}"
        return None


def stored_base_file(split: RealtimeFileSplit, base: OpenBaseFile) -> StoredBaseFile:
    """Describes the open base file of a split."""
    context = split.context
    file_ids, query_ids = internal_schemas(split.base_instant_time, context)
    columns = map_columns(
        base.arrow_schema,
        context.schema,
        file_ids=file_ids,
        query_ids=query_ids,
        path_columns=(),
        stored_as=base.stored_as,
    )
    return StoredBaseFile(
        path=base.path,
        rows=base.num_rows,
        parquet_footer=base.parquet_footer,
        schema=base.arrow_schema,
        columns=columns,
        path_columns=context.path_columns,
        has_path_values=split.path_values.keys() == set(context.path_columns),
        has_bytes_elsewhere=bool(context.blob_sources and blob_columns(context.schema)),
    )


def iter_fields(schema: pa.Schema) -> "Iterator[tuple[str, pa.Field[Any]]]":
    """Yields all columns and nested fields, with their dotted paths.

    Items of a list are named ``element``, keys and items of a map ``key`` and ``value``.
    """
    for field in schema:
        yield from _iter_nested(field, field.name)


def _last_part(path: str | None) -> str:
    return (path or "").rpartition(".")[2]


def _iter_nested(field: "pa.Field[Any]", path: str) -> "Iterator[tuple[str, pa.Field[Any]]]":
    yield path, field
    kind: Any = field.type
    if pa.types.is_struct(kind):
        for position in range(kind.num_fields):
            child = kind.field(position)
            yield from _iter_nested(child, child_path(path, child.name))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _iter_nested(kind.value_field, child_path(path, "element"))
    elif pa.types.is_map(kind):
        yield from _iter_nested(kind.key_field, child_path(path, "key"))
        yield from _iter_nested(kind.item_field, child_path(path, "value"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """Statistics of one column over all row groups of a file; ``least`` and ``greatest`` are None if unknown.

    ``stored_bytes`` is its size in the file.
    """

    values: int
    stored_bytes: int
    nulls: int | None
    least: Any
    greatest: Any


def in_path_and_file(split: RealtimeFileSplit, stored: pa.Schema, footer: pq.FileMetaData) -> Mapping[str, bool]:
    """For each partition column with a value in the path, whether all rows of a file are known to have that value.

    A column that is not in the file has the value of the path if the query reads it from there.
    """
    statistics, path_values = column_statistics(footer, dict(split.partition_values)), split.path_values
    return {
        name: _all_equal(statistics.get(name), value, footer.num_rows) if name in stored.names else name in path_values
        for name, value in split.partition_values
    }


def _all_equal(statistics: ColumnStatistics | None, value: "pa.Scalar[Any]", rows: int) -> bool:
    """Whether statistics prove that a column has one value in all rows."""
    if statistics is None:
        return False
    if not value.is_valid:
        return statistics.nulls == rows
    try:
        expected = value.as_py()
    except OverflowError:
        # Python has no dates before the year 1 or after 9999.
        return False
    return bool(statistics.nulls == 0 and statistics.least == expected and statistics.greatest == expected)


def column_statistics(footer: pq.FileMetaData, paths: Container[str] | None = None) -> Mapping[str, ColumnStatistics]:
    """The statistics of each column that is not in a list or map, by dotted path; only of ``paths``, if given."""
    columns = [footer.schema.column(position) for position in range(footer.num_columns)]
    unrepeated = {
        position: column.path
        for position, column in enumerate(columns)
        if column.max_repetition_level == 0 and (paths is None or column.path in paths)
    }
    return {path: _statistics(footer, position) for position, path in unrepeated.items()}


def _statistics(footer: pq.FileMetaData, position: int) -> ColumnStatistics:
    chunks = [footer.row_group(group).column(position) for group in range(footer.num_row_groups)]
    nulls = [None if chunk.statistics is None else chunk.statistics.null_count for chunk in chunks]
    least = greatest = None
    is_known = True
    for chunk, chunk_nulls in zip(chunks, nulls, strict=True):
        if chunk_nulls == chunk.num_values:
            continue
        is_known = is_known and chunk.statistics is not None and chunk.statistics.has_min_max
        if is_known:
            least, greatest, is_known = _wider(chunk.statistics, least, greatest)
    return ColumnStatistics(
        values=sum(chunk.num_values for chunk in chunks),
        stored_bytes=sum(chunk.total_compressed_size for chunk in chunks),
        nulls=None if None in nulls else sum(count or 0 for count in nulls),
        least=least if is_known else None,
        greatest=greatest if is_known else None,
    )


def _wider(statistics: Any, least: Any, greatest: Any) -> tuple[Any, Any, bool]:  # noqa: ANN401 - of any type
    """The bounds widened by one more row group, and whether they are known."""
    try:
        low, high = statistics.min, statistics.max
        return (
            low if least is None else min(least, low),
            high if greatest is None else max(greatest, high),
            True,
        )
    except _NO_BOUNDS:
        return None, None, False


def column_ids(context: ReadContext) -> tuple[ColumnIds, ...]:
    """The ids of all columns and nested fields: first of the query's schema, then of each earlier version.

    Empty for a table without a schema history, whose columns are matched by name. The parts of a VARIANT or a BLOB are
    not among them, since their ids are the same in every column.

    Raises:
        CorruptTimelineError: the schema is not Hudi's JSON.
    """
    versions = schema_versions(context)
    if versions is None:
        return ()
    current, history = versions
    earlier = (version for version in history if version.version_id < current.version_id)
    return tuple(dict(_ids(version.fields, "")) for version in (current, *earlier))


def _ids(fields: tuple[Field, ...], parent: str) -> Iterator[tuple[str, int]]:
    for field in fields:
        path = child_path(parent, field.name)
        yield path, field.id
        yield from _inner_ids(field.type, path)


def _inner_ids(kind: FieldType, path: str) -> Iterator[tuple[str, int]]:
    match kind:
        case RecordType() if not has_constant_ids(kind):
            yield from _ids(kind.fields, path)
        case ArrayType():
            element = child_path(path, "element")
            yield element, kind.element_id
            yield from _inner_ids(kind.element, element)
        case MapType():
            key, value = child_path(path, "key"), child_path(path, "value")
            yield key, kind.key_id
            yield value, kind.value_id
            yield from _inner_ids(kind.key, key)
            yield from _inner_ids(kind.value, value)
