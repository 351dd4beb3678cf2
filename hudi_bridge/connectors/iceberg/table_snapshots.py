"""The Iceberg snapshots of a Hudi table, built on request and kept in a scratch folder.

    data/        rows and position deletes of file slices, or deletion vectors
    slices/      the cache entry of each slice
    metadata/    manifests and manifest lists
    snapshots/   one record for each snapshot
    dropped/     records of snapshots whose files go as soon as running queries no longer need them
    tables/      Iceberg table metadata
    row-ids/     claims of ids of rows, in version 3

Each file is written after those it refers to. The names of data, manifests and table metadata have a hash of what they
were made from, so that complete files are used again after a crash and by other services. Any number of services may
use one folder: ``garbage`` says why none removes what another needs.
"""

import contextlib
import logging
import math
import time
from threading import Lock

from hudi_bridge.common.operations import operation
from hudi_bridge.config import QueryType
from hudi_bridge.connectors.iceberg.columns import Ids
from hudi_bridge.connectors.iceberg.metadata import IcebergSnapshot
from hudi_bridge.connectors.iceberg.served_table import (
    Published,
    PublishedMetadata,
    ServedTable,
    SnapshotSettings,
)
from hudi_bridge.connectors.iceberg.snapshot_builder import snapshot_builder
from hudi_bridge.connectors.iceberg.snapshot_records import Garbage, PresentFiles, SnapshotRecords
from hudi_bridge.connectors.lakes.tables import MergeSettings
from hudi_bridge.connectors.scratch import Scratch
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.errors import CorruptTimelineError, DataFileGoneError, InstantNotReadableError, StorageError
from hudi_bridge.storage.storage import Storage
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import InstantLike

_MOST_TRIES = 3
_CHECK_SECONDS = 60.0
"""How often a remote scratch folder is checked for missing files; a local one is checked on each load."""
_LOG = logging.getLogger(__name__)


class TableSnapshots:
    """The snapshots of one table for one query type. Thread-safe: a load waits for the one before it."""

    def __init__(
        self,
        storage: Storage,
        query_type: QueryType,
        scratch: Scratch,
        settings: SnapshotSettings,
        merging: MergeSettings | None = None,
    ) -> None:
        """The snapshots of the table in ``storage``.

        Raises:
            QueryError: the scratch folder lies within the table.
        """
        scratch.require_outside(storage)
        self._storage = storage
        self._scratch = scratch
        self._settings = settings
        self._served = ServedTable(
            storage=storage, query_type=query_type, settings=settings, merging=merging or MergeSettings()
        )
        self._lock = Lock()
        self._snapshots = SnapshotRecords(scratch)
        self._builder = snapshot_builder(self._served, scratch)
        self._published = PublishedMetadata(self._served, scratch)
        self._garbage = Garbage(scratch, settings.keep_seconds)
        self._checked = -math.inf
        self._loads = 0
        self._newest: tuple[int, Published] | None = None

    def load(self, as_of: InstantLike | None = None) -> Published:
        """The newest snapshot and the listed earlier ones, or only the snapshot as of an instant.

        Loads that wait share the result of the next load that begins: where commits come as fast as snapshots are
        built, none waits for more than two.

        Raises:
            HudiReadError: the table cannot be read.
        """
        loads_before = self._loads
        with self._lock:
            if as_of is not None:
                return self._loaded(as_of)
            if self._newest is None or self._newest[0] <= loads_before:
                self._loads += 1
                number = self._loads
                self._newest = number, self._loaded(None)
            return self._newest[1]

    def _loaded(self, as_of: InstantLike | None) -> Published:
        for remaining in reversed(range(_MOST_TRIES)):
            try:
                return self._load(self._served.open(), as_of)
            except (DataFileGoneError, InstantNotReadableError):
                # The cleaner was faster, and there is a newer instant now.
                if as_of is not None or not remaining:
                    raise
        raise AssertionError

    def follow(self) -> None:
        """Build snapshots of all commits since the newest snapshot, for time travel.

        Raises:
            HudiReadError: the table cannot be read.
        """
        commits = [commit.requested_time for commit in self._served.open().timeline.commits()]
        newest = max(
            (snapshot.instant for snapshot in self._snapshots.all() if snapshot.instant <= max(commits, default="")),
            default=None,
        )
        if newest is not None:
            for commit in commits:
                if commit > newest:
                    # Not every commit can be read as of its instant; the load below raises for the newest state.
                    with contextlib.suppress(InstantNotReadableError, DataFileGoneError, CorruptTimelineError):
                        self.load(commit)
        self.load()

    def _load(self, table: HudiTable, as_of: InstantLike | None) -> Published:
        self._snapshots.refresh()
        # Taken before snapshots are dropped: columns keep their ids when a snapshot is rebuilt.
        known_ids = self._snapshots.ids()
        self._forget_missing_files()
        dataset = self._served.dataset(table, as_of)
        state = self._served.state(table, dataset.instant)
        snapshot = self._snapshots.find(dataset.instant, state)
        is_known = snapshot is not None
        if snapshot is None:
            with operation(_LOG, "build", table=self._storage.shown_path, instant=dataset.instant):
                snapshot = self._build(table, dataset, state, known_ids)
            snapshot = self._snapshots.publish(snapshot)
        self._settings.counters.add("snapshots_reused_total" if is_known else "snapshots_built_total")
        listed = [snapshot] if as_of is not None else self._snapshots.up_to(snapshot, self._settings.keep)
        self._snapshots.use(listed)
        published = self._published.of(table, listed)
        if not is_known:
            self._snapshots.drop(self._settings.keep, self._settings.keep_seconds)
            self._settings.counters.add("files_removed_total", self._garbage.remove(self._snapshots))
        return published

    def _build(self, table: HudiTable, dataset: HudiDataset, state: str, known_ids: Ids) -> IcebergSnapshot:
        for _ in range(_MOST_TRIES):
            started = time.monotonic()
            needed = self._snapshots.everything()
            self._builder.keep_manifests({name for snapshot in needed for name in snapshot.manifests})
            self._builder.slices.refresh({name for snapshot in needed for name in snapshot.slices})
            snapshot = self._builder.build(table, dataset, state, known_ids, self._snapshots.lineage_of)
            # Another service may meanwhile have removed what was there when the build began.
            if time.monotonic() - started < self._settings.keep_seconds / 2:
                return snapshot
            if PresentFiles.of(self._scratch).has_all_of(snapshot):
                return snapshot
            self._snapshots.refresh()
        raise StorageError(
            self._scratch.storage.shown_path, "keep", "files are removed faster than snapshots are built"
        )

    def _forget_missing_files(self) -> None:
        """Drop snapshots whose files have been removed by others; they are built again on request."""
        if not self._scratch.storage.is_local and time.monotonic() - self._checked < _CHECK_SECONDS:
            return
        present = PresentFiles.of(self._scratch)
        self._checked = time.monotonic()
        broken = [snapshot for snapshot in self._snapshots.everything() if not present.has_all_of(snapshot)]
        if broken:
            _LOG.warning(
                "%s: files of %d snapshots are gone from the scratch folder",
                ascii(self._storage.shown_path),
                len(broken),
            )
        self._snapshots.remove(broken)
        self._builder.keep_manifests(present.metadata)
        self._published.keep_present(present.tables)
