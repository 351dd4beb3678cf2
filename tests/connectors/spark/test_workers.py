"""Python workers: the version that they run, and what they import again."""

import importlib
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkNotImplementedError

from hudi_bridge import __version__
from hudi_bridge.connectors.spark import cause_of, locate_keys, read, register
from hudi_bridge.connectors.spark.package import write_package
from hudi_bridge.connectors.spark.sessions import dropping_zip_importers, on_workers, require_version_of_driver
from hudi_bridge.errors import QueryError

OWN = "{}.{}".format(*sys.version_info[:2])


def python_of(version: str, folder: Path, name: str = "python3") -> str:
    """A program that says that it is a Python of a version."""
    program = folder / name
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)
    return str(program)


def test_another_version_is_told_with_both_and_with_what_to_do(tmp_path: Path) -> None:
    other = python_of("3.9", tmp_path)
    with pytest.raises(QueryError) as caught:
        require_version_of_driver(other)
    text = str(caught.value)
    for part in ("PYSPARK_PYTHON", "Python 3.9", f"Python {OWN}", other, sys.executable):
        assert part in text


def test_the_first_python_of_the_path_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python_of("3.9", tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(QueryError, match=r"Python 3\.9"):
        require_version_of_driver("python3")


def test_the_same_version_will_do_and_so_will_one_that_is_not_here(tmp_path: Path) -> None:
    require_version_of_driver(sys.executable)
    require_version_of_driver(python_of(OWN, tmp_path))
    require_version_of_driver("./environment/bin/python")
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    require_version_of_driver(str(broken))


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_who_asks(tmp_path: Path, master: str) -> None:
    """On a cluster ``read`` plans in the driver itself, and runs nothing else on its machine."""
    context = SimpleNamespace(pythonExec=python_of("3.9", tmp_path), master=master, defaultParallelism=2)
    session: Any = SimpleNamespace(sparkContext=context)
    with pytest.raises(QueryError, match="PYSPARK_PYTHON"):
        register(session)
    expected = QueryError if master.startswith("local") else FileNotFoundError
    with pytest.raises(expected):
        read(session, "/nowhere")


def test_a_server_of_spark_connect_in_this_process_is_asked_for_its_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of workers of a server elsewhere nothing is known, and ``read`` goes on to open the table."""
    monkeypatch.setenv("PYSPARK_PYTHON", python_of("3.9", tmp_path))
    session: Any = SimpleNamespace()
    monkeypatch.delenv("SPARK_LOCAL_REMOTE", raising=False)
    with pytest.raises(FileNotFoundError):
        read(session, "/nowhere")
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")
    for ask in (register, lambda session: read(session, "/nowhere")):
        with pytest.raises(QueryError, match="PYSPARK_PYTHON"):
            ask(session)


def test_spark_connect_of_an_older_pyspark_is_refused() -> None:
    class Session:
        @property
        def sparkContext(self) -> object:  # noqa: N802 - Spark's name
            raise PySparkNotImplementedError("sparkContext")

    session: Any = Session()
    keys: Any = None
    for ask in (register, lambda session: read(session, "/nowhere"), lambda session: locate_keys(session, "", keys)):
        with pytest.raises(QueryError, match="Spark Connect"):
            ask(session)


def in_bare_python(function: Callable[[int], Any], argument: int) -> str:
    """The output of a function in a Python that has PySpark, and not this package."""
    program = "import pickle, sys; sys.path.append(sys.argv[1]); print(pickle.load(sys.stdin.buffer)(int(sys.argv[2])))"
    command = [sys.executable, "-I", "-S", "-c", program, str(Path(pyspark.__file__).parents[1]), str(argument)]
    done = subprocess.run(command, input=cloudpickle.dumps(function), capture_output=True, check=False)  # type: ignore[no-untyped-call]
    return (done.stdout or done.stderr).decode().strip()


def test_a_worker_without_the_package_says_so() -> None:
    text = in_bare_python(on_workers(abs), -3)
    message, note = text.splitlines()[-2:]
    expected = f"hudi-bridge {__version__} and its dependencies: see Clusters in docs/spark.md"
    assert message.startswith(f"ModuleNotFoundError: workers: found no module hudi_bridge in Python {OWN} of a worker")
    assert message.endswith(f", expected {expected}")
    cause = cause_of(RuntimeError(note))
    assert isinstance(cause, QueryError)
    assert f"ModuleNotFoundError: {cause}" == message


def test_a_worker_with_the_package_runs_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    run = on_workers(abs)
    assert pickle.loads(cloudpickle.dumps(run))(-3) == run(-3) == 3  # type: ignore[no-untyped-call]
    monkeypatch.setattr("hudi_bridge.__version__", "0.0.9")
    with pytest.raises(ModuleNotFoundError, match=r"found hudi-bridge 0\.0\.9 in Python"):
        run(-3)


@pytest.mark.long
def test_the_package_as_a_zip_file(tmp_path: Path) -> None:
    archive = write_package(tmp_path / "hudi_bridge.zip")
    command = [sys.executable, "-c", "import hudi_bridge.connectors.spark as s; print(s.__file__)"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": archive}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith(archive), done.stderr
    with zipfile.ZipFile(archive) as content:
        assert not [name for name in content.namelist() if "__pycache__" in name]
    with pytest.raises(QueryError, match=r"a name that ends with \.zip"):
        write_package(tmp_path / "hudi_bridge.whl")


def archive_of(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An archive in the path, with a package that has the name and a module in it."""
    path = str(folder / f"{name}.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "")
        archive.writestr(f"{name}/inner.py", "ANSWER = 42")
    monkeypatch.syspath_prepend(path)
    return path


def test_only_archives_that_the_process_was_started_with_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, added = archive_of(tmp_path, "started_with", monkeypatch), archive_of(tmp_path, "added_later", monkeypatch)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{own}")
    importlib.import_module("started_with")
    importlib.import_module("added_later")
    assert {own, added} <= set(sys.path_importer_cache)
    with pytest.raises(KeyError), dropping_zip_importers():
        raise KeyError
    assert not [path for path in sys.path_importer_cache if path.startswith(own)]
    assert added in sys.path_importer_cache
    assert importlib.import_module("started_with.inner").ANSWER == 42
