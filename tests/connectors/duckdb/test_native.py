"""How DuckDB reads a table: which base files it scans itself, what is merged for it, and what is kept."""

import os
import re
import shutil
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import CorruptBaseFileError, CorruptLogFileError, DataFileGoneError, HudiTable, StorageError, engines
from hudi_bridge.connectors.duckdb import Attached, ViewPlan, attach, attached
from hudi_bridge.connectors.duckdb import native_scan as scans
from hudi_bridge.connectors.duckdb.file_system import Errors, TableFiles
from hudi_bridge.connectors.duckdb.native_scan import MergedRows
from hudi_bridge.engines import merged_slices
from hudi_bridge.errors import HudiReadError
from hudi_bridge.storage.storage import Storage
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in
from tests.support.table_writer import KEY_AND_VALUE, Row, TableWriter, at

STORY = "a_story_v9_120"
SLICES = 5
IS_BEFORE_2 = duckdb.__version__.startswith("1.")
"""Its plans read joins with rows that are gone as other joins, and choose no files by partition."""
FIELDS = (*KEY_AND_VALUE, ("part", "string"))


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.fixture
def merged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the file groups that are merged, each time that one is."""
    groups: list[str] = []
    slice_delta_in = engines.slice_delta_in

    def spy(storage: Any, split: Any, *arguments: Any, **options: Any) -> Any:
        groups.append(split.file_id)
        return slice_delta_in(storage, split, *arguments, **options)

    monkeypatch.setattr(merged_slices, "slice_delta_in", spy)
    return groups


def rows_of(connection: duckdb.DuckDBPyConnection, query: str = "FROM trips") -> pa.Table:
    rows: pa.Table = connection.sql(query).to_arrow_table()
    return rows


def assert_shows(connection: duckdb.DuckDBPyConnection, table: Path | HudiTable) -> None:
    opened = table if isinstance(table, HudiTable) else HudiTable.open(table)
    assert differences(opened.snapshot().to_table(), rows_of(connection)) == []


def plan_of(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    return "\n".join(row[1] for row in connection.execute(f"EXPLAIN {query}").fetchall())


def partitioned(folder: Path, partitions: tuple[str | None, ...] = ("a", "b"), **options: Any) -> TableWriter:
    """A table with three rows in a base file of each partition; a log changes one, deletes one and adds one."""
    table = TableWriter(folder=folder, fields=FIELDS, partition_fields=("part",), **options).create()
    for number, partition in enumerate(partitions):
        path = "__HIVE_DEFAULT_PARTITION__" if partition is None else partition
        where: dict[str, Any] = {"file_id": f"f{number}-0", "partition": path}
        rows: list[Row] = [{"id": f"{path}{n}", "ts": 1, "value": "base", "part": partition} for n in range(3)]
        changed: list[Row] = [{"id": f"{path}{n}", "ts": 2, "value": "log", "part": partition} for n in (0, 3)]
        base = table.base_file(at(1), rows, **where)
        blocks = [
            table.data_block(at(2), changed, **where),
            table.delete_block(at(2), [(f"{path}1", 2)], partition=path),
        ]
        log = table.log_file(at(2), blocks, base_instant=at(1), **where)
        table.commit(at(1), wrote=[base]) if number == 0 else None
        table.commit(at(2), wrote=[log]) if number == len(partitions) - 1 else None
    return table


def test_base_files_are_scanned_by_duckdb(connection: duckdb.DuckDBPyConnection) -> None:
    attached = attach(connection, golden_table(STORY), "trips")
    snapshot = ViewPlan(by_duckdb=SLICES, by_hudi_bridge={}, merged=3)
    assert attached.plan() == {"trips": snapshot, "trips_ro": ViewPlan(by_duckdb=SLICES, by_hudi_bridge={}, merged=0)}
    assert snapshot.is_native
    plan = plan_of(connection, "SELECT max(name) FROM trips WHERE qty > 3")
    # Before 2.0, a plan says it twice of each scan.
    assert plan.count("READ_PARQUET") == 1 + IS_BEFORE_2
    assert ("Join Type: LEFT" if IS_BEFORE_2 else "ANTI") in plan
    assert "ARROW" in plan
    assert "ARROW" not in plan_of(connection, "FROM trips_ro")
    # DuckDB knows the number of rows, so that it can plan joins; 1.5 does not ask for it.
    estimated = re.findall(r"~([\d,]+) rows", plan_of(connection, "FROM trips_ro"))[0]
    assert 69 / 2 < int(estimated.replace(",", "")) < (100_000 if IS_BEFORE_2 else 69 * 2)


def test_a_condition_on_a_partition_saves_merging_the_others(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, merged: list[str]
) -> None:
    table = partitioned(tmp_path / "t", ("a", "b", "c"))
    log = next((table.folder / "b").glob(".*log*"))
    content = log.read_bytes()
    log.write_bytes(b"\xff" * len(content))
    attached = attach(connection, table.folder, "trips")
    for condition in ("part = 'a'", "part < 'b'", "part = 'c' AND ts = 2"):
        connection.execute(f"SELECT * FROM trips WHERE {condition}").fetchall()
    assert sorted(merged) == ["f0-0", "f2-0"]
    files = 3 if IS_BEFORE_2 else 1
    assert f"Total Files Read: {files} " in plan_of(connection, "ANALYZE SELECT id FROM trips WHERE part = 'a'")
    with pytest.raises(duckdb.Error) as caught:
        connection.execute("FROM trips").fetchall()
    assert isinstance(attached.cause_of(caught.value), CorruptLogFileError)
    log.write_bytes(content)
    assert_shows(connection, table.folder)


def test_a_condition_that_no_partition_meets_merges_nothing(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, merged: list[str]
) -> None:
    attach(connection, partitioned(tmp_path / "t", ("a",)).folder, "trips")
    # There is nothing to choose between, so positions are not joined by partition.
    assert "part = part" not in plan_of(connection, "FROM trips")
    for condition in ("part = 'b'", "part > 'b'", "part IS NULL"):
        assert connection.execute(f"FROM trips WHERE {condition}").fetchall() == []
    # Before 2.0, DuckDB asks for the positions although it has no row for them.
    assert len(merged) <= IS_BEFORE_2
    assert connection.execute("SELECT count(*) FROM trips WHERE part = 'a'").fetchall() == [(3,)]


def test_a_partition_may_be_null(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    table = partitioned(tmp_path / "t", ("a", None))
    attached = attach(connection, table.folder, "trips")
    assert attached.plan()["trips"].is_native
    assert_shows(connection, table.folder)
    counts = "SELECT part, count(*) FROM trips GROUP BY part ORDER BY part NULLS LAST"
    assert connection.execute(counts).fetchall() == [("a", 3), (None, 3)]
    assert connection.execute("SELECT count(*) FROM trips WHERE part IS NULL").fetchall() == [(3,)]


def test_a_slice_is_merged_once(connection: duckdb.DuckDBPyConnection, tmp_path: Path, merged: list[str]) -> None:
    table = partitioned(tmp_path / "t")
    # One thread asks for rows before positions, which are merged with the columns of the query then.
    connection.execute("SET threads = 1")
    attached = attach(connection, table.folder, "trips")
    assert merged == []
    for _ in range(2):
        connection.execute("SELECT count(*), max(ts) FROM trips").fetchall()
    assert sorted(merged) == ["f0-0", "f1-0"]
    # Other columns take a second merge, with all columns.
    for column in ("value", "id", "_hoodie_file_name"):
        connection.execute(f"SELECT {column} FROM trips").fetchall()
    assert sorted(merged) == ["f0-0", "f0-0", "f1-0", "f1-0"]
    log = table.log_file(at(3), [table.delete_block(at(3), [("a2", 3)], partition="a")], file_id="f0-0", partition="a")
    table.commit(at(3), wrote=[log])
    attached.refresh()
    assert_shows(connection, table.folder)
    assert sorted(merged) == ["f0-0", "f0-0", "f0-0", "f1-0", "f1-0"]


def test_positions_that_are_asked_for_before_the_columns_share_the_merge(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, merged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_views: list[MergedRows] = []

    def spy(*arguments: Any) -> MergedRows:
        of_views.append(MergedRows(*arguments))
        return of_views[-1]

    monkeypatch.setattr(attached, "MergedRows", spy)
    attach(connection, partitioned(tmp_path / "t").folder, "trips")
    (of_view,) = (view for view in of_views if view.has_positions)
    assert sum(batch.num_rows for batch in of_view.positions(of_view.positions_schema.names, None)) == 4
    assert connection.execute("SELECT count(*), max(ts) FROM trips").fetchall() == [(6, 2)]
    assert sorted(merged) == ["f0-0", "f1-0"]


def test_threads_that_ask_at_the_same_time_share_a_merge(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, merged: list[str]
) -> None:
    attach(connection, partitioned(tmp_path / "t").folder, "trips")
    answers: list[Any] = []

    def ask() -> None:
        with connection.cursor() as cursor:
            answers.append(cursor.execute("SELECT count(*), max(ts) FROM trips").fetchall())

    threads = [Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [[(6, 2)]] * 6
    assert sorted(merged) == ["f0-0", "f1-0"]


@pytest.mark.parametrize("cache_bytes", one_in(3, [0, 100, 700, 8000]))
@pytest.mark.parametrize("is_in_folder", one_in(2, [False, True]))
def test_merges_that_have_no_room_are_done_again(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, cache_bytes: int, *, is_in_folder: bool
) -> None:
    table = partitioned(tmp_path / "t", ("a", "b", "c", "d"))
    cache = tmp_path / "cache" if is_in_folder else None
    attach(connection, table.folder, "trips", cache=cache, cache_bytes=cache_bytes)
    for _ in range(3):
        assert_shows(connection, table.folder)
        assert connection.execute("SELECT id FROM trips WHERE part = 'd' AND ts = 1").fetchall() == [("d2",)]
        if cache is not None:
            assert sum(file.stat().st_size for file in cache.glob("*/*")) <= cache_bytes


def test_the_next_process_finds_merges_in_the_folder(tmp_path: Path, merged: list[str]) -> None:
    table, cache = partitioned(tmp_path / "t"), tmp_path / "some" / "cache"
    with duckdb.connect() as first:
        attach(first, table.folder, "trips", cache=cache)
        assert_shows(first, table.folder)
    assert sorted(merged) == ["f0-0", "f1-0"]
    with duckdb.connect() as second:
        attach(second, table.folder, "trips", cache=cache)
        assert_shows(second, table.folder)
    assert len(merged) == 2
    for file in cache.glob("*/*"):
        file.write_bytes(file.read_bytes()[:100])
    with duckdb.connect() as third:
        attach(third, table.folder, "trips", cache=cache)
        assert_shows(third, table.folder)
    assert len(merged) == 4


def test_the_same_slice_with_other_blocks_has_a_merge_of_its_own(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    table, cache = partitioned(tmp_path / "t"), tmp_path / "cache"
    earlier, later = at(1), at(2)
    for _ in range(2):
        for instant, rows in ((earlier, 6), (later, 6)):
            attach(connection, table.folder, "trips", as_of=instant, cache=cache)
            assert connection.execute("SELECT count(*) FROM trips").fetchall() == [(rows,)]
        assert connection.execute("SELECT count(*) FROM trips WHERE value = 'log'").fetchall() == [(4,)]


@pytest.mark.parametrize("sign", one_in(3, ["*", "?", "[a]", "\\"]))
def test_a_path_that_looks_like_a_pattern_is_no_pattern(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, sign: str
) -> None:
    table = partitioned(tmp_path / "t", (f"x{sign}y", "xay"))
    attached = attach(connection, table.folder, "trips")
    plan = attached.plan()["trips"]
    assert (plan.by_duckdb, plan.by_hudi_bridge) == (1, {"its path has a sign of patterns": 1})
    assert_shows(connection, table.folder)


@pytest.mark.parametrize("sign", one_in(4, ["*", "?", "[a]", "{a,b}", "'", "%20", "\\", "~"]))
def test_a_folder_may_have_any_name(connection: duckdb.DuckDBPyConnection, tmp_path: Path, sign: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    table = partitioned(tmp_path / f"x{sign}y" / "t")
    for path in (table.folder, other / ".." / f"x{sign}y" / "t", Path(os.path.relpath(table.folder))):
        attach(connection, str(path), "trips")
        assert_shows(connection, table.folder)


@pytest.mark.parametrize(
    "partition", one_in(3, ["it's", "100%", "a b", "ünï", "x=y", ".com", "a'); DROP TABLE kept; --"])
)
def test_any_path_is_a_path(connection: duckdb.DuckDBPyConnection, tmp_path: Path, partition: str) -> None:
    connection.execute("CREATE TABLE kept AS SELECT 1")
    table = partitioned(tmp_path / partition / "t", (partition, "b"))
    attached = attach(connection, table.folder, "trips")
    assert attached.plan()["trips"].is_native
    assert_shows(connection, table.folder)
    expected = HudiTable.open(table.folder).snapshot().to_table().filter(pc.field("part") == partition)
    actual = connection.execute("SELECT count(*) FROM trips WHERE part = ?", [partition]).fetchall()
    assert actual == [(expected.num_rows,)]
    assert connection.execute("SELECT count(*) FROM kept").fetchall() == [(1,)]


@pytest.mark.parametrize("name", ["filename", "file_row_number", "FILE_INDEX"])
def test_columns_that_duckdb_adds_may_be_in_the_table(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, name: str
) -> None:
    table = TableWriter(folder=tmp_path / "t", fields=(*KEY_AND_VALUE, (name, "string"))).create()
    rows: list[Row] = [{"id": f"k{n}", "ts": 1, "value": "v", name: f"mine{n}"} for n in range(3)]
    base = table.base_file(at(1), rows)
    log = table.log_file(at(2), [table.delete_block(at(2), [("k1", 2)])], base_instant=at(1))
    table.commit(at(1), wrote=[base])
    table.commit(at(2), wrote=[log])
    attached = attach(connection, table.folder, "trips")
    assert not attached.plan()["trips"].is_native
    assert_shows(connection, table.folder)


@pytest.mark.parametrize("is_set_first", [False, True])
def test_bytes_are_no_text_whatever_is_set(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, *, is_set_first: bool
) -> None:
    table = TableWriter(folder=tmp_path / "t", fields=(*KEY_AND_VALUE, ("raw", "bytes"))).create()
    rows: list[Row] = [
        {"id": f"k{n}", "ts": 1, "value": "base", "raw": raw} for n, raw in enumerate((b"\\x41", b"\xff"))
    ]
    log = [{"id": "k2", "ts": 2, "value": "log", "raw": b"\\x42"}]
    wrote = [table.base_file(at(1), rows), table.log_file(at(2), [table.data_block(at(2), log)], base_instant=at(1))]
    for number, path in enumerate(wrote, 1):
        table.commit(at(number), wrote=[path])
    if is_set_first:
        connection.execute("SET binary_as_string = true")
    attached = attach(connection, table.folder, "trips")
    connection.execute("SET binary_as_string = true")
    assert attached.plan()["trips"].is_native
    assert_shows(connection, table.folder)
    assert connection.execute("SELECT id FROM trips WHERE raw = '\\x5Cx41'::BLOB").fetchall() == [("k0",)]


def test_a_connection_that_must_not_read_files_reads_through_hudi_bridge(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "t")
    for setting in ("enable_external_access = false", "disabled_filesystems = 'LocalFileSystem'"):
        with duckdb.connect() as connection:
            connection.execute(f"SET {setting}")
            attached = attach(connection, table.folder, "trips")
            [reason] = attached.plan()["trips"].by_hudi_bridge
            assert reason.startswith("Permission Error")
            assert_shows(connection, table.folder)


def test_other_file_systems_are_read_by_duckdb_with_the_file_system_of_the_table(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    table, elsewhere = partitioned(tmp_path / "t"), fsspec.filesystem("memory")
    elsewhere.put(str(table.folder), "/native", recursive=True)
    # Files that are gone would be answered from the cache.
    connection.execute("SET enable_external_file_cache = false")
    attached = attach(connection, "/native", "trips", filesystem=elsewhere)
    assert attached.plan()["trips"].is_native
    assert_shows(connection, table.folder)
    assert connection.execute("SELECT id FROM trips WHERE part = 'a' AND ts = 1").fetchall() == [("a2",)]
    assert any(name.startswith("hudi-bridge") for name in connection.list_filesystems())
    elsewhere.rm_file(next(path for path in elsewhere.find("/native/b") if path.endswith(".parquet")))
    with pytest.raises(duckdb.Error) as caught:
        connection.execute("SELECT max(value) FROM trips").fetchall()
    assert isinstance(attached.cause_of(caught.value), DataFileGoneError)
    attached.detach()
    assert not any(name.startswith("hudi-bridge") for name in connection.list_filesystems())


def test_threads_that_share_a_file_have_positions_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    errors: Errors = deque()
    files = TableFiles(Storage.open(tmp_path), {"file": 10}, errors)
    file = files.open(files.url("file"))
    file.seek(4)
    seen: list[bytes] = []
    other = Thread(target=lambda: seen.extend((file.read(2), file.read(1))))
    other.start()
    other.join()
    assert seen == [b"01", b"2"]
    assert (file.read(2), file.read(9)) == (b"45", b"6789")
    assert file.tell() == 10
    assert not errors


def test_a_file_that_is_shorter_than_it_was_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123")
    errors: Errors = deque()
    files = TableFiles(Storage.open(tmp_path), {"file": 10}, errors)
    file = files.open(files.url("file"))
    with pytest.raises(StorageError, match="it ends before its 10 bytes"):
        file.read(10)
    assert [error.path for error in errors if isinstance(error, StorageError)] == [str(tmp_path / "file")]


def test_many_slices_are_read_through_hudi_bridge(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = partitioned(tmp_path / "t", ("a", "b", "c"))
    monkeypatch.setattr(scans, "MOST_SLICES", 2)
    attached = attach(connection, table.folder, "trips")
    assert attached.plan()["trips"].reason == "there are more than 2 file slices"
    assert_shows(connection, table.folder)


@pytest.mark.parametrize(
    ("damage", "cause"),
    [("remove", DataFileGoneError), ("empty", CorruptBaseFileError), ("cut", CorruptBaseFileError)],
)
def test_a_base_file_that_duckdb_fails_on_is_named(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, damage: str, cause: type[HudiReadError]
) -> None:
    table = tmp_path / "table"
    shutil.copytree(golden_table(STORY), table)
    attached = attach(connection, table, "trips")
    connection.execute("SELECT count(*) FROM trips").fetchall()
    path = next(iter(table.glob("a/*.parquet")))
    content = path.read_bytes()
    path.unlink()
    if damage != "remove":
        path.write_bytes(content[: 0 if damage == "empty" else -10])
    with pytest.raises(duckdb.Error) as caught:
        connection.execute("SELECT max(name) FROM trips").fetchall()
    error = attached.cause_of(caught.value)
    assert isinstance(error, cause)
    assert path.name in str(error)


def test_a_base_file_that_is_damaged_before_does_not_hide_the_others(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    table = partitioned(tmp_path / "t")
    path = next(iter((table.folder / "b").glob("*.parquet")))
    path.write_bytes(b"no Parquet")
    attached = attach(connection, table.folder, "trips")
    assert attached.plan()["trips"].by_hudi_bridge == {"its base file cannot be read": 1}
    assert connection.execute("SELECT count(*) FROM trips WHERE part = 'a'").fetchall() == [(3,)]
    with pytest.raises(duckdb.Error) as caught:
        connection.execute("FROM trips").fetchall()
    assert isinstance(attached.cause_of(caught.value), CorruptBaseFileError)


def test_a_database_file_gets_native_views_for_the_connection_alone(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "t")
    with duckdb.connect(tmp_path / "some.duckdb") as connection:
        attached: Attached = attach(connection, table.folder, "trips")
        assert "READ_PARQUET" in plan_of(connection, "FROM trips")
        assert_shows(connection, table.folder)
        attached.detach()
        assert connection.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]


def test_a_merge_is_that_of_the_files_of_its_slice(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t").create()
    writer.base_file(at(1), [{"id": "k", "ts": 1, "value": "old"}])
    writer.commit(at(1))
    writer.log_file(at(2), [writer.data_block(at(2), [{"id": "k", "ts": 2, "value": "new"}])], base_instant=at(1))
    writer.commit(at(2))
    table = writer.open()
    (split,) = table.splits()
    merges = engines.MergedSlices(
        storage=table.storage, context=split.context, store=engines.MemoryStore(1 << 20), at_once=1
    )
    assert len(merges.deleted_positions(split, ["id"])) == 1
    assert len(merges.deleted_positions(replace(split, base_path=None, base_size_bytes=0), ["id"])) == 0
