import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import browser
from tests.support.browser import BrowserMissingError, chromium, main


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose only programs are those in one folder, and a user who is not root."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(browser, "PLACES", (f"{tmp_path}/Chromium.app",))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    return folder


def program(path: Path) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def commands(programs: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that root runs, of which an installation brings Chromium."""
    ran: list[str] = []

    def run(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        ran.append(" ".join(command))
        if "install" in command:
            program(programs / "chromium")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return ran


def test_the_named_program_comes_first(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = program(programs / "google-chrome")
    assert chromium() == on_path
    monkeypatch.setenv("CHROMIUM", str(program(tmp_path / "mine")))
    assert chromium() == tmp_path / "mine"
    assert main() == 0


def test_an_application_is_found(tmp_path: Path) -> None:
    assert program(tmp_path / "Chromium.app") == chromium()


def test_a_missing_browser_is_told_with_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BrowserMissingError, match="--no-install-recommends chromium fonts-dejavu-core"):
        chromium()
    assert main() == 1
    assert "The tests of pages need Chromium" in capsys.readouterr().err


def test_root_has_it_installed(programs: Path, commands: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 1
    program(programs / "apt-get")
    assert main() == 0
    assert f"Pages are opened by {programs}/chromium" in capsys.readouterr().out
    assert [command.split()[1] for command in commands] == ["update", "install"]
    assert main() == 0
    assert len(commands) == 2


def test_an_installation_that_fails_is_told(
    programs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    apt = program(programs / "apt-get")
    apt.write_text("#!/bin/sh\necho no network >&2\nexit 100\n")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert main() == 1
    assert "apt-get update -qq ends with 100:\nno network" in capsys.readouterr().err
