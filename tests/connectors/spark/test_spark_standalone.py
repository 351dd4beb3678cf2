"""The package on a standalone cluster of Spark, brought to the workers as docs/spark.md says."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hudi_bridge import __version__
from tests.connectors.spark.processes import HERE, ROOT
from tests.connectors.spark.standalone import WORKERS, Cluster, make_environment, standalone_cluster
from tests.support.compare import differences
from tests.support.golden_queries import QUERIES, answer_of

pytestmark = pytest.mark.jvm

CASES = ("a_story_v9_120", "i_cow_120")
WAYS = ("read", "format", "view")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def dependencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the dependencies, and without the package."""
    return make_environment(tmp_path_factory.mktemp("dependencies") / "environment")


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


def require_answers(folder: Path) -> None:
    for case in CASES:
        for way in WAYS:
            assert differences(answer_of(QUERIES[case, 0]), pq.read_table(folder / way / case)) == [], (way, case)


def test_a_packed_environment(cluster: Cluster, dependencies: Path, tmp_path: Path) -> None:
    environment = dependencies.parents[1]
    (packages,) = environment.glob("lib/python*/site-packages")
    shutil.copytree(ROOT / "hudi_bridge", packages / "hudi_bridge", ignore=shutil.ignore_patterns("__pycache__"))
    try:
        # Spark's own tar takes no program from an archive: their permission to run is lost.
        shutil.make_archive(str(tmp_path / "environment"), "zip", environment)
    finally:
        shutil.rmtree(packages / "hudi_bridge")
    # The driver plans queries of the format by the same path.
    (tmp_path / "environment").symlink_to(environment)
    printed = run_job(cluster, tmp_path, "./environment/bin/python", "--archives", "environment.zip#environment")
    assert printed == [{"executors": WORKERS}]
    require_answers(tmp_path)


def test_a_zip_file_beside_the_dependencies(cluster: Cluster, dependencies: Path, tmp_path: Path) -> None:
    archive = tmp_path / "hudi_bridge.zip"
    subprocess.run([sys.executable, "-m", "hudi_bridge.connectors.spark.package", archive], cwd=ROOT, check=True)
    printed = run_job(cluster, tmp_path, str(dependencies), "--py-files", str(archive))
    assert printed == [{"executors": WORKERS}]
    require_answers(tmp_path)


def test_workers_without_the_package_say_so(cluster: Cluster, dependencies: Path, tmp_path: Path) -> None:
    *errors, _ = run_job(cluster, tmp_path, str(dependencies), cases=CASES[:1])
    assert {error["way"] for error in errors} == set(WAYS)
    for error in errors:
        if error["way"] == "format":
            # The process that plans it on the machine of the driver has the Python of the workers, too.
            assert "No module named 'hudi_bridge'" in error["text"]
            continue
        cause = error["cause"]
        assert cause.startswith("workers: found no module hudi_bridge in Python 3.")
        assert f"expected hudi-bridge {__version__} and its dependencies: see Clusters in docs/spark.md" in cause
        assert cause in error["text"]
        assert error["way"] == "read" or "Traceback" not in error["text"]
