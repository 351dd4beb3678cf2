"""The blocks of a table's log files as rows, for looking into them with SQL.

A data block of Avro records is cut between records into chunks that the function ``hudi_decode`` takes; of other blocks
there is one row without a chunk.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

import numpy as np
import pyarrow as pa

from hudi_bridge.logformat.avro_columns import record_bounds
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.readers.log_record_scanner import read_live_blocks, read_log_file
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage

_BLOCKS: Mapping[str, pa.DataType] = {
    "publication": pa.string(),
    "log_path": pa.string(),
    "block_offset": pa.int64(),
    "block_type": pa.string(),
    "instant": pa.string(),
    "counts": pa.bool_(),
    "records": pa.int64(),
    "writer_schema": pa.string(),
    "chunk": pa.binary(),
}
BLOCKS_SCHEMA = pa.schema(_BLOCKS)
_HEAD_BYTES = 8
_LENGTH_BYTES = 4
_MOST_BYTES, _MOST_RECORDS = 256 << 10, 1000
"""Of a chunk: what the small memory of Trino's Python can decode."""


def block_rows(storage: Storage, splits: Iterable[RealtimeFileSplit], publication: str) -> Iterator[pa.RecordBatch]:
    """One batch for each log file.

    Raises:
        CorruptLogFileError: a block is not what its header says.
    """
    for split in splits:
        if not split.log_paths:
            continue
        live = {(block.path, block.offset) for block in read_live_blocks(storage, split).blocks}
        for path in split.log_paths:
            blocks = scan_blocks(read_log_file(storage, split, path, on_disk=False), path).blocks
            rows = [
                row | {"publication": publication, "counts": (path, block.offset) in live}
                for block in blocks
                for row in _rows(block)
            ]
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema=BLOCKS_SCHEMA)


def _rows(block: LogBlock) -> Iterator[dict[str, object]]:
    facts = {
        "log_path": block.path,
        "block_offset": block.offset,
        "block_type": block.block_type.name.lower(),
        "instant": block.instant_time,
        "writer_schema": block.schema_text,
    }
    match block.block_type:
        case BlockType.AVRO_DATA:
            yield from (facts | chunk for chunk in _chunks(block))
        case BlockType.HFILE_DATA | BlockType.PARQUET_DATA | BlockType.CDC_DATA | BlockType.DELETE:
            yield facts
        case BlockType.COMMAND | BlockType.CORRUPT:
            yield facts
        case _:
            assert_never(block.block_type)


def _chunks(block: LogBlock) -> Iterator[dict[str, object]]:
    content = memoryview(block.content)
    count = int.from_bytes(content[_LENGTH_BYTES:_HEAD_BYTES], "big", signed=True)
    starts, ends = record_bounds(block.content, _HEAD_BYTES, count, block.path, block.content_offset)
    first = 0
    while first < count:
        limit = starts[first] + _MOST_BYTES
        fits = int(np.searchsorted(ends[first : first + _MOST_RECORDS], limit, side="right"))
        last = first + max(1, fits)
        chunk = content[int(starts[first]) - _LENGTH_BYTES : int(ends[last - 1])]
        yield {"records": last - first, "chunk": bytes(chunk)}
        first = last
