from pathlib import Path
from typing import Any

import pytest

from hudi_bridge.errors import CorruptTimelineError
from hudi_bridge.timeline.instant import Action, Instant, InstantState
from hudi_bridge.timeline.plans import (
    CleanMetadata,
    CompactionOperation,
    read_clean_metadata,
    read_clustering_plan,
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
    put,
    record_type,
    requested_replace,
)

T = "20240101000000000"
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
