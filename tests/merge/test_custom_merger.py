"""Record mergers of one's own, beside a table that Hudi merged with one in Java."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import (
    HudiTable,
    MergeError,
    RealtimeFileSplit,
    RecordMerger,
    RecordPayload,
    UnsupportedTableError,
    VersionToMerge,
    open_reader,
    tools,
)
from hudi_bridge.engines import slice_delta
from hudi_bridge.merge.custom_payload import Row
from tests.support.compare import differences
from tests.support.golden_cases import golden_merger_table
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, sorted_column

STRATEGY = "6d3f0c1e-52a4-4f0b-9a55-0e6b2f7a1c11"
OWN = {"hoodie.record.merge.mode": "CUSTOM", "hoodie.record.merge.strategy.id": STRATEGY}


class HighestScore(RecordMerger):
    """As HighestScoreMerger.java."""

    def merge(self, older: Row, newer: Row) -> Row | None:
        return newer if newer["score"] >= older["score"] else older


class GoneWhenEqual(RecordMerger):
    """Deletes a record that is written twice with the same value, and joins other values."""

    def merge(self, older: Row, newer: Row) -> Row | None:
        if older["value"] == newer["value"]:
            return None
        return {**newer, "value": f"{older['value']}+{newer['value']}"}


class SumOfScores(RecordMerger):
    """As SumOfScoresMerger.java."""

    def merge_versions(self, older: VersionToMerge, newer: VersionToMerge) -> VersionToMerge:
        if newer.row is None and older.row is not None and older.row["note"] == "stays":
            return older.with_row({**older.row, "score": older.row["score"] + 100})
        # A delete without a time counts as 0 to Hudi.
        latest = newer if (newer.ordering or 0) >= (older.ordering or 0) else older
        if newer.row is None or older.row is None:
            return latest
        total = older.row["score"] + newer.row["score"]
        return newer.with_row(None) if total > 20 else latest.with_row({**newer.row, "score": total})


MERGERS: dict[str, tuple[str, str, RecordMerger]] = {
    "highest_score_120": (STRATEGY, "HighestScoreMerger", HighestScore()),
    "sum_of_scores_120": ("0b8f4b52-9a43-4b8e-8f0e-2f6f6f7c9a34", "SumOfScoresMerger", SumOfScores()),
}


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("number", one_in(3, range(5)))
@pytest.mark.parametrize("name", MERGERS)
def test_a_merger_in_python_gives_the_rows_that_hudi_gives_with_the_one_in_java(
    name: str, number: int, *, by_class: bool
) -> None:
    strategy, java_class, merger = MERGERS[name]
    path = str(golden_merger_table(name) / "table")
    option = {"hoodie.write.record.merge.custom.implementation.classes": java_class}
    table = HudiTable.open(
        path, payloads={java_class if by_class else strategy: merger}, options=option if by_class else {}
    )
    state = sorted((golden_merger_table(name) / "answers").iterdir())[number]
    answer = pq.read_table(state)
    assert differences(answer, table.snapshot(state.stem).to_table()) == []
    expected = pc.field("score") > 5
    actual = table.snapshot(state.stem).to_table(columns=["id", "score"], filter=expected)
    assert differences(answer.filter(expected).select(["id", "score"]), actual) == []


def test_a_merger_is_known_by_its_class_only_if_an_option_names_it(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path, version=6).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    table.commit(at(1))
    table.log_file(at(2), [table.data_block(at(2), [{"id": "a", "ts": 2, "value": "y"}])], base_instant=at(1))
    table.commit(at(2))
    payloads, named = {"com.acme.Join": GoneWhenEqual()}, "hoodie.datasource.write.record.merger.impls"
    opened = HudiTable.open(str(tmp_path), payloads=payloads)
    assert opened.snapshot().to_table()["value"].to_pylist() == ["y"]
    opened = HudiTable.open(str(tmp_path), payloads=payloads, options={named: "com.acme.Other, com.acme.Join"})
    assert opened.snapshot().to_table()["value"].to_pylist() == ["x+y"]
    with pytest.raises(UnsupportedTableError, match=r"record merger: found com\.acme\.Other.*a RecordMerger"):
        HudiTable.open(str(tmp_path), payloads=payloads, options={named: "com.acme.Other"}).snapshot().to_table()


def test_engines_get_the_rows_of_a_merger_that_decides_about_deletes() -> None:
    strategy, _, merger = MERGERS["sum_of_scores_120"]
    table = HudiTable.open(str(golden_merger_table("sum_of_scores_120") / "table"), payloads={strategy: merger})
    expected = table.snapshot().to_table()
    for split in table.splits():
        assert isinstance(split, RealtimeFileSplit)
        with slice_delta(split) as delta:
            if split.log_paths:
                assert delta.log_records() == "its merger decides about deletes"
            rows = pa.concat_tables([pa.Table.from_batches(delta.rows(), schema=expected.schema)])
            gone = set(delta.deleted_positions.tolist())
        base = pq.read_table(Path(table.path) / split.base_path) if split.base_path else rows.slice(0, 0)
        stored = base["id"].to_pylist()
        keys = [key for place, key in enumerate(stored) if place not in gone] + rows["id"].to_pylist()
        of_split = open_reader(RealtimeFileSplit.from_json(split.to_json(), payloads={strategy: merger})).to_table()
        assert sorted(map(str, keys)) == sorted_column(of_split, "id")
    with pytest.raises(UnsupportedTableError, match="SumOfScores, which decides about deletes"):
        tools.history_of(table, "k00")


class Broken(RecordMerger):
    def __init__(self, returned: object) -> None:
        self._returned = returned

    def merge_versions(self, older: VersionToMerge, newer: VersionToMerge) -> VersionToMerge:
        del older
        if isinstance(self._returned, VersionToMerge):
            return replace(newer, row=self._returned.row, ordering=self._returned.ordering)
        return self._returned  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        (None, "returned NoneType, expected a VersionToMerge"),
        (VersionToMerge(record_key="a", row=5), "returned int, expected a mapping or None as the row"),  # type: ignore[arg-type]
        (VersionToMerge(record_key="a", row={"id": "a"}, ordering="new"), "ordering value of a returned version"),
        (VersionToMerge(record_key="a", row={"id": 5}, ordering=1), "a returned row does not fit"),
    ],
)
def test_a_merger_that_returns_no_version(tmp_path: Path, returned: object, found: str) -> None:
    table = TableWriter(folder=tmp_path, version=8, options=OWN).create()
    table.base_file(at(1), [])
    table.commit(at(1))
    for number in (2, 3):
        table.log_file(at(number), [table.data_block(at(number), [{"id": "a", "ts": 1, "value": "x"}])])
        table.commit(at(number))
    with pytest.raises(MergeError, match=found):
        HudiTable.open(str(tmp_path), payloads={STRATEGY: Broken(returned)}).snapshot().to_table()


def test_partial_updates_are_refused(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path, version=8, options=OWN).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    table.commit(at(1))
    table.log_file(at(2), [table.data_block(at(2), [{"id": "a", "value": "y"}], only=["id", "value"])])
    table.commit(at(2))
    with pytest.raises(UnsupportedTableError, match=r"partial update: .*HighestScore of your own"):
        HudiTable.open(str(tmp_path), payloads={STRATEGY: HighestScore()}).snapshot().to_table()


def test_a_strategy_of_ones_own_is_refused_by_its_id_before_any_row() -> None:
    with pytest.raises(UnsupportedTableError, match=f"merge strategy: found {STRATEGY}"):
        HudiTable.open(str(golden_merger_table() / "table")).splits()
    with pytest.raises(UnsupportedTableError, match=r"RecordPayload for .*a RecordMerger"):
        HudiTable.open(str(golden_merger_table() / "table"), payloads={STRATEGY: RecordPayload()}).splits()


def test_a_strategy_of_ones_own_decides_whatever_the_payload(tmp_path: Path) -> None:
    payload = {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
    table = TableWriter(folder=tmp_path, version=8, options=OWN | payload).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    table.commit(at(1))
    with pytest.raises(UnsupportedTableError, match=STRATEGY):
        table.open().snapshot().to_table()


def test_a_merger_may_delete_among_log_versions_and_from_the_base_file(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path, version=8, options=OWN).create()
    table.base_file(at(1), [{"id": key, "ts": 1, "value": "x"} for key in ("a", "b", "c", "d")])
    table.commit(at(1))
    writes = [
        [{"id": "a", "ts": 2, "value": "x"}, {"id": "b", "ts": 2, "value": "y"}, {"id": "c", "ts": 2, "value": "y"}],
        [{"id": "b", "ts": 1, "value": "y"}, {"id": "c", "ts": 1, "value": "z"}],
        [{"id": "b", "ts": 0, "value": "w"}],
    ]
    for number, rows in enumerate(writes, start=2):
        table.log_file(at(number), [table.data_block(at(number), rows)])
        table.commit(at(number))
    opened = HudiTable.open(str(tmp_path), payloads={STRATEGY: GoneWhenEqual()})
    actual = {row["id"]: row["value"] for row in opened.snapshot().to_table().to_pylist()}
    # a is gone by its base row. b is gone among the log versions, and starts anew before it meets the base row.
    assert actual == {"b": "x+w", "c": "x+y+z", "d": "x"}
    assert "b" not in opened.snapshot(at(3)).to_table()["id"].to_pylist()
    (split,) = opened.splits()
    again = RealtimeFileSplit.from_json(split.to_json(), payloads={STRATEGY: GoneWhenEqual()})
    assert again.context.merge_rule is not None
    assert isinstance(again.context.merge_rule.payload, GoneWhenEqual)


def test_a_merger_that_fails_names_the_record(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path, version=8, options=OWN).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    table.commit(at(1))
    table.log_file(at(2), [table.data_block(at(2), [{"id": "a", "ts": 1, "value": "x"}])])
    table.commit(at(2))
    with pytest.raises(MergeError, match="KeyError: 'score'") as caught:
        HudiTable.open(str(tmp_path), payloads={STRATEGY: HighestScore()}).snapshot().to_table()
    assert caught.value.record_key == "a"


class LatestDelete(RecordMerger):
    """Takes every delete, and a row after it if it is not older."""

    def merge_versions(self, older: VersionToMerge, newer: VersionToMerge) -> VersionToMerge:
        if newer.is_delete or not older.is_delete or newer.ordering >= older.ordering:
            return newer
        return older


@pytest.mark.parametrize(("flagged", "left"), [(False, []), (True, ["b"])])
def test_a_delete_after_a_delete_counts_if_it_has_a_row(tmp_path: Path, *, flagged: bool, left: list[str]) -> None:
    """Hudi looks at whether the record has changed, and deletes of delete blocks have none."""
    fields = (("id", "string"), ("ts", "long"), ("value", "string"), ("_hoodie_is_deleted", "boolean"))
    table = TableWriter(folder=tmp_path, version=9, fields=fields, options=OWN).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "a", "_hoodie_is_deleted": False}])
    table.commit(at(1))
    late = {"id": "a", "ts": 3, "value": "", "_hoodie_is_deleted": True}
    blocks = [
        table.delete_block(at(2), [("a", 5)]),
        table.data_block(at(2), [late]) if flagged else table.delete_block(at(2), [("a", 3)]),
        table.data_block(at(2), [{"id": "a", "ts": 4, "value": "b", "_hoodie_is_deleted": False}]),
    ]
    table.log_file(at(2), blocks)
    table.commit(at(2))
    rows = HudiTable.open(str(tmp_path), payloads={STRATEGY: LatestDelete()}).snapshot().to_table()
    assert rows["value"].to_pylist() == left


def test_several_ordering_fields_are_a_tuple(tmp_path: Path) -> None:
    seen: list[object] = []

    class Noting(RecordMerger):
        def merge_versions(self, older: VersionToMerge, newer: VersionToMerge) -> VersionToMerge:
            seen.append((older.ordering, newer.ordering))
            return newer

    table = TableWriter(folder=tmp_path, version=9, ordering_fields=("ts", "value"), options=OWN).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}])
    table.commit(at(1))
    deletes = table.delete_block(at(2), [("a", (2, "y"))])
    table.log_file(at(2), [deletes, table.data_block(at(2), [{"id": "a", "ts": 3, "value": "z"}])])
    table.commit(at(2))
    actual = HudiTable.open(str(tmp_path), payloads={STRATEGY: Noting()}).snapshot().to_table()
    assert actual["value"].to_pylist() == ["z"]
    assert seen == [((2, "y"), (3, "z")), ((1, "x"), (3, "z"))]
