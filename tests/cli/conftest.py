import os
import pty
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from hudi_bridge.cli.main import run
from tests.connectors.damage import copy_with_damaged_logs
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at

ROOT = Path(__file__).parent.parent.parent
COMMAND = (sys.executable, "-W", "error", "-c", "from hudi_bridge.cli.main import main; main()")


PAYLOAD = """
from hudi_bridge import RecordPayload


class Adding(RecordPayload):
    def combine_and_get_update_value(self, current, incoming):
        return {**incoming, "ts": current["ts"] + incoming["ts"]}


NOTHING = 5
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """A table with a user's payload, and the options that name it."""

    table: str
    payload: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


@pytest.fixture
def story() -> str:
    return str(golden_table("a_story_v9_120"))


@pytest.fixture
def damaged_table(tmp_path: Path) -> Path:
    return copy_with_damaged_logs("a_story_v9_120", tmp_path)


@pytest.fixture
def counters(tmp_path: Path) -> Counters:
    """A table with a base row and a log record of one key, whose numbers the payload adds up."""
    options = {"hoodie.record.merge.mode": "CUSTOM", "hoodie.compaction.payload.class": "com.acme.Adding"}
    writer = TableWriter(folder=tmp_path / "t", options=options).create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "v"}])
    writer.log_file(at(2), [writer.data_block(at(2), [{"id": "a", "ts": 2, "value": "w"}])])
    writer.commit(at(1))
    writer.commit(at(2))
    (tmp_path / "mine.py").write_text(PAYLOAD)
    named = ("--payload", f"com.acme.Adding={tmp_path}/mine.py:Adding")
    return Counters(table=str(writer.folder), payload=named)


@pytest.fixture
def hudi_bridge(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Outcome]:
    """Runs the command in this process, with its output in pipes."""

    def call(*arguments: str) -> Outcome:
        code = run(arguments)
        out, err = capfdbinary.readouterr()
        return Outcome(code=code, out=out, err=err.decode())

    return call


@pytest.fixture
def in_terminal(tmp_path: Path) -> Callable[..., str]:
    """Runs the command in a terminal, types the given text, and returns what the terminal shows."""

    def call(*arguments: str, typed: str = "", columns: int = 80, **variables: str) -> str:
        ours, theirs = pty.openpty()
        environment = {
            **os.environ,
            "COLUMNS": str(columns),
            "LINES": "40",
            "TERM": "dumb",
            "HOME": str(tmp_path),
            "PYTHONPATH": str(ROOT),
            **variables,
        }
        process = subprocess.Popen([*COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        os.write(ours, typed.encode())
        seen = b""
        try:
            while piece := os.read(ours, 4096):
                seen += piece
        except OSError:
            pass  # Linux reports the end of a terminal as an error
        os.close(ours)
        process.wait(timeout=60)
        return seen.decode().replace("\r\n", "\n")

    return call
