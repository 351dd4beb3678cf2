"""What Hudi answered to its table-valued functions of Spark SQL (see tests/golden/sql_functions.py)."""

import base64
import json
import lzma
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tests.support.golden_cases import ARCHIVES


class Answer(NamedTuple):
    """What Hudi said to a call; ``{table}`` stands for the path of the table."""

    table: str
    call: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Mapping[str, Any], ...]

    @property
    def function(self) -> str:
        return self.call.partition("(")[0]

    @property
    def arguments(self) -> list[str]:
        """The arguments after the table."""
        actual = re.findall(r"'([^']*)'|(\w+)", self.call.partition("(")[2])
        return [text or word for text, word in actual[1:]]

    @property
    def name(self) -> str:
        return f"{self.table}-{self.call}"


@cache
def answers() -> tuple[Answer, ...]:
    """The answers, without Hudi's errors."""
    with lzma.open(ARCHIVES / "sql_functions.json.xz", "rt") as file:
        stored = json.load(file)
    return tuple(
        Answer(table, call, tuple(map(tuple, answer["columns"])), tuple(answer["rows"]))
        for table, calls in stored.items()
        for call, answer in calls.items()
        if "rows" in answer
    )


def sorted_rows(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def rows_as_json(batches: Iterable[pa.RecordBatch], path: str) -> Iterator[Mapping[str, Any]]:
    """The rows of batches as Spark's ``to_json`` writes them; ``path`` is that of the table."""
    for batch in batches:
        for row in batch.to_pylist():
            yield {field.name: _as_json(row[field.name], field.type, path) for field in batch.schema}


def _as_json(value: Any, kind: pa.DataType, path: str) -> Any:
    if value is None:
        return None
    if isinstance(kind, pa.MapType):
        return {key: _as_json(item, kind.item_type, path) for key, item in value}
    if isinstance(kind, pa.StructType):
        return {field.name: _as_json(value[field.name], field.type, path) for field in kind}
    if isinstance(kind, pa.ListType):
        return [_as_json(item, kind.value_type, path) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if pa.types.is_float32(kind):
        # As few digits as tell it from its neighbours.
        return float(str(np.float32(value)))
    return value.replace(path, "{table}") if isinstance(value, str) else value
