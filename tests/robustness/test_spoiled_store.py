"""A store that spoils half of its answers: reads end right or with a clear error, and in time."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hudi_bridge import HudiReadError, HudiTable, StorageError
from tests.support.s3_server import S3Server
from tests.support.table_writer import TableWriter, at, sorted_column

SLICES = 4
EXPECTED = sorted(["base", "log"] * SLICES)
LIMIT_SECONDS = 1.0
# Arrow's client makes three attempts of its own for each of ours.
MOST_SECONDS = 30


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", str(LIMIT_SECONDS))
    table = TableWriter(folder=tmp_path / "lake" / "trips").create()
    for number in range(SLICES):
        rows = [{"id": f"{number}-{row}", "ts": 1, "value": "base"} for row in range(2)]
        table.base_file(at(1), rows, file_id=f"f{number}-0")
        updates = [{"id": f"{number}-0", "ts": 2, "value": "log"}]
        table.log_file(at(2), [table.data_block(at(2), updates, file_id=f"f{number}-0")], file_id=f"f{number}-0")
    table.commit(at(1))
    table.commit(at(2))
    with S3Server(tmp_path).running() as server:
        yield server
    assert [item for item in threading.enumerate() if item.name.startswith("hudi-bridge-") and item.is_alive()] == []


def read(store: S3Server) -> list[str]:
    return sorted_column(HudiTable.open(store.uri("lake/trips")).snapshot().to_table(), "value")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["500", "503", "reset", "cut", "short"])
def test_half_of_the_answers_are_spoiled(store: S3Server, kind: str) -> None:
    chance = random.Random(kind)
    store.spoil = lambda *_: kind if chance.random() < 0.5 else None
    begun = time.monotonic()
    with suppress(HudiReadError):
        assert read(store) == EXPECTED
    assert time.monotonic() - begun < MOST_SECONDS


@pytest.mark.parametrize("method", ["LIST", "HEAD", "GET"])
def test_what_is_denied_is_told(store: S3Server, method: str) -> None:
    store.spoil = lambda asked, _: "403" if asked == method else None
    with pytest.raises(StorageError, match=r"lake/trips.*(?i:access|denied|forbidden)"):
        read(store)


@pytest.mark.parametrize("name", [".hoodie/hoodie.properties", "f0-0", "f1-0"])
def test_files_that_are_there_and_not_found_are_errors(store: S3Server, name: str) -> None:
    store.spoil = lambda method, path: "404" if method != "LIST" and name in path else None
    with pytest.raises(HudiReadError, match=name):
        read(store)


def test_a_stale_listing_of_the_timeline_is_an_earlier_state(store: S3Server) -> None:
    # The last entry is the newest completed commit; its log files do not count.
    store.spoil = lambda method, path: "stale" if method == "LIST" and path.endswith("timeline") else None
    assert read(store) == ["base"] * (2 * SLICES)
