import json
import pickle
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiDataset, HudiTable, InstantNotReadableError, QueryError, QueryType, open_reader
from hudi_bridge.changes.plan import EarlierStates
from hudi_bridge.changes.split import ChangeSplit
from hudi_bridge.splits.file_slice import FileGroup
from hudi_bridge.splits.file_system_view import TimelineView, build_file_groups
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.storage.storage import FileInfo, Storage
from tests.support.change_replay import replay_differences
from tests.support.compare import differences
from tests.support.golden_cases import golden_history, golden_table
from tests.support.table_writer import Row, TableWriter, at, completion_of
from tests.timeline.timeline_files import TEXT, container

EVENT_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
NO_META = EVENT_TIME | {"hoodie.populate.meta.fields": "false"}

Found = tuple[str, str | None, str | None]
"""An operation, and the value before and after."""


def row(key: str, value: str | None, ts: int = 1, **others: Any) -> Row:
    return {"id": key, "ts": ts, "value": value, **others}


@pytest.fixture(params=[6, 9])
def writer(tmp_path: Path, request: pytest.FixtureRequest) -> TableWriter:
    table = TableWriter(folder=tmp_path / "t", version=request.param, options=EVENT_TIME).create()
    base = table.base_file(at(1), [row("a", "a1"), row("b", "b1"), row("c", "c1")])
    table.commit(at(1), action="commit", wrote=[base])
    return table


def log(table: TableWriter, number: int, rows: Sequence[Row] = (), deletes: Sequence[tuple[str, int]] = ()) -> None:
    blocks = [table.data_block(at(number), rows)] if rows else []
    blocks += [table.delete_block(at(number), deletes)] if deletes else []
    path = table.log_file(at(number), blocks, base_instant=at(1), number=number)
    table.commit(at(number), wrote=[path])


def place(table: TableWriter, number: int) -> str:
    """Where a commit lies in ranges."""
    return at(number) if table.version < 8 else completion_of(at(number))


def found(dataset: HudiDataset) -> dict[str, Found]:
    """The changes by record key."""
    rows = dataset.to_table().to_pylist()
    changes = {
        (change["after"] or change["before"])["id"]: (
            change["op"],
            change["before"] and change["before"]["value"],
            change["after"] and change["after"]["value"],
        )
        for change in rows
    }
    assert len(changes) == len(rows)
    return changes


def test_changes_of_a_range_are_summed_up(writer: TableWriter) -> None:
    log(writer, 2, [row("a", "a2", 2), row("d", "d2", 2)], [("b", 2)])
    log(writer, 3, [row("a", "a3", 3), row("b", "b3", 3)], [("d", 3), ("c", 3)])
    table = writer.open()
    assert found(table.changes(place(writer, 1), place(writer, 2))) == {
        "a": ("u", "a1", "a2"),
        "b": ("d", "b1", None),
        "d": ("i", None, "d2"),
    }
    assert found(table.changes(place(writer, 2))) == {
        "a": ("u", "a2", "a3"),
        "b": ("i", None, "b3"),
        "c": ("d", "c1", None),
        "d": ("d", "d2", None),
    }
    both = table.changes(place(writer, 1))
    # What is inserted and deleted again is no change, what is deleted and inserted again is an update.
    assert found(both) == {"a": ("u", "a1", "a3"), "b": ("u", "b1", "b3"), "c": ("d", "c1", None)}
    assert found(table.changes("earliest")) == {"a": ("i", None, "a3"), "b": ("i", None, "b3")}
    assert (both.query_type, both.next_after, both.instant) == (QueryType.CHANGES, place(writer, 3), at(3))
    assert both.left_out_log_files() == 0


def test_each_change_tells_its_commit(writer: TableWriter) -> None:
    log(writer, 2, [row("a", "a2", 2)])
    log(writer, 3, [row("d", "d3", 3)], [("c", 3)])
    rows = writer.open().changes(place(writer, 1)).to_table(columns=["op", "ts_ms"]).to_pylist()
    assert sorted((item["op"], item["ts_ms"]) for item in rows) == [("d", at(3)), ("i", at(3)), ("u", at(2))]


def test_an_empty_range_has_the_columns_of_changes(writer: TableWriter) -> None:
    table = writer.open()
    for dataset in (table.changes(place(writer, 1)), table.changes("earliest", at(0))):
        rows = dataset.to_table()
        assert (rows.num_rows, rows.column_names) == (0, ["op", "ts_ms", "before", "after"])
        assert rows.schema == dataset.schema
        assert pa.schema(list(rows.schema.field("after").type)).equals(table.schema)
    assert table.changes(place(writer, 1)).next_after == place(writer, 1)
    texts = table.changes(place(writer, 1), format="cdc").schema
    assert set(texts.types) == {pa.string()}


def lost_first_commit(folder: Path, version: int, **options: str) -> HudiTable:
    """A table of three inserts, each into a file group of its own; the archive has lost the first."""
    table = TableWriter(folder=folder, version=version, options=EVENT_TIME | options).create()
    for number in (1, 2, 3):
        path = table.base_file(at(number), [row(f"k{number}", "v")], file_id=f"f{number}-0")
        table.commit(at(number), action="commit", wrote=[path])
    for path in (folder / ".hoodie").rglob(f"{at(1)}*"):
        path.unlink()
    return table.open()


@pytest.mark.parametrize("version", [6, 9])
def test_rows_of_a_commit_that_the_archive_has_lost_tell_that_commit(tmp_path: Path, version: int) -> None:
    changes = lost_first_commit(tmp_path, version).changes("earliest")
    expected = {f"k{number}": at(number) for number in (1, 2, 3)}
    assert {item["after"]["id"]: item["ts_ms"] for item in changes.to_table().to_pylist()} == expected
    assert changes.count_rows(pc.field("ts_ms") == at(1)) == 1
    (split, *others) = changes.splits()
    assert not others
    again = ChangeSplit.from_json(split.to_json())
    assert again == split
    assert differences(changes.to_table(), open_reader(again).to_table()) == []


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize(("after", "cdc"), [("earliest", "true"), ("2020-01-01", "true"), ("2020-01-01", "false")])
def test_changes_of_a_commit_that_the_archive_has_lost_are_not_left_out(
    tmp_path: Path, version: int, after: str, cdc: str
) -> None:
    options = {"hoodie.table.cdc.enabled": cdc, "hoodie.table.cdc.supplemental.logging.mode": "OP_KEY_ONLY"}
    table = lost_first_commit(tmp_path, version, **options)
    with pytest.raises(InstantNotReadableError, match=f"the commit {at(1)}, which wrote .*f1-0.*, is neither") as error:
        table.changes(after)
    assert error.value.earliest is not None
    assert table.changes(error.value.earliest).count_rows() == 2


def test_a_record_that_is_written_again_unchanged_is_an_update_and_a_late_one_none(writer: TableWriter) -> None:
    log(writer, 2, [row("a", "a1", 1), row("b", "late", 0)])
    assert found(writer.open().changes(place(writer, 1))) == {"a": ("u", "a1", "a1")}


def test_table_services_change_nothing(writer: TableWriter) -> None:
    log(writer, 2, [row("a", "a2", 2)])
    merged = [row("a", "a2", 2, _hoodie_commit_time=at(2)), *(row(key, f"{key}1") for key in "bc")]
    writer.pending_compaction(at(3), [("", "f1-0")])
    writer.commit(at(3), action="commit", wrote=[writer.base_file(at(3), merged)], operation="COMPACT")
    # Older releases wrote new commit times when they clustered.
    clustered = writer.base_file(at(4), [row("a", "a2", 2), row("b", "b1"), row("c", "c1")], file_id="f2-0")
    writer.commit(at(4), action="replacecommit", wrote=[clustered], replaced={"": ["f1-0"]}, operation="CLUSTER")
    table = writer.open()
    assert found(table.changes(place(writer, 2))) == {}
    assert list(table.changes(place(writer, 2)).splits()) == []
    assert found(table.changes(place(writer, 1))) == {"a": ("u", "a1", "a2")}


def test_records_written_after_a_clustering_are_compared_with_those_before(writer: TableWriter) -> None:
    clustered = writer.base_file(at(2), [row("a", "a1"), row("b", "b1"), row("c", "c1")], file_id="f2-0")
    writer.commit(at(2), action="replacecommit", wrote=[clustered], replaced={"": ["f1-0"]}, operation="CLUSTER")
    block = writer.data_block(at(3), [row("a", "a3", 3)], file_id="f2-0")
    writer.commit(at(3), wrote=[writer.log_file(at(3), [block], base_instant=at(2), file_id="f2-0")])
    assert found(writer.open().changes(place(writer, 1))) == {"a": ("u", "a1", "a3")}


def test_keys_of_a_replaced_file_group_are_updated_or_deleted(writer: TableWriter) -> None:
    path = writer.base_file(at(2), [row("a", "a2"), row("d", "d2")], file_id="f2-0")
    writer.commit(at(2), action="replacecommit", wrote=[path], replaced={"": ["f1-0"]}, operation="INSERT_OVERWRITE")
    assert found(writer.open().changes(place(writer, 1))) == {
        "a": ("u", "a1", "a2"),
        "b": ("d", "b1", None),
        "c": ("d", "c1", None),
        "d": ("i", None, "d2"),
    }


def test_a_record_deleted_in_one_file_group_and_inserted_into_another_is_updated(writer: TableWriter) -> None:
    log(writer, 2, deletes=[("a", 2)])
    writer.commit(at(3), action="commit", wrote=[writer.base_file(at(3), [row("a", "a3")], file_id="f2-0")])
    assert found(writer.open().changes(place(writer, 1))) == {"a": ("u", "a1", "a3")}


def test_a_record_that_moves_to_another_partition_is_deleted_and_inserted(tmp_path: Path) -> None:
    fields = (("id", "string"), ("ts", "long"), ("value", "string"), ("part", "string"))
    table = TableWriter(folder=tmp_path / "t", fields=fields, partition_fields=("part",), options=EVENT_TIME).create()
    base = table.base_file(at(1), [row("a", "a1", part="p")], partition="p")
    table.commit(at(1), action="commit", wrote=[base])
    gone = table.log_file(at(2), [table.delete_block(at(2), [("a", 2)], partition="p")], partition="p")
    new = table.base_file(at(2), [row("a", "a2", part="q")], partition="q", file_id="f2-0")
    table.commit(at(2), wrote=[gone, new])
    rows = table.open().changes(completion_of(at(1))).to_table().to_pylist()
    assert sorted((item["op"], (item["after"] or item["before"])["part"]) for item in rows) == [("d", "p"), ("i", "q")]


def test_rows_of_one_key_are_changes_each(writer: TableWriter) -> None:
    twice = writer.base_file(at(2), [row("x", "x1"), row("x", "x2")], file_id="f2-0")
    writer.commit(at(2), action="commit", wrote=[twice])
    replaced = writer.base_file(at(3), [row("x", "x1", _hoodie_commit_time=at(2))], file_id="f3-0")
    writer.commit(at(3), action="replacecommit", wrote=[replaced], replaced={"": ["f2-0"]})
    assert found(writer.open().changes(place(writer, 2))) == {"x": ("d", "x2", None)}


def test_tables_without_meta_columns_are_compared_by_their_columns(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "t", options=NO_META).create()
    for number, values in ((1, ("a1", "b1", "c1")), (2, ("a1", "b2"))):
        path = table.base_file(at(number), [row(value[0], value) for value in values])
        table.commit(at(number), action="commit", wrote=[path])
    assert found(table.open().changes(completion_of(at(1)))) == {"b": ("u", "b1", "b2"), "c": ("d", "c1", None)}


def test_a_write_that_completes_late_is_a_change_of_its_completion(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "t", options=EVENT_TIME).create()
    table.commit(at(1), action="commit", wrote=[table.base_file(at(1), [row("a", "a1"), row("b", "b1")])])
    slow = table.log_file(at(2), [table.data_block(at(2), [row("a", "a2", 2)])])
    quick = table.log_file(at(3), [table.data_block(at(3), [row("b", "b3", 3)])])
    table.commit(at(3), wrote=[quick])
    table.pending_compaction(at(4), [("", "f1-0")])
    compacted = [row("a", "a1", _hoodie_commit_time=at(1)), row("b", "b3", 3, _hoodie_commit_time=at(3))]
    table.commit(at(4), action="commit", wrote=[table.base_file(at(4), compacted)], operation="COMPACT")
    table.commit(at(2), wrote=[slow], completed=completion_of(at(5)))
    opened = table.open()
    ends = [completion_of(at(number)) for number in (1, 3, 4, 5)]
    steps = [found(opened.changes(after, up_to)) for after, up_to in pairwise(ends)]
    assert steps == [{"b": ("u", "b1", "b3")}, {}, {"a": ("u", "a1", "a2")}]


def test_filters_are_applied_exactly_and_choose_commits() -> None:
    table = HudiTable.open(str(golden_table("i_cdc_120")))
    everything = table.changes("earliest")
    instants = sorted(map(str, everything.to_table()["ts_ms"].unique().to_pylist()))
    one = pc.field("ts_ms") == instants[1]
    chosen = [split for split in everything.splits(one) if isinstance(split, ChangeSplit)]
    assert {split.commit_times for split in chosen} == {frozenset([instants[1]])}
    for condition in (
        one,
        pc.field("op") == "d",
        pc.field("after", "price") > 0,
        (pc.field("before", "id") == "k00000") | pc.field("after").is_null(),
    ):
        expected = everything.to_table().filter(condition)
        found_rows = everything.to_table(filter=condition)
        assert 0 < expected.num_rows < everything.count_rows()
        assert sorted(map(str, found_rows.to_pylist())) == sorted(map(str, expected.to_pylist()))
        ops = everything.to_table(columns=["op"], filter=condition)["op"].to_pylist()
        assert sorted(map(str, ops)) == sorted(map(str, expected["op"].to_pylist()))


def test_splits_are_read_on_other_machines(writer: TableWriter) -> None:
    log(writer, 2, [row("a", "a2", 2)], [("b", 2)])
    dataset = writer.open().changes(place(writer, 1))
    (split,) = dataset.splits()
    assert isinstance(split, ChangeSplit)
    assert len(split.slices) == 2
    for copy in (ChangeSplit.from_json(split.to_json()), pickle.loads(pickle.dumps(split))):
        assert copy == split
        rows = [item for batch in open_reader(copy).batches() for item in batch.to_pylist()]
        assert sorted(item["op"] for item in rows) == ["d", "u"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "changes": {"groups": 3}}', "null"])
def test_text_that_is_no_split_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="split"):
        ChangeSplit.from_json(text)


def test_formats_other_than_the_two_are_refused(writer: TableWriter) -> None:
    with pytest.raises(QueryError, match="rows or cdc"):
        writer.open().changes("earliest", format="json")


def test_json_of_tables_without_change_data_capture_has_the_digits_of_decimals() -> None:
    dataset = HudiTable.open(str(golden_table("f_types_120"))).changes("earliest", format="cdc")
    texts = dataset.to_table(filter=pc.field("op") == "i")["after"].to_pylist()
    assert any('"dec102":99999999.99,' in str(text) for text in texts)


def test_records_that_an_update_without_positions_leaves_to_their_keys_have_changed() -> None:
    """Its slice is merged by key then: of several base rows of one key, log records meet only the first."""
    table = HudiTable.open(str(golden_table("e_duplicate_keys_120")))
    assert replay_differences(table) == []
    before, update = table.timeline.commits()[3:5]
    changes = table.changes(before.completion_time or "", update.completion_time).to_table(columns=["op", "after"])
    assert sorted((change["op"], change["after"]["id"]) for change in changes.to_pylist()) == [
        ("i", "k4"),
        ("u", "k1"),
        ("u", "k1"),
        ("u", "k3"),
    ]


def test_what_has_been_cleaned_names_the_first_readable_range() -> None:
    folder = golden_history("mor_v6_cleaned")
    first, *_ = json.loads((folder / "steps.json").read_text())
    table = HudiTable.open(str(folder / "table"))
    with pytest.raises(InstantNotReadableError, match="cleaned") as caught:
        table.changes(first["commit"])
    assert caught.value.earliest is not None
    assert table.changes(caught.value.earliest).count_rows() > 0
    # All that there is can be told without the states before, but not what there once was.
    with pytest.raises(InstantNotReadableError, match="up to"):
        table.changes("earliest", first["commit"])
    assert table.changes("earliest").count_rows() == table.snapshot().count_rows()


def test_each_commit_costs_the_file_groups_that_it_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.cdc.enabled": "true"}
    writer = TableWriter(folder=tmp_path / "t", options=options).create()
    commits = range(1, 21)
    for number in commits:
        path = writer.base_file(at(number), [row(f"k{number}", "x")], file_id=f"f{number}-0")
        writer.commit(at(number), action="commit", wrote=[path])
    built: list[str] = []
    kept: list[int] = []
    planner_of = EarlierStates.up_to

    def counted(path: str, files: Iterable[FileInfo], timeline: TimelineView) -> tuple[FileGroup, ...]:
        groups = build_file_groups(path, files, timeline)
        built.extend(group.file_id for group in groups)
        return groups

    def watched(states: EarlierStates, last_time: str) -> SplitPlanner:
        planner = planner_of(states, last_time)
        kept.append(len(states._planners))
        return planner

    monkeypatch.setattr("hudi_bridge.splits.table_files.build_file_groups", counted)
    monkeypatch.setattr(EarlierStates, "up_to", watched)
    changes = writer.open().changes("earliest")
    assert found(changes) == {f"k{number}": ("i", None, "x") for number in commits}
    # Before and after each commit.
    assert sorted(built) == sorted(f"f{number}-0" for number in commits for _ in range(2))
    assert max(kept) == 2


def test_what_a_cleaner_has_left_behind_decides(writer: TableWriter) -> None:
    log(writer, 2, [row("a", "a2", 2)])
    log(writer, 3, [row("b", "b3", 3)])
    retained = {"earliestCommitToRetain": at(3), "lastCompletedCommitTimestamp": at(3)}
    clean = container("HoodieCleanMetadata", dict.fromkeys(retained, TEXT), retained)
    name = f"{at(4)}.clean" if writer.version < 8 else f"{at(4)}_{completion_of(at(4))}.clean"
    (writer.timeline_folder / name).write_bytes(clean)
    table = writer.open()
    assert found(table.changes(place(writer, 2))) == {"b": ("u", "b1", "b3")}
    # The slice before the retained commits is still the newest one (other slices: ``test_cleaned_states``).
    assert found(table.changes(place(writer, 1))) == {"a": ("u", "a1", "a2"), "b": ("u", "b1", "b3")}


def test_change_data_files_that_are_gone_are_not_passed_over(tmp_path: Path) -> None:
    options = {"hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.cdc.enabled": "true"}
    table = TableWriter(folder=tmp_path / "t", options=options).create()
    table.commit(at(1), action="commit", wrote=[table.base_file(at(1), [row("a", "a1")])])
    logged = table.folder / f".f1-0_{at(2)}.log.1_0-1-1.cdc"
    logged.write_bytes(b"")
    table.commit(at(2), action="commit", wrote=[table.base_file(at(2), [row("a", "a2")])], logged=[logged])
    logged.unlink()
    with pytest.raises(InstantNotReadableError, match=at(2)) as caught:
        table.open().changes(completion_of(at(1)))
    assert caught.value.earliest == completion_of(at(2))


def test_commits_without_logged_changes_are_compared_one_by_one(tmp_path: Path) -> None:
    options = {"hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.cdc.enabled": "true"}
    table = TableWriter(folder=tmp_path / "t", options=options).create()
    for number, values in ((1, ("a1", "b1")), (2, ("a2", "b1", "c2")), (3, ("a3", "c2"))):
        rows = [row(value[0], value, _hoodie_commit_time=at(int(value[1]))) for value in values]
        table.commit(at(number), action="commit", wrote=[table.base_file(at(number), rows)])
    changes = table.open().changes("earliest").to_table().to_pylist()
    assert sorted(
        (change["ts_ms"], change["op"], (change["after"] or change["before"])["value"]) for change in changes
    ) == [
        (at(1), "i", "a1"),
        (at(1), "i", "b1"),
        (at(2), "i", "c2"),
        (at(2), "u", "a2"),
        (at(3), "d", "b1"),
        (at(3), "u", "a3"),
    ]


def test_a_table_without_commits_has_no_changes() -> None:
    table = HudiTable.open(str(golden_table("i_empty_120")))
    dataset = table.changes("earliest")
    assert dataset.to_table().num_rows == 0
    assert dataset.schema.names == ["op", "ts_ms", "before", "after"]


def test_each_file_of_the_timeline_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.cdc.enabled": "true"}
    table = TableWriter(folder=tmp_path / "t", options=options).create()
    for number in range(1, 9):
        base = table.base_file(at(number), [row("a", f"a{number}")], file_id=f"f{number}-0")
        replaced = {"": [f"f{number - 1}-0"]} if number > 1 else {}
        action = "replacecommit" if number > 1 else "commit"
        table.commit(at(number), action=action, wrote=[base], replaced=replaced, operation="INSERT_OVERWRITE")
    opened = table.open()
    read: list[str] = []
    read_bytes = Storage.read_bytes

    def spy(storage: Storage, path: str) -> bytes:
        read.append(path.rpartition("/")[2])
        return read_bytes(storage, path)

    monkeypatch.setattr(Storage, "read_bytes", spy)
    assert opened.changes(completion_of(at(6))).count_rows() == 4
    counts = Counter(name.partition("_")[0] for name in read if name.endswith(".replacecommit"))
    assert counts == {at(number): 1 for number in range(2, 9)}
