"""Streams, snapshots that Spark reads itself, and DuckDB's views, all beside one writer of Hudi.

It upserts, deletes, compacts, clusters, cleans and archives meanwhile.
"""

from pathlib import Path
from threading import Thread
from typing import Any

import duckdb
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hudi_bridge import DataFileGoneError, HudiReadError, HudiTable, InstantNotReadableError
from hudi_bridge.connectors.duckdb import Attached, attach
from hudi_bridge.connectors.spark import cause_of, read, slice_routes
from hudi_bridge.timeline.instant import Action
from tests.connectors.spark.answers_beside_writer import (
    Answer,
    answers_at_instants,
    ask_while,
    running_writer,
    write_and_note,
    write_round,
)
from tests.support.compare import differences

ROUNDS = 6
COLUMNS = ("ts", "fare", "city", "_hoodie_commit_time")
AS_CHANGES = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "rows",
}
QUERY = "SELECT count(*), sum(ts), sum(CAST(round(fare * 100) AS BIGINT)) FROM {}"
GONE = (DataFileGoneError, InstantNotReadableError)

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


class Streams:
    """Two streams, each in its own time, which are stopped and started again from their checkpoints."""

    def __init__(self, spark: SparkSession, table: Path, checkpoints: Path) -> None:
        self._spark = spark
        self._table = table
        self._checkpoints = checkpoints
        self._queries: list[Any] = []
        self.changes, self.latest = Changes(), LatestState()

    def start(self) -> None:
        self._queries = [
            self._started("changes", self.changes, **AS_CHANGES),
            self._started("latest", self.latest),
        ]

    def _started(self, name: str, sink: Any, **options: str) -> Any:
        reader = self._spark.readStream.format("hudi_bridge").options(maxInstantsPerTrigger="2", **options)
        writer = reader.load(str(self._table)).writeStream
        return writer.option("checkpointLocation", str(self._checkpoints / name)).foreachBatch(sink).start()

    def catch_up(self) -> None:
        for query in self._queries:
            query.processAllAvailable()

    def stop(self) -> None:
        for query in self._queries:
            query.stop()

    def compare(self) -> None:
        """Compare the final state with the final snapshot."""
        rows = HudiTable.open(str(self._table)).snapshot().to_table().to_pylist()
        expected = {row["id"]: tuple(row[name] for name in COLUMNS) for row in rows}
        assert self.changes.rows == expected
        # Rows in their latest state do not tell of deletes, as in Hudi.
        assert {key: row for key, row in self.latest.rows.items() if key in expected} == expected
        assert len(self.latest.seen) == len(set(self.latest.seen)), "a version has arrived twice"


class Views:
    """DuckDB's views, with merges in memory and in a folder, and their answers with the instants that they show."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, table: Path, cache: Path) -> None:
        self._connection = connection
        self._answers: dict[Attached, list[tuple[str, Answer]]] = {
            attach(connection, table, "in_memory"): [],
            attach(connection, table, "in_folder", cache=cache): [],
        }

    def ask(self) -> None:
        for attached, answers in self._answers.items():
            attached.refresh()
            assert attached.plan()[attached.name].is_native
            if (answer := self._answer(attached)) is not None:
                answers.append((attached.instant, answer))

    def _answer(self, attached: Attached) -> Answer | None:
        """The answer; None if the cleaner was faster."""
        try:
            ((rows, ts, cents),) = self._connection.execute(QUERY.format(attached.name)).fetchall()
        except duckdb.Error as error:
            cause: HudiReadError | None = attached.cause_of(error)
            if not isinstance(cause, DataFileGoneError):
                raise
            return None
        return rows, ts, cents

    def compare(self, expected: dict[str, Answer]) -> None:
        for answers in self._answers.values():
            assert [(instant, expected[instant]) for instant, _ in answers] == answers
            assert answers[-1][0] == max(expected)
            assert len({instant for instant, _ in answers}) > ROUNDS // 2


def is_same_or_gone(spark: SparkSession, path: str) -> bool:
    """Whether ``read`` has returned the rows of its instant; not if the cleaner was faster."""
    opened = HudiTable.open(path)
    assert opened.latest_instant is not None
    try:
        expected = opened.snapshot().to_table()
        frame = read(spark, path, options={"as.of.instant": opened.latest_instant})
        actual = frame.toArrow()
        counted = frame.where("fare > 30").count()
    except (*GONE, PySparkException, Py4JJavaError) as error:
        cause = cause_of(error)
        if isinstance(cause, GONE):
            return False
        raise
    assert slice_routes(frame).others == {}
    assert differences(expected, actual) == []
    assert counted == sum((fare or 0) > 30 for fare in expected.column("fare").to_pylist())
    return True


def test_every_answer_is_that_of_an_instant_and_the_state_of_a_stream_that_of_the_last(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = tmp_path / "trips"
    streams = Streams(spark, table, tmp_path)
    compared: list[bool] = []
    with running_writer(table, ROUNDS) as writer, duckdb.connect() as connection:
        write_round(writer)
        expected = answers_at_instants(table)
        views = Views(connection, table, tmp_path / "cache")

        def ask() -> None:
            views.ask()
            compared.append(is_same_or_gone(spark, str(table)))

        for number in range(1, ROUNDS):
            if number in (1, ROUNDS // 2):
                streams.start()
            ask_while(Thread(target=write_and_note, args=(writer, table, expected, 1)), ask)
            if number % 2:
                # Not so far behind that the cleaner overtakes them.
                streams.catch_up()
            if number == ROUNDS // 2 - 1:
                streams.stop()
        streams.catch_up()
        streams.stop()
    streams.compare()
    views.compare(expected)
    assert sum(compared) > ROUNDS
    opened = HudiTable.open(str(table))
    actions = {instant.action for instant in opened.timeline.completed()}
    assert {Action.COMMIT, Action.DELTA_COMMIT, Action.CLEAN, Action.REPLACE_COMMIT} <= actions
    assert opened.timeline.start is not None
    assert opened.instant_range("earliest").archived
