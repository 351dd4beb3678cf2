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
