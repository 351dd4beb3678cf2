"""Pushing a filter or columns down never changes a result."""

import datetime as dt
import math
import operator
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge import HudiDataset, HudiTable
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN
from tests.support.compare import differences
from tests.support.strength import examples
from tests.support.table_writer import Row, TableWriter, at, completion_of

FIELDS: tuple[tuple[str, Any], ...] = (
    ("id", "string"),
    ("ts", "long"),
    ("part", "string"),
    ("text", "string"),
    ("number", "int"),
    ("x", "double"),
    ("flag", "boolean"),
    ("day", {"type": "int", "logicalType": "date"}),
    (
        "inner",
        {"type": "record", "name": "inner", "fields": [{"name": "n", "type": ["null", "long"], "default": None}]},
    ),
)
NAMES = tuple(name for name, _ in FIELDS)
PARTITIONS = ("p", "q/r", "10")
DAY = dt.date(2026, 1, 1)

PAYLOAD = "hoodie.compaction.payload.class"
PACKAGE = "org.apache.hudi.common.model."
EVENT_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
TABLES: dict[str, tuple[int, Mapping[str, str]]] = {
    "event time": (9, EVENT_TIME),
    "commit time": (9, {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}),
    "default payload": (6, {PAYLOAD: PACKAGE + "DefaultHoodieRecordPayload"}),
    "event time, defaults ignored": (9, EVENT_TIME | {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}),
    "partial update": (6, {PAYLOAD: PACKAGE + "PartialUpdateAvroPayload"}),
}

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": st.sampled_from(["k0", "k1", "k2", "k3", "k4", "k5"]),
    "ts": st.integers(0, 3),
    "part": st.sampled_from(PARTITIONS),
    "text": st.sampled_from(["", "a", "ab", "b", "\u00e9"]),
    "number": st.integers(-2, 2),
    "x": st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan]),
    "flag": st.booleans(),
    "day": st.integers(0, 3).map(lambda days: DAY + dt.timedelta(days)),
    "inner": st.fixed_dictionaries({"n": st.one_of(st.none(), st.integers(0, 2))}),
}
NEVER_NULL = ("id", "ts", "part")
ROWS = st.fixed_dictionaries(
    {name: values if name in NEVER_NULL else st.one_of(st.none(), values) for name, values in VALUES.items()}
)
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


def placed(partition: str, row: Row) -> Row:
    return {**row, "part": partition}


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[str, list[Row], list[list[Row]], list[tuple[str, int | None]]]]:
    """For each partition its path, base rows, log rows of two writes, and deletes."""
    pieces = []
    for partition in draw(st.sets(st.sampled_from(PARTITIONS), min_size=1, max_size=2)):
        rows = st.lists(ROWS.map(partial(placed, partition)), max_size=7)
        deletes = st.lists(st.tuples(VALUES["id"], st.one_of(st.none(), VALUES["ts"])), max_size=2)
        pieces.append((partition, draw(rows), [draw(rows), draw(rows)], draw(deletes)))
    return pieces


def write(folder: Path, name: str, pieces: Sequence[tuple[str, list[Row], list[list[Row]], Any]]) -> TableWriter:
    version, options = TABLES[name]
    table = TableWriter(
        folder=folder,
        version=version,
        fields=FIELDS,
        partition_fields=("part",),
        options=options,
        defaults={"text": ""},
    ).create()
    wrote: dict[str, list[Path]] = {at(number): [] for number in range(4)}
    for number, (partition, base, logs, deletes) in enumerate(pieces):
        where: dict[str, Any] = {"file_id": f"f{number}-0", "partition": partition}
        if base:
            # As after a compaction, some rows are older than their file.
            older: list[Row] = [{**row, COMMIT_TIME_COLUMN: at(place % 2)} for place, row in enumerate(base)]
            wrote[at(1)].append(table.base_file(at(1), older, row_group_size=3, **where))
        for later, rows in enumerate(logs, start=2):
            blocks = [table.data_block(at(later), rows, **where)] if rows else []
            if deletes and later == 3:
                blocks.insert(0, table.delete_block(at(later), deletes, partition=partition))
            if blocks:
                path = table.log_file(at(later), blocks, base_instant=at(1), number=later, **where)
                wrote[at(later)].append(path)
    for instant, files in wrote.items():
        table.commit(instant, wrote=files)
    return table


def ranges(table: HudiTable) -> list[HudiDataset]:
    """All commits, those that leave out some rows of the base files, and one commit."""
    return [
        table.incremental("earliest"),
        table.incremental(completion_of(at(0))),
        table.incremental(completion_of(at(1)), completion_of(at(2))),
    ]


@pytest.mark.parametrize("name", TABLES)
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
    found = dataset.to_table(columns=columns, filter=row_filter)
    assert found.schema.names == columns
    assert differences(expected.select(columns), found) == [], (row_filter, columns)
    assert dataset.filter(row_filter).count_rows() == expected.num_rows


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
            found = dataset.to_table(columns=columns, filter=row_filter)
            assert found.schema == expected.schema
            assert differences(expected, found) == []

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
