"""A stream beside a writer of Hudi, which commits, compacts, clusters, cleans, archives and deletes meanwhile."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.hudi_bundle import hudi_bundle
from hudi_bridge import HudiTable
from hudi_bridge.timeline.instant import Action
from tests.connectors.spark.processes import HERE, PYTHON35, environment

ROUNDS = 8
COLUMNS = ("ts", "fare", "city", "_hoodie_commit_time")
AS_CHANGES = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "rows",
}

Row = dict[str, Any]


class Changes:
    """The table as it becomes when changes are applied to it one batch after another."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Any, ...]] = {}
        self.batches = 0

    def __call__(self, batch: DataFrame, _: int) -> None:
        self.batches += 1
        for change in sorted(batch.collect(), key=lambda one: one.ts_ms):
            image = change.before if change.after is None else change.after
            if change.op == "d":
                assert self.rows.pop(image.id, None) is not None, f"{image.id} deleted twice, or never seen"
            else:
                assert (change.op == "u") is (image.id in self.rows), f"{change.op} of {image.id}"
                self.rows[image.id] = tuple(image[name] for name in COLUMNS)


class LatestState:
    """The rows of a stream in their latest state, and how often each version has arrived."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Any, ...]] = {}
        self.seen: list[tuple[str, str]] = []

    def __call__(self, batch: DataFrame, _: int) -> None:
        for row in batch.collect():
            self.rows[row.id] = tuple(row[name] for name in COLUMNS)
            self.seen.append((row.id, row["_hoodie_commit_time"]))


@contextmanager
def running_writer(table: Path, rounds: int = ROUNDS) -> Iterator[subprocess.Popen[str]]:
    command = [str(PYTHON35), str(HERE / "hudi_writer.py"), str(hudi_bundle()), str(table), str(rounds)]
    with subprocess.Popen(
        command, env=environment(PYTHON35), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        try:
            yield writer
        finally:
            writer.kill()


def write_round(writer: "subprocess.Popen[str]") -> None:
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write("\n")
    writer.stdin.flush()
    # Hudi prints, too.
    assert "written\n" in writer.stdout, "the writer has failed"


def start(spark: SparkSession, table: Path, checkpoint: Path, sink: Any, **options: str) -> Any:
    frame = spark.readStream.format("hudi_bridge").options(maxInstantsPerTrigger="2", **options).load(str(table))
    return frame.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(sink).start()


def catch_up(queries: list[Any]) -> None:
    for query in queries:
        query.processAllAvailable()


def stop(queries: list[Any]) -> None:
    for query in queries:
        query.stop()


def test_the_state_of_a_stream_is_the_final_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "trips"
    changes, latest = Changes(), LatestState()
    with running_writer(table) as writer:
        write_round(writer)
        for number in range(1, ROUNDS):
            # A stream in its own time, stopped and started again from its checkpoint in the middle of writing.
            if number in (1, ROUNDS // 2):
                queries = [
                    start(spark, table, tmp_path / "changes", changes, **AS_CHANGES),
                    start(spark, table, tmp_path / "latest", latest),
                ]
            write_round(writer)
            if number % 2:
                # Not so far behind that the cleaner overtakes it.
                catch_up(queries)
            if number == ROUNDS // 2 - 1:
                stop(queries)
        catch_up(queries)
        stop(queries)
    opened = HudiTable.open(str(table))
    rows = opened.snapshot().to_table().to_pylist()
    expected = {row["id"]: tuple(row[name] for name in COLUMNS) for row in rows}
    assert changes.rows == expected
    # Rows in their latest state do not tell of deletes, as in Hudi.
    assert {key: row for key, row in latest.rows.items() if key in expected} == expected
    assert len(latest.seen) == len(set(latest.seen)), "a version has arrived twice"
    actions = {instant.action for instant in opened.timeline.completed()}
    assert {Action.COMMIT, Action.DELTA_COMMIT, Action.CLEAN, Action.REPLACE_COMMIT} <= actions
    assert opened.timeline.start is not None
    assert opened.instant_range("earliest").archived
