"""The blocks of docs/orchestration.md in Dagster and Airflow; run by ``make dbt`` in the environment that has both."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest

from tests.support.snippets import ROOT, Block, blocks_of
from tests.support.table_writer import TableWriter, at

TIMEOUT_SECONDS = 600


def block_of(engine: str) -> Block:
    (blocks,) = blocks_of("tests/connectors/check_orchestration.py").values()
    (block,) = (block for block in blocks if block.engine == engine)
    return block


@pytest.fixture
def trips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableWriter:
    """A table with one commit, in the current folder."""
    table = TableWriter(folder=tmp_path / "trips").create()
    table.commit(at(1), wrote=[table.base_file(at(1), [{"id": "a", "ts": 1, "value": "first"}])])
    monkeypatch.chdir(tmp_path)
    return table


def add(table: TableWriter) -> Path:
    """A second commit; returns its log file."""
    log = table.log_file(at(2), [table.data_block(at(2), [{"id": "b", "ts": 2, "value": "second"}])])
    table.commit(at(2), wrote=[log])
    return log


def written() -> dict[str, list[Any]]:
    """The ids in the files that runs have written."""
    return {path.stem: pq.read_table(path).column("id").to_pylist() for path in Path().glob("written-*.parquet")}


def test_dagster_reads_what_new_commits_wrote(trips: TableWriter) -> None:
    block, names = block_of("dagster"), dict[str, Any]()
    exec(compile("\n" * (block.line - 1) + block.text, block.page, "exec"), names)
    instance = dg.DagsterInstance.ephemeral()

    def poll(cursor: str | None) -> Any:
        context = dg.build_sensor_context(instance, cursor, definitions=names["definitions"])
        return names["new_commits"](context)

    def run() -> Any:
        job = names["definitions"].resolve_job_def("read_trips")
        return job.execute_in_process(instance=instance, raise_on_error=False)

    first = poll(None)
    assert [request.run_key for request in first.run_requests] == [first.cursor]
    assert run().success
    assert written() == {"written-after-earliest": ["a"]}
    assert isinstance(poll(first.cursor), dg.SkipReason)
    log = add(trips)
    assert len(poll(first.cursor).run_requests) == 1
    content = log.read_bytes()
    log.write_bytes(content[:-20])
    damaged = run()
    assert not damaged.success
    (check,) = damaged.get_asset_check_evaluations()
    assert not check.passed
    assert "ERROR: log-blocks" in check.metadata["findings"].value
    assert len(written()) == 1
    # What the run that failed has not read is in the next one.
    log.write_bytes(content)
    assert run().success
    assert written() == {"written-after-earliest": ["a"], f"written-after-{first.cursor}": ["b"]}


def test_airflow_reads_what_new_commits_wrote(trips: TableWriter, tmp_path: Path) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "trips.py").write_text(block_of("airflow").text)
    environment = os.environ | {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path / "dags"))),
    }
    migrate = [sys.executable, "-m", "airflow", "db", "migrate"]
    subprocess.run(migrate, env=environment, check=True, capture_output=True, timeout=TIMEOUT_SECONDS)
    # Importing Airflow takes longer than a run.
    program = (
        "import sys; from trips import dag_of_trips\nfor _ in sys.stdin: print('ended', dag_of_trips.test().state)"
    )
    log_of_airflow = (tmp_path / "log").open("w")
    started = subprocess.Popen(
        [sys.executable, "-u", "-c", program],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log_of_airflow,
        text=True,
    )
    with log_of_airflow, started as airflow:

        def run() -> str:
            assert airflow.stdin is not None
            assert airflow.stdout is not None
            airflow.stdin.write("run\n")
            airflow.stdin.flush()
            lines = iter(airflow.stdout.readline, "")
            return next((line.split()[1] for line in lines if line.startswith("ended ")), "crashed")

        assert run() == "success", (tmp_path / "log").read_text()
        assert written() == {"written-after-earliest": ["a"]}
        begin = trips.open().snapshot().next_after
        log = add(trips)
        content = log.read_bytes()
        log.write_bytes(content[:-20])
        assert run() == "failed"
        assert len(written()) == 1
        log.write_bytes(content)
        assert run() == "success"
        assert written() == {"written-after-earliest": ["a"], f"written-after-{begin}": ["b"]}
        assert airflow.stdin is not None
        airflow.stdin.close()
