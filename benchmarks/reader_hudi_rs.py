"""The reads with ``hudi`` (hudi-rs), in its fastest way.

Streams are never slower than its eager reads, take less memory, and are the only reads that pass the columns on to the
Parquet reader. A stream of the whole table uses one core, so the file slices are streamed in threads.
"""

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from hudi import HudiFileSlice, HudiReadOptions, HudiTable, HudiTableBuilder

from benchmarks import measurement
from benchmarks.scenarios import Read
from benchmarks.store import as_object_store

BATCH_ROWS = 8_192


def _options(read: Read) -> HudiReadOptions:
    options = HudiReadOptions().with_batch_size(BATCH_ROWS)
    if read.columns is not None:
        options = options.with_projection(list(read.columns))
    if read.where is not None:
        column, comparison, literal = read.where
        options = options.with_filters([(column, comparison, str(literal))])
    return options


def _open(path: str) -> HudiTable:
    if "://" not in path:
        return HudiTableBuilder.from_base_uri(path).build()
    location, options = as_object_store(path)
    # Its listing of metadata knows credentials only from the environment.
    os.environ.update({name.upper(): text for name, text in options.items()})
    return HudiTableBuilder.from_base_uri(location).build()


class HudiRs:
    """``hudi`` with its default reader version; merging by record position was slower."""

    def table(self, path: str, read: Read) -> pa.Table:
        """All rows, in memory; file slices are read in parallel, by one thread per core."""
        table = _open(path)
        options = _options(read)
        reader = table.create_file_group_reader_with_options(options)

        def slice_batches(file_slice: HudiFileSlice) -> list[pa.RecordBatch]:
            return list(reader.read_file_slice_stream(file_slice, options))

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            slices = list(pool.map(slice_batches, table.get_file_slices(options)))
        batches = list(itertools.chain.from_iterable(slices))
        return pa.Table.from_batches(batches, None if batches else table.get_schema_with_meta_fields())

    def batches(self, path: str, read: Read) -> Iterator[pa.RecordBatch]:
        """The same rows, one batch after another."""
        return iter(_open(path).read_stream(_options(read)))


if __name__ == "__main__":
    measurement.serve(HudiRs())
