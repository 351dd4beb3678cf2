"""Slices are passed over only if no row of them passes, and stats tell it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge.indexes import data_skipping
from hudi_bridge.indexes.data_skipping import skippable_columns, splits_that_may_pass
from hudi_bridge.indexes.metadata_table import MetadataTable
from hudi_bridge.indexes.record_kinds import COLUMN_STATS, PARTITION_STATS, VALUE
from hudi_bridge.split_reader import open_reader
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.table import HudiTable
from tests.support.golden_cases import golden_table
from tests.support.strength import examples, one_in

WITH_STATS = ("h_all_indexes_120", "h_column_stats_0150", "h_column_stats_120")


class Slices:
    """The slices of a query, with the rows of each."""

    def __init__(self, name: str, *, read_optimized: bool) -> None:
        table = HudiTable.open(golden_table(name))
        query = table.read_optimized() if read_optimized else table.snapshot()
        self.metadata = MetadataTable(table._state)
        self.splits = [part for split in query.splits() for part in split.slices]
        self.rows = [pa.Table.from_batches(open_reader(split).batches(), query.schema) for split in self.splits]
        self.columns = skippable_columns(query.schema.names, query.context)

    def kept(self, row_filter: pc.Expression, *columns: str) -> list[RealtimeFileSplit]:
        remaining = splits_that_may_pass(self.metadata, self.splits, row_filter, columns or self.columns)
        for split, rows in zip(self.splits, self.rows, strict=True):
            assert split in remaining or not rows.filter(row_filter).num_rows
        return remaining


SLICES = [(name, read_optimized) for name in WITH_STATS for read_optimized in (False, True)]


@pytest.fixture(params=one_in(2, SLICES), scope="module", ids=lambda one: f"{one[0]}{'_ro' if one[1] else ''}")
def slices(request: pytest.FixtureRequest) -> Slices:
    return Slices(request.param[0], read_optimized=request.param[1])


def conditions(column: str, value: Any) -> Iterator[pc.Expression]:
    field = pc.field(column)
    if value is None:
        yield field.is_null()
        yield ~field.is_null()
        return
    yield from (field == value, field != value, field < value, field >= value, ~(field < value), field.isin([value]))
    yield (field == value) | field.is_null()


def test_no_row_is_lost_and_slices_are_saved(slices: Slices) -> None:
    saved = 0
    for column in ("ts", "name", "qty"):
        values = pa.concat_tables(slices.rows).column(column).unique().sort()
        for index in (0, len(values) // 2, len(values) - 1):
            for condition in conditions(column, values[index].as_py()):
                saved += len(slices.splits) - len(slices.kept(condition, column))
    assert saved > 50


def test_values_outside_all_ranges_save_all_slices(slices: Slices) -> None:
    assert slices.kept(pc.field("ts") < -1) == []
    assert slices.kept((pc.field("qty") > 0) & (pc.field("ts") < -1)) == []
    assert len(slices.kept((pc.field("ts") < -1) | pc.field("price").is_valid())) == len(slices.splits)


@pytest.fixture(scope="module")
def snapshot() -> Slices:
    return Slices(WITH_STATS[2], read_optimized=False)


@given(
    first=st.sampled_from(["<", ">=", "=="]),
    ts=st.integers(-5, 3_000),
    qty=st.integers(-(2**31), 2**31 - 1),
    is_or=st.booleans(),
)
@settings(max_examples=examples(60), deadline=None)
def test_conditions_on_several_columns_lose_no_row(
    snapshot: Slices, first: str, ts: int, qty: int, is_or: bool
) -> None:
    of_ts = {"<": pc.field("ts") < ts, ">=": pc.field("ts") >= ts, "==": pc.field("ts") == ts}[first]
    of_qty = pc.field("qty") < qty
    snapshot.kept(of_ts | of_qty if is_or else of_ts & of_qty)


def test_stats_of_many_files_are_read_with_the_others_of_the_column(
    slices: Slices, monkeypatch: pytest.MonkeyPatch
) -> None:
    condition = pc.field("ts") < 1_000
    expected = slices.kept(condition, "ts")
    monkeypatch.setattr(data_skipping, "_MOST_KEYS", 0)
    monkeypatch.setattr(slices, "metadata", MetadataTable(slices.metadata._data))
    assert slices.kept(condition, "ts") == expected


def test_ranges_of_the_same_files_are_read_once(slices: Slices, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    stats_of_files = data_skipping.stats_of_files

    def counted(table: MetadataTable, column: str, *others: Any) -> pa.Table:
        read.append(column)
        return stats_of_files(table, column, *others)

    monkeypatch.setattr(data_skipping, "stats_of_files", counted)
    monkeypatch.setattr(slices, "metadata", MetadataTable(slices.metadata._data))
    for greatest in (100, 1_000, 2_000):
        slices.kept((pc.field("ts") < greatest) & (pc.field("qty") > 0), "ts", "qty")
    assert read == ["ts", "qty"]
    monkeypatch.setattr(slices, "splits", slices.splits[1:])
    monkeypatch.setattr(slices, "rows", slices.rows[1:])
    slices.kept(pc.field("ts") < 100, "ts")
    assert read == ["ts", "qty", "ts"]


@pytest.mark.parametrize("most_cases", one_in(2, [1, 2, 16]))
def test_values_between_the_ranges_of_files_save_slices(monkeypatch: pytest.MonkeyPatch, most_cases: int) -> None:
    monkeypatch.setattr(data_skipping, "_MOST_CASES", most_cases)
    slices = Slices("h_all_indexes_120", read_optimized=False)
    ts = pc.field("ts")
    # The highest value of a base file, the lowest of the first log, and the lowest of the second.
    assert len(slices.kept((ts > 899) & (ts < 1_000), "ts")) == (len(slices.splits) if most_cases == 1 else 0)
    assert len(slices.kept((ts > 1_890) & (ts < 2_140), "ts")) == (0 if most_cases == 16 else 6)
    both = (ts > 899) & (ts < 1_000) & (pc.field("qty") > 0)
    assert len(slices.kept(both, "ts", "qty")) == (0 if most_cases == 16 else len(slices.splits))


ENDS = ((5, 7), (1, 2), (None, None), (7, 9), (20, 30), (2, 3))


def test_ranges_are_apart_if_they_have_no_value_in_common() -> None:
    ranges = [data_skipping._Range(low, high, has_nulls=False) for low, high in ENDS]
    for most, expected in ((9, [[1, 2], [5, 7], [20]]), (2, [[1, 2], [5, 7, 20]]), (1, [[1, 2, 5, 7, 20]])):
        assert [[item.low for item in group] for group in data_skipping._disjoint_groups(ranges, most)] == expected
    assert data_skipping._disjoint_groups(ranges[2:3], 4) == [ranges[2:3]]


def test_a_slice_with_a_file_without_stats_is_read(slices: Slices) -> None:
    (first, *others) = slices.splits
    unknown = replace(first, log_paths=(*first.log_paths, ".f-0_1.log.1_0-0-0"))
    slices.splits[:] = [unknown, *others]
    try:
        assert slices.kept(pc.field("ts") < -1) == [unknown]
    finally:
        slices.splits[:] = [first, *others]


def test_values_of_another_type_than_the_column_give_no_range() -> None:
    values = {"int": [1, None, 7], "long": [None, 9, 3], "string": [None, None, None]}
    of_wanted = pa.array([dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)], VALUE)
    assert data_skipping._ends(pa.chunked_array([of_wanted]), pa.int64(), min) == [1, 9, 3]
    with_text = pa.array([{"int": 1, "string": "x"}, {"string": "x"}, {}], VALUE)
    assert data_skipping._ends(pa.chunked_array([with_text]), pa.int64(), max) == [None, None, None]


def stats_of(columns: dict[str, Any]) -> pa.Table:
    """Stats of a base file with three values, but for some columns."""
    others = {"file_name": ["f-0_1-0-0_1.parquet"], "value_count": [3], "total_uncompressed_size": [99]}
    return pa.table(others | columns)


TEXT, TIME, NUMBER, DAY = pa.string(), pa.timestamp("us", "UTC"), pa.int64(), pa.date32()
LOW: dict[Any, dict[str, Any]] = {
    TEXT: {"string": "a"},
    TIME: {"timestamp_micros": 0},
    NUMBER: {"long": 0},
    DAY: {"date": 0},
}
LOG, BASE = ".f-0_1.log.1_0-0-0", "f-0_1-0-0_1.parquet"
EXPRESSION_STATS = "expr_index_x"


@pytest.mark.parametrize(
    ("partition", "kind", "file", "size", "are_nulls", "is_whole"),
    [
        (COLUMN_STATS, TEXT, BASE, 5_000, False, False),
        (COLUMN_STATS, TEXT, BASE, 2_048, False, False),
        (COLUMN_STATS, TEXT, BASE, 2_047, False, True),
        (COLUMN_STATS, TEXT, BASE, 0, False, False),
        (COLUMN_STATS, TEXT, BASE, -1, False, False),
        (COLUMN_STATS, TEXT, BASE, None, False, False),
        # Flink has the stats of Parquet blocks from their footers; all other logs are counted, and have no size.
        (COLUMN_STATS, TEXT, LOG, 5_000, False, False),
        (COLUMN_STATS, TEXT, LOG, 0, True, True),
        (COLUMN_STATS, TIME, LOG, 0, True, True),
        # All values of a file are INT96, or none.
        (COLUMN_STATS, TIME, BASE, 5_000, False, True),
        (COLUMN_STATS, NUMBER, BASE, 5_000, True, True),
        (COLUMN_STATS, DAY, BASE, 5_000, True, True),
        (PARTITION_STATS, TEXT, "p", 99, False, False),
        (PARTITION_STATS, TEXT, "p", 0, False, False),
        (PARTITION_STATS, TIME, "p", 99, False, False),
        (PARTITION_STATS, NUMBER, "p", 5_000, True, True),
        (EXPRESSION_STATS, TEXT, BASE, 5_000, True, True),
    ],
)
def test_values_that_count_as_nulls_are_values_unless_it_is_sure(
    partition: str, kind: pa.DataType, file: str, size: int | None, *, are_nulls: bool, is_whole: bool
) -> None:
    def range_of(values: int, nulls: int | None, end: dict[str, Any]) -> Any:
        ends = pa.array([end], VALUE)
        columns = {"file_name": [file], "value_count": [values], "null_count": pa.array([nulls], pa.int64())}
        size_column = {"total_uncompressed_size": pa.array([size], pa.int64())}
        stats = stats_of({**columns, **size_column, "min_value": ends, "max_value": ends})
        return data_skipping._ranges(stats, kind, partition)[0]

    assert (range_of(3, 3, {}) is not None) == are_nulls
    assert (range_of(3, 1, LOW[kind]) is not None) == is_whole
    assert (range_of(3, None, LOW[kind]) is not None) == is_whole
    assert range_of(3, 0, LOW[kind]) is not None
    assert range_of(3, 1, {}) is None
    assert range_of(0, 0, {}) == (None, None, False)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name", one_in(2, ["f_long_strings_120", "f_long_texts_partitions_120", "f_long_texts_row_groups_120"])
)
@pytest.mark.parametrize("query", one_in(2, ["snapshot", "read_optimized"]))
def test_conditions_on_long_texts_lose_no_row(name: str, query: str) -> None:
    def asked(row_filter: pc.Expression | None) -> pa.Table:
        dataset = getattr(HudiTable.open(golden_table(name)), query)()
        rows: pa.Table = dataset.to_table(filter=row_filter)
        return rows

    text, rows = pc.field("s"), asked(None)
    values = sorted(filter(None, rows.column("s").to_pylist()))
    row_filters: list[Any] = [text.is_valid(), text.is_null(), text > "c", pc.starts_with(text, values[-1][:1])]
    row_filters += [pc.utf8_length(text) > 5, text == values[0], text == values[-1], text < values[1]]
    for row_filter in row_filters:
        assert asked(row_filter).num_rows == rows.filter(row_filter).num_rows


def test_ranges_of_early_dates_hold_them_in_both_calendars() -> None:
    def range_of(kind: pa.DataType, member: str, low: int, high: int) -> tuple[int, int]:
        ends = {"min_value": pa.array([{member: low}], VALUE), "max_value": pa.array([{member: high}], VALUE)}
        stats = stats_of({**ends, "null_count": [0]})
        ((least, greatest, _),) = data_skipping._ranges(stats, kind, COLUMN_STATS)  # type: ignore[misc]
        return least, greatest

    # 0001-01-01 to 1582-10-04 of the Julian calendar.
    assert range_of(pa.date32(), "date", -719_164, -141_428) == (-719_164, -141_428)
    assert range_of(pa.date32(), "date", -171_595, -171_595) == (-171_605, -171_595)
    assert range_of(pa.date32(), "date", -719_164, -719_164) == (-719_164, -719_162)
    assert range_of(pa.date32(), "date", -141_427, 0) == (-141_427, 0)
    day, times = 86_400_000_000, pa.timestamp("us", "UTC")
    low, high = range_of(times, "timestamp_micros", -171_595 * day, -171_595 * day)
    assert low <= -171_606 * day
    assert high >= -171_594 * day
    assert range_of(times, "timestamp_micros", -25_567 * day, 0) == (-25_567 * day, 0)


def test_columns_that_ranges_say_nothing_of_are_left_out() -> None:
    context = HudiTable.open(golden_table(WITH_STATS[2])).snapshot().context
    assert skippable_columns(context.schema.names, context) == ("id", "ts", "name", "qty")
    # With column ids, a column of that name in a file may be another one.
    assert skippable_columns(context.schema.names, replace(context, schema_ids="{}")) == ()


def test_a_column_with_a_default_is_not_looked_at_where_there_are_logs(snapshot: Slices) -> None:
    with_default = [
        replace(split, context=replace(split.context, field_defaults=(("ts", "-7"),))) for split in snapshot.splits
    ]
    remaining = splits_that_may_pass(snapshot.metadata, with_default, pc.field("ts") < -1, ["ts"])
    assert remaining == [split for split in with_default if split.log_paths]
