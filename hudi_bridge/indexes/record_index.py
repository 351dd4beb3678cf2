"""The record index of the metadata table: the partition and file group of each record key.

It describes the newest state, and is used as long as it is complete for the state that is read. The index of a table is
global, or has file groups for each partition; then a key may occur in several.

A global index has one location for a key. ``insert_overwrite`` looks no keys up: a record of the overwritten partition
may be in another one as well, where an upsert left it although its partition column had changed. The index then has
only the newer location, and Hudi loses the other row. While such a write is on the active timeline, the index is not
used.

A delete in a log removes its key from the index when it is written. If it is late by its ordering value, the row stays,
and Hudi's lookups lose it. So if late deletes can lose, the index is not trusted for a key that its own logs have
removed; after its compaction, this can no longer be seen.

Source: ``HoodieRecordIndexInfo``, ``HoodieTableMetadataUtil.getLocationFromRecordIndexInfo``,
``SparkInsertOverwriteCommitActionExecutor``, ``HoodieBackedTableMetadataWriter``.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_bridge.common.caching import cached_property
from hudi_bridge.config import TableType
from hudi_bridge.errors import HudiReadError
from hudi_bridge.indexes.metadata_table import MetadataTable, why_not_there
from hudi_bridge.indexes.record_kinds import RECORD_INDEX, Ints
from hudi_bridge.merge.payloads import merge_rule
from hudi_bridge.timeline.instant import Action
from hudi_bridge.timeline.instant_files import GroupId, read_all_commit_metadata
from hudi_bridge.timeline.timeline import TableState

_FIELDS: list[Any] = [
    pa.field("key", pa.string()),
    pa.field("partition", pa.string()),
    pa.field("file_id", pa.string()),
    pa.field("instant", pa.timestamp("ms", "UTC")),
]
LOCATIONS = pa.schema(_FIELDS)
"""The columns of locations; ``instant`` is when the record was inserted."""
_LOG = logging.getLogger(__name__)
_OVERWRITES_PARTITIONS, _COMPACTS_LOGS = "INSERT_OVERWRITE", "LOG_COMPACT"


def record_locations(table: MetadataTable, keys: Sequence[str], within: Iterable[str] | None = None) -> pa.Table:
    """The locations of records, in no order; a key that is not in the index has no row.

    ``within`` names the partitions to look in if each has an index of its own, None for all. The same key may then be
    in several. A global index ignores ``within``.

    Raises:
        CorruptTableError: the index is damaged.
        StorageError: it cannot be read.
    """
    return locations_of(table.of_keys(RECORD_INDEX, keys, within))


def locations_of(records: pa.Table) -> pa.Table:
    """The locations in records of the index."""
    encoded = records.column("file_id_encoding").to_numpy() == 0
    file_ids = np.where(encoded, _uuid_file_ids(records), records.column("file_id").to_numpy())
    columns = [
        records.column("key"),
        records.column("partition"),
        pa.array(file_ids, pa.string()),
        records.column("instant_ms").cast(pa.timestamp("ms", "UTC")),
    ]
    return pa.table(columns, schema=LOCATIONS)


def _uuid_file_ids(records: pa.Table) -> "np.ndarray[tuple[int], np.dtype[np.object_]]":
    """File ids from their parts: the two halves of a UUID, and a number after it unless that is negative."""
    halves = [_numbers(records, f"file_id_{half}_bits", 0) for half in ("high", "low")]
    numbers = _numbers(records, "file_index", -1).tolist()
    raw = np.stack(halves, axis=1).astype(">i8").tobytes().hex()
    texts = []
    for row, number in enumerate(numbers):
        digits = raw[32 * row : 32 * row + 32]
        uuid = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        texts.append(uuid if number < 0 else f"{uuid}-{number}")
    return np.array(texts, dtype=object)


def _numbers(records: pa.Table, name: str, default: int) -> Ints:
    column: Any = records.column(name)
    numbers: Ints = column.fill_null(default).to_numpy()
    return numbers


class RecordIndexOfTable:
    """The record index of a table in its newest state. If it cannot be used, this is reported once."""

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable]) -> None:
        """The index of a state, whose metadata table is opened when it is first needed."""
        self._state = state
        self._metadata = metadata
        self._why_not_there = why_not_there(state, RECORD_INDEX)
        self.why_not: str | None = self._why_not_there
        """Why the index could not tell, the last time that it could not; threads that it could tell leave it."""

    def file_groups(self, record_keys: Sequence[str]) -> AbstractSet[GroupId] | None:
        """The partition path and file id of all groups with one of the keys; None if the index cannot answer."""
        locations = self.complete_locations(record_keys)
        if locations is None:
            return None
        return {(str(row["partition"]), str(row["file_id"])) for row in locations.to_pylist()}

    def complete_locations(self, record_keys: Sequence[str]) -> pa.Table | None:
        """Where records are; None if the index cannot answer, or may lack an existing record."""
        locations = self.locations(record_keys)
        if locations is None:
            return None
        missing = set(record_keys).difference(locations.column("key").to_pylist())
        if missing and self._has_log_compactions:
            self.why_not = "it lacks keys that a log compaction may have deleted, although other file groups have them"
            return None
        if not missing or not self._lacks_late_deletes:
            return locations
        lost = self._metadata().keys_in_logs(RECORD_INDEX, sorted(missing))
        if not len(lost):
            return locations
        self.why_not = f"it has lost {len(lost):,} of the keys, whose rows stay if they were deleted late"
        return None

    def locations(self, record_keys: Sequence[str]) -> pa.Table | None:
        """Where records are, one row for each existing one, as ``LOCATIONS``; None if the index cannot answer."""
        if self._why_not_there is not None:
            return None
        try:
            why_not = self._metadata().why_not(RECORD_INDEX) or self._may_lack_rows
            if why_not is None:
                locations = record_locations(self._metadata(), record_keys)
                for path in locations.column("partition").unique().to_pylist():
                    # Whoever asks will list it.
                    self._state.storage.resolve(str(path))
                return locations
        except HudiReadError as error:
            why_not = str(error)
        if self.why_not is None:
            _LOG.warning("the record index is not used: %s", why_not)
        self.why_not = why_not
        return None

    @cached_property
    def _may_lack_rows(self) -> str | None:
        """Why a key may have rows that the index lacks; planning reads the same commits for what they replaced."""
        state = self._state
        replacing = [commit for commit in state.timeline.commits() if commit.action is Action.REPLACE_COMMIT]
        if not state.config.partition_fields or not replacing:
            return None
        for commit, metadata in zip(replacing, read_all_commit_metadata(state, replacing), strict=True):
            if metadata.operation_type == _OVERWRITES_PARTITIONS and self._is_global:
                return f"{metadata.operation_type} at {commit.requested_time} may have put keys into a second partition"
        return None

    @cached_property
    def _has_log_compactions(self) -> bool:
        """Whether a log compaction has deleted the keys of a file group's delete blocks from the index.

        Records that have moved to other file groups since are among them, in Hudi 1.2 at least.
        """
        commits = [commit for commit in self._state.timeline.commits() if commit.action is Action.DELTA_COMMIT]
        all_metadata = read_all_commit_metadata(self._state, commits)
        return any(metadata.operation_type == _COMPACTS_LOGS for metadata in all_metadata)

    @cached_property
    def _lacks_late_deletes(self) -> bool:
        """Whether a delete in a log may lose, by its ordering value, after the index has lost its key."""
        config = self._state.config
        return (
            config.table_type is not TableType.COPY_ON_WRITE
            and merge_rule(config, self._state.options.payloads).keeps_rows_of_late_deletes
        )

    @property
    def _is_global(self) -> bool:
        return set(self._metadata().file_groups(RECORD_INDEX)) == {""}
