"""The blocks of a table's log files as rows, so that SQL can inspect them.

A data block of Avro records is split between records into chunks, one row each, for the function ``hudi_decode``. Other
blocks have one row without a chunk.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa

from hudi_bridge.engines import StoredLogBlock, iter_log_blocks
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
_LENGTH_BYTES = 4
_MOST_BYTES, _MOST_RECORDS = 256 << 10, 1000
"""Limits of a chunk, so that it can be decoded in the small memory of Trino's Python."""


def block_rows(storage: Storage, splits: Iterable[RealtimeFileSplit], publication: str) -> Iterator[pa.RecordBatch]:
    """The blocks of all log files, one batch for each file.

    Raises:
        CorruptLogFileError: a block does not match its header.
    """
    for split in splits:
        for _, blocks in groupby(iter_log_blocks(storage, split), key=attrgetter("log_path")):
            rows = [row | {"publication": publication} for block in blocks for row in _rows(block)]
            yield pa.RecordBatch.from_pylist(rows, schema=BLOCKS_SCHEMA)


def _rows(block: StoredLogBlock) -> Iterator[dict[str, object]]:
    of_block = {
        "log_path": block.log_path,
        "block_offset": block.offset,
        "block_type": block.block_type,
        "instant": block.instant_time,
        "counts": block.counts,
        "writer_schema": block.writer_schema,
    }
    if block.records is None:
        yield of_block
        return
    content, starts, ends = memoryview(block.records.content), block.records.starts, block.records.ends
    first, count = 0, len(starts)
    while first < count:
        limit = starts[first] + _MOST_BYTES
        fits = int(np.searchsorted(ends[first : first + _MOST_RECORDS], limit, side="right"))
        last = first + max(1, fits)
        chunk = content[int(starts[first]) - _LENGTH_BYTES : int(ends[last - 1])]
        yield of_block | {"records": last - first, "chunk": bytes(chunk)}
        first = last
