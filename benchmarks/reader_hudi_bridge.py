"""The reads with ``hudi_bridge``.

The package imports when needed; ``HudiDataset`` brings all that reading needs, before the clock starts.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import measurement
from benchmarks.scenarios import Read
from hudi_bridge import HudiDataset, HudiTable

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"<": operator.lt, "=": operator.eq}


def filter_of(read: Read) -> pc.Expression | None:
    """The filter of a read, for pyarrow."""
    if read.where is None:
        return None
    column, comparison, literal = read.where
    expression: pc.Expression = OPERATORS[comparison](pc.field(column), pc.scalar(literal))
    return expression


def _columns(read: Read) -> list[str] | None:
    return None if read.columns is None else list(read.columns)


def _snapshot(path: str) -> HudiDataset:
    return HudiTable.open(path).snapshot()


class HudiBridge:
    """``hudi_bridge`` with its defaults."""

    def table(self, path: str, read: Read) -> pa.Table:
        """All rows, in memory."""
        return _snapshot(path).to_table(columns=_columns(read), filter=filter_of(read))

    def batches(self, path: str, read: Read) -> Iterator[pa.RecordBatch]:
        """The same rows, one batch after another."""
        return iter(_snapshot(path).to_batches(columns=_columns(read), filter=filter_of(read)))


if __name__ == "__main__":
    measurement.serve(HudiBridge())
