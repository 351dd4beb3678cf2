"""A Hudi table as Iceberg clients see it: how it is read, and its table metadata."""

import hashlib
import logging
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

from hudi_bridge.config import QueryType
from hudi_bridge.connectors.iceberg.compatibility import FormatVersion, Rewriting
from hudi_bridge.connectors.iceberg.metadata import (
    BEFORE,
    TABLE_METADATA,
    IcebergSnapshot,
    epoch_ms,
    metadata_text,
    table_metadata,
)
from hudi_bridge.connectors.iceberg.slice_builder import FORMAT
from hudi_bridge.connectors.iceberg.slice_cache import Counters
from hudi_bridge.connectors.iceberg.slice_files import Folder
from hudi_bridge.connectors.lakes.tables import MergeSettings
from hudi_bridge.connectors.scratch import Locations, Scratch, current_period
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.engines import identity
from hudi_bridge.errors import CorruptTimelineError
from hudi_bridge.storage.storage import Storage
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import InstantLike

_LOG = logging.getLogger(__name__)

_MOST_PUBLISHED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSettings:
    """How snapshots are built, and how long they are kept.

    ``builders`` builds up to ``at_once`` slices of all tables in parallel. With ``roots``, data files must lie below
    one of them when links are resolved. The newest ``keep`` snapshots are listed. Unused files are kept for
    ``keep_seconds``, so that running queries can finish.
    """

    locations: Locations
    builders: Executor
    at_once: int
    counters: Counters
    roots: tuple[Path, ...] | None = None
    keep: int = 20
    keep_seconds: float = 3600.0
    rewriting: Rewriting = field(default_factory=Rewriting)
    format_version: FormatVersion = FormatVersion.V2


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What a client gets: the metadata of a table as JSON, and the name and the URI of the metadata file.

    ``notes`` say which clients misread the newest snapshot.
    """

    instant: str
    metadata: str
    name: str
    location: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTable:
    """One table for one query type, read with some settings."""

    storage: Storage
    query_type: QueryType
    settings: SnapshotSettings
    merging: MergeSettings

    def open(self) -> HudiTable:
        """The table in its newest state.

        Raises:
            HudiReadError: the table cannot be read.
        """
        merging = self.merging
        return HudiTable.of(self.storage, merging.options, merging.payloads, merging.log_memory_bytes)

    def dataset(self, table: HudiTable, as_of: InstantLike | None) -> HudiDataset:
        """The rows of the query type, newest or as of an instant.

        Raises:
            QueryError: an option asks for completion times, which clients of Iceberg do not get.
            HudiReadError: the table cannot be read as of the instant.
        """
        rows = table.read_optimized(as_of) if self.query_type is QueryType.READ_OPTIMIZED else table.snapshot(as_of)
        rows.context.require_no_completion_times("clients of Iceberg")
        return rows

    def state(self, table: HudiTable, instant: str) -> str:
        """A hash of what a snapshot is made from; no data file is read for it."""
        version = self.settings.format_version
        settings = (
            self.settings.locations,
            self.settings.rewriting,
            self.merging,
            *(() if version is FormatVersion.V2 else (version,)),
        )
        return identity(FORMAT, table.config, table.timeline.instants, instant, *settings)

    def retained(self, table: HudiTable) -> Iterator[tuple[str, int]]:
        """The instants that the table can be read as of, with their times in milliseconds; ``BEFORE`` comes first."""
        try:
            earliest = table.earliest_readable_instant or ""
        except CorruptTimelineError as error:
            # The newest snapshot does not need the clean; there is no time travel without it.
            _LOG.warning("%s: only the newest instant is offered: %s", table.path, error)
            earliest = table.latest_instant or ""
        if earliest:
            yield BEFORE, 1
        for commit in table.timeline.commits():
            if commit.requested_time >= earliest:
                yield commit.requested_time, epoch_ms(commit.requested_time, table.config.timeline_timezone)


class PublishedMetadata:
    """The table metadata that clients have been given, as files of a scratch folder; not thread-safe.

    The names have the period in which they are given out: all services write the same file, and none that is removed.
    """

    def __init__(self, served: ServedTable, scratch: Scratch) -> None:
        self._served = served
        self._scratch = scratch
        self._published: dict[str, Published] = {}

    def of(self, table: HudiTable, snapshots: Sequence[IcebergSnapshot]) -> Published:
        """The metadata of some snapshots, ordered by instant; the file is written unless it is there."""
        period = current_period(self._served.settings.keep_seconds)
        made_of = [
            (snapshot.instant, snapshot.state, snapshot.manifest_list, dict(snapshot.columns.ids))
            for snapshot in snapshots
        ]
        key = repr((period, made_of))
        if key not in self._published:
            locations = self._served.settings.locations
            location = locations.uri(self._scratch.storage)
            properties = {
                "hudi.table": locations.uri(self._served.storage),
                "hudi.query-type": self._served.query_type.value,
                # Clients that expire snapshots must not remove base files, which are Hudi's.
                "gc.enabled": "false",
            }
            metadata = table_metadata(
                location,
                snapshots,
                self._served.retained(table),
                properties=properties,
                version=self._served.settings.format_version,
            )
            text = metadata_text(metadata)
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            name = f"{snapshots[-1].instant}-{digest}-p{period}{TABLE_METADATA}"
            self._scratch.write(f"{Folder.TABLES}/{name}", text.encode())
            self._published[key] = Published(
                instant=snapshots[-1].instant,
                metadata=text,
                name=name,
                location=f"{location}/{Folder.TABLES}/{name}",
                notes=snapshots[-1].notes,
            )
            for oldest in list(self._published)[:-_MOST_PUBLISHED]:
                del self._published[oldest]
        return self._published[key]

    def keep_present(self, names: Collection[str]) -> None:
        """Forget all files but those with these names."""
        self._published = {key: published for key, published in self._published.items() if published.name in names}
