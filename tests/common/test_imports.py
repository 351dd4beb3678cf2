"""How messages say where an extra comes from."""

import json
import shlex
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from hudi_bridge.common.imports import how_to_install


class Installed(Distribution):
    """A package as an installer leaves it; ``origin`` is its ``direct_url.json``."""

    def __init__(self, origin: object) -> None:
        self._origin = origin

    def read_text(self, filename: str) -> str | None:
        return json.dumps(self._origin) if self._origin is not None and filename == "direct_url.json" else None

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[Installed]:
    packages: list[Installed] = []
    monkeypatch.setattr("importlib.metadata.distributions", lambda *, name: packages if name == "hudi-bridge" else [])
    return packages


def test_a_package_of_an_index_is_named(installed: list[Installed]) -> None:
    installed.append(Installed(None))
    assert how_to_install("duckdb") == "pip install 'hudi-bridge[duckdb]'"


def test_a_checkout_or_a_wheel_is_named_by_its_path(installed: list[Installed], tmp_path: Path) -> None:
    folder, wheel = tmp_path / "my folder", tmp_path / "hudi_bridge-0.1.0-py3-none-any.whl"
    folder.mkdir()
    wheel.touch()
    # That of the index lies in the checkout, where setuptools leaves it.
    installed += [Installed(None), Installed({"url": folder.as_uri(), "dir_info": {"editable": True}})]
    assert shlex.split(how_to_install("cli")) == ["pip", "install", "-e", f"{folder}[cli]"]
    installed[:] = [Installed({"url": folder.as_uri(), "dir_info": {}})]
    assert shlex.split(how_to_install("cli")) == ["pip", "install", f"{folder}[cli]"]
    installed[:] = [Installed({"url": wheel.as_uri(), "archive_info": {}})]
    assert how_to_install("cli") == f"pip install '{wheel}[cli]'"


def test_a_repository_or_a_file_of_a_server_is_named_by_its_address_without_a_password(
    installed: list[Installed],
) -> None:
    url = "https://me:secret@git.test/bridge.git"
    installed.append(Installed({"url": url, "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}))
    assert how_to_install("hive") == "pip install 'hudi-bridge[hive] @ git+https://git.test/bridge.git@c0ffee'"
    installed[:] = [Installed({"url": "https://files.test/bridge.whl", "archive_info": {}})]
    assert how_to_install("hive") == "pip install 'hudi-bridge[hive] @ https://files.test/bridge.whl'"


def test_without_a_source_the_extra_is_named_alone(installed: list[Installed], tmp_path: Path) -> None:
    assert how_to_install("glue") == "install hudi-bridge with its extra glue"
    installed.append(Installed({"url": (tmp_path / "removed.whl").as_uri(), "archive_info": {}}))
    assert how_to_install("glue") == "install hudi-bridge with its extra glue"
