"""Ctrl-C at any moment: the read ends, with all of its threads."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.golden_cases import golden_table

_TABLES = ("c_rollback_block_0150", "a_story_v9_120")
_REPOSITORY = Path(__file__).parents[2]


@pytest.mark.long
def test_interrupts_leave_no_thread_and_no_hang() -> None:
    folders = [str(golden_table(name)) for name in _TABLES]
    command = [sys.executable, "-m", "tests.robustness.interrupted_reads", "60", *folders]
    ended = subprocess.run(command, cwd=_REPOSITORY, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(ended.stdout) == {"interrupted": 60, "errors": [], "threads": []}
