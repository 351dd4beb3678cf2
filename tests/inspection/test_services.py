"""Plans of table services and what became of them."""

from pathlib import Path

import pytest

from hudi_bridge import CorruptTimelineError, HudiTable, QueryError
from hudi_bridge.inspection import (
    SERVICE_FILES_SCHEMA,
    SERVICES,
    SERVICES_SCHEMA,
    inspect_service,
    inspect_service_files,
    inspect_services,
)
from tests.support.compatibility_page import golden_tables
from tests.support.golden_cases import golden_table, spread
from tests.support.table_writer import TableWriter, at

ROW = {"id": "a", "ts": 1, "value": "x"}


@pytest.mark.parametrize("name", [table.name for table in spread(golden_tables(), 60)])
def test_every_service_is_read_and_what_it_wrote_is_there(name: str) -> None:
    folder = golden_table(name)
    table = HudiTable.open(folder)
    services = inspect_services(table)
    assert services.schema == SERVICES_SCHEMA
    for service in services.to_pylist():
        assert service["problem"] is None
        files = inspect_service_files(table, service["requested_time"])
        assert files.schema == SERVICE_FILES_SCHEMA
        if service["service"] == "clean" and service["state"] == "completed":
            assert not any((folder / str(path)).exists() for path in files.column("path").to_pylist())
            assert set(files.column("state").to_pylist()) <= {"done"}
        if service["service"] == "savepoint":
            kept = [str(row["path"]) for row in files.to_pylist() if row["what"] == "keep"]
            assert all((folder / path).exists() for path in kept)


@pytest.mark.parametrize(
    ("name", "service", "state", "planned", "command"),
    [
        ("d_pending_compaction_inflight_120", "compaction", "inflight", 9, "CALL run_compaction(op => 'execute'"),
        ("d_clustering_pending_0150", "clustering", "requested", 12, "CALL run_clustering(table"),
        ("d_archived_0150", "clean", "completed", 15, None),
        ("d_log_compaction_0150", "logcompaction", "completed", 11, None),
        ("d_restore_0150", "savepoint", "completed", 6, "CALL delete_savepoint(table"),
    ],
)
def test_services_of_hudi(name: str, service: str, state: str, planned: int, command: str | None) -> None:
    rows = inspect_services(HudiTable.open(golden_table(name))).to_pylist()
    row = next(row for row in rows if row["service"] == service)
    assert (row["state"], row["files_planned"]) == (state, planned)
    assert (row["hudi_command"] or "")[: len(command or "")] == (command or "")
    assert (row["age_seconds"] is None) == (state == "completed")


def test_a_rollback_and_what_it_deleted() -> None:
    table = HudiTable.open(golden_table("c_rollback_120"))
    row = inspect_services(table, ["rollbacks"]).to_pylist()[0]
    assert (row["target"], row["files_planned"], row["files_done"], row["details"]) == (
        "20261121134206171",
        2,
        2,
        [("of", "deltacommit")],
    )
    files = inspect_service_files(table, row["requested_time"]).to_pylist()
    assert {(file["what"], file["planned"], file["state"]) for file in files} == {("delete", True, "done")}


def test_progress_of_a_pending_compaction(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t", version=9).create()
    writer.commit(at(1), wrote=[writer.base_file(at(1), [ROW]), writer.base_file(at(1), [ROW], file_id="f2-0")])
    writer.pending_compaction(at(3), [("", "f1-0"), ("", "f2-0")])
    assert inspect_service(writer.open(), at(3)).column("files_done").to_pylist() == [0]
    written = writer.base_file(at(3), [ROW])
    assert inspect_service(writer.open(), at(3)).column("files_done").to_pylist() == [1]
    (output,) = inspect_service_files(writer.open(), at(3)).to_pylist()
    assert (output["path"], output["what"], output["size_bytes"]) == (written.name, "output", written.stat().st_size)


def test_a_damaged_plan_is_a_row(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t", version=6).create()
    writer.commit(at(1), wrote=[writer.base_file(at(1), [ROW])])
    (writer.timeline_folder / f"{at(2)}.clean.requested").write_bytes(b"Obj\x01")
    (row,) = inspect_services(writer.open()).to_pylist()
    assert (row["service"], row["state"], row["files_planned"]) == ("clean", "requested", 0)
    assert f"{at(2)}.clean.requested" in row["problem"]
    with pytest.raises(CorruptTimelineError):
        inspect_service(writer.open(), at(2))


def test_what_is_no_service() -> None:
    table = HudiTable.open(golden_table("a_story_v9_120"))
    first = table.timeline.commits()[0].requested_time
    with pytest.raises(QueryError, match="the requested time of a table service"):
        inspect_service(table, first)
    with pytest.raises(QueryError, match=", ".join(SERVICES)):
        inspect_services(table, ["vacuums"])
