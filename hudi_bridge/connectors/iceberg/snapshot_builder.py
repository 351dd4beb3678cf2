"""A query of a Hudi table -> an Iceberg snapshot and its files."""

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyiceberg.manifest import ManifestFile

from hudi_bridge.connectors.iceberg.columns import Ids, Partitioning, columns_of, partitioning_of
from hudi_bridge.connectors.iceberg.compatibility import (
    FormatVersion,
    IcebergClient,
    Rewriting,
    notes_on,
    notes_on_copies,
    schema_for_presto,
)
from hudi_bridge.connectors.iceberg.manifests import ManifestWriter, manifest_list, name_of
from hudi_bridge.connectors.iceberg.metadata import IcebergSnapshot, epoch_ms
from hudi_bridge.connectors.iceberg.row_lineage import RowLineage
from hudi_bridge.connectors.iceberg.served_table import ServedTable
from hudi_bridge.connectors.iceberg.slice_builder import SliceBuilder
from hudi_bridge.connectors.iceberg.slice_cache import Counters, SliceCache
from hudi_bridge.connectors.iceberg.slice_files import DataFile, Folder
from hudi_bridge.connectors.scratch import Locations, Scratch, new_mark
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.engines import column_ids
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage
from hudi_bridge.table import HudiTable

_LOG = logging.getLogger(__name__)


def snapshot_builder(served: ServedTable, scratch: Scratch) -> "SnapshotBuilder":
    """The builder of a table, which writes to a scratch folder."""
    settings = served.settings
    return SnapshotBuilder(
        storage=served.storage,
        scratch=scratch,
        locations=settings.locations,
        builders=settings.builders,
        at_once=settings.at_once,
        counters=settings.counters,
        roots=settings.roots,
        slices=SliceCache(scratch, settings.keep_seconds),
        rewriting=settings.rewriting,
        format_version=settings.format_version,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBuilder:
    """Builds the snapshots of one table; slices and manifests that have not changed are reused."""

    storage: Storage
    scratch: Scratch
    locations: Locations
    builders: Executor
    at_once: int
    counters: Counters
    roots: tuple[Path, ...] | None
    slices: SliceCache
    rewriting: Rewriting
    format_version: FormatVersion = FormatVersion.V2
    manifests: dict[str, ManifestFile] = field(default_factory=dict)

    def build(
        self,
        table: HudiTable,
        dataset: HudiDataset,
        state: str,
        known_ids: Ids,
        lineage_of: Callable[[Iterable[DataFile]], RowLineage],
    ) -> IcebergSnapshot:
        """The snapshot of a dataset of the table.

        ``known_ids`` are the column ids of earlier snapshots, ``lineage_of`` gives ids to the rows of data files.

        Raises:
            HudiReadError: the table cannot be read.
        """
        splits = [split for split in dataset.splits() if isinstance(split, RealtimeFileSplit)]
        table.require_files_of(dataset.instant)
        self.require_within_roots(splits)
        builder = self.slice_builder(table, dataset, known_ids)
        columns, partitioning = builder.columns, builder.partitioning
        files = self.slices.files_of(splits, builder, self.builders, self.counters)
        for note in notes_on_copies(files, self.rewriting):
            _LOG.info("%s: %s", ascii(self.storage.shown_path), note)
        spec = partitioning.spec(columns.schema)
        data = (file for slice_files in files for file in slice_files.data)
        lineage = None if self.format_version is FormatVersion.V2 else lineage_of(data)
        snapshot_id = int(dataset.instant)
        writer = ManifestWriter(
            scratch=self.scratch,
            locations=self.locations,
            schema=columns.schema,
            spec=spec,
            written=self.manifests,
            snapshot_id=snapshot_id,
            lineage=lineage,
        )
        manifests = writer.manifests(files, [f"{split.partition_path}/{split.file_id}" for split in splits])
        return IcebergSnapshot(
            instant=dataset.instant,
            state=state,
            timestamp_ms=epoch_ms(dataset.instant, table.config.timeline_timezone),
            columns=columns,
            spec=spec,
            manifest_list=self._write_manifest_list(
                snapshot_id, manifests, None if lineage is None else lineage.first_row_id
            ),
            manifests=tuple(name for name, _ in manifests),
            slices=tuple(name for slice_files in files for name in slice_files.names),
            own_files=tuple(name for slice_files in files for name in slice_files.own_files),
            stored_paths=tuple(sorted({path for slice_files in files for path in slice_files.stored_paths})),
            data_files=sum(len(slice_files.data) for slice_files in files),
            delete_files=sum(len(slice_files.deletes) for slice_files in files),
            position_deletes=sum(file.rows for slice_files in files for file in slice_files.deletes),
            rows=sum(file.rows for slice_files in files for file in slice_files.data),
            client=self.rewriting.client,
            notes=notes_on(dataset.schema, files, partitioning.names, self.rewriting),
            lineage=lineage,
        )

    def slice_builder(self, table: HudiTable, dataset: HudiDataset, known_ids: Ids) -> SliceBuilder:
        """The builder of the slices of a dataset of the table; no data file is read for it.

        Raises:
            UnsupportedTableError: a column has a type that Iceberg lacks, or the table has no columns.
        """
        context = dataset.context
        return SliceBuilder(
            storage=self.storage,
            scratch=self.scratch,
            locations=self.locations,
            context=context,
            columns=columns_of(self._shown(dataset.schema), column_ids(context), known_ids),
            partitioning=self._partitioning(table.config.partition_fields, dataset.schema),
            at_once=self.at_once,
            rewriting=self.rewriting,
            format_version=self.format_version,
        )

    def _partitioning(self, partition_fields: tuple[str, ...], schema: pa.Schema) -> Partitioning:
        if self.rewriting.client is IcebergClient.PRESTO:
            # Presto reads partition columns as null from files that have no partition. Bounds tell it what to skip.
            return Partitioning(names=())
        return partitioning_of(partition_fields, schema)

    def _shown(self, schema: pa.Schema) -> pa.Schema:
        """The schema in the types that clients get."""
        if self.rewriting.client is IcebergClient.PRESTO:
            return schema_for_presto(schema, cut_times=self.rewriting.cut_times)
        return schema

    def require_within_roots(self, splits: Sequence[RealtimeFileSplit]) -> None:
        """Raises UnsupportedTableError if a data file lies elsewhere than below the roots.

        Raises:
            UnsupportedTableError: a link leads out of the roots.
        """
        if self.roots is None or not self.storage.is_local:
            return
        for path in (path for split in splits for path in (split.base_path, *split.log_paths) if path is not None):
            real = Path(self.storage.resolve(path)).resolve()
            if not any(real.is_relative_to(root) for root in self.roots):
                raise UnsupportedTableError("place of a data file", path, "files below the folders that are served")

    def keep_manifests(self, names: Collection[str]) -> None:
        """Drop all manifests from memory but those with these names."""
        for key, manifest in list(self.manifests.items()):
            if name_of(manifest) not in names:
                del self.manifests[key]

    def _write_manifest_list(
        self, snapshot_id: int, manifests: Sequence[tuple[str, ManifestFile]], first_row_id: int | None
    ) -> str:
        """Write the manifest list; its name, which has a hash of what it holds."""
        names = [name for name, _ in manifests]
        identity = repr(names if first_row_id is None else (names, first_row_id))
        name = f"snap-{snapshot_id}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}-{new_mark()}.avro"
        location = self.locations.uri(self.scratch.storage, f"{Folder.METADATA}/{name}")
        content = manifest_list(location, snapshot_id, [manifest for _, manifest in manifests], first_row_id)
        self.scratch.write(f"{Folder.METADATA}/{name}", content)
        return name
