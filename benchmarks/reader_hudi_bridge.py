"""The reads with ``hudi_bridge``."""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import measurement
from benchmarks.scenarios import Read
from hudi_bridge import HudiTable

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"<": operator.lt, "=": operator.eq}


def _filter(read: Read) -> pc.Expression | None:
    if read.where is None:
        return None
    column, comparison, literal = read.where
    expression: pc.Expression = OPERATORS[comparison](pc.field(column), pc.scalar(literal))
    return expression


def _columns(read: Read) -> list[str] | None:
    return None if read.columns is None else list(read.columns)


class HudiBridge:
    """``hudi_bridge`` with its defaults."""

    def table(self, path: str, read: Read) -> pa.Table:
        """All rows, in memory."""
        return HudiTable.open(path).snapshot().to_table(columns=_columns(read), filter=_filter(read))

    def batches(self, path: str, read: Read) -> Iterator[pa.RecordBatch]:
        """The same rows, one batch after another."""
        snapshot = HudiTable.open(path).snapshot()
        return iter(snapshot.to_batches(columns=_columns(read), filter=_filter(read)))


if __name__ == "__main__":
    measurement.main(HudiBridge())
