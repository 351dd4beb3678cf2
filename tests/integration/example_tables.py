"""The tables that the example files of examples/ are tried on."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from hudi_bridge import HudiTable
from tests.support.table_writer import TableWriter, at

STORY = "a_story_v9_120"
FIRST = "20261121133031439"
EMPTY = "i_empty_120"
NAN = float("nan")
NUMBERS: Mapping[str, float | None] = {"a": 1.0, "b": 5.0, "c": NAN, "d": None, "e": -0.0}


def numbers(folder: Path) -> HudiTable:
    """A table of two file groups, with a float that is NaN, one that is null, and the keys as integers."""
    fields = (("id", "string"), ("ts", "long"), ("x", "double"), ("n", "long"))
    writer = TableWriter(folder=folder / "numbers", fields=fields).create()
    rows = [{"id": key, "ts": 1, "x": value, "n": n} for n, (key, value) in enumerate(NUMBERS.items())]
    paths = [writer.base_file(at(1), rows[:3], file_id="f1-0"), writer.base_file(at(1), rows[3:], file_id="f2-0")]
    writer.commit(at(1), wrote=paths)
    return writer.open()


def answers(table: HudiTable) -> pa.Table:
    return table.snapshot().to_table()


def keys_of_part_a(table: HudiTable) -> list[str]:
    return [row["id"] for row in answers(table).to_pylist() if row["part"] == "a"]
