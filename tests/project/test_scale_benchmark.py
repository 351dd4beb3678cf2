"""What the benchmarks of large tables say, at a size that a test can have."""

import json
from pathlib import Path

import pytest

from benchmarks import scale
from benchmarks.copies import multiply_file_groups
from benchmarks.lookup import SlowFileSystem
from benchmarks.many_files import ManyFiles
from benchmarks.scale_plan import BASE_BYTES, LOG_BYTES, QUERIES, expected_slices, measure
from benchmarks.scale_table import ScaleTable
from hudi_bridge import HudiTable
from hudi_bridge.timeline.instant_files import read_commit_metadata
from tests.support.table_writer import TableWriter, at

TABLE = ScaleTable(partitions=11, buckets=2, rows_in_slice=1000, copies=3)
FILE_ID = "00000001-6bab-463c-a88f-c434a9b2fe39"


def many_files(partitions: int) -> ManyFiles:
    return ManyFiles(partitions=partitions, slices=3, base_bytes=BASE_BYTES, log_bytes=LOG_BYTES, index_groups=5)


@pytest.mark.parametrize("uses_index", ["true", "false"])
def test_each_query_of_a_table_that_is_not_there_has_its_slices(tmp_path: Path, uses_index: str) -> None:
    many = many_files(12)
    many.write(tmp_path)
    for query in QUERIES:
        if query == "one record key" and uses_index == "false":
            # The footers of base files would be read, which are not there.
            continue
        assert measure(tmp_path, many, query, uses_index, 0)["slices"] == expected_slices(many, query)


def test_requests_grow_with_partitions_only_where_folders_are_listed(tmp_path: Path) -> None:
    requests = {}
    for partitions in (12, 36):
        folder = tmp_path / str(partitions)
        many = many_files(partitions)
        many.write(folder)
        for uses_index in ("true", "false"):
            for query in tuple(QUERIES)[:3]:
                requests[partitions, uses_index, query] = measure(folder, many, query, uses_index, 0)["requests"]
        requests[partitions, "true", "key"] = measure(folder, many, "one record key", "true", 0)["requests"]
    every, few = "all, one after another", "one partition"
    for query in (*tuple(QUERIES)[:3], "key"):
        assert requests[12, "true", query] == requests[36, "true", query]
    assert requests[36, "false", every] - requests[12, "false", every] == 24
    assert requests[36, "false", few] == requests[12, "false", few]


def test_a_page_of_a_listing_is_a_request(tmp_path: Path) -> None:
    counts = []
    for slices in (10, 1010):
        many = ManyFiles(partitions=12, slices=slices)
        many.write(tmp_path / str(slices))
        counts.append(measure(tmp_path / str(slices), many, "one partition", "false", 0)["requests"])
    assert counts[1] == counts[0] + 1


def test_the_files_of_a_written_table_are_those_of_its_index(tmp_path: Path) -> None:
    many = ManyFiles(partitions=12, slices=3, log_bytes=10)
    many.write(tmp_path, with_files=True)
    listed = {
        uses_index: {
            (split.base_path, split.log_paths)
            for split in HudiTable.open(
                str(tmp_path), SlowFileSystem(0), options={"hoodie.metadata.enable": uses_index}
            ).splits()
        }
        for uses_index in ("true", "false")
    }
    assert listed["true"] == listed["false"]
    assert len(listed["true"]) == 36


def test_copies_of_slices_are_named_by_the_commits_and_their_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = TableWriter(folder=tmp_path / "table").create()
    base = writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "old"}, {"id": "b", "ts": 1}], file_id=FILE_ID)
    writer.commit(at(1), wrote=[base])
    blocks = [writer.data_block(at(2), [{"id": "a", "ts": 2, "value": "new"}], file_id=FILE_ID)]
    log = writer.log_file(at(2), blocks, base_instant=at(1), file_id=FILE_ID)
    writer.commit(at(2), wrote=[log])
    (tmp_path / "table.sql").touch()
    copied = HudiTable.open(multiply_file_groups(writer.folder, 3))
    rows = copied.snapshot().to_table()
    assert sorted(map(str, rows["value"].to_pylist())) == ["None", "None", "None", "new", "new", "new"]
    for instant in copied.timeline.commits():
        stats = read_commit_metadata(copied._state, instant).write_stats
        paths = {Path(copied._state.config.table_path) / stat.path for stat in stats}
        assert len(paths) == len({stat.file_id for stat in stats}) == 3
        assert all(path.is_file() for path in paths)
        file_ids = {stat.file_id for stat in stats}
    names = [str(name) for name in rows["_hoodie_file_name"].to_pylist()]
    assert sorted(name.partition("_")[0] for name in names) == sorted([*file_ids, *file_ids])
    assert caplog.messages == []


def test_sums_of_copies_are_multiples() -> None:
    once = ScaleTable(partitions=11, buckets=2, rows_in_slice=1000).sums()
    assert TABLE.sums() == {name: tuple(3 * number for number in numbers) for name, numbers in once.items()}
    assert once["p0001"] == (2000, sum(range(2000, 4000)), 2000, 2 * sum(range(1000)))
    assert (TABLE.slices, TABLE.slices_with_logs, TABLE.rows) == (66, 18, 66_000)


def test_what_is_wrong_with_a_run_is_told() -> None:
    sums = {name: list(numbers) for name, numbers in TABLE.sums().items()}
    worker = {"jvm": 1, "python": 1, "both": 2}
    actual = {"sums": sums, "sums_though_killed": sums, "death": {"completed": 1, "tasks": 2}, "worker": worker}
    assert scale.faults(TABLE, actual) == []
    less = sums | {"p0003": [1999, 0, 0, 0]}
    wrong = json.loads(json.dumps(actual | {"sums_though_killed": less}))
    wrong["death"]["tasks"], wrong["worker"]["both"] = 0, 5 << 30
    assert scale.faults(TABLE, wrong) == [
        f"sums_though_killed: p0003 has (1999, 0, 0, 0), expected {tuple(sums['p0003'])}",
        "no executor was killed",
        "an executor took 5,120 MB of 4096",
    ]
