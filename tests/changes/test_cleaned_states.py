"""Ranges and comparisons of which a cleaner has removed a state, also one that does not say what it has retained."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hudi_bridge import HudiDataset, InstantNotReadableError, tools
from hudi_bridge.tools.differences.table_difference import TableDifference
from tests.support.table_writer import Row, TableWriter, at, completion_of
from tests.timeline.timeline_files import TEXT, clean, container, record_type

COPY_ON_WRITE = {"hoodie.table.type": "COPY_ON_WRITE"}
IMAGES = ("before", "after")
CDC = COPY_ON_WRITE | {"hoodie.table.cdc.enabled": "true"}

Found = list[tuple[str, str | None, str | None]]
"""Operations with the values before and after."""


@pytest.fixture(params=[(version, options) for version in (6, 9) for options in (COPY_ON_WRITE, CDC)])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> TableWriter:
    version, options = request.param
    return TableWriter(folder=tmp_path / "t", version=version, options=options).create()


def row(value: str, **others: Any) -> Row:
    return {"id": value[0], "ts": 1, "value": value, **others}


def wrote(table: TableWriter, number: int, rows: Sequence[Row], file_id: str = "f1-0", **commit: Any) -> Path:
    base = table.base_file(at(number), rows, file_id=file_id)
    table.commit(at(number), **({"action": "commit", "wrote": [base]} | commit))
    return base


def replaced(table: TableWriter, number: int, rows: Sequence[Row], operation: str, file_id: str = "f2-0") -> Path:
    replaces = {"": ["f1-0"]}
    return wrote(table, number, rows, file_id, action="replacecommit", replaced=replaces, operation=operation)


def logged(table: TableWriter, number: int, value: str) -> Path:
    """A log file of the slice that begins with the first commit, with its commit."""
    blocks = [table.data_block(at(number), [row(value, ts=number)])]
    log = table.log_file(at(number), blocks, base_instant=at(1), number=number)
    table.commit(at(number), wrote=[log])
    return log


def cleaned(table: TableWriter, number: int, *removed: Path, retained: str | None = None) -> None:
    """A clean, by default by the number of file versions, which does not record what it retains."""
    for file in removed:
        file.unlink()
    name = f"{at(number)}.clean" if table.version < 8 else f"{at(number)}_{completion_of(at(number))}.clean"
    (table.timeline_folder / name).write_bytes(clean(retained))


def place(table: TableWriter, number: int) -> str:
    return at(number) if table.version < 8 else completion_of(at(number))


def found(dataset: HudiDataset | TableDifference) -> Found:
    rows = dataset.to_table().to_pylist()
    return sorted(((row["op"], *(row[image] and row[image]["value"] for image in IMAGES)) for row in rows), key=str)


def changes(table: TableWriter, after: int, up_to: int | None = None) -> Found:
    return found(table.open().changes(place(table, after), None if up_to is None else place(table, up_to)))


def test_a_file_group_that_was_replaced_and_cleaned_is_missed(table: TableWriter) -> None:
    first = wrote(table, 1, [row("a1"), row("b1")])
    replaced(table, 2, [row("b2")], "INSERT_OVERWRITE")
    assert ("d", "a1", None) in changes(table, 1)
    cleaned(table, 3, first)
    with pytest.raises(InstantNotReadableError, match=f"before the commit {at(2)}") as caught:
        changes(table, 1)
    assert caught.value.earliest == place(table, 2)
    assert changes(table, 2) == []


def test_what_a_clustering_has_moved_out_of_cleaned_files_is_no_insert(table: TableWriter) -> None:
    first = wrote(table, 1, [row("a1"), row("b1")])
    moved = [row("a1", _hoodie_commit_time=at(1)), row("b1", _hoodie_commit_time=at(1))]
    second = replaced(table, 2, moved, "CLUSTER")
    wrote(table, 3, [row("a3"), moved[1]], "f2-0")
    assert changes(table, 1) == [("u", "a1", "a3")]
    cleaned(table, 4, first)
    if table.options == CDC:
        # What a clustering has moved is not asked for then.
        assert changes(table, 1) == [("u", "a1", "a3")]
        cleaned(table, 5, second)
    with pytest.raises(InstantNotReadableError, match="have been cleaned"):
        changes(table, 1)


def test_a_file_group_that_is_replaced_again_is_not_missed(table: TableWriter) -> None:
    first = wrote(table, 1, [row("a1")])
    replaced(table, 2, [row("a2")], "INSERT_OVERWRITE")
    replaced(table, 3, [row("b3")], "INSERT_OVERWRITE", "f3-0")
    cleaned(table, 4, first)
    assert changes(table, 2) == [("i", None, "b3")]


def test_what_was_written_in_the_range_and_cleaned_after_it_is_missed(table: TableWriter) -> None:
    wrote(table, 1, [row("a1")])
    second = wrote(table, 2, [row("b2")], "f2-0")
    wrote(table, 3, [row("b3"), row("c3")], "f2-0")
    assert changes(table, 1, 2) == [("i", None, "b2")]
    cleaned(table, 4, second)
    for after in ("earliest", place(table, 1)):
        with pytest.raises(InstantNotReadableError, match="have been cleaned"):
            table.open().changes(after, place(table, 2))
    if table.options == COPY_ON_WRITE:
        assert changes(table, 1) == [("i", None, "b3"), ("i", None, "c3")]


def test_a_state_that_was_cleaned_is_not_compared(table: TableWriter) -> None:
    wrote(table, 1, [row("a1")])
    second = wrote(table, 2, [row("b2")], "f2-0")
    wrote(table, 3, [row("b3"), row("c3")], "f2-0")
    cleaned(table, 4)
    assert found(tools.diff(table.open(), at(2), at(3))) == [("insert", None, "c3"), ("update", "b2", "b3")]
    second.unlink()
    for one, other in ((2, 3), (3, 2), (1, 2)):
        with pytest.raises(InstantNotReadableError, match=f"{at(2)}: files .* have been cleaned.* {at(3)}"):
            tools.diff(table.open(), at(one), at(other))
    assert found(tools.diff(table.open(), at(1), at(3))) == [("insert", None, "b3"), ("insert", None, "c3")]


def test_a_clean_that_is_under_way_is_seen_from_an_earlier_state(table: TableWriter) -> None:
    first = wrote(table, 1, [row("a1"), row("b1")])
    replaced(table, 2, [row("b2")], "INSERT_OVERWRITE")
    for number in (3, 4):
        wrote(table, number, [row(f"x{number}")], f"g{number}-0")
    assert ("d", "a1", None) in changes(table, 1, 2)
    instant = {"timestamp": at(4), "action": "commit", "state": "COMPLETED"}
    kind = record_type("HoodieActionInstant", dict.fromkeys(instant, TEXT))
    plan = container("HoodieCleanerPlan", {"earliestInstantToRetain": kind}, {"earliestInstantToRetain": instant})
    for state in ("requested", "inflight"):
        (table.timeline_folder / f"{at(5)}.clean.{state}").write_bytes(plan)
    with pytest.raises(InstantNotReadableError, match=f"removed by the clean {at(5)}"):
        changes(table, 1, 2)
    first.unlink()
    with pytest.raises(InstantNotReadableError, match=f"removed by the clean {at(5)}"):
        changes(table, 1, 2)


def test_the_input_of_a_compaction_that_was_cleaned_is_missed(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "t").create()
    first = wrote(table, 1, [row("a1"), row("b1")])
    table.pending_compaction(at(2), [("", "f1-0")])
    log = table.log_file(at(3), [table.data_block(at(3), [row("a3", ts=3)])])
    table.commit(at(3), wrote=[log])
    compacted = table.base_file(at(2), [row("a1"), row("b1")])
    table.commit(at(2), action="commit", wrote=[compacted], operation="COMPACT", completed=completion_of(at(4)))
    assert changes(table, 1, 3) == [("u", "a1", "a3")]
    assert found(table.open().changes("earliest", place(table, 3))) == [("i", None, "a3"), ("i", None, "b1")]
    cleaned(table, 5, first)
    for after in ("earliest", place(table, 1)):
        with pytest.raises(InstantNotReadableError, match="have been cleaned"):
            table.open().changes(after, place(table, 3))


@pytest.mark.parametrize("options", [{}, {"hoodie.table.cdc.enabled": "true"}])
@pytest.mark.parametrize("version", [6, 9])
def test_a_slice_from_before_the_retained_commits_is_read_if_it_was_kept(
    tmp_path: Path, version: int, options: dict[str, str]
) -> None:
    table = TableWriter(folder=tmp_path / "t", version=version, options=options).create()
    first = wrote(table, 1, [row("a1"), row("b1")], action="deltacommit")
    logs = [logged(table, number, f"a{number}") for number in (2, 3)]
    for number in (4, 5, 6):
        wrote(table, number, [row(f"x{number}")], f"g{number}-0", action="deltacommit")
    inserts = [("i", None, f"x{number}") for number in (4, 5, 6)]
    updates = [("u", "a1", "a2"), ("u", "a2", "a3")] if options else [("u", "a1", "a3")]
    assert changes(table, 1) == [*inserts, *updates]
    cleaned(table, 7, retained=at(6))
    assert changes(table, 1) == [*inserts, *updates]
    if options:
        assert changes(table, 2, 3) == [("u", "a2", "a3")]
    table.pending_compaction(at(8), [("", "f1-0")])
    wrote(table, 8, [row("a3", _hoodie_commit_time=at(3)), row("b1", _hoodie_commit_time=at(1))], operation="COMPACT")
    # A cleaner goes on if it has failed to delete a file.
    for file in (logs[0], first):
        content = file.read_bytes()
        file.unlink()
        with pytest.raises(InstantNotReadableError, match=f"files .*the commit {at(2)} have been cleaned") as caught:
            changes(table, 1)
        assert caught.value.earliest is not None
        file.write_bytes(content)


def test_file_groups_without_a_record_of_their_slice_are_not_read_from_before_the_retained_commits(
    tmp_path: Path,
) -> None:
    table = TableWriter(folder=tmp_path / "t", options={"hoodie.table.cdc.enabled": "true"}).create()
    wrote(table, 1, [row("a1")], action="deltacommit")
    replaced(table, 2, [row("b2")], "INSERT_OVERWRITE")
    for number in (3, 4):
        wrote(table, number, [row(f"x{number}")], f"g{number}-0", action="deltacommit")
    assert ("d", "a1", None) in changes(table, 1)
    cleaned(table, 5, retained=at(4))
    with pytest.raises(InstantNotReadableError, match=f"before the commit {at(2)}") as caught:
        changes(table, 1)
    assert caught.value.earliest == place(table, 3)
    assert changes(table, 2) == [("i", None, "x3"), ("i", None, "x4")]


def test_an_older_slice_that_a_savepoint_has_kept_is_not_taken_for_the_cleaned_one(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "t", options={"hoodie.table.cdc.enabled": "true"}).create()
    files = [wrote(table, number, [row(f"a{number}")], action="deltacommit") for number in (1, 2, 3, 4)]
    assert changes(table, 2, 3) == [("u", "a2", "a3")]
    cleaned(table, 5, files[1], retained=at(4))
    assert changes(table, 3) == [("u", "a3", "a4")]
    with pytest.raises(InstantNotReadableError, match=f"before the commit {at(3)}"):
        changes(table, 2)
