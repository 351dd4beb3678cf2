"""What a soak compares with: the models of the tables, and what counts as wrong."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from hudi_bridge import InstantNotReadableError
from tests.soak.committed_tables import COMMITS_OF_A_SLICE, SLICES_KEPT, CommittedTable, content_of_table
from tests.soak.kinds import NBCC, OCC, Kind, kinds_of
from tests.soak.model import DELETE, PARTIAL, UPSERT, Delta, Ledger, Plan
from tests.soak.readers import Answer, apply_changes, apply_rows
from tests.soak.run import RIGHT, TOLD, WRONG, Met, Verifier, ask_once, failures_of
from tests.soak.service import Disturbances, growth
from tests.soak.service_process import Level
from tests.support.table_writer import TableWriter, at
from tests.timeline.timeline_files import container, map_of

KIND = Kind(9, NBCC)


def row(key: str, ts: int, fare: float = 1.0, note: str = "n") -> tuple[str, str, int, float, str]:
    return key, "c0", ts, fare, note


def test_deltas_change_a_state_as_the_ordering_value_says() -> None:
    state = Delta(0, UPSERT, (row("a", 0), row("b", 0))).applied({})
    assert Delta(1, PARTIAL, (row("a", 1, 2.0, "x"), row("c", 1))).applied(state) == {
        "a": ("a", "c0", 1, 2.0, "n"),
        "b": row("b", 0),
    }
    assert Delta(1, DELETE, (row("a", 1),)).applied(state) == {"b": row("b", 0)}
    later = Delta(3, UPSERT, (row("a", 3),)).applied(state)
    assert Delta(2, UPSERT, (row("a", 2), row("b", 2))).applied(later) == {"a": row("a", 3), "b": row("b", 2)}


@pytest.mark.parametrize("kind", kinds_of((6, 8, 9)), ids=lambda kind: kind.name)
def test_plans_are_the_same_for_the_same_seed(kind: Kind) -> None:
    present = [f"k{number:03d}" for number in range(60)]
    plans = [
        [writes for plan in [Plan(kind, seed)] for writes in [plan.next_writes(present) for _ in range(40)]]
        for seed in (1, 1, 2)
    ]
    assert plans[0] == plans[1] != plans[2]
    assert {len(writes) for writes in plans[0]} == {1, 2}
    operations = {delta.operation for writes in plans[0] for delta in writes}
    assert operations == {"upsert", "delete", "fail"} | ({"partial"} if kind.version >= 8 else set())


def ledger(folder: Path, version: int) -> tuple[Ledger, TableWriter, Plan]:
    kind = Kind(version, OCC)
    plan = Plan(kind, 1)
    table = TableWriter(folder=folder / kind.name, version=version).create()
    return Ledger(table.folder, kind, plan), table, plan


def commit(table: TableWriter, instant: str, delta: int | None, order: int) -> None:
    """A commit that says which delta it has written, as the ``order``-th to complete."""
    table.commit(instant)
    (file,) = table.timeline_folder.glob(f"{instant}*.deltacommit")
    extra = {"schema": "{}"} | ({} if delta is None else {"hoodie.soak.delta": str(delta)})
    if table.version < 8:
        file.write_text(json.dumps({"extraMetadata": extra}))
    else:
        file.write_bytes(
            container("HoodieCommitMetadata", {"extraMetadata": map_of("string")}, {"extraMetadata": extra})
        )
    os.utime(file, ns=(order, order))


@pytest.mark.parametrize("version", [6, 9])
def test_the_states_of_an_instant(tmp_path: Path, version: int) -> None:
    known, table, plan = ledger(tmp_path, version)
    known.note()
    plan.deltas += [Delta(number, UPSERT, (row(name, number),)) for number, name in enumerate("abc")]
    commit(table, at(1), 0, 1)
    known.note()
    # The second was requested before the third, and completed after it; a table service has written nothing.
    commit(table, at(3), 2, 2)
    commit(table, at(2), 1, 3)
    commit(table, at(4), None, 4)
    known.note()
    a, b, c = (row(name, number) for number, name in enumerate("abc"))
    assert known.states(at(1)) == [{"a": a}]
    assert known.states(at(2)) == [{"a": a, "b": b}]
    assert known.states(at(3)) == [{"a": a, "c": c}, {"a": a, "b": b, "c": c}]
    assert known.states(at(4)) == [{"a": a, "b": b, "c": c}] == [known.last]
    assert len(known.states_between(at(2), at(4))) == 4
    with pytest.raises(KeyError):
        known.states(at(5))


def test_wrong_answers_are_found(tmp_path: Path) -> None:
    known, table, plan = ledger(tmp_path, 9)
    plan.deltas.append(Delta(0, UPSERT, (row("a", 0), row("b", 0))))
    met = Met()
    verifier = Verifier({"t": known}, met)
    right = [row("a", 0), row("b", 0)]
    answers = {
        "right": right,
        "fewer": right[:1],
        "more": [*right, row("c", 0)],
        "twice": [*right, row("a", 0)],
        "other": [row("a", 0, 2.0), row("b", 0)],
    }
    for name, rows in answers.items():
        met.answers.put(Answer(name, "t", at(1), rows))
        met.answers.put(Answer(f"{name} of present", "t", at(1), rows, of_present=True))
    met.answers.put(Answer("never", "t", at(9), right))
    verifier.verify()
    assert met.counts == {}
    commit(table, at(1), 0, 1)
    known.note()
    verifier.end()
    actual = {name: counts[RIGHT] for name, counts in met.counts.items()}
    assert [name for name, count in actual.items() if count] == ["right", "right of present", "more of present"]
    assert met.counts["never"][WRONG] == 1
    assert len(met.failures) == sum(counts[WRONG] for counts in met.counts.values()) == 8


class Raising:
    def __init__(self, error: Exception) -> None:
        self.name = type(error).__name__
        self._error = error

    def ask(self, folder: Path) -> Answer:  # noqa: ARG002 - of the protocol
        raise self._error


def test_only_errors_that_say_that_files_are_gone_are_expected(tmp_path: Path) -> None:
    met = Met()
    readers = [Raising(InstantNotReadableError(at(1), "gone", None)), Raising(ValueError("other"))]
    for reader in readers:
        ask_once(reader, tmp_path, met)
    assert met.counts == {"InstantNotReadableError": Counter({TOLD: 1}), "ValueError": Counter({WRONG: 1})}
    assert len(failures_of(met, readers)) == 3, "one wrong, and no right answer of either"


def test_changes_and_increments_are_applied() -> None:
    rows = {"a": row("a", 1), "b": row("b", 1)}
    image = dict(zip(("id", "city", "ts", "fare", "note"), row("c", 2), strict=True))
    gone = dict(zip(("id", "city", "ts", "fare", "note"), row("a", 1), strict=True))
    apply_changes(rows, [{"op": "d", "before": gone, "after": None}, {"op": "i", "before": None, "after": image}])
    assert rows == {"b": row("b", 1), "c": row("c", 2)}
    apply_rows(rows, [row("b", 0), ("c", "c0", 3, 5.0, None)])  # type: ignore[list-item]
    assert rows == {"b": row("b", 1), "c": row("c", 3, 5.0)}


def test_tables_that_are_committed_to_are_what_they_say(tmp_path: Path) -> None:
    table = CommittedTable(tmp_path / "t", 1)
    for _ in range(COMMITS_OF_A_SLICE * (SLICES_KEPT + 2)):
        instant = table.commit()
    opened = TableWriter(folder=tmp_path / "t").open()
    assert opened.latest_instant == instant
    assert content_of_table(opened.snapshot().to_table()) == table.contents[instant]
    assert len(list((tmp_path / "t").glob("f0-0_*.parquet"))) == SLICES_KEPT


def level(number: int, **held: float) -> Level:
    usual = {"resident_mib": 100.0, "files": 10, "threads": 10, "scratch_mib": 1.0, "scratch_files": 5} | held
    return Level(seconds=number, process=1, **usual)  # type: ignore[arg-type]


def test_what_grows_is_found() -> None:
    assert growth([level(number) for number in range(9)]) == []
    assert growth([level(number, resident_mib=100 + 20 * number) for number in range(9)]) == [
        "resident_mib has grown from 140 to 260"
    ]
    assert growth([level(number, files=10 + 20 * number) for number in range(9)]) == ["files has grown from 50 to 170"]
    assert growth([level(0)]) == ["too few samples to compare"]


def test_errors_are_explained_by_what_happened_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 20.0, 30.0, 49.0, 51.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    disturbances = Disturbances()
    with disturbances.during():
        assert disturbances.explain(0)
    assert disturbances.explain(49) is True
    assert disturbances.explain(61) is False
