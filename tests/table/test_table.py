"""A table as users open it."""

from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyarrow import fs  # noqa: TID251 - a user brings a file system

from hudi_bridge import (
    HudiTable,
    InstantNotReadableError,
    QueryError,
    QueryType,
    RecordMerger,
    RecordPayload,
    TableNotFoundError,
    tools,
)
from hudi_bridge.inspection import inspect_columns, inspect_file_slices, inspect_files, inspect_splits, inspect_table
from tests.support.table_writer import META_FIELDS, TableWriter, at, sorted_column


@pytest.fixture(params=[6, 9])
def writer(tmp_path: Path, request: pytest.FixtureRequest) -> TableWriter:
    """Three writes: a base file, an update, an insert of a file group."""
    table = TableWriter(folder=tmp_path, version=request.param).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "one"}])
    table.commit(at(1))
    table.log_file(at(2), [table.data_block(at(2), [{"id": "a", "ts": 2, "value": "two"}])], base_instant=at(1))
    table.commit(at(2))
    table.base_file(at(3), [{"id": "b", "ts": 1, "value": "three"}], file_id="f2-0")
    table.commit(at(3))
    return table


def test_what_a_table_says_of_itself(writer: TableWriter) -> None:
    table = writer.open()
    assert table.path == str(writer.folder)
    assert table.latest_instant == at(3)
    assert table.schema.names == [*META_FIELDS, "id", "ts", "value"]
    assert table.config.table_version == writer.version
    assert [instant.requested_time for instant in table.timeline.commits()] == [at(1), at(2), at(3)]
    assert [(file_slice.file_id, len(file_slice.log_files)) for file_slice in table.file_slices()] == [
        ("f1-0", 1),
        ("f2-0", 0),
    ]
    assert [file_slice.file_id for file_slice in table.file_slices(at(2))] == ["f1-0"]


def test_time_travel(writer: TableWriter) -> None:
    table = writer.open()
    actual = {
        instant: sorted_column(table.snapshot(instant).to_table(), "value") for instant in (None, at(3), at(2), at(1))
    }
    assert actual == {None: ["three", "two"], at(3): ["three", "two"], at(2): ["two"], at(1): ["one"]}
    assert table.snapshot(at(2)).instant == at(2)
    assert table.read_optimized(at(2)).to_table().column("value").to_pylist() == ["one"]


def test_spellings_of_an_instant(writer: TableWriter) -> None:
    table = writer.open()
    assert at(2) == "20260101000000200"
    for text in ("2026-01-01 00:00:00.200", "2026-01-01 00:00:00", at(2), at(2)[:14], "2026-01-02"):
        assert "two" in table.snapshot(text).to_table().column("value").to_pylist(), text
    assert table.snapshot("2026-01-01").count_rows() == 0
    assert table.snapshot("2025-12-31").count_rows() == 0
    for text in ("yesterday", "", "20260101", "2026-13-01"):
        with pytest.raises(QueryError, match="as_of"):
            table.snapshot(text)


def test_dates_and_datetimes_are_taken_wherever_an_instant_is(writer: TableWriter) -> None:
    with (writer.folder / ".hoodie" / "hoodie.properties").open("a") as properties:
        properties.write("\nhoodie.table.timeline.timezone=utc\n")
    table = writer.open()
    moment, text = datetime(2026, 1, 1, 0, 0, 0, 200_000), at(2)  # noqa: DTZ001 - without a zone, as users have it
    for again in (
        moment,
        moment.replace(tzinfo=UTC),
        moment.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=-7))),
    ):
        assert table.snapshot(again).instant == table.read_optimized(again).instant == text
        assert table.splits(again) == table.splits(text)
        assert table.file_slices(again) == table.file_slices(text)
        assert table.read_context(again) == table.read_context(text)
        assert tools.history_of(table, "a", as_of=again).instant == text
        actual = table.instant_range(again)
        assert actual == table.instant_range(text)
        assert table.instant_range("earliest", again) == table.instant_range("earliest", text)
        assert table.incremental(again).to_table() == table.incremental(text).to_table()
        actual = table.instant_range(date(2026, 1, 1), again)
        assert actual.commits
        assert actual == table.instant_range("2026-01-01", text)
        changes = table.changes(date(2026, 1, 1), again)
        assert changes.next_after == table.changes("2026-01-01", text).next_after
        (base,) = (split.base_path for split in table.splits(text))
        assert base is not None
        assert table.file_columns(Path(base), again) == table.file_columns(base, text)
        for inspect in (inspect_table, inspect_files, inspect_file_slices, inspect_splits, inspect_columns):
            assert inspect(table, again) == inspect(table, text)
    assert table.snapshot(date(2026, 1, 1)).count_rows() == 0
    assert table.snapshot(date(2026, 1, 2)).count_rows() == 2


def test_a_path_may_be_one_of_pathlib(writer: TableWriter) -> None:
    for path in (writer.folder, str(writer.folder)):
        assert HudiTable.open(path).path == str(writer.folder)
        assert HudiTable.open(path, fs.LocalFileSystem()).path == str(writer.folder)
    with pytest.raises(TableNotFoundError, match=r"s3://\*\*\*@bucket/trips.*pass it as text"):
        HudiTable.open(Path("s3://key:secret@bucket/trips"))


def test_time_travel_beyond_an_incomplete_write_is_refused(writer: TableWriter) -> None:
    writer.pending(at(4))
    table = writer.open()
    assert table.snapshot().count_rows() == 2
    with pytest.raises(InstantNotReadableError, match="first incomplete"):
        table.snapshot(at(5))


def test_a_table_stays_as_it_was_opened_until_it_is_refreshed(writer: TableWriter) -> None:
    table = writer.open()
    writer.base_file(at(4), [{"id": "c", "ts": 1, "value": "four"}], file_id="f3-0")
    writer.commit(at(4))
    assert table.snapshot().count_rows() == 2
    assert table.refresh().snapshot().count_rows() == 3
    assert table.latest_instant == at(3)


def test_splits_follow_the_query(writer: TableWriter) -> None:
    table = writer.open()
    assert [len(split.log_paths) for split in table.splits()] == [1, 0]
    assert [len(split.log_paths) for split in table.splits(query_type=QueryType.READ_OPTIMIZED)] == [0, 0]
    assert len(table.splits(as_of=at(2))) == 1
    assert len(table.splits(filter=pc.field("id") == "a")) == 2
    with pytest.raises(QueryError, match="nope"):
        table.splits(filter=pc.field("nope") == "a")
    with pytest.raises(QueryError, match="query_type"):
        table.splits(query_type=QueryType.INCREMENTAL)


def test_options_that_do_not_change_reading_are_refused(writer: TableWriter) -> None:
    with pytest.raises(QueryError, match=r"hoodie\.nope"):
        HudiTable.open(str(writer.folder), options={"hoodie.nope": "x"})


def test_a_delete_marker_may_be_an_option(writer: TableWriter) -> None:
    options = {"hoodie.payload.delete.field": "value", "hoodie.payload.delete.marker": "two"}
    table = HudiTable.open(str(writer.folder), options=options)
    assert table.snapshot().to_table().column("value").to_pylist() == ["three"]


def test_rows_say_where_they_come_from(writer: TableWriter) -> None:
    rows = writer.open().snapshot().to_table(columns=["_hoodie_commit_time", "_hoodie_record_key", "value"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [(at(2), "a", "two"), (at(3), "b", "three")]


@pytest.mark.parametrize("number", [0, -5, True, 1.5, "7"])
def test_memory_that_is_no_number_of_bytes(writer: TableWriter, number: Any) -> None:
    with pytest.raises(QueryError, match=f"^log_memory_bytes: found {number!r}, expected a number of bytes above 0$"):
        HudiTable.open(writer.folder, log_memory_bytes=number)
    HudiTable.open(writer.folder, log_memory_bytes=1)


@pytest.mark.parametrize("payload", [3, None, RecordPayload, "Counter"])
def test_payloads_that_are_none(writer: TableWriter, payload: Any) -> None:
    with pytest.raises(QueryError, match=r"^payloads: found .* for a\.B, expected an instance of RecordPayload or"):
        HudiTable.open(writer.folder, payloads={"a.B": payload})
    HudiTable.open(writer.folder, payloads={"a.B": RecordPayload(), "a.C": RecordMerger()})
