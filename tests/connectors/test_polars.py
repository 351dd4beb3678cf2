import datetime as dt
import operator
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial, reduce
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from polars.io.plugins import register_io_source

from hudi_bridge import (
    CorruptLogFileError,
    HudiDataset,
    HudiTable,
    QueryError,
    TableNotFoundError,
    UnsupportedTableError,
)
from hudi_bridge.connectors.polars import _frames, columns_of, condition_of, scan, scan_dataset
from tests.support.compare import differences
from tests.support.golden_cases import golden_case, golden_table, golden_variant_queries
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

STORY = "a_story_v9_120"
NAN = float("nan")
Engine = Any


@pytest.fixture(params=["in-memory", "streaming"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.param


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("hudi-bridge")]


def readers_end() -> bool:
    """Whether all threads end soon: the streaming engine drops a source at the next call of Polars."""
    end = time.monotonic() + 10
    while readers() and time.monotonic() < end:
        time.sleep(0.01)
        pl.DataFrame()
    return not readers()


def source_of(dataset: HudiDataset) -> Any:
    """What Polars calls for the frames of a dataset."""
    return partial(_frames, dataset)


def test_rows_are_those_of_hudi(engine: Engine) -> None:
    answers = golden_case(STORY) / "expected"
    table = golden_table(STORY)
    for rows, answer in ((scan(table), "snapshot"), (scan(table, read_optimized=True), "read_optimized")):
        actual = rows.collect(engine=engine)
        assert differences(pq.read_table(answers / f"{answer}.parquet"), actual.to_arrow()) == []
        assert actual.schema == rows.collect_schema()


def test_the_schema_is_known_without_reading_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HudiDataset, "scanner", None)
    schema = scan(golden_table("f_types_120")).collect_schema()
    assert schema["dec3818"] == pl.Decimal(38, 18)
    assert isinstance(schema["st"], pl.Struct)
    assert schema["_hoodie_record_key"] == pl.String


def test_arguments_are_those_of_the_table(tmp_path: Path) -> None:
    table = HudiTable.open(golden_table(STORY))
    first, second, *_, last = table.timeline.commits()
    assert scan(table, as_of=second.requested_time).collect().height == 60
    after = scan(table, after=first.completion_time)
    expected = table.incremental(first.completion_time or "").to_table()
    assert differences(expected, after.collect().to_arrow()) == []
    assert scan(table, after="earliest", up_to=first.completion_time).select(pl.len()).collect().item() == 60
    assert scan(table, after=last.completion_time).collect().height == 0
    with pytest.raises(TableNotFoundError):
        scan(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        {"up_to": "20261121133045879"},
        {"after": "earliest", "as_of": "20261121133045879"},
        {"after": "earliest", "read_optimized": True},
        {"options": {}},
        {"payloads": {}},
        {"filesystem": object()},
    ],
    ids="-".join,
)
def test_arguments_that_exclude_one_another_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match=next(iter(arguments))):
        scan(HudiTable.open(golden_table(STORY)), **arguments)


def test_changes_are_rows_as_well() -> None:
    changes = HudiTable.open(golden_table("i_cdc_120")).changes("20261121142429993", "20261121142439809")
    counted = scan_dataset(changes).group_by("op").len().collect()
    assert dict(counted.iter_rows()) == {"d": 5, "i": 2, "u": 8}


def test_columns_and_conditions_reach_the_files(engine: Engine, columns_read: list[set[str]]) -> None:
    table = HudiTable.open(golden_table("h_column_stats_120"))
    files = sum(file_slice.base_file is not None for file_slice in table.file_slices())
    conditions = (pl.col("id") == "k00002") & pl.col("name").str.starts_with("base")
    query = scan(table).filter(conditions).select(pl.col("qty").sum())
    plan = query.explain()
    assert "PYTHON SCAN" in plan
    assert "PROJECT 3/" in plan
    assert query.collect(engine=engine).item() == 1734786117
    # Keys and ordering values of every file may meet the log; the rest is read where k00002 may be.
    assert set().union(*columns_read) <= {"_hoodie_record_key", "ts", "id", "name", "qty"}
    assert 0 < sum("qty" in columns for columns in columns_read) < files


def test_partitions_that_a_condition_rules_out_are_not_read(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    scanner = HudiDataset.scanner

    def spy(self: HudiDataset, columns: Any, filter: Any) -> Any:  # noqa: A002 - as there
        asked.append({part.partition_path for split in self.splits(filter) for part in split.slices})
        return scanner(self, columns, filter)

    monkeypatch.setattr(HudiDataset, "scanner", spy)
    rows = scan(golden_table(STORY))
    actual = rows.filter(pl.col("part").is_in(["a", "b"]), pl.col("price") > 0).select("part").unique()
    assert set(actual.collect(engine=engine)["part"]) == {"a", "b"}
    assert asked == [{"a", "b"}]


def test_a_frame_is_read_once_by_a_plan_that_has_it_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []
    scanner = HudiDataset.scanner

    def spy(*given: Any) -> Any:
        calls.append(given)
        return scanner(*given)

    monkeypatch.setattr(HudiDataset, "scanner", spy)
    rows = scan(golden_table(STORY)).select("id", "qty")
    assert rows.join(rows, on="id").collect().height == 65
    assert len(calls) == 1


def test_plans_of_many_kinds(engine: Engine, tmp_path: Path) -> None:
    rows = scan(golden_table(STORY))
    assert rows.select(pl.len()).collect(engine=engine).item() == 65
    assert rows.join(rows.filter(pl.col("part") == "a"), on="id", how="semi").collect(engine=engine).height > 0
    assert rows.filter(pl.col("id") == "nothing").collect(engine=engine).shape == (0, len(rows.collect_schema()))
    assert rows.tail(3).collect(engine=engine).height == 3
    assert rows.slice(60, 10).collect(engine=engine).height == 5
    rows.sink_parquet(tmp_path / "rows.parquet", engine=engine)
    expected = pq.read_table(golden_case(STORY) / "expected" / "snapshot.parquet")
    assert differences(expected, pq.read_table(tmp_path / "rows.parquet")) == []


def test_a_table_without_a_commit_has_no_columns(engine: Engine) -> None:
    assert scan(golden_table("i_only_inflight_120")).collect(engine=engine).shape == (0, 0)


def test_a_query_that_ends_early_stops_reading(engine: Engine) -> None:
    rows = scan(golden_table("h_column_stats_120"))
    for count in (0, 1, 7):
        assert rows.head(count).collect(engine=engine).height == count
        assert rows.filter(pl.col("qty").is_not_null()).head(count).collect(engine=engine).height == count
        assert readers_end()


def test_batches_are_no_larger_than_asked() -> None:
    dataset = HudiTable.open(golden_table(STORY)).snapshot()
    frames = list(source_of(dataset)(["id"], None, None, 4))
    assert max(frame.height for frame in frames) == 4
    assert sum(frame.height for frame in frames) == 65
    assert [frame.height for frame in source_of(dataset)(["id"], None, 3, 2)] == [2, 1]
    assert list(source_of(dataset)(["id"], None, 0, 2)) == []


def test_a_generator_that_is_closed_leaves_no_thread() -> None:
    frames = source_of(HudiTable.open(golden_table("h_column_stats_120")).snapshot())(None, None, None, 1)
    assert next(frames).height == 1
    frames.close()
    assert readers() == []


def test_errors_name_the_place(engine: Engine, damaged_table: Path) -> None:
    """Polars 1 wraps them."""
    with pytest.raises((CorruptLogFileError, pl.exceptions.ComputeError), match=r"[abc]/\..*\.log\.") as caught:
        scan(damaged_table).collect(engine=engine)
    assert isinstance(caught.value, CorruptLogFileError) == (int(pl.__version__.partition(".")[0]) >= 2)
    assert "CorruptLogFileError" in (caught.typename, *str(caught.value).replace(":", " ").split())
    assert readers_end()


def test_a_variant_is_the_struct_of_its_parts(engine: Engine) -> None:
    query = next(query for query in golden_variant_queries() if query.kind == "snapshot")
    rows = scan(query.table)
    assert rows.collect_schema()["v"] == pl.Struct({"value": pl.Binary, "metadata": pl.Binary})
    assert rows.select(pl.col("v").struct.field("metadata").bin.size() > 0).collect(engine=engine).item()


@pytest.mark.parametrize("kind", [pa.decimal256(39, 2), pa.list_(pa.struct([("d", pa.decimal256(39, 2))]))])
def test_a_type_that_polars_lacks_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(UnsupportedTableError, match=r"decimal256\(39, 2\) in the column 'wide'"):
        columns_of(pa.schema({"id": pa.string(), "wide": kind}))


VALUES: dict[str, Any] = {
    "i": st.integers(-3, 3),
    "l": st.sampled_from([-(2**53) - 1, -1, 0, 2**53, 2**53 + 1]),
    "f": st.sampled_from([NAN, -NAN, 0.0, -0.0, 1.5, -1.5, float("inf"), -float("inf"), 0.1]),
    "s": st.sampled_from(["", "a", "ab", "b", "ü", "\U0001f600", "\uffff"]),
    "b": st.booleans(),
    "d": st.dates(dt.date(1969, 12, 30), dt.date(1970, 1, 2)),
    "t": st.sampled_from(
        [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)]
    ),
    "n": st.sampled_from([Decimal("0.00"), Decimal("-1.50"), Decimal("1.50"), Decimal("1.49")]),
    "y": st.sampled_from([b"", b"\x00", b"\xff", b"a"]),
}
TYPES = {
    "i": "int",
    "l": "long",
    "f": "double",
    "s": "string",
    "b": "boolean",
    "d": {"type": "int", "logicalType": "date"},
    "t": {"type": "long", "logicalType": "timestamp-micros"},
    "n": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "y": "bytes",
}
COMPARISONS: list[Callable[[Any, Any], Any]] = [
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    pl.Expr.eq_missing,
    pl.Expr.ne_missing,
]


@st.composite
def leaves(draw: st.DrawFn) -> pl.Expr:
    name = draw(st.sampled_from(sorted(VALUES)))
    column, value = pl.col(name), VALUES[name]
    kind = draw(st.integers(0, 6))
    if kind == 0:
        return column.is_null() if draw(st.booleans()) else column.is_not_null()
    # Polars 1 fails with decimals.
    if kind == 1 and name != "n":
        return column.is_in(draw(st.lists(value, min_size=1, max_size=3)), nulls_equal=draw(st.booleans()))
    if kind == 2 and name != "b":
        closed = draw(st.sampled_from(["both", "left", "right", "none"]))
        return column.is_between(pl.lit(draw(value)), pl.lit(draw(value)), closed=closed)  # type: ignore[arg-type]
    if kind == 3 and name == "f":
        return column.is_nan()
    if kind == 4 and name == "b":
        return column
    if kind == 5 and name in "il":
        return column > draw(st.sampled_from([0.5, NAN, 2**40]))
    if kind == 6 and name in "il":
        return pl.col("i") <= pl.col("l")
    compare: Any = draw(st.sampled_from(COMPARISONS))
    expression: pl.Expr = compare(column, draw(value))
    return expression


PREDICATES = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda both: both[0] & both[1]),
        st.tuples(inner, inner).map(lambda both: both[0] | both[1]),
        inner.map(operator.inv),
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> HudiTable:
    """Files of few rows each, so that their statistics are narrow, with a log file beside some of them."""
    folder = tmp_path_factory.mktemp("awkward") / "table"
    writer = TableWriter(folder=folder, fields=(("id", "string"), ("ts", "long"), *TYPES.items()))
    writer.create()
    pools: dict[str, list[Any]] = {
        "i": [-3, 0, 3, None],
        "l": [-(2**53) - 1, 0, 2**53, 2**53 + 1, None],
        "f": [NAN, 0.0, -0.0, 1.5, float("inf"), -float("inf"), None, 0.1],
        "s": ["", "a", "ab", "ü", "\U0001f600", "\uffff", None],
        "b": [True, False, None],
        "d": [dt.date(1969, 12, 31), dt.date(1970, 1, 1), None],
        "t": [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None],
        "n": [Decimal("0.00"), Decimal("-1.50"), Decimal("1.50"), None],
        "y": [b"", b"\x00", b"\xff", None],
    }
    wrote = []
    for number in range(12):
        rows = [
            {"id": f"k{number}-{row}", "ts": 1}
            | {name: pool[(number + row * (len(pool) > 5)) % len(pool)] for name, pool in pools.items()}
            for row in range(1 + number % 2)
        ]
        wrote.append(writer.base_file(at(1), rows, file_id=f"f{number}-0"))
    writer.commit(at(1), wrote=wrote)
    return writer.open()


@settings(deadline=None)
@example(predicate=pl.col("f").is_in([0.0]))
@example(predicate=pl.col("f") > 1.5)
@given(predicate=PREDICATES)
def test_conditions_mean_what_they_mean_to_polars(awkward: HudiTable, predicate: pl.Expr) -> None:
    live = scan(awkward)
    copy = pl.DataFrame(awkward.snapshot().to_table())
    actual = live.filter(predicate).select("id").collect()
    expected = copy.filter(predicate).select("id")
    assert sorted(actual["id"]) == sorted(expected["id"])


NAMED: list[tuple[str, Any]] = [
    ("a", pa.int64()),
    ("f", pa.float64()),
    ("s", pa.string()),
    ("b", pa.bool_()),
    ("st", pa.struct([("x", pa.int32())])),
]
COLUMNS = pa.schema(NAMED)
COLUMN_A, COLUMN_F = pl.col("a"), pl.col("f")


@pytest.mark.parametrize(
    ("predicate", "condition"),
    [
        (COLUMN_A > 2, "(a > 2)"),
        (~(COLUMN_A > 2), "(a <= 2)"),
        (COLUMN_A.is_between(1, 3, closed="left"), "((a >= 1) and (a < 3))"),
        ((COLUMN_A > 2) & (pl.col("s").str.to_uppercase() == "X"), "(a > 2)"),
        ((COLUMN_A > 2) | (pl.col("s").str.to_uppercase() == "X"), "None"),
        (~((COLUMN_A > 2) | (pl.col("s").str.to_uppercase() == "X")), "(a <= 2)"),
        (~pl.col("b"), "invert(b)"),
        (pl.col("s") == "x", '(s == "x")'),
        (pl.col("st").struct.field("x") > 1, "(FieldRef.Nested(FieldRef.Name(st) FieldRef.Name(x)) > 1)"),
        (COLUMN_F < 1.5, "(f < 1.5)"),
        (COLUMN_F > 1.5, "None"),
        (COLUMN_F != 1.5, "None"),
        (COLUMN_F < NAN, "None"),
        (COLUMN_F.is_in([1.5]), "None"),
        (COLUMN_A.is_null() | pl.col("st").is_not_null(), "(is_null(a, {nan_is_null=false}) or is_valid(st))"),
        (COLUMN_A.cast(pl.String) == "1", "None"),
        (pl.col("a") > pl.col("f"), "None"),
        (pl.lit(True), "None"),
    ],
    ids=str,
)
def test_what_is_passed_on(predicate: pl.Expr, condition: str) -> None:
    assert str(condition_of(handed_over(predicate), COLUMNS)) == condition


def test_a_function_of_python_is_not_passed_on() -> None:
    predicate = (pl.col("a") > 2) & pl.col("a").map_batches(lambda values: values > 2, return_dtype=pl.Boolean)
    assert condition_of(predicate, COLUMNS) is None


def test_of_very_many_conditions_none_or_some_are_passed_on() -> None:
    """Arrow ends the process if it is given a chain of so many."""
    equal = [COLUMN_A.eq(pl.lit(number, pl.Int64)) for number in range(1200)]
    assert condition_of(reduce(operator.or_, equal), COLUMNS) is None
    assert str(condition_of(balanced(equal) & COLUMN_A.is_null(), COLUMNS)).startswith("is_null(a")
    assert str(condition_of(balanced(equal[:100]), COLUMNS)).count("==") == 100


def balanced(tests: list[pl.Expr]) -> pl.Expr:
    if len(tests) == 1:
        return tests[0]
    middle = len(tests) // 2
    return balanced(tests[:middle]) | balanced(tests[middle:])


@pytest.mark.parametrize(
    "predicate",
    [
        pl.col("nothing") > 1,
        pl.col("st").struct.field("nothing") > 1,
        pl.col("a").struct.field("x") > 1,
        pl.col("a").abs().struct.field("x").is_null(),
        pl.col("a") == "1",
        pl.col("a") == 1.5,
        pl.col("s") == dt.date(2020, 1, 1),
        pl.col("st").is_in([{"x": 1}]),
        pl.col("a").is_in([1, None]),
        pl.col("a").is_in([1], nulls_equal=True),
        pl.col("f").is_between(1.0, NAN),
        ~pl.col("a").is_between(1, 3),
        pl.col("b").xor(pl.col("a") > 1),
        pl.col("s"),
        pl.col("a").abs().is_null(),
        pl.col("a").abs().is_in([1]),
        pl.col("a").abs().is_between(1, 2),
    ],
    ids=str,
)
def test_what_is_not_known_is_not_passed_on(predicate: pl.Expr) -> None:
    assert condition_of(predicate, COLUMNS) is None


def handed_over(predicate: pl.Expr) -> pl.Expr:
    """What a source is given for a predicate."""
    given: list[pl.Expr | None] = []

    def source(columns: Any, predicate: pl.Expr | None, n_rows: Any, batch_size: Any) -> Iterator[pl.DataFrame]:
        del n_rows, batch_size
        given.append(predicate)
        yield pl.DataFrame(COLUMNS.empty_table()).select(columns or COLUMNS.names)

    register_io_source(source, schema=columns_of(COLUMNS)).filter(predicate).collect()
    [actual] = given
    return pl.lit(True) if actual is None else actual


@pytest.mark.parametrize(
    "ask",
    one_in(
        2,
        [
            lambda rows: rows.with_row_index().select("index"),
            lambda rows: rows.with_row_index().filter(pl.col("index") < 3).select(pl.len()),
            lambda rows: rows.join(pl.LazyFrame({"k": [1, 2]}), how="cross").select("k"),
            lambda rows: rows.select(pl.int_range(pl.len())),
            lambda rows: rows.select(pl.len()),
        ],
    ),
)
def test_rows_count_where_no_column_is_needed(ask: Callable[[pl.LazyFrame], pl.LazyFrame], engine: Engine) -> None:
    rows = scan(golden_table(STORY))
    in_memory = rows.collect().lazy()
    actual = ask(rows).collect(engine=engine)
    assert actual.height > 0
    assert sorted(actual.rows()) == sorted(ask(in_memory).collect().rows())


def test_a_condition_after_the_first_rows_is_not_before_them(engine: Engine) -> None:
    rows = scan(golden_table(STORY))
    first = rows.head(20).select("id", "ts").collect(engine="in-memory")
    middle = sorted(first["id"])[10]
    actual = rows.head(20).filter(pl.col("id") > middle).select("id").collect(engine=engine)
    assert sorted(actual["id"]) == sorted(item for item in first["id"] if item > middle) != []
    assert rows.filter(pl.col("id") > middle).head(20).collect(engine=engine).height == 20


def test_hudis_own_columns_can_be_left_out() -> None:
    table = HudiTable.open(golden_table("a_story_v9_120"))
    expected = table.snapshot().to_table(meta_columns=False)
    frame = scan(table, meta_columns=False)
    assert frame.collect_schema().names() == expected.column_names
    assert differences(expected, frame.collect().to_arrow()) == []
    assert frame.select(pl.len()).collect().item() == expected.num_rows
    assert scan(table, after="earliest", meta_columns=False).collect().columns == expected.column_names
