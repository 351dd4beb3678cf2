"""What one read asks for: columns and filter, the split to read, and its share of threads and memory."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.caching import memory_bytes
from hudi_bridge.common.imports import acero, ds
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.arrays import Booleans, Column
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.filters import allowed_values, keys_of_filter
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN
from hudi_bridge.schema.variant_paths import VariantPath
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

_IF_ELSE = "if_else("
"""Arrow does not prune by conditions on nullable columns inside of ``if_else``; DuckDB writes IN with it."""
_POSITION = "FieldPath("
"""Marks references by position, to columns or to fields of them, in the text of a filter."""
_Split_co = TypeVar("_Split_co", covariant=True)
_OtherSplit = TypeVar("_OtherSplit")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRequest:
    """The columns to return, in this order, and the filter that every returned row passes.

    Attributes:
        columns: the columns to return.
        row_filter: the filter, or None for all rows.
        filter_columns: the columns that the filter refers to; all, in the order of the schema, if it ``has_positions``.
        has_positions: whether the filter refers to columns by position.
        record_keys: if given, only rows with these keys that pass the filter are returned.
        is_materialized: whether the caller keeps all rows in memory, so that more may be read ahead than for a stream.
        variant_paths: VARIANT columns with the paths that the caller uses; a reader may leave other paths out of the
            values, unless it merges them.
    """

    columns: tuple[str, ...]
    row_filter: pc.Expression | None
    filter_columns: tuple[str, ...]
    has_positions: bool = False
    record_keys: "Column | None" = None
    is_materialized: bool = False
    variant_paths: tuple[VariantPath, ...] = ()

    @classmethod
    def of(
        cls, schema: pa.Schema, columns: Sequence[str] | None = None, row_filter: pc.Expression | None = None
    ) -> Self:
        """The request for some columns (default: all) of a schema.

        Raises:
            QueryError: a column does not exist, or the filter does not fit the schema.
        """
        selected = tuple(schema.names) if columns is None else column_names(columns)
        for name in selected:
            if schema.get_field_index(name) < 0:
                raise QueryError("columns", repr(name), f"columns among {', '.join(schema.names)}")
        if row_filter is None:
            return cls(columns=selected, row_filter=None, filter_columns=())
        # The text of a filter with many values takes longer to make than all else, so it is made once.
        text = str(row_filter)
        filter_columns = _columns_in(row_filter, text, schema)
        try:
            schema.empty_table().filter(row_filter)
        except pa.ArrowException as error:
            raise _unbound(row_filter, error) from error
        if _IF_ELSE in text:
            row_filter = _with_listed_values(row_filter, [schema.field(name) for name in filter_columns])
        return cls(
            columns=selected, row_filter=row_filter, filter_columns=filter_columns, has_positions=_POSITION in text
        )

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns to return and to filter by."""
        return tuple(dict.fromkeys(self.columns + self.filter_columns))

    @property
    def keeps_batches(self) -> bool:
        """Whether the caller keeps all that is decoded, so that batches may be large: those of a filter are dropped."""
        return self.is_materialized and self.row_filter is None

    def is_selective(self, constant: Collection[str]) -> bool:
        """Whether few rows are likely to pass: the request names record keys, or values of a column.

        ``constant`` columns, which have one value in all rows, do not count.
        """
        if self.record_keys is not None or self.row_filter is None:
            return self.record_keys is not None
        columns = (name for name in self.filter_columns if name not in constant)
        return any(allowed_values(self.row_filter, name) is not None for name in columns)

    def with_keys_of_filter(self, context: ReadContext) -> "RowRequest":
        """The same request with the record keys that its filter allows, if it restricts them."""
        if self.record_keys is not None or self.row_filter is None:
            return self
        return replace(self, record_keys=keys_of_filter(self.row_filter, context))

    def of_chosen_rows(self) -> "RowRequest":
        """The request for the same columns of rows that were selected before, without a filter."""
        return RowRequest(columns=self.columns, row_filter=None, filter_columns=())

    def narrowed(self, condition: pc.Expression, schema: pa.Schema) -> "RowRequest":
        """The same request with a further condition; ``schema`` is the table's."""
        combined = condition if self.row_filter is None else self.row_filter & condition
        narrowed = RowRequest.of(schema, self.columns, combined)
        return replace(narrowed, record_keys=self.record_keys, variant_paths=self.variant_paths)

    def passes(self, rows: pa.RecordBatch) -> Booleans:
        """A mask of the rows that pass the filter; the rows need its columns."""
        number = "".join(rows.schema.names) + "#"
        positions = pa.array(np.arange(rows.num_rows))
        numbered = pa.record_batch([*rows.columns, positions], names=[*rows.schema.names, number])
        passes = np.zeros(rows.num_rows, dtype=np.bool_)
        passes[_filtered(numbered, self.row_filter).column(number).to_numpy()] = True
        return passes

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Filters rows that have the ``needed`` columns, and selects the columns to return."""
        if self.row_filter is not None:
            # References by position count in the filter's columns, in their order.
            rows = rows.filter(pa.array(self.passes(rows.select(list(self.filter_columns)))))
        return rows.select(list(self.columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRead(Generic[_Split_co]):
    """One read of a split.

    With ``use_threads``, it uses several cores. ``at_once`` reads run at the same time and share the memory for logs.
    """

    storage: Storage
    split: _Split_co
    request: RowRequest
    use_threads: bool = True
    at_once: int = 1

    def of(self, split: _OtherSplit) -> "SplitRead[_OtherSplit]":
        """The same read of another split."""
        return SplitRead(
            storage=self.storage,
            split=split,
            request=self.request,
            use_threads=self.use_threads,
            at_once=self.at_once,
        )

    def of_slice(self, split: RealtimeFileSplit, request: RowRequest | None = None) -> "SliceRead":
        """The same read of a file slice, optionally for another request."""
        return SliceRead(
            storage=self.storage,
            split=split,
            request=self.request if request is None else request,
            use_threads=self.use_threads,
            at_once=self.at_once,
        )


class SliceRead(SplitRead[RealtimeFileSplit]):
    """One read of a file slice."""

    __slots__ = ()

    @property
    def context(self) -> ReadContext:
        """What the slices of the plan share."""
        return self.split.context

    @property
    def rule(self) -> MergeRule:
        """The merge rule; only for a split with logs to merge."""
        return rule_of(self.split)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows that are returned."""
        return pa.schema([self.context.schema.field(name) for name in self.request.columns])

    @property
    def has_logs(self) -> bool:
        """Whether there are log files to merge."""
        return self.context.merge_rule is not None and bool(self.split.log_paths)

    @property
    def is_selective(self) -> bool:
        """Whether few rows are likely to be returned."""
        return self.request.is_selective(dict(self.split.partition_values))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are returned, filtered by, or merged; the record key and ordering fields may be missing."""
        return self.rule.columns_to_read(self.request.needed, self.context.schema)

    @property
    def log_memory_bytes(self) -> int:
        """The memory for the log records of the slice."""
        return log_memory_bytes(self.context, self.at_once)

    def with_conditions(self) -> "SliceRead":
        """The same read with the record keys that its filter allows, limited to the commit times of the split."""
        context, request = self.context, self.request.with_keys_of_filter(self.context)
        if context.commit_times is not None:
            condition = pc.field(COMMIT_TIME_COLUMN).isin(sorted(context.commit_times))
            request = request.narrowed(condition, context.schema)
        return replace(self, request=request)


def rule_of(split: RealtimeFileSplit) -> MergeRule:
    """The merge rule of a split with logs to merge."""
    rule = split.context.merge_rule
    if rule is None:
        raise ValueError("a split without logs to merge has no rule for them")
    return rule


def log_memory_bytes(context: ReadContext, at_once: int = 1) -> int:
    """The memory for the log records of one file slice, in bytes, if ``at_once`` slices are read at the same time."""
    return context.log_memory_bytes or memory_bytes() // 4 // at_once


def _with_listed_values(row_filter: pc.Expression, columns: "Iterable[pa.Field[Any]]") -> pc.Expression:
    """Adds the values that the filter allows in a column as a condition that Arrow can prune by.

    The same rows pass. Values of another type are left out, because ``is_in`` would cast them; floats too, because
    ``is_in`` distinguishes -0.0 from 0.0.
    """
    for column in columns:
        values = allowed_values(row_filter, column.name)
        if values is not None and values.type == column.type and not pa.types.is_floating(column.type):
            row_filter &= pc.field(column.name).isin(values)
    return row_filter


def column_names(columns: Sequence[str]) -> tuple[str, ...]:
    """The column names as a tuple.

    Raises:
        QueryError: ``columns`` is not a list of names.
    """
    names = () if isinstance(columns, str) else tuple(columns)
    if isinstance(columns, str) or not all(isinstance(name, str) for name in names):
        raise QueryError("columns", str(columns), "a list of names, or a mapping from names to expressions")
    return names


def _filtered(rows: pa.RecordBatch, row_filter: pc.Expression | None) -> pa.RecordBatch | pa.Table:
    if row_filter is None:
        return rows
    # As RecordBatch.filter, but in this thread: for one batch, waiting for others takes as long as the work.
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([rows])))
    node = acero.Declaration("filter", acero.FilterNodeOptions(row_filter), inputs=[source])
    return node.to_table(use_threads=False)


def referenced_columns(expression: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """The columns of the schema that an expression refers to.

    Raises:
        QueryError: the expression refers to an unknown column, or does not fit the types of the columns.
    """
    return _columns_in(expression, str(expression), schema)


def _columns_in(expression: pc.Expression, text: str, schema: pa.Schema) -> tuple[str, ...]:
    """As ``referenced_columns``, for an expression with a known text.

    An expression does not list its columns, so each column in its text is removed from the schema to see if it still
    binds.
    """
    try:
        _bind(expression, schema)
    except (pa.ArrowException, KeyError, TypeError) as error:
        raise _unbound(expression, error) from error
    if _POSITION in text:
        return tuple(schema.names)
    return tuple(
        name
        for position, name in enumerate(schema.names)
        if name in text and not _binds(expression, schema.remove(position))
    )


def _unbound(expression: pc.Expression, error: Exception) -> QueryError:
    return QueryError("filter", f"{expression}: {str(error).splitlines()[0]}", "an expression over the table's columns")


def _binds(expression: pc.Expression, schema: pa.Schema) -> bool:
    try:
        _bind(expression, schema)
    except (pa.ArrowException, KeyError, TypeError):
        return False
    return True


def _bind(expression: pc.Expression, schema: pa.Schema) -> None:
    ds.Scanner.from_batches([], schema=schema, columns={"bound": expression})  # type: ignore[call-overload]
