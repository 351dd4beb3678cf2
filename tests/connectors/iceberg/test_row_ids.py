"""Ids of rows in version 3, given by several services to the tables of one scratch folder."""

import json
import random
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hudi_bridge.connectors.iceberg.compatibility import FormatVersion
from hudi_bridge.connectors.iceberg.metadata import IcebergSnapshot
from hudi_bridge.connectors.iceberg.row_lineage import RowIdClaims
from hudi_bridge.connectors.iceberg.slice_files import Folder
from hudi_bridge.connectors.scratch import Scratch
from hudi_bridge.errors import StorageError
from tests.connectors.iceberg.asking import row_ids
from tests.connectors.iceberg.scratch_on_s3 import endpoint, iceberg_rows, names
from tests.connectors.iceberg.snapshots import SLICES, Client, builders, table, update
from tests.service.iceberg_service import built_snapshots
from tests.service.replicas import replicas
from tests.support.compare import differences
from tests.support.table_writer import TableWriter, at

__all__ = ["builders", "endpoint", "table"]  # fixtures
COMMITS = 5
SCHEDULES = 300
V3 = FormatVersion.V3


def are_disjoint(ranges: Iterable[range]) -> bool:
    in_order = sorted(ranges, key=lambda one: one.start)
    return all(one.stop <= following.start for one, following in pairwise(in_order))


def test_two_services_that_build_at_once_give_different_ids(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    """One publishes while the other is about to, with a file of base rows that has an id in both."""
    slow, fast = (Client(table, tmp_path / "scratch", builders, format_version=V3) for _ in range(2))
    records = slow.snapshots._snapshots
    publish = records.publish
    given: list[dict[str, range]] = []

    def publish_later(snapshot: IcebergSnapshot) -> IcebergSnapshot:
        update(table, 3, 1)
        table.commit(at(3))
        given.append(ids_of(fast.load().metadata))
        return publish(snapshot)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "publish", publish_later)
        given.append(ids_of(slow.load().metadata))
    files = {(path, one) for ids in given for path, one in ids.items()}
    assert are_disjoint(one for _, one in files)
    assert len({path for path, _ in files}) > SLICES
    # From now on, both know what the other one has given out.
    update(table, 4, 2)
    table.commit(at(4))
    newest = ids_of(slow.load().metadata)
    assert ids_of(fast.load().metadata) == newest
    for number in (5, 6):
        update(table, number, 2)
        table.commit(at(number))
        later = ids_of((fast, slow)[number % 2].load().metadata)
        assert {path: later[path] for path in later.keys() & newest.keys()} == {
            path: newest[path] for path in later.keys() & newest.keys()
        }
        assert are_disjoint({*newest.values(), *later.values()})


def ids_of(metadata: str) -> dict[str, range]:
    """The ids of the rows of the files of the newest snapshot."""
    return row_ids(json.loads(metadata)["snapshots"][-1])


@pytest.mark.long
def test_processes_that_share_a_folder_give_disjoint_ids(table: TableWriter, tmp_path: Path) -> None:
    """They load the same instants and others at the same time, and one of them is killed now and then."""
    chance = random.Random(3)
    given: dict[str, set[range]] = {}
    with replicas(table.folder.parent, tmp_path / "scratch", format_version=V3) as both, ThreadPoolExecutor(2) as pool:
        for commit in range(3, 3 + COMMITS):
            update(table, commit, chance.randrange(SLICES))
            table.commit(at(commit))
            instants = [None, None] if commit % 2 else [None, at(commit - 1)]
            loaded = list(pool.map(lambda pair: pair[0].load(pair[1]), zip(both, instants, strict=True)))
            for item in loaded:
                for snapshot_id in built_snapshots(item):
                    snapshot = item.snapshot_by_id(snapshot_id)
                    assert snapshot is not None
                    for path, ids in row_ids({"manifest-list": snapshot.manifest_list}).items():
                        given.setdefault(path, set()).add(ids)
            both[commit % 2].kill()
            both[commit % 2].start()
        newest = [row_ids({"manifest-list": item.load().metadata.snapshots[-1].manifest_list}) for item in both]
        assert newest[0] == newest[1]
        assert differences(table.open().snapshot().to_table(), both[0].load().scan().to_arrow()) == []
    assert len(given) > SLICES
    assert are_disjoint(item for ranges in given.values() for item in ranges)


class Turns:
    """A folder whose users take turns, one call at a time, in an order that chance gives."""

    def __init__(self, seed: int, users: int) -> None:
        self._chance = random.Random(seed)
        self._ready = threading.Condition()
        self._waiting: set[int] = set()
        self._running = users
        self._turn: int | None = None
        self.files: set[str] = set()

    def use(self, change: Callable[[], Any]) -> Any:
        """Wait for a turn, and use it."""
        me = threading.get_ident()
        with self._ready:
            self._waiting.add(me)
            self._next()
            assert self._ready.wait_for(lambda: self._turn == me, timeout=30)
            self._waiting.remove(me)
            self._turn = None
            return change()

    def leave(self) -> None:
        with self._ready:
            self._running -= 1
            self._next()

    def _next(self) -> None:
        if self._turn is None and self._waiting and len(self._waiting) == self._running:
            self._turn = self._chance.choice(sorted(self._waiting))
            self._ready.notify_all()


class TurnsOfScratch:
    """As much of a scratch folder as claims need."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def names(self, folder: str) -> tuple[str, ...]:
        actual: tuple[str, ...] = self._turns.use(lambda: tuple(sorted(self._turns.files)))
        return tuple(name.removeprefix(f"{folder}/") for name in actual)

    def write(self, name: str, _: bytes) -> None:
        self._turns.use(lambda: self._turns.files.add(name))

    def remove(self, name: str) -> None:
        self._turns.use(lambda: self._turns.files.discard(name))


def test_claims_are_disjoint_in_whatever_order_services_come() -> None:
    chance = random.Random(7)
    for seed in range(SCHEDULES):
        counts = [[chance.randrange(1, 9) for _ in range(2)] for _ in range(3)]
        turns = Turns(seed, len(counts))

        def claim(own: list[int], turns: Turns = turns) -> list[range]:
            scratch: Any = TurnsOfScratch(turns)
            claims = RowIdClaims(scratch)
            try:
                return [range(first, first + count) for count in own for first in [claims.claim(count, 5)]]
            finally:
                turns.leave()

        with ThreadPoolExecutor(len(counts)) as services:
            actual = [item for ranges in services.map(claim, counts) for item in ranges]
        assert len(actual) == 6
        assert min(item.start for item in actual) >= 5
        assert are_disjoint(actual)


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch.open(str(tmp_path / "scratch"))


def test_a_claim_follows_the_last_one_and_takes_its_place(scratch: Scratch) -> None:
    claims, others = RowIdClaims(scratch), RowIdClaims(scratch)
    assert [claims.claim(10, 0), others.claim(5, 0), claims.claim(0, 3), others.claim(0, 99)] == [0, 10, 15, 99]
    assert [name.rpartition("-")[0] for name in scratch.names(Folder.CLAIMS)] == ["10-15"]
    assert claims.claim(1, 40) == 40
    # Of a service that has ended before it was sure.
    scratch.write(f"{Folder.CLAIMS}/41-50-t0.claim", b"")
    scratch.write(f"{Folder.CLAIMS}/not-a-claim", b"")
    assert others.claim(7, 0) == 50


@pytest.mark.long
def test_services_claim_ids_in_a_store(table: TableWriter, endpoint: str, builders: ThreadPoolExecutor) -> None:
    scratch = Scratch.open(f"s3://key:secret@views/t?scheme=http&region=us-east-1&endpoint_override={endpoint}")
    loaded = []
    for commit in range(2, 5):
        if commit > 2:
            update(table, commit, 0)
            table.commit(at(commit))
        loaded.append(Client(table, scratch, builders, format_version=V3).load())
    ranges = [
        range(load["first-row-id"], load["first-row-id"] + load["added-rows"])
        for load in json.loads(loaded[-1].metadata)["snapshots"]
        if load["snapshot-id"] >= int(at(2))
    ]
    assert [item.start for item in ranges] == [0, ranges[0].stop, ranges[1].stop]
    assert all(ranges)
    (claim,) = names(endpoint, Folder.CLAIMS)
    assert claim.startswith(f"{ranges[-1].start}-{ranges[-1].stop}-")
    assert differences(table.open().snapshot().to_table(), iceberg_rows(loaded[-1], endpoint)) == []


def test_a_claim_that_always_comes_too_late_is_an_error(scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = RowIdClaims(scratch)
    write = Scratch.write

    def write_both(self: Scratch, name: str, content: bytes) -> None:
        end = int(name.partition("/")[2].split("-")[1])
        write(self, f"{Folder.CLAIMS}/{end}-{end + 1}-t{time.monotonic_ns()}.claim", content)
        write(self, name, content)

    monkeypatch.setattr(Scratch, "write", write_both)
    with pytest.raises(StorageError, match="other services claim ids"):
        claims.claim(3, 0)
