"""Which instants of the metadata table are of a later state than the one of the data table that is read."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from hudi_bridge.errors import StorageError
from hudi_bridge.indexes import metadata_table
from hudi_bridge.indexes.metadata_table import Validity
from hudi_bridge.timeline.timeline import TableState, Timeline, load_timeline
from tests.timeline.timeline_files import container, list_of, make_layout_1, make_table, put

FIRST = "00000000000000000"
A, B, C, D, E = (f"2024010100000{number}000" for number in range(1, 6))


def done(time: str, action: str = "deltacommit") -> str:
    return f"{time}_{int(time) + 50}.{action}"


def running(time: str, action: str = "deltacommit") -> str:
    return f"{time}.{action}.requested"


def state_of(folder: Path, *names: str) -> TableState:
    folder.mkdir()
    storage, config = make_table(folder)
    put(folder, config, **{f"t{name}": b"" for name in names})
    return TableState.load(storage, config)


def later_instant(folder: Path, then: Sequence[str], now: Sequence[str], own: Sequence[str]) -> str | None:
    """That of a metadata table, for a data table whose timeline had some files ``then`` and has others ``now``."""
    data = state_of(folder / "data", *then)
    for name in then:
        (folder / "data" / data.config.timeline_path / name).unlink()
    put(folder / "data", data.config, **{f"t{name}": b"" for name in now})
    return Validity(data, state_of(folder / "own", *own).timeline).later_instant


@pytest.mark.parametrize("action", ["commit", "deltacommit", "replacecommit", "rollback", "restore"])
def test_a_write_that_has_completed_since(tmp_path: Path, action: str) -> None:
    own = [done(A), done(B), done(C)]
    assert later_instant(tmp_path, [done(A)], [done(A), done(B, action), done(C)], own) == B


@pytest.mark.parametrize("action", ["commit", "deltacommit", "clustering", "compaction", "rollback"])
def test_a_write_that_was_begun_since_and_has_not_completed(tmp_path: Path, action: str) -> None:
    assert later_instant(tmp_path, [done(A)], [done(A), running(B, action)], [done(A), done(B)]) == B


def test_a_write_that_was_running_then(tmp_path: Path) -> None:
    then, own = [done(A), running(B)], [done(A), done(B)]
    for folder, now, expected in (("running", then, None), ("completed", [done(A), done(B)], B)):
        (tmp_path / folder).mkdir()
        assert later_instant(tmp_path / folder, then, now, own) == expected


@pytest.mark.parametrize(
    ("own", "expected"), [([done(D, "commit")], B), ([done(C), done(D, "commit")], B), ([done(C)], None)]
)
def test_a_write_whose_rollback_has_failed_after_the_metadata_table_was_compacted(
    tmp_path: Path, own: Sequence[str], expected: str | None
) -> None:
    both = [done(A), running(B), done(C), running(E, "rollback")]
    assert later_instant(tmp_path, both, both, [done(A), done(B), *own]) == expected


def test_a_write_that_is_not_in_the_metadata_table_yet(tmp_path: Path) -> None:
    own = [done(A), done(C)]
    assert later_instant(tmp_path, [done(A)], [done(A), done(B), running(D)], own) is None


@pytest.mark.parametrize("action", ["clean", "indexing", "savepoint"])
def test_what_moves_no_records(tmp_path: Path, action: str) -> None:
    assert later_instant(tmp_path, [done(A)], [done(A), done(B, action)], [done(A), done(B)]) is None


def test_a_write_that_has_been_archived_since(tmp_path: Path) -> None:
    assert later_instant(tmp_path, [done(A)], [done(D)], [done(A), done(B)]) == B


@pytest.mark.parametrize("action", ["rollback", "restore"])
def test_a_write_that_was_begun_and_undone_since(tmp_path: Path, action: str) -> None:
    assert later_instant(tmp_path, [done(A)], [done(A), running(C, action)], [done(A), done(B)]) == C


def test_instants_of_its_own_and_archived_ones_list_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_table, "load_timeline", None)
    own = [done(FIRST), done(A), done(B), done(f"{C}010"), done(C), done(E, "commit"), done(E, "clean")]
    assert later_instant(tmp_path, [done(B), done(C)], [done(B), done(C), done(D)], own) is None


def test_a_timeline_that_cannot_be_listed_is_an_error_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Timeline:
        raise StorageError("timeline", "list", "no answer")

    data, own = state_of(tmp_path / "data", done(A)), state_of(tmp_path / "own", done(A), done(B))
    actual = Validity(data, own.timeline)
    monkeypatch.setattr(metadata_table, "load_timeline", fail)
    with pytest.raises(StorageError):
        _ = actual.later_instant
    monkeypatch.setattr(metadata_table, "load_timeline", load_timeline)
    assert actual.later_instant is None


@pytest.mark.parametrize(("version", "undone", "missing"), [("9", B, None), ("9", A, C), ("9", None, C), ("6", B, C)])
def test_a_rollback_of_what_was_never_written_is_not_missing(
    tmp_path: Path, version: str, undone: str | None, missing: str | None
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    is_1x = version == "9"
    storage, config = (make_table if is_1x else make_layout_1)(folder)
    fields = {"commitsRollback": list_of("string")}
    record = b"" if undone is None else container("HoodieRollbackMetadata", fields, {"commitsRollback": [undone]})
    names = {f"t{done(A)}": b"", f"t{done(C, 'rollback')}": record}
    if not is_1x:
        names = {f"t{A}.deltacommit": b"", f"t{C}.rollback": record}
    put(folder, config, **names)
    own = state_of(tmp_path / "own", done(FIRST), done(A)).timeline
    assert Validity(TableState.load(storage, config), own).missing_instant() == missing
