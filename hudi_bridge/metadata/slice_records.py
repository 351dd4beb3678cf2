"""The records of one file slice of the metadata table: those of its base file, then those of its log files.

The log files are read as a whole, of the base file only the blocks that may hold what is asked for.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.caching import cached_property
from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.avro_columns import decode_avro_records
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.delete_records import parse_delete_block
from hudi_bridge.logformat.hfile import HFileCells, read_hfile
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.scan import live_blocks, scan_blocks
from hudi_bridge.metadata.base_file import KeyRange, MetadataBaseFile
from hudi_bridge.metadata.record_kinds import KEY, RecordKind, deletes_of, versions_of
from hudi_bridge.schema.avro import AvroRecord, parse_avro_schema
from hudi_bridge.splits.file_slice import FileSlice
from hudi_bridge.storage import Storage
from hudi_bridge.threads import map_in_threads

_READING_THREADS = 16


@dataclass(frozen=True)
class SliceRecords:
    """The records of a slice; ``is_valid`` says whether the log blocks of an instant count."""

    storage: Storage
    piece: FileSlice
    kind: RecordKind
    is_valid: Callable[[str], bool]

    @cached_property
    def base(self) -> MetadataBaseFile | None:
        """The base file, None if the slice has only logs."""
        file = self.piece.base_file
        return None if file is None else MetadataBaseFile(self.storage, file.path, file.size_bytes)

    @cached_property
    def logs(self) -> pa.Table:
        """The versions in the log files, oldest first; read once.

        Raises:
            CorruptTableError: a log file is damaged.
            StorageError: a log file cannot be read.
        """
        paths = [log.path for log in self.piece.log_files]
        # The end of the base file is needed as well: on an object store, all requests take as long as one.
        opened = () if self.base is None else (self.base.open,)
        reads: list[Callable[[], pa.Buffer]] = [*(partial(self.storage.read_buffer, path) for path in paths), *opened]
        buffers = map_in_threads(lambda read: read(), reads, _READING_THREADS)[: len(paths)]
        scans = [scan_blocks(buffer, path) for buffer, path in zip(buffers, paths, strict=True)]
        damaged = next((corrupt for scan in scans for corrupt in scan.corrupt), None)
        if damaged is not None:
            raise CorruptLogFileError(damaged.path, damaged.offset, damaged.reason, "a whole log block")
        blocks = live_blocks(scans, latest_instant=None, is_valid=self.is_valid).blocks
        return pa.concat_tables([self.kind.schema.empty_table(), *map(self._versions, blocks)]).combine_chunks()

    def of_keys(self, keys: Sequence[bytes]) -> pa.Table:
        """The records of some keys, which are in order, each once; those that there are."""
        wanted = pa.array(keys, pa.binary()).cast(pa.string())
        logs = self.logs.filter(pc.is_in(self.logs.column(KEY), wanted))
        base = () if self.base is None else self.base.cells_of_keys(keys)
        found = [self._decoded(cells, pc.is_in(cells.keys, wanted)) for cells in base]
        return self._merged(found, logs)

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

    def _versions(self, block: LogBlock) -> pa.Table:
        match block.block_type:
            case BlockType.DELETE:
                return deletes_of(self.kind, parse_delete_block(block).record_keys)
            case BlockType.HFILE_DATA:
                cells = read_hfile(block.content, block.path, block.content_offset)
                if block.schema_text is None:
                    raise CorruptLogFileError(block.path, block.offset, "a block without SCHEMA", "the writer's schema")
                writer = parse_avro_schema(block.schema_text, block.path, block.offset)
                return _decode(self.kind, cells, None, writer, block.path, block.content_offset)
            case _:
                found = f"a block of type {block.block_type.name} in {block.path}"
                raise UnsupportedTableError("metadata table", found, "blocks of HFiles and deletes")


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
