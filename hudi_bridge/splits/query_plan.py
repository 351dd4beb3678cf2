"""What a dataset reads: the plan of one query, as splits whose rows together are its answer.

Each kind of query has its plan. A plan lists files when its splits are first asked for, and keeps what it learns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import QueryType
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.timeline.instant_range import next_after_snapshot


class Split(Protocol):
    """A part of a plan that can be read on its own, anywhere the table's files can be reached.

    Made by ``HudiDataset.splits``: a ``RealtimeFileSplit`` or a ``ChangeSplit``.
    """

    @property
    def context(self) -> ReadContext:
        """What the splits of one plan have in common."""

    @property
    def slices(self) -> tuple[RealtimeFileSplit, ...]:
        """The file slices that a reader of the split merges."""

    def to_json(self) -> str:
        """The split as a JSON text that stands on its own."""


class QueryPlan(Protocol):
    """What a ``HudiDataset`` takes."""

    @property
    def query_type(self) -> QueryType:
        """The kind of query."""

    @property
    def instant(self) -> str:
        """The instant as of which the table is read."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    @property
    def context(self) -> ReadContext:
        """What the splits have in common, whether or not there are any."""

    @property
    def next_after(self) -> str | None:
        """The ``after`` of the incremental query for what comes next, None where that cannot be told."""

    def splits(self, row_filter: pc.Expression | None = None) -> Iterator[Split]:
        """The splits whose rows may pass the filter, made one after another."""

    def left_out_log_files(self) -> int:
        """How many log files hold later changes that the query does not read."""


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    """All rows as of one instant, from base files and logs or, read optimized, from base files alone."""

    planner: SplitPlanner
    query_type: QueryType

    @property
    def instant(self) -> str:
        """The instant as of which the table is read."""
        return self.planner.state.instant

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table as of the instant."""
        return self.planner.schema(self.query_type)

    @property
    def context(self) -> ReadContext:
        """What the splits have in common, whether or not there are any."""
        return self.planner.context(self.query_type)

    @property
    def next_after(self) -> str | None:
        """Where changes since the snapshot begin; None for base files alone, which lag behind by their logs."""
        return next_after_snapshot(self.planner.state) if self.query_type is QueryType.SNAPSHOT else None

    def splits(self, row_filter: pc.Expression | None = None) -> Iterator[RealtimeFileSplit]:
        """The splits whose rows may pass the filter, made one after another; none is kept."""
        return self.planner.splits(self.query_type, row_filter)

    def left_out_log_files(self) -> int:
        """The log files of the snapshot, if they are not merged in."""
        if self.query_type is QueryType.SNAPSHOT:
            return 0
        return sum(len(piece.log_files) for piece in self.planner.file_slices(QueryType.SNAPSHOT))
