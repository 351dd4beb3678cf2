"""A store that does not answer: every wait has a limit, says what it is for, and ends with Ctrl-C."""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs  # noqa: TID251 - a file system that a user might pass

from hudi_bridge import HudiTable, StorageError
from hudi_bridge.common.threads import call_with_timeout, has_abandoned_call, timeout_seconds
from hudi_bridge.storage.storage import Storage
from tests.robustness.failing_files import FailingHandler, Faults, Silent
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

ROOT = Path(__file__).parents[2]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A partitioned table of two records."""
    writer = TableWriter(folder=tmp_path / "trips", partition_fields=("value",)).create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}], partition="x")
    writer.log_file(at(2), [writer.data_block(at(2), [{"id": "b", "ts": 2, "value": "x"}])], partition="x")
    writer.commit(at(1))
    writer.commit(at(2))
    return writer.folder


def test_each_wait_has_a_limit_and_says_what_it_was_for(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Faults()
    assert HudiTable.open(str(table), fs.PyFileSystem(FailingHandler(counted))).snapshot().to_table().num_rows == 2
    monkeypatch.setenv("HUDI_BRIDGE_STORE_TIMEOUT", "0.1")
    operations = set()
    for number in range(counted.count):
        silent = Silent(number)
        with pytest.raises(StorageError, match=r"no answer within 0\.1 seconds") as caught:
            HudiTable.open(str(table), fs.PyFileSystem(FailingHandler(silent))).snapshot().to_table()
        silent.released.set()
        assert silent.path is not None
        assert caught.value.path in silent.path
        operations.add(caught.value.operation)
    # Small files are opened and read by one call.
    assert operations == {"list", "read"}


SCRIPT = """
import os, signal, sys, threading
from pyarrow import fs
from hudi_bridge import HudiTable
from tests.robustness.failing_files import FailingHandler, Silent

class Told(Silent):
    def next(self, path, *, is_read=False):
        if self.count == self.at:
            os.write(1, b"waiting\\n")
        return super().next(path, is_read=is_read)

# The tests may run in the background of a shell, whose processes ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
HudiTable.open(sys.argv[1], fs.PyFileSystem(FailingHandler(Told(int(sys.argv[2]))))).snapshot().to_table()
"""


@pytest.mark.parametrize("number", one_in(4, [0, 3, 5, 10]))
def test_ctrl_c_ends_a_wait(table: Path, number: int) -> None:
    command = [sys.executable, "-c", SCRIPT, str(table), str(number)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=15)
    assert "KeyboardInterrupt" in errors


def test_the_limit_is_two_minutes_or_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUDI_BRIDGE_STORE_TIMEOUT", raising=False)
    assert timeout_seconds() == 120
    for text, seconds in (("7.5", 7.5), ("", 120), ("soon", 120)):
        monkeypatch.setenv("HUDI_BRIDGE_STORE_TIMEOUT", text)
        assert timeout_seconds() == seconds


@pytest.mark.parametrize(
    ("uri", "option", "limit"),
    [
        ("s3://KEY:SECRET@bucket/t?region=eu", "request_timeout", 20),
        ("gs://anonymous@bucket/t", "retry_time_limit", 60),
        ("gs://bucket/t", "retry_time_limit", 60),
    ],
)
def test_arrows_own_clients_have_limits(uri: str, option: str, limit: int) -> None:
    options: Any = Storage.open(uri).filesystem.__reduce__()[1][0]
    actual = options[option]
    assert getattr(actual, "total_seconds", lambda: actual)() == limit


def test_within_returns_and_raises_what_the_call_does() -> None:
    assert call_with_timeout(5, lambda: 3) == 3
    with pytest.raises(ValueError, match="seven"):
        call_with_timeout(5, lambda: int("seven"))
    released = threading.Event()
    with pytest.raises(TimeoutError):
        call_with_timeout(0.01, released.wait)
    assert has_abandoned_call()
    released.set()
