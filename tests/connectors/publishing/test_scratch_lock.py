"""One process a scratch folder, on a local disk and in a store that knows no locks."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from hudi_bridge.connectors.publishing import scratch_lock
from hudi_bridge.connectors.publishing.scratch import Scratch
from hudi_bridge.connectors.publishing.scratch_lock import locked
from hudi_bridge.errors import QueryError
from hudi_bridge.storage import Storage

LOCK = ".hudi-bridge.lock"
HOLDER = """
import sys, time
from hudi_bridge.connectors.publishing.scratch import Scratch
from hudi_bridge.connectors.publishing.scratch_lock import locked
with locked(Scratch.open(sys.argv[1]), print):
    print("held", flush=True)
    time.sleep(60)
"""


class WholeFile(MemoryFile):  # type: ignore[misc]  # fsspec is not typed
    """A file that appears with all of its bytes, as objects of a store do."""

    is_whole = False

    def close(self) -> None:
        # Python closes it once more when it lets go of it, and the file may have been removed by then.
        if not self.is_whole:
            self.is_whole = True
            self.commit()


class Store(MemoryFileSystem):  # type: ignore[misc]
    """A store in memory whose readers and writers do not share a file."""

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode == "wb":
            return WholeFile(self, path)
        with super()._open(path, mode, **options) as file:
            return io.BytesIO(file.getvalue())


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scratch]:
    """A folder of a store in memory, where nobody waits for long."""
    monkeypatch.setattr(scratch_lock, "_RENEWAL_SECONDS", 0.05)
    monkeypatch.setattr(scratch_lock, "_STALE_SECONDS", 0.5)
    monkeypatch.setattr(scratch_lock, "_POLL_SECONDS", 0.02)
    store = Store()
    yield Scratch(storage=Storage.open(f"/scratch{tmp_path}", store))
    with suppress(FileNotFoundError):
        store.rm(f"/scratch{tmp_path}", recursive=True)


def never() -> None:
    raise AssertionError


def test_a_local_folder_has_one_holder(tmp_path: Path) -> None:
    scratch = Scratch.open(str(tmp_path / "new"))
    with locked(scratch, never), pytest.raises(QueryError, match=r"process \d+ on"), locked(scratch, never):
        pass
    with locked(scratch, never):
        pass


def test_a_killed_process_holds_no_local_folder(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(QueryError, match=f"process {holder.pid} on"), locked(Scratch.open(str(tmp_path)), never):
            pass
        holder.kill()
    with locked(Scratch.open(str(tmp_path)), never):
        pass


def test_what_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(QueryError, match="nothing can be written"), locked(Scratch.open(f"{tmp_path}/file"), never):
        pass


def test_a_remote_folder_has_one_holder(remote: Scratch) -> None:
    with locked(remote, never), pytest.raises(QueryError, match=r"process \d+ on"), locked(remote, never):
        pass
    assert remote.read(LOCK) is None
    with locked(remote, never):
        pass


@pytest.mark.parametrize("left", [b"{}", json.dumps({"host": "gone", "pid": 7, "nonce": "a"}).encode(), b"\xff"])
def test_a_lock_that_nobody_renews_is_taken(remote: Scratch, left: bytes) -> None:
    remote.write(LOCK, left)
    with locked(remote, never):
        assert remote.read(LOCK) != left


def test_a_holder_that_has_lost_its_folder_is_told(remote: Scratch) -> None:
    lost = Event()
    with locked(remote, lost.set):
        while not lost.wait(0.01):
            remote.write(LOCK, b'{"host": "other", "pid": 7}')
    assert remote.read(LOCK) == b'{"host": "other", "pid": 7}'
