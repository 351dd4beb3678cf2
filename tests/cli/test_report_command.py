from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome
from tests.support.golden_cases import golden_trips
from tests.tools.report.reports import NOW, Page

Call = Callable[..., Outcome]


def files_of(table: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in table.rglob("*")}


def test_the_command_writes_a_page_and_changes_nothing(hudi_bridge: Call, tmp_path: Path) -> None:
    table, target = golden_trips() / "trips", tmp_path / "report.html"
    before = files_of(table)
    outcome = hudi_bridge("report", str(table), "-o", str(target), "--now", NOW, "--key", "trip-7", "--key", "none")
    assert (outcome.code, outcome.text) == (0, "")
    assert outcome.err == "none is not in the table as of 20261122081117834\n"
    assert files_of(table) == before
    page = Page(target.read_text())
    assert page.open == []
    assert [link for link in page.links if not link.startswith("#")] == []
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)
    assert hudi_bridge("report", str(table), "-o", str(target), "--no-clobber").code == 1
    piped = hudi_bridge("report", str(table), "--now", NOW, "--key", "trip-7", "--key", "none")
    assert piped.out == target.read_bytes()


@pytest.mark.long
def test_a_page_is_not_written_to_a_terminal(in_terminal: Callable[..., str]) -> None:
    shown = in_terminal("report", str(golden_trips() / "trips"), columns=200)
    assert "--output" in shown
    assert "<html" not in shown


def test_what_cannot_be_opened_ends_with_1(hudi_bridge: Call, tmp_path: Path) -> None:
    assert hudi_bridge("report", str(tmp_path), "-o", str(tmp_path / "x.html")).code == 1
    assert not (tmp_path / "x.html").exists()
    assert hudi_bridge("report", str(golden_trips() / "trips"), "--now", "tomorrow").code == 2
