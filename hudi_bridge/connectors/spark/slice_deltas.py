"""Merges the logs of file slices on an executor, and decides which base files Spark may read."""

import os
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from hudi_bridge.connectors.spark.delta_columns import (
    ADDED,
    BITS,
    BLOCK,
    BLOCK_ROWS,
    DELETED,
    FILE,
    LEFT,
    PIECE,
    PLACE,
    REASON,
    Piece,
    Positions,
    deleted_blocks,
    delta_layout,
)
from hudi_bridge.connectors.spark.errors import noting_error_details
from hudi_bridge.connectors.spark.native_columns import why_not_native
from hudi_bridge.connectors.spark.plan import Reading, load_split
from hudi_bridge.connectors.spark.types import arrow_layout, in_layout
from hudi_bridge.engines import SliceDelta, slice_delta_in
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage

DeltaTask: TypeAlias = tuple[tuple[int, bytes], ...]
"""The slices that one Spark task merges: the place of each among all, and the pickled split."""

# Of the base file.
_ROWS_PER_BATCH = BLOCK_ROWS * 1024


def delta_task(reading: Reading, task: DeltaTask) -> Iterator[pa.RecordBatch]:
    """The rows, positions and slices of a task, in the layout of ``delta_layout``."""
    layout = delta_layout(reading.schema)
    storages: dict[str, Storage] = {}
    with noting_error_details():
        for place, pickled in task:
            split = load_split(pickled, reading.contexts)
            assert isinstance(split, RealtimeFileSplit)
            path = split.context.table_path
            if path not in storages:
                storages[path] = Storage.open(path)
            # As many tasks as the machine has cores may share its memory.
            at_once = os.cpu_count() or 1
            with slice_delta_in(storages[path], split, reading.schema.names, at_once=at_once) as delta:
                base = delta.base_file
                reason = None if base is None else why_not_native(split, base, reading.schema)
                if reason is None:
                    yield from _merged(reading, delta, layout, place)
                else:
                    yield _batch(layout, 1, Piece.SLICE, {PLACE: place, REASON: reason})


def _merged(reading: Reading, delta: SliceDelta, layout: pa.Schema, place: int) -> Iterator[pa.RecordBatch]:
    added = 0
    for rows in in_layout(_passing(reading, delta), arrow_layout(reading.schema)):
        added += rows.num_rows
        columns = {field.name: column for field, column in zip(rows.schema, rows.columns, strict=True)}
        yield _batch(layout, rows.num_rows, Piece.ROW, columns)
    deleted = left = 0
    if delta.base_file is not None:
        positions = delta.deleted_positions
        deleted, left = len(positions), delta.base_file.rows - len(positions)
        # Without any row left, the file is not read.
        if deleted and left:
            yield from _blocks(delta.base_file.path.rpartition("/")[2], positions, layout)
    yield _batch(layout, 1, Piece.SLICE, {PLACE: place, DELETED: deleted, LEFT: left, ADDED: added})


def _blocks(file: str, positions: Positions, layout: pa.Schema) -> Iterator[pa.RecordBatch]:
    for start in range(0, int(positions[-1]) + 1, _ROWS_PER_BATCH):
        first, end = np.searchsorted(positions, (start, start + _ROWS_PER_BATCH))
        blocks, bits = deleted_blocks(positions[first:end])
        if len(blocks):
            yield _batch(layout, len(blocks), Piece.BLOCK, {FILE: file, BLOCK: blocks, BITS: bits})


def _passing(reading: Reading, delta: SliceDelta) -> Iterator[pa.RecordBatch]:
    """The rows of a delta that pass the filter."""
    for rows in delta.rows():
        if reading.row_filter is None:
            yield rows
        else:
            yield from pa.Table.from_batches([rows]).filter(reading.row_filter).to_batches()


def _batch(layout: pa.Schema, rows: int, piece: Piece, values: dict[str, Any]) -> pa.RecordBatch:
    """A batch of columns, or of the same value in all rows; columns without values are null."""
    given = {PIECE: int(piece), **values}
    columns = []
    for field in layout:
        value = given.get(field.name)
        if not isinstance(value, pa.Array):
            value = pa.nulls(rows, field.type) if value is None else pa.repeat(pa.scalar(value, field.type), rows)
        columns.append(value)
    return pa.RecordBatch.from_arrays(columns, schema=layout)
