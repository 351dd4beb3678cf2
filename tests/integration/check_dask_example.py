"""Reads tables with examples/dask_frame.py: ``check_dask_example.py FOLDER``, which it writes to."""

import math
import sys
from pathlib import Path
from typing import Any

import dask_frame
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge import HudiTable
from tests.integration.example_tables import EMPTY, FIRST, STORY, answers, keys_of_part_a, numbers
from tests.support.compare import differences
from tests.support.golden_cases import golden_table


def check(folder: Path) -> None:
    table = HudiTable.open(golden_table(STORY))
    frame = dask_frame.read_hudi(table)
    expected = answers(table)
    assert list(frame.columns) == expected.schema.names
    assert list(frame.dtypes) == [pd.ArrowDtype(kind) for kind in expected.schema.types]
    assert differences(expected, pa.Table.from_pandas(frame.compute(), expected.schema, preserve_index=False)) == []
    assert len(dask_frame.read_hudi(str(golden_table(STORY)), as_of=FIRST)) == 60
    assert len(dask_frame.read_hudi(HudiTable.open(golden_table(EMPTY)))) == 0

    asked: list[object] = []
    read_split = dask_frame.read_split

    def spy(split: Any, *, columns: list[str] | None = None, row_filter: Any = None) -> Any:
        asked.append(columns)
        return read_split(split, columns=columns, row_filter=row_filter)

    dask_frame.read_split = spy
    some = dask_frame.read_hudi(table, pc.field("part") == "a")
    assert some.npartitions < frame.npartitions
    ids = some["id"].compute(scheduler="sync")
    assert sorted(ids) == sorted(keys_of_part_a(table))
    assert asked == [["id"]] * some.npartitions

    few = dask_frame.read_hudi(numbers(folder)).compute()
    found = dict(zip(few["id"], few["x"], strict=True))
    assert math.isnan(found["c"])
    assert found["d"] is pd.NA
    assert few["n"].dtype == pd.ArrowDtype(pa.int64())


if __name__ == "__main__":
    check(Path(sys.argv[1]))
