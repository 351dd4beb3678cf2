"""Writers of manifests and manifest lists of versions 2 and 3, of which PyIceberg writes some of version 2.

Source: the Iceberg specification, "Manifests", "Manifest Lists" and "First Row ID Assignment".
"""

import io
from collections.abc import Sequence
from copy import copy
from typing import Any, Final

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.io import OutputFile, OutputStream
from pyiceberg.manifest import (
    MANIFEST_LIST_FILE_SCHEMAS,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    ManifestListWriter,
    ManifestListWriterV2,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import TableVersion

from hudi_bridge.connectors.iceberg.format_version import FormatVersion

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
) -> ManifestWriter:
    """A writer of one manifest."""
    return _WRITERS[version, content](spec, schema, output, snapshot_id, _COMPRESSION)


def with_first_row_id(manifest: ManifestFile, first_row_id: int | None) -> ManifestFile:
    """The manifest as a list of version 3 has it; ``first_row_id`` is None for deletes."""
    return ManifestFile(*(manifest[position] for position in range(len(manifest))), first_row_id)


def manifest_list(
    location: str, snapshot_id: int, manifests: Sequence[ManifestFile], first_row_id: int | None
) -> bytes:
    """The manifest list of a snapshot: of version 3 with ``first_row_id``, that of the snapshot, otherwise of 2."""
    output = InMemory(location)
    writer = (
        ManifestListWriterV2(output, snapshot_id, None, snapshot_id, _COMPRESSION)
        if first_row_id is None
        else _ManifestListWriterV3(output, snapshot_id, first_row_id)
    )
    with writer as opened:
        opened.add_manifests([copy(manifest) for manifest in manifests])
    return output.content
