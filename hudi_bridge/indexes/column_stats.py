"""Uses the column stats of the metadata table, as long as they are complete for the newest state of the table."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import pyarrow.compute as pc

from hudi_bridge.caching import cached_property
from hudi_bridge.errors import HudiReadError
from hudi_bridge.metadata.data_skipping import skippable_columns, splits_that_may_pass
from hudi_bridge.metadata.record_kinds import COLUMN_STATS
from hudi_bridge.metadata.table import MetadataTable, why_not_there
from hudi_bridge.splits.plan_notes import PlanNotes
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.timeline.table_state import TableState

_LOG = logging.getLogger(__name__)
_SPLITS_AT_ONCE = 4_096
STEP = "column stats"


class ColumnStatsOfTable:
    """The column stats of a table; stats that cannot be used are reported once, and pass over no slice.

    They describe files, which do not change, so they serve queries of earlier states too.
    """

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable]) -> None:
        """The column stats of a state, whose metadata table is opened when it is first needed."""
        self._metadata = metadata
        self._why_not = why_not_there(state, COLUMN_STATS)

    def splits_that_may_pass(
        self,
        splits: Iterable[RealtimeFileSplit],
        row_filter: pc.Expression,
        columns: Sequence[str],
        context: ReadContext,
        notes: PlanNotes | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits of which rows may pass a filter that refers to some columns of a query."""
        known = skippable_columns(columns, context)
        waiting = iter(splits)
        while part := list(islice(waiting, _SPLITS_AT_ONCE)):
            chosen = self._chosen(part, row_filter, known)
            if notes is not None and known and self._why_not is None:
                notes.counted(STEP, len(part), len(chosen))
            yield from chosen
        if notes is not None and self._why_not is not None:
            notes.not_used(STEP, self._why_not)
        elif notes is not None and not known:
            notes.not_used(STEP, f"they do not tell of {', '.join(columns) or 'no column'}")

    def _chosen(
        self, splits: list[RealtimeFileSplit], row_filter: pc.Expression, columns: Sequence[str]
    ) -> list[RealtimeFileSplit]:
        if not columns or self._why_not is not None:
            return splits
        try:
            return splits_that_may_pass(self._table, splits, row_filter, columns)
        except HudiReadError as error:
            self._why_not = str(error)
            _LOG.warning("the column stats are not used: %s", error)
            return splits

    @cached_property
    def _table(self) -> MetadataTable:
        table = self._metadata()
        table.require(COLUMN_STATS)
        return table
