"""The reads as a user of ``hudi`` (hudi-rs) writes them who knows its fastest way.

Even where all rows are wanted they come from ``read_stream``: it is faster than ``read`` and takes less
memory, and it alone hands the column list down to the Parquet reader.
"""

from collections.abc import Iterator

import pyarrow as pa
from hudi import HudiReadOptions, HudiTableBuilder

from benchmarks import measurement
from benchmarks.scenarios import Read

BATCH_ROWS = 8_192


def _options(read: Read) -> HudiReadOptions:
    options = HudiReadOptions().with_batch_size(BATCH_ROWS)
    if read.columns is not None:
        options = options.with_projection(list(read.columns))
    if read.where is not None:
        column, comparison, literal = read.where
        options = options.with_filters([(column, comparison, str(literal))])
    return options


class HudiRs:
    """``hudi`` with its default reader version; merging by record position was slower."""

    def table(self, path: str, read: Read) -> pa.Table:
        """All rows of the answer, in memory."""
        return pa.Table.from_batches(self.batches(path, read))

    def batches(self, path: str, read: Read) -> Iterator[pa.RecordBatch]:
        """The same rows, one batch after another."""
        return iter(HudiTableBuilder.from_base_uri(path).build().read_stream(_options(read)))


if __name__ == "__main__":
    measurement.main(HudiRs())
