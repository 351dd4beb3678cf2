"""The files of all slices -> Iceberg manifests, and the manifest list of a snapshot.

File ids alone decide which run of slices a manifest lists, so that a changed slice changes only the manifests of its
run. All files have the same sequence number: a position delete then applies to the data file that it names, whichever
was written first.

Source: the Iceberg specification, "Manifests" and "Manifest Lists".
"""

import hashlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyiceberg.io import OutputFile, OutputStream
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
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from hudi_bridge.connectors.iceberg.data_files import DataFile
from hudi_bridge.connectors.iceberg.partitioning import WITHOUT_PARTITION
from hudi_bridge.connectors.iceberg.slice_files import SliceFiles
from hudi_bridge.connectors.publishing.locations import Locations
from hudi_bridge.connectors.publishing.scratch import Scratch

METADATA = "metadata"
SEQUENCE_NUMBER = 1
_MEAN_RUN_LENGTH = 64
_MOST_SLICES = 512
_FORMAT_VERSION: Literal[2] = 2
_COMPRESSION: Literal["deflate"] = "deflate"


class _InMemory(OutputFile):
    """A file that PyIceberg writes to memory, with its final location."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._stream = _UnclosedStream()

    @property
    def content(self) -> bytes:
        return self._stream.getvalue()

    def __len__(self) -> int:
        return len(self.content)

    def exists(self) -> bool:
        return False

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002, FBT001, FBT002 - PyIceberg's
        return self._stream

    def to_input_file(self) -> Any:  # noqa: ANN401 - never called
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestWriter:
    """Writes the manifests of one snapshot; ``written`` are the existing ones by name, and is added to."""

    scratch: Scratch
    locations: Locations
    schema: Schema
    spec: PartitionSpec
    written: dict[str, ManifestFile]

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
        identity = (
            _FORMAT_VERSION,
            self.schema.model_dump_json(),
            str(spec),
            content,
            sorted({name for name, _ in listed}),
        )
        name = f"{hashlib.sha256(repr(identity).encode()).hexdigest()[:32]}-m{content.value}.avro"
        if name not in self.written:
            self.written[name] = self._write(name, [file for _, file in listed], spec, content)
        yield name, self.written[name]

    def _write(
        self, name: str, files: Sequence[DataFile], spec: PartitionSpec, content: ManifestContent
    ) -> ManifestFile:
        path = f"{METADATA}/{name}"
        output = _InMemory(self.locations.uri(self.scratch.storage, path))
        writer = ManifestWriterV2 if content is ManifestContent.DATA else _DeleteManifestWriter
        with writer(spec, self.schema, output, SEQUENCE_NUMBER, _COMPRESSION) as manifest:
            for file in files:
                manifest.add_entry(_entry(file, content))
        self.scratch.write(path, output.content)
        described = manifest.to_manifest_file()
        described.sequence_number = SEQUENCE_NUMBER
        return described


def manifest_list(location: str, snapshot_id: int, manifests: Sequence[ManifestFile]) -> bytes:
    """The manifest list of a snapshot."""
    output = _InMemory(location)
    with write_manifest_list(_FORMAT_VERSION, output, snapshot_id, None, snapshot_id, _COMPRESSION) as writer:
        writer.add_manifests(list(manifests))
    return output.content


def _runs(slices: Sequence[SliceFiles], file_ids: Sequence[str]) -> Iterator[Sequence[SliceFiles]]:
    start = 0
    for position, file_id in enumerate(file_ids):
        ends = hashlib.sha256(file_id.encode()).digest()[0] % _MEAN_RUN_LENGTH == 0
        if ends or position - start + 1 >= _MOST_SLICES:
            yield slices[start : position + 1]
            start = position + 1
    if start < len(slices):
        yield slices[start:]


def _entry(file: DataFile, content: ManifestContent) -> ManifestEntry:
    is_data = content is ManifestContent.DATA
    described = ManifestDataFile.from_args(
        content=DataFileContent.DATA if is_data else DataFileContent.POSITION_DELETES,
        file_path=file.location,
        file_format=FileFormat.PARQUET,
        partition=Record(*(file.partition or ())),
        record_count=file.rows,
        file_size_in_bytes=file.size_bytes,
        column_sizes=None,
        value_counts=dict(file.value_counts),
        null_value_counts=dict(file.null_counts),
        nan_value_counts=None,
        lower_bounds=dict(file.lower_bounds),
        upper_bounds=dict(file.upper_bounds),
        split_offsets=list(file.split_offsets) or None,
    )
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED,
        snapshot_id=SEQUENCE_NUMBER,
        sequence_number=SEQUENCE_NUMBER,
        file_sequence_number=SEQUENCE_NUMBER,
        data_file=described,
    )
