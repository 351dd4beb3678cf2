"""Slices of groups with base files alone, found for many files at once, are those that are found one by one."""

from collections import defaultdict
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.splits.file_slice import FileGroup, FileSlice, parse_base_file_name
from hudi_bridge.splits.file_system_view import (
    FILES,
    TimelineView,
    build_file_groups,
    latest_read_optimized_slice,
    latest_snapshot_slice,
    newest_plain_slices,
)
from hudi_bridge.storage.storage import FileInfo

INSTANTS = ("001", "002", "003", "0040", "005")
# As names, the second comes before the first: "-" is before "_", which ends an id.
IDS = ("f", "f-1", "f-1-0", "g", "\u00e9", "ff")
Latest = Callable[[FileGroup, TimelineView], FileSlice | None]

instants = st.sampled_from(INSTANTS)
ids = st.sampled_from(IDS)
base_names = st.builds("{}_{}_{}.parquet".format, ids, st.sampled_from(["0-1-1", "1-1-1"]), instants)
log_names = st.builds(".{}_{}.log.{}_0-1-1".format, ids, instants, st.integers(1, 2))
odd_names = st.sampled_from(
    [
        ".hoodie_partition_metadata",
        "notes.txt",
        "f_0-1-1_001.parquet.crc",
        "f_1_\u0661.parquet",
        ".f_001.log.1_0-1-1.cdc",
    ]
)
# Most groups have no logs.
names = st.one_of(base_names, base_names, base_names, log_names, odd_names)
paths = st.sampled_from(["", "p", "p/q", "r=1"])
groups = st.tuples(paths, ids)
timelines = st.builds(
    TimelineView,
    logs_name_their_own_instant=st.booleans(),
    query_instant=instants,
    is_committed=st.frozensets(instants).map(lambda done: done.__contains__),
    completion_time_of=st.just(lambda instant: f"{instant}5"),
    pending_compactions=st.dictionaries(groups, instants, max_size=2),
    replaced=st.dictionaries(groups, instants, max_size=2),
)


def table_of(files: list[tuple[str, str]]) -> pa.Table:
    columns = [[path for path, _ in files], [name for _, name in files], list(range(len(files)))]
    return pa.table(columns, schema=FILES)


def one_by_one(files: list[tuple[str, str, int]], timeline: TimelineView, latest: Latest) -> list[FileSlice]:
    of_paths: dict[str, list[FileInfo]] = defaultdict(list)
    for path, name, size in files:
        entry = FileInfo(path=f"{path}/{name}" if path else name, size_bytes=size, is_dir=False)
        of_paths[path].append(entry)
    grouped = (group for path in sorted(of_paths) for group in build_file_groups(path, of_paths[path], timeline))
    return [piece for group in grouped if (piece := latest(group, timeline)) is not None]


@given(files=st.sets(st.tuples(paths, names), max_size=24), timeline=timelines)
def test_the_same_slices_as_one_by_one(files: set[tuple[str, str]], timeline: TimelineView) -> None:
    ordered = sorted(files)
    plain, rest = newest_plain_slices(table_of(ordered), timeline)
    numbered = [(path, name, size) for size, (path, name) in enumerate(ordered)]
    others = list(zip(*(rest.column(name).to_pylist() for name in FILES.names), strict=True))
    for latest in (latest_snapshot_slice, latest_read_optimized_slice):
        actual = [part for path in sorted({path for path, _ in ordered}) for part in plain.of(path)]
        both = [*actual, *one_by_one(others, timeline, latest)]
        both.sort(key=lambda piece: (piece.partition_path, piece.file_id))
        assert both == one_by_one(numbered, timeline, latest)
        of_paths = [(part.partition_path, part.file_id) for part in actual]
        assert of_paths == sorted(of_paths)


def test_groups_of_base_files_are_not_left_to_others() -> None:
    timeline = TimelineView(
        logs_name_their_own_instant=True,
        query_instant="003",
        is_committed=lambda _: True,
        completion_time_of=lambda instant: instant,
        pending_compactions={},
        replaced={},
    )
    names = ["f_0-1-1_001.parquet", "f_0-1-1_003.parquet", "f_0-1-1_005.parquet", "g_0-1-1_002.parquet"]
    plain, rest = newest_plain_slices(table_of([("p", name) for name in names]), timeline)
    assert rest.num_rows == 0
    newest = [part.base_file.path for part in plain.of("p") if part.base_file]
    assert newest == ["p/f_0-1-1_003.parquet", "p/g_0-1-1_002.parquet"]
    assert plain.of("q") == []


@pytest.mark.parametrize("name", ["f_0-1-1_001.orc", "f-0_0-1-1_001_1.log.parquet"])
def test_what_is_refused_one_by_one_is_not_passed_over(name: str) -> None:
    timeline = TimelineView(
        logs_name_their_own_instant=True,
        query_instant="001",
        is_committed=lambda _: True,
        completion_time_of=lambda instant: instant,
        pending_compactions={},
        replaced={},
    )

    def planned() -> None:
        _, rest = newest_plain_slices(table_of([("p", name)]), timeline)
        others = list(zip(*(rest.column(field).to_pylist() for field in FILES.names), strict=True))
        one_by_one(others, timeline, latest_snapshot_slice)

    with pytest.raises(UnsupportedTableError):
        planned()


def test_names_that_only_python_takes_for_those_of_base_files_are_seen() -> None:
    assert parse_base_file_name("f_1_\u0661.parquet") is not None
