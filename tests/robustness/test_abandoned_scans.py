"""Consumers that walk away from a thousand scans leave no file, thread or memory behind."""

import gc
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_bridge import HudiTable, open_reader
from tests.table_writer import TableWriter, at

SCANS = 500
# Those that merge on disk take longer.
SLOW_SCANS = 10
# Arrow's thread pools and Python's allocator settle in the first scans.
SHARE_OF_FIRST = 10
MOST_KEPT_BYTES = 8 << 20


def written(folder: Path) -> Path:
    table = TableWriter(folder=folder).create()
    for number in range(3):
        rows = [{"id": f"{number}-{row}", "ts": 1, "value": "x" * 100} for row in range(200)]
        table.base_file(at(1), rows, file_id=f"f{number}-0", row_group_size=50)
        updates = [{"id": f"{number}-0", "ts": 2, "value": "log"}]
        table.log_file(at(2), [table.data_block(at(2), updates, file_id=f"f{number}-0")], file_id=f"f{number}-0")
    table.commit(at(1))
    table.commit(at(2))
    return folder


def batches_left(table: HudiTable) -> None:
    next(table.snapshot().to_batches())


def readers_left(table: HudiTable) -> None:
    next(open_reader(table.splits()[0]).batches())


def small_memory(folder: Path) -> HudiTable:
    return HudiTable.open(folder, log_memory_bytes=1)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.long
@pytest.mark.parametrize("leave", [batches_left, readers_left])
@pytest.mark.parametrize(("opened", "scans"), [(HudiTable.open, SCANS), (small_memory, SLOW_SCANS)])
def test_a_thousand_scans_that_nobody_finishes(
    leave: Callable[[HudiTable], None],
    opened: Callable[[Path], HudiTable],
    scans: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    table = opened(written(tmp_path / "t"))

    def state() -> tuple[int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208 - of this process

    for _ in range(scans // SHARE_OF_FIRST):
        leave(table)
    before, kept, allocated = state(), resident_bytes(), pa.total_allocated_bytes()
    for _ in range(scans):
        leave(table)
    files, threads = state()
    assert files <= before[0]
    # Arrow's own threads may have come and gone.
    assert threads <= before[1]
    assert list(scratch.iterdir()) == []
    assert pa.total_allocated_bytes() - allocated < MOST_KEPT_BYTES
    assert resident_bytes() - kept < 4 * MOST_KEPT_BYTES
