"""DataFrames of ``read`` whose base files Spark reads itself."""

import contextlib
import datetime as dt
import gc
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from hudi_bridge import CorruptBaseFileError, DataFileGoneError, HudiTable, QueryError
from hudi_bridge.connectors.spark import cause_of, native_scan, read, slice_routes
from hudi_bridge.connectors.spark.jvm import COLLECTED, Jvm, KindBatch, Reports, run_and_keep
from hudi_bridge.connectors.spark.merged_logs import ROWS, DeltaJob
from hudi_bridge.connectors.spark.native_scan import BaseFileScans
from hudi_bridge.connectors.spark.options import parse_options
from hudi_bridge.connectors.spark.plan import PinnedQuery
from tests.connectors.spark.conditions import ids_by_condition
from tests.connectors.spark.native_tables import (
    MERGED,
    PARTITIONED,
    kept_in_spark,
    plan_of,
    row,
    value_in,
    values,
    write_group,
    written,
)
from tests.connectors.spark.public_api import public_session
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at

ACCEPTS_NONE = "org.apache.hadoop.mapreduce.lib.input.CombineFileInputFormat$MultiPathFilter"
"""A filter of Hadoop that leaves out all files."""
# Spark's own errors about files reach Python as they are.
ERRORS = (PySparkException, Py4JJavaError)


@contextlib.contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


def test_spark_prunes_columns_and_pushes_filters_into_the_scan(spark: SparkSession, tmp_path: Path) -> None:
    frame = read(spark, str(written(tmp_path).folder))
    assert values(frame) == MERGED
    shown = plan_of(frame.where("value = 'new'").select("id"))
    assert re.search(r"ReadSchema: struct<id:string,value:string,[^,]*row_index:bigint>", shown)
    assert "EqualTo(value,new)" in shown
    # A job that broadcasts would cost more than a look-up of one key.
    assert "Broadcast" not in shown
    assert "MapInArrow" not in shown
    routes = slice_routes(frame)
    assert (routes.native, dict(routes.others)) == (1, {})


def test_every_use_of_a_frame_has_its_own_columns_and_filters(spark: SparkSession, tmp_path: Path) -> None:
    frame = read(spark, str(written(tmp_path).folder))
    assert frame.where("value = 'x'").count() == 1
    assert frame.count() == 4
    assert frame.alias("l").join(frame.where("value IS NULL").alias("r"), "id").count() == 2
    assert [item["id"] for item in frame.exceptAll(frame.where("id < 'd'")).select("id").sort("id").collect()] == [
        "d",
        "e",
    ]
    frame.createOrReplaceTempView("native_trips")
    counted = spark.sql("SELECT count(*) AS n, count(value) AS v FROM native_trips").collect()[0]
    assert (counted.n, counted.v) == (4, 2)


def test_logs_are_merged_once_for_all_uses_of_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    writer = written(tmp_path)
    frame = read(spark, str(writer.folder))
    for log in writer.folder.glob("p/.*.log.*"):
        log.unlink()
    assert values(frame) == MERGED
    assert values(frame.where("ts = 2 AND value = 'new'")) == [("b", "new")]


def test_a_filter_that_is_given_prunes_what_is_merged(spark: SparkSession, tmp_path: Path) -> None:
    path = str(written(tmp_path).folder)
    assert values(read(spark, path, filter="value = 'x'")) == [("d", "x")]
    narrow = read(spark, path, columns=["id"], filter="length(value) = 3")
    assert [tuple(item) for item in narrow.collect()] == [("b",)]
    assert slice_routes(narrow).native == 1
    assert slice_routes(read(spark, path, filter="part = 'q'")).native == 0


def test_what_is_kept_is_freed_with_the_last_frame(spark: SparkSession, tmp_path: Path) -> None:
    def kept() -> set[int]:
        gc.collect()
        return kept_in_spark(spark)

    path = str(written(tmp_path).folder)
    before = kept()
    derived = read(spark, path).where("value IS NOT NULL")
    assert derived.count() == 2
    own = kept() - before
    assert own
    assert derived.count() == 2
    assert own <= kept()
    del derived
    # An idle thread of Spark's pools, which ends after a minute, may hold what it ran last.
    deadline = time.monotonic() + 180
    while own & kept() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not own & kept()


def test_what_is_kept_of_frames_that_are_gone_does_not_add_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(written(tmp_path).folder)
    monkeypatch.setattr("hudi_bridge.connectors.spark.merged_logs._COLLECT_GARBAGE_AFTER_BYTES", 1)
    before = kept_in_spark(spark)
    gc.disable()
    try:
        assert read(spark, path).count() == 4
        own = kept_in_spark(spark) - before
        assert own
        deadline = time.monotonic() + 60
        while own & kept_in_spark(spark) and time.monotonic() < deadline:
            assert read(spark, path).count() == 4
            time.sleep(0.1)
    finally:
        gc.enable()
    assert not own & kept_in_spark(spark)


ODD_FOLDERS = (
    "a b",
    "50%",
    "a%20b",
    "\u00e9\u4e2d",
    "x:y",
    "p+q",
    "part=z",
    "a&b;c",
    "a#b",
    "a,b",
    "'q'",
    "a|b",
    ".com",
)
PATTERNS = ("[x]", "a*", "{b}", "what?", "DOM\\user")


def test_odd_folders_and_those_that_spark_would_take_for_patterns(spark: SparkSession, tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "table", fields=PARTITIONED, partition_fields=("part",)).create()
    for number, partition in enumerate((*ODD_FOLDERS, *PATTERNS)):
        write_group(writer, partition, f"f{number}-0")
    for version in (1, 2):
        writer.commit(at(version))
    frame = read(spark, str(writer.folder))
    routes = slice_routes(frame)
    assert routes.native == len(ODD_FOLDERS)
    assert routes.others == {"its folder has signs that Spark takes for a pattern": len(PATTERNS)}
    actual: dict[str, list[Any]] = {}
    for item in frame.collect():
        assert item["part"] == value_in(item["_hoodie_partition_path"])
        actual.setdefault(item["_hoodie_partition_path"], []).append((item["id"], item["value"]))
    assert {folder: sorted(rows) for folder, rows in actual.items()} == dict.fromkeys((*ODD_FOLDERS, *PATTERNS), MERGED)


def test_base_files_of_one_name(spark: SparkSession, tmp_path: Path) -> None:
    writer = written(tmp_path)
    writer.base_file(at(1), [row("z", 1, "other", "q"), row("y", 1, "other", "q")], partition="q")
    frame = read(spark, str(writer.folder))
    assert slice_routes(frame).others == {"another base file has the same name": 2}
    assert values(frame) == [*MERGED, ("y", "other"), ("z", "other")]


def test_log_files_alone_and_base_files_of_which_nothing_is_left(spark: SparkSession, tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "table").create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}], file_id="f1-0")
    writer.base_file(at(1), [{"id": "b", "ts": 1, "value": "y"}], file_id="f2-0")
    writer.commit(at(1))
    writer.log_file(at(2), [writer.delete_block(at(2), [("a", 2)])], file_id="f1-0")
    added = writer.data_block(at(2), [{"id": "c", "ts": 2, "value": "z"}], file_id="f3-0")
    writer.log_file(at(2), [added], file_id="f3-0")
    writer.commit(at(2))
    frame = read(spark, str(writer.folder))
    assert values(frame) == [("b", "y"), ("c", "z")]
    assert slice_routes(frame).native == 3
    assert "LeftAnti" not in plan_of(frame)
    assert "f1-0" not in plan_of(frame)


def test_a_table_whose_rows_are_all_deleted(spark: SparkSession) -> None:
    frame = read(spark, str(golden_table("i_all_deleted_120")))
    assert frame.count() == 0
    assert frame.columns == HudiTable.open(str(golden_table("i_all_deleted_120"))).schema.names


def test_slices_with_another_schema_are_read_otherwise_in_the_same_frame(spark: SparkSession) -> None:
    path = str(golden_table("g_logs_rename_0150"))
    frame = read(spark, path)
    routes = slice_routes(frame)
    assert (routes.native, dict(routes.others)) == (1, {"column aa: renamed": 3})
    assert differences(HudiTable.open(path).snapshot().to_table(), frame.toArrow()) == []


def test_a_column_that_is_not_read_does_not_matter(spark: SparkSession) -> None:
    path = str(golden_table("g_logs_rename_0150"))
    frame = read(spark, path, columns=["_hoodie_record_key"])
    assert dict(slice_routes(frame).others) == {}
    assert frame.count() == HudiTable.open(path).snapshot().count_rows()


def test_the_option_that_bounds_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    path = str(written(tmp_path).folder)
    frame = read(spark, path, options={"maxNativeFiles": "0"})
    assert slice_routes(frame).others == {"the query has more than 0 base files (maxNativeFiles)": 1}
    assert values(frame) == MERGED
    with pytest.raises(QueryError, match="maxNativeFiles"):
        read(spark, path, options={"maxNativeFiles": "-1"})


def test_routes_are_those_of_frames_that_read_has_returned(spark: SparkSession, tmp_path: Path) -> None:
    path = str(written(tmp_path).folder)
    with pytest.raises(QueryError, match="read"):
        slice_routes(read(spark, path).where("id = 'a'"))
    with pytest.raises(QueryError, match="snapshot"):
        slice_routes(read(spark, path, query_type="splits"))


def test_read_optimized_queries_and_time_travel(spark: SparkSession, tmp_path: Path) -> None:
    path = str(written(tmp_path).folder)
    base = [("a", "x"), ("b", "y"), ("c", None)]
    for frame in (read(spark, path, query_type="read_optimized"), read(spark, path, options={"as.of.instant": at(1)})):
        assert values(frame) == base
        assert slice_routes(frame).native == 1
        assert "LeftAnti" not in plan_of(frame)


SETTINGS: Mapping[str, Sequence[str]] = {
    "spark.sql.caseSensitive": ("true", "false"),
    "spark.sql.parquet.binaryAsString": ("true",),
    "spark.sql.parquet.int96AsTimestamp": ("false",),
    "spark.sql.parquet.datetimeRebaseModeInRead": ("LEGACY", "EXCEPTION"),
    "spark.sql.parquet.enableNestedColumnVectorizedReader": ("true", "false"),
    "spark.sql.parquet.inferTimestampNTZ.enabled": ("false",),
    "spark.sql.parquet.fieldId.read.enabled": ("true",),
    "spark.sql.parquet.recordLevelFilter.enabled": ("true",),
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.autoBroadcastJoinThreshold": ("-1",),
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.files.maxPartitionBytes": ("1000",),
    "spark.sql.codegen.wholeStage": ("true", "false"),
    "spark.sql.session.timeZone": ("America/Los_Angeles",),
    "spark.sql.parquet.enableVectorizedReader": ("true", "false"),
    "spark.sql.execution.arrow.useLargeVarTypes": ("false", "true"),
    "spark.sql.execution.arrow.localRelationThreshold": ("0", "100MB"),
}
"""What might change the rows, each setting with the values that it takes in turns."""


@pytest.mark.parametrize("turn", [0, 1])
def test_settings_of_the_session_change_nothing(spark: SparkSession, turn: int) -> None:
    path = str(golden_table("f_types_120"))
    table = HudiTable.open(path)
    expected = table.snapshot().to_table()
    asked = [column.name for column in table.schema if not pa.types.is_nested(column.type)]
    with contextlib.ExitStack() as settings:
        for name, some in SETTINGS.items():
            settings.enter_context(setting(spark, name, some[turn % len(some)]))
        frame, flat = read(spark, path), read(spark, path, columns=asked)
        assert slice_routes(frame).others == slice_routes(flat).others == {}
        assert differences(expected, frame.toArrow()) == []
        assert differences(expected.select(asked), flat.toArrow()) == []


def test_a_filter_of_files_in_the_settings_of_hadoop_leaves_none_out(spark: SparkSession, tmp_path: Path) -> None:
    # Hudi's own leaves out all but the newest base file of a file group, this one all files.
    path = str(written(tmp_path).folder)
    with setting(spark, "mapreduce.input.pathFilter.class", ACCEPTS_NONE):
        assert spark.read.schema("id string").parquet(f"{path}/p").count() == 0
        frame = read(spark, path)
        assert values(frame) == MERGED
        assert slice_routes(frame).others == {}


def require_merged_groups(spark: SparkSession, path: str, groups: int) -> None:
    frame = read(spark, path)
    assert [row[0] for row in frame.select("id").orderBy("id").collect()] == sorted(groups * [key for key, _ in MERGED])
    assert (slice_routes(frame).native, slice_routes(frame).others) == (groups, {})


@pytest.mark.parametrize("has_private_classes", [True, False])
def test_many_files_for_which_spark_looks_in_a_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_private_classes: bool
) -> None:
    session = spark.newSession() if has_private_classes else public_session(spark)
    writer = written(tmp_path)
    for number in range(3):
        write_group(writer, f"part={number}", f"g{number}-0")
    path = str(writer.folder)
    session.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "2")
    tasks_of_job = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    tasks_before = session.conf.get(tasks_of_job)
    require_merged_groups(session, path, 4)
    assert session.conf.get(tasks_of_job) == tasks_before
    # As with Hudi's filter, which leaves out files.
    with monkeypatch.context() as patch:
        patch.setattr(native_scan, "_count_files", lambda *_: 1)
        require_merged_groups(session, path, 4)
    # A filter that Spark cannot send to its tasks.
    with setting(session, "mapreduce.input.pathFilter.class", ACCEPTS_NONE):
        require_merged_groups(session, path, 4)
    with pytest.raises(AnalysisException):
        BaseFileScans(session, writer.open().schema).of([f"{path}/p/gone-{number}.parquet" for number in range(3)])


def test_a_session_without_the_files_that_can_be_read_so(spark: SparkSession, tmp_path: Path) -> None:
    path = str(written(tmp_path).folder)
    with setting(spark, "spark.sql.sources.useV1SourceList", ""):
        frame = read(spark, path)
        assert values(frame) == MERGED
    assert slice_routes(frame).others == {"spark.sql.sources.useV1SourceList leaves out parquet": 1}


@pytest.mark.parametrize("most_broadcast", [0, 100])
def test_positions_that_are_too_many_for_the_driver_and_to_broadcast(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_broadcast: int
) -> None:
    monkeypatch.setattr("hudi_bridge.connectors.spark.merged_logs._MAX_COLLECTED_BLOCKS", 0)
    monkeypatch.setattr("hudi_bridge.connectors.spark.merged_logs._MAX_BROADCAST_BLOCKS", most_broadcast)
    path = str(written(tmp_path).folder)
    with setting(spark, "spark.sql.autoBroadcastJoinThreshold", "-1"):
        frame = read(spark, path)
        assert ("BroadcastHashJoin" in plan_of(frame)) is bool(most_broadcast)
        assert values(frame) == MERGED
        assert values(frame.where("id = 'b'")) == [("b", "new")]


def test_the_sessions_that_know_the_size_of_rows_are_made_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(written(tmp_path).folder)
    first = read(spark, path)

    def refused(_: SparkSession) -> SparkSession:
        raise AssertionError("another session")

    monkeypatch.setattr(SparkSession, "newSession", refused)
    assert values(read(spark, path)) == values(first) == MERGED


def test_spark_knows_that_what_is_kept_is_small(spark: SparkSession, tmp_path: Path) -> None:
    frame = read(spark, str(written(tmp_path).folder))
    assert "SortMergeJoin" not in plan_of(frame.alias("l").join(frame.alias("r"), "id"))


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 300])
def test_the_driver_gets_all_reports_and_what_it_is_told(spark: SparkSession, count: int) -> None:
    layout = pa.schema([pa.field("number", pa.int64())])

    def tells(task: int, reports: Reports[str]) -> Iterator[KindBatch]:
        for number in range(count):
            reports[1000 * task + number] = f"{task} {number}"
            for kind in (COLLECTED, COLLECTED + 1, COLLECTED + 2):
                yield kind, pa.record_batch([pa.array([1000 * task + kind], pa.int64())], schema=layout)

    kept = run_and_keep(Jvm(spark), [1, 2, 3], tells)
    assert kept.reports == {1000 * task + number: f"{task} {number}" for task in (1, 2, 3) for number in range(count)}
    numbers = StructType([StructField("number", LongType())])
    frames = [kept.collected(numbers), *(kept.rows(kind, numbers, 100) for kind in (COLLECTED + 1, COLLECTED + 2))]
    for kind, frame in enumerate(frames, COLLECTED):
        actual = [row["number"] for row in frame.collect()]
        assert actual == [1000 * task + kind for task in (1, 2, 3) for _ in range(count)]


def test_an_error_of_the_driver_ends_the_job_that_it_has_begun(spark: SparkSession) -> None:
    def sleeps(seconds: int, _: object) -> Iterator[KindBatch]:
        time.sleep(seconds)
        return iter(())

    def fails() -> None:
        raise RuntimeError("the driver's own")

    start = time.monotonic()
    with pytest.raises(RuntimeError, match="the driver's own"):
        run_and_keep(Jvm(spark), [60], sleeps, fails)
    while spark.sparkContext.statusTracker().getActiveJobsIds():
        time.sleep(0.05)
    assert time.monotonic() - start < 30


def test_a_scan_that_is_expected_is_made_once_and_its_errors_come_when_it_is_needed(
    spark: SparkSession, tmp_path: Path
) -> None:
    writer = written(tmp_path)
    (file,) = map(str, writer.folder.glob("p/*.parquet"))
    scans = BaseFileScans(spark, writer.open().schema)
    scans.prepare([file])
    scans.prepare([f"{file}.gone"])
    assert scans.of([file])[0][0] is scans.of([file])[0][0]
    with pytest.raises(AnalysisException):
        scans.of([f"{file}.gone"])


def test_the_jvm_gets_rows_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_bridge.connectors.spark.merged_logs._MAX_BATCH_BYTES", 1)
    listing = PinnedQuery.of(parse_options({"path": str(written(tmp_path).folder)})).listing()
    job = DeltaJob(reading=listing.reading, max_collected_blocks=1, prefers_bits=False, use_threads=False)
    pieces = [rows for kind, rows in job(((0, listing.splits[0].pickled),), {}) if kind == ROWS]
    assert [rows.num_rows for rows in pieces] == [1, 1, 1]
    assert sorted(rows.column("id")[0].as_py() for rows in pieces) == ["b", "d", "e"]


def test_tasks_that_are_too_large_for_a_function(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudi_bridge.connectors.spark.jobs._MAX_FUNCTION_BYTES", 0)
    path = str(written(tmp_path).folder)
    assert values(read(spark, path)) == MERGED
    assert values(read(spark, path, options={"maxNativeFiles": "0"})) == MERGED


@pytest.mark.parametrize(
    ("most_files", "most_told", "plan"),
    [(8, 10_000, {"bit_get"}), (2, 10_000, {"LeftAnti"}), (8, 5, {"bit_get", "LeftAnti"})],
)
def test_bits_of_deleted_positions(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    most_files: int,
    most_told: int,
    plan: set[str],
) -> None:
    """Three files of more rows than a block has, with other deletes in each, at the ends of words and blocks."""
    monkeypatch.setattr("hudi_bridge.connectors.spark.merged_logs.MAX_BIT_FILES", most_files)
    monkeypatch.setattr("hudi_bridge.connectors.spark.merged_logs._MAX_COLLECTED_BLOCKS", most_told)
    deleted = {"a": {0, 63, 64, 127, 2047, 2048, 4095, 4096, 5000}, "b": {1, 4999}, "c": {0, 5000}, "d": set[int]()}
    writer = TableWriter(folder=tmp_path / "table").create()
    keys = [f"{file}{number:04d}" for file in deleted for number in range(5001)]
    for file in deleted:
        rows = [{"id": key, "ts": 1, "value": "x"} for key in keys if key.startswith(file)]
        writer.base_file(at(1), rows, file_id=f"{file}-0", row_group_size=700)
    writer.commit(at(1))
    gone = {f"{file}{number:04d}" for file, numbers in deleted.items() for number in numbers}
    for file, numbers in deleted.items():
        if numbers:
            block = writer.delete_block(at(2), [(f"{file}{number:04d}", 2) for number in numbers])
            writer.log_file(at(2), [block], file_id=f"{file}-0")
    writer.commit(at(2))
    frame = read(spark, str(writer.folder))
    assert {part for part in ("bit_get", "LeftAnti") if part in plan_of(frame)} == plan
    assert len(plan_of(frame)) < 20_000
    assert sorted(item["id"] for item in frame.select("id").collect()) == sorted(set(keys) - gone)
    assert frame.count() == len(keys) - len(gone)
    assert sorted(item["id"] for item in frame.where("id IN ('a0000', 'a0001', 'c5000', 'd5000')").collect()) == [
        "a0001",
        "d5000",
    ]
    with setting(spark, "spark.sql.adaptive.enabled", "false"):
        twice = frame.alias("l").join(frame.alias("r"), "id")
        assert twice.count() == len(keys) - len(gone)
    assert not [view.name for view in spark.catalog.listTables() if view.name.startswith("_hudi_bridge")]


def test_a_file_that_is_gone_is_an_error_whatever_the_settings(spark: SparkSession, tmp_path: Path) -> None:
    writer = written(tmp_path)
    frame = read(spark, str(writer.folder))
    (file,) = writer.folder.glob("p/*.parquet")
    content = file.read_bytes()
    with (
        setting(spark, "spark.sql.files.ignoreMissingFiles", "true"),
        setting(spark, "spark.sql.files.ignoreCorruptFiles", "true"),
    ):
        again = read(spark, str(writer.folder))
        file.unlink()
        for item in (frame, again):
            with pytest.raises(ERRORS) as caught:
                item.collect()
            cause = cause_of(caught.value)
            assert isinstance(cause, DataFileGoneError)
            assert (cause.path, cause.newest_instant) == (f"p/{file.name}", at(2))
        file.write_bytes(content)
        again = read(spark, str(writer.folder))
        file.write_bytes(content[:4] + b"\xff" * (len(content) // 2) + content[4 + len(content) // 2 :])
        with pytest.raises(ERRORS) as caught:
            again.collect()
        assert isinstance(cause_of(caught.value), CorruptBaseFileError)


def by_java(spark: SparkSession, file: Path, folder: Path) -> None:
    """Let Spark write a file anew, as Parquet's own writer leaves out the bounds of columns that hold NaN."""
    spark.read.parquet(str(file)).coalesce(1).write.parquet(str(folder))
    (written_anew,) = folder.glob("*.parquet")
    shutil.copy(written_anew, file)


def test_floating_point_numbers_that_filters_of_spark_would_miss(spark: SparkSession, tmp_path: Path) -> None:
    """A dictionary of Parquet knows 0.0 and -0.0 as two numbers, and bounds may leave NaN out."""
    writer = TableWriter(folder=tmp_path / "table", fields=(("id", "string"), ("ts", "long"), ("x", "double"))).create()
    numbers = {"a": -0.0, "b": 5.0, "c": float("nan")}
    file = writer.base_file(at(1), [{"id": key, "ts": 1, "x": x} for key, x in numbers.items()])
    writer.commit(at(1))
    conditions = {"x = 0.0D": ["a"], "x IN (0.0D, 7.0D)": ["a"], "x > 6.0D": ["c"], "x = double('NaN')": ["c"]}
    for native in (0, 1):
        frame = read(spark, str(writer.folder))
        assert slice_routes(frame).native == native
        assert ids_by_condition(dict.fromkeys(conditions, frame)) == conditions
        if not native:
            by_java(spark, file, tmp_path / "java")


def test_times_that_filters_of_spark_would_cut(spark: SparkSession, tmp_path: Path) -> None:
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    writer = TableWriter(folder=tmp_path / "table", fields=(("id", "string"), ("ts", "long"), ("t", millis))).create()
    moments = {key: dt.datetime(1970, 1, 1, 0, 0, second, tzinfo=dt.UTC) for second, key in enumerate("abc")}
    writer.base_file(at(1), [{"id": key, "ts": 1, "t": moment} for key, moment in moments.items()], row_group_size=1)
    writer.commit(at(1))
    frame = read(spark, str(writer.folder))
    assert slice_routes(frame).native == 1
    before = frame.where("t < timestamp'1970-01-01 00:00:01.000500'")
    assert sorted(item["id"] for item in before.collect()) == ["a", "b"]
    assert [item["id"] for item in frame.where("t = timestamp'1970-01-01 00:00:02'").collect()] == ["c"]
