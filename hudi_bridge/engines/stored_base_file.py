"""What a base file holds, column by column, and whether an engine that reads it where it lies sees what Hudi shows."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.readers.base_file import OpenBaseFile
from hudi_bridge.readers.split_columns import internal_schemas
from hudi_bridge.schema.difference import child_path
from hudi_bridge.schema.file_columns import ColumnMapping, Outcome, map_columns
from hudi_bridge.splits.split import RealtimeFileSplit

_NULL_IN_BOTH = (Outcome.ADDED_LATER, Outcome.MISSING)
_NOT_ASKED_FOR = (Outcome.DROPPED, Outcome.NOT_IN_QUERY)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBaseFile:
    """A Parquet base file as it is stored; ``path`` is relative to the table.

    ``schema`` holds its columns in Arrow's types. ``columns`` says for each column of the query, and each field within
    one, where in the file it comes from, and then names what the file has besides. That columns of ``path_columns`` are
    read from the partition path is left out of account there; ``tells_path_columns`` is whether the path has a value
    for each of them, as the others are read from the file.

    Made by ``SliceDelta.base_file``.
    """

    path: str
    footer: pq.FileMetaData
    schema: pa.Schema
    columns: tuple[ColumnMapping, ...]
    path_columns: tuple[str, ...]
    tells_path_columns: bool

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.footer.num_rows

    def fields(self) -> "Iterator[tuple[str, pa.Field[Any]]]":
        """All columns and fields of the file with their dotted paths."""
        return iter_fields(self.schema)

    def why_unreadable(self, *, ignores_case: bool = False) -> str | None:
        """Why engines misread the file whatever is asked of it, in words; None if they do not.

        With ``ignores_case``, names that differ in case alone are one name.
        """
        names = [name.lower() for name in self.schema.names] if ignores_case else self.schema.names
        if any(count > 1 for count in Counter(names).values()):
            return (
                "names of its columns differ in nothing but case"
                if ignores_case
                else "two of its columns have one name"
            )
        if any(self.footer.schema.column(one).physical_type == "INT96" for one in range(self.footer.num_columns)):
            return "it has times of 96 bits"
        return None

    def why_not_as_is(self, *, ignores_case: bool = False, widens: Collection[tuple[str, str]] = ()) -> str | None:
        """Why an engine that reads the file where it lies does not see what Hudi shows, in words; None if it does.

        The engine is one that finds columns by name, gives nulls for those that the file does not have, and takes those
        of the partition path from there. Of the conversions that Hudi makes, it makes those of columns of ``widens``
        alone: pairs of a stored type and the query's in Hudi's words, such as ``("int", "long")``.
        """
        if (reason := self.why_unreadable(ignores_case=ignores_case)) is not None:
            return reason
        if not self.tells_path_columns:
            return "its partition path does not tell the values of the partition columns"
        names = {name.lower() if ignores_case else name for name in self.schema.names}
        for one in self.columns:
            name, stored_name = _last(one.column), _last(one.file_column)
            if ignores_case:
                name, stored_name = name.lower(), stored_name.lower()
            if one.column in self.path_columns or one.outcome in _NOT_ASKED_FOR:
                continue
            is_within = "." in (one.column or "")
            reads_alike = one.outcome is Outcome.READ and name == stored_name
            is_missing = one.outcome in _NULL_IN_BOTH and not is_within and name not in names
            is_widened = one.outcome is Outcome.CAST and (one.file_type, one.query_type) in widens and not is_within
            if not (reads_alike or is_missing or is_widened):
                return f"{one.column}: {one}"
        return None


def stored_base_file(split: RealtimeFileSplit, base: OpenBaseFile) -> StoredBaseFile:
    """The base file of a split, which is open."""
    context = split.context
    file_ids, query_ids = internal_schemas(split.base_instant_time, context)
    columns = map_columns(base.arrow_schema, context.schema, file_ids=file_ids, query_ids=query_ids, path_columns=())
    return StoredBaseFile(
        path=base.path,
        footer=base.footer,
        schema=base.arrow_schema,
        columns=columns,
        path_columns=context.path_columns,
        tells_path_columns=split.path_values.keys() == set(context.path_columns),
    )


def iter_fields(schema: pa.Schema) -> "Iterator[tuple[str, pa.Field[Any]]]":
    """All columns, and all fields within them, with their dotted paths.

    What is inside a list is its ``element``, inside a map its ``key`` and ``value``.
    """
    for field in schema:
        yield from _iter_within(field, field.name)


def _last(path: str | None) -> str:
    return (path or "").rpartition(".")[2]


def _iter_within(field: "pa.Field[Any]", path: str) -> "Iterator[tuple[str, pa.Field[Any]]]":
    yield path, field
    kind: Any = field.type
    if pa.types.is_struct(kind):
        for position in range(kind.num_fields):
            child = kind.field(position)
            yield from _iter_within(child, child_path(path, child.name))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _iter_within(kind.value_field, child_path(path, "element"))
    elif pa.types.is_map(kind):
        yield from _iter_within(kind.key_field, child_path(path, "key"))
        yield from _iter_within(kind.item_field, child_path(path, "value"))
