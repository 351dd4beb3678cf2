import io
import json
import struct
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_bridge.config import TableConfig
from hudi_bridge.errors import CorruptLogFileError, CorruptTimelineError
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.history import load_archived_instants, read_archived_commits
from hudi_bridge.timeline.instant import Action, Instant, InstantState
from hudi_bridge.timeline.timeline import TableState
from tests.timeline.timeline_files import TEXT, make_layout_1, make_table, map_of, record_type

A, B, C, D, E = (f"2024010100000{n}000" for n in range(1, 6))

COMMIT = record_type("HoodieCommitMetadata", {"operationType": TEXT, "extraMetadata": map_of("string")})
REPLACE = record_type(
    "HoodieReplaceCommitMetadata",
    {"operationType": TEXT, "partitionToReplaceFileIds": map_of({"type": "array", "items": "string"})},
)
ENTRY_FIELDS = {
    "hoodieCommitMetadata": COMMIT,
    "commitTime": TEXT,
    "actionType": TEXT,
    "actionState": TEXT,
    "hoodieReplaceCommitMetadata": REPLACE,
    "stateTransitionTime": TEXT,
}
ENTRY = record_type("HoodieArchivedMetaEntry", ENTRY_FIELDS)[1] | {"namespace": "org.apache.hudi.avro.model"}
Entry = dict[str, Any]


def entry(time: str, action: str, state: str | None = "COMPLETED", **fields: object) -> Entry:
    return {"commitTime": time, "actionType": action, "actionState": state, **fields}


def content_of(*entries: Entry) -> bytes:
    content = struct.pack(">ii", 3, len(entries))
    for value in entries:
        file = io.BytesIO()
        fastavro.schemaless_writer(file, ENTRY, value)
        content += struct.pack(">i", file.tell()) + file.getvalue()
    return content


def log_block(content: bytes, schema: str | None = json.dumps(ENTRY), block_type: int = 3) -> bytes:
    """One block of log format version 1 without footer; header key 2 holds the schema."""
    headers = {} if schema is None else {2: schema.encode()}
    body = struct.pack(">iii", 1, block_type, len(headers))
    for key, text in headers.items():
        body += struct.pack(">ii", key, len(text)) + text
    body += struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    size = len(body) + 8
    return b"#HUDI#" + struct.pack(">q", size) + body + struct.pack(">q", size + 6)


def archived_table(folder: Path, **files: bytes) -> tuple[Storage, TableConfig]:
    """A table of layout 1 with files ``.commits_.archive.<n>_1-0-1``; keyword names are ``f<n>``."""
    storage, config = make_layout_1(folder)
    (folder / config.archived_path).mkdir()
    for name, data in files.items():
        (folder / config.archived_path / f".commits_.archive.{name[1:]}_1-0-1").write_bytes(data)
    return storage, config


def done(time: str, action: Action, completion_time: str | None = None) -> Instant:
    return Instant(requested_time=time, action=action, state=InstantState.COMPLETED, completion_time=completion_time)


def two_log_files() -> dict[str, bytes]:
    clustered = {"operationType": "CLUSTER", "partitionToReplaceFileIds": {"a": ["f-0"]}}
    return {
        "f10": log_block(
            content_of(entry(D, "clean"), entry(C, "replacecommit", hoodieReplaceCommitMetadata=clustered))
        ),
        "f2": log_block(
            content_of(
                entry(A, "deltacommit", "REQUESTED"),
                entry(A, "deltacommit", "INFLIGHT", hoodieCommitMetadata={"operationType": "INFLIGHT"}),
                entry(
                    A,
                    "deltacommit",
                    hoodieCommitMetadata={"operationType": "UPSERT", "extraMetadata": {"schema": "{}"}},
                    stateTransitionTime=B,
                ),
            )
        )
        + log_block(content_of(entry(B, "commit", None), entry(E, "deltacommit", "INFLIGHT"), entry(E, "upsert"))),
    }


def test_layout_1_lists_the_completed_instants_of_all_files(tmp_path: Path) -> None:
    storage, config = archived_table(tmp_path, **two_log_files())
    (tmp_path / config.archived_path / ".commits_.archive.2_1-0-1.crc").write_bytes(b"crc")
    (tmp_path / config.archived_path / "mergeArchivePlan").write_bytes(b"{}")
    expected = (
        done(A, Action.DELTA_COMMIT, B),
        done(B, Action.COMMIT),
        done(C, Action.REPLACE_COMMIT),
        done(D, Action.CLEAN),
    )
    assert load_archived_instants(TableState.load(storage, config)) == expected
    assert load_archived_instants(TableState.load(storage, config), since=C) == expected[2:]


def test_layout_1_commit_metadata(tmp_path: Path) -> None:
    storage, config = archived_table(tmp_path, **two_log_files())
    actual = read_archived_commits(TableState.load(storage, config), [A, B, C, D, E])
    assert {time: metadata.operation_type for time, metadata in actual.items()} == {
        A: "UPSERT",
        B: "",
        C: "CLUSTER",
    }
    assert actual[C].replaced_file_ids == (("a", ("f-0",)),)
    upsert = read_archived_commits(TableState.load(storage, config), [A]).get(A)
    assert upsert is not None
    assert upsert.schema_text == "{}"
    assert read_archived_commits(TableState.load(storage, config), [D]).get(D) is None


WHOLE = log_block(content_of(entry(A, "commit")))


@pytest.mark.parametrize(
    ("data", "offset", "found"),
    [
        (WHOLE + WHOLE[:-9], len(WHOLE), "damaged block"),
        (WHOLE[:-9] + WHOLE, 0, "damaged block"),
        (WHOLE + log_block(b"", None, block_type=0), len(WHOLE), "not one of entries"),
        (log_block(content_of(entry(A, "commit")), None) + WHOLE, 0, "not one of entries"),
    ],
    ids=["cut off", "cut within", "a command", "no schema"],
)
def test_layout_1_with_a_damaged_block(tmp_path: Path, data: bytes, offset: int, found: str) -> None:
    storage, config = archived_table(tmp_path, f1=data)
    with pytest.raises(CorruptTimelineError, match=found) as caught:
        load_archived_instants(TableState.load(storage, config))
    assert caught.value.offset == offset
    with pytest.raises(CorruptTimelineError, match=found):
        read_archived_commits(TableState.load(storage, config), [A])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\0\3",
        struct.pack(">ii", 3, 1),
        struct.pack(">ii", 3, 2**31 - 1),
        struct.pack(">iii", 3, 1, 100) + b"short",
        struct.pack(">iii", 3, 1, -1),
        struct.pack(">iii", 3, 1, 3) + b"\x7f\x7f\x7f",
        struct.pack(">iii", 3, 1, 0),
    ],
)
def test_layout_1_with_a_damaged_entry(tmp_path: Path, content: bytes) -> None:
    storage, config = archived_table(tmp_path, f1=log_block(content))
    with pytest.raises(CorruptTimelineError) as caught:
        load_archived_instants(TableState.load(storage, config))
    assert caught.value.path == ".hoodie/archived/.commits_.archive.1_1-0-1"


@pytest.mark.parametrize("schema", ["", "{", '"string"', '{"type":"record"}'])
def test_layout_1_with_a_damaged_schema(tmp_path: Path, schema: str) -> None:
    content = struct.pack(">iii", 3, 1, 2) + b"\x02a"
    storage, config = archived_table(tmp_path, f1=log_block(content, schema))
    with pytest.raises(CorruptTimelineError):
        load_archived_instants(TableState.load(storage, config))


def test_layout_1_with_another_kind_of_file(tmp_path: Path) -> None:
    storage, config = archived_table(tmp_path, f1=b"PAR1 and so on")
    with pytest.raises(CorruptLogFileError):
        load_archived_instants(TableState.load(storage, config))


SCHEMA = pa.schema(
    [pa.field(name, pa.string()) for name in ("instantTime", "completionTime", "action")]
    + [pa.field(name, pa.binary()) for name in ("metadata", "plan")]
    + [pa.field("version", pa.int32())]
)
Row = tuple[str | None, str, str, bytes]


def lsm_table(folder: Path, files: dict[str, list[Row]]) -> tuple[Storage, TableConfig, Path]:
    """A table of layout 2 whose manifest 7 lists the files; beside them an older manifest and a left-over."""
    storage, config = make_table(folder)
    history = folder / config.archived_path
    history.mkdir()
    for name, rows in files.items():
        records = [dict(zip(SCHEMA.names, (*row, b"", 1), strict=True)) for row in rows]
        pq.write_table(pa.Table.from_pylist(records, SCHEMA), history / name)
    (history / f"{A}_{E}_0.parquet").write_bytes(b"left over")
    manifest = {"files": [{"fileName": name, "fileLen": 1} for name in files]}
    (history / "manifest_6").write_text("{}")
    (history / "manifest_7").write_text(json.dumps(manifest))
    (history / "_version_").write_text("7")
    return storage, config, history


def two_lsm_files() -> dict[str, list[Row]]:
    upsert = json.dumps({"operationType": "UPSERT"}).encode()
    return {
        f"{C}_{D}_0.parquet": [(C, D, "clean", b"Obj\x01"), (D, E, "deltacommit", upsert)],
        f"{A}_{B}_1.parquet": [(A, B, "commit", b""), (B, C, "upsert", b""), (None, C, "commit", b"")],
    }


def test_layout_2_reads_the_files_of_the_valid_manifest(tmp_path: Path) -> None:
    storage, config, _ = lsm_table(tmp_path, two_lsm_files())
    expected = (done(A, Action.COMMIT, B), done(C, Action.CLEAN, D), done(D, Action.DELTA_COMMIT, E))
    assert load_archived_instants(TableState.load(storage, config)) == expected
    assert load_archived_instants(TableState.load(storage, config), since=D) == expected[2:]


def test_layout_2_commit_metadata(tmp_path: Path) -> None:
    storage, config, history = lsm_table(tmp_path, two_lsm_files())
    actual = read_archived_commits(TableState.load(storage, config), {A, C, D})
    assert {time: metadata.operation_type for time, metadata in actual.items()} == {A: "", D: "UPSERT"}
    # Only files that may hold the instant are opened.
    (history / f"{A}_{B}_1.parquet").unlink()
    assert list(read_archived_commits(TableState.load(storage, config), {D})) == [D]
    assert read_archived_commits(TableState.load(storage, config), ()) == {}


def test_layout_2_without_version_file_takes_the_newest_manifest(tmp_path: Path) -> None:
    storage, config, history = lsm_table(tmp_path, two_lsm_files())
    (history / "_version_").unlink()
    (history / "manifest_10").write_text('{"files": []}')
    assert load_archived_instants(TableState.load(storage, config)) == ()
    (history / "manifest_10").unlink()
    assert len(load_archived_instants(TableState.load(storage, config))) == 3


def test_a_table_that_archived_nothing(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    assert load_archived_instants(TableState.load(*make_layout_1(tmp_path / "1"))) == ()
    assert load_archived_instants(TableState.load(*make_table(tmp_path / "2"))) == ()


def test_there_is_no_metadata_without_history(tmp_path: Path) -> None:
    storage, config = make_table(tmp_path)
    assert read_archived_commits(TableState.load(storage, config), [A]).get(A) is None


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("_version_", b"", "''"),
        ("_version_", b"../x", "'../x'"),
        ("_version_", b"\xff7", "\ufffd7"),
        ("_version_", b"8", "no such file"),
        ("manifest_7", b"{", "neither"),
        ("manifest_7", b'{"files": [1]}', "files"),
        ("manifest_7", b"{}", "the fields []"),
        ("manifest_7", b'{"filet": []}', "filet"),
        ("manifest_7", b'{"files": [{"fileName": "../../x_y_0.parquet"}]}', "../../x_y_0.parquet"),
        (f"{C}_{D}_0.parquet", b"PAR1", "no readable Parquet"),
        (f"{C}_{D}_0.parquet", None, "no such file"),
    ],
)
def test_layout_2_damage(tmp_path: Path, name: str, content: bytes | None, found: str) -> None:
    storage, config, history = lsm_table(tmp_path, two_lsm_files())
    if content is None:
        (history / name).unlink()
    else:
        (history / name).write_bytes(content)
    with pytest.raises(CorruptTimelineError) as caught:
        load_archived_instants(TableState.load(storage, config))
    assert found in caught.value.found
    assert caught.value.path.startswith(".hoodie/timeline/history/")


def test_layout_2_with_other_columns(tmp_path: Path) -> None:
    storage, config, history = lsm_table(tmp_path, two_lsm_files())
    columns = {"instantTime": [1], "completionTime": [D], "action": ["commit"]}
    pq.write_table(pa.table(columns), history / f"{C}_{D}_0.parquet")
    with pytest.raises(CorruptTimelineError, match="columns"):
        load_archived_instants(TableState.load(storage, config))


def test_layout_2_with_damaged_metadata_names_the_instant(tmp_path: Path) -> None:
    files: dict[str, list[Row]] = {f"{A}_{A}_0.parquet": [(A, B, "commit", b"Obj\x01")]}
    storage, config, _ = lsm_table(tmp_path, files)
    with pytest.raises(CorruptTimelineError) as caught:
        read_archived_commits(TableState.load(storage, config), [A]).get(A)
    assert caught.value.path.endswith(f"{A}_{A}_0.parquet, instant {A}")
