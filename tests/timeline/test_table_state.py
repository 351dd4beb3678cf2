import pickle
from dataclasses import replace
from pathlib import Path

from hudi_bridge.timeline.instant import Action
from hudi_bridge.timeline.timeline import TableState
from tests.timeline.timeline_files import make_layout_1, put

A, B, C = (f"2024010100000{n}000" for n in range(1, 4))


def state_of(folder: Path, *names: str) -> TableState:
    storage, config = make_layout_1(folder)
    put(folder, config, **{f"t{name}": b"" for name in names})
    return TableState.load(storage, config)


def test_a_table_is_read_as_of_its_newest_commit(tmp_path: Path) -> None:
    state = state_of(tmp_path, f"{A}.commit", f"{B}.deltacommit", f"{C}.deltacommit.requested")
    assert (state.instant, state.timeline_start) == (B, A)
    assert (state.as_of(A).instant, state.as_of(A).timeline) == (A, state.timeline)
    assert (state.is_time_travel, state.as_of(B).is_time_travel) == (False, True)


def test_a_table_without_a_commit_is_read_before_all_instants(tmp_path: Path) -> None:
    state = state_of(tmp_path, f"{A}.deltacommit.requested")
    assert state.instant < A
    assert state.timeline_start < A


def test_a_state_can_be_pickled_and_stays_small(tmp_path: Path) -> None:
    names = (f"20240102{number:06}000.deltacommit" for number in range(1000))
    state = state_of(tmp_path, f"{A}.commit", f"{B}.commit", *names)
    earlier = replace(state, timeline=state.timeline.without({B: Action.COMMIT}), instant=A)
    for item in (state, earlier, state.as_of(A)):
        pickled = pickle.dumps(item)
        assert pickle.loads(pickled) == item
        assert pickle.loads(pickled).timeline.is_committed(B) == item.timeline.is_committed(B)
        assert len(pickled) < 100 * len(state.timeline.instants)
