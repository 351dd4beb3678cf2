"""Scans of a query's rows: repeated by a newer plan if files are gone, and projected to expressions.

A scan reads nothing before its rows are asked for, and reads them again each time.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hudi_bridge.errors import CorruptTableError, DataFileGoneError, HudiReadError, InstantNotReadableError, QueryError
from hudi_bridge.schema.variant_paths import VariantPath, values_at
from hudi_bridge.schema.variants import MalformedVariantError

_Result = TypeVar("_Result")
BatchGenerator = Generator[pa.RecordBatch, None, None]
_FILES_GONE = (DataFileGoneError, InstantNotReadableError)
_MOST_REPLANS = 3


class Replanning:
    """Repeats the reads of one query, which may run at the same time, until the first of them has given out rows.

    From then on, the plan stays: rows of two instants are never mixed, not even in a join of a query with itself.
    """

    def __init__(self, plan_again: Callable[[HudiReadError], None]) -> None:
        """``plan_again`` is called before a repetition, with the error, which it raises if it cannot plan again."""
        self._plan_again = plan_again
        self._lock = Lock()
        self._plans = 0
        self._is_fixed = False

    def whole(self, read: Callable[[], _Result]) -> _Result:
        """The result of a read that gives out all rows together.

        Raises:
            DataFileGoneError: files were gone, and no other plan could be made.
            InstantNotReadableError: likewise.
        """
        while True:
            plan = self._plans
            try:
                result = read()
            except _FILES_GONE as error:
                self._replace(plan, error)
                continue
            if self._fixes(plan):
                return result

    def batches(self, read: Callable[[], BatchGenerator]) -> BatchGenerator:
        """The batches of a read, which begins again only if no row was given out.

        Raises:
            DataFileGoneError: files were gone, and no other plan could be made or rows had been given out.
            InstantNotReadableError: likewise.
        """
        while True:
            plan, is_given = self._plans, False
            try:
                with closing(read()) as batches:
                    for batch in batches:
                        if not is_given and batch.num_rows and not self._fixes(plan):
                            break
                        is_given = is_given or batch.num_rows > 0
                        yield batch
                    else:
                        if is_given or self._fixes(plan):
                            return
            except _FILES_GONE as error:
                if is_given:
                    raise
                self._replace(plan, error)

    def _fixes(self, plan: int) -> bool:
        """Whether a read may give out what it has read by a plan; then all others keep to that plan."""
        with self._lock:
            if plan == self._plans:
                self._is_fixed = True
            return plan == self._plans

    def _replace(self, plan: int, error: HudiReadError) -> None:
        """Plan again, unless another read has done so since this plan."""
        with self._lock:
            if plan != self._plans:
                return
            if self._is_fixed or self._plans == _MOST_REPLANS:
                raise error
            self._plan_again(error)
            self._plans += 1


class BatchScanner:
    """A scan of record batches, already filtered and projected; each method reads them again.

    It has the methods of ``pyarrow.dataset.Scanner``, but is not a subclass: Arrow's scanner reads ahead in threads
    that keep running if a consumer stops early, and Arrow's C++ code crashes on a subclass without its internal state.
    Arrow and other libraries read this class as an Arrow C stream. Reading raises like ``HudiDataset.to_batches``.

    Made by ``HudiDataset.scanner``.
    """

    def __init__(
        self,
        schema: pa.Schema,
        read: Callable[[], BatchGenerator],
        replanning: Replanning | None = None,
        read_all: Callable[[], BatchGenerator] | None = None,
    ) -> None:
        """A scan of the batches of ``read``, which have the given schema; ``read_all`` reads all of them at once."""
        self._schema = schema
        self._read = read
        self._read_all = read if read_all is None else read_all
        self._replanning = replanning

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns of the batches."""
        return self._schema

    @property
    def dataset_schema(self) -> pa.Schema:
        """The columns of the batches."""
        return self._schema

    def to_reader(self) -> pa.RecordBatchReader:
        """The batches, as they are consumed."""
        batches = self._read() if self._replanning is None else self._replanning.batches(self._read)
        return pa.RecordBatchReader.from_batches(self._schema, batches)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The batches, as they are consumed."""
        return iter(self.to_reader())

    def to_table(self) -> pa.Table:
        """All rows."""
        return self._whole(lambda: pa.RecordBatchReader.from_batches(self._schema, self._read_all()).read_all())

    def head(self, num_rows: int) -> pa.Table:
        """The first rows to arrive; no more is read than they need."""
        return self._whole(lambda: self._head(num_rows))

    def _head(self, num_rows: int) -> pa.Table:
        rows, missing = [], num_rows
        with closing(self._read()) as batches:
            while missing > 0 and (batch := next(batches, None)) is not None:
                rows.append(batch.slice(0, missing))
                missing -= rows[-1].num_rows
        return pa.Table.from_batches(rows, schema=self._schema)

    def count_rows(self) -> int:
        """The number of rows."""
        return self._whole(lambda: sum(batch.num_rows for batch in self._read_all()))

    def _whole(self, read: Callable[[], _Result]) -> _Result:
        """The result of a read that gives out nothing before its end, and so can be planned again."""
        return read() if self._replanning is None else self._replanning.whole(read)

    def take(self, indices: Any) -> pa.Table:
        """Not offered: the rows of a merged table have no fixed order."""
        del indices
        raise QueryError("take", "row numbers", "a filter; the rows of a table have no fixed order")

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """All rows as an Arrow C stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]


class Projection(NamedTuple):
    """Columns made of those that are read; ``table_path`` is for errors."""

    columns: dict[str, pc.Expression | VariantPath]
    table_path: str

    def of_batches(self, batches: BatchGenerator) -> BatchGenerator:
        """The columns of batches, which are closed with the generator.

        Raises:
            CorruptTableError: a VARIANT cannot be decoded.
        """
        with closing(batches):
            for batch in batches:
                yield from self.of(pa.Table.from_batches([batch])).to_batches()

    def of(self, rows: pa.Table) -> pa.Table:
        """The columns of rows; raises like ``of_batches``."""
        expressions = {name: value for name, value in self.columns.items() if not isinstance(value, VariantPath)}
        has_paths = len(expressions) < len(self.columns)
        plain = in_memory(rows).to_table(columns=expressions) if expressions or not has_paths else rows
        if not has_paths:
            return plain
        made = {
            name: self._at_path(name, value, rows)
            if isinstance(value, VariantPath)
            else (plain.schema.field(name), plain[name])
            for name, value in self.columns.items()
        }
        return pa.table(
            [column for _, column in made.values()], schema=pa.schema([field for field, _ in made.values()])
        )

    def _at_path(self, name: str, path: VariantPath, rows: pa.Table) -> tuple[Any, Any]:
        field = rows.schema.field(path.column)
        try:
            chunks = [values_at(chunk, path.steps) for chunk in rows[path.column].chunks]
        except MalformedVariantError as error:
            actual = f"{error.found}, in the VARIANT column {path.column}"
            raise CorruptTableError(self.table_path, None, actual, error.expected) from error
        return field.with_name(name), pa.chunked_array(chunks, field.type)


def in_memory(table: pa.Table) -> ds.InMemoryDataset:
    """A dataset of rows in memory."""
    return ds.InMemoryDataset(table)  # type: ignore[call-arg]
