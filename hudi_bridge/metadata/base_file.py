"""Reads a base file of the metadata table, an HFile, by ranges: its end, with the index, then blocks of it."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hudi_bridge.caching import cached_property
from hudi_bridge.errors import CorruptBaseFileError
from hudi_bridge.logformat.hfile import (
    HFileCells,
    IndexEntry,
    read_cells,
    read_file_info,
    read_lower_index,
    read_root_index,
)
from hudi_bridge.logformat.hfile_blocks import DATA_MAGIC, HFileSource, HFileTrailer, block_at, parse_trailer
from hudi_bridge.schema.avro import AvroRecord, parse_avro_schema
from hudi_bridge.storage import Storage

_TAIL_BYTES = 1 << 18
# Blocks that are read at once, and bytes between them that are read rather than asked for in another request.
_MOST_AT_ONCE = 1 << 22
_MAX_GAP = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The keys from ``start`` on and, unless it is None, before ``end``, both as UTF-8."""

    start: bytes
    end: bytes | None

    @classmethod
    def of_prefix(cls, prefix: bytes) -> "KeyRange":
        """The range of the keys with a prefix, which is not empty."""
        return cls(start=prefix, end=prefix[:-1] + bytes([prefix[-1] + 1]))


class MetadataBaseFile:
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
    def entries(self) -> int:
        """The number of records."""
        return self._trailer.entry_count

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

    def cells_of_keys(self, keys: Sequence[bytes]) -> Iterator[HFileCells]:
        """All cells of the blocks that may hold one of the keys, which are in order, several blocks at a time.

        Raises:
            CorruptTableError: the file is damaged.
            StorageError: the file cannot be read.
        """
        if not keys:
            return iter(())
        return self._cells(_blocks_of_keys(self._root, keys), self._levels, keys)

    def cells_of_range(self, wanted: KeyRange | None = None) -> Iterator[HFileCells]:
        """All cells of the blocks that may hold keys of a range, of all blocks if it is None; raises as for keys."""
        return self._cells(_blocks_of_range(self._root, wanted), self._levels, wanted)

    def _cells(
        self, entries: Sequence[IndexEntry], levels: int, wanted: Sequence[bytes] | KeyRange | None
    ) -> Iterator[HFileCells]:
        if levels == 0:
            for part in _read_together(entries):
                yield self._read_blocks(part)
            return
        for part in _read_together(entries):
            source = self._window(part)
            below = (entry for block in part for entry in read_lower_index(source, self._trailer, block.offset))
            yield from self._cells(_narrowed(tuple(below), wanted), levels - 1, wanted)

    def _read_blocks(self, entries: Sequence[IndexEntry]) -> HFileCells:
        source = self._window(entries)
        return read_cells(source, self._trailer, [block_at(source, entry.offset, DATA_MAGIC) for entry in entries])

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

    @cached_property
    def _trailer(self) -> HFileTrailer:
        return parse_trailer(self._tail)

    @cached_property
    def _root(self) -> tuple[IndexEntry, ...]:
        return read_root_index(self._tail, self._trailer) if self._trailer.data_index_count else ()

    @property
    def _levels(self) -> int:
        """The number of index levels below the root."""
        levels = self._trailer.index_levels
        if not 0 <= levels <= _MAX_LEVELS:
            raise CorruptBaseFileError(self._path, None, f"{levels} index levels", f"at most {_MAX_LEVELS}")
        return max(0, levels - 1)


_MAX_LEVELS = 8


def _narrowed(entries: tuple[IndexEntry, ...], wanted: Sequence[bytes] | KeyRange | None) -> Sequence[IndexEntry]:
    if wanted is None or isinstance(wanted, KeyRange):
        return _blocks_of_range(entries, wanted)
    return _blocks_of_keys(entries, wanted)


def _blocks_of_keys(entries: tuple[IndexEntry, ...], keys: Sequence[bytes]) -> Sequence[IndexEntry]:
    """The blocks that may hold one of the keys, in order: each may hold those from its own key to that of the next."""
    starts = [entry.key for entry in entries]
    return [entries[place] for place in sorted({bisect_right(starts, key) - 1 for key in keys}) if place >= 0]


def _blocks_of_range(entries: tuple[IndexEntry, ...], wanted: KeyRange | None) -> Sequence[IndexEntry]:
    if wanted is None:
        return entries
    starts = [entry.key for entry in entries]
    last = len(starts) if wanted.end is None else bisect_left(starts, wanted.end)
    return entries[max(0, bisect_right(starts, wanted.start) - 1) : last]


def _read_together(entries: Sequence[IndexEntry]) -> Iterator[list[IndexEntry]]:
    """The entries in parts that are close together in the file, each small enough to be read at once."""
    part: list[IndexEntry] = []
    for entry in entries:
        if part:
            end = part[-1].offset + part[-1].size_bytes
            is_near = 0 <= entry.offset - end <= _MAX_GAP
            if not is_near or entry.offset + entry.size_bytes - part[0].offset > _MOST_AT_ONCE:
                yield part
                part = []
        part.append(entry)
    if part:
        yield part
