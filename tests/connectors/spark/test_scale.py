"""A table that Hudi writes, summed up on executors of which one is killed; the benchmark at a small size."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.connectors.spark.processes import ROOT, environment

pytestmark = pytest.mark.jvm


def test_sums_are_as_known_though_an_executor_is_killed(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.scale",
        "--partitions",
        "6",
        "--buckets",
        "2",
        "--rows-in-slice",
        "1000",
    ]
    command += ["--copies", "2", "--partition-bytes", "1", "--cache", str(tmp_path), "--ways", "read", "format"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(Path(sys.executable)), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith(("| read ", "| format "))]
    assert len(lines) == 2
    for line in lines:
        worker, driver = (int(cell.replace(",", "")) for cell in (line.split("|")[6], line.split("|")[9]))
        assert 0 < worker <= 4096
        assert driver > 0
