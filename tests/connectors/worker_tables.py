"""The tables and queries that connectors for Daft, Dask and Ray are tried on.

Their tests, in ``check_*.py`` beside this module, run where the libraries are: see ``make libraries``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge import HudiTable
from hudi_bridge.connectors.split_tasks import TableQuery
from hudi_bridge.table import OpenArguments, RowsArguments
from tests.support.deviations import ANSWERED, NOT_A_NUMBER
from tests.support.golden_cases import ROW_KINDS, GoldenQuery, golden_table
from tests.support.golden_queries import QUERIES, parametrize_keys
from tests.support.table_writer import TableWriter, at

STORY = "a_story_v9_120"
FIRST = "20261121133031439"
EMPTY = "i_empty_120"
NAN = float("nan")
NUMBERS: Mapping[str, float | None] = {"a": 1.0, "b": 5.0, "c": NAN, "d": None, "e": -0.0}
NOT_OPENED = OpenArguments(filesystem=None, options=None, payloads=None, log_memory_bytes=None, storage_options=None)
NEWEST = RowsArguments(as_of=None, read_optimized=False, after=None, up_to=None)


def numbers(folder: Path) -> HudiTable:
    """A table of two file groups, with a float that is NaN, one that is null, and the keys as integers."""
    fields = (("id", "string"), ("ts", "long"), ("x", "double"), ("n", "long"))
    writer = TableWriter(folder=folder / "numbers", fields=fields).create()
    rows = [{"id": key, "ts": 1, "x": value, "n": n} for n, (key, value) in enumerate(NUMBERS.items())]
    paths = [writer.base_file(at(1), rows[:3], file_id="f1-0"), writer.base_file(at(1), rows[3:], file_id="f2-0")]
    writer.commit(at(1), wrote=paths)
    return writer.open()


def story() -> HudiTable:
    return HudiTable.open(golden_table(STORY))


def answers(table: HudiTable) -> pa.Table:
    return table.snapshot().to_table()


def keys_of_part_a(table: HudiTable) -> list[str]:
    return sorted(row["id"] for row in answers(table).to_pylist() if row["part"] == "a")


def query_of(table: HudiTable, rows: RowsArguments = NEWEST, columns: list[str] | None = None) -> TableQuery:
    return TableQuery.of("the test", table, NOT_OPENED, rows, columns, meta_columns=True)


def ask_golden_tables(metafunc: pytest.Metafunc, cases_per_group: int) -> None:
    """Asks some golden queries for rows; all with ``--matrix``."""
    if "key" in metafunc.fixturenames:
        keys = (key for key in ANSWERED - NOT_A_NUMBER if QUERIES[key].kind in ROW_KINDS)
        parametrize_keys(metafunc, keys, cases_per_group)


def arguments_of(query: GoldenQuery) -> dict[str, Any]:
    """The arguments of ``read`` for a query; its condition is not among them."""
    if query.kind == "incremental":
        return {"after": query.after, "up_to": query.up_to}
    return {"read_optimized": True} if query.kind == "read_optimized" else {"as_of": query.as_of}
