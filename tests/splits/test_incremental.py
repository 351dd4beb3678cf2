import json
import pickle
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import (
    CorruptTimelineError,
    HudiDataset,
    HudiTable,
    InstantNotReadableError,
    QueryError,
    QueryType,
    RealtimeFileSplit,
    UnsupportedTableError,
    open_reader,
)
from hudi_bridge.logformat.layout import HeaderKey
from hudi_bridge.options import (
    FULL_SCAN_FALLBACK_KEY,
    HOLLOW_COMMITS_KEY,
    OPTIMIZED_LOG_SCAN_KEY,
    READ_AS_RELEASE_KEY,
)
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.table_writer import Row, TableWriter, at, completion_of, sorted_column

EVENT_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
IGNORE_DEFAULTS = EVENT_TIME | {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
DEFAULT_PAYLOAD = {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
PARTIAL_PAYLOAD = {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload"}


def row(key: str, ts: int, value: str | None, commit: str | None = None) -> Row:
    """A row; ``commit`` is when it was written, for a file that took it over from another one."""
    return {"id": key, "ts": ts, "value": value, **({COMMIT_TIME_COLUMN: commit} if commit else {})}


def writer(folder: Path, version: int = 9, options: Mapping[str, str] = EVENT_TIME) -> TableWriter:
    return TableWriter(folder=folder, version=version, options=options).create()


def base(table: TableWriter, instant: str, rows: Sequence[Row], file_id: str = "f1-0", action: str = "commit") -> Path:
    path = table.base_file(instant, rows, file_id=file_id)
    table.commit(instant, action=action, wrote=[path])
    return path


def log(table: TableWriter, instant: str, rows: Sequence[Row], base_instant: str = at(1), number: int = 1) -> Path:
    path = table.log_file(instant, [table.data_block(instant, rows)], base_instant=base_instant, number=number)
    table.commit(instant, wrote=[path])
    return path


def place(table: TableWriter, instant: str) -> str:
    """Where a commit lies in ranges."""
    return instant if table.version < 8 else completion_of(instant)


def values(dataset: HudiDataset) -> list[tuple[str, str]]:
    rows = dataset.to_table(columns=["id", "value"]).to_pylist()
    return sorted((item["id"], item["value"]) for item in rows)


@pytest.fixture(params=[6, 9])
def two_commits(tmp_path: Path, request: pytest.FixtureRequest) -> TableWriter:
    table = writer(tmp_path / "t", request.param)
    base(table, at(1), [row("a", 5, "a1"), row("b", 5, "b1")])
    log(table, at(2), [row("b", 6, "b2"), row("c", 6, "c2")])
    return table


def test_rows_of_the_range_in_their_latest_state(two_commits: TableWriter) -> None:
    table = two_commits.open()
    assert values(table.incremental("earliest")) == [("a", "a1"), ("b", "b2"), ("c", "c2")]
    since = table.incremental(place(two_commits, at(1)))
    assert values(since) == [("b", "b2"), ("c", "c2")]
    assert (since.query_type, since.instant, since.left_out_log_files()) == (QueryType.INCREMENTAL, at(2), 0)


def test_rows_up_to_an_instant_are_those_of_that_time(two_commits: TableWriter) -> None:
    actual = two_commits.open().incremental("000", place(two_commits, at(1)))
    assert values(actual) == [("a", "a1"), ("b", "b1")]


def test_ranges_join_without_gaps_and_overlaps(two_commits: TableWriter) -> None:
    table = two_commits.open()
    first = table.incremental("earliest", place(two_commits, at(1)))
    second = table.incremental(first.next_after or "")
    last = table.incremental(second.next_after or "")
    assert [values(second), values(last)] == [[("b", "b2"), ("c", "c2")], []]
    assert (first.next_after, second.next_after) == (place(two_commits, at(1)), place(two_commits, at(2)))
    assert last.next_after == second.next_after == table.snapshot().next_after
    assert table.read_optimized().next_after is None


def test_an_empty_range_has_the_columns_of_the_table(two_commits: TableWriter) -> None:
    actual = two_commits.open().incremental(at(8))
    assert actual.to_table().schema == two_commits.arrow_schema
    assert (actual.count_rows(), list(actual.splits())) == (0, [])
    assert TableWriter(folder=two_commits.folder / "new").create().open().incremental("000").to_table().num_rows == 0


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [
        (6, DEFAULT_PAYLOAD, [("before0", "late"), ("earlier0", "late"), ("within1", "base")]),
        (6, EVENT_TIME, [("before0", "late"), ("earlier0", "late"), ("within1", "base")]),
        (8, EVENT_TIME, [("before0", "late"), ("earlier0", "late"), ("within0", "late"), ("within1", "base")]),
        (9, EVENT_TIME, [("before0", "late"), ("earlier0", "late"), ("within0", "late"), ("within1", "base")]),
    ],
)
def test_up_to_1_0_base_rows_of_before_the_range_are_merged_if_their_row_group_has_one_of_it(
    tmp_path: Path, version: int, options: Mapping[str, str], expected: list[tuple[str, str]]
) -> None:
    table = writer(tmp_path / "t", version, options)
    groups = {"before": at(1), "earlier": at(2), "within": at(4)}
    rows = [
        row(f"{name}{number}", 5, "base", (at(1), last)[number]) for name, last in groups.items() for number in (0, 1)
    ]
    path = table.base_file(at(5), rows, row_group_size=2)
    for instant in groups.values():
        table.commit(instant)
    table.commit(at(5), action="commit", wrote=[path])
    log(table, at(6), [row(f"{name}0", 1, "late") for name in groups], base_instant=at(5))
    actual = table.open().incremental(place(table, at(2)))
    assert values(actual) == expected
    late = actual.to_table(columns=["id", "value"], filter=pc.field("value") == "late").num_rows
    assert late == sum(value == "late" for _, value in expected)


def test_deleted_rows_are_absent(tmp_path: Path) -> None:
    table = writer(tmp_path / "t")
    base(table, at(1), [row("a", 5, "a1"), row("b", 5, "b1")])
    path = table.log_file(at(2), [table.delete_block(at(2), [("a", None)])])
    table.commit(at(2), wrote=[path])
    assert values(table.open().incremental("earliest")) == [("b", "b1")]
    assert values(table.open().incremental(completion_of(at(1)))) == []


@pytest.mark.parametrize("version", [6, 9])
def test_what_is_older_than_the_range_takes_no_part_in_merging(tmp_path: Path, version: int) -> None:
    table = writer(tmp_path / "t", version)
    base(table, at(1), [row("a", 5, "newer")])
    log(table, at(2), [row("a", 4, "late")])
    opened = table.open()
    assert values(opened.snapshot()) == [("a", "newer")]
    assert values(opened.incremental(place(table, at(1)))) == [("a", "late")]
    assert values(opened.incremental("earliest")) == [("a", "newer")]


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [(9, IGNORE_DEFAULTS, ("a", None)), (6, PARTIAL_PAYLOAD, ("a", "old"))],
    ids=["1.x", "0.x"],
)
def test_older_rows_in_a_base_file_of_the_range_are_merged_only_by_releases_before_1(
    tmp_path: Path, version: int, options: dict[str, str], expected: tuple[str, str | None]
) -> None:
    table = writer(tmp_path / "t", version, options)
    base(table, at(1), [row("a", 5, "old")])
    base(table, at(2), [row("a", 5, "old", at(1)), row("b", 5, "b2")])
    log(table, at(3), [row("a", 6, None)], base_instant=at(2))
    actual = table.open().incremental(place(table, at(1)))
    assert values(actual) == [expected, ("b", "b2")]


def test_later_parquet_blocks_that_a_full_scan_passes_over_are_no_bounds_of_columns() -> None:
    """A filter passes over a slice by the ranges of its columns, which a range that merges less does not know."""
    table, filters = HudiTable.open(golden_table("d_cleaned_parquet_120")), [pc.field("ts") > 8, pc.field("ts") < 5]
    after, *_, up_to, _ = (commit.completion_time or "" for commit in table.timeline.commits())
    for row_filter in filters:
        ranged, whole = table.incremental(after, up_to), table.snapshot()
        expected = HudiTable.open(table.path)
        rows = expected.incremental(after, up_to).to_table().filter(row_filter)
        assert differences(rows, ranged.to_table(filter=row_filter)) == []
        assert differences(expected.snapshot().to_table().filter(row_filter), whole.to_table(filter=row_filter)) == []
        assert differences(rows, ranged.to_table(filter=row_filter)) == []


@pytest.mark.parametrize("version", [6, 9])
def test_a_compaction_brings_no_rows_of_its_own(tmp_path: Path, version: int) -> None:
    table = writer(tmp_path / "t", version)
    base(table, at(1), [row("a", 5, "a1"), row("b", 5, "b1")])
    log(table, at(2), [row("b", 6, "b2")])
    base(table, at(3), [row("a", 5, "a1", at(1)), row("b", 6, "b2", at(2))])
    opened = table.open()
    assert values(opened.incremental(place(table, at(2)))) == []
    assert values(opened.incremental(place(table, at(1)))) == [("b", "b2")]


@pytest.mark.parametrize(("version", "expected"), [(6, []), (9, [("a", "late")])])
def test_what_a_log_compaction_of_the_range_has_rewritten_is_merged_in_releases_before_1(
    tmp_path: Path, version: int, expected: list[tuple[str, str]]
) -> None:
    options = DEFAULT_PAYLOAD if version < 8 else EVENT_TIME
    table = writer(tmp_path / "t", version, options)
    log(table, at(1), [row("a", 5, "high")])
    original: dict[int, str] = {HeaderKey.COMPACTED_BLOCK_TIMES: at(1)}
    block = table.data_block(at(2), [row("a", 5, "high", commit=at(1))], positions=original)
    path = table.log_file(at(2), [block], base_instant=at(1), number=2)
    table.commit(at(2), wrote=[path])
    log(table, at(3), [row("a", 1, "late")], number=3)
    assert values(table.open().snapshot()) == [("a", "high")]
    assert values(table.open().incremental(place(table, at(1)))) == expected


@pytest.mark.parametrize(
    ("version", "release", "expected"),
    [
        (6, "0.15", ["original", "compacted"]),
        (6, "1.0", ["original", "original"]),
        (6, "1.2", ["compacted", "compacted"]),
        (9, "1.2", ["compacted", "compacted"]),
    ],
)
def test_a_log_compaction_replaces_its_blocks_by_release_and_option(
    tmp_path: Path, version: int, release: str, expected: list[str]
) -> None:
    table = writer(tmp_path / "t", version, DEFAULT_PAYLOAD if version < 8 else EVENT_TIME)
    log(table, at(1), [row("a", 5, "original")])
    original: dict[int, str] = {HeaderKey.COMPACTED_BLOCK_TIMES: at(1)}
    block = table.data_block(at(2), [row("a", 1, "compacted", commit=at(1))], positions=original)
    table.commit(at(2), wrote=[table.log_file(at(2), [block], base_instant=at(1), number=2)])
    of_release = {READ_AS_RELEASE_KEY: release} if version < 8 else {}
    options = [of_release, of_release | {OPTIMIZED_LOG_SCAN_KEY: "true"}]
    tables = [HudiTable.open(str(table.folder), options=chosen) for chosen in options]
    assert [values(opened.snapshot()) for opened in tables] == [[("a", value)] for value in expected]


@pytest.mark.parametrize("version", [6, 9])
def test_a_pending_compaction_hides_no_rows(tmp_path: Path, version: int) -> None:
    table = writer(tmp_path / "t", version)
    base(table, at(1), [row("a", 5, "a1")])
    log(table, at(2), [row("b", 6, "b2")])
    table.pending_compaction(at(3), [("", "f1-0")])
    log(table, at(4), [row("c", 6, "c4")], base_instant=at(3))
    assert values(table.open().incremental(place(table, at(1)))) == [("b", "b2"), ("c", "c4")]


@pytest.mark.parametrize("version", [6, 9])
def test_clustering_moves_rows_without_changing_them(tmp_path: Path, version: int) -> None:
    table = writer(tmp_path / "t", version)
    base(table, at(1), [row("a", 5, "a1")])
    log(table, at(2), [row("b", 6, "b2")])
    moved = table.base_file(at(3), [row("a", 5, "a1", at(1)), row("b", 6, "b2", at(2))], file_id="f2-0")
    table.commit(at(3), action="replacecommit", replaced={"": ["f1-0"]}, wrote=[moved])
    opened = table.open()
    assert values(opened.incremental(place(table, at(2)))) == []
    assert values(opened.incremental(place(table, at(1)))) == [("b", "b2")]
    before = opened.incremental(place(table, at(1)), place(table, at(2)))
    assert values(before) == [("b", "b2")]
    assert [split.slices[0].file_id for split in before.splits()] == ["f1-0"]


def test_clustering_that_completes_after_the_range_hides_nothing_in_it(tmp_path: Path) -> None:
    table = writer(tmp_path / "t")
    base(table, at(1), [row("a", 5, "a1")])
    log(table, at(3), [row("b", 6, "b3")])
    moved = table.base_file(at(2), [row("a", 5, "a1", at(1))], file_id="f2-0")
    table.commit(at(2), action="replacecommit", completed=at(8), replaced={"": ["f1-0"]}, wrote=[moved])
    assert values(table.open().incremental(completion_of(at(1)), completion_of(at(3)))) == [("b", "b3")]


@pytest.mark.parametrize("version", [6, 9])
def test_what_the_range_overwrites_is_gone_from_it_and_stays_in_earlier_ones(tmp_path: Path, version: int) -> None:
    table = writer(tmp_path / "t", version)
    base(table, at(1), [row("a", 5, "a1")])
    anew = table.base_file(at(2), [row("z", 5, "z2")], file_id="f2-0")
    table.commit(at(2), action="replacecommit", replaced={"": ["f1-0"]}, wrote=[anew])
    opened = table.open()
    assert values(opened.incremental("000")) == [("z", "z2")]
    assert values(opened.incremental("000", place(table, at(1)))) == [("a", "a1")]


@pytest.mark.parametrize(("version", "expected"), [(6, [("a", "a3")]), (8, [("a", "a3")]), (9, [])])
def test_what_is_written_to_a_file_group_that_was_overwritten_before_the_range(
    tmp_path: Path, version: int, expected: list[tuple[str, str]]
) -> None:
    table = writer(tmp_path / "t", version)
    base(table, at(1), [row("a", 5, "a1")])
    anew = table.base_file(at(2), [row("z", 5, "z2")], file_id="f2-0")
    table.commit(at(2), action="replacecommit", replaced={"": ["f1-0"]}, wrote=[anew])
    log(table, at(3), [row("a", 6, "a3")])
    opened = table.open()
    assert values(opened.snapshot()) == [("z", "z2")]
    assert values(opened.incremental(place(table, at(2)))) == expected


def test_in_layout_1_a_running_write_ends_ranges_or_is_an_error(tmp_path: Path) -> None:
    table = writer(tmp_path / "t", 6)
    base(table, at(1), [row("a", 5, "a1")])
    table.pending(at(2))
    log(table, at(3), [row("c", 6, "c3")])
    with pytest.raises(InstantNotReadableError, match=f"the write {at(2)} is still running"):
        table.open().incremental("earliest")
    blocked = HudiTable.open(str(table.folder), options={HOLLOW_COMMITS_KEY: "block"}).incremental("earliest")
    assert values(blocked) == [("a", "a1")]
    assert blocked.next_after == table.open().snapshot().next_after == at(1)


def cleaned(folder: Path, version: int) -> TableWriter:
    """A table whose first three commits are compacted, with a later change; the cleaner has removed their files."""
    table = writer(folder, version)
    old = [
        base(table, at(1), [row("a", 5, "a1"), row("b", 5, "b1")]),
        log(table, at(2), [row("b", 6, "b2")]),
        log(table, at(3), [row("a", 6, "a3")], number=2),
    ]
    base(table, at(4), [row("a", 6, "a3", at(3)), row("b", 6, "b2", at(2))])
    log(table, at(5), [row("b", 7, "b5")], base_instant=at(4))
    for path in old:
        path.unlink()
    return table


def reopened(table: TableWriter, fallback: str) -> HudiTable:
    return HudiTable.open(str(table.folder), options={FULL_SCAN_FALLBACK_KEY: fallback})


@pytest.mark.parametrize("version", [6, 9])
def test_files_that_are_gone_matter_only_where_they_are_needed(tmp_path: Path, version: int) -> None:
    table = cleaned(tmp_path / "t", version)
    opened = reopened(table, "false")
    assert values(opened.incremental("earliest")) == [("a", "a3"), ("b", "b5")]
    assert values(opened.incremental("earliest", place(table, at(4)))) == [("a", "a3"), ("b", "b2")]


@pytest.mark.parametrize("name", ["part-0.parquet", "f1-0_0-1-1_\0.parquet", "..\\f1-0_0-1-1_1.parquet"])
def test_a_commit_that_wrote_files_of_no_known_name_is_an_error(tmp_path: Path, name: str) -> None:
    table = writer(tmp_path / "t", 6)
    base(table, at(1), [row("a", 5, "a1")])
    base(table, at(2), [row("a", 6, "a2")])
    commit = table.timeline_folder / f"{at(2)}.commit"
    document = json.loads(commit.read_bytes())
    document["partitionToWriteStats"][""][0]["path"] = name
    commit.write_text(json.dumps(document))
    with pytest.raises(CorruptTimelineError, match=f"commit {at(2)}: found the path .* expected the path of a base"):
        table.open().incremental("earliest")


@pytest.mark.parametrize("version", [6, 9])
def test_a_range_of_which_files_are_gone_names_the_first_readable_instant(tmp_path: Path, version: int) -> None:
    table = cleaned(tmp_path / "t", version)
    opened = reopened(table, "false")
    with pytest.raises(
        InstantNotReadableError, match=r"^after 0+: files of the commit .* are gone; the earliest"
    ) as caught:
        opened.incremental("earliest", place(table, at(3)))
    assert (caught.value.argument, caught.value.earliest) == ("after", place(table, at(3)))
    assert values(opened.incremental(caught.value.earliest or "")) == [("b", "b5")]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_full_scan_stands_in_for_files_that_are_gone(tmp_path: Path) -> None:
    for version in (6, 9):
        table = cleaned(tmp_path / str(version), version)
        actual = reopened(table, "TRUE").incremental("earliest", place(table, at(3)))
        assert values(actual) == [("a", "a3")]
        assert actual.next_after == place(table, at(3))


def test_from_table_version_8_on_a_full_scan_is_the_default(tmp_path: Path) -> None:
    assert values(cleaned(tmp_path / "9", 9).open().incremental("earliest", completion_of(at(3)))) == [("a", "a3")]
    with pytest.raises(InstantNotReadableError):
        cleaned(tmp_path / "6", 6).open().incremental("earliest", at(3))


@pytest.mark.parametrize("key", [FULL_SCAN_FALLBACK_KEY, HOLLOW_COMMITS_KEY])
def test_options_take_the_values_of_hudi(tmp_path: Path, key: str) -> None:
    table = writer(tmp_path / "t")
    with pytest.raises(QueryError, match=key):
        HudiTable.open(str(table.folder), options={key: "perhaps"})


def test_tables_without_commit_times_are_refused(tmp_path: Path) -> None:
    table = writer(tmp_path / "t", options={"hoodie.populate.meta.fields": "false"})
    with pytest.raises(UnsupportedTableError, match="incremental"):
        table.open().incremental("earliest")


def test_only_file_groups_of_the_range_and_the_filter_are_read(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "t", partition_fields=("value",), options=EVENT_TIME).create()
    for number, partition in enumerate(("p", "p", "q"), start=1):
        rows = [row(f"k{number}", 5, partition)]
        path = table.base_file(at(number), rows, partition=partition, file_id=f"f{number}-0")
        table.commit(at(number), wrote=[path])
    since = table.open().incremental(completion_of(at(1)))
    assert [split.slices[0].file_id for split in since.splits()] == ["f2-0", "f3-0"]
    assert [split.slices[0].file_id for split in since.splits(pc.field("value") == "q")] == ["f3-0"]
    assert sorted_column(since.to_table(filter=pc.field("value") == "q"), "id") == ["k3"]


def test_splits_that_have_travelled_give_the_rows_of_the_range(tmp_path: Path) -> None:
    table = writer(tmp_path / "t", options=IGNORE_DEFAULTS)
    base(table, at(1), [row("a", 5, "old")])
    base(table, at(2), [row("a", 5, "old", at(1)), row("b", 5, "b2")])
    log(table, at(3), [row("a", 6, None)])
    actual = table.open().incremental(completion_of(at(1)))
    for split in actual.splits():
        travelled = [RealtimeFileSplit.from_json(split.to_json()), pickle.loads(pickle.dumps(split))]
        assert travelled == [split, split]
        for item in travelled:
            batches = list(open_reader(item, columns=["id", "value"]).batches())
            assert sorted_column(pa.Table.from_batches(batches), "id") == ["a", "b"]


@pytest.mark.parametrize("case", ["d_archived_120", "d_cleaned_120", "e_urlencode_120", "i_cow_120"])
def test_filters_see_the_rows_that_are_returned(case: str) -> None:
    table = HudiTable.open(str(golden_table(case)))
    dataset = table.incremental("000", table.timeline.commits()[-2].completion_time)
    everything = dataset.to_table()
    parts = everything.column("part").unique().to_pylist()
    assert len(parts) > 1
    for part in parts:
        row_filter = pc.field("part") == part
        assert differences(everything.filter(row_filter), dataset.to_table(filter=row_filter)) == []


ARCHIVES = {"d_archived_120": ".hoodie/timeline/history", "d_archived_0150": ".hoodie/archived"}


def without_archived(case: str, folder: Path, files: str = "*") -> HudiTable:
    """A copy of a golden table whose archive has lost some files."""
    shutil.copytree(golden_table(case), folder / case)
    for path in (folder / case / ARCHIVES[case]).glob(files):
        path.unlink()
    return HudiTable.open(folder / case)


@pytest.mark.parametrize(
    ("case", "files"),
    [
        ("d_archived_120", "*"),
        ("d_archived_0150", "*"),
        ("d_archived_0150", ".commits_.archive.1_*"),
    ],
)
def test_a_range_with_commits_that_the_archive_has_lost_is_refused(tmp_path: Path, case: str, files: str) -> None:
    table = without_archived(case, tmp_path, files)
    with pytest.raises(InstantNotReadableError, match="is neither on the active nor on the archived timeline") as error:
        table.incremental("earliest")
    assert error.value.argument == "after"
    assert error.value.earliest is not None
    assert table.incremental(error.value.earliest).count_rows() > 0
    with pytest.raises(InstantNotReadableError, match="is neither on the active nor on the archived timeline"):
        table.changes("2020-01-01")


@pytest.mark.parametrize("version", [6, 9])
def test_files_of_a_range_show_commits_that_the_archive_has_lost(tmp_path: Path, version: int) -> None:
    table = writer(tmp_path, version)
    for number in (1, 2, 3):
        base(table, at(number), [row(f"k{number}", number, "v")], file_id=f"f{number}-0")
    assert table.open().incremental("earliest").count_rows() == 3
    for path in (tmp_path / ".hoodie").rglob(f"{at(1)}*"):
        path.unlink()
    lost = table.open()
    with pytest.raises(InstantNotReadableError, match=f"the commit {at(1)}, which wrote .*f1-0.*, is neither") as error:
        lost.incremental("earliest")
    assert error.value.earliest == at(2 if version == 9 else 1)
    assert lost.incremental(error.value.earliest).count_rows() == 2


@pytest.mark.parametrize("gone", ["10", "*"])
def test_a_manifest_that_is_not_the_newest_is_an_error(tmp_path: Path, gone: str) -> None:
    table = without_archived("d_archived_120", tmp_path, "_version_")
    assert table.incremental("earliest").count_rows() == 40
    for path in (tmp_path / "d_archived_120/.hoodie/timeline/history").glob(f"manifest_{gone}"):
        path.unlink()
    with pytest.raises(CorruptTimelineError, match=r"_version_: found no such file, expected the number of a manifest"):
        table.incremental("earliest")
