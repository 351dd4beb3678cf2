"""The package on a standalone cluster of Spark, brought to the workers as docs/spark.md says."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hudi_bridge import __version__
from tests.connectors.spark.processes import HERE, PYTHON35
from tests.connectors.spark.standalone import (
    PYTHON,
    WORKERS,
    Cluster,
    make_environment,
    pack,
    standalone_cluster,
    write_package,
)
from tests.support.compare import differences
from tests.support.golden_queries import QUERIES, answer_of

pytestmark = pytest.mark.jvm

CASES = ("a_story_v9_120", "i_cow_120")


@pytest.fixture(scope="module", params=[PYTHON, PYTHON35], ids=["4.x", "3.5"])
def cluster(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), request.param) as running:
        yield running


@pytest.fixture(scope="module")
def dependencies(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the dependencies, and without the package."""
    return make_environment(tmp_path_factory.mktemp("dependencies") / "environment", cluster.python)


def ways_of(cluster: Cluster) -> set[str]:
    return {"read", "view", *(["format"] if cluster.has_format else [])}


def run_job(
    cluster: Cluster, folder: Path, python: str, *options: str, cases: Sequence[str] = CASES
) -> list[dict[str, Any]]:
    """What the job prints, as documents."""
    queries = [QUERIES[case, 0] for case in cases]
    asked = [{"name": query.case, "path": str(query.table), "options": query.reader_options} for query in queries]
    (folder / "queries.json").write_text(json.dumps(asked))
    done = cluster.submit(python, *options, str(HERE / "standalone_job.py"), str(folder), cwd=folder)
    errors = [line for line in done.stderr.splitlines() if " INFO " not in line]
    assert done.returncode == 0, "\n".join(errors)[:4000]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def require_answers(cluster: Cluster, folder: Path) -> None:
    for case in CASES:
        for way in ways_of(cluster):
            assert differences(answer_of(QUERIES[case, 0]), pq.read_table(folder / way / case)) == [], (way, case)


# Spark 3.5 forgets of a zip that programs may be run.
@pytest.mark.parametrize("cluster", [PYTHON], indirect=True, ids=["4.x"])
def test_a_packed_environment(cluster: Cluster, dependencies: Path, tmp_path: Path) -> None:
    pack(dependencies, tmp_path / "environment.zip")
    # The driver plans queries of the format by the same path.
    (tmp_path / "environment").symlink_to(dependencies.parents[1])
    printed = run_job(cluster, tmp_path, "./environment/bin/python", "--archives", "environment.zip#environment")
    assert printed == [{"executors": WORKERS}]
    require_answers(cluster, tmp_path)


def test_a_zip_file_beside_the_dependencies(cluster: Cluster, dependencies: Path, tmp_path: Path) -> None:
    archive = write_package(tmp_path)
    printed = run_job(cluster, tmp_path, str(dependencies), "--py-files", str(archive))
    assert printed == [{"executors": WORKERS}]
    require_answers(cluster, tmp_path)


def test_workers_without_the_package_say_so(cluster: Cluster, dependencies: Path, tmp_path: Path) -> None:
    *errors, _ = run_job(cluster, tmp_path, str(dependencies), cases=CASES[:1])
    assert {error["way"] for error in errors} == ways_of(cluster)
    for error in errors:
        if error["way"] == "format":
            # The process that plans it on the machine of the driver has the Python of the workers, too.
            assert "No module named 'hudi_bridge'" in error["text"]
            continue
        cause = error["cause"]
        assert cause.startswith("workers: found no module hudi_bridge in Python 3.")
        assert f"expected hudi-bridge {__version__} and its dependencies: see Clusters in docs/spark.md" in cause
        assert cause in error["text"]
        # PySpark 3.5 always tells it.
        assert error["way"] == "read" or not cluster.has_format or "Traceback" not in error["text"]
