from pathlib import Path

import pytest

from hudi_bridge.config import read_table_config
from hudi_bridge.errors import InstantNotReadableError, QueryError
from hudi_bridge.options import HollowCommitPolicy, ReadOptions
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.instant_range import InstantRange, next_after_snapshot, read_range_metadata, resolve_range
from hudi_bridge.timeline.timeline import TableState
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at, completion_of

ZEROS = "0" * 17


def state_of(folder: Path, policy: HollowCommitPolicy = HollowCommitPolicy.FAIL) -> TableState:
    storage = Storage.open(str(folder))
    return TableState.load(storage, read_table_config(storage), ReadOptions(hollow_commits=policy))


def range_of(
    writer: TableWriter,
    after: str,
    up_to: str | None = None,
    policy: HollowCommitPolicy = HollowCommitPolicy.FAIL,
) -> InstantRange:
    return resolve_range(state_of(writer.folder, policy), after, up_to)


def times(instants: InstantRange) -> list[str]:
    return [commit.requested_time for commit in instants.commits]


@pytest.fixture
def three_commits(tmp_path: Path) -> TableWriter:
    writer = TableWriter(folder=tmp_path / "t").create()
    for number in (1, 2, 3):
        writer.commit(at(number))
    return writer


@pytest.fixture
def three_commits_v6(tmp_path: Path) -> TableWriter:
    writer = TableWriter(folder=tmp_path / "t", version=6).create()
    for number in (1, 2, 3):
        writer.commit(at(number))
    return writer


def test_a_range_leaves_out_its_begin_and_includes_its_end(three_commits: TableWriter) -> None:
    actual = range_of(three_commits, completion_of(at(1)), completion_of(at(2)))
    assert times(actual) == [at(2)]
    assert actual.next_after == completion_of(at(2))


def test_commits_lie_where_they_completed(three_commits: TableWriter) -> None:
    assert times(range_of(three_commits, at(2))) == [at(2), at(3)]
    assert times(range_of(three_commits, at(2), at(3))) == [at(2)]


def test_in_layout_1_commits_lie_where_they_were_requested(three_commits_v6: TableWriter) -> None:
    actual = range_of(three_commits_v6, at(1), at(2))
    assert times(actual) == [at(2)]
    assert actual.next_after == at(2)


@pytest.mark.parametrize("earliest", ["earliest", "Earliest", "0", "000", ZEROS])
def test_earliest_is_before_every_commit(three_commits: TableWriter, earliest: str) -> None:
    assert times(range_of(three_commits, earliest)) == [at(1), at(2), at(3)]


@pytest.mark.parametrize("after", ["0001-01-01", "0999-12-31 00:00:00", "1970-01-01"])
def test_times_before_hudi_are_before_every_commit(three_commits: TableWriter, after: str) -> None:
    assert times(range_of(three_commits, after)) == [at(1), at(2), at(3)]


def test_commits_come_in_the_order_of_their_completion(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t").create()
    writer.commit(at(1), completed=at(8))
    writer.commit(at(2), completed=at(5))
    actual = range_of(writer, "earliest")
    assert times(actual) == [at(2), at(1)]
    assert (actual.next_after, actual.last_requested) == (at(8), at(2))
    assert times(range_of(writer, at(5))) == [at(1)]


def test_consecutive_ranges_miss_no_commit_that_completes_late(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t").create()
    writer.pending(at(1))
    writer.commit(at(2))
    first = range_of(writer, "earliest")
    writer.commit(at(1), completed=at(4))
    assert times(first) == [at(2)]
    assert times(range_of(writer, first.next_after)) == [at(1)]


@pytest.mark.parametrize("version", [6, 9])
def test_an_empty_range_begins_anew_where_it_began(tmp_path: Path, version: int) -> None:
    writer = TableWriter(folder=tmp_path / "t", version=version).create()
    assert range_of(writer, "earliest").next_after == ZEROS
    writer.commit(at(1))
    actual = range_of(writer, at(7), at(8))
    assert (times(actual), actual.next_after, actual.last_requested) == ([], at(7), None)
    assert range_of(writer, at(8), at(7)).next_after == at(8)


@pytest.mark.parametrize(("after", "up_to", "argument"), [("soon", None, "after"), ("000", "earliest", "up_to")])
def test_other_spellings_are_errors(three_commits: TableWriter, after: str, up_to: str | None, argument: str) -> None:
    with pytest.raises(QueryError) as caught:
        range_of(three_commits, after, up_to)
    assert caught.value.argument == argument


def test_layout_1_does_not_pass_over_a_write_that_is_still_running(three_commits_v6: TableWriter) -> None:
    three_commits_v6.pending(at(1)[:-1] + "1")
    with pytest.raises(InstantNotReadableError, match="is still running") as caught:
        range_of(three_commits_v6, "earliest")
    assert (caught.value.argument, caught.value.instant) == ("up_to", at(3))
    blocked = range_of(three_commits_v6, "earliest", policy=HollowCommitPolicy.BLOCK)
    assert times(blocked) == [at(1)]
    assert blocked.next_after == at(1)


def test_a_write_that_runs_last_hides_nothing(three_commits_v6: TableWriter) -> None:
    three_commits_v6.pending(at(4))
    assert times(range_of(three_commits_v6, "earliest")) == [at(1), at(2), at(3)]


@pytest.mark.parametrize("case", ["d_archived_0150", "d_archived_120", "d_archived_v6_by120"])
def test_archived_commits_are_found_and_read(case: str) -> None:
    state = state_of(golden_table(case))
    actual = resolve_range(state, "earliest")
    first_active = state.timeline.commits()[0].requested_time
    assert actual.archived
    assert max(actual.archived) < first_active
    assert len(actual.archived) + len(state.timeline.commits()) == len(actual.commits)
    metadata = read_range_metadata(state, actual)
    assert metadata.keys() == actual.commit_times
    assert all(metadata[commit_time].write_stats for commit_time in actual.archived)
    start = actual.commits[2]
    later = resolve_range(state, start.completion_time or start.requested_time)
    assert set(actual.commits[3:]).issuperset(later.commits)


def test_a_range_on_the_active_timeline_does_not_read_the_history(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t", version=6).create()
    writer.commit(at(1))
    writer.commit(at(2))
    archive = writer.timeline_folder / "archived"
    archive.mkdir()
    (archive / ".commits_.archive.1_1-0-1").write_bytes(b"no log file")
    assert times(range_of(writer, at(1))) == [at(2)]


def next_after(writer: TableWriter, instant: str) -> str:
    return next_after_snapshot(state_of(writer.folder).as_of(instant))


def test_changes_since_a_snapshot_begin_with_its_last_commit(three_commits: TableWriter) -> None:
    assert next_after(three_commits, at(3)) == completion_of(at(3))
    assert next_after(three_commits, at(2)) == completion_of(at(2))


def test_changes_since_a_snapshot_miss_no_commit_that_overlaps(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t").create()
    writer.commit(at(1), completed=at(2))
    writer.commit(at(3), completed=at(8))
    writer.commit(at(4), completed=at(6))
    assert next_after(writer, at(3)) == at(2)
    assert next_after(writer, at(4)) == at(8)


def test_changes_since_a_snapshot_of_layout_1_wait_for_the_write_that_is_running(three_commits_v6: TableWriter) -> None:
    three_commits_v6.pending(at(1)[:-1] + "1")
    assert next_after(three_commits_v6, at(3)) == at(1)


def test_changes_since_nothing_are_all(tmp_path: Path) -> None:
    assert next_after(TableWriter(folder=tmp_path / "t").create(), "0") == ZEROS
