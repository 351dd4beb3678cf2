"""Publishes a Hudi table once as an Iceberg table in a folder.

The folder is a file-system ("Hadoop") table, which can be read until Hudi's cleaner removes the base files.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hudi_bridge.config import QueryType
from hudi_bridge.connectors.iceberg.compatibility import FormatVersion, Rewriting
from hudi_bridge.connectors.iceberg.served_table import SnapshotSettings
from hudi_bridge.connectors.iceberg.slice_cache import Counters
from hudi_bridge.connectors.iceberg.slice_files import Folder
from hudi_bridge.connectors.iceberg.table_snapshots import TableSnapshots
from hudi_bridge.connectors.lakes.tables import MergeSettings
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.errors import QueryError
from hudi_bridge.options import ReadOptions, require_table_options
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.instant import InstantLike

_HINT = f"{Folder.METADATA}/version-hint.text"
_VERSIONS_KEPT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """The folder and the metadata file of the Iceberg table, as URIs for clients, and its instant.

    ``slices_built`` counts the slices that had changed since the last publication to the folder. ``notes`` say which
    clients misread the table, as far as is known.
    """

    location: str
    metadata_location: str
    instant: str
    slices_built: int
    slices_reused: int
    notes: tuple[str, ...]


def publish_table(
    table: Storage,
    folder: Scratch,
    *,
    locations: Locations,
    builds: int,
    merging: MergeSettings | None = None,
    query_type: QueryType | None = None,
    as_of: InstantLike | None = None,
    keep: int = 20,
    keep_seconds: float = 3600.0,
    rewriting: Rewriting | None = None,
    format_version: FormatVersion = FormatVersion.V2,
) -> PublishedTable:
    """Publish the newest state of the table, or its state as of an instant, to ``folder``.

    Up to ``builds`` slices are built in parallel; slices that have not changed are reused. Readers see the old metadata
    until all new files are complete.

    Without ``query_type``, the options say what is read. A folder that was published in version 2 can be upgraded to 3.

    Raises:
        HudiReadError: the table cannot be read.
        QueryError: the folder was published in a higher version, or an option is unknown or refused.
    """
    _require_no_higher_version(folder, format_version)
    merging = merging or MergeSettings()
    require_table_options(merging.options)
    counters = Counters()
    with ThreadPoolExecutor(builds) as builders:
        settings = SnapshotSettings(
            locations=locations,
            builders=builders,
            at_once=builds,
            counters=counters,
            keep=keep,
            keep_seconds=keep_seconds,
            rewriting=rewriting or Rewriting(),
            format_version=format_version,
        )
        query_type = query_type or ReadOptions.of(merging.options).query_type
        published = TableSnapshots(table, query_type, folder, settings, merging).load(as_of)
    name = _write_version(folder, published.metadata.encode())
    return PublishedTable(
        location=locations.uri(folder.storage),
        metadata_location=locations.uri(folder.storage, f"{Folder.METADATA}/{name}"),
        instant=published.instant,
        slices_built=int(counters.value("slices_built_total")),
        slices_reused=int(counters.value("slices_reused_total")),
        notes=published.notes,
    )


def _write_version(folder: Scratch, metadata: bytes) -> str:
    """Write a new version unless the metadata are the same; the name of the newest metadata file."""
    newest = _newest_version(folder)
    if folder.read(f"{Folder.METADATA}/{_name(newest)}") == metadata:
        return _name(newest)
    folder.write(f"{Folder.METADATA}/{_name(newest + 1)}", metadata)
    folder.write(_HINT, str(newest + 1).encode())
    folder.remove(f"{Folder.METADATA}/{_name(newest - _VERSIONS_KEPT)}")
    return _name(newest + 1)


def _newest_version(folder: Scratch) -> int:
    hint = (folder.read(_HINT) or b"").decode("ascii", "replace").strip()
    return int(hint) if hint.isdecimal() else 0


def _require_no_higher_version(folder: Scratch, format_version: FormatVersion) -> None:
    """Raises QueryError if the newest metadata are of a higher version: clients may rely on it.

    Raises:
        QueryError: they are.
    """
    try:
        published = json.loads(folder.read(f"{Folder.METADATA}/{_name(_newest_version(folder))}") or b"{}")[
            "format-version"
        ]
    except (ValueError, KeyError, TypeError):
        return
    if isinstance(published, int) and published > format_version:
        description = f"{format_version} for a folder that was published in version {published}"
        raise QueryError(
            "--format-version", description, f"{published}, or another folder: a table cannot be downgraded"
        )


def _name(version: int) -> str:
    return f"v{version}.metadata.json"
