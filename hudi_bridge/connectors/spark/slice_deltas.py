"""Merges the logs of file slices on an executor, and decides which base files Spark may read."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from hudi_bridge.connectors.spark.deleted_bits import deleted_bits
from hudi_bridge.connectors.spark.delta_columns import BLOCK_ROWS, Positions, blocks_in, deleted_blocks
from hudi_bridge.connectors.spark.errors import noting_error_details
from hudi_bridge.connectors.spark.kept_rows import TOLD, Reports, Sent
from hudi_bridge.connectors.spark.native_columns import why_not_native
from hudi_bridge.connectors.spark.plan import Reading, load_split
from hudi_bridge.connectors.spark.types import arrow_layout, in_layout
from hudi_bridge.engines import SliceDelta, slice_delta_in
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage

DeltaTask: TypeAlias = tuple[tuple[int, bytes], ...]
"""The slices that one Spark task merges: the place of each among all, and the pickled split."""

ROWS, BLOCKS = TOLD + 1, TOLD + 2
"""The kinds of batches that are kept: rows of the table, and blocks of deleted positions."""

# Of the base file.
_ROWS_PER_BATCH = BLOCK_ROWS * 1024
# The JVM's usual collector (G1) copies small arrays several times, and has to find room for a large one in one piece.
_PIECE_BYTES = 1 << 23


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSlice:
    """What the merge of a slice tells the driver.

    ``reason`` says why Spark must not read its base file; the rest is 0 then. The logs have ``deleted`` rows of the
    base file, ``left`` others in it, and ``added`` some, of ``added_bytes`` in Arrow. Of the deleted positions,
    ``blocks_kept`` blocks are kept, and others are told; ``in_bits`` says that they are told as ``deleted_bits``.
    """

    reason: str | None = None
    deleted: int = 0
    left: int = 0
    added: int = 0
    added_bytes: int = 0
    blocks_kept: int = 0
    in_bits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaJob:
    """What all tasks have in common.

    Each tells the driver at most ``most_blocks`` blocks of deleted positions, or nothing but as many bits if there are
    ``few_files``.
    """

    reading: Reading
    most_blocks: int
    few_files: bool
    use_threads: bool

    def __call__(self, task: DeltaTask, reports: Reports[MergedSlice]) -> Iterator[Sent]:
        """The ``ROWS`` that logs add, and deleted positions, told or kept; reports every slice by its place."""
        reading = self.reading
        storages: dict[str, Storage] = {}
        room = self.most_blocks
        with noting_error_details():
            for place, pickled in task:
                split = load_split(pickled, reading.contexts)
                assert isinstance(split, RealtimeFileSplit)
                path = split.context.table_path
                if path not in storages:
                    storages[path] = split.context.open_storage()
                # As many tasks as the machine has cores may share its memory.
                at_once = os.cpu_count() or 1
                with slice_delta_in(
                    storages[path], split, reading.schema.names, use_threads=self.use_threads, at_once=at_once
                ) as delta:
                    base = delta.base_file
                    reason = None if base is None else why_not_native(split, base, reading.schema)
                    if reason is not None:
                        reports[place] = MergedSlice(reason=reason)
                        continue
                    added = added_bytes = 0
                    for rows in in_layout(_passing(reading, delta), arrow_layout(reading.schema)):
                        added += rows.num_rows
                        added_bytes += rows.nbytes
                        yield from ((ROWS, piece) for piece in _pieces(rows))
                    if base is None:
                        reports[place] = MergedSlice(added=added, added_bytes=added_bytes)
                        continue
                    positions, name = delta.deleted_positions, base.path.rpartition("/")[2]
                    left = base.rows - len(positions)
                    in_bits = self.few_files and blocks_in(base.rows) <= room
                    deletes: list[pa.RecordBatch] = []
                    # Without any row left, the file is not read.
                    if len(positions) and left:
                        deletes += [deleted_bits(name, positions, base.rows)] if in_bits else _blocks(name, positions)
                    blocks = blocks_in(base.rows) if in_bits else sum(batch.num_rows for batch in deletes)
                    # Of few files, nothing but bits is told.
                    is_told = blocks <= room and in_bits == self.few_files
                    yield from ((TOLD if is_told else BLOCKS, batch) for batch in deletes)
                    if deletes and is_told:
                        room -= blocks
                    reports[place] = MergedSlice(
                        added=added,
                        added_bytes=added_bytes,
                        deleted=len(positions),
                        left=left,
                        blocks_kept=0 if is_told else blocks,
                        in_bits=in_bits,
                    )


def _blocks(file: str, positions: Positions) -> Iterator[pa.RecordBatch]:
    """The blocks of positions, one at least, in a base file."""
    for start in range(0, int(positions[-1]) + 1, _ROWS_PER_BATCH):
        first, end = np.searchsorted(positions, (start, start + _ROWS_PER_BATCH))
        if first < end:
            yield deleted_blocks(file, positions[first:end])


def _passing(reading: Reading, delta: SliceDelta) -> Iterator[pa.RecordBatch]:
    """The rows of a delta that pass the filter."""
    for rows in delta.rows():
        if reading.row_filter is None:
            yield rows
        else:
            yield from pa.Table.from_batches([rows]).filter(reading.row_filter).to_batches()


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of which none is too large for the JVM."""
    most = 1 + rows.num_rows * _PIECE_BYTES // max(1, rows.nbytes)
    for start in range(0, rows.num_rows, most):
        yield rows.slice(start, most)
