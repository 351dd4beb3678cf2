"""The records of one file slice of the metadata table: first of its base file, then of its log files.

For few keys, only the blocks that may hold them are read from the base file, an HFile: its end has an index of the
first key of each block. Log files are read as a whole, but only the cells of these keys are decoded. After many such
lookups, all logs are decoded once.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.caching import cached_property
from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_in_threads
from hudi_bridge.errors import CorruptBaseFileError, CorruptLogFileError, UnsupportedTableError
from hudi_bridge.indexes.record_kinds import KEY, RecordKind, deletes_of, versions_of
from hudi_bridge.logformat.avro_columns import decode_avro_records
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.delete_records import parse_delete_block
from hudi_bridge.logformat.hfile import (
    HFileCells,
    IndexEntry,
    find_cells,
    read_cells,
    read_file_info,
    read_hfile,
    read_lower_index,
    read_root_index,
)
from hudi_bridge.logformat.hfile_blocks import DATA_MAGIC, HFileSource, HFileTrailer, block_at, parse_trailer
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.scan import ScanResult, live_blocks, scan_blocks
from hudi_bridge.merge.arrays import Column
from hudi_bridge.schema.avro import AvroRecord, parse_avro_schema
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.splits.file_slice import FileSlice
from hudi_bridge.storage.storage import Storage

# How many bytes of blocks one request reads, and how large a gap it reads over, which costs less than another request.
_MOST_AT_ONCE = 1 << 22
_MAX_GAP = 1 << 16
FEW_KEYS = 64
"""For up to so many keys, only their cells are read in a block; for more, all cells."""
_SEARCHES_FOR_ALL = 8
"""Reading all cells of a block takes longer than that many searches for one key."""
_MAX_LEVELS = 8
"""No HFile has more; damage must not recurse without end."""
_TAIL_BYTES = 1 << 18
"""The trailer and the root index of most files, in one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The keys from ``start`` on and, unless it is None, before ``end``, both as UTF-8."""

    start: bytes
    end: bytes | None

    @classmethod
    def of_prefix(cls, prefix: bytes) -> "KeyRange":
        """The range of the keys with a prefix, which is not empty."""
        return cls(start=prefix, end=prefix[:-1] + bytes([prefix[-1] + 1]))


class IndexedHFile(ABC):
    """An HFile whose end, with the index, has been read."""

    _searched = 0

    @property
    def is_searched_through(self) -> bool:
        """Whether blocks were searched so often for keys that all of them had better be read, once."""
        return self._searched >= _SEARCHES_FOR_ALL * len(self._root)

    @property
    @abstractmethod
    def _tail(self) -> HFileSource:
        """The end of the file, with the root index."""

    @abstractmethod
    def _window(self, entries: Sequence[IndexEntry]) -> HFileSource:
        """A part of the file with blocks that are close together."""

    @property
    def entries(self) -> int:
        """The number of cells."""
        return self._trailer.entry_count

    def cells_of_keys(self, keys: Sequence[bytes]) -> Iterator[HFileCells]:
        """The cells of some keys, which are in order; if they are many, of all keys of the blocks that may hold them.

        Raises:
            CorruptTableError: the file is damaged.
            StorageError: the file cannot be read.
        """
        if not keys:
            return iter(())
        return self._cells(_blocks_of_keys(self._root, keys), self._levels, keys)

    def cells_of_range(self, keys: KeyRange | None = None) -> Iterator[HFileCells]:
        """All cells of the blocks that may hold keys of a range, of all blocks if it is None; raises as for keys."""
        return self._cells(_blocks_of_range(self._root, keys), self._levels, keys)

    def _cells(
        self, entries: Sequence[IndexEntry], levels: int, keys: Sequence[bytes] | KeyRange | None
    ) -> Iterator[HFileCells]:
        if levels == 0:
            for part in _read_together(entries):
                yield from self._read_blocks(part, keys)
            return
        for part in _read_together(entries):
            source = self._window(part)
            below = (entry for block in part for entry in read_lower_index(source, self._trailer, block.offset))
            yield from self._cells(_narrowed(tuple(below), keys), levels - 1, keys)

    def _read_blocks(
        self, entries: Sequence[IndexEntry], keys: Sequence[bytes] | KeyRange | None
    ) -> Iterator[HFileCells]:
        source = self._window(entries)
        blocks = [block_at(source, entry.offset, DATA_MAGIC) for entry in entries]
        if keys is None or isinstance(keys, KeyRange) or len(keys) > FEW_KEYS:
            yield read_cells(source, self._trailer, blocks)
            return
        self._searched += len(blocks) * len(keys)
        for block in blocks:
            yield find_cells(source, self._trailer, block, keys)

    @cached_property
    def _trailer(self) -> HFileTrailer:
        return parse_trailer(self._tail)

    @cached_property
    def _root(self) -> tuple[IndexEntry, ...]:
        if self._trailer.data_index_count:
            return read_root_index(self._tail, self._trailer)
        if self._trailer.entry_count:
            raise self._tail.corrupt(
                0, f"{self._trailer.entry_count} entries without an index", "an index of the blocks"
            )
        return ()

    @property
    def _levels(self) -> int:
        """The number of index levels below the root."""
        levels = self._trailer.index_levels
        if not 0 <= levels <= _MAX_LEVELS:
            raise self._tail.corrupt(0, f"{levels} index levels", f"at most {_MAX_LEVELS}")
        return max(0, levels - 1)


class HFileInMemory(IndexedHFile):
    """An HFile that has been read as a whole."""

    def __init__(self, source: HFileSource) -> None:
        """The HFile of a source with all of its bytes."""
        self._source = source

    @property
    def _tail(self) -> HFileSource:
        return self._source

    def _window(self, entries: Sequence[IndexEntry]) -> HFileSource:
        del entries
        return self._source


def _narrowed(entries: tuple[IndexEntry, ...], keys: Sequence[bytes] | KeyRange | None) -> Sequence[IndexEntry]:
    if keys is None or isinstance(keys, KeyRange):
        return _blocks_of_range(entries, keys)
    return _blocks_of_keys(entries, keys)


def _blocks_of_keys(entries: tuple[IndexEntry, ...], keys: Sequence[bytes]) -> Sequence[IndexEntry]:
    """The blocks that may hold one of the keys, in order. A block has keys from its entry up to the next entry."""
    starts = [entry.key for entry in entries]
    return [entries[position] for position in sorted({bisect_right(starts, key) - 1 for key in keys}) if position >= 0]


def _blocks_of_range(entries: tuple[IndexEntry, ...], keys: KeyRange | None) -> Sequence[IndexEntry]:
    if keys is None:
        return entries
    starts = [entry.key for entry in entries]
    last = len(starts) if keys.end is None else bisect_left(starts, keys.end)
    return entries[max(0, bisect_right(starts, keys.start) - 1) : last]


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


@dataclass(frozen=True)
class SliceRecords:
    """The records of a slice.

    ``is_valid`` is whether the log blocks of an instant count; ``commits`` has by path the commits that name files.
    """

    storage: Storage
    file_slice: FileSlice
    kind: RecordKind
    is_valid: Callable[[str], bool]
    commits: Mapping[str, str]

    @cached_property
    def base(self) -> MetadataBaseFile | None:
        """The base file, None if the slice has only logs."""
        file = self.file_slice.base_file
        return None if file is None else MetadataBaseFile(self.storage, file.path, file.size_bytes)

    @cached_property
    def logs(self) -> pa.Table:
        """The versions in the log files, oldest first; decoded once.

        Raises:
            CorruptTableError: a log file is damaged.
            StorageError: a log file cannot be read.
        """
        versions = [part if isinstance(part, pa.Table) else _versions(self.kind, part) for part in self._parts]
        return pa.concat_tables([self.kind.schema.empty_table(), *versions]).combine_chunks()

    def _read_blocks(self) -> tuple[LogBlock, ...]:
        """The log blocks that count, oldest first."""
        paths = [log.path for log in self.file_slice.log_files]
        # The end of the base file is needed as well: on an object store, all requests take as long as one.
        opened = () if self.base is None else (self.base.open,)
        reads: list[Callable[[], pa.Buffer]] = [*(partial(self.storage.read_buffer, path) for path in paths), *opened]
        threads = 1 if self.storage.is_local else REQUESTS_AT_ONCE
        buffers = map_in_threads(lambda read: read(), reads, threads)[: len(paths)]
        scans = [scan_blocks(buffer, path) for buffer, path in zip(buffers, paths, strict=True)]
        damaged = next((corrupt for scan in scans for corrupt in scan.corrupt), None)
        if damaged is not None:
            raise CorruptLogFileError(damaged.path, damaged.offset, damaged.reason, "a whole log block")
        for path, scan in zip(paths, scans, strict=True):
            self.require_committed(path, scan)
        return live_blocks(scans, latest_instant=None, is_valid=self.is_valid, replaces_compacted=True).blocks

    def require_committed(self, path: str, scan: ScanResult) -> None:
        """Raises unless a log file has a block of the commit that names it; a file of another table has none.

        Raises:
            CorruptLogFileError: it has none.
        """
        commit = self.commits.get(path)
        if commit is not None and not any(block.instant_time == commit for block in scan.blocks):
            instants = sorted({str(block.instant_time) for block in scan.blocks})
            actual = f"blocks of {', '.join(instants)}" if instants else "no blocks"
            raise CorruptLogFileError(path, 0, actual, f"a block of the commit {commit}, which names the file")

    @cached_property
    def _parts(self) -> "tuple[pa.Table | _DataBlock, ...]":
        """For each log block, its deletes or its records by key; read once."""
        return tuple(_part(self.kind, block) for block in self._read_blocks())

    def of_keys(self, keys: Sequence[bytes]) -> pa.Table:
        """The existing records of some keys, which are distinct and in order."""
        texts = pa.array(keys, pa.binary()).cast(pa.string())
        logs = self.of_keys_in_logs(keys)
        base = () if self.base is None else self.base.cells_of_keys(keys)
        records = [self._decoded(cells, pc.is_in(cells.keys, texts)) for cells in base]
        return self._merged(records, logs)

    def of_keys_in_logs(self, keys: Sequence[bytes]) -> pa.Table:
        """The versions in the logs of some distinct keys, which are in order, including versions
        that remove records.
        """
        texts = pa.array(keys, pa.binary()).cast(pa.string())
        if len(keys) > FEW_KEYS or self._are_logs_searched_through:
            return self.logs.filter(pc.is_in(self.logs.column(KEY), texts))
        return pa.concat_tables([self.kind.schema.empty_table(), *self._in_logs(keys, texts)])

    @property
    def _are_logs_searched_through(self) -> bool:
        """Whether it is time to decode all of the logs, and keep that."""
        return any(not isinstance(part, pa.Table) and part.hfile.is_searched_through for part in self._parts)

    def _in_logs(self, keys: Sequence[bytes], texts: Column) -> Iterator[pa.Table]:
        for part in self._parts:
            if isinstance(part, pa.Table):
                yield part.filter(pc.is_in(part.column(KEY), texts))
                continue
            for cells in part.hfile.cells_of_keys(keys):
                chosen = pc.is_in(cells.keys, texts)
                yield _decode(self.kind, cells, chosen, part.writer, part.block.path, part.block.content_offset)

    def of_range(self, keys: KeyRange) -> pa.Table:
        """The records of a range of keys."""
        logs = self.logs.filter(_within(self.logs.column(KEY), keys))
        base = () if self.base is None else self.base.cells_of_range(keys)
        return self._merged([self._decoded(cells, _within(cells.keys, keys)) for cells in base], logs)

    def all(self) -> Iterator[pa.Table]:
        """All records, by key, some megabytes of the base file at a time."""
        logs = self.logs.take(pc.sort_indices(self.logs.column(KEY)))
        log_keys = logs.column(KEY).cast(pa.binary()).to_pylist()
        done = 0
        base = () if self.base is None else self.base.cells_of_range()
        for cells in base:
            if not len(cells.keys):
                continue
            upper = np.searchsorted(np.array(log_keys, dtype=object), cells.keys[-1].as_py().encode(), side="right")
            records = self._merged([self._decoded(cells, None)], logs.slice(done, int(upper) - done))
            done = int(upper)
            yield records
        if done < len(logs):
            yield self._merged([], logs.slice(done))

    def _merged(self, base: list[pa.Table], logs: pa.Table) -> pa.Table:
        versions = pa.concat_tables([self.kind.schema.empty_table(), *base, logs])
        return self.kind.merged(versions)

    def _decoded(self, cells: HFileCells, selected: "pa.BooleanArray | None") -> pa.Table:
        base = self.base
        assert base is not None
        return _decode(self.kind, cells, selected, base.writer, base.path, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DataBlock:
    """A log block of records, with its HFile and the writer's schema."""

    block: LogBlock
    hfile: HFileInMemory
    writer: AvroRecord

    @classmethod
    def of(cls, block: LogBlock) -> Self:
        source = HFileSource(buffer=pa.py_buffer(block.content), path=block.path, offset=block.content_offset)
        return cls(block=block, hfile=HFileInMemory(source), writer=_writer(block))


def _deleted_keys(block: LogBlock) -> Any:  # noqa: ANN401 - a StringArray
    if block.kind.columns is None:
        return parse_delete_block(block).record_keys
    content, path, offset = block.content, block.path, block.content_offset
    keys: Any = block.kind.columns.decode(content, (RECORD_KEY_COLUMN,), path, offset).column(0)
    return keys


def _part(kind: RecordKind, block: LogBlock) -> pa.Table | _DataBlock:
    """The deletes of a log block, or its records.

    Raises:
        CorruptTableError: the block is damaged.
        UnsupportedTableError: it is neither an HFile nor one of deletes.
    """
    match block.block_type:
        case BlockType.DELETE:
            return deletes_of(kind, _deleted_keys(block))
        case BlockType.HFILE_DATA:
            return _DataBlock.of(block)
        case _:
            actual = f"a block of type {block.block_type.name} in {block.path}"
            raise UnsupportedTableError("metadata table", actual, "blocks of HFiles and deletes")


def _versions(kind: RecordKind, part: _DataBlock) -> pa.Table:
    """All records of a log block."""
    cells = read_hfile(part.block.content, part.block.path, part.block.content_offset)
    return _decode(kind, cells, None, part.writer, part.block.path, part.block.content_offset)


def _writer(block: LogBlock) -> AvroRecord:
    if block.schema_text is None:
        raise CorruptLogFileError(block.path, block.offset, "a block without SCHEMA", "the writer's schema")
    return parse_avro_schema(block.schema_text, block.path, block.offset)


def _decode(
    kind: RecordKind, cells: HFileCells, selected: "pa.BooleanArray | None", writer: AvroRecord, path: str, offset: int
) -> pa.Table:
    keys, starts, ends = cells.keys, cells.value_starts, cells.value_ends
    if selected is not None:
        chosen = np.flatnonzero(selected.to_numpy(zero_copy_only=False))
        keys, starts, ends = keys.take(chosen), starts[chosen], ends[chosen]
    fields = [kind.field] if kind.versions is None else None
    records = decode_avro_records(cells.values, starts, ends, writer, fields, path, offset)
    return versions_of(kind, keys, records)


def _within(keys: "pa.StringArray | pa.ChunkedArray[Any]", key_range: KeyRange) -> "pa.BooleanArray":
    raw = keys.cast(pa.binary())
    inside = pc.greater_equal(raw, pa.scalar(key_range.start, pa.binary()))
    if key_range.end is None:
        return inside
    return pc.and_(inside, pc.less(raw, pa.scalar(key_range.end, pa.binary())))
