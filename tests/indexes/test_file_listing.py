import logging
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from fsspec.implementations.local import LocalFileSystem

from hudi_bridge import tools
from hudi_bridge.config import QueryType
from hudi_bridge.errors import HudiReadError
from hudi_bridge.indexes.metadata_table import MetadataTable
from hudi_bridge.indexes.query_indexes import MetadataFileIndex
from hudi_bridge.indexes.record_kinds import ALL_PARTITIONS
from hudi_bridge.splits import notes, table_files
from hudi_bridge.splits.planner import Split
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.splits.table_files import CurrentFiles
from hudi_bridge.table import HudiTable
from tests.support.compare import differences
from tests.support.counting_files import CountingFileSystem
from tests.support.golden_cases import golden_queries, golden_table
from tests.support.strength import one_in

OFF = {"hoodie.metadata.enable": "false"}
UNFINISHED = ("c_inflight_leftover_0150", "c_inflight_middle_0150")
"""Cases with log files of writes that did not complete, which the metadata table of version 6 does not have."""
CASES = sorted({query.case for query in golden_queries(("snapshot",))} - set(UNFINISHED))


@pytest.fixture(autouse=True)
def _warn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "_given", set())


@pytest.fixture(autouse=True)
def _of_many_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables here have few folders."""
    monkeypatch.setattr(table_files, "_FEW_FOLDERS", 0)


def plans(table: HudiTable) -> list[list[RealtimeFileSplit] | str]:
    """The splits of a snapshot, of a read of base files alone, and of the first commit."""
    first = next((commit.requested_time for commit in table.timeline.commits()), None)
    queries = [(None, QueryType.SNAPSHOT), (None, QueryType.READ_OPTIMIZED), (first, QueryType.SNAPSHOT)]
    return [splits(table, as_of, query_type) for as_of, query_type in queries]


def ranges(table: HudiTable) -> list[list[Split] | str]:
    """The splits of the rows and of the changes of all commits, and of those after the first."""
    commits = [commit.completion_time or commit.requested_time for commit in table.timeline.commits()]
    actual: list[list[Split] | str] = []
    for query in (table.incremental, table.changes):
        for after in ("earliest", *commits[:1]):
            try:
                actual.append(list(query(after).splits()))
            except HudiReadError as error:
                actual.append(str(error))
    return actual


def splits(table: HudiTable, as_of: str | None, query_type: QueryType) -> list[RealtimeFileSplit] | str:
    try:
        return list(table.planner(as_of).splits(query_type))
    except HudiReadError as error:
        return str(error)


@pytest.mark.long
def test_golden_tables_have_the_same_splits_of_ranges_by_index_and_by_listing() -> None:
    planned = 0
    for case in CASES[::4]:
        try:
            table = HudiTable.open(golden_table(case))
        except HudiReadError:
            continue
        if "files" in table.config.metadata_partitions:
            actual = ranges(table)
            planned += sum(not isinstance(item, str) for item in actual)
            assert actual == ranges(HudiTable.open(golden_table(case), options=OFF)), case
    assert planned > 60


@pytest.mark.parametrize("query", one_in(2, ["incremental", "changes"]))
def test_ranges_of_commits_list_no_partition(query: str) -> None:
    path = golden_table("h_all_indexes_120")
    listed, rows = {}, {}
    for name, options in {"index": {}, "listing": OFF}.items():
        files = CountingFileSystem()
        table = HudiTable.open(str(path), files, options)
        after = table.timeline.commits()[5].completion_time or ""
        requests = files.reset()
        rows[name] = getattr(table, query)(after).to_table()
        listed[name] = sorted(Path(folder).name for folder in requests.listed if ".hoodie" not in folder)
    assert listed == {"index": [], "listing": ["a", "b", "c"]}
    assert differences(rows["index"], rows["listing"]) == []


def no_rows(files: pa.Table | None) -> pa.Table:
    assert files is not None
    return files.slice(0, 0)


def test_a_file_that_the_index_does_not_have_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    table = HudiTable.open(golden_table("h_all_indexes_120"))
    of_index = MetadataFileIndex.files
    monkeypatch.setattr(MetadataFileIndex, "files", lambda index, paths: no_rows(of_index(index, paths)))
    files = CurrentFiles(table._latest.files.listings.anew())
    paths = [path for split in table.splits() for path in (split.base_path, *split.log_paths) if path is not None]
    files.expect([*paths, "a/none"])
    assert [info.path for path in paths if (info := files.get(path)) is not None] == paths
    assert (files.get("a/none"), files.get("nowhere/none")) == (None, None)


@pytest.mark.long
def test_golden_tables_have_the_same_splits_by_index_and_by_listing(caplog: pytest.LogCaptureFixture) -> None:
    indexed = 0
    for case in CASES:
        try:
            table = HudiTable.open(golden_table(case))
        except HudiReadError:
            continue
        if "files" in table.config.metadata_partitions:
            indexed += 1
            assert plans(table) == plans(HudiTable.open(golden_table(case), options=OFF)), case
    assert indexed >= 130
    assert "metadata table" not in caplog.text


@pytest.mark.parametrize("case", UNFINISHED)
def test_log_files_of_unfinished_writes_are_only_listed(case: str) -> None:
    table, listed = HudiTable.open(golden_table(case)), HudiTable.open(golden_table(case), options=OFF)
    by_index, by_listing = list(table.splits()), list(listed.splits())
    assert [split.base_path for split in by_index] == [split.base_path for split in by_listing]
    assert any(set(left.log_paths) < set(right.log_paths) for left, right in zip(by_index, by_listing, strict=True))
    rows = [dataset.to_table().sort_by("_hoodie_record_key") for dataset in (table.snapshot(), listed.snapshot())]
    assert rows[0] == rows[1]


class Requests(LocalFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The local file system; counts what it is asked for."""

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.listed: list[str] = []

    def ls(self, path: str, detail: bool = False, **options: Any) -> Any:
        self.counts["list"] += 1
        self.listed.append(path)
        return super().ls(path, detail=detail, **options)

    def _open(self, path: str, *args: Any, **options: Any) -> Any:
        self.counts["open"] += 1
        return super()._open(path, *args, **options)


def requests(case: str, options: dict[str, str], row_filter: pc.Expression | None) -> dict[str, int]:
    """What planning a snapshot asks the file system for."""
    filesystem = Requests()
    table = HudiTable.open(str(golden_table(case)), filesystem=filesystem, options=options)
    table.planner().context(QueryType.SNAPSHOT)
    filesystem.counts.clear()
    assert list(table.splits(filter=row_filter))
    return dict(filesystem.counts)


@pytest.mark.parametrize(
    ("case", "row_filter", "by_index", "by_listing"),
    [
        # The folders of the table, of the metadata table's timeline, and of its files, and the table's timeline; a base
        # file and its logs, and what the commits of the metadata table have written. Or what those of the table have.
        ("h_bloom_footer_0150", None, {"list": 4, "open": 21}, {"list": 5, "open": 7}),
        ("h_bloom_footer_120", None, {"list": 4, "open": 21}, {"list": 5, "open": 7}),
        ("h_bloom_footer_120", pc.field("part") == "a", {"list": 4, "open": 21}, {"list": 3, "open": 7}),
    ],
)
def test_requests(
    case: str, row_filter: pc.Expression | None, by_index: dict[str, int], by_listing: dict[str, int]
) -> None:
    assert requests(case, {}, row_filter) == by_index
    assert requests(case, OFF, row_filter) == by_listing


def test_a_table_of_few_folders_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = requests("h_bloom_footer_120", OFF, None)
    for few, is_listed in ((8, True), (3, True), (2, False)):
        monkeypatch.setattr(table_files, "_FEW_FOLDERS", few)
        assert (requests("h_bloom_footer_120", {}, None) == listed) == is_listed


def test_switched_off_nothing_of_the_metadata_table_is_touched() -> None:
    filesystem = Requests()
    table = HudiTable.open(str(golden_table("h_bloom_footer_120")), filesystem=filesystem, options=OFF)
    assert list(table.splits())
    assert not any("metadata" in path for path in filesystem.listed)


def copied(case: str, folder: Path) -> Path:
    return Path(shutil.copytree(golden_table(case), folder / "table"))


def metadata_files(table: Path, pattern: str) -> Iterator[Path]:
    return (path for path in sorted((table / ".hoodie/metadata/files").glob(pattern)) if not path.name.endswith(".crc"))


def newest(table: Path) -> Path:
    return max(metadata_files(table, "files-*.hfile"), key=lambda path: path.name.rpartition("_")[2])


def newest_log(table: Path) -> Path:
    return max(metadata_files(table, ".files-*.log.*"), key=lambda path: path.name.split("_")[1])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5000])


def overwritten(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[:200] = bytes(200)
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no folder": lambda table: shutil.rmtree(table / ".hoodie/metadata"),
    "no files": lambda table: shutil.rmtree(table / ".hoodie/metadata/files"),
    "no timeline": lambda table: shutil.rmtree(table / ".hoodie/metadata/.hoodie"),
    "a cut base file": lambda table: cut(newest(table)),
    "an empty base file": lambda table: newest(table).write_bytes(b""),
    "another base file": lambda table: newest(table).write_bytes(bytes(10_000)),
    "a base file that begins with zeros": lambda table: overwritten(newest(table)),
    "a cut log": lambda table: cut(newest_log(table)),
    "a log that begins with zeros": lambda table: overwritten(newest_log(table)),
    "a file of another kind": lambda table: (table / ".hoodie/metadata/files/.f_1.log").write_bytes(b""),
}


@pytest.mark.parametrize("damage", one_in(3, DAMAGES.values()), ids=DAMAGES)
@pytest.mark.parametrize("case", ["h_bloom_footer_0150", "h_bloom_footer_120"])
def test_a_damaged_metadata_table_is_told_once_and_files_are_listed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str, damage: Callable[[Path], object]
) -> None:
    folder = copied(case, tmp_path)
    expected = plans(HudiTable.open(folder, options=OFF))
    damage(folder)
    with caplog.at_level(logging.WARNING):
        assert plans(HudiTable.open(folder)) == expected
        assert plans(HudiTable.open(folder)) == expected
    (record,) = [record for record in caplog.records if "metadata table" in record.message]
    assert str(folder) in record.message


def test_a_metadata_table_behind_the_table_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = copied("h_bloom_footer_120", tmp_path)
    last = HudiTable.open(folder).timeline.commits()[-1].requested_time
    for path in (folder / ".hoodie/metadata/.hoodie/timeline").glob(f"{last}*.deltacommit"):
        path.unlink()
    assert plans(HudiTable.open(folder)) == plans(HudiTable.open(folder, options=OFF))
    assert f"lacks the commit {last}" in caplog.text


def test_a_commit_that_only_the_metadata_table_has_completed_is_not_seen(tmp_path: Path) -> None:
    folder = copied("h_bloom_footer_120", tmp_path)
    before = HudiTable.open(folder)
    last = before.timeline.commits()[-1]
    (folder / f".hoodie/timeline/{last.requested_time}_{last.completion_time}.deltacommit").unlink()
    table, listed = HudiTable.open(folder), HudiTable.open(folder, options=OFF)
    assert table.latest_instant != before.latest_instant
    assert plans(table) == plans(listed)
    assert MetadataFileIndex(table._state, lambda: table._metadata_table).partitions() is not None
    indexed = MetadataFileIndex(table._state, lambda: table._metadata_table).files(["a", "b", "c"])
    assert indexed is not None
    names = set(map(str, indexed.column("name").to_pylist()))
    assert names
    assert not any(f"_{last.requested_time}" in name for name in names)


def test_an_index_that_is_being_built_is_not_used(tmp_path: Path) -> None:
    folder = copied("h_bloom_footer_120", tmp_path)
    properties = folder / ".hoodie/hoodie.properties"
    text = properties.read_text()
    properties.write_text(text.replace("metadata.partitions.inflight=", "metadata.partitions.inflight=files"))
    table = HudiTable.open(folder)
    assert MetadataFileIndex(table._state, lambda: table._metadata_table).partitions() is None


def test_a_file_that_is_gone_is_an_error_and_not_an_older_state(tmp_path: Path) -> None:
    folder = copied("h_bloom_footer_120", tmp_path)
    split = next(split for split in HudiTable.open(folder).splits() if split.log_paths)
    (folder / split.log_paths[-1]).unlink()
    with pytest.raises(HudiReadError, match="there is no such file, although"):
        HudiTable.open(folder).snapshot().to_table()


def test_partitions_that_share_a_folder_are_listed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = HudiTable.open(golden_table("h_all_indexes_120"))
    of_keys = MetadataTable.of_keys

    def with_another_slash(self: MetadataTable, partition: str, keys: Sequence[str], *more: Any) -> pa.Table:
        records = of_keys(self, partition, keys, *more)
        if list(keys) != [ALL_PARTITIONS]:
            return records
        names = [f"{name}/" for name in records["name"].to_pylist()]
        return records.set_column(records.schema.get_field_index("name"), "name", pa.array(names))

    monkeypatch.setattr(MetadataTable, "of_keys", with_another_slash)
    expected = HudiTable.open(golden_table("h_all_indexes_120"), options=OFF).snapshot().to_table()
    assert differences(expected, table.snapshot().to_table()) == []
    assert "expected the path of a folder" in caplog.text


def test_a_table_without_metadata_table_is_listed_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    cases = (HudiTable.open(golden_table(case)) for case in CASES)
    table = next(table for table in cases if not table.config.metadata_partitions)
    assert list(table.splits())
    assert "metadata" not in caplog.text


@pytest.mark.parametrize("damage", one_in(2, ["gone", "empty", "cut", "of another table"]))
@pytest.mark.parametrize(
    ("case", "partition"),
    one_in(
        2,
        starmap(
            pytest.param,
            [
                ("h_bloom_footer_0150", "files"),
                ("h_record_index_0150", "record_index"),
                ("h_column_stats_120", "column_stats"),
                ("h_secondary_index_updated_120", "secondary_index_idx_city"),
            ],
        ),
    ),
)
def test_a_metadata_table_that_lacks_a_file_is_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str, partition: str, damage: str
) -> None:
    folder = copied(case, tmp_path)
    index = next((folder / ".hoodie/metadata").glob(partition))
    whole = HudiTable.open(folder, options=OFF).snapshot().to_table()
    logs = sorted(index.glob(".*.log.*"), key=lambda path: path.name.rpartition("_")[0])
    log = [path for path in logs if path.suffix != ".crc" and path.stat().st_size > 1000][-1]
    content = log.read_bytes()
    match damage:
        case "gone":
            log.unlink()
        case "empty" | "cut":
            log.write_bytes(content[: len(content) // 2 if damage == "cut" else 0])
        case _:
            for path in index.glob("*.hfile"):
                path.unlink()
    table = HudiTable.open(folder)
    row = whole.slice(len(whole) // 2, 1)
    name = "city" if partition.startswith("secondary") else "ts"
    answers: list[Callable[[HudiTable], pa.Table]] = [
        lambda table: table.snapshot().to_table(),
        lambda table: table.get(str(row["_hoodie_record_key"][0])),
        lambda table: table.snapshot().to_table(filter=pc.field(name) == row[name][0]),
    ]
    for answer in answers:
        assert differences(answer(HudiTable.open(folder, options=OFF)), answer(table)) == []
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    # Column stats are also asked for the ranges of keys.
    assert sum("expected the file of" in text for text in texts) == (2 if partition == "column_stats" else 1)
    (finding,) = [item for item in tools.doctor(table).findings if item.check == "metadata-table"]
    assert (finding.severity.name, partition in str(finding.path)) == ("ERROR", True)
