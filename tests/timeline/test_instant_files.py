"""The files of instants: metadata of commits, and the plans of table services."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from hudi_bridge.errors import CorruptTimelineError, DataFileGoneError
from hudi_bridge.releases import Series
from hudi_bridge.timeline.instant import Action, Instant, InstantState
from hudi_bridge.timeline.instant_files import (
    CleanMetadata,
    CommitMetadata,
    CompactionOperation,
    parse_commit_metadata,
    read_clean_metadata,
    read_clustering_plan,
    read_commit_metadata,
    read_compaction_plan,
    read_pending_compactions,
)
from hudi_bridge.timeline.timeline import TableState
from tests.timeline.timeline_files import (
    TEXT,
    clean,
    container,
    list_of,
    make_layout_1,
    make_table,
    map_of,
    put,
    record_type,
    requested_replace,
)

T = "20240101000000000"
C = "20240101000001000"
DONE = Instant(requested_time=T, action=Action.REPLACE_COMMIT, state=InstantState.COMPLETED)
NUMBER = ["null", "long"]
RECORD: dict[str, Any] = {
    "partitionToWriteStats": {
        "b": [
            {
                "fileId": "f-0",
                "path": "b/.f-0_1.log.2_0-1-2",
                "prevCommit": "1",
                "numWrites": 3,
                "numDeletes": 1,
                "numInserts": 2,
                "numUpdateWrites": 4,
                "fileSizeInBytes": 500,
                "baseFile": "f-0_0-0-0_1.parquet",
                "logFiles": [".f-0_1.log.1_0-1-1", ".f-0_1.log.2_0-1-2"],
                "logOffset": 7,
                "logVersion": 2,
                "cdcStats": {"b/.f-0_1.log.1_0-1-2.cdc": 99},
            },
        ],
        "a": [
            {
                "fileId": "g-0",
                "path": "a/g-0_0-0-0_1.parquet",
                "prevCommit": "null",
                "baseFile": "",
                "cdcStats": None,
            }
        ],
    },
    "extraMetadata": {"schema": "{}", "latest_schema": '{"max_column_id":1}', "key": "value"},
    "operationType": "UPSERT",
    "compacted": False,
    "partitionToReplaceFileIds": {"a": ["h-0", "i-0"]},
}
STAT = record_type(
    "HoodieWriteStat",
    dict.fromkeys(("fileId", "path", "prevCommit", "baseFile"), TEXT)
    | dict.fromkeys(("numWrites", "numDeletes", "numInserts", "numUpdateWrites", "fileSizeInBytes"), NUMBER)
    | {
        "logOffset": NUMBER,
        "logVersion": ["null", "int"],
        "logFiles": list_of("string"),
        "cdcStats": map_of("long"),
    },
)[1]
FIELDS = {
    "partitionToWriteStats": map_of({"type": "array", "items": STAT}),
    "extraMetadata": map_of("string"),
    "operationType": TEXT,
    "compacted": ["null", "boolean"],
    "partitionToReplaceFileIds": map_of({"type": "array", "items": "string"}),
}


def as_json(**changes: Any) -> bytes:
    return json.dumps(RECORD | changes, indent=2).encode()


def as_avro() -> bytes:
    return container("HoodieReplaceCommitMetadata", FIELDS, RECORD)


@pytest.mark.parametrize("data", [as_json(), as_avro()], ids=["json", "avro"])
def test_the_same_metadata_in_either_form(data: bytes) -> None:
    metadata = parse_commit_metadata(data, "c")
    assert metadata.operation_type == "UPSERT"
    assert not metadata.is_compaction
    assert metadata.schema_text == "{}"
    assert metadata.latest_schema == '{"max_column_id":1}'
    assert dict(metadata.extra)["key"] == "value"
    assert metadata.replaced_file_ids == (("a", ("h-0", "i-0")),)
    by_id = {stat.file_id: stat for stat in metadata.write_stats}
    log = by_id["f-0"]
    assert (log.partition_path, log.path, log.prev_commit) == ("b", "b/.f-0_1.log.2_0-1-2", "1")
    assert (log.num_writes, log.num_deletes, log.num_inserts, log.num_update_writes) == (3, 1, 2, 4)
    assert (log.file_size_bytes, log.log_offset) == (500, 7)
    assert log.base_file == "f-0_0-0-0_1.parquet"
    assert log.log_files == (".f-0_1.log.1_0-1-1", ".f-0_1.log.2_0-1-2")
    assert log.cdc_stats == (("b/.f-0_1.log.1_0-1-2.cdc", 99),)
    base = by_id["g-0"]
    assert (base.partition_path, base.prev_commit, base.base_file) == ("a", None, None)
    assert (base.num_writes, base.log_files, base.cdc_stats) == (0, (), ())
    assert pickle.loads(pickle.dumps(metadata)) == metadata
    hash(metadata)


def test_the_hand_of_1x_shows_in_what_it_says_of_files() -> None:
    stats = {"a": [{"fileId": "f-0", "prevBaseFile": None}]}
    assert parse_commit_metadata(as_json(partitionToWriteStats=stats), "c").series is Series.V1
    assert parse_commit_metadata(as_json(), "c").series is Series.V0
    assert parse_commit_metadata(as_json(partitionToWriteStats={"a": []}), "c").series is None


@pytest.mark.parametrize("data", [b"", b"{}"])
def test_a_commit_that_wrote_nothing(data: bytes) -> None:
    assert parse_commit_metadata(data, "c") == CommitMetadata(
        operation_type="",
        is_compaction=False,
        schema_text=None,
        latest_schema=None,
        extra=(),
        write_stats=(),
        replaced_file_ids=(),
        series=None,
    )


@pytest.mark.parametrize("changes", [{"operationType": "COMPACT"}, {"operationType": None, "compacted": True}])
def test_compactions(changes: dict[str, Any]) -> None:
    assert parse_commit_metadata(as_json(**changes), "c").is_compaction


@pytest.mark.parametrize("data", [as_json(), as_avro()], ids=["json", "avro"])
def test_every_cut_is_noticed(data: bytes) -> None:
    for length in range(1, len(data)):
        with pytest.raises(CorruptTimelineError, match=r"^c"):
            parse_commit_metadata(data[:length], "c")


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 100,
        b"[]",
        b"7",
        b"\xff\xfe{}",
        b"[" * 100_000,
        b"Obj\x01",
        as_avro() + b"x",
        container("Two", FIELDS, RECORD, RECORD),
        container("None", FIELDS),
        as_json(partitionToWriteStats=[]),
        as_json(partitionToWriteStats={"a": {}}),
        as_json(partitionToWriteStats={"a": [1]}),
        as_json(partitionToWriteStats={"a": [{"numWrites": "1"}]}),
        as_json(partitionToWriteStats={"a": [{"path": 1}]}),
        as_json(partitionToWriteStats={"a": [{"logFiles": ["x", None]}]}),
        as_json(partitionToWriteStats={"a": [{"cdcStats": {"x": "y"}}]}),
        as_json(extraMetadata={"schema": {}}),
        as_json(operationType=4),
        as_json(partitionToReplaceFileIds={"a": [1]}),
    ],
)
def test_other_content_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptTimelineError) as caught:
        parse_commit_metadata(data, "c")
    assert caught.value.path == "c"


def test_reading_by_instant(tmp_path: Path) -> None:
    storage, config = make_layout_1(tmp_path)
    put(tmp_path, config, **{f"t{T}.replacecommit": as_json()})
    assert read_commit_metadata(TableState.load(storage, config), DONE) == parse_commit_metadata(as_json(), "c")


def test_reading_by_instant_in_layout_2(tmp_path: Path) -> None:
    storage, config = make_table(tmp_path)
    put(tmp_path, config, **{f"t{T}_{C}.replacecommit": as_avro()})
    instant = Instant(requested_time=T, action=Action.REPLACE_COMMIT, state=InstantState.COMPLETED, completion_time=C)
    assert read_commit_metadata(TableState.load(storage, config), instant).operation_type == "UPSERT"


def test_a_file_that_went_away(tmp_path: Path) -> None:
    storage, config = make_layout_1(tmp_path)
    with pytest.raises(DataFileGoneError, match="open it again") as caught:
        read_commit_metadata(TableState.load(storage, config), DONE)
    assert caught.value.path == f".hoodie/{T}.replacecommit"


U = "20240101000001000"


def compaction_plan(*operations: dict[str, Any]) -> bytes:
    operation = record_type(
        "HoodieCompactionOperation",
        dict.fromkeys(("partitionPath", "fileId", "baseInstantTime", "dataFilePath"), TEXT)
        | {"deltaFilePaths": list_of("string")},
    )[1]
    return container("HoodieCompactionPlan", {"operations": list_of(operation)}, {"operations": list(operations)})


def done(action: Action) -> Instant:
    return Instant(requested_time=T, action=action, state=InstantState.COMPLETED)


def inflight(action: Action, time: str = T) -> Instant:
    return Instant(requested_time=time, action=action, state=InstantState.INFLIGHT)


def test_compaction_plan(tmp_path: Path) -> None:
    storage, config = make_layout_1(tmp_path)
    with_base = {
        "partitionPath": "a",
        "fileId": "f-0",
        "baseInstantTime": "1",
        "dataFilePath": "/bucket/trips/a/f-0_0-0-0_1.parquet",
        "deltaFilePaths": ["/bucket/trips/a/.f-0_1.log.1_0-0-0", ".f-0_1.log.2_0-0-0"],
    }
    logs_only = {"partitionPath": "", "fileId": "g-0", "baseInstantTime": "2", "deltaFilePaths": None}
    plan = compaction_plan(with_base, logs_only)
    put(tmp_path, config, **{f"t{T}.compaction.requested": plan, f"t{T}.compaction.inflight": b""})
    assert read_compaction_plan(TableState.load(storage, config), inflight(Action.COMPACTION)) == (
        CompactionOperation(
            partition_path="a",
            file_id="f-0",
            base_instant_time="1",
            base_file="f-0_0-0-0_1.parquet",
            log_files=(".f-0_1.log.1_0-0-0", ".f-0_1.log.2_0-0-0"),
        ),
        CompactionOperation(partition_path="", file_id="g-0", base_instant_time="2", base_file=None, log_files=()),
    )
    pending = read_pending_compactions(TableState.load(storage, config))
    assert pending == {("a", "f-0"): T, ("", "g-0"): T}


def test_completed_compactions_are_not_pending(tmp_path: Path) -> None:
    storage, config = make_layout_1(tmp_path)
    plan = compaction_plan({"partitionPath": "a", "fileId": "f-0"})
    put(tmp_path, config, **{f"t{T}.compaction.requested": plan, f"t{T}.commit": b""})
    put(tmp_path, config, **{f"t{U}.logcompaction.requested": plan})
    assert read_pending_compactions(TableState.load(storage, config)) == {}
    assert len(read_compaction_plan(TableState.load(storage, config), inflight(Action.LOG_COMPACTION, U))) == 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (requested_replace(["f-0", "g-0"]), (("a", "f-0"), ("a", "g-0"))),
        (requested_replace([]), ()),
        (requested_replace(None), None),
        (b"", None),
    ],
)
def test_a_plan_tells_clusterings_from_other_replace_commits(tmp_path: Path, content: bytes, expected: object) -> None:
    storage, config = make_layout_1(tmp_path)
    put(tmp_path, config, **{f"t{T}.replacecommit.requested": content})
    assert read_clustering_plan(TableState.load(storage, config), inflight(Action.REPLACE_COMMIT)) == expected


def test_clustering_in_layout_2(tmp_path: Path) -> None:
    storage, config = make_table(tmp_path)
    put(tmp_path, config, **{f"t{T}.clustering.requested": requested_replace(["f-0"])})
    assert read_clustering_plan(TableState.load(storage, config), inflight(Action.CLUSTERING)) == (("a", "f-0"),)


@pytest.mark.parametrize("earliest", [T, None])
def test_clean(tmp_path: Path, earliest: str | None) -> None:
    storage, config = make_layout_1(tmp_path)
    put(tmp_path, config, **{f"t{T}.clean": clean(earliest)})
    expected = CleanMetadata(earliest_commit_to_retain=earliest)
    assert read_clean_metadata(TableState.load(storage, config), done(Action.CLEAN)) == expected


@pytest.mark.parametrize("content", [b"", b"Obj\x01\x00", b"{", compaction_plan()[:-20]])
def test_a_damaged_plan(tmp_path: Path, content: bytes) -> None:
    storage, config = make_layout_1(tmp_path)
    put(tmp_path, config, **{f"t{T}.compaction.requested": content})
    with pytest.raises(CorruptTimelineError) as caught:
        read_compaction_plan(TableState.load(storage, config), inflight(Action.COMPACTION))
    assert caught.value.path == f".hoodie/{T}.compaction.requested"


@pytest.mark.parametrize(
    ("partition", "stored", "path"),
    [
        ("b", "file:b/.f-0_1.log.2_0-1-2", "b/.f-0_1.log.2_0-1-2"),
        ("b/c", "hdfs://host:8020b/c/.f-0_1.log.2_0-1-2", "b/c/.f-0_1.log.2_0-1-2"),
        ("", "file:.f-0_1.log.2_0-1-2", ".f-0_1.log.2_0-1-2"),
        ("", "hdfs://host:8020.f-0_1.log.2_0-1-2", ".f-0_1.log.2_0-1-2"),
        ("a:b", "a:b/.f-0_1.log.2_0-1-2", "a:b/.f-0_1.log.2_0-1-2"),
        ("b", "other/b/.f-0_1.log.2_0-1-2", "other/b/.f-0_1.log.2_0-1-2"),
        ("b", "b/f-0_0-0-0_1.parquet", "b/f-0_0-0-0_1.parquet"),
    ],
)
def test_a_path_that_begins_with_the_store_of_the_table(partition: str, stored: str, path: str) -> None:
    stats = {partition: [RECORD["partitionToWriteStats"]["b"][0] | {"path": stored}]}
    (stat,) = parse_commit_metadata(as_json(partitionToWriteStats=stats), "c").write_stats
    assert stat.path == path
