"""Damages copies of golden tables."""

import shutil
from pathlib import Path

from tests.support.golden_cases import golden_table


def copy_with_damaged_logs(case: str, target: Path) -> Path:
    """A copy of a table whose log records are overwritten; block boundaries stay as they are."""
    table = target / "table"
    shutil.copytree(golden_table(case), table)
    for log in table.glob("*/.*.log.*"):
        content = bytearray(log.read_bytes())
        size = len(content)
        content[size // 2 : size - 60] = b"\xff" * (size - 60 - size // 2)
        log.write_bytes(content)
    return table
