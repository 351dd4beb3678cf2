"""The plan of a query: its columns and its splits. Files are listed when splits are first iterated, and cached."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import QueryType
from hudi_bridge.splits.plan_notes import FileSource, PlanNotes
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.timeline.instant_range import next_after_snapshot
from hudi_bridge.timeline.plans import GroupId


class Split(Protocol):
    """A part of a query that can be read independently, on any machine that can reach the table's files.

    Made by ``HudiDataset.splits``: a ``RealtimeFileSplit`` or a ``ChangeSplit``.
    """

    @property
    def context(self) -> ReadContext:
        """The context shared by the splits of one plan."""

    @property
    def slices(self) -> tuple[RealtimeFileSplit, ...]:
        """The file slices that a reader of the split merges."""

    def to_json(self) -> str:
        """The split, with its context, as JSON text."""


class QueryPlan(Protocol):
    """The plan that a ``HudiDataset`` reads."""

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
        """The context shared by the splits, even if there are none."""

    @property
    def next_after(self) -> str | None:
        """The ``after`` of the incremental query that continues from here, None if it is unknown."""

    @property
    def found_by(self) -> FileSource:
        """How the names of files are found; known once splits have been made."""

    def splits(self, row_filter: pc.Expression | None = None, notes: PlanNotes | None = None) -> Iterator[Split]:
        """The splits whose rows may pass the filter, made one at a time; ``notes`` tell what was passed over."""

    def left_out_log_files(self) -> int:
        """The number of log files with later changes that the query does not read."""


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    """All rows as of one instant, from base files and logs; from base files alone if read optimized."""

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
        """The context shared by the splits, even if there are none."""
        return self.planner.context(self.query_type)

    @property
    def next_after(self) -> str | None:
        """The ``after`` for changes since the snapshot; None for base files alone, which lack the changes in logs."""
        return next_after_snapshot(self.planner.state) if self.query_type is QueryType.SNAPSHOT else None

    @property
    def found_by(self) -> FileSource:
        """How the names of files are found; known once splits have been made."""
        return self.planner.files.found_by

    def splits(
        self, row_filter: pc.Expression | None = None, notes: PlanNotes | None = None
    ) -> Iterator[RealtimeFileSplit]:
        """The splits whose rows may pass the filter, made one at a time and not cached."""
        return self.planner.splits(self.query_type, row_filter, notes)

    def splits_of_groups(
        self, groups: AbstractSet[GroupId], row_filter: pc.Expression | None, notes: PlanNotes | None
    ) -> Iterator[RealtimeFileSplit]:
        """The splits of some file groups; only their partitions are listed, which need not exist."""
        return self.planner.splits_of_groups(self.query_type, groups, row_filter, notes)

    def left_out_log_files(self) -> int:
        """The number of log files in the snapshot that are not merged in."""
        if self.query_type is QueryType.SNAPSHOT:
            return 0
        return sum(len(piece.log_files) for piece in self.planner.file_slices(QueryType.SNAPSHOT))
