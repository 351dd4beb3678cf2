"""The log blocks of a file slice, for engines that show them to users."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.record_bounds import record_bounds
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.merge.arrays import Booleans, Column
from hudi_bridge.readers.block_decoder import BlockDecoder
from hudi_bridge.readers.log_record_scanner import read_live_blocks, read_log_file
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage

_HEAD_BYTES = 8
_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroRecords:
    """The Avro records of a block: record ``i`` is ``content[starts[i]:ends[i]]``, with offsets in bytes.

    Each record is preceded by its length, four bytes, big-endian.
    """

    content: pa.Buffer
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDeletes:
    """The deletes of a block, in block order.

    ``ordering`` has one array for each ordering field that the merge rule compares, ``always_deletes`` marks deletes
    without an ordering value.
    """

    keys: Column
    ordering: tuple[Column, ...]
    always_deletes: Booleans


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLogBlock:
    """A log block as stored; ``offset`` is in bytes.

    ``turn`` is the place of the block among those that a read as of the split's instant applies, oldest first; None if
    it does not count. ``writer_schema`` is the Avro schema of a data block, as JSON; with ``is_partial``, its records
    have only the columns that were updated. ``records`` is None unless the block is an Avro data block, ``deletes``
    unless it is a delete block that counts.
    """

    log_path: str
    offset: int
    block_type: str
    instant_time: str | None
    turn: int | None
    writer_schema: str | None
    is_partial: bool
    records: AvroRecords | None
    deletes: LogDeletes | None

    @property
    def counts(self) -> bool:
        """Whether a read as of the split's instant uses the block."""
        return self.turn is not None


def iter_log_blocks(storage: Storage, split: RealtimeFileSplit) -> Iterator[StoredLogBlock]:
    """All log blocks of a slice, oldest first.

    Raises:
        CorruptLogFileError: a block is not what its header says.
        UnsupportedTableError: a delete block is of an unknown version.
        DataFileGoneError: a log file no longer exists.
    """
    if not split.log_paths:
        return
    turns = {(block.path, block.offset): turn for turn, block in enumerate(read_live_blocks(storage, split).blocks)}
    rule = split.context.merge_rule
    decoder = None if rule is None else BlockDecoder(split, rule, ())
    for path, size in split.log_files:
        for block in scan_blocks(read_log_file(storage, split, path, size, on_disk=False), path).blocks:
            turn = turns.get((path, block.offset))
            is_applied = turn is not None and block.block_type is BlockType.DELETE
            yield StoredLogBlock(
                log_path=block.path,
                offset=block.offset,
                block_type=block.block_type.name.lower(),
                instant_time=block.instant_time,
                turn=turn,
                writer_schema=block.schema_text,
                is_partial=block.is_partial,
                records=_records(block),
                deletes=_deletes(block, decoder) if is_applied and decoder is not None else None,
            )


def _deletes(block: LogBlock, decoder: BlockDecoder) -> LogDeletes:
    deletes = decoder.decode(block)
    return LogDeletes(keys=deletes.keys, ordering=deletes.ordering, always_deletes=deletes.always_deletes)


def _records(block: LogBlock) -> AvroRecords | None:
    match block.block_type:
        case BlockType.AVRO_DATA:
            count = int.from_bytes(memoryview(block.content)[_LENGTH_BYTES:_HEAD_BYTES], "big", signed=True)
            starts, ends = record_bounds(block.content, _HEAD_BYTES, count, block.path, block.content_offset)
            return AvroRecords(content=block.content, starts=starts, ends=ends)
        case BlockType.HFILE_DATA | BlockType.PARQUET_DATA | BlockType.CDC_DATA | BlockType.DELETE:
            return None
        case BlockType.COMMAND | BlockType.CORRUPT:
            return None
        case _:
            assert_never(block.block_type)
