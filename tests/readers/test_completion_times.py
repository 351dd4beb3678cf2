"""Rows with the completion times of their commits: the same rows, with what the timeline knows of each commit."""

import pickle
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import (
    HudiDataset,
    HudiTable,
    QueryError,
    RealtimeFileSplit,
    UnsupportedTableError,
    open_reader,
)
from hudi_bridge.changes.split import ChangeSplit
from hudi_bridge.options import COMPLETION_TIMES_KEY, RANGE_VERSION_KEY
from hudi_bridge.readers import completion_times
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN, COMPLETION_TIME_COLUMN
from tests.support.compare import differences
from tests.support.golden_cases import CHANGE_KINDS, ROW_KINDS, golden_table
from tests.support.golden_queries import QUERIES, dataset_of, representative
from tests.support.overlapping_writes import (
    EVENT_TIME,
    EXPECTED,
    opened,
    overlapping,
    overlapping_in_utc,
    times_by_key,
    touch,
)
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

GOLDEN = [
    key
    for key in representative([key for key in QUERIES if QUERIES[key].kind in (*ROW_KINDS, *CHANGE_KINDS)], 1)
    if QUERIES[key].answer is not None
]
LAYOUT_2 = "d_archived_120"


def names_of_files(folder: Path) -> dict[str, str]:
    """The completion times that the files of an active timeline of layout 2 name."""
    names = (path.name.partition(".") for path in (folder / ".hoodie" / "timeline").iterdir())
    parts = (stem.partition("_") for stem, _, action in names if action in ("commit", "deltacommit", "replacecommit"))
    return {requested: completed for requested, _, completed in parts}


def archived_times(folder: Path) -> dict[str, str]:
    """The completion times in the archived timeline of layout 2, obsolete files too, which say the same."""
    paths = sorted((folder / ".hoodie" / "timeline" / "history").glob("*.parquet"))
    rows = [row for path in paths for row in pq.read_table(path, columns=["instantTime", "completionTime"]).to_pylist()]
    return {row["instantTime"]: row["completionTime"] for row in rows}


@pytest.mark.parametrize("key", one_in(7, GOLDEN), ids=[QUERIES[key].name for key in GOLDEN])
def test_golden_rows_are_the_same_and_have_the_times_that_the_timeline_names(key: tuple[str, int]) -> None:
    query = QUERIES[key]
    plain = dataset_of(query, HudiTable.open(str(query.table)))
    rows = dataset_of(query, opened(query.table))
    if COMMIT_TIME_COLUMN not in HudiTable.open(str(query.table)).schema.names:
        with pytest.raises(UnsupportedTableError, match="without meta columns"):
            rows.to_table()
        return
    assert rows.schema.names == [*plain.schema.names, COMPLETION_TIME_COLUMN]
    table = rows.to_table()
    assert not differences(plain.to_table(), table.drop_columns([COMPLETION_TIME_COLUMN]))
    source = "ts_ms" if query.kind in CHANGE_KINDS else COMMIT_TIME_COLUMN
    pairs = pairs_of(table, source)
    if HudiTable.open(str(query.table)).config.table_version >= 8:
        known = archived_times(query.table) | names_of_files(query.table)
        assert pairs == {(requested, known.get(requested)) for requested, _ in pairs}
    assert all(completed is None or completed > requested for requested, completed in pairs)
    for condition in conditions(table):
        assert not differences(table.filter(condition), rows.to_table(filter=condition)), condition


def pairs_of(rows: pa.Table, source: str = COMMIT_TIME_COLUMN) -> set[tuple[str, Any]]:
    """The requested times of the commits of rows, with the completion times that the rows have."""
    return {
        (row[source], row[COMPLETION_TIME_COLUMN]) for row in rows.select([source, COMPLETION_TIME_COLUMN]).to_pylist()
    }


def conditions(table: pa.Table) -> list[pc.Expression]:
    """Filters by completion time, alone and with others, for rows that are there."""
    field, first = pc.field(COMPLETION_TIME_COLUMN), pc.field(table.schema.names[0])
    times = sorted({time for time in table[COMPLETION_TIME_COLUMN].to_pylist() if time is not None})
    middle = times[len(times) // 2] if times else "20260101"
    return [
        field.is_null(),
        field >= middle,
        field == middle,
        (field < middle) | field.is_null(),
        (field != middle) & first.is_valid(),
        pc.if_else(field.is_null(), pc.scalar(True), field > middle),
    ]


def test_archived_commits_have_the_times_that_the_archive_names() -> None:
    folder = golden_table(LAYOUT_2)
    rows = opened(folder).snapshot().to_table()
    archived = {requested for requested, _ in pairs_of(rows)} - names_of_files(folder).keys()
    times = archived_times(folder)
    assert archived
    assert archived <= times.keys()
    assert {(time, times[time]) for time in archived} <= pairs_of(rows)


@pytest.mark.parametrize("version", [5, 6, 8, 9])
def test_times_of_every_version(tmp_path: Path, version: int) -> None:
    table = overlapping_in_utc(tmp_path / "t", version)
    assert times_by_key(table.snapshot().to_table()) == EXPECTED
    assert times_by_key(table.read_optimized().to_table()) == dict.fromkeys("abcd", at(2))
    assert times_by_key(table.get(["b", "c"])) == {"b": at(40), "c": at(30)}


@pytest.mark.parametrize("version", [6, 9])
def test_a_range_is_by_completion_or_by_requested_time_and_shows_both(tmp_path: Path, version: int) -> None:
    folder = tmp_path / "t"
    overlapping_in_utc(folder, version)
    by_request = opened(folder, **{RANGE_VERSION_KEY: "6"})
    rows = by_request.incremental(at(15)).to_table()
    assert times_by_key(rows) == {"c": at(30)}
    assert times_by_key(by_request.incremental(at(5), at(15)).to_table()) == {"b": at(40)}
    # The rows of a range by completion time, as a filter of a snapshot, which versions without such ranges have too.
    by_completion = opened(folder)
    field = pc.field(COMPLETION_TIME_COLUMN)
    assert times_by_key(by_completion.snapshot().to_table(filter=field > at(30))) == {"b": at(40)}
    assert times_by_key(by_completion.snapshot().to_table(filter=(field > at(2)) & (field <= at(30)))) == {"c": at(30)}
    if version < 8:
        with pytest.raises(QueryError, match="has no completion times"):
            opened(folder, **{RANGE_VERSION_KEY: "9"}).incremental(at(30))
        return
    assert times_by_key(by_completion.incremental(at(30)).to_table()) == {"b": at(40)}
    assert times_by_key(by_completion.incremental(at(2), at(30)).to_table()) == {"c": at(30)}


@pytest.mark.parametrize("version", [6, 9])
def test_changes_have_the_time_of_their_commit(tmp_path: Path, version: int) -> None:
    table = overlapping_in_utc(tmp_path / "t", version)
    changes = table.changes(at(5))
    assert changes.schema.names == ["op", "ts_ms", "before", "after", COMPLETION_TIME_COLUMN]
    rows = changes.to_table()
    actual = {(row["after"]["id"], row["ts_ms"], row[COMPLETION_TIME_COLUMN]) for row in rows.to_pylist()}
    assert actual == {("b", at(10), at(40)), ("c", at(20), at(30))}
    assert COMPLETION_TIME_COLUMN not in rows.schema.field("after").type.names
    late = pc.field(COMPLETION_TIME_COLUMN) > at(35)
    assert changes.to_table(["op"], filter=late).num_rows == 1
    assert table.changes(at(5), format="cdc").to_table()[COMPLETION_TIME_COLUMN].to_pylist().count(at(40)) == 1
    assert COMPLETION_TIME_COLUMN in changes.to_table(meta_columns=False).column_names


def test_times_of_layout_1_are_in_the_zone_of_the_timeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "t"
    overlapping(folder, 6)
    monkeypatch.setenv("TZ", "Etc/GMT-5")
    time.tzset()
    try:
        shifted = opened(folder).snapshot().to_table()
        assert set(times_by_key(shifted).values()) == {
            f"{moment[:8]}{int(moment[8:10]) + 5:02d}{moment[10:]}" for moment in EXPECTED.values()
        }
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_file_that_is_older_than_its_commit_does_not_tell_when_it_completed(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    overlapping_in_utc(folder, 6)
    touch(folder / ".hoodie" / f"{at(20)}.deltacommit", at(19))
    rows = opened(folder).snapshot()
    assert times_by_key(rows.to_table()) == {**EXPECTED, "c": None}
    assert times_by_key(rows.to_table(filter=pc.field(COMPLETION_TIME_COLUMN).is_null())) == {"c": None}
    assert times_by_key(rows.to_table(filter=pc.field(COMPLETION_TIME_COLUMN) > at(2))) == {"b": at(40)}


def test_rows_of_commits_that_the_timeline_does_not_know_have_null(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "t", options=EVENT_TIME).create()
    rows = [
        {"id": "a", "ts": 1, "value": "x", COMMIT_TIME_COLUMN: "20200101000000000"},
        {"id": "b", "ts": 1, "value": "y"},
    ]
    table.commit(at(1), action="commit", wrote=[table.base_file(at(1), rows)], completed=at(2))
    snapshot = opened(table.folder).snapshot()
    assert times_by_key(snapshot.to_table()) == {"a": None, "b": at(2)}
    assert times_by_key(snapshot.to_table(filter=pc.field(COMPLETION_TIME_COLUMN).is_null())) == {"a": None}


def through_duckdb(rows: HudiDataset) -> pa.Table:
    with rows.to_duckdb("t") as connection:
        table: pa.Table = connection.sql("FROM t").to_arrow_table()
        return table


WAYS: Mapping[str, Callable[[HudiDataset], pa.Table]] = {
    "batches": lambda rows: pa.Table.from_batches(rows.to_batches(), rows.schema),
    "pandas": lambda rows: pa.Table.from_pandas(rows.to_pandas(), preserve_index=False),
    "polars": lambda rows: rows.to_polars().to_arrow(),
    "duckdb": through_duckdb,
    "no_meta_columns": lambda rows: rows.to_table(meta_columns=False),
    "projection": lambda rows: rows.to_table([COMPLETION_TIME_COLUMN, "id"]),
    "expressions": lambda rows: rows.to_table(
        {"id": pc.field("id"), COMPLETION_TIME_COLUMN: pc.field(COMPLETION_TIME_COLUMN)}
    ),
    "head": lambda rows: rows.head(10),
    "splits": lambda rows: pa.concat_tables(
        open_reader(pickle.loads(pickle.dumps(split))).to_table() for split in rows.splits()
    ),
    "json": lambda rows: pa.concat_tables(
        open_reader(RealtimeFileSplit.from_json(split.to_json()), columns=["id", COMPLETION_TIME_COLUMN]).to_table()
        for split in rows.splits()
    ),
}


_OF_EXTRAS = ("duckdb", "pandas", "polars")


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=pytest.mark.extra) if way in _OF_EXTRAS else way for way in WAYS]
)
def test_every_way_to_read_gives_the_times(tmp_path: Path, way: str) -> None:
    assert times_by_key(WAYS[way](overlapping_in_utc(tmp_path / "t", 9).snapshot())) == EXPECTED


def test_a_worker_filters_by_times_as_the_dataset_does(tmp_path: Path) -> None:
    rows = overlapping_in_utc(tmp_path / "t", 9).snapshot()
    condition = (pc.field(COMPLETION_TIME_COLUMN) > at(2)) & (pc.field("id") != "c")
    for split in rows.splits(condition):
        actual = open_reader(split, columns=["id", COMPLETION_TIME_COLUMN], row_filter=condition).to_table()
        assert times_by_key(actual) == {"b": at(40)}


def test_splits_of_changes_give_the_times(tmp_path: Path) -> None:
    changes = overlapping_in_utc(tmp_path / "t", 9).changes(at(5))
    expected = changes.to_table()
    rows = [open_reader(ChangeSplit.from_json(split.to_json())).to_table() for split in changes.splits()]
    assert not differences(expected, pa.concat_tables(rows))


@pytest.mark.parametrize("parts", one_in(2, [1, 3, 256]))
def test_consecutive_filters_divide_the_rows(monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    monkeypatch.setattr(completion_times, "_MOST_PARTS", parts)
    rows = opened(golden_table(LAYOUT_2)).snapshot()
    field = pc.field(COMPLETION_TIME_COLUMN)
    times = sorted({completed for _, completed in pairs_of(rows.to_table())})
    assert len(times) > 3
    counts = [rows.count_rows((field > after) & (field <= up_to)) for after, up_to in pairwise(["0", *times])]
    assert sum(counts) == rows.count_rows()
    assert all(counts)


def test_a_filter_explains_what_it_reads(tmp_path: Path) -> None:
    rows = overlapping_in_utc(tmp_path / "t", 9).snapshot()
    assert "file slices" in str(rows.explain(pc.field(COMPLETION_TIME_COLUMN) > at(30)))


def test_a_column_of_that_name_is_refused(tmp_path: Path) -> None:
    fields = (("id", "string"), ("ts", "long"), (COMPLETION_TIME_COLUMN, "string"))
    table = TableWriter(folder=tmp_path / "t", fields=fields, options=EVENT_TIME).create()
    row = {"id": "a", "ts": 1, COMPLETION_TIME_COLUMN: "mine"}
    table.commit(at(1), action="commit", wrote=[table.base_file(at(1), [row])])
    assert table.open().snapshot().to_table()[COMPLETION_TIME_COLUMN].to_pylist() == ["mine"]
    for read in (HudiTable.snapshot, HudiTable.read_optimized):
        with pytest.raises(UnsupportedTableError, match=COMPLETION_TIMES_KEY):
            read(opened(table.folder)).to_table()
    with pytest.raises(UnsupportedTableError, match=COMPLETION_TIMES_KEY):
        opened(table.folder).incremental("earliest")
    with pytest.raises(UnsupportedTableError, match=COMPLETION_TIMES_KEY):
        opened(table.folder).changes("earliest")


def test_a_table_without_commits_has_no_column(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "t", options=EVENT_TIME).create()
    assert opened(table.folder).snapshot().to_table().num_rows == 0


def test_the_option_is_true_or_false() -> None:
    with pytest.raises(QueryError, match="true or false"):
        HudiTable.open(str(golden_table(LAYOUT_2)), options={COMPLETION_TIMES_KEY: "yes"})
