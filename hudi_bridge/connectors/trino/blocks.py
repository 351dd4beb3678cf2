"""The blocks of a table's log files as rows, so that SQL can inspect them, or merge them.

A data block of Avro records is split between records into chunks, one row each, for the functions that decode them; a
delete block into lists of keys, if it counts. Other blocks have one row without either.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.connectors.trino.compatibility import LogColumns
from hudi_bridge.connectors.trino.sql_types import published_type
from hudi_bridge.engines import LogDeletes, StoredLogBlock, iter_log_blocks, record_layout
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge.arrays import ordering_type
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

_BLOCKS: Mapping[str, pa.DataType] = {
    "publication": pa.string(),
    "place": pa.int64(),
    "partition_path": pa.string(),
    "file_id": pa.string(),
    "log_path": pa.string(),
    "block_offset": pa.int64(),
    "block_type": pa.string(),
    "instant": pa.string(),
    "counts": pa.bool_(),
    "turn": pa.int64(),
    "first": pa.int64(),
    "records": pa.int64(),
    "writer_schema": pa.string(),
    "layout": pa.string(),
    "chunk": pa.binary(),
}
_LENGTH_BYTES = 4
_MOST_BYTES, _MOST_RECORDS, _MOST_VALUES = 256 << 10, 1000, 20_000
"""Limits of a chunk, so that it can be decoded in the small memory of Trino's Python."""
_MOST_RECORD_BYTES = 300_000
_MOST_DELETES = 10_000
_AVRO_BLOCK, _DELETE_BLOCK = "avro_data", "delete"


def blocks_schema(context: ReadContext, columns: LogColumns) -> pa.Schema:
    """The columns of the blocks, with the slice, or place, of each, and its turn among those that count.

    ``first`` is how many records of the block come before the row's. ``deletes`` has the keys of a delete block, with
    whether each is without an ordering value, and its ordering values.
    """
    rule = context.merge_rule
    fields = rule.ordering_fields if rule is not None and rule.uses_ordering else ()
    ordering = {
        f"o{position}": published_type(ordering_type(name, context.schema), columns.engine, cut_times=columns.cut_times)
        for position, name in enumerate(fields)
    }
    delete = pa.struct({"key": pa.string(), "always": pa.bool_(), **ordering})
    return pa.schema({**_BLOCKS, "deletes": pa.list_(delete)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Makes the rows of a publication's blocks; with ``for_merging``, blocks that Trino cannot merge are refused."""

    storage: Storage
    schema: pa.Schema
    publication: str
    for_merging: bool
    cut_times: bool
    most_records: int

    @classmethod
    def of(
        cls, storage: Storage, context: ReadContext, columns: LogColumns, publication: str, *, for_merging: bool
    ) -> Self:
        """The blocks of a table."""
        return cls(
            storage=storage,
            schema=blocks_schema(context, columns),
            publication=publication,
            for_merging=for_merging,
            cut_times=columns.cut_times,
            most_records=max(1, min(_MOST_RECORDS, _MOST_VALUES // len(context.schema))),
        )

    def tables(self, splits: Iterable[RealtimeFileSplit]) -> Iterator[pa.Table]:
        """The rows of all log files, one table for each file.

        Raises:
            CorruptLogFileError: a block does not match its header.
            UnsupportedTableError: Trino cannot merge a block.
        """
        for index, split in enumerate(splits):
            of_slice = {
                "publication": self.publication,
                "place": index,
                "partition_path": split.partition_path,
                "file_id": split.file_id,
            }
            layouts: dict[tuple[str | None, str | None], str] = {}
            for _, blocks in groupby(iter_log_blocks(self.storage, split), key=attrgetter("log_path")):
                rows = (row for block in blocks for row in self._rows(split, block, layouts))
                yield pa.Table.from_batches([self._batch(of_slice | row) for row in rows], self.schema)

    def records_to_decode(self, splits: Iterable[RealtimeFileSplit]) -> Iterator[int]:
        """The numbers of the records, of one log file each, that a merge in Trino decodes in each query.

        Raises:
            CorruptLogFileError: a block does not match its header.
            UnsupportedTableError: Trino cannot merge a block.
        """
        for table in self.tables(splits):
            is_decoded = pc.and_(pc.is_valid(table["turn"]), pc.is_valid(table["chunk"]))
            yield pc.sum(table.filter(is_decoded)["records"]).as_py() or 0

    def _batch(self, row: Mapping[str, object]) -> pa.RecordBatch:
        arrays = [
            row[field.name]
            if isinstance(row.get(field.name), pa.Array)
            else pa.array([row.get(field.name)], field.type)
            for field in self.schema
        ]
        return pa.record_batch(arrays, schema=self.schema)

    def _rows(
        self, split: RealtimeFileSplit, block: StoredLogBlock, layouts: dict[tuple[str | None, str | None], str]
    ) -> Iterator[dict[str, object]]:
        of_block: dict[str, object] = {
            "log_path": block.log_path,
            "block_offset": block.offset,
            "block_type": block.block_type,
            "instant": block.instant_time,
            "counts": block.counts,
            "turn": block.turn,
            "writer_schema": block.writer_schema,
        }
        if self.for_merging and block.counts and block.block_type != _DELETE_BLOCK:
            key = (block.writer_schema, block.instant_time)
            if key not in layouts:
                layouts[key] = _layout(split, block)
            of_block["layout"] = layouts[key]
        if block.records is not None:
            yield from (of_block | chunk for chunk in self._chunks(block))
        elif block.deletes is not None:
            yield from (of_block | deletes for deletes in self._deletes(block.deletes))
        else:
            yield of_block

    def _chunks(self, block: StoredLogBlock) -> Iterator[dict[str, object]]:
        if block.records is None:
            return
        content, starts, ends = memoryview(block.records.content), block.records.starts, block.records.ends
        first, count = 0, len(starts)
        while first < count:
            limit = starts[first] + _MOST_BYTES
            fits = int(np.searchsorted(ends[first : first + self.most_records], limit, side="right"))
            last = first + max(1, fits)
            chunk = content[int(starts[first]) - _LENGTH_BYTES : int(ends[last - 1])]
            if self.for_merging and block.counts and len(chunk) > _MOST_RECORD_BYTES:
                raise _unmergeable(
                    block, f"a record of {len(chunk):,} bytes", f"records of up to {_MOST_RECORD_BYTES:,}"
                )
            yield {"first": first, "records": last - first, "chunk": bytes(chunk)}
            first = last

    def _deletes(self, deletes: LogDeletes) -> Iterator[dict[str, object]]:
        kind: Any = self.schema.field("deletes").type
        always = pa.array(deletes.always_deletes)
        values = [
            array.cast(field.type, safe=not self.cut_times)
            for array, field in zip((deletes.keys, always, *deletes.ordering), kind.value_type, strict=True)
        ]
        every = pa.StructArray.from_arrays(values, fields=list(kind.value_type))
        for first in range(0, len(every), _MOST_DELETES):
            some = every.slice(first, _MOST_DELETES)
            listed = pa.ListArray.from_arrays(pa.array([0, len(some)], pa.int32()), some)
            yield {"first": first, "records": len(some), "deletes": listed.cast(kind)}


def _layout(split: RealtimeFileSplit, block: StoredLogBlock) -> str:
    """The layout of a data block.

    Raises:
        UnsupportedTableError: Trino cannot merge the block.
    """
    if block.block_type != _AVRO_BLOCK:
        raise _unmergeable(block, f"a block of type {block.block_type}", "Avro data blocks, and delete blocks")
    if block.is_partial:
        raise _unmergeable(block, "a partial update", "blocks of whole records")
    return record_layout(split, block)


def _unmergeable(block: StoredLogBlock, actual: str, supported: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        "log block to merge in Trino", f"{actual}, in {block.log_path} at byte {block.offset}", supported
    )
