"""The files of all slices -> Iceberg manifests.

File ids alone decide which run of slices a manifest lists, so that a changed slice changes only the manifests of its
run. In version 2 all files have the same sequence number: a position delete then applies to the data file that it
names, whichever was written first. In version 3, where the sequence number tells when a row was last updated, it is the
instant of the newest write that the file shows, and ids of rows are given to the files themselves.

Source: the Iceberg specification, "Manifests", "Row Lineage" and "Deletion Vectors".
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import (
    DataFile as ManifestDataFile,
)
from pyiceberg.manifest import (
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from hudi_bridge.connectors.iceberg.data_files import DataFile
from hudi_bridge.connectors.iceberg.format_version import FormatVersion
from hudi_bridge.connectors.iceberg.manifest_format import InMemory, manifest_writer, with_first_row_id
from hudi_bridge.connectors.iceberg.model_json import model_json
from hudi_bridge.connectors.iceberg.partitioning import WITHOUT_PARTITION
from hudi_bridge.connectors.iceberg.row_lineage import RowLineage
from hudi_bridge.connectors.iceberg.slice_files import SliceFiles
from hudi_bridge.connectors.publishing.locations import Locations
from hudi_bridge.connectors.publishing.scratch import Scratch
from hudi_bridge.connectors.publishing.unique_names import new_mark

METADATA = "metadata"
SEQUENCE_NUMBER = 1
_MEAN_RUN_LENGTH = 64
_MOST_SLICES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestWriter:
    """Writes the manifests of one snapshot; ``written`` are the existing ones by what they list, and is added to.

    With ``lineage``, the ids of the rows, they are of version 3, and no sequence number exceeds ``snapshot_id``.
    """

    scratch: Scratch
    locations: Locations
    schema: Schema
    spec: PartitionSpec
    written: dict[str, ManifestFile]
    snapshot_id: int
    lineage: RowLineage | None = None

    def manifests(self, slices: Sequence[SliceFiles], file_ids: Sequence[str]) -> tuple[tuple[str, ManifestFile], ...]:
        """The names and manifests of all slices; ``file_ids`` are those of the slices, in the same order."""
        return tuple(
            manifest
            for run in _runs(slices, file_ids)
            for spec in dict.fromkeys((self.spec, WITHOUT_PARTITION))
            for content in (ManifestContent.DATA, ManifestContent.DELETES)
            for manifest in self._manifest(run, spec, content)
        )

    def _manifest(
        self, run: Sequence[SliceFiles], spec: PartitionSpec, content: ManifestContent
    ) -> Iterator[tuple[str, ManifestFile]]:
        """The manifest of the files with this spec and content; nothing if there are no such files."""
        partitioned = bool(spec.fields)
        listed = [
            (one.name, file)
            for one in run
            for file in (one.data if content is ManifestContent.DATA else one.deletes)
            if (file.partition is not None) == partitioned
        ]
        if not listed:
            return
        entries = [self._listed(file) for _, file in listed]
        identity = (
            (FormatVersion.V2 if self.lineage is None else FormatVersion.V3).value,
            model_json(self.schema),
            str(spec),
            content,
            sorted({name for name, _ in listed}),
            *(() if self.lineage is None else ([(one.sequence_number, one.first_row_id) for one in entries],)),
        )
        key = f"{hashlib.sha256(repr(identity).encode()).hexdigest()[:32]}-m{content.value}"
        if key not in self.written:
            self.written[key] = self._write(f"{key}-{new_mark()}.avro", entries, spec, content)
        yield name_of(self.written[key]), self.written[key]

    def _listed(self, file: DataFile) -> "_Listed":
        if self.lineage is None or file.written_at is None:
            return _Listed(file=file, sequence_number=SEQUENCE_NUMBER, first_row_id=None)
        first_row_id = self.lineage.first_id_of(file) if file.vector is None else None
        # A write may have been requested after, and completed before, the newest of the snapshot.
        return _Listed(file=file, sequence_number=min(file.written_at, self.snapshot_id), first_row_id=first_row_id)

    def _write(
        self, name: str, files: Sequence["_Listed"], spec: PartitionSpec, content: ManifestContent
    ) -> ManifestFile:
        path = f"{METADATA}/{name}"
        output = InMemory(self.locations.uri(self.scratch.storage, path))
        newest = max(one.sequence_number for one in files)
        version = FormatVersion.V2 if self.lineage is None else FormatVersion.V3
        with manifest_writer(version, content, spec, self.schema, output, newest) as manifest:
            for one in files:
                manifest.add_entry(_entry(one, content, newest, version))
        self.scratch.write(path, output.content)
        described = manifest.to_manifest_file()
        described.sequence_number = newest
        if self.lineage is None:
            return described
        return with_first_row_id(
            described, min((one.first_row_id for one in files if one.first_row_id is not None), default=None)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """A file of a manifest, with its sequence number and, in version 3, the id of its first row."""

    file: DataFile
    sequence_number: int
    first_row_id: int | None


def name_of(manifest: ManifestFile) -> str:
    """The name of the file."""
    return manifest.manifest_path.rpartition("/")[2]


def _runs(slices: Sequence[SliceFiles], file_ids: Sequence[str]) -> Iterator[Sequence[SliceFiles]]:
    start = 0
    for position, file_id in enumerate(file_ids):
        ends = hashlib.sha256(file_id.encode()).digest()[0] % _MEAN_RUN_LENGTH == 0
        if ends or position - start + 1 >= _MOST_SLICES:
            yield slices[start : position + 1]
            start = position + 1
    if start < len(slices):
        yield slices[start:]


def _entry(listed: _Listed, content: ManifestContent, newest: int, version: FormatVersion) -> ManifestEntry:
    """The entry of a file; those of which the writes are the ``newest`` of the manifest have been added with it."""
    file, number, is_data = listed.file, listed.sequence_number, content is ManifestContent.DATA
    in_version_3 = {} if version is FormatVersion.V2 else _fields_of_version_3(listed)
    described = ManifestDataFile.from_args(
        version.value,
        content=DataFileContent.DATA if is_data else DataFileContent.POSITION_DELETES,
        file_path=file.location,
        file_format=FileFormat.PARQUET if file.vector is None else FileFormat.PUFFIN,
        partition=Record(*(file.partition or ())),
        record_count=file.rows,
        file_size_in_bytes=file.size_bytes,
        column_sizes=dict(file.column_sizes) or None,
        value_counts=dict(file.value_counts),
        null_value_counts=dict(file.null_counts),
        nan_value_counts=dict(file.nan_counts) or None,
        lower_bounds=dict(file.lower_bounds),
        upper_bounds=dict(file.upper_bounds),
        split_offsets=list(file.split_offsets) or None,
        **in_version_3,
    )
    return ManifestEntry.from_args(
        version.value,
        status=ManifestEntryStatus.ADDED if number == newest else ManifestEntryStatus.EXISTING,
        snapshot_id=number,
        sequence_number=number,
        file_sequence_number=number,
        data_file=described,
    )


def _fields_of_version_3(listed: _Listed) -> dict[str, int | str | None]:
    vector = listed.file.vector
    if vector is None:
        return {"first_row_id": listed.first_row_id}
    return {
        "referenced_data_file": vector.of,
        "content_offset": vector.offset,
        "content_size_in_bytes": vector.size,
    }
