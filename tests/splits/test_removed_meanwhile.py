"""Files that go after a table was opened and before its folders are listed: their rows must not be missed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest

from hudi_bridge import DataFileGoneError, HudiTable, InstantNotReadableError
from tests.support.table_writer import TableWriter, at, completion_of, sorted_column
from tests.timeline.timeline_files import clean, clean_plan

FIRST = f"a-0_0-1-1_{at(1)}.parquet"
"""The first file of the first file group."""


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableWriter:
    """Two file groups of one commit."""
    table = TableWriter(folder=tmp_path / "t", version=request.param).create()
    files = [
        table.base_file(at(1), [{"id": name, "ts": 1, "value": "old"}], file_id=f"{name}-0") for name in ("a", "b")
    ]
    table.commit(at(1), wrote=files)
    return table


def put(table: TableWriter, instant: str, suffix: str, content: bytes) -> None:
    name = f"{instant}_{completion_of(instant)}" if table.version >= 8 and "." not in suffix else instant
    (table.timeline_folder / f"{name}.{suffix}").write_bytes(content)


def compact(table: TableWriter, instant: str) -> None:
    """A later base file of the first file group."""
    file = table.base_file(instant, [{"id": "a", "ts": 2, "value": "new"}], file_id="a-0")
    table.commit(instant, action="commit", wrote=[file])


def remove(table: TableWriter) -> None:
    (table.folder / FIRST).unlink()


def read(table: HudiTable) -> list[str]:
    return sorted_column(table.snapshot().to_table(), "value")


def cleaned(table: TableWriter) -> None:
    compact(table, at(2))
    put(table, at(3), "clean.requested", clean_plan(at(2), FIRST))
    put(table, at(3), "clean.inflight", b"")
    remove(table)
    put(table, at(3), "clean", clean(at(2)))


def being_cleaned(table: TableWriter) -> None:
    compact(table, at(2))
    put(table, at(3), "clean.requested", clean_plan(at(2), FIRST))
    put(table, at(3), "clean.inflight", b"")
    remove(table)


def cleaned_by_file_versions(table: TableWriter) -> None:
    compact(table, at(2))
    remove(table)
    put(table, at(3), "clean", clean(None))


def replaced_and_cleaned(table: TableWriter) -> None:
    """Nothing newer is left in the folder."""
    table.commit(at(2), action="replacecommit", replaced={"": ["a-0"]})
    remove(table)
    put(table, at(3), "clean", clean(at(2)))


def restored(table: TableWriter) -> None:
    remove(table)
    put(table, at(3), "restore", b"")


REMOVALS = (cleaned, being_cleaned, cleaned_by_file_versions, replaced_and_cleaned, restored)


@pytest.mark.parametrize("happens", REMOVALS)
def test_files_removed_before_the_listing_are_an_error(
    table: TableWriter, happens: Callable[[TableWriter], None]
) -> None:
    opened = table.open()
    snapshot = opened.snapshot()
    happens(table)
    for _ in range(2):
        with pytest.raises(InstantNotReadableError, match=f"as of {at(1)}: .* since it was chosen"):
            snapshot.to_table()
    with pytest.raises(InstantNotReadableError):
        list(opened.read_optimized().splits())
    with pytest.raises(InstantNotReadableError):
        opened.splits()
    with pytest.raises(InstantNotReadableError):
        opened.get("b")


@pytest.mark.parametrize("happens", [cleaned, being_cleaned, replaced_and_cleaned])
def test_files_removed_after_the_listing_are_an_error_too(
    table: TableWriter, happens: Callable[[TableWriter], None]
) -> None:
    opened = table.open()
    opened.splits()
    happens(table)
    with pytest.raises(DataFileGoneError):
        read(opened)


@pytest.mark.parametrize("happens", [cleaned, being_cleaned, cleaned_by_file_versions])
def test_the_table_as_it_is_now_can_be_read(table: TableWriter, happens: Callable[[TableWriter], None]) -> None:
    happens(table)
    assert read(table.open()) == ["new", "old"]


def test_an_earlier_instant_whose_files_are_being_cleaned_is_refused(table: TableWriter) -> None:
    compact(table, at(2))
    opened = table.open()
    being_cleaned(table)
    for item in (opened, table.open()):
        with pytest.raises(InstantNotReadableError, match=at(1)):
            item.snapshot(at(1)).to_table()
        assert sorted_column(item.snapshot(at(2)).to_table(), "value") == ["new", "old"]


@pytest.mark.parametrize("progress", ["planned", "removed", "completed"])
@pytest.mark.parametrize("retained", [at(3), None])
@pytest.mark.parametrize("version", [1, 2])
def test_an_earlier_instant_that_needs_none_of_the_cleaned_files_can_be_read(
    table: TableWriter, retained: str | None, version: int, progress: str
) -> None:
    compact(table, at(2))
    compact(table, at(3))
    before = table.open()
    put(table, at(4), "clean.requested", clean_plan(retained, FIRST, version=version))
    if progress != "planned":
        remove(table)
    if progress == "completed":
        put(table, at(4), "clean", clean(retained, FIRST))
    for opened in [before] if progress == "completed" else [before, table.open()]:
        assert sorted_column(opened.snapshot(at(2)).to_table(), "value") == ["new", "old"]
        assert opened.read_optimized(at(2)).count_rows() == 2
        opened.require_files_of(at(2))
        with pytest.raises(InstantNotReadableError, match=f"as of {at(1)}: .* removed by the clean {at(4)}"):
            opened.snapshot(at(1)).to_table()
        with pytest.raises(InstantNotReadableError, match=f"as of {at(1)}: .* removed by the clean {at(4)}"):
            opened.require_files_of(at(1))


def test_a_cleaned_log_file_is_needed_until_a_later_base_file(table: TableWriter) -> None:
    rows = [{"id": "a", "ts": 2, "value": "log"}]
    blocks = [table.data_block(at(2), rows, file_id="a-0")]
    log = table.log_file(at(2), blocks, base_instant=at(1), file_id="a-0")
    table.commit(at(2), wrote=[log])
    compact(table, at(4))
    compact(table, at(5))
    put(table, at(6), "clean.requested", clean_plan(at(5), log.name))
    log.unlink()
    opened = table.open()
    assert sorted_column(opened.snapshot(at(4)).to_table(), "value") == ["new", "old"]
    with pytest.raises(InstantNotReadableError, match=f"as of {at(2)}: .* removed by the clean {at(6)}"):
        opened.snapshot(at(2)).to_table()


@pytest.mark.parametrize(
    "plan",
    [
        clean_plan(at(3), version=None),
        clean_plan(at(3), FIRST, whole_partitions=["p"]),
        clean_plan(at(3), FIRST, "part-0.parquet"),
    ],
    ids=["no list", "a partition", "a file that Hudi did not name"],
)
def test_a_plan_that_does_not_name_all_groups_may_remove_any_file(table: TableWriter, plan: bytes) -> None:
    compact(table, at(2))
    compact(table, at(3))
    put(table, at(4), "clean.requested", plan)
    with pytest.raises(InstantNotReadableError, match=f"as of {at(2)}: .* removed by the clean {at(4)}"):
        table.open().snapshot(at(2)).to_table()


def test_what_leaves_the_files_of_the_instant_is_no_error(table: TableWriter) -> None:
    opened = table.open()
    compact(table, at(2))
    # A clean that keeps them, one of which the plan was lost, a write that has failed, and its rollback.
    put(table, at(3), "clean", clean(at(1)))
    put(table, at(4), "clean.requested", b"")
    table.pending(at(5))
    put(table, at(6), "rollback", b"")
    assert read(opened) == ["old", "old"]


def test_commits_that_were_archived_are_not_missed(table: TableWriter) -> None:
    compact(table, at(2))
    opened = table.open()
    for file in table.timeline_folder.glob(f"{at(1)}*"):
        file.unlink()
    assert read(opened) == ["new", "old"]


def test_a_commit_that_was_rolled_back_meanwhile_is_an_error(table: TableWriter) -> None:
    log = table.log_file(
        at(2),
        [table.data_block(at(2), [{"id": "a", "ts": 2, "value": "new"}], file_id="a-0")],
        base_instant=at(1),
        file_id="a-0",
    )
    table.commit(at(2), wrote=[log])
    snapshot = table.open().snapshot()
    (completed,) = table.timeline_folder.glob(f"{at(2)}*")
    completed.unlink()
    log.unlink()
    put(table, at(3), "rollback", b"")
    with pytest.raises(InstantNotReadableError, match=f"as of {at(2)}: .*{at(2)} was rolled back"):
        snapshot.to_table()
    assert read(table.open()) == ["old", "old"]


def test_a_partition_that_is_gone_is_an_error(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "t", partition_fields=("value",)).create()
    file = table.base_file(at(1), [{"id": "a", "ts": 1, "value": "p"}], partition="p")
    table.commit(at(1), wrote=[file])
    snapshot = table.open().snapshot()
    table.commit(at(2), action="replacecommit", replaced={"p": ["f1-0"]}, operation="DELETE_PARTITION")
    shutil.rmtree(file.parent)
    put(table, at(3), "clean", clean(at(2)))
    for row_filter in (None, pc.field("value") == "p"):
        with pytest.raises(InstantNotReadableError):
            snapshot.to_table(filter=row_filter)
