"""Whether the metadata table can be used, and which of its instants count.

It is written before the data table's own commit completes. So an instant of it counts only if the data table has
completed it, or archived it, or does not know it: the creation of an index, or a log compaction of the metadata table.
Releases before 1.0 mark those by a suffix of their instants.

The metadata table is listed later than the data table, so it may hold writes that the state of the data table does not
know either. Only another listing of the data table tells them from the metadata table's own.

Source: ``HoodieTableMetadataUtil.getValidInstantTimestamps``, ``HoodieBackedTableMetadataWriter.update`` of a rollback.
"""

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from hudi_bridge.caching import cached_property
from hudi_bridge.config import FIRST_VERSION_OF_1X
from hudi_bridge.errors import CorruptTableError, DataFileGoneError
from hudi_bridge.timeline.instant import COMMIT_ACTIONS, Action, Instant
from hudi_bridge.timeline.plans import read_rolled_back
from hudi_bridge.timeline.table_state import TableState
from hudi_bridge.timeline.timeline import Timeline, load_timeline

_FIRST_INSTANT = "00000000000000"
# 17 digits of an instant of the data table, and three of an operation (001 to 006) or of a new index (from 010).
_OWN_OPERATION = re.compile(r"[0-9]{17}(?:00[1-6]|0[1-9][0-9]|[1-9][0-9]{2})")
# Actions of the metadata table that write what the data table has done; a commit is a compaction of its own.
_WRITES = frozenset({Action.DELTA_COMMIT, Action.RESTORE})
_REMOVES_RECORDS = frozenset({Action.ROLLBACK, Action.RESTORE})
# Actions of the data table that are written to the metadata table as well.
_WRITTEN = COMMIT_ACTIONS | _REMOVES_RECORDS | {Action.CLEAN}


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
        archived them. So do rollbacks of what was never written to it.
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
            if instant.action is Action.ROLLBACK and self._is_of_unwritten(instant, written):
                continue
            return time
        return None

    def _is_of_unwritten(self, rollback: Instant, written: AbstractSet[str]) -> bool:
        """Whether nothing that a rollback has undone was written to the metadata table.

        From table version 8 on, such a rollback is not written either: it has removed the files of its write, and of
        earlier versions it may have added some.
        """
        if self.data.config.table_version < FIRST_VERSION_OF_1X:
            return False
        try:
            undone = read_rolled_back(self.data, rollback)
        except (CorruptTableError, DataFileGoneError):
            return False
        return bool(undone) and written.isdisjoint(undone)

    @cached_property
    def later_instant(self) -> str | None:
        """The first instant by which the metadata table is of a later state than the data table's, None if it is not.

        A base file of the metadata table may hold what such an instant wrote, so that it cannot be left out. Lists the
        timeline of the data table, if the metadata table has instants that its state does not know.

        Raises:
            CorruptTimelineError: a folder has the name of an instant.
            StorageError: the timeline cannot be listed.
        """
        written = (instant.requested_time for instant in self.own.completed() if instant.action in _WRITES)
        unknown = {time for time in written if self._is_unknown(time)}
        if not unknown:
            return None
        now = load_timeline(self.data.storage, self.data.config)
        later = {time for time in unknown if now.is_archived(time)}
        for instant in now.instants:
            time, action = instant.requested_time, instant.comparable_action
            # What is pending in both states does not count, and no base file of the metadata table holds it.
            if time in self._completed or (time in self._pending and not instant.is_completed):
                continue
            # What was rolled back since is on neither timeline any more.
            if action in _REMOVES_RECORDS or (action in COMMIT_ACTIONS and time in unknown):
                later.add(time)
        return min(later, default=None)

    def _is_unknown(self, instant: str) -> bool:
        """Whether an instant is neither completed in the data table's state nor certainly the metadata table's own."""
        if instant in self._completed or self.data.timeline.is_archived(instant):
            return False
        return not (instant.startswith(_FIRST_INSTANT) or _OWN_OPERATION.fullmatch(instant))
