"""Reads through Spark Connect, by a server on loopback: what the tests of a classic session ask, in small."""

import gc
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from hudi_bridge import CorruptLogFileError, DataFileGoneError, HudiTable, InstantNotReadableError, QueryError
from hudi_bridge.connectors.spark import attach_all, cause_of, jobs, locate_keys, read, slice_routes
from hudi_bridge.connectors.spark.sessions import context_of, parallelism_of, runs_locally
from hudi_bridge.inspection import inspect_commits
from tests.connectors.spark.connect_server import counts_of
from tests.connectors.spark.native_tables import MERGED, homes_in_snapshot, values, write_group, written
from tests.connectors.spark.processes import output_of
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at
from tests.timeline.timeline_files import clean

STORY = "a_story_v9_120"
KEY_TABLES = (STORY, "e_virtual_keys_120", "h_record_index_120")


pytestmark = pytest.mark.jvm


def test_what_a_session_says_of_its_server(connect: SparkSession) -> None:
    assert context_of(connect) is None
    assert parallelism_of(connect) == 2
    assert not runs_locally(connect)


def test_rows_filters_and_columns(connect: SparkSession, tmp_path: Path) -> None:
    path = str(written(tmp_path).folder)
    frame = read(connect, path)
    assert values(frame) == MERGED
    assert (slice_routes(frame).native, slice_routes(frame).others) == (1, {})
    assert values(frame.where("value = 'new'")) == [("b", "new")]
    assert frame.alias("l").join(frame.where("value IS NULL").alias("r"), "id").count() == 2
    assert values(read(connect, path, filter="VALUE = 'x'")) == [("d", "x")]
    narrow = read(connect, path, columns=["id"], filter="length(value) = 3")
    assert [tuple(row) for row in narrow.collect()] == [("b",)]
    assert values(read(connect, path, query_type="read_optimized")) == [("a", "x"), ("b", "y"), ("c", None)]
    assert values(read(connect, path, options={"as.of.instant": at(1)})) == [("a", "x"), ("b", "y"), ("c", None)]


def test_what_a_classic_session_refuses_is_refused_at_once(connect: SparkSession, tmp_path: Path) -> None:
    path = str(written(tmp_path).folder)
    with pytest.raises(AnalysisException):
        read(connect, path, filter="nothing = 1")
    with pytest.raises(QueryError, match="nothing"):
        read(connect, path, columns=["nothing"])
    with pytest.raises(QueryError, match="another DataFrame"):
        slice_routes(connect.range(1))


def test_logs_are_merged_once(connect: SparkSession, tmp_path: Path) -> None:
    writer = written(tmp_path)
    frame = read(connect, str(writer.folder))
    for log in writer.folder.glob("p/.*.log.*"):
        log.unlink()
    assert values(frame) == values(frame) == MERGED


def test_a_simple_filter_chooses_what_is_merged(connect: SparkSession, tmp_path: Path) -> None:
    writer = written(tmp_path)
    write_group(writer, "part=q", "f2-0")
    path = str(writer.folder)
    frames = {text: read(connect, path, filter=text) for text in ("part = 'q'", "part = 'q' OR false")}
    assert [slice_routes(frame).native for frame in frames.values()] == [1, 2]
    for frame in frames.values():
        assert values(frame) == MERGED
    assert values(read(connect, path, filter="part IN ('p', 'r') AND value = 'x'")) == [("d", "x")]


def test_tasks_that_are_too_large_for_a_function(
    connect: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = written(tmp_path)
    for number in range(5):
        write_group(writer, f"part={number}", f"g{number}-0")
    path, options = str(writer.folder), {"maxPartitionBytes": "1"}
    expected = values(read(connect, path, options=options))
    assert len(expected) == 6 * len(MERGED)
    monkeypatch.setattr(jobs, "_MAX_FUNCTION_BYTES", 0)
    for more in ({}, {"maxNativeFiles": "0"}):
        assert values(read(connect, path, options=options | more)) == expected
    rows = jobs.map_one_per_task(connect, [[number] for number in range(7)], _partition_and_value, "p int, n int")
    assert sorted(map(tuple, rows.collect())) == [(number, number) for number in range(7)]


def test_many_files_for_which_spark_looks_in_a_job(connect: SparkSession, tmp_path: Path) -> None:
    writer = written(tmp_path)
    for number in range(3):
        write_group(writer, f"part={number}", f"g{number}-0")
    connect.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "2")
    try:
        frame = read(connect, str(writer.folder))
        assert (slice_routes(frame).native, frame.count()) == (4, 4 * len(MERGED))
    finally:
        connect.conf.unset("spark.sql.sources.parallelPartitionDiscovery.threshold")


def test_errors_have_their_cause(connect: SparkSession, tmp_path: Path) -> None:
    writer = written(tmp_path)
    (file,) = writer.folder.glob("p/*.parquet")
    frame = read(connect, str(writer.folder))
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    cause = cause_of(caught.value)
    assert isinstance(cause, DataFileGoneError)
    assert (cause.path, cause.newest_instant) == (f"p/{file.name}", at(2))
    file.write_bytes(content)
    (log,) = writer.folder.glob("p/.*.log.*")
    log.write_bytes(b"\0" + log.read_bytes()[1:])
    with pytest.raises(PySparkException) as caught:
        read(connect, str(writer.folder))
    assert isinstance(cause_of(caught.value), CorruptLogFileError)
    with pytest.raises(PySparkException) as caught:
        connect.read.format("hudi_bridge").load(str(writer.folder)).collect()
    assert isinstance(cause_of(caught.value), CorruptLogFileError)
    with pytest.raises(PySparkException) as caught:
        connect.read.format("hudi_bridge").option("as.of.instant", "soon").load(str(writer.folder)).collect()
    assert isinstance(cause_of(caught.value), QueryError)


def test_changes_and_splits(connect: SparkSession, tmp_path: Path) -> None:
    path = str(written(tmp_path).folder)
    options = {
        "hoodie.datasource.read.begin.instanttime": at(1),
        "hoodie.datasource.query.incremental.format": "rows",
    }
    changes = read(connect, path, query_type="incremental", options=options)
    with pytest.raises(QueryError, match="another DataFrame"):
        slice_routes(changes)
    expected = HudiTable.open(path).changes(at(1), format="rows").to_table()
    assert differences(expected, changes.toArrow()) == []
    splits = read(connect, path, query_type="splits", columns=["partition_path", "file_id"]).collect()
    assert [tuple(split) for split in splits] == [("p", "f1-0")]


def test_garbage_is_released_outside_of_other_calls(
    connect: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call from within another one would wait for itself."""
    from pyspark.sql.connect.plan import CachedRemoteRelation  # noqa: PLC0415 - needs packages of its own

    threads: SimpleQueue[str] = SimpleQueue()
    release = CachedRemoteRelation.__del__

    def noted(relation: CachedRemoteRelation) -> None:
        release(relation)
        threads.put(threading.current_thread().name)

    monkeypatch.setattr(CachedRemoteRelation, "__del__", noted)
    frame = read(connect, str(written(tmp_path).folder)).where("value IS NOT NULL")
    assert frame.count() == 2
    cycle: list[object] = [frame]
    cycle.append(cycle)
    del frame, cycle
    gc.collect()
    assert threads.get(timeout=60) == "hudi-bridge-release"


@pytest.mark.parametrize("case", KEY_TABLES)
def test_keys_are_found_where_the_snapshot_has_them(connect: SparkSession, case: str) -> None:
    path = str(golden_table(case))
    expected = homes_in_snapshot(path)
    keys = connect.createDataFrame([(key,) for key in (*expected, "nowhere")], "k string")
    located: dict[str, set[tuple[str | None, str | None, str | None]]] = {}
    for row in locate_keys(connect, path, keys).collect():
        located.setdefault(row.record_key, set()).add((row.partition_path, row.file_id, row.instant))
    assert located == expected | {"nowhere": {(None, None, None)}}


def test_sql(connect: SparkSession) -> None:
    path = str(golden_table(STORY))
    connect.sql(f"CREATE OR REPLACE TEMPORARY VIEW story USING hudi_bridge OPTIONS (path '{path}')")
    read(connect, path).createOrReplaceTempView("story_by_spark")
    counts = connect.sql("SELECT (SELECT count(*) FROM story) AS n, (SELECT count(*) FROM story_by_spark) AS m").first()
    rows = HudiTable.open(path).snapshot().to_table().num_rows
    assert counts is not None
    assert tuple(counts) == (rows, rows)


def test_all_tables_of_a_folder_as_views(connect: SparkSession, tmp_path: Path) -> None:
    case = golden_table(STORY)
    table, name = HudiTable.open(str(case)), case.name
    first = table.timeline.completed()[0].requested_time
    lake = attach_all(connect, case.parent, after=first)
    expected = {
        name: table.snapshot(),
        f"{name}_ro": table.read_optimized(),
        f"{name}__at_{first}": table.snapshot(first),
        f"{name}_incremental": table.incremental(first),
        f"{name}_changes": table.changes(first),
    }
    for view, rows in expected.items():
        assert differences(rows.to_table(), lake.sql(f"SELECT * FROM `{view}`").toArrow()) == [], view
    assert differences(inspect_commits(table), connect.sql(f"SELECT * FROM {name}_commits").toArrow()) == []
    assert differences(table.snapshot().to_table(), lake.read(name).toArrow()) == []
    lake.detach()
    with pytest.raises(AnalysisException):
        _ = connect.table(f"`{name}`").schema
    # A view is planned when it is asked, by a task whose error comes back.
    writer = written(tmp_path)
    lake = attach_all(connect, tmp_path)
    (writer.timeline_folder / f"{at(3)}_{at(4)}.clean").write_bytes(clean(at(3)))
    with pytest.raises(PySparkException) as caught:
        connect.sql("SELECT * FROM `table`").collect()
    assert isinstance(cause_of(caught.value), InstantNotReadableError)
    lake.detach()


@pytest.mark.parametrize("version", [6, 9])
def test_streams(connect: SparkSession, tmp_path: Path, version: int) -> None:
    """Each commit arrives once, across a restart."""
    writer = TableWriter(folder=tmp_path / "table", version=version).create()
    expected = []
    for numbers in ((1,), (2, 3)):
        for number in numbers:
            records = [{"id": f"{name}{number}", "ts": number, "value": "x"} for name in "ab"]
            if number == 1:
                file = writer.base_file(at(1), records)
            else:
                block = writer.data_block(at(number), records)
                file = writer.log_file(at(number), [block], base_instant=at(1), number=number)
            writer.commit(at(number), wrote=[file])
            expected += [str(record["id"]) for record in records]
        stream = connect.readStream.format("hudi_bridge").load(str(writer.folder)).select("id", "value")
        started = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "rows"))
        )
        started.awaitTermination()
        ids: list[Any] = pq.read_table(tmp_path / "rows").column("id").to_pylist()
        assert sorted(ids) == sorted(expected)


@pytest.mark.parametrize("is_local", [False, True], ids=["sc", "local"])
def test_sessions_that_pyspark_makes(connect_url: str, monkeypatch: pytest.MonkeyPatch, is_local: bool) -> None:
    # Lets a server of this process take any port, not one that another may have.
    monkeypatch.setenv("SPARK_TESTING", "1")
    table = golden_table(STORY)
    output = output_of("connect_job.py", "local[2]" if is_local else connect_url, str(table))
    assert json.loads(output.splitlines()[-1]) == counts_of(table) | {"runs locally": is_local}


def _partition_and_value(task: list[int]) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    assert context is not None
    yield pa.record_batch([pa.array([context.partitionId()], pa.int32()), pa.array(task, pa.int32())], names=["p", "n"])
