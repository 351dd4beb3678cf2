import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa

from hudi_bridge.connectors.duckdb.merge_folder import FolderStore
from hudi_bridge.engines import MergedSlice

ROUNDS, THREADS, KEYS = 100, 4, 3


def merged(number: int) -> MergedSlice:
    rows = pa.table({"n": np.full(100, number)})
    return MergedSlice(counted={"001": True}, deleted_positions=np.arange(number), rows=rows)


def test_folders_that_are_removed_while_others_use_them_are_made_again(tmp_path: Path) -> None:
    """Each merge removes those of other slices, and their folders, as two do not fit."""

    def use(thread: int) -> None:
        store = FolderStore(tmp_path, 2_000)
        for turn in range(ROUNDS):
            number = (thread + turn) % KEYS
            assert store.keep(f"slice{number}", merged(number)).rows.equals(merged(number).rows)
            for found in store.find(f"slice{turn % KEYS}"):
                assert len(found.deleted_positions) == turn % KEYS

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(use, range(THREADS)))
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.arrow")) <= THREADS * 2_000


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "cache", 100_000)
    store.keep("slice1", merged(1))
    shutil.rmtree(tmp_path / "cache")
    assert store.keep("slice2", merged(2)).rows.equals(merged(2).rows)
    assert [len(one.deleted_positions) for one in store.find("slice2")] == [2]


def test_files_that_another_process_has_removed_do_not_stay_mapped(tmp_path: Path) -> None:
    stores = [FolderStore(tmp_path, 10_000) for _ in range(2)]
    for number in range(60):
        stores[number % 2].keep(f"slice{number}", merged(number))
        assert len(list(stores[1 - number % 2].find(f"slice{number}"))) == 1
    maps = Path("/proc/self/maps").read_text().splitlines()
    gone = [line for line in maps if str(tmp_path) in line and line.endswith("(deleted)")]
    assert len(gone) < 20
