from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

Call = Callable[..., Outcome]


def test_the_demo_shows_what_logs_change_and_leaves_its_tables(
    hudi_bridge: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = hudi_bridge("demo")
    assert outcome.code == 0
    lines = [line.split() for line in outcome.text.splitlines()]
    assert ["deleted", "trip-1", "6.0", "—", "10", "—"] in lines
    assert ["changed", "trip-7", "12.0", "27.0", "10", "20"] in lines
    assert ["14", "12"] in lines  # rows of base files alone, and with logs
    assert ["12", "0", "0"] in lines  # rows of Hudi, and of Hudi Bridge alone, and of Hudi alone
    assert ["cd", "hudi-bridge-demo"] in lines
    assert hudi_bridge("read", "hudi-bridge-demo/trips", "--format", "csv").out.count(b"\n") == 13


def test_a_folder_that_has_something_else_by_the_name_of_a_table_is_refused(hudi_bridge: Call, tmp_path: Path) -> None:
    (tmp_path / "trips").mkdir()
    outcome = hudi_bridge("demo", "--to", str(tmp_path))
    assert outcome.code == 2
    assert outcome.err.startswith("hudi-bridge: --to: found something else than the sample at")
