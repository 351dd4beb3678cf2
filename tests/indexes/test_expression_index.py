"""Expression indexes pass over slices only if no row of them passes, whatever language their writer had."""

import datetime as dt
import logging
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge.indexes.expression_index import FUNCTIONS, ExpressionIndexesOfTable, Range
from hudi_bridge.indexes.metadata_table import INDEX_DEFINITIONS
from hudi_bridge.options import DATA_SKIPPING_KEY, METADATA_TABLE_KEY
from hudi_bridge.split_reader import open_reader
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.table import HudiTable
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.strength import examples

TABLE = "h_sql_indexes_updated_102"
INDEX = "expr_index_idx_low"
CITY = pc.field("city")
LOWER: Any = pc.utf8_lower(CITY)


class Indexed:
    """The slices of a table, with the rows of each, and its expression indexes."""

    def __init__(self, path: Path) -> None:
        self.table = HudiTable.open(path)
        self.context = self.table.snapshot().context
        self.splits = self.table.splits()
        schema = self.table.schema
        self.rows = [pa.Table.from_batches(open_reader(split).batches(), schema) for split in self.splits]
        self.index = ExpressionIndexesOfTable(self.table._state, lambda: self.table._metadata_table)

    def kept(self, row_filter: pc.Expression, columns: Iterable[str] = ("city",)) -> list[RealtimeFileSplit]:
        remaining = list(self.index.splits_that_may_pass(self.splits, row_filter, tuple(columns), self.context))
        for split, rows in zip(self.splits, self.rows, strict=True):
            assert split in remaining or not rows.filter(row_filter).num_rows
        return remaining


@pytest.fixture(scope="module")
def indexed() -> Indexed:
    return Indexed(golden_table(TABLE))


def test_slices_are_saved(indexed: Indexed) -> None:
    every, column, result = len(indexed.splits), CITY, LOWER
    # Two slices have a log of deletes, which is not in the index.
    for city, remaining in (("Moved", 3), ("nowhere", 2), ("City9", 4), ("New", 3)):
        lower = city.lower()
        listed = (column.isin([city, "zzz"]), result.isin([lower]))
        for row_filter in (column == city, result == lower, pc.ascii_lower(column) == lower, *listed):
            assert len(indexed.kept(row_filter)) == remaining < every
    assert indexed.index.why_not == {}


@settings(max_examples=examples(15), deadline=None)
@given(
    cities=st.lists(st.sampled_from(["city0", "City1", "CITY11", "moved", "New", "late", "", "a$b\\c", "c\u0131ty1"])),
    is_lower=st.booleans(),
    ts=st.integers(0, 6),
    joined=st.sampled_from(["and", "or", "not"]),
)
def test_no_row_is_lost(indexed: Indexed, cities: list[str], ts: int, joined: str, *, is_lower: bool) -> None:
    listed = (LOWER if is_lower else CITY).isin(pa.array(cities, pa.string()))
    of_ts = pc.field("ts") < ts
    indexed.kept({"and": listed & of_ts, "or": listed | of_ts, "not": ~listed}[joined], ("city", "ts"))


def test_queries_use_them() -> None:
    table = HudiTable.open(golden_table(TABLE))
    for option in ({}, {DATA_SKIPPING_KEY: "false"}, {METADATA_TABLE_KEY: "false"}):
        other = HudiTable.open(golden_table(TABLE), options=option)
        for name in ("snapshot", "read_optimized"):
            actual, expected = (getattr(item, name)().to_table(filter=LOWER == "city11") for item in (table, other))
            assert differences(actual, expected) == []
    assert len(table.splits(filter=LOWER == "moved")) < len(table.splits())
    first = table.timeline.commits()[0].requested_time
    # None of the first slices has it.
    assert table.splits(first, filter=LOWER == "city9") == []
    assert table.splits(first) != []


def test_what_does_not_follow_is_read(indexed: Indexed) -> None:
    every = len(indexed.splits)
    unknown = (
        LOWER == "nowhere\u00e9",
        CITY == "nowhere\u00e9",
        pc.utf8_upper(CITY) == "NOWHERE",
        pc.utf8_reverse(CITY) == "nowhere",
        LOWER < "a",
        CITY.is_null(),
    )
    for row_filter in unknown:
        assert len(indexed.kept(row_filter)) == every
    assert indexed.kept(pc.field("at") == 1, ["at"]) == indexed.splits


@pytest.mark.parametrize("changes", [{"schema_ids": "{}"}, {"field_defaults": (("city", '"x"'),)}])
def test_evolved_columns_are_read(indexed: Indexed, changes: dict[str, Any]) -> None:
    context = replace(indexed.context, **changes)
    remaining = indexed.index.splits_that_may_pass(indexed.splits, CITY == "nowhere", ["city"], context)
    assert list(remaining) == indexed.splits


def test_a_slice_with_a_file_that_is_not_in_the_index_is_read(indexed: Indexed) -> None:
    (first, *others) = sorted(indexed.splits, key=lambda split: len(split.log_paths))
    unknown = replace(first, log_paths=(*first.log_paths, "part=p/.f-0_1.log.1_0-0-0"))
    splits = [unknown, *others]
    remaining = indexed.index.splits_that_may_pass(splits, CITY == "nowhere", ["city"], indexed.context)
    assert list(remaining) == [split for split in splits if split is unknown or split.log_paths]


def test_a_damaged_index_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t"
    shutil.copytree(golden_table(TABLE), path)
    for file in (path / ".hoodie/metadata" / INDEX).glob("*.hfile"):
        file.write_bytes(b"\0" * file.stat().st_size)
    with caplog.at_level(logging.WARNING, "hudi_bridge"):
        indexed = Indexed(path)
        for _ in range(2):
            assert indexed.kept(CITY == "nowhere") == indexed.splits
    assert [INDEX in record.message for record in caplog.records] == [True]
    assert list(indexed.index.why_not) == [INDEX]


def test_damaged_definitions_are_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t"
    shutil.copytree(golden_table(TABLE), path)
    (path / INDEX_DEFINITIONS).write_text("{")
    with caplog.at_level(logging.WARNING, "hudi_bridge"):
        indexed = Indexed(path)
        for _ in range(2):
            assert indexed.kept(CITY == "nowhere") == indexed.splits
    assert sum(INDEX in record.message for record in caplog.records) == 1
    assert INDEX in indexed.index.why_not


def test_definitions_are_found_where_the_properties_say(tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(golden_table(TABLE), path)
    remaining = [split.file_id for split in Indexed(path).kept(CITY == "nowhere")]
    (path / ".hoodie" / "elsewhere").mkdir()
    (path / INDEX_DEFINITIONS).rename(path / ".hoodie" / "elsewhere" / "defs.json")
    properties = path / ".hoodie" / "hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "index.defs.path" not in line]
    properties.write_text("\n".join([*lines, "hoodie.table.index.defs.path=.hoodie/elsewhere/defs.json", ""]))
    assert [split.file_id for split in Indexed(path).kept(CITY == "nowhere")] == remaining
    properties.write_text("\n".join([*lines, ""]))
    assert len(remaining) < len(Indexed(path).kept(CITY == "nowhere"))


def in_turkish(text: str, *, upper: bool) -> str:
    """What Java makes of a text where the writer's language is Turkish; Spark does not ask Java if all is ASCII."""
    if text.isascii():
        return text.upper() if upper else text.lower()
    if upper:
        return text.replace("i", "\u0130").upper()
    return text.replace("I", "\u0131").replace("\u0130", "i").lower()


@pytest.mark.parametrize("name", ["lower", "upper"])
@settings(max_examples=examples(200), deadline=None)
@given(text=st.text(st.sampled_from("aAiIkKsSz\u0130\u0131\u212a\u017f\u00df\u0307\u00e9"), max_size=6))
def test_a_result_of_spark_is_in_the_range_of_that_of_arrow(name: str, text: str) -> None:
    function = FUNCTIONS[name]
    schema = pa.schema([pa.field("c", pa.string())])
    rows = pa.table({"c": [text]}, schema=schema)
    of_spark = [text.upper() if name == "upper" else text.lower(), in_turkish(text, upper=name == "upper")]
    result: Any = getattr(pc, f"utf8_{name}")(rows.column("c"))[0].as_py()
    for row_filter in (pc.field("c") == text, getattr(pc, f"utf8_{name}")(pc.field("c")) == result):
        assert rows.filter(row_filter).num_rows == 1
        expected = function.result_ranges(row_filter, "c")
        assert expected is None or all(within(expected, item) for item in of_spark)
    if text.isascii():
        assert function.result_ranges(pc.field("c") == text, "c") is not None


def within(ranges: Iterable[Range], value: str) -> bool:
    return any(low.encode() <= value.encode() <= high.encode() for low, high in ranges)


def test_parts_of_dates() -> None:
    day = pc.field("d")
    for name, result in (("year", 2021), ("month", 3), ("day", 4)):
        function = FUNCTIONS[name]
        assert function.result_ranges(day == dt.date(2021, 3, 4), "d") == [(result, result)]
        assert function.result_ranges(getattr(pc, name)(day) == result, "d") == [(result, result)]
        assert function.result_ranges(getattr(pc, name)(day) == 1.5, "d") is None
        assert not function.takes(pa.timestamp("us", "UTC"))
    assert FUNCTIONS["year"].result_ranges(day == pa.scalar(10**7, pa.int32()).cast(pa.date32()), "d") is None
    assert FUNCTIONS["year"].result_ranges(day.isin(pa.array([], pa.date32())), "d") == []
