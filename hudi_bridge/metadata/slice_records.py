"""The records of one file slice of the metadata table: those of its base file, then those of its log files.

The log files are read as a whole, and decoded as far as is needed for few keys. Of the base file only the blocks are
read that may hold what is asked for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.caching import cached_property
from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.avro_columns import decode_avro_records
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.delete_records import parse_delete_block
from hudi_bridge.logformat.hfile import HFileCells, read_hfile
from hudi_bridge.logformat.hfile_blocks import HFileSource
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.scan import ScanResult, live_blocks, scan_blocks
from hudi_bridge.merge.arrays import Column
from hudi_bridge.metadata.base_file import MetadataBaseFile
from hudi_bridge.metadata.indexed_hfile import FEW_KEYS, HFileInMemory, KeyRange
from hudi_bridge.metadata.record_kinds import KEY, RecordKind, deletes_of, versions_of
from hudi_bridge.schema.avro import AvroRecord, parse_avro_schema
from hudi_bridge.splits.file_slice import FileSlice
from hudi_bridge.storage import Storage
from hudi_bridge.threads import map_in_threads

_READING_THREADS = 16


@dataclass(frozen=True)
class SliceRecords:
    """The records of a slice.

    ``is_valid`` says whether the log blocks of an instant count, ``commits`` by their paths which commits name files.
    """

    storage: Storage
    piece: FileSlice
    kind: RecordKind
    is_valid: Callable[[str], bool]
    commits: Mapping[str, str]

    @cached_property
    def base(self) -> MetadataBaseFile | None:
        """The base file, None if the slice has only logs."""
        file = self.piece.base_file
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
        paths = [log.path for log in self.piece.log_files]
        # The end of the base file is needed as well: on an object store, all requests take as long as one.
        opened = () if self.base is None else (self.base.open,)
        reads: list[Callable[[], pa.Buffer]] = [*(partial(self.storage.read_buffer, path) for path in paths), *opened]
        threads = 1 if self.storage.is_local else _READING_THREADS
        buffers = map_in_threads(lambda read: read(), reads, threads)[: len(paths)]
        scans = [scan_blocks(buffer, path) for buffer, path in zip(buffers, paths, strict=True)]
        damaged = next((corrupt for scan in scans for corrupt in scan.corrupt), None)
        if damaged is not None:
            raise CorruptLogFileError(damaged.path, damaged.offset, damaged.reason, "a whole log block")
        for path, scan in zip(paths, scans, strict=True):
            self.require_committed(path, scan)
        return live_blocks(scans, latest_instant=None, is_valid=self.is_valid).blocks

    def require_committed(self, path: str, scan: ScanResult) -> None:
        """Raises unless a log file has a block of the commit that names it; that of another table has none.

        Raises:
            CorruptLogFileError: it has none.
        """
        commit = self.commits.get(path)
        if commit is not None and not any(block.instant_time == commit for block in scan.blocks):
            instants = sorted({str(block.instant_time) for block in scan.blocks})
            found = f"blocks of {', '.join(instants)}" if instants else "no blocks"
            raise CorruptLogFileError(path, 0, found, f"a block of the commit {commit}, which names the file")

    @cached_property
    def _parts(self) -> "tuple[pa.Table | _DataBlock, ...]":
        """Of each log block the deletes, or the records, which are found by their keys; read once."""
        return tuple(_part(self.kind, block) for block in self._read_blocks())

    def of_keys(self, keys: Sequence[bytes]) -> pa.Table:
        """The records of some keys, which are in order, each once; those that there are."""
        wanted = pa.array(keys, pa.binary()).cast(pa.string())
        if len(keys) > FEW_KEYS or self._are_logs_searched_through:
            logs = self.logs.filter(pc.is_in(self.logs.column(KEY), wanted))
        else:
            logs = pa.concat_tables([self.kind.schema.empty_table(), *self._in_logs(keys, wanted)])
        base = () if self.base is None else self.base.cells_of_keys(keys)
        found = [self._decoded(cells, pc.is_in(cells.keys, wanted)) for cells in base]
        return self._merged(found, logs)

    @property
    def _are_logs_searched_through(self) -> bool:
        """Whether it is time to decode all of the logs, and keep that."""
        return any(not isinstance(part, pa.Table) and part.hfile.is_searched_through for part in self._parts)

    def _in_logs(self, keys: Sequence[bytes], wanted: Column) -> Iterator[pa.Table]:
        for part in self._parts:
            if isinstance(part, pa.Table):
                yield part.filter(pc.is_in(part.column(KEY), wanted))
                continue
            for cells in part.hfile.cells_of_keys(keys):
                chosen = pc.is_in(cells.keys, wanted)
                yield _decode(self.kind, cells, chosen, part.writer, part.block.path, part.block.content_offset)

    def of_range(self, wanted: KeyRange) -> pa.Table:
        """The records of a range of keys."""
        logs = self.logs.filter(_within(self.logs.column(KEY), wanted))
        base = () if self.base is None else self.base.cells_of_range(wanted)
        return self._merged([self._decoded(cells, _within(cells.keys, wanted)) for cells in base], logs)

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


def _part(kind: RecordKind, block: LogBlock) -> pa.Table | _DataBlock:
    """The deletes of a log block, or its records.

    Raises:
        CorruptTableError: the block is damaged.
        UnsupportedTableError: it is neither an HFile nor one of deletes.
    """
    match block.block_type:
        case BlockType.DELETE:
            return deletes_of(kind, parse_delete_block(block).record_keys)
        case BlockType.HFILE_DATA:
            return _DataBlock.of(block)
        case _:
            found = f"a block of type {block.block_type.name} in {block.path}"
            raise UnsupportedTableError("metadata table", found, "blocks of HFiles and deletes")


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
    records = decode_avro_records(cells.values, starts, ends, writer, [kind.field], path, offset)
    return versions_of(kind, keys, records)


def _within(keys: "pa.StringArray | pa.ChunkedArray[Any]", wanted: KeyRange) -> "pa.BooleanArray":
    raw = keys.cast(pa.binary())
    inside = pc.greater_equal(raw, pa.scalar(wanted.start, pa.binary()))
    if wanted.end is None:
        return inside
    return pc.and_(inside, pc.less(raw, pa.scalar(wanted.end, pa.binary())))
