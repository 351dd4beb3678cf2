"""Plans of table services and what became of them."""

import shutil
from pathlib import Path

import pytest

from hudi_bridge import CorruptTimelineError, HudiTable, QueryError
from hudi_bridge.inspection import (
    SERVICE_FILES_SCHEMA,
    SERVICES,
    SERVICES_SCHEMA,
    inspect_commit,
    inspect_commit_files,
    inspect_commits,
    inspect_service,
    inspect_service_files,
    inspect_services,
    inspect_timeline,
    inspect_write_amplification,
)
from tests.support.compatibility_page import golden_tables
from tests.support.golden_cases import golden_table, spread
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

ROW = {"id": "a", "ts": 1, "value": "x"}


@pytest.mark.parametrize("name", one_in(5, [table.name for table in spread(golden_tables(), 60)]))
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
            paths = [str(row["path"]) for row in files.to_pylist() if row["what"] == "keep"]
            assert all((folder / path).exists() for path in paths)


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
        [("of", "deltacommit"), ("milliseconds", "123")],
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


@pytest.mark.parametrize("name", ["d_archived_0150", "d_archived_120", "d_archived_v6_by120", "l_storm_120"])
def test_services_of_the_archive(name: str) -> None:
    table = HudiTable.open(golden_table(name))
    active, every = (
        inspect_services(table, archived=archived).drop_columns("age_seconds").to_pylist() for archived in (False, True)
    )
    assert [row for row in every if not row["archived"]] == active
    archived = [row for row in every if row["archived"]]
    assert archived
    assert every == sorted(every, key=lambda row: str(row["requested_time"]))
    times = {row["requested_time"] for row in inspect_timeline(table, archived=True).to_pylist() if row["archived"]}
    for row in archived:
        assert (row["state"], row["problem"]) == ("completed", None)
        assert row["requested_time"] in times
        assert inspect_service(table, row["requested_time"]).drop_columns("age_seconds").to_pylist() == [row]
        assert len(inspect_service_files(table, row["requested_time"])) >= row["files_done"]


def test_the_archive_beside_the_active_timeline() -> None:
    table = HudiTable.open(golden_table("d_archived_0150"))
    active, every = (inspect_timeline(table, archived=archived).to_pylist() for archived in (False, True))
    assert [row for row in every if not row["archived"]] == active
    keys = [(row["requested_time"], row["action"]) for row in every]
    assert keys == sorted(set(keys), key=lambda key: key[0])
    commits = inspect_commits(table, archived=True).to_pylist()
    assert sorted((row["requested_time"], row["action"]) for row in commits) == sorted(keys)
    delta_commits = [row for row in commits if row["archived"] and row["action"] == "deltacommit"]
    assert delta_commits
    assert all(row["rows_written"] for row in delta_commits)
    first = delta_commits[0]["requested_time"]
    assert inspect_commit(table, first).to_pylist() == [delta_commits[0]]
    assert len(inspect_commit_files(table, first)) == delta_commits[0]["files_written"]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [("d_archived_0150", "archived/.commits_*"), ("d_archived_120", "timeline/history/*.parquet")],
)
def test_an_archive_that_cannot_be_read_is_a_row(name: str, pattern: str, tmp_path: Path) -> None:
    folder = shutil.copytree(golden_table(name), tmp_path / "t")
    for path in (folder / ".hoodie").glob(pattern):
        path.write_bytes(path.read_bytes()[:-20])
    table = HudiTable.open(folder)
    for inspect in (inspect_services, inspect_commits, inspect_write_amplification):
        first, *others = inspect(table, archived=True).to_pylist()
        assert (first["requested_time"], first["archived"]) == (None, True)
        assert "archive" in first["problem"] or "history" in first["problem"]
        assert others == inspect(table).to_pylist()


def test_a_pending_clustering_that_cannot_be_read_is_a_row(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t", version=6).create()
    writer.commit(at(1), wrote=[writer.base_file(at(1), [ROW])])
    (writer.timeline_folder / f"{at(2)}.replacecommit.requested").write_bytes(b"Obj\x01")
    (row,) = inspect_services(writer.open(), ["clusterings"]).to_pylist()
    assert (row["service"], row["state"]) == ("clustering", "requested")
    assert f"{at(2)}.replacecommit.requested" in row["problem"]


def test_files_of_all_services() -> None:
    table = HudiTable.open(golden_table("l_storm_120"))
    every = inspect_service_files(table).to_pylist()
    for service in inspect_services(table).to_pylist():
        time = service["requested_time"]
        own = inspect_service_files(table, time).to_pylist()
        assert [row for row in every if (row["requested_time"], row["service"]) == (time, service["service"])] == own


def test_what_is_no_service() -> None:
    table = HudiTable.open(golden_table("a_story_v9_120"))
    first = table.timeline.commits()[0].requested_time
    with pytest.raises(QueryError, match="the requested time of a table service"):
        inspect_service(table, first)
    with pytest.raises(QueryError, match=", ".join(SERVICES)):
        inspect_services(table, ["vacuums"])
