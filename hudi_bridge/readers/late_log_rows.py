"""Decodes the columns of log records that neither merging nor the filter needs, where a record passes the filter.

Most of the time for a log is that of its columns.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hudi_bridge.errors import CorruptLogFileError
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.merge.arrays import Positions
from hudi_bridge.merge.log_records import LogRecords
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.block_decoder import BlockDecoder, Datums
from hudi_bridge.readers.block_runs import runs


def may_be_late(blocks: Sequence[LogBlock], rule: MergeRule) -> bool:
    """Whether rows of the blocks can be decoded late: they are not merged, and found without decoding others."""
    if rule.merges_fields:
        return False
    return all(
        block.block_type is BlockType.DELETE or (block.block_type is BlockType.AVRO_DATA and not block.is_partial)
        for block in blocks
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _NumberedBlocks:
    blocks: Sequence[LogBlock]
    datums: Datums
    first_number: int


class LateLogRows:
    """The rows of data blocks by number, counted over all blocks; holds the blocks in memory."""

    def __init__(self, first: BlockDecoder, rest: BlockDecoder) -> None:
        """``first`` decodes what merging needs, ``rest`` the rows."""
        self._first = first
        self._rest = rest
        self._runs: list[_NumberedBlocks] = []
        self._records = 0
        self.number_column = "".join(first.schema.names) + "#"
        """The column of the numbers; the table has none of that name."""
        self.schema = first.schema.append(pa.field(self.number_column, pa.int64()))
        """The columns of the records."""

    def in_order(self, blocks: deque[LogBlock]) -> Iterator[LogRecords]:
        """The records of data and delete blocks, with their numbers in place of the columns that come late.

        Takes the blocks out of ``blocks`` as they are decoded.

        Raises:
            CorruptLogFileError: the content of a block is not what its header says.
        """
        for run in runs(blocks, self._first.likeness):
            yield self._numbered(run) if run[0].is_data else self._first.decode(run[0])

    def _numbered(self, run: Sequence[LogBlock]) -> LogRecords:
        datums, counts = self._first.joined(run)
        records = self._first.of_run(run, datums, counts)
        start, self._records = self._records, self._records + len(datums)
        held = run if len(run) == 1 else tuple(_blocks_within(datums.data, run))
        self._runs.append(_NumberedBlocks(blocks=held, datums=datums, first_number=start))
        assert records.rows is not None
        numbers = pa.array(np.arange(start, self._records))
        rows = pa.record_batch([*records.rows.columns, numbers], schema=self.schema)
        return replace(records, rows=rows)

    def rows(self, numbers: Positions) -> Iterator[pa.RecordBatch]:
        """The rows with these numbers, in no particular order.

        Raises:
            CorruptLogFileError: the content of a block is not what its header says.
        """
        ascending = np.sort(numbers)
        ends = np.cumsum([len(one.datums) for one in self._runs])
        parts = np.split(ascending, np.searchsorted(ascending, ends)[:-1]) if len(ends) else []
        for one, part in zip(self._runs, parts, strict=True):
            if len(part):
                yield self._rows(one, part)

    def _rows(self, run: _NumberedBlocks, numbers: Positions) -> pa.RecordBatch:
        try:
            return self._rest.rows(run.blocks[0], run.datums.at(numbers - run.first_number))
        except CorruptLogFileError:
            self._rest.find_damage(run.blocks)
            raise


def _blocks_within(data: pa.Buffer, blocks: Iterable[LogBlock]) -> Iterator[LogBlock]:
    """The same blocks with their contents in ``data``, where these follow one another, so that one copy is held."""
    start = 0
    for block in blocks:
        size = block.content.size
        yield replace(block, content=data.slice(start, size))
        start += size
