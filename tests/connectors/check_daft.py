"""Tables as data frames of Daft."""

import asyncio
import datetime as dt
import pickle
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import daft
import pytest
from daft import col
from daft.io.pushdowns import Pushdowns

from hudi_bridge import HudiTable, QueryError, UnsupportedTableError
from hudi_bridge.connectors.daft import HudiSource, read
from hudi_bridge.schema.meta_columns import own_columns
from tests.connectors.worker_tables import (
    EMPTY,
    FIRST,
    NAN,
    STORY,
    answers,
    arguments_of,
    ask_golden_tables,
    keys_of_part_a,
    numbers,
    query_of,
    story,
)
from tests.support.compare import differences
from tests.support.golden_cases import OPERATORS, golden_table
from tests.support.golden_queries import QUERIES, Key, answer_of
from tests.support.table_writer import TableWriter, at


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    ask_golden_tables(metafunc, cases_per_group=2)


def tasks_of(table: HudiTable, columns: list[str] | None = None, condition: Any = None) -> list[Any]:
    async def gathered() -> list[Any]:
        pushdowns = Pushdowns(columns=columns, filters=condition)
        return [task.task async for task in HudiSource(query_of(table)).get_tasks(pushdowns)]

    return asyncio.run(gathered())


@pytest.mark.engine("daft")
def test_rows_are_those_of_hudi(key: Key) -> None:
    query = QUERIES[key]
    frame = read(query.table, **arguments_of(query))
    if query.comparisons:
        compared = [OPERATORS[sign](col(name), value) for name, sign, value in query.comparisons]
        rows = frame.where(reduce(and_, compared)).to_arrow()
    else:
        rows = query.passing(frame.to_arrow())
    assert differences(answer_of(query), rows) == []


def test_rows_are_counted() -> None:
    assert read(story()).column_names == story().schema.names
    assert read(str(golden_table(STORY)), as_of=FIRST).count_rows() == 60
    assert read(golden_table(EMPTY)).count_rows() == 0


def test_columns_and_conditions_are_passed_on() -> None:
    table = story()
    rows = read(table).where(col("part") == "a").select("id").to_pydict()
    assert sorted(rows["id"]) == keys_of_part_a(table)
    (task,) = tasks_of(table, ["id"], col("part") == "a")
    assert set(task.schema.names) == {"id", "part"}
    (all_rows,) = tasks_of(table)
    assert 0 < len(task.splits) < len(all_rows.splits)


def test_columns_are_chosen() -> None:
    assert read(story(), ["part", "id"]).column_names == ["part", "id"]
    assert read(story(), meta_columns=False).to_arrow().column_names == own_columns(story().schema.names)
    with pytest.raises(QueryError, match="columns"):
        read(story(), ["nothing"])


PASSED_ON = (
    col("n") == 2,
    (col("n") >= 3) & (col("x") > 1),
    (col("n") < 1) | (col("n") == 4),
    (col("id") > "b") & (col("id") <= "d"),
)
LEFT_TO_DAFT = (
    col("x") > 1,
    col("x") <= 1,
    ~(col("x") > 1),
    col("x") != 1.0,
    col("x") == 0.0,
    col("x") == NAN,
    col("x").is_null(),
    col("x").is_in([0.0, 5.0]),
    ~(col("n") == 2),
    col("n") > 1.5,
    col("n") < 1.5,
    col("n") <= 1.5,
    col("n") == 1.5,
    col("n") + 1 > 2,
    col("n").is_in([1, None]),
    col("n").between(1, 2),
    (col("n") > 1) | (col("x") > 4),
    col("id").lower() == "a",
    col("id").eq_null_safe("a"),
    col("id").cast(daft.DataType.binary()) == b"a",
    daft.lit(dt.date(2026, 1, 1)) > dt.date(2025, 1, 1),
)


@pytest.mark.parametrize("condition", [*PASSED_ON, *LEFT_TO_DAFT], ids=str)
def test_conditions_mean_what_they_mean_to_daft(condition: Any, tmp_path: Path) -> None:
    table = numbers(tmp_path)
    in_daft = daft.from_arrow(answers(table))
    ids, expected = (sorted(rows.where(condition).to_pydict()["id"]) for rows in (read(table), in_daft))
    assert ids == expected


def test_these_conditions_are_passed_on(tmp_path: Path) -> None:
    table = numbers(tmp_path)
    assert all(task.row_filter is not None for condition in PASSED_ON for task in tasks_of(table, None, condition))
    assert all(task.row_filter is None for condition in LEFT_TO_DAFT for task in tasks_of(table, None, condition))


def test_tasks_can_be_pickled() -> None:
    tasks = pickle.loads(pickle.dumps(tasks_of(story())))
    assert sum(batch.num_rows for task in tasks for batch in task.batches()) == 65


@pytest.mark.parametrize("precision", [38, 39])
def test_a_type_that_daft_lacks_is_refused(precision: int, tmp_path: Path) -> None:
    money = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}
    writer = TableWriter(folder=tmp_path, fields=(("id", "string"), ("ts", "long"), ("money", money))).create()
    writer.commit(at(1), wrote=[writer.base_file(at(1), [{"id": "a", "ts": 1, "money": None}])])
    if precision == 38:
        assert read(writer.open()).count_rows() == 1
        return
    with pytest.raises(UnsupportedTableError, match="money"):
        read(writer.open())


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(QueryError, match="hoodie"):
        read(golden_table(STORY), options={"hoodie.no.such": "1"})
    with pytest.raises(QueryError, match="read_optimized"):
        read(story(), after=FIRST, read_optimized=True)
