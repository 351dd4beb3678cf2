"""Tables in a store: how many requests they take, what is in flight, and what happens if requests fail."""

import threading
import time
from collections.abc import Iterator
from itertools import starmap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import CorruptBaseFileError, DataFileGoneError, HudiReadError, HudiTable, StorageError
from hudi_bridge.common.threads import Workers
from hudi_bridge.readers.base_formats.parquet import ColumnChunks
from hudi_bridge.readers.request import SplitRead
from hudi_bridge.readers.small_slices import SmallSlices, SmallSlicesReader
from hudi_bridge.split_reader import bytes_ahead, slices_at_once
from hudi_bridge.storage.ranges import FileOfRanges
from hudi_bridge.storage.retries import may_pass, retry_seconds, with_retries
from hudi_bridge.storage.storage import Storage
from tests.support.compare import differences
from tests.support.counting_files import CountingFileSystem
from tests.support.golden_cases import golden_table
from tests.support.s3_server import S3Server
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, sorted_column
from tests.support.waiting import wait_for

SLICES = 12


def written(folder: Path, slices: int = SLICES, logs: int = 1) -> Path:
    """A table of slices with a base file and log files each; the logs update the first of two rows."""
    table = TableWriter(folder=folder).create()
    for number in range(slices):
        rows = [{"id": f"{number}-{row}", "ts": 1, "value": "base"} for row in range(2)]
        table.base_file(at(1), rows, file_id=f"f{number}-0")
        for log in range(logs):
            updates = [{"id": f"{number}-0", "ts": 2 + log, "value": f"log {log}"}]
            table.log_file(at(2 + log), [table.data_block(at(2 + log), updates)], file_id=f"f{number}-0")
    for commit in range(1 + logs):
        table.commit(at(1 + commit))
    return folder


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    yield
    assert [item for item in threading.enumerate() if item.name.startswith("hudi-bridge-") and item.is_alive()] == []


@pytest.fixture
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """No base file is fetched whole."""
    monkeypatch.setattr("hudi_bridge.readers.fetch_ahead._ALWAYS_WHOLE_BYTES", 0)
    monkeypatch.setattr("hudi_bridge.readers.fetch_ahead._WHOLE_BYTES", 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[S3Server]:
    written(tmp_path / "lake" / "trips")
    with S3Server(tmp_path).running() as server:
        yield server


def values(table: HudiTable, **options: Any) -> list[str]:
    return sorted_column(table.snapshot().to_table(**options), "value")


EXPECTED = sorted(["base", "log 0"] * SLICES)


@pytest.mark.parametrize("logs", [1, 3])
def test_small_slices_take_a_request_for_each_file(tmp_path: Path, logs: int) -> None:
    files = CountingFileSystem()
    table = HudiTable.open(str(written(tmp_path / "t", logs=logs)), files)
    assert len(list(table.snapshot().splits())) == SLICES
    requests = files.reset()
    assert values(table) == sorted(["base", f"log {logs - 1}"] * SLICES)
    assert set(requests.by_file.values()) == {1}
    assert requests.reads == SLICES * (1 + logs)
    stored = sum(path.stat().st_size for path in (tmp_path / "t").glob("*f*-0*"))
    assert requests.read_bytes == stored


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of small slices that are read together; reads begin when all files of a table have arrived."""
    sizes: list[int] = []
    item_groups = Workers.item_groups

    def waiting(workers: Workers[Any], most: int) -> Iterator[list[Any]]:
        wait_for(lambda: not workers._is_starting)
        for thread in workers._threads:
            thread.join(60)
        return item_groups(workers, most)

    class Noting(SmallSlicesReader):
        def __init__(self, read: SplitRead[SmallSlices]) -> None:
            sizes.append(len(read.split.slices))
            super().__init__(read)

    monkeypatch.setattr(Workers, "item_groups", waiting)
    monkeypatch.setattr("hudi_bridge.split_reader.SmallSlicesReader", Noting)
    return sizes


@pytest.mark.parametrize("is_alone", [False, True])
def test_small_slices_that_have_arrived_are_read_together(
    tmp_path: Path, groups: list[int], monkeypatch: pytest.MonkeyPatch, *, is_alone: bool
) -> None:
    if is_alone:
        # Their rows turn out to be too many; their files are not asked for once more.
        monkeypatch.setattr("hudi_bridge.readers.small_slices.ROWS_PER_BATCH", 1)
    files = CountingFileSystem()
    table = HudiTable.open(str(written(tmp_path / "t")), files)
    list(table.snapshot().splits())
    requests = files.reset()
    assert values(table) == EXPECTED
    assert groups == [SLICES]
    assert set(requests.by_file.values()) == {1}
    assert requests.reads == 2 * SLICES
    # With a filter, they are read one by one.
    assert values(table, filter=pc.field("ts") > 1) == ["log 0"] * SLICES
    assert groups == [SLICES]


def test_an_error_in_slices_that_are_read_together_names_the_file(tmp_path: Path, groups: list[int]) -> None:
    dataset = HudiTable.open(str(written(tmp_path / "t")), CountingFileSystem()).snapshot()
    log = next((tmp_path / "t").glob(".f3-0*.log*"))
    log.write_bytes(log.read_bytes().replace(b"log 0", b"\xff" * 5))
    with pytest.raises(HudiReadError, match="f3-0"):
        dataset.to_table()
    assert groups == [SLICES]


@pytest.mark.parametrize("name", ["b_partial_update_payload_0150", "e_multilevel_0150", "h_column_stats_120"])
def test_slices_of_a_store_have_the_rows_of_local_ones(groups: list[int], name: str) -> None:
    path = golden_table(name)
    expected = HudiTable.open(path).snapshot().to_table()
    actual = HudiTable.open(str(path), CountingFileSystem()).snapshot().to_table()
    assert differences(expected, actual) == []
    assert max(groups) > 1


@pytest.mark.usefixtures("all_are_large")
def test_a_larger_base_file_takes_a_request_for_its_footer_and_one_for_neighbouring_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudi_bridge.readers.base_formats.footers._USUAL_FOOTER_BYTES", 4096)
    table = TableWriter(folder=tmp_path / "t").create()
    rows = [{"id": f"key {row}", "ts": row, "value": f"{row * 7919 % 65521:x}"} for row in range(6000)]
    path = table.base_file(at(1), rows, row_group_size=3000)
    table.commit(at(1))
    files = CountingFileSystem()
    opened = HudiTable.open(str(table.folder), files)
    for columns, groups in ((None, 2), (["value"], 2)):
        requests = files.reset()
        assert opened.snapshot().to_table(columns).num_rows == len(rows)
        assert requests.by_file == {path.name: 1 + groups}
    of_value = sum(pq.ParquetFile(path).metadata.row_group(group).column(7).total_compressed_size for group in range(2))
    assert requests.read_bytes == 4096 + of_value
    # Columns that are far from one another are not fetched with what is between them.
    monkeypatch.setattr("hudi_bridge.readers.base_formats.parquet._MAX_GAP_BYTES", 0)
    requests = files.reset()
    assert opened.snapshot().to_table(["id", "value"]).num_rows == len(rows)
    assert requests.by_file == {path.name: 1 + 2 * 2}
    monkeypatch.setattr("hudi_bridge.readers.base_formats.parquet._REQUEST_BYTES", 5000)
    requests = files.reset()
    assert opened.snapshot().to_table(["value"]).column("value").to_pylist() == [row["value"] for row in rows]
    assert requests.reads > 3


@pytest.mark.usefixtures("all_are_large")
def test_a_footer_that_is_larger_than_expected_is_asked_for_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudi_bridge.readers.base_formats.footers._USUAL_FOOTER_BYTES", 64)
    table = TableWriter(folder=tmp_path / "t").create()
    path = table.base_file(at(1), [{"id": f"key {row}", "ts": row, "value": "x" * 40} for row in range(6000)])
    table.commit(at(1))
    files = CountingFileSystem()
    dataset = HudiTable.open(str(table.folder), files).snapshot()
    requests = files.reset()
    assert dataset.to_table(["value"]).num_rows == 6000
    assert requests.by_file == {path.name: 2 + 1}


def test_the_files_of_a_slice_are_fetched_at_the_same_time(tmp_path: Path) -> None:
    written(tmp_path / "lake" / "one", 1, logs=4)
    with S3Server(tmp_path).running() as store:
        dataset = HudiTable.open(store.uri("lake/one")).snapshot()
        assert len(list(dataset.splits())) == 1
        store.latency = 0.05
        traffic = store.reset()
        assert dataset.to_table().num_rows == 2
        assert traffic.most_at_once == 1 + 4


@pytest.mark.parametrize("row_groups", [1, 2, 5])
def test_the_next_row_group_is_fetched_while_one_is_decoded(tmp_path: Path, row_groups: int) -> None:
    rows = pa.table({"a": list(range(1000)), "b": ["text"] * 1000})
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=1000 // row_groups, use_dictionary=False)
    files = CountingFileSystem()
    file = Storage.open(str(tmp_path), files).open_ranges("f.parquet")
    footer = pq.read_metadata(tmp_path / "f.parquet")
    chunks = ColumnChunks(file, footer)
    for group in range(row_groups):
        then = group + 1 if group + 1 < row_groups else None
        with chunks.fetched(group, ["a"], then):
            deadline = time.monotonic() + 10
            while files.requests.reads < min(group + 2, row_groups) and time.monotonic() < deadline:
                time.sleep(0.005)
            assert files.requests.reads == min(group + 2, row_groups)
            column = footer.row_group(group).column(0)
            assert file.holds(column.data_page_offset, column.total_compressed_size // 2)
    assert files.requests.reads == row_groups
    with chunks.fetched(0, ["a"], 0):
        pass
    chunks.close()


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize(("ahead", "most"), [(0, 1), (1, 2)])
def test_a_store_holds_what_is_decoded_and_a_limited_part_of_what_follows(
    tmp_path: Path, ahead: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableWriter(folder=tmp_path / "t").create()
    rows = [{"id": f"key {row}", "ts": row, "value": f"{row * 7919 % 65521:x}" * 9} for row in range(12_000)]
    path = table.base_file(at(1), rows, row_group_size=2000)
    table.log_file(at(2), [table.data_block(at(2), [{"id": "key 7", "ts": 10**6, "value": "new"}])])
    table.commit(at(1))
    table.commit(at(2))
    footer = pq.read_metadata(path)
    groups = [
        sum(footer.row_group(group).column(number).total_compressed_size for number in range(footer.num_columns))
        for group in range(6)
    ]
    monkeypatch.setattr("hudi_bridge.readers.base_formats.parquet._MAX_AHEAD_BYTES", ahead * max(groups))
    held: list[int] = []
    hold = FileOfRanges.hold

    def counted(file: FileOfRanges, start: int, content: pa.Buffer) -> int:
        number = hold(file, start, content)
        held.append(sum(one.size for first, one in tuple(file._buffers.values()) if first < sum(groups)))
        return number

    monkeypatch.setattr(FileOfRanges, "hold", counted)
    actual = HudiTable.open(str(table.folder), CountingFileSystem()).snapshot().to_table()
    assert sorted_column(actual, "value") == sorted(
        ["new", *(str(row["value"]) for row in rows if row["id"] != "key 7")]
    )
    assert len(held) >= 6
    assert max(held) <= most * max(groups) + (1 << 17)


@pytest.mark.parametrize("logged", [0, 1])
def test_large_row_groups_of_a_store_are_read_piece_by_piece(
    tmp_path: Path, logged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in (
        "fetch_ahead._ALWAYS_WHOLE_BYTES",
        "fetch_ahead._WHOLE_BYTES",
        "base_formats.parquet._MAX_FETCHED_BYTES",
    ):
        monkeypatch.setattr(f"hudi_bridge.readers.{limit}", 0)
    monkeypatch.setattr("hudi_bridge.readers.base_formats.parquet._FETCHED_BUFFER_BYTES", 4096)
    table = TableWriter(folder=tmp_path / "t").create()
    rows: list[dict[str, Any]] = [
        {"id": f"key {row}", "ts": row, "value": f"{row * 7919 % 65521:x}" * 9} for row in range(12_000)
    ]
    path = table.base_file(at(1), rows, row_group_size=6000)
    table.commit(at(1))
    updates: list[dict[str, Any]] = [{"id": "key 7", "ts": 10**6, "value": "new"}]
    if logged:
        table.log_file(at(2), [table.data_block(at(2), updates)])
        table.commit(at(2))
    files = CountingFileSystem()
    opened = HudiTable.open(str(table.folder), files)
    requests = files.reset()
    expected = {str(row["id"]): row["value"] for row in rows} | {
        str(row["id"]): row["value"] for row in updates[:logged]
    }
    assert sorted_column(opened.snapshot().to_table(), "value") == sorted(expected.values())
    size = path.stat().st_size
    assert requests.by_file[path.name] > 2 * len(table.arrow_schema)
    assert requests.read_bytes < 2 * size + (1 << 17)


def test_nothing_is_asked_of_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.parquet").touch()
    files = CountingFileSystem()
    assert Storage.open(str(tmp_path), files).read_bytes("empty.parquet") == b""
    assert files.requests.reads == 0


@pytest.mark.parametrize("size", [0, 1, 100, 101, 450, 1000])
def test_pieces_of_a_large_file_are_fetched_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("hudi_bridge.storage.ranges.PIECE_BYTES", 100)
    content = bytes(number % 251 for number in range(size))
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "large").write_bytes(content)
    with S3Server(tmp_path, latency=0.05).running() as store:
        storage = Storage.open(store.uri("lake"))
        assert storage.read_bytes("large") == content
        pieces = -(-size // 100)
        assert store.traffic.requests["GET"] == pieces
        assert store.traffic.most_at_once == max(1, min(4, pieces))


def test_a_piece_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_bridge.storage.ranges.PIECE_BYTES", 100)
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "0.3")
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "large").write_bytes(bytes(1000))
    with S3Server(tmp_path).running() as store:
        storage = Storage.open(store.uri("lake"))
        store.faults += ["503"] * 10_000
        with pytest.raises(StorageError, match=r"large.*: cannot read"):
            storage.read_bytes("large")


def test_clients_of_arrow_ask_for_the_size_as_well(store: S3Server) -> None:
    table = HudiTable.open(store.uri("lake/trips"))
    assert len(list(table.snapshot().splits())) == SLICES
    traffic = store.reset()
    assert values(table) == EXPECTED
    assert traffic.requests == {"HEAD": 2 * SLICES, "GET": 2 * SLICES}
    assert set(traffic.by_file.values()) == {2}


@pytest.mark.parametrize(
    ("table", "rounds"),
    one_in(3, starmap(pytest.param, [("n_merge_every_120", 7), ("h_all_indexes_120", 8), ("w_operation_120", 6)])),
)
def test_a_plan_asks_for_few_things_one_after_another(table: str, rounds: int) -> None:
    # Arrow asks for the size of each file before it reads it: properties (2), the timeline (1), the newest commit (2).
    # Folders, other commits and at last the timeline are read beside it. A file with rows follows, if the properties do
    # not say whether rows have operations (2). A commit of deletes has no such file.
    # Where a machine is busy, requests of one round may start at different times, but not again and again.
    assert any(_rounds_of_plan(Path(golden_table(table))) <= rounds for _ in range(3))


def _rounds_of_plan(folder: Path) -> int:
    with S3Server(folder.parents[1], latency=0.2).running() as store:
        opened = HudiTable.open(store.uri(f"{folder.parent.name}/{folder.name}"))
        assert list(opened.snapshot().splits())
        return store.traffic.rounds


def test_the_wait_for_requests_is_hidden(store: S3Server) -> None:
    table = HudiTable.open(store.uri("lake/trips"))
    assert len(list(table.snapshot().splits())) == SLICES
    store.latency = 0.1
    traffic = store.reset()
    assert values(table) == EXPECTED
    # All base and log files can be asked for at the same time.
    assert traffic.mean_at_once > SLICES // 2


def test_a_uri_of_s3_has_as_many_connections_as_files_are_fetched(tmp_path: Path) -> None:
    written(tmp_path / "lake" / "trips", 30)
    with S3Server(tmp_path).running() as store:
        threads = pa.io_thread_count()
        table = HudiTable.open(store.uri("lake/trips"))
        assert pa.io_thread_count() == threads
        assert len(list(table.snapshot().splits())) == 30
        store.latency = 0.5
        traffic = store.reset()
        assert len(values(table)) == 2 * 30
        # Arrow's client has 25 by itself.
        assert traffic.most_at_once > 25


def test_bytes_and_slices_in_flight_are_limited(store: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    table = HudiTable.open(store.uri("lake/trips"))
    store.latency = 0.02
    for variable, limit in (("HUDI_BRIDGE_STORE_SLICES", "3"), ("HUDI_BRIDGE_STORE_BYTES", "1")):
        with monkeypatch.context() as patched:
            patched.setenv(variable, limit)
            traffic = store.reset()
            assert values(table) == EXPECTED
            assert traffic.most_at_once <= 3
    assert slices_at_once() > 3
    monkeypatch.setenv("HUDI_BRIDGE_STORE_SLICES", "many")
    assert slices_at_once() == 64
    assert 0 < bytes_ahead() <= 256 << 20


def test_what_is_read_first_is_there_before_the_rest_is_asked_for(
    store: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDI_BRIDGE_STORE_SLICES", "2")
    table = HudiTable.open(store.uri("lake/trips"))
    list(table.snapshot().splits())
    store.latency = 0.02
    traffic = store.reset()
    assert table.snapshot().head(1).num_rows == 1
    assert traffic.requests["GET"] < SLICES


@pytest.mark.parametrize("kind", one_in(3, ["503", "500", "reset", "cut"]))
def test_requests_that_fail_for_a_while_are_repeated(store: S3Server, kind: str) -> None:
    table = HudiTable.open(store.uri("lake/trips"))
    list(table.snapshot().splits())
    store.faults += [kind, kind]
    assert values(table) == EXPECTED
    assert store.faults == []


@pytest.mark.parametrize("kind", one_in(2, ["503", "cut"]))
def test_an_error_that_stays_names_the_file(store: S3Server, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "0.3")
    table = HudiTable.open(store.uri("lake/trips"))
    list(table.snapshot().splits())
    store.faults += [kind] * 10_000
    with pytest.raises(StorageError, match=r"f\d+-0.*: cannot read"):
        values(table)


def test_a_file_that_is_gone_is_told(store: S3Server) -> None:
    table = HudiTable.open(store.uri("lake/trips"))
    list(table.snapshot().splits())
    next((store.root / "lake" / "trips").glob("f3-0*")).unlink()
    with pytest.raises(DataFileGoneError, match="f3-0"):
        values(table)


def test_a_consumer_that_stops_early_stops_all_threads(store: S3Server) -> None:
    table = HudiTable.open(store.uri("lake/trips"))
    list(table.snapshot().splits())
    store.latency = 0.05
    traffic = store.reset()
    batches = table.snapshot().to_batches()
    next(batches)
    del batches
    asked = sum(traffic.requests.values())
    time.sleep(0.2)
    assert sum(traffic.requests.values()) == asked


def test_a_base_file_of_another_size_than_listed_is_refused(tmp_path: Path) -> None:
    dataset = HudiTable.open(str(written(tmp_path / "t", 1)), CountingFileSystem()).snapshot()
    assert len(list(dataset.splits())) == 1
    base = next((tmp_path / "t").glob("f0-0*"))
    pq.write_table(pa.concat_tables([pq.read_table(base)] * 30), base, compression="none", use_dictionary=False)
    with pytest.raises(CorruptBaseFileError, match=r"f0-0.*\.parquet"):
        dataset.to_table()


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize("damage", ["footer", "column"])
def test_damage_is_told_as_damage(tmp_path: Path, damage: str) -> None:
    dataset = HudiTable.open(str(written(tmp_path / "t", 1)), CountingFileSystem()).snapshot()
    base = next((tmp_path / "t").glob("f0-0*"))
    content = bytearray(base.read_bytes())
    footer_bytes = int.from_bytes(content[-8:-4], "little")
    first = len(content) - 8 - footer_bytes if damage == "footer" else 4
    content[first : first + 40] = b"\xff" * 40
    base.write_bytes(content)
    with pytest.raises(CorruptBaseFileError, match=r"f0-0.*\.parquet"):
        dataset.to_table()


class Flaky:
    """Fails as often as it has errors."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


class StatusError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__("the store says no")
        self.status = status


class ResponseError(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.response = {"ResponseMetadata": {"HTTPStatusCode": 503}}


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError("reset"),
        TimeoutError("timed out"),
        StatusError(503),
        StatusError(500),
        ResponseError("no"),
        OSError(16, "Please reduce your request rate."),
        RuntimeError("503 Slow Down"),
        RuntimeError("Server disconnected"),
    ],
)
def test_errors_that_pass(error: Exception) -> None:
    assert may_pass(error)
    wrapped = OSError(5, "it failed")
    wrapped.__cause__ = error
    assert may_pass(wrapped)
    assert with_retries(Flaky(error), may_pass) == "answer"


@pytest.mark.parametrize(
    "error", [FileNotFoundError("x"), PermissionError("x"), StatusError(403), OSError(5, "x"), ValueError("x")]
)
def test_errors_that_stay(error: Exception) -> None:
    flaky = Flaky(error, error)
    with pytest.raises(type(error)):
        with_retries(flaky, may_pass)
    assert len(flaky.errors) == 1


def test_retries_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "0.25")
    flaky = Flaky(*[ConnectionResetError(str(number)) for number in range(1000)])
    started = time.monotonic()
    with pytest.raises(ConnectionResetError):
        with_retries(flaky, may_pass)
    assert time.monotonic() - started < 2
    assert 990 < len(flaky.errors) < 1000
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "soon")
    assert retry_seconds() == 20
