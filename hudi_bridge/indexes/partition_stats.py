"""Uses the partition stats of the metadata table: they rule out partitions before their files are listed.

They are those of the newest state, and say nothing of log files without stats. So they serve queries of base files
alone: of a copy-on-write table, or read optimized.

Source: ``PartitionStatsIndexSupport`` and ``HoodieTableMetadataUtil.convertMetadataToPartitionStatRecords`` of Hudi.
"""

import logging
from collections.abc import Callable, Sequence

import pyarrow.compute as pc

from hudi_bridge.caching import cached_property
from hudi_bridge.errors import HudiReadError
from hudi_bridge.metadata.data_skipping import partitions_that_may_pass, skippable_columns
from hudi_bridge.metadata.record_kinds import COLUMN_STATS, PARTITION_STATS
from hudi_bridge.metadata.table import MetadataTable
from hudi_bridge.readers.request import referenced_columns
from hudi_bridge.splits.plan_notes import PARTITIONS, PlanNotes
from hudi_bridge.splits.split import ReadContext
from hudi_bridge.timeline.table_state import TableState

_LOG = logging.getLogger(__name__)
_FEW_PARTITIONS = 8
"""So many partitions are listed sooner than the metadata table is read for them."""
STEP = "partition stats"


class PartitionStatsOfTable:
    """The partition stats of a table in its newest state; stats that cannot be used are reported once.

    ``why_not`` says why, None as long as they can be used.
    """

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable]) -> None:
        """The partition stats of a state, whose metadata table is opened when it is first needed."""
        self.why_not: str | None = None
        self._metadata = metadata
        self._is_usable = PARTITION_STATS in state.config.metadata_partitions and state.options.uses_metadata_table

    def partitions_that_may_pass(
        self, paths: Sequence[str], row_filter: pc.Expression, context: ReadContext, notes: PlanNotes | None = None
    ) -> Sequence[str]:
        """The partitions in which base files may have rows that pass a filter."""
        if len(paths) <= _FEW_PARTITIONS:
            return paths
        if not self._is_usable or not context.skips_slices:
            return paths
        try:
            wanted = skippable_columns(referenced_columns(row_filter, context.schema), context)
            columns = [name for name in wanted if name in self._indexed_columns] if wanted else []
            if not columns:
                return paths
            chosen = partitions_that_may_pass(self._table, paths, row_filter, columns, context)
        except HudiReadError as error:
            self._is_usable = False
            self.why_not = str(error)
            _LOG.warning("the partition stats are not used: %s", error)
            if notes is not None:
                notes.not_used(STEP, self.why_not, PARTITIONS)
            return paths
        if notes is not None:
            notes.counted(STEP, len(paths), len(chosen), PARTITIONS)
        return chosen

    @cached_property
    def _indexed_columns(self) -> tuple[str, ...]:
        """The columns that writers keep stats of; of others, there may be old ones."""
        definition = self._table.definitions.get(COLUMN_STATS)
        return () if definition is None else definition.source_fields

    @cached_property
    def _table(self) -> MetadataTable:
        table = self._metadata()
        table.require(PARTITION_STATS)
        return table
