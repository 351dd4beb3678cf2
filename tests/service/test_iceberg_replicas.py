"""Several services on one scratch folder, beside a writer, which are killed at any time."""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from hudi_bridge.connectors.iceberg.metadata import IcebergSnapshot
from tests.connectors.iceberg.snapshots import SLICES, Client, iceberg_rows, table, update
from tests.service.iceberg_service import built_snapshots
from tests.service.replicas import replicas
from tests.support.compare import differences
from tests.support.table_writer import TableWriter, at

__all__ = ["table"]  # a fixture
KILLS = 6
FAR_SECONDS = 4 * 3600.0


@pytest.mark.long
def test_services_that_are_killed_at_any_time_give_right_answers(
    table: TableWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(19)
    scratch = tmp_path / "scratch"
    uuids, newest = set(), 0
    with replicas(table.folder.parent, scratch) as both:
        both[0].load()
        for commit in range(3, 3 + KILLS):
            update(table, commit, chance.randrange(SLICES))
            table.commit(at(commit))
            killed = both[commit % 2]
            killing = threading.Timer(chance.random() * 0.3, killed.kill)
            killing.start()
            for replica in (both[0], both[1]) if killed is both[1] else (both[1], both[0]):
                if replica is killed:
                    killing.join()
                    killed.start()
                loaded = replica.load()
                current = loaded.current_snapshot()
                assert current is not None
                assert current.snapshot_id >= newest
                newest = current.snapshot_id
                uuids.add(loaded.metadata.table_uuid)
                for snapshot_id in built_snapshots(loaded):
                    expected = table.open().snapshot(str(snapshot_id)).to_table()
                    assert differences(expected, loaded.scan(snapshot_id=snapshot_id).to_arrow()) == []
    assert len(uuids) == 1
    assert newest == int(at(2 + KILLS))
    left_overs_go(table, next(scratch.glob("table-*")) / "snapshot", monkeypatch)


def left_overs_go(table: TableWriter, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, a service leaves nothing but what the newest snapshot needs."""
    (scratch / "data" / f".x-t{int(time.time()):08x}00000000-rows.parquet.1-2.part").write_bytes(b"half")
    now = time.time()
    with ThreadPoolExecutor(2) as builders:
        for later, keep_seconds in ((FAR_SECONDS, 10.0), (2 * FAR_SECONDS, 0.0)):
            monkeypatch.setattr(time, "time", lambda later=later: now + later)
            update(table, 20 + int(later / FAR_SECONDS), 0)
            table.commit(at(20 + int(later / FAR_SECONDS)))
            published = Client(table, scratch, builders, keep=1, keep_seconds=keep_seconds).load()
    names = {path.name for path in (scratch / "data").iterdir()}
    iceberg = StaticTable.from_metadata(published.location)
    tasks = list(iceberg.scan().plan_files())
    files = {task.file.file_path for task in tasks} | {
        delete_file.file_path for task in tasks for delete_file in task.delete_files
    }
    assert {path.rpartition("/")[2] for path in files if "/scratch/" in path} == names
    assert len(list((scratch / "slices").iterdir())) == SLICES
    assert len(list((scratch / "snapshots").iterdir())) == 1
    assert list((scratch / "tables").iterdir()) == [Path(published.location.removeprefix("file://"))]


@pytest.fixture
def builders() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def test_replicas_share_slices_and_snapshots(table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor) -> None:
    first, second = (Client(table, tmp_path / "scratch", builders) for _ in range(2))
    assert second.load() == first.load()
    update(table, 3, 0)
    table.commit(at(3))
    newest = second.load()
    assert first.load() == newest
    assert (first.built, second.built) == (0, SLICES + 1)
    assert differences(table.open().snapshot().to_table(), iceberg_rows(newest)) == []


def test_replicas_that_build_at_once_agree(table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor) -> None:
    both = [Client(table, tmp_path / "scratch", builders) for _ in range(2)]
    for commit in range(3, 6):
        update(table, commit, 0)
        table.commit(at(commit))
        with ThreadPoolExecutor(2) as clients:
            given = list(clients.map(lambda client: client.load(), both))
        for published in given:
            assert differences(table.open().snapshot().to_table(), iceberg_rows(published)) == []
        again = [client.load() for client in both]
        assert again[0] == again[1]


def test_a_state_that_another_replica_gives_out_keeps_its_files(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one drops the snapshot at once, for it keeps one."""
    reader, cleaner = (Client(table, tmp_path / "scratch", builders, keep=1, keep_seconds=60) for _ in range(2))
    now = time.time()
    given = reader.load()
    expected = iceberg_rows(given)
    for commit, later in ((3, 100), (4, 159)):
        monkeypatch.setattr(time, "time", lambda later=later: now + later)
        update(table, commit, 0)
        table.commit(at(commit))
        cleaner.load()
        assert differences(expected, iceberg_rows(given)) == []
    monkeypatch.setattr(time, "time", lambda: now + 161)
    update(table, 5, 0)
    table.commit(at(5))
    cleaner.load()
    with pytest.raises(FileNotFoundError):
        iceberg_rows(given)
    assert differences(table.open().snapshot().to_table(), iceberg_rows(reader.load())) == []


def test_files_of_a_build_that_is_under_way_stay(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that keeps nothing collects garbage while another is about to publish."""
    slow, fast = (Client(table, tmp_path / "scratch", builders, keep_seconds=0) for _ in range(2))
    records = slow.snapshots._snapshots
    publish = records.publish

    def publish_later(snapshot: IcebergSnapshot) -> IcebergSnapshot:
        update(table, 3, 1)
        table.commit(at(3))
        fast.load()
        return publish(snapshot)

    monkeypatch.setattr(records, "publish", publish_later)
    published = slow.load()
    assert differences(table.open().snapshot(at(2)).to_table(), iceberg_rows(published)) == []
