"""Writes the files of all slices as Iceberg manifests, and manifest lists, of versions 2 and 3.

File ids alone decide which adjacent slices share a manifest, so that a changed slice changes only its own manifests. In
version 2 all files have the same sequence number: a position delete then applies to the data file that it names,
whichever was written first. In version 3 the sequence number tells when a row was last updated. It is the instant of
the newest write that the file shows, and ids of rows are given to the files themselves.

PyIceberg writes version 2; what version 3 adds is written here.

Source: the Iceberg specification, "Manifests", "Manifest Lists", "First Row ID Assignment", "Row Lineage" and "Deletion
Vectors".
"""

import hashlib
import io
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io import OutputFile, OutputStream
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestListWriter,
    ManifestListWriterV2,
    ManifestWriterV2,
)
from pyiceberg.manifest import DataFile as ManifestDataFile
from pyiceberg.manifest import ManifestWriter as IcebergManifestWriter
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record, TableVersion

from hudi_bridge.connectors.iceberg.columns import WITHOUT_PARTITION, model_json
from hudi_bridge.connectors.iceberg.compatibility import FormatVersion
from hudi_bridge.connectors.iceberg.row_lineage import RowLineage
from hudi_bridge.connectors.iceberg.slice_files import DataFile, Folder, SliceFiles
from hudi_bridge.connectors.scratch import Locations, Scratch, new_mark

_COMPRESSION: Final = "deflate"
_V3: Final = 3


class InMemory(OutputFile):
    """A file that PyIceberg writes to memory, with its final location."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._stream = _UnclosedStream()

    @property
    def content(self) -> bytes:
        """What has been written."""
        return self._stream.getvalue()

    def __len__(self) -> int:
        return len(self.content)

    def exists(self) -> bool:
        """Whether the file exists, which it does not."""
        return False

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002, FBT001, FBT002 - PyIceberg's
        """The stream to write to."""
        return self._stream

    def to_input_file(self) -> Any:  # noqa: ANN401 - never called
        """Never called."""
        raise io.UnsupportedOperation(self.location)


class _UnclosedStream(io.BytesIO):
    """A stream whose content can be read after ``close``."""

    def close(self) -> None:
        """Stay open."""


class _DeleteManifestWriter(ManifestWriterV2):
    """A writer of manifests that list position-delete files, which PyIceberg reads but does not write."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _ManifestWriterV3(ManifestWriterV2):
    """A writer of manifests of version 3, whose entries have more fields."""

    @property
    def version(self) -> TableVersion:
        return _V3

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        schema = self._with_partition(_V3)
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=schema,
            record_schema=schema,
            schema_name="manifest_entry",
            metadata=self._meta,
        )


class _DeleteManifestWriterV3(_ManifestWriterV3, _DeleteManifestWriter):
    pass


class _ManifestListWriterV3(ManifestListWriterV2):
    """A writer of manifest lists of version 3, whose manifests have first row ids."""

    def __init__(self, output: OutputFile, snapshot_id: int, first_row_id: int) -> None:
        super().__init__(output, snapshot_id, None, snapshot_id, _COMPRESSION)
        self._format_version = _V3
        self._meta = self._meta | {"format-version": str(_V3), "first-row-id": str(first_row_id)}

    def __enter__(self) -> ManifestListWriter:
        self._writer = AvroOutputFile[ManifestFile](
            output_file=self._output_file,
            record_schema=MANIFEST_LIST_FILE_SCHEMAS[_V3],
            file_schema=MANIFEST_LIST_FILE_SCHEMAS[_V3],
            schema_name="manifest_file",
            metadata=self._meta,
        )
        self._writer.__enter__()
        return self


_WRITERS = {
    (FormatVersion.V2, ManifestContent.DATA): ManifestWriterV2,
    (FormatVersion.V2, ManifestContent.DELETES): _DeleteManifestWriter,
    (FormatVersion.V3, ManifestContent.DATA): _ManifestWriterV3,
    (FormatVersion.V3, ManifestContent.DELETES): _DeleteManifestWriterV3,
}


def manifest_writer(
    version: FormatVersion,
    content: ManifestContent,
    spec: PartitionSpec,
    schema: Schema,
    output: OutputFile,
    snapshot_id: int,
) -> IcebergManifestWriter:
    """A writer of one manifest."""
    return _WRITERS[version, content](spec, schema, output, snapshot_id, _COMPRESSION)


def with_first_row_id(manifest: ManifestFile, first_row_id: int | None) -> ManifestFile:
    """The manifest as a list of version 3 has it; ``first_row_id`` is None for deletes."""
    return ManifestFile(*(manifest[position] for position in range(len(manifest))), first_row_id)


def manifest_list(
    location: str, snapshot_id: int, manifests: Sequence[ManifestFile], first_row_id: int | None
) -> bytes:
    """The manifest list of a snapshot; in version 3 if the snapshot has a ``first_row_id``, otherwise in version 2."""
    output = InMemory(location)
    writer = (
        ManifestListWriterV2(output, snapshot_id, None, snapshot_id, _COMPRESSION)
        if first_row_id is None
        else _ManifestListWriterV3(output, snapshot_id, first_row_id)
    )
    with writer as opened:
        opened.add_manifests([copy(manifest) for manifest in manifests])
    return output.content


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
            (slice_files.name, file)
            for slice_files in run
            for file in (slice_files.data if content is ManifestContent.DATA else slice_files.deletes)
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
            *(() if self.lineage is None else ([(entry.sequence_number, entry.first_row_id) for entry in entries],)),
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
        path = f"{Folder.METADATA}/{name}"
        output = InMemory(self.locations.uri(self.scratch.storage, path))
        newest = max(file.sequence_number for file in files)
        version = FormatVersion.V2 if self.lineage is None else FormatVersion.V3
        with manifest_writer(version, content, spec, self.schema, output, newest) as manifest:
            for listed in files:
                manifest.add_entry(_entry(listed, content, newest, version))
        self.scratch.write(path, output.content)
        described = manifest.to_manifest_file()
        described.sequence_number = newest
        if self.lineage is None:
            return described
        return with_first_row_id(
            described, min((file.first_row_id for file in files if file.first_row_id is not None), default=None)
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
    """The entry of a file; a file whose write is the ``newest`` of the manifest counts as added with it."""
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
