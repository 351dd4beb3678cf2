"""Whether the metadata table can be used, and which of its instants count.

It is written before the data table's own commit completes. So an instant of it counts only if the data table has
completed it, or archived it, or does not know it: the creation of an index, or a log compaction of the metadata table.
Releases before 1.0 mark those by a suffix of their instants.

Source: ``HoodieTableMetadataUtil.getValidInstantTimestamps``.
"""

import re
from dataclasses import dataclass

from hudi_bridge.caching import cached_property
from hudi_bridge.timeline.instant import Action
from hudi_bridge.timeline.table_state import TableState
from hudi_bridge.timeline.timeline import Timeline

_FIRST_INSTANT = "00000000000000"
# 17 digits of an instant of the data table, and three of an operation (001 to 006) or of a new index (from 010).
_OWN_OPERATION = re.compile(r"[0-9]{17}(?:00[1-6]|0[1-9][0-9]|[1-9][0-9]{2})")
# Actions of the data table that are written to the metadata table as well.
_WRITTEN = frozenset(
    {Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT, Action.CLEAN, Action.ROLLBACK, Action.RESTORE}
)


@dataclass(frozen=True)
class Validity:
    """The timelines of a data table and of its metadata table, compared."""

    data: TableState
    own: Timeline

    def counts(self, instant: str) -> bool:
        """Whether what an instant wrote to the metadata table counts."""
        if not self.own.is_committed(instant) or instant in self._pending:
            return False
        if instant in self._completed or instant.startswith(_FIRST_INSTANT):
            return True
        if self.data.config.written_by_1x or _OWN_OPERATION.fullmatch(instant):
            return True
        return instant < self.data.timeline_start

    @cached_property
    def _completed(self) -> frozenset[str]:
        return frozenset(instant.requested_time for instant in self.data.timeline.completed())

    @cached_property
    def _pending(self) -> frozenset[str]:
        return frozenset(instant.requested_time for instant in self.data.timeline.instants if not instant.is_completed)

    def missing_instant(self) -> str | None:
        """The first completed instant of the data table that was not written to the metadata table, None if all were.

        Instants before the first that was written count as written: the metadata table was made from a listing, or has
        archived them.
        """
        written = {instant.requested_time for instant in self.own.completed()}
        first = min((time for time in written if not time.startswith(_FIRST_INSTANT)), default=_FIRST_INSTANT)
        # A restore has an instant of its own in the metadata table, shortly after that of the data table.
        restored = self.own.latest_completed(Action.RESTORE)
        for instant in self.data.timeline.completed():
            time = instant.requested_time
            if instant.action not in _WRITTEN or time in written or time < first:
                continue
            if instant.action is Action.RESTORE and restored is not None and restored.requested_time > time:
                continue
            return time
        return None
