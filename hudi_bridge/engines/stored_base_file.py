"""The columns of a base file as stored, and whether an engine can read it in place with the same result as Hudi."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.readers.base_file import OpenBaseFile
from hudi_bridge.readers.blobs import blob_columns
from hudi_bridge.readers.legacy_dates import LegacyDates
from hudi_bridge.readers.split_columns import internal_schemas
from hudi_bridge.schema.difference import child_path
from hudi_bridge.schema.file_columns import ColumnMapping, Outcome, map_columns
from hudi_bridge.splits.split import RealtimeFileSplit

_NULL_IN_BOTH = (Outcome.ADDED_LATER, Outcome.MISSING)
_NOT_IN_RESULT = (Outcome.DROPPED, Outcome.NOT_IN_QUERY)
BYTES_ELSEWHERE = "the bytes of its BLOBs are in other files"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBaseFile:
    """A base file as stored; ``path`` is relative to the table.

    ``parquet_footer`` is None if engines cannot read the file in place, as it is not Parquet.
    ``schema`` has the columns of the file with Arrow types. ``columns`` maps each column and nested field of the query
    to the file, followed by the columns that only the file has; it ignores that ``path_columns`` are read from the
    partition path. ``has_path_values`` says whether the path has a value for each of these; if not, those without
    a value are read from the file.

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
        if any(self.footer.schema.column(one).physical_type == "INT96" for one in range(self.footer.num_columns)):
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
        for one in self.columns:
            name, stored_name = _last_part(one.column), _last_part(one.file_column)
            if ignores_case:
                name, stored_name = name.lower(), stored_name.lower()
            if one.column in self.path_columns or one.outcome in _NOT_IN_RESULT:
                continue
            is_within = "." in (one.column or "")
            reads_alike = one.outcome is Outcome.READ and name == stored_name
            is_missing = one.outcome in _NULL_IN_BOTH and not is_within and name not in names
            is_widened = one.outcome is Outcome.CAST and (one.file_type, one.query_type) in widens and not is_within
            if not (reads_alike or is_missing or is_widened):
                return f"{one.column}: {one}"
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
    """All columns and nested fields, with their dotted paths.

    The items of a list are its ``element``, those of a map its ``key`` and ``value``.
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
