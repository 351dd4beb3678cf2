"""Hudi tables as data frames of Daft, whose workers read them: a task of Daft for each task of file slices.

Daft passes on columns and conditions, and checks the conditions again. What it says of integers, texts and dates means
the same in Arrow; all else is left to Daft, to which NaN is the greatest number and equals itself.
"""

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from hudi_bridge.common.imports import needing_extra
from hudi_bridge.connectors.split_tasks import SplitTask, TableQuery
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.readers.filters import Joined, joined_by_and, joined_by_or
from hudi_bridge.storage.storage import PathLike, StorageOptions
from hudi_bridge.table import HudiTable, OpenArguments, RowsArguments
from hudi_bridge.timeline.instant import InstantLike

with needing_extra("daft", "daft"):
    import daft
    from daft.expressions.visitor import PredicateVisitor
    from daft.io.pushdowns import Pushdowns
    from daft.io.source import DataSource, DataSourceTask
    from daft.recordbatch import RecordBatch

__all__ = ["HudiSource", "read"]
_COMPARED = ((types.is_integer, int), (types.is_string, str), (types.is_date, dt.date))
"""The types of columns whose comparisons are passed on, and of the values that they are compared with."""


def read(
    path_or_table: PathLike | HudiTable,
    columns: Sequence[str] | None = None,
    *,
    filesystem: Any = None,  # noqa: ANN401 - of any library
    options: Mapping[str, str] | None = None,
    payloads: Mapping[str, RecordPayload] | None = None,
    log_memory_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
    as_of: InstantLike | None = None,
    read_optimized: bool = False,
    after: InstantLike | None = None,
    up_to: InstantLike | None = None,
    meta_columns: bool = True,
) -> daft.DataFrame:
    """The rows of a table as a data frame: its snapshot or, if asked, the base files alone or a range of commits.

    ``path_or_table`` is a path or URI as for ``HudiTable.open``, or an open table. ``columns`` are those of the frame,
    by default all, without Hudi's own unless ``meta_columns``. ``options``, ``payloads``, ``log_memory_bytes`` and
    ``storage_options`` are those of ``HudiTable.open``; ``filesystem`` is refused, since workers open the table by its
    path. ``as_of`` is that of ``HudiTable.snapshot``. ``read_optimized`` leaves out the changes in log files.
    ``after``, and optionally ``up_to``, ask for the rows that commits in that range have written, as
    ``HudiTable.incremental`` does.

    The frame stays at the instant that was newest at the time of this call, or at ``as_of``. Files are listed when
    Daft executes a plan, and read anew.

    Raises:
        QueryError: a column does not exist, the arguments exclude one another, an option is unknown or refused, or
            workers could not open the table.
        InstantNotReadableError: files of the instant or of the range have been removed, or are incomplete.
        TableNotFoundError: there is no Hudi table.
        UnsupportedTableError: the table uses something that cannot be read correctly, or has a column whose type Daft
            lacks.
    """
    arguments = OpenArguments(
        filesystem=filesystem,
        options=options,
        payloads=payloads,
        log_memory_bytes=log_memory_bytes,
        storage_options=storage_options,
    )
    rows = RowsArguments(as_of=as_of, read_optimized=read_optimized, after=after, up_to=up_to)
    query = TableQuery.of("Daft", path_or_table, arguments, rows, columns, meta_columns=meta_columns)
    return HudiSource(query).read()


class HudiSource(DataSource):  # type: ignore[misc]  # mypy does not see Daft
    """The rows of a query; made by ``read``."""

    def __init__(self, query: TableQuery) -> None:
        """A source of a pinned query.

        Raises:
            UnsupportedTableError: Daft lacks the type of a column.
        """
        self._query = query
        self._schema = query.schema
        self._columns = _columns_of(self._schema)

    @property
    def name(self) -> str:
        """The table."""
        return f"Hudi table {self._query.table.path}"

    @property
    def schema(self) -> daft.Schema:
        """All columns."""
        return self._columns

    async def get_tasks(self, pushdowns: Pushdowns) -> AsyncIterator[DataSourceTask]:
        """The tasks. Daft checks conditions again, and needs their columns to do so."""
        columns = self._schema.names
        if pushdowns.columns is not None:
            needed = {*pushdowns.columns, *pushdowns.filter_required_column_names()}
            columns = [name for name in columns if name in needed]
        condition = None if pushdowns.filters is None else _Condition(self._schema).visit(pushdowns.filters)
        row_filter = None if condition is None else condition.condition
        for task in await asyncio.to_thread(self._query.tasks, columns, row_filter):
            yield HudiTask(task)


@dataclass(frozen=True)
class HudiTask(DataSourceTask):  # type: ignore[misc]
    """A task of Daft."""

    task: SplitTask

    @property
    def schema(self) -> daft.Schema:
        """The columns of the rows."""
        return daft.Schema.from_pyarrow_schema(self.task.schema)

    async def read(self) -> AsyncIterator[RecordBatch]:
        """The rows, read beside Daft's event loop."""
        batches = self.task.batches()
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            yield RecordBatch.from_arrow_record_batches([batch], batch.schema)


def _columns_of(schema: pa.Schema) -> daft.Schema:
    """The columns of Daft for those of Arrow.

    Raises:
        UnsupportedTableError: Daft lacks the type of a column, and would make Python objects of its values.
    """
    columns = daft.Schema.from_pyarrow_schema(schema)
    for field in schema:
        if "Python" in repr(columns[field.name].dtype):
            raise UnsupportedTableError("type in Daft", f"{field.type} in the column {field.name!r}", "another type")
    return columns


class _Condition(PredicateVisitor):  # type: ignore[misc]
    """A condition of Arrow that all rows meet for which one of Daft is true; None if there is none."""

    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns

    def visit_and(self, left: daft.Expression, right: daft.Expression) -> Joined | None:
        return joined_by_and((self.visit(left), self.visit(right)))

    def visit_or(self, left: daft.Expression, right: daft.Expression) -> Joined | None:
        return joined_by_or((self.visit(left), self.visit(right)))

    def visit_equal(self, left: daft.Expression, right: daft.Expression) -> Joined | None:
        return self._compared(left, eq, right)

    def visit_less_than(self, left: daft.Expression, right: daft.Expression) -> Joined | None:
        return self._compared(left, lt, right)

    def visit_less_than_or_equal(self, left: daft.Expression, right: daft.Expression) -> Joined | None:
        return self._compared(left, le, right)

    def visit_greater_than(self, left: daft.Expression, right: daft.Expression) -> Joined | None:
        return self._compared(left, gt, right)

    def visit_greater_than_or_equal(self, left: daft.Expression, right: daft.Expression) -> Joined | None:
        return self._compared(left, ge, right)

    def _compared(
        self, column: daft.Expression, compare: Callable[[Any, Any], Any], literal: daft.Expression
    ) -> Joined | None:
        """The comparison of a column with a literal that is a value of its type."""
        name = column.column_name()
        if name is None or not literal.is_literal():
            return None
        kind, value = self._columns.field(name).type, literal.as_py()
        # Not subclasses: Arrow makes 1 of True, and a date of a datetime.
        if not any(is_kind(kind) and type(value) is python for is_kind, python in _COMPARED):
            return None
        try:
            return Joined(compare(pc.field(name), pa.scalar(value, kind)))
        except (pa.ArrowException, OverflowError):
            return None

    def _unknown(self, *_: object) -> None:
        """Everything else is left to Daft."""

    visit_alias = visit_between = visit_cast = visit_coalesce = visit_col = visit_function = visit_is_in = _unknown
    visit_is_null = visit_lit = visit_not = visit_not_equal = visit_not_null = visit_try_cast = _unknown
