from pathlib import Path

import pytest

from tests.integration import trino_jdk
from tests.integration.trino_jdk import JdkMissingError, find_java
from tests.integration.trino_server import Trino


def test_answers_queries(trino: Trino) -> None:
    assert trino.query("SELECT node_version FROM system.runtime.nodes") == [["476"]]


def test_catalogs_come_and_go(trino: Trino) -> None:
    with trino.catalog("passing", "memory", {"memory.max-data-per-node": "1MB"}):
        assert ["passing"] in trino.query("SHOW CATALOGS")
    assert ["passing"] not in trino.query("SHOW CATALOGS")


def jdk(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").touch()
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


def test_the_jdk_of_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(jdk(tmp_path / "mine", "24.0.1")))
    assert find_java() == tmp_path / "mine" / "bin" / "java"


def test_a_missing_jdk_is_told_with_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, older = jdk(tmp_path / "17", "17.0.2"), jdk(tmp_path / "8", "1.8.0_400")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(trino_jdk, "PLACES", (f"{tmp_path}/*",))
    with pytest.raises(JdkMissingError) as caught:
        find_java()
    assert "JDK 24 or newer" in str(caught.value)
    assert f"{old} is 17, {older} is 8" in str(caught.value)
