"""Reads a base file of the metadata table, an HFile, by ranges: its end, with the index, then blocks of it."""

from collections.abc import Sequence

import pyarrow as pa

from hudi_bridge.caching import cached_property
from hudi_bridge.errors import CorruptBaseFileError
from hudi_bridge.logformat.hfile import IndexEntry, read_file_info
from hudi_bridge.logformat.hfile_blocks import HFileSource, parse_trailer
from hudi_bridge.metadata.indexed_hfile import IndexedHFile
from hudi_bridge.schema.avro import AvroRecord, parse_avro_schema
from hudi_bridge.storage import Storage

_TAIL_BYTES = 1 << 18


class MetadataBaseFile(IndexedHFile):
    """The base file at ``path``; ``size_bytes`` is its size. The end of the file is read once."""

    def __init__(self, storage: Storage, path: str, size_bytes: int) -> None:
        """The file, which is not opened yet."""
        self._storage = storage
        self._path = path
        self._size = size_bytes

    def open(self) -> pa.Buffer:
        """The end of the file; read once.

        Raises:
            CorruptTableError: the file is damaged.
            StorageError: the file cannot be read.
        """
        return self._tail.buffer

    @cached_property
    def writer(self) -> AvroRecord:
        """The schema of the records."""
        schema = read_file_info(self._tail, self._trailer).get("schema")
        if schema is None:
            raise CorruptBaseFileError(self._path, None, "file info without schema", "the writer's schema")
        return parse_avro_schema(schema.decode("utf-8", "replace"), self._path)

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path

    def _window(self, entries: Sequence[IndexEntry]) -> HFileSource:
        start, end = entries[0].offset, entries[-1].offset + entries[-1].size_bytes
        if not 0 <= start < end <= self._size:
            raise CorruptBaseFileError(self._path, None, f"a block from {start} to {end}", f"blocks below {self._size}")
        tail = self._tail
        if start >= tail.start:
            return tail
        return self._source(start, self._storage.read_range(self._file, self._path, start, end - start))

    def _source(self, start: int, buffer: pa.Buffer) -> HFileSource:
        return HFileSource(buffer=buffer, path=self._path, offset=0, start=start, total_bytes=self._size)

    @cached_property
    def _file(self) -> pa.NativeFile:
        return self._storage.open_input(self._path)

    @cached_property
    def _tail(self) -> HFileSource:
        """The end of the file, with all that is read when it is opened."""
        start = max(0, self._size - _TAIL_BYTES)
        source = self._source(start, self._storage.read_range(self._file, self._path, start, self._size - start))
        index_start = parse_trailer(source).load_on_open_offset
        if 0 <= index_start < start:
            more = self._storage.read_range(self._file, self._path, index_start, self._size - index_start)
            return self._source(index_start, more)
        return source
