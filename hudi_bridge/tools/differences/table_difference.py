"""``TableDifference``: which records differ between two instants of a table, and how."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.display import html_of_properties
from hudi_bridge.merge.arrays import Column
from hudi_bridge.readers.filters import RecordKey, spelled_keys, text_column
from hudi_bridge.readers.request import RowRequest, column_names
from hudi_bridge.schema.meta_columns import own_columns
from hudi_bridge.storage.storage import Storage
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import EARLIEST, InstantLike
from hudi_bridge.tools.differences.states import (
    DELETE,
    INSERT,
    MOVED_FROM,
    OPERATION,
    PARTITION,
    UPDATE,
    DifferencePlan,
    RowTest,
    StateDifferences,
    difference_schema,
    plan_difference,
)


class TableDifference:
    """The records that differ between two instants; each method that returns records reads them again.

    There is a row for each record, in no particular order: ``op`` (``insert``, ``update`` or ``delete``), ``key`` as in
    ``_hoodie_record_key``, ``partition`` (its path), ``moved_from`` (the partition before, if it was another),
    ``changed`` (the columns whose values an update has changed), and the structs ``before`` and ``after`` with the
    compared columns.

    Made by ``hudi_bridge.tools.diff``.
    """

    def __init__(
        self,
        storage: Storage,
        plan: DifferencePlan,
        instants: tuple[str, str],
        request: RowRequest,
        keys: "Column | None" = None,
        test: RowTest | None = None,
    ) -> None:
        """Differences by a plan; use ``diff`` instead. A ``test`` is given the filter columns of the request."""
        self._storage = storage
        self._plan = plan
        self._instants = instants
        self._request = request
        self._keys = keys
        self._test = test

    def __repr__(self) -> str:
        before, after = self._instants
        return f"<TableDifference {self._storage.shown_path!r}: from {before} to {after}>"

    def _repr_html_(self) -> str:
        compared, same = self.file_groups
        properties = (
            ("path", self._storage.shown_path),
            ("instants", self.instants),
            ("columns", self.columns),
            ("file groups", f"{compared:,} to compare, {same:,} the same"),
        )
        return html_of_properties("TableDifference", properties)

    @property
    def instants(self) -> tuple[str, str]:
        """The instants before and after."""
        return self._instants

    @property
    def columns(self) -> tuple[str, ...]:
        """The compared columns, which are the columns of the images."""
        return self._request.columns

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        table = self._plan.image.schema
        return difference_schema(pa.schema([table.field(name) for name in self._request.columns]))

    @property
    def file_groups(self) -> tuple[int, int]:
        """The number of file groups that are compared, and of file groups that are the same in both states."""
        return len(self._plan.groups), self._plan.unchanged

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the records that differ, read as they are consumed.

        Raises:
            HudiReadError: a file cannot be read.
            OSError: a temporary file cannot be written or read.
        """
        request = self._request
        test = self._test or (None if request.row_filter is None else request.passes)
        tested = request.filter_columns
        return StateDifferences(self._storage, self._plan, request.columns, self._keys, test, tested).batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """The records that differ, as an Arrow reader; raises like ``batches``."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def to_table(self) -> pa.Table:
        """All records that differ; raises like ``batches``."""
        return self.to_reader().read_all()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:  # noqa: ANN401 - as Arrow has it
        """The records that differ, as an Arrow C stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]

    def summary(self) -> pa.Table:
        """The numbers of records by partition: ``inserted``, ``updated``, ``deleted``, and ``moved_in``.

        Records that moved to a partition are updated there. Raises like ``batches``.
        """
        counts = DifferenceCounts()
        for batch in self.batches():
            counts.add(batch)
        return counts.to_table()

    def of_columns(self, columns: Sequence[str]) -> "TableDifference":
        """The same differences with only these columns.

        Raises:
            QueryError: a column does not exist.
        """
        request = RowRequest.of(self._plan.image.schema, columns)
        request = replace(self._request, columns=request.columns)
        return TableDifference(self._storage, self._plan, self._instants, request, self._keys, self._test)

    def where(self, test: RowTest, columns: Sequence[str]) -> "TableDifference":
        """The differences of records that pass a test before or after; it gets these columns."""
        request = replace(self._request, row_filter=None, filter_columns=tuple(columns))
        return TableDifference(self._storage, self._plan, self._instants, request, self._keys, test)


class DifferenceCounts:
    """Counts records that differ, by partition."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, batch: pa.RecordBatch) -> None:
        """Counts the records of a batch."""
        counts: Any = pa.Table.from_batches([batch.select([PARTITION, OPERATION])]).group_by([PARTITION, OPERATION])
        for row in counts.aggregate([([], "count_all")]).to_pylist():
            self._counts[row[PARTITION], row[OPERATION]] += row["count_all"]
        moved: Any = batch.filter(pc.is_valid(batch.column(MOVED_FROM))).column(PARTITION)
        for row in moved.value_counts().to_pylist():
            self._counts[row["values"], MOVED_FROM] += row["counts"]

    def total(self, operation: str) -> int:
        """The number of records with an operation."""
        return sum(count for (_, counted), count in self._counts.items() if counted == operation)

    def to_table(self) -> pa.Table:
        """The counts, with a row for each partition."""
        partitions = sorted({partition for partition, _ in self._counts})
        names = {"inserted": INSERT, "updated": UPDATE, "deleted": DELETE, "moved_in": MOVED_FROM}
        columns = {
            name: pa.array([self._counts[partition, kind] for partition in partitions], pa.int64())
            for name, kind in names.items()
        }
        return pa.table({PARTITION: pa.array(partitions, pa.string())} | columns)


def diff(
    table: HudiTable,
    a: InstantLike,
    b: InstantLike | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: pc.Expression | None = None,
    keys: Iterable[RecordKey] | None = None,
) -> TableDifference:
    """Which records differ between two instants, and how; only file slices that differ are read.

    A record that was written again with the same values does not differ, nor does one that was only moved to another
    file. A record that is gone from a partition and new in another is updated, with ``moved_from``.

    Args:
        table: the table.
        a: the first instant, in a format of ``as_of`` in ``HudiTable.snapshot``, or ``earliest``: the first instant of
            the timeline that can be read.
        b: the second instant, by default the newest commit. If it is the earlier one, the differences are those on the
            way back.
        columns: the columns to compare, by default all but Hudi's own. They are columns as of the later instant; a
            renamed column is the same one.
        where: a condition that a record must meet at ``a`` or at ``b``.
        keys: if given, only records with these keys are compared; they are as for ``HudiTable.get``.

    Raises:
        InstantNotReadableError: files of an instant were removed, or an earlier write has not completed.
        QueryError: an instant, a column, the condition or a key does not fit the table.
        UnsupportedTableError: the table's records cannot be merged correctly.
    """
    states = (table.planner(_instant(table, a), "a").state, table.planner(_instant(table, b), "b").state)
    plan = plan_difference(table.planner().files.listings.anew(), *states)
    schema = plan.image.schema
    names = own_columns(schema.names) if columns is None else column_names(columns)
    request = RowRequest.of(schema, names, where)
    spelled = None if keys is None else text_column({text for key in keys for text in spelled_keys(key, plan.image)})
    instants = (states[0].instant, states[1].instant)
    return TableDifference(states[0].storage, plan, instants, request, spelled)


def _instant(table: HudiTable, moment: InstantLike | None) -> InstantLike | None:
    """The instant as given; ``earliest`` is replaced by the first commit that can be read."""
    if not (isinstance(moment, str) and moment.lower() == EARLIEST):
        return moment
    first = table.earliest_readable_instant or ""
    instants = (commit.requested_time for commit in table.timeline.commits())
    return next((instant for instant in instants if instant >= first), None)
