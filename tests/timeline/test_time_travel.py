from pathlib import Path

import pytest

from hudi_bridge.errors import InstantNotReadableError
from hudi_bridge.timeline.time_travel import earliest_readable_instant, validate_time_travel
from hudi_bridge.timeline.timeline import TableState
from tests.timeline.timeline_files import clean, make_layout_1, make_table, put, requested_replace

A, B, C, D, E = (f"2024010100000{n}000" for n in range(1, 6))


def refused(folder: Path, layout: int, *instants: str, **files: bytes) -> list[tuple[str, str | None]]:
    """Which instants cannot be read, and the earliest one that each refusal names."""
    storage, config = make_layout_1(folder) if layout == 1 else make_table(folder)
    put(folder, config, **{f"t{name}": content for name, content in files.items()})
    state = TableState.load(storage, config)
    actual = []
    for instant in instants:
        try:
            validate_time_travel(state.as_of(instant))
        except InstantNotReadableError as error:
            actual.append((error.instant, error.earliest))
    return actual


def test_without_clean_and_pending_writes_all_is_readable(tmp_path: Path) -> None:
    files = {f"{B}.commit": b"", f"{C}.deltacommit": b""}
    assert refused(tmp_path, 1, A, B, C, E, **files) == []


def test_what_was_cleaned_is_refused(tmp_path: Path) -> None:
    files = {f"{name}.deltacommit": b"" for name in (A, B, C)}
    # Only the last clean counts, and only if it completed.
    files |= {f"{B}.clean": clean(A), f"{D}.clean": clean(C), f"{E}.clean.requested": b""}
    assert refused(tmp_path, 1, A, B, C, D, **files) == [(A, C), (B, C)]


def test_a_cleaner_of_file_versions_leaves_the_active_timeline(tmp_path: Path) -> None:
    files = {f"{B}.commit": b"", f"{C}.deltacommit": b"", f"{D}.clean": clean(None)}
    assert refused(tmp_path, 1, A, B, C, **files) == [(A, B)]


def test_a_clean_without_commits_refuses_nothing(tmp_path: Path) -> None:
    storage, config = make_layout_1(tmp_path)
    put(tmp_path, config, **{f"t{A}.clean": clean(None)})
    assert earliest_readable_instant(TableState.load(storage, config)) is None


@pytest.mark.parametrize("state", ["deltacommit.requested", "deltacommit.inflight", "inflight"])
def test_from_the_first_incomplete_commit_on_nothing_is_readable(tmp_path: Path, state: str) -> None:
    files = {f"{B}.deltacommit": b"", f"{C}.{state}": b"", f"{D}.deltacommit": b""}
    assert refused(tmp_path, 1, A, B, C, D, **files) == [(C, None), (D, None)]


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize("action", ["compaction", "logcompaction", "clean", "rollback", "indexing"])
def test_pending_table_services_do_not_matter(tmp_path: Path, layout: int, action: str) -> None:
    completed = f"{B}.commit" if layout == 1 else f"{B}_{D}.commit"
    files = {completed: b"", f"{C}.{action}.requested": b"", f"{C}.{action}.inflight": b""}
    assert refused(tmp_path, layout, A, B, C, D, **files) == []


def test_a_pending_clustering_does_not_matter_but_an_insert_overwrite_does(tmp_path: Path) -> None:
    files = {
        f"{A}.deltacommit": b"",
        f"{B}.replacecommit.requested": requested_replace(["f-0"]),
        f"{B}.replacecommit.inflight": b"",
        f"{D}.replacecommit.requested": requested_replace(None),
    }
    assert refused(tmp_path, 1, A, B, C, D, E, **files) == [(D, None), (E, None)]


def test_clustering_of_layout_2(tmp_path: Path) -> None:
    files = {f"{A}_{B}.deltacommit": b"", f"{C}.clustering.requested": requested_replace(["f-0"])}
    assert refused(tmp_path, 2, A, C, E, **files) == []
