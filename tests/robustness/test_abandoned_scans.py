"""Consumers that walk away from a thousand scans leave no file, thread or memory behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.abandoned_scans import WAYS
from tests.support.table_writer import TableWriter, at

MUCH_LOG_MEMORY = 1 << 30
SCANS = 500
# Those that merge on disk take longer.
SLOW_SCANS = 10
MOST_ALLOCATED_BYTES = 1 << 20
MOST_RESIDENT_BYTES = 16 << 20
_REPOSITORY = Path(__file__).parents[2]


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


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("log_memory_bytes", "scans"), [(MUCH_LOG_MEMORY, SCANS), (1, SLOW_SCANS)])
def test_a_thousand_scans_that_nobody_finishes(way: str, log_memory_bytes: int, scans: int, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    folder = written(tmp_path / "t")
    program = "tests.robustness.abandoned_scans"
    command = [sys.executable, "-m", program, way, str(scans), str(log_memory_bytes), str(folder)]
    environment = os.environ | {"TMPDIR": str(scratch)}
    ended = subprocess.run(
        command, cwd=_REPOSITORY, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    left = json.loads(ended.stdout)
    assert left["files"] <= 0
    # Arrow's own threads may have come and gone.
    assert left["threads"] <= 0
    assert left["scratch"] == 0
    assert left["allocated"] < MOST_ALLOCATED_BYTES
    assert left["resident"] < MOST_RESIDENT_BYTES
