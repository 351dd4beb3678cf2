"""Reads the splits of a task on an executor; a task that Spark runs again returns the same rows."""

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa

from hudi_bridge.connectors.spark.errors import noting_error_details
from hudi_bridge.connectors.spark.plan import Reading, load_split
from hudi_bridge.connectors.spark.types import arrow_layout, in_layout
from hudi_bridge.dispatch import open_reader_in
from hudi_bridge.engines import Split
from hudi_bridge.inspection import splits_to_table
from hudi_bridge.storage import Storage


def read_task(reading: Reading, task: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    """The rows of a task, in the Arrow types that Spark takes."""
    with noting_error_details():
        splits = [load_split(pickled, reading.contexts) for pickled in task]
        batches = _descriptions(reading, splits) if reading.describes_splits else _rows(reading, splits)
        yield from in_layout(batches, arrow_layout(reading.schema))


def _rows(reading: Reading, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    storages: dict[str, Storage] = {}
    for split in splits:
        path = split.context.table_path
        if path not in storages:
            storages[path] = split.context.open_storage()
        reader = open_reader_in(
            storages[path],
            split,
            reading.schema.names,
            reading.row_filter,
            # A task has one core. As many tasks as the machine has cores may share its memory.
            use_threads=False,
            at_once=os.cpu_count() or 1,
        )
        yield from reader.batches()


def _descriptions(reading: Reading, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    every = splits_to_table(piece for split in splits for piece in split.slices)
    rows = every if reading.row_filter is None else every.filter(reading.row_filter)
    yield from rows.select(reading.schema.names).combine_chunks().to_batches()
