"""A Hudi table as a Daft data frame: one task for each split, with the columns and conditions that Daft passes on.

    from daft_source import read_hudi

    read_hudi("s3://lake/trips").where(daft.col("city") == "sf").select("id", "fare")

Copy this file to where your program and Daft's workers find it. Made for Daft 0.7.
"""  # noqa: INP001 - to be copied

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt
from typing import Any

import daft
import pyarrow as pa
import pyarrow.compute as pc
from daft.expressions.visitor import PredicateVisitor
from daft.io.pushdowns import Pushdowns
from daft.io.source import DataSource, DataSourceTask
from daft.recordbatch import RecordBatch
from pyarrow import types

from hudi_bridge import HudiTable, RealtimeFileSplit, open_reader


def read_hudi(path_or_table: str | HudiTable, as_of: str | None = None) -> daft.DataFrame:
    """The snapshot of a table, as of its newest instant or of ``as_of``."""
    table = path_or_table if isinstance(path_or_table, HudiTable) else HudiTable.open(path_or_table)
    return HudiSource(table, as_of).read()


class HudiSource(DataSource):
    """A snapshot of a Hudi table."""

    def __init__(self, table: HudiTable, as_of: str | None = None) -> None:
        self._table = table
        self._as_of = as_of or table.latest_instant
        self._schema = table.snapshot(self._as_of).schema

    @property
    def name(self) -> str:
        """The table."""
        return f"Hudi table {self._table.path}"

    @property
    def schema(self) -> daft.Schema:
        """All columns."""
        return daft.Schema.from_pyarrow_schema(self._schema)

    async def get_tasks(self, pushdowns: Pushdowns) -> AsyncIterator[DataSourceTask]:
        """One task for each split. Daft checks conditions again, and needs their columns to do so."""
        columns = self._schema.names
        if pushdowns.columns is not None:
            needed = {*pushdowns.columns, *pushdowns.filter_required_column_names()}
            columns = [name for name in columns if name in needed]
        schema = pa.schema([self._schema.field(name) for name in columns])
        row_filter = None if pushdowns.filters is None else _Condition(self._schema).visit(pushdowns.filters)
        for split in await asyncio.to_thread(self._table.splits, self._as_of, filter=row_filter):
            yield HudiTask(split, schema, row_filter)


@dataclass(frozen=True)
class HudiTask(DataSourceTask):
    """A split of a Hudi table."""

    split: RealtimeFileSplit
    rows_schema: pa.Schema
    row_filter: pc.Expression | None

    @property
    def schema(self) -> daft.Schema:
        """The columns of the rows."""
        return daft.Schema.from_pyarrow_schema(self.rows_schema)

    async def read(self) -> AsyncIterator[RecordBatch]:
        """The rows, read beside Daft's event loop."""
        with open_reader(self.split, columns=self.rows_schema.names, row_filter=self.row_filter) as reader:
            batches = reader.batches()
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                yield RecordBatch.from_arrow_record_batches([batch], batch.schema)


class _Condition(PredicateVisitor[Any]):
    """A condition of Arrow that all rows meet for which one of Daft is true; None if there is none.

    Floats are left to Daft: in Daft NaN is the greatest number and equals itself, in Arrow it is neither.
    """

    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns

    def visit_and(self, left: daft.Expression, right: daft.Expression) -> pc.Expression | None:
        one, other = self.visit(left), self.visit(right)
        return other if one is None else one if other is None else one & other

    def visit_or(self, left: daft.Expression, right: daft.Expression) -> pc.Expression | None:
        one, other = self.visit(left), self.visit(right)
        return None if one is None or other is None else one | other

    def visit_equal(self, left: daft.Expression, right: daft.Expression) -> pc.Expression | None:
        return self._compared(left, eq, right)

    def visit_less_than(self, left: daft.Expression, right: daft.Expression) -> pc.Expression | None:
        return self._compared(left, lt, right)

    def visit_less_than_or_equal(self, left: daft.Expression, right: daft.Expression) -> pc.Expression | None:
        return self._compared(left, le, right)

    def visit_greater_than(self, left: daft.Expression, right: daft.Expression) -> pc.Expression | None:
        return self._compared(left, gt, right)

    def visit_greater_than_or_equal(self, left: daft.Expression, right: daft.Expression) -> pc.Expression | None:
        return self._compared(left, ge, right)

    def _compared(
        self, column: daft.Expression, compare: Callable[[Any, Any], Any], literal: daft.Expression
    ) -> pc.Expression | None:
        """The comparison of a column with a literal that is a value of its type."""
        name = column.column_name()
        if name is None or not literal.is_literal():
            return None
        kind = self._columns.field(name).type
        if not (types.is_integer(kind) or types.is_string(kind) or types.is_date(kind)):
            return None
        try:
            value = pa.scalar(literal.as_py(), kind)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return None
        return compare(pc.field(name), value) if value.is_valid else None

    def _unknown(self, *_: object) -> None:
        """Everything else is left to Daft."""

    visit_alias = visit_between = visit_cast = visit_coalesce = visit_col = visit_function = visit_is_in = _unknown
    visit_is_null = visit_lit = visit_not = visit_not_equal = visit_not_null = visit_try_cast = _unknown
