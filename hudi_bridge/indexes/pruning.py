"""Selects the splits that a scan reads: by partitions, by indexes, and by record keys."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.indexes.candidates import RECORD_INDEX, candidate_splits, groups_of_keys
from hudi_bridge.indexes.query_indexes import IndexesOfQuery
from hudi_bridge.indexes.secondary_index import STEP as SECONDARY_INDEX
from hudi_bridge.merge.arrays import Column
from hudi_bridge.options import DATA_SKIPPING_KEY
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.splits.notes import PlanNotes
from hudi_bridge.splits.planner import QueryPlan, SnapshotPlan, Split
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.instant_files import GroupId

AnySplit = TypeVar("AnySplit", bound=Split)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSelection:
    """The plan of a query, and the indexes that narrow it. A read of all rows uses none, and need not import them."""

    storage: Storage
    plan: QueryPlan
    indexes: IndexesOfQuery

    def record_locations(self, record_keys: Sequence[str]) -> pa.Table | None:
        """Where records are, as ``LOCATIONS``; None if the record index does not serve the query, or cannot answer."""
        record_index = self.indexes.record_index
        uses_indexes = self.plan.context.skips_slices
        return record_index.complete_locations(record_keys) if record_index is not None and uses_indexes else None

    def iter_select(self, request: RowRequest) -> Iterator[Split]:
        """The splits that a scan reads; made as they are needed, unless record keys are looked up."""
        if request.record_keys is None:
            return self._planned(request)
        located = self._located(request)
        if located is not None:
            return iter(located)
        whole = {(split.slices[0].partition_path, split.slices[0].file_id): split for split in self._planned(request)}
        candidates = self._candidates(whole.values(), request.record_keys)
        return (
            whole[file_slice.partition_path, file_slice.file_id] for split in candidates for file_slice in split.slices
        )

    def select(
        self, request: RowRequest, partition_path: str | None = None, notes: PlanNotes | None = None
    ) -> list[Split]:
        """The splits that a scan reads; with record keys and ``partition_path``, only splits in that partition."""
        located = self._located(request, partition_path, notes)
        if located is not None:
            return list(located)
        splits: list[Split] = list(self._planned(request, notes))
        if notes is not None and request.row_filter is not None and not self.plan.context.skips_slices:
            notes.not_used("indexes", f"{DATA_SKIPPING_KEY} is false")
        if request.record_keys is None:
            return splits
        slices = (file_slice for split in splits for file_slice in split.slices)
        chosen = (file_slice for file_slice in slices if partition_path in (None, file_slice.partition_path))
        return list(self._candidates(chosen, request.record_keys, notes))

    def _planned(self, request: RowRequest, notes: PlanNotes | None = None) -> Iterator[Split]:
        """The splits whose rows may pass the filter. Indexes for filters are not asked if record keys are looked up."""
        plan, row_filter, columns = self.plan, request.row_filter, request.filter_columns
        asks = plan.context.skips_slices and request.record_keys is None
        skipping = self.indexes.data_skipping if asks and row_filter is not None else None
        if skipping is None or row_filter is None:
            return _counting(plan.splits(row_filter, notes), notes)
        slices: Iterable[RealtimeFileSplit] | None = None
        if skipping.groups is not None and isinstance(plan, SnapshotPlan):
            groups = skipping.groups.file_groups(row_filter, columns, plan.context, notes)
            if groups is not None:
                slices = self._in_groups(plan, groups, row_filter, notes, SECONDARY_INDEX)
        if slices is None:
            slices = (
                file_slice for split in _counting(plan.splits(row_filter, notes), notes) for file_slice in split.slices
            )
        return skipping.splits_that_may_pass(slices, row_filter, columns, plan.context, notes)

    def _located(
        self, request: RowRequest, partition_path: str | None = None, notes: PlanNotes | None = None
    ) -> list[RealtimeFileSplit] | None:
        """The splits of the record keys by the record index, None if it cannot answer.

        Only the partitions that it names are listed.

        Raises:
            UnsupportedTableError: rows of the table have no record keys, or keys whose text is not known.
        """
        plan = self.plan
        if request.record_keys is None:
            return None
        # An index may name no slice, and then nothing is read that would refuse. Rows of external files are in a record
        # index by their positions.
        _ = plan.context.key_columns
        if not plan.context.skips_slices:
            return None
        groups = groups_of_keys(self.indexes.record_index, map(str, request.record_keys.to_pylist()), notes)
        if groups is None or not isinstance(plan, SnapshotPlan):
            return None
        in_partition = {group for group in groups if partition_path in (None, group[0])}
        return self._in_groups(plan, in_partition, request.row_filter, notes, RECORD_INDEX)

    def _candidates(
        self, splits: Iterable[Split], record_keys: Column, notes: PlanNotes | None = None
    ) -> list[RealtimeFileSplit]:
        """The slices that may hold the keys; their base files only if these may."""
        slices = (file_slice for split in splits for file_slice in split.slices)
        if not self.plan.context.skips_slices:
            return list(slices)
        keys = map(str, record_keys.to_pylist())
        return candidate_splits(self.storage, slices, keys, self.indexes.key_index, notes)

    def _in_groups(
        self,
        plan: SnapshotPlan,
        groups: AbstractSet[GroupId],
        row_filter: pc.Expression | None,
        notes: PlanNotes | None,
        index: str,
    ) -> list[RealtimeFileSplit]:
        """The splits of the groups that an index has named; only their partitions are listed."""
        splits = list(plan.splits_of_groups(groups, row_filter, notes))
        if notes is not None:
            notes.counted(index, notes.listed, len(splits))
        return splits


def _counting(splits: Iterator[AnySplit], notes: PlanNotes | None) -> Iterator[AnySplit]:
    """The same splits; if there are notes, these count them as listed."""
    return splits if notes is None else notes.counting(splits)
