"""Tables as data frames of Dask."""

import math
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable, QueryError
from hudi_bridge.connectors import dask
from hudi_bridge.schema.meta_columns import own_columns
from tests.connectors.worker_tables import (
    EMPTY,
    FIRST,
    STORY,
    answers,
    arguments_of,
    ask_golden_tables,
    keys_of_part_a,
    numbers,
    story,
)
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.golden_queries import QUERIES, Key, answer_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    ask_golden_tables(metafunc, cases_per_group=2)


def rows_of(frame: Any) -> pa.Table:
    columns = [pa.field(name, kind.pyarrow_dtype) for name, kind in frame.dtypes.items()]
    return pa.Table.from_pandas(frame.compute(scheduler="sync"), pa.schema(columns), preserve_index=False)


@pytest.mark.engine("dask")
def test_rows_are_those_of_hudi(key: Key) -> None:
    query = QUERIES[key]
    frame = dask.read(query.table, filter=query.expression, **arguments_of(query))
    assert differences(answer_of(query), rows_of(frame)) == []


def test_columns_have_the_types_of_arrow() -> None:
    expected = answers(story())
    frame = dask.read(story())
    assert list(frame.columns) == expected.schema.names
    assert list(frame.dtypes) == [pd.ArrowDtype(kind) for kind in expected.schema.types]
    assert len(dask.read(str(golden_table(STORY)), as_of=FIRST)) == 60
    assert len(dask.read(golden_table(EMPTY))) == 0


def test_a_null_is_no_nan(tmp_path: Path) -> None:
    rows = dask.read(numbers(tmp_path)).compute()
    values = dict(zip(rows["id"], rows["x"], strict=True))
    assert math.isnan(values["c"])
    assert values["d"] is pd.NA
    assert rows["n"].dtype == pd.ArrowDtype(pa.int64())


def test_only_columns_and_files_that_are_needed_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table = story()
    asked: list[tuple[Any, int]] = []
    read_task = dask.read_task

    def spy(task: Any, *, columns: list[str] | None = None) -> Any:
        asked.append((columns, len(task.splits)))
        return read_task(task, columns=columns)

    monkeypatch.setattr(dask, "read_task", spy)
    part = dask.read(table, filter=pc.field("part") == "a")
    assert sorted(part["id"].compute(scheduler="sync")) == keys_of_part_a(table)
    ((columns, splits),) = asked
    assert columns == ["id"]
    assert 0 < splits < len(table.splits())


def test_columns_are_chosen() -> None:
    assert list(dask.read(story(), ["part", "id"]).columns) == ["part", "id"]
    assert list(dask.read(story(), meta_columns=False).columns) == own_columns(story().schema.names)
    with pytest.raises(QueryError, match="columns"):
        dask.read(story(), ["nothing"])


def test_computations_of_other_processes_read_the_same_rows() -> None:
    frame = dask.read(story())
    assert len(frame.compute(scheduler="processes", num_workers=1)) == answers(story()).num_rows


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(QueryError, match="hoodie"):
        dask.read(golden_table(STORY), options={"hoodie.no.such": "1"})
    with pytest.raises(QueryError, match="read_optimized"):
        dask.read(HudiTable.open(golden_table(STORY)), after=FIRST, read_optimized=True)
