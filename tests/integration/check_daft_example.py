"""Reads tables with examples/daft_source.py: ``check_daft_example.py FOLDER``, which it writes to."""

import asyncio
import datetime as dt
import sys
from pathlib import Path
from typing import Any

import daft
from daft import col
from daft.io.pushdowns import Pushdowns
from daft_source import HudiSource, read_hudi

from hudi_bridge import HudiTable
from tests.integration.example_tables import EMPTY, FIRST, NAN, STORY, answers, keys_of_part_a, numbers
from tests.support.compare import differences
from tests.support.golden_cases import golden_table


def check(folder: Path) -> None:
    def tasks_of(table: HudiTable, columns: list[str] | None, condition: Any) -> list[Any]:
        async def gathered() -> list[Any]:
            pushdowns = Pushdowns(columns=columns, filters=condition)
            return [task async for task in HudiSource(table).get_tasks(pushdowns)]

        return asyncio.run(gathered())

    table = HudiTable.open(golden_table(STORY))
    expected = answers(table)
    assert differences(expected, read_hudi(table).to_arrow().cast(expected.schema)) == []
    assert read_hudi(table).column_names == expected.schema.names
    assert read_hudi(str(golden_table(STORY)), FIRST).count_rows() == 60
    assert read_hudi(HudiTable.open(golden_table(EMPTY))).count_rows() == 0

    found = read_hudi(table).where(col("part") == "a").select("id").to_pydict()
    assert sorted(found["id"]) == sorted(keys_of_part_a(table))
    tasks = tasks_of(table, ["id"], col("part") == "a")
    assert 0 < len(tasks) < len(tasks_of(table, None, None))
    assert {name for task in tasks for name in task.rows_schema.names} == {"id", "part"}

    few = numbers(folder)
    held = daft.from_arrow(answers(few))
    passed_on = 0
    for condition in (
        col("x") > 1,
        col("x") <= 1,
        ~(col("x") > 1),
        col("x") != 1.0,
        col("x") == 0.0,
        col("x") == NAN,
        col("x").is_null(),
        col("x").is_in([0.0, 5.0]),
        col("n") == 2,
        ~(col("n") == 2),
        col("n") > 1.5,
        col("n") + 1 > 2,
        col("n").is_in([1, None]),
        col("n").between(1, 2),
        (col("n") >= 3) & (col("x") > 1),
        (col("n") > 1) | (col("x") > 4),
        (col("n") < 1) | (col("n") == 4),
        col("id").lower() == "a",
        (col("id") > "b") & (col("id") <= "d"),
        col("id").eq_null_safe("a"),
        col("id").cast(daft.DataType.binary()) == b"a",
        daft.lit(dt.date(2026, 1, 1)) > dt.date(2025, 1, 1),
    ):
        ours, theirs = (sorted(one.where(condition).to_pydict()["id"]) for one in (read_hudi(few), held))
        assert ours == theirs, (condition, ours, theirs)
        passed_on += any(task.row_filter is not None for task in tasks_of(few, None, condition))
    assert passed_on >= 4


if __name__ == "__main__":
    check(Path(sys.argv[1]))
