"""Merges the logs of file slices on an executor, and decides which base files Spark may read.

A ``DeltaJob`` runs for each task of a merge. It yields the rows that logs add and the positions of the base rows that
they delete, each batch with its kind, and reports every slice to the driver.
"""

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from hudi_bridge.connectors.spark.deleted_rows import (
    BLOCK_ROWS,
    Positions,
    block_count,
    deleted_bits,
    deleted_blocks,
)
from hudi_bridge.connectors.spark.errors import noting_error_details
from hudi_bridge.connectors.spark.jvm import COLLECTED, KindBatch, Reports
from hudi_bridge.connectors.spark.native_columns import reason_file_not_native
from hudi_bridge.connectors.spark.plan import Reading, load_split
from hudi_bridge.connectors.spark.types import arrow_layout, in_layout
from hudi_bridge.engines import SliceDelta, StoredBaseFile, slice_delta_in
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

DeltaTask: TypeAlias = tuple[tuple[int, bytes], ...]
"""The slices that one Spark task merges: the index of each in the listing, and the pickled split."""

ROWS, BLOCKS = COLLECTED + 1, COLLECTED + 2
"""The kinds of batches that Spark keeps: rows of the table, and blocks of deleted positions."""

# Rows of the base file whose deleted positions are in one batch.
_ROWS_PER_BATCH = BLOCK_ROWS * 1024
# The JVM's usual collector (G1) copies small arrays several times, and has to find room for a large one in one piece.
_MAX_BATCH_BYTES = 1 << 23


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSlice:
    """What the merge of a slice reports to the driver.

    ``reason`` says why Spark must not read its base file; the other fields are 0 then. Of the base file, logs remove
    ``deleted`` rows and leave ``remaining`` rows. They add ``added`` rows, of ``added_bytes`` in Arrow. ``kept_blocks``
    counts the blocks of deleted positions that Spark keeps; the others are collected by the driver, as ``deleted_bits``
    if ``in_bits`` is set.
    """

    reason: str | None = None
    deleted: int = 0
    remaining: int = 0
    added: int = 0
    added_bytes: int = 0
    kept_blocks: int = 0
    in_bits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaJob:
    """What all tasks of a merge have in common; called for each task.

    The driver collects at most ``max_collected_blocks`` blocks of deleted positions from a task, in one form only:
    ``deleted_bits`` with ``prefers_bits``, and ``deleted_blocks`` otherwise. Spark keeps the other positions as blocks.
    """

    reading: Reading
    max_collected_blocks: int
    prefers_bits: bool
    use_threads: bool

    def __call__(self, task: DeltaTask, reports: Reports[MergedSlice]) -> Iterator[KindBatch]:
        """Yields ``ROWS`` that logs add and deleted positions; reports each slice by its index."""
        storages: dict[str, Storage] = {}
        budget = self.max_collected_blocks
        with noting_error_details():
            for index, pickled in task:
                split = load_split(pickled, self.reading.contexts)
                assert isinstance(split, RealtimeFileSplit)
                path = split.context.table_path
                if path not in storages:
                    storages[path] = split.context.open_storage()
                # As many tasks as the machine has cores may share its memory.
                at_once = os.cpu_count() or 1
                with slice_delta_in(
                    storages[path], split, self.reading.schema.names, use_threads=self.use_threads, at_once=at_once
                ) as delta:
                    base = delta.base_file
                    reason = None if base is None else reason_file_not_native(split, base, self.reading.schema)
                    if reason is not None:
                        reports[index] = MergedSlice(reason=reason)
                        continue
                    added, added_bytes = yield from self._added_rows(delta)
                    deletes = _Deletes()
                    if base is not None:
                        deletes = self._deletes(base, delta.deleted_positions, budget)
                        yield from ((deletes.kind, batch) for batch in deletes.batches)
                    budget -= deletes.collected_blocks
                    reports[index] = MergedSlice(
                        added=added,
                        added_bytes=added_bytes,
                        deleted=0 if base is None else len(delta.deleted_positions),
                        remaining=0 if base is None else base.rows - len(delta.deleted_positions),
                        kept_blocks=deletes.kept_blocks,
                        in_bits=deletes.in_bits,
                    )

    def _added_rows(self, delta: SliceDelta) -> Generator[KindBatch, None, tuple[int, int]]:
        """Yields the rows that logs add and that pass the filter; returns their number and size in bytes."""
        added = added_bytes = 0
        for rows in in_layout(_filtered(self.reading, delta), arrow_layout(self.reading.schema)):
            added += rows.num_rows
            added_bytes += rows.nbytes
            yield from ((ROWS, batch) for batch in _small_batches(rows))
        return added, added_bytes

    def _deletes(self, base: StoredBaseFile, positions: Positions, budget: int) -> "_Deletes":
        """The deleted positions of a base file; the driver collects them if they have at most ``budget`` blocks."""
        # Spark does not scan a file without remaining rows.
        if not len(positions) or len(positions) == base.rows:
            return _Deletes()
        name, all_blocks = base.path.rpartition("/")[2], block_count(base.rows)
        if self.prefers_bits and all_blocks <= budget:
            bits = deleted_bits(name, positions, base.rows)
            return _Deletes(kind=COLLECTED, blocks=all_blocks, batches=(bits,), in_bits=True)
        batches = tuple(_block_batches(name, positions))
        blocks = sum(batch.num_rows for batch in batches)
        is_collected = not self.prefers_bits and blocks <= budget
        return _Deletes(kind=COLLECTED if is_collected else BLOCKS, blocks=blocks, batches=batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deletes:
    """The deleted positions of a base file: their batches, all of one kind, which count as ``blocks``."""

    kind: int = COLLECTED
    blocks: int = 0
    batches: tuple[pa.RecordBatch, ...] = ()
    in_bits: bool = False

    @property
    def collected_blocks(self) -> int:
        return self.blocks if self.kind == COLLECTED else 0

    @property
    def kept_blocks(self) -> int:
        return self.blocks - self.collected_blocks


def _block_batches(file: str, positions: Positions) -> Iterator[pa.RecordBatch]:
    """The blocks of at least one position in a base file."""
    for start in range(0, int(positions[-1]) + 1, _ROWS_PER_BATCH):
        first, end = np.searchsorted(positions, (start, start + _ROWS_PER_BATCH))
        if first < end:
            yield deleted_blocks(file, positions[first:end])


def _filtered(reading: Reading, delta: SliceDelta) -> Iterator[pa.RecordBatch]:
    """The rows that logs add and that pass the filter."""
    for rows in delta.rows():
        if reading.row_filter is None:
            yield rows
        else:
            yield from pa.Table.from_batches([rows]).filter(reading.row_filter).to_batches()


def _small_batches(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are not too large for the JVM."""
    max_rows = 1 + rows.num_rows * _MAX_BATCH_BYTES // max(1, rows.nbytes)
    for start in range(0, rows.num_rows, max_rows):
        yield rows.slice(start, max_rows)
