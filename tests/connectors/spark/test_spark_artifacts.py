"""The package brought to the workers of a server of Spark Connect by a client, as docs/spark.md says."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.spark.connect_server import connect_server, counts_of
from tests.connectors.spark.processes import output_of
from tests.connectors.spark.standalone import make_environment, pack, write_package
from tests.support.golden_cases import golden_table

pytestmark = pytest.mark.jvm

STORY = "a_story_v9_120"


@pytest.fixture(scope="module")
def dependencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of the server's workers: with the dependencies, and without the package."""
    return make_environment(tmp_path_factory.mktemp("dependencies") / "environment")


@pytest.fixture(scope="module")
def url(dependencies: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("connect"), dependencies) as running:
        yield running


def test_the_package_as_a_python_file(url: str, tmp_path: Path) -> None:
    table = golden_table(STORY)
    output = output_of("connect_job.py", url, str(table), str(write_package(tmp_path)))
    assert json.loads(output.splitlines()[-1]) == counts_of(table)


def test_a_packed_environment(url: str, dependencies: Path, tmp_path: Path) -> None:
    pack(dependencies, tmp_path / "environment.zip")
    table = golden_table(STORY)
    output = output_of("connect_job.py", url, str(table), f"{tmp_path / 'environment.zip'}#environment")
    actual = json.loads(output.splitlines()[-1])
    # The server plans the format by its own Python.
    assert "No module named 'hudi_bridge'" in actual["format"]
    assert actual == counts_of(table) | {"format": actual["format"]}


def test_without_artifacts_the_error_says_what_is_missing(url: str) -> None:
    with pytest.raises(AssertionError, match=r"found no module hudi_bridge in Python 3\.\d+ of a worker"):
        output_of("connect_job.py", url, str(golden_table(STORY)))
