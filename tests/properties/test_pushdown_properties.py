"""Pushing a filter or columns down never changes a result."""

import operator
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge import HudiDataset, HudiTable
from hudi_bridge.options import COMPLETION_TIMES_KEY
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN, COMPLETION_TIME_COLUMN
from tests.properties.filtered_tables import FIELDS, TABLES, VALUES, tables, write
from tests.support.compare import differences
from tests.support.strength import examples, one_in
from tests.support.table_writer import Row, at, completion_of

NAMES = tuple(name for name, _ in FIELDS)


COMPARED = tuple(name for name in NAMES if name not in ("flag", "inner"))
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


@st.composite
def leaves(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(NAMES))
    column: Any = pc.field(name)
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return column.is_valid()
    if kind == 1:
        return column.is_null(nan_is_null=draw(st.booleans()) if name == "x" else False)
    if name == "flag":
        return column if draw(st.booleans()) else ~column
    if name == "inner":
        return draw(st.sampled_from(COMPARISONS))(pc.field("inner", "n"), draw(st.integers(0, 2)))
    if kind == 2:
        return column.isin(draw(st.lists(VALUES[name], max_size=3).map(lambda values: pa.array(values, TYPES[name]))))
    if kind == 3 and name in ("number", "ts"):
        return draw(st.sampled_from(COMPARISONS))(column + pc.field("ts"), draw(st.integers(-2, 4)))
    if kind == 3 and name == "x":
        return pc.is_nan(column)
    return draw(st.sampled_from(COMPARISONS))(column, pa.scalar(draw(VALUES[name]), TYPES[name]))


TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "ts": pa.int64(),
    "part": pa.string(),
    "text": pa.string(),
    "number": pa.int32(),
    "x": pa.float64(),
    "day": pa.date32(),
}
FILTERS = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.builds(operator.inv, inner), st.builds(operator.and_, inner, inner), st.builds(operator.or_, inner, inner)
    ),
    max_leaves=4,
)


def ranges(table: HudiTable) -> list[HudiDataset]:
    """All commits, those that leave out some rows of the base files, and one commit."""
    return [
        table.incremental("earliest"),
        table.incremental(completion_of(at(0))),
        table.incremental(completion_of(at(1)), completion_of(at(2))),
    ]


@pytest.mark.parametrize("name", one_in(3, TABLES))
def test_pushing_a_filter_down_changes_nothing(name: str) -> None:
    @settings(max_examples=examples(5), deadline=None)
    @given(pieces=tables(), filters=st.lists(FILTERS, min_size=2, max_size=5), data=st.data())
    def check(pieces: Any, filters: list[pc.Expression], data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            table = write(Path(folder), name, pieces).open()
            some_filters = filters[:1]
            datasets = [(table.snapshot(), filters), (table.read_optimized(), some_filters)]
            for dataset, some in datasets + [(dataset, some_filters) for dataset in ranges(table)]:
                everything = dataset.to_table()
                for row_filter in some:
                    columns = data.draw(st.lists(st.sampled_from(dataset.schema.names), unique=True))
                    check_filter(dataset, everything, row_filter, columns)

    check()


def check_filter(dataset: HudiDataset, everything: pa.Table, row_filter: pc.Expression, columns: list[str]) -> None:
    expected = everything.filter(row_filter)
    assert differences(expected, dataset.to_table(filter=row_filter)) == [], row_filter
    actual = dataset.to_table(columns=columns, filter=row_filter)
    assert actual.schema.names == columns
    assert differences(expected.select(columns), actual) == [], (row_filter, columns)
    assert dataset.filter(row_filter).count_rows() == expected.num_rows


@st.composite
def by_completion(draw: st.DrawFn) -> Any:
    """A condition on completion times, alone or with one on other columns."""
    column: Any = pc.field(COMPLETION_TIME_COLUMN)
    times = st.sampled_from([completion_of(at(number)) for number in range(4)])
    condition = draw(
        st.one_of(
            st.just(column.is_null()),
            st.builds(lambda compare, time: compare(column, time), st.sampled_from(COMPARISONS), times),
            st.lists(times, max_size=2).map(lambda some: column.isin(pa.array(some, pa.string()))),
            st.just(column > pc.field(COMMIT_TIME_COLUMN)),
        )
    )
    others = st.one_of(FILTERS, times.map(lambda time: pc.field(COMMIT_TIME_COLUMN) < time))
    join = draw(st.sampled_from((operator.and_, operator.or_, lambda one, _: one, lambda one, _: ~one)))
    return join(condition, draw(others))


@pytest.mark.parametrize("name", one_in(5, TABLES))
def test_pushing_a_filter_by_completion_times_down_changes_nothing(name: str) -> None:
    @settings(max_examples=examples(4), deadline=None)
    @given(pieces=tables(), filters=st.lists(by_completion(), min_size=2, max_size=4), data=st.data())
    def check(pieces: Any, filters: list[pc.Expression], data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            plain = write(Path(folder), name, pieces).open()
            table = HudiTable.open(folder, options={COMPLETION_TIMES_KEY: "true"})
            for dataset, without in (
                (table.snapshot(), plain.snapshot()),
                *zip(ranges(table), ranges(plain), strict=True),
            ):
                everything = dataset.to_table()
                assert differences(without.to_table(), everything.drop_columns([COMPLETION_TIME_COLUMN])) == []
                for row_filter in filters:
                    columns = data.draw(st.lists(st.sampled_from(dataset.schema.names), unique=True))
                    check_filter(dataset, everything, row_filter, columns)

    check()


EXPRESSIONS: dict[str, pc.Expression] = {
    "sum": pc.field("number") + pc.field("ts"),
    "renamed": pc.field("text"),
    "n": pc.field("inner", "n"),
    "is_p": pc.field("part") == "p",
    "one": pc.scalar(1),
}


@pytest.mark.parametrize("name", ["event time, defaults ignored", "default payload"])
def test_expressions_over_columns_equal_those_over_all_rows(name: str) -> None:
    @settings(max_examples=examples(10), deadline=None)
    @given(
        pieces=tables(), row_filter=st.one_of(st.none(), FILTERS), wanted=st.sets(st.sampled_from(sorted(EXPRESSIONS)))
    )
    def check(pieces: Any, row_filter: pc.Expression | None, wanted: set[str]) -> None:
        columns = {name: EXPRESSIONS[name] for name in wanted}
        with tempfile.TemporaryDirectory() as folder:
            dataset = write(Path(folder), name, pieces).open().snapshot()
            expected = ds.dataset(dataset.to_table()).to_table(columns=columns, filter=row_filter)
            actual = dataset.to_table(columns=columns, filter=row_filter)
            assert actual.schema == expected.schema
            assert differences(expected, actual) == []

    check()


def test_a_key_twice_in_a_base_file_meets_its_log_record_once_under_any_filter(tmp_path: Path) -> None:
    plain: dict[str, Any] = {
        "text": None,
        "number": None,
        "x": None,
        "flag": None,
        "day": None,
        "inner": None,
        "part": "p",
    }
    base: list[Row] = [{"id": "k0", "ts": ts} | plain for ts in range(4)]
    for name in TABLES:
        table = write(tmp_path / name, name, [("p", base, [[{"id": "k0", "ts": 9} | plain], []], [])]).open()
        everything = table.snapshot().to_table()
        for row_filter in (pc.field("ts") >= 2, pc.field("ts") == 0, pc.field("ts") == 9, pc.field("ts") < 2):
            check_filter(table.snapshot(), everything, row_filter, ["ts"])
