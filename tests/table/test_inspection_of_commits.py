"""What commits have done, as tables."""

from pathlib import Path

import pytest

from hudi_bridge import HudiTable, QueryError
from hudi_bridge.inspection import inspect_commit, inspect_commit_files, inspect_commits
from tests.support.golden_cases import golden_table, golden_trips
from tests.support.table_writer import TableWriter, at


def test_the_commits_of_the_trips() -> None:
    rows = inspect_commits(HudiTable.open(golden_trips() / "trips")).to_pylist()
    assert [
        (row["operation"], row["rows_inserted"], row["rows_updated"], row["rows_deleted"]) for row in rows[-2:]
    ] == [
        ("DELETE", 0, 0, 2),
        ("UPSERT", 2, 2, 0),
    ]
    last = rows[-1]
    assert (last["duration_seconds"], last["files_written"], last["partitions"]) == (0.801, 4, ["nyc", "sf"])
    assert (last["file_groups_replaced"], last["extra_metadata"]) == (0, [])


def test_a_commit_and_its_files() -> None:
    table = HudiTable.open(golden_trips() / "trips")
    (row,) = inspect_commit(table, "20261122081117834").to_pylist()
    files = inspect_commit_files(table, "20261122081117834").to_pylist()
    assert {file["kind"] for file in files} == {"base", "log"}
    for name in ("rows_inserted", "rows_updated", "rows_written", "bytes_written"):
        assert sum(file[name] for file in files) == row[name]
    for file in files:
        assert (Path(table.path) / file["path"]).stat().st_size == file["bytes_written"]


def test_other_instants_have_no_details(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t").create()
    writer.commit(at(1), wrote=[writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])])
    writer.pending(at(2))
    first, second = inspect_commits(writer.open()).to_pylist()
    assert (first["operation"], first["files_written"], first["duration_seconds"]) == ("UPSERT", 1, 0.05)
    assert (second["state"], second["operation"], second["files_written"]) == ("requested", None, None)


def test_change_data_are_files_too() -> None:
    table = HudiTable.open(golden_table("i_cdc_120"))
    kinds = [
        inspect_commit_files(table, commit.requested_time).column("kind").to_pylist()
        for commit in table.timeline.commits()
    ]
    assert any("change data" in of_commit for of_commit in kinds)


@pytest.mark.parametrize(
    ("name", "instant", "seconds"),
    [("d_archived_0150", "20261121143305891", 1.274), ("d_archived_120", "20261121134930250", 1.808)],
)
def test_archived_commits(name: str, instant: str, seconds: float) -> None:
    table = HudiTable.open(golden_table(name))
    assert not table.timeline.contains(instant)
    (row,) = inspect_commit(table, instant).to_pylist()
    assert (row["requested_time"], row["action"], row["state"]) == (instant, "deltacommit", "completed")
    assert (row["operation"], row["duration_seconds"]) == ("UPSERT", seconds)
    assert row["files_written"] == inspect_commit_files(table, instant).num_rows > 0


@pytest.mark.parametrize("instant", ["2", "'; DROP", "20261122081117719"])
def test_what_is_no_commit_is_refused(instant: str) -> None:
    with pytest.raises(QueryError, match="the requested time of a completed commit"):
        inspect_commit(HudiTable.open(golden_trips() / "trips"), instant)
