import errno
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hudi_bridge import QueryError
from hudi_bridge.connectors.duckdb.merge_folder import FolderStore
from tests.connectors.duckdb.merged_slices import merged

ROUNDS, THREADS, KEYS = 100, 4, 3


def test_folders_that_are_removed_while_others_use_them_are_made_again(tmp_path: Path) -> None:
    """Each merge removes those of other slices, and their folders, as two do not fit."""

    def use(thread: int) -> None:
        store = FolderStore(tmp_path, 2_000)
        for turn in range(ROUNDS):
            number = (thread + turn) % KEYS
            assert store.keep(f"slice{number}", merged(number)).rows.equals(merged(number).rows)
            for candidate in store.find(f"slice{turn % KEYS}"):
                assert len(candidate.deleted_positions) == turn % KEYS

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(use, range(THREADS)))
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.arrow")) <= THREADS * 2_000


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "cache", 100_000)
    store.keep("slice1", merged(1))
    shutil.rmtree(tmp_path / "cache")
    assert store.keep("slice2", merged(2)).rows.equals(merged(2).rows)
    assert [len(item.deleted_positions) for item in store.find("slice2")] == [2]


def test_files_that_another_process_has_removed_do_not_stay_mapped(tmp_path: Path) -> None:
    stores = [FolderStore(tmp_path, 10_000) for _ in range(2)]
    for number in range(60):
        stores[number % 2].keep(f"slice{number}", merged(number))
        assert len(list(stores[1 - number % 2].find(f"slice{number}"))) == 1
    maps = Path("/proc/self/maps").read_text().splitlines()
    gone = [line for line in maps if str(tmp_path) in line and line.endswith("(deleted)")]
    assert len(gone) < 20


def test_damaged_files_count_as_missing(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, 100_000)
    store.keep("slice1", merged(50))
    (path,) = tmp_path.rglob("*.arrow")
    whole = path.read_bytes()
    assert len(list(FolderStore(tmp_path, 100_000).find("slice1"))) == 1
    damages = [bytes(len(whole)), b"", whole[:-1], whole[:40], whole + b"\0"]
    damages += [whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :] for at in range(0, len(whole), 7)]
    for damaged in damages:
        path.write_bytes(damaged)
        assert list(FolderStore(tmp_path, 100_000).find("slice1")) == []
    path.write_bytes(whole)
    # A file of another slice is no file of this one.
    path.parent.rename(tmp_path / "slice2")
    assert list(FolderStore(tmp_path, 100_000).find("slice2")) == []


def test_a_folder_that_takes_no_files_is_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> tuple[int, str]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "mkstemp", full)
    store = FolderStore(tmp_path / "cache", 100_000)
    for number in (1, 2):
        assert store.keep(f"slice{number}", merged(number)).rows.equals(merged(number).rows)
        assert [len(item.deleted_positions) for item in store.find(f"slice{number}")] == [number]
    assert caplog.text.count("merges are kept in memory") == 1
    assert "No space left" in caplog.text


def test_a_disk_that_becomes_full_while_a_file_is_written_is_no_cache(tmp_path: Path) -> None:
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000));"
        "from hudi_bridge.connectors.duckdb.merge_folder import FolderStore;"
        "from tests.connectors.duckdb.merged_slices import merged;"
        "store = FolderStore(sys.argv[1], 100_000);"
        "assert store.keep('slice', merged(500)).rows.num_rows == 100;"
        "assert len(list(store.find('slice'))) == 1"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    with pytest.raises(QueryError, match="others can write to"):
        FolderStore(tmp_path / "cache", 100_000)


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(QueryError, match="belongs to somebody else"):
        FolderStore(tmp_path, 100_000)
    (tmp_path / "file").touch()
    with pytest.raises(QueryError, match="no folder"):
        FolderStore(tmp_path / "file", 100_000)
