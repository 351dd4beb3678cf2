"""Record mergers of one's own, beside a table that Hudi merged with one in Java."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable, MergeError, RealtimeFileSplit, RecordMerger, RecordPayload, UnsupportedTableError
from hudi_bridge.merge.custom_payload import Row
from tests.compare import differences
from tests.golden_cases import golden_merger_table
from tests.table_writer import TableWriter, at

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


def states() -> list[Path]:
    return sorted((golden_merger_table() / "answers").iterdir())


@pytest.mark.parametrize("number", range(5))
def test_a_merger_in_python_gives_the_rows_that_hudi_gives_with_the_one_in_java(number: int) -> None:
    table = HudiTable.open(str(golden_merger_table() / "table"), payloads={STRATEGY: HighestScore()})
    state = states()[number]
    assert differences(pq.read_table(state), table.snapshot(state.stem).to_table()) == []


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
    found = {row["id"]: row["value"] for row in opened.snapshot().to_table().to_pylist()}
    # a is gone by its base row. b is gone among the log versions, and starts anew before it meets the base row.
    assert found == {"b": "x+w", "c": "x+y+z", "d": "x"}
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
