import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_bridge.config import TableConfig
from hudi_bridge.errors import CorruptTimelineError
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.instant import Action, Instant, InstantState
from hudi_bridge.timeline.timeline import Timeline, latest_states, load_timeline
from tests.timeline.timeline_files import make_layout_1, make_table, put

A, B, C, D, E = (f"2024010100000{n}000" for n in range(1, 6))


def done(time: str, action: Action = Action.DELTA_COMMIT, completion_time: str | None = None) -> Instant:
    return Instant(requested_time=time, action=action, state=InstantState.COMPLETED, completion_time=completion_time)


def pending(time: str, action: Action = Action.DELTA_COMMIT) -> Instant:
    return Instant(requested_time=time, action=action, state=InstantState.INFLIGHT)


def timeline_of(*instants: Instant) -> Timeline:
    return Timeline(instants=latest_states(instants))


def spelled(timeline: Timeline) -> list[str]:
    return [f"{instant.requested_time} {instant.action} {instant.state.name}" for instant in timeline.instants]


def put_names(folder: Path, config: TableConfig, *names: str) -> None:
    put(folder, config, **{f"t{name}": b"" for name in names})


def test_layout_1(tmp_path: Path) -> None:
    storage, config = make_layout_1(tmp_path)
    put_names(tmp_path, config, f"{A}.commit.requested", f"{A}.inflight", f"{A}.commit")
    put_names(tmp_path, config, f"{B}.deltacommit", f"{B}.deltacommit.requested", f".{B}.deltacommit.crc")
    put_names(tmp_path, config, f"{C}.compaction.requested", f"{C}.compaction.inflight", f"{C}.commit")
    put_names(tmp_path, config, f"{D}.compaction.requested", f"{E}.inflight", f"{E}.commit.requested")
    timeline = load_timeline(storage, config)
    assert spelled(timeline) == [
        f"{A} commit COMPLETED",
        f"{B} deltacommit COMPLETED",
        f"{C} commit COMPLETED",
        f"{D} compaction REQUESTED",
        f"{E} commit INFLIGHT",
    ]
    assert [commit.requested_time for commit in timeline.commits()] == [A, B, C]
    assert timeline.completed() == timeline.commits()
    assert timeline.start == A
    assert timeline.completion_time_of(A) is None


@pytest.mark.parametrize("make", [make_layout_1, make_table])
def test_a_folder_with_the_name_of_an_instant_is_an_error(
    tmp_path: Path, make: Callable[[Path], tuple[Storage, TableConfig]]
) -> None:
    storage, config = make(tmp_path)
    (tmp_path / config.timeline_path / f"{A}.deltacommit.requested").mkdir(parents=True)
    with pytest.raises(CorruptTimelineError, match=rf"/{A}\.deltacommit\.requested: found a folder, expected a file"):
        load_timeline(storage, config)


def test_layout_2(tmp_path: Path) -> None:
    storage, config = make_table(tmp_path)
    put_names(tmp_path, config, f"{A}.deltacommit.requested", f"{A}.deltacommit.inflight", f"{A}_{B}.deltacommit")
    put_names(tmp_path, config, f"{B}.clustering.requested", f"{B}.clustering.inflight", f"{B}_{D}.replacecommit")
    put_names(tmp_path, config, f"{C}.logcompaction.requested", f"{C}_{E}.deltacommit", f"{D}_{E}.clean")
    timeline = load_timeline(storage, config)
    assert spelled(timeline) == [
        f"{A} deltacommit COMPLETED",
        f"{B} replacecommit COMPLETED",
        f"{C} deltacommit COMPLETED",
        f"{D} clean COMPLETED",
    ]
    assert [timeline.completion_time_of(time) for time in (A, B, C, D)] == [B, D, E, None]
    assert timeline.latest_completed(Action.CLEAN) == done(D, Action.CLEAN, E)
    assert timeline.latest_completed(Action.ROLLBACK) is None


def test_an_empty_timeline(tmp_path: Path) -> None:
    timeline = load_timeline(*make_table(tmp_path))
    assert timeline.instants == ()
    assert timeline.start is None
    assert timeline.latest_commit() is None
    assert not timeline.is_committed(A)


def test_a_savepoint_stands_beside_its_commit() -> None:
    timeline = timeline_of(done(A), done(B), done(B, Action.SAVEPOINT))
    assert len(timeline.instants) == 3
    assert [commit.requested_time for commit in timeline.commits()] == [A, B]


def test_the_furthest_state_counts_in_any_order() -> None:
    requested = Instant(requested_time=A, action=Action.COMPACTION, state=InstantState.REQUESTED)
    for instants in ((requested, done(A, Action.COMMIT)), (done(A, Action.COMMIT), requested)):
        assert timeline_of(*instants).instants == (done(A, Action.COMMIT),)


def test_latest_commit() -> None:
    timeline = timeline_of(done(B), done(D, Action.COMMIT), done(E, Action.CLEAN), pending(C))
    assert timeline.latest_commit() == done(D, Action.COMMIT)
    assert timeline.latest_commit(as_of=D) == done(D, Action.COMMIT)
    assert timeline.latest_commit(as_of=C) == done(B)
    assert timeline.latest_commit(as_of=A) is None


def test_pending() -> None:
    timeline = timeline_of(
        done(A),
        pending(B),
        pending(C, Action.COMPACTION),
        pending(D, Action.REPLACE_COMMIT),
        pending(E, Action.CLEAN),
    )
    assert [pending_commit.requested_time for pending_commit in timeline.pending_commits()] == [B, D]
    assert timeline.pending(Action.COMPACTION) == (pending(C, Action.COMPACTION),)


@pytest.mark.parametrize(
    ("time", "committed", "archived"),
    [
        ("20230101000000000", True, True),
        (A, False, False),  # pending, though before the start
        (B, True, False),
        (C, False, False),  # never heard of
        (D, True, False),
        (E, False, False),
        ("20250101000000000", False, False),
    ],
)
def test_is_committed(time: str, committed: bool, archived: bool) -> None:
    timeline = timeline_of(pending(A), done(B), done(D), pending(E), done(C, Action.CLEAN))
    assert timeline.start == B
    assert timeline.is_committed(time) is committed
    assert timeline.is_archived(time) is archived
    assert timeline.contains(time) is (committed and not archived)


def test_a_pending_compaction_is_not_archived() -> None:
    timeline = timeline_of(pending(A, Action.COMPACTION), done(B))
    assert not timeline.is_committed(A)


def test_a_savepoint_does_not_hold_the_start_back() -> None:
    # Archiving may go on beyond a savepoint: B and C are archived, A is kept.
    timeline = timeline_of(done(A), done(A, Action.SAVEPOINT), done(D), done(E))
    assert timeline.start == D
    assert all(timeline.is_committed(time) for time in (A, B, C, D, E))
    assert not timeline.is_archived(A)
    assert timeline_of(done(A), done(A, Action.SAVEPOINT)).start == A


def test_instants_of_seconds_are_found_with_the_millis_that_hudi_adds() -> None:
    timeline = timeline_of(done("20200101000000"), pending("20200101000001"), done("20200101000002"))
    assert timeline.contains("20200101000000999")
    assert timeline.is_committed("20200101000002999")
    assert not timeline.is_committed("20200101000001999")
    assert not timeline.is_committed("20200101000000998")
    assert timeline_of(done("20240101000000999")).contains("20240101000000999")


def test_a_timeline_is_a_value() -> None:
    timeline = timeline_of(done(A, completion_time=B), pending(C))
    copy = pickle.loads(pickle.dumps(timeline))
    assert copy == timeline
    assert hash(copy) == hash(timeline)
    assert copy.completion_time_of(A) == B
    assert not copy.is_committed(C)
