"""Versions found by any column, held against the stories of all keys."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable, QueryError, tools
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

TABLES = (
    "b_event_time_120",
    "b_sql_partial_120",
    "c_inflight_middle_0150",
    "c_rollback_block_0150",
    "d_log_only_pending_120",
    "e_virtual_keys_120",
    "i_cow_120",
)
KEYS_OF_SAMPLE = 8

Found = Counter[str]


def found(table: HudiTable, condition: pc.Expression | None = None) -> dict[tuple[str, str], Found]:
    """The values of all versions, by partition and key."""
    versions: dict[tuple[str, str], Found] = {}
    for item in tools.find_versions(table, condition).read_all().to_pylist():
        versions.setdefault((item["partition_path"], item["record_key"]), Counter())[repr(item["row"])] += 1
    return versions


def told(table: HudiTable, partition_path: str, key: str) -> Found:
    """The values of the versions of a story that carry any."""
    facts = tools.history_of(table, key, partition_path=partition_path).to_table()
    assert set(facts["record_key"].to_pylist()) == {key}
    return Counter(repr(row) for row in facts["row"].to_pylist() if row is not None)


@pytest.mark.parametrize("name", one_in(3, TABLES))
def test_every_version_of_a_story_is_found(name: str) -> None:
    table = HudiTable.open(str(golden_table(name)))
    versions = found(table)
    assert len(versions) > KEYS_OF_SAMPLE
    snapshot = table.snapshot().to_table()
    if "_hoodie_record_key" in snapshot.schema.names:
        assert set(snapshot["_hoodie_record_key"].to_pylist()) <= {key for _, key in versions}
    several = sorted(versions, key=lambda record: (-versions[record].total(), record))
    for record in several[:KEYS_OF_SAMPLE]:
        assert versions[record] == told(table, *record)


@pytest.mark.parametrize("name", ["b_event_time_120", "b_sql_partial_120", "e_virtual_keys_120"])
def test_a_filter_is_applied_exactly(name: str) -> None:
    table = HudiTable.open(str(golden_table(name)))
    whole = tools.find_versions(table).read_all()
    structs: Any = whole["row"].combine_chunks()
    rows = pa.Table.from_batches([pa.RecordBatch.from_struct_array(structs)])
    partition = table.config.partition_fields[0]
    path = rows[partition][0].as_py()
    column = table.config.ordering_fields[0]
    middle = sorted(value for value in rows[column].to_pylist() if value is not None)[rows.num_rows // 2]
    for condition in (pc.field(column) > middle, (pc.field(column) <= middle) & (pc.field(partition) == path)):
        chosen = tools.find_versions(table, condition, [column]).read_all()
        assert 0 < chosen.num_rows < whole.num_rows
        found_rows: Any = chosen["row"].combine_chunks()
        assert Counter(found_rows.field(column).to_pylist()) == Counter(rows.filter(condition)[column].to_pylist())


def test_partial_updates_and_rolled_back_rows_carry_what_they_set(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t", options={"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}).create()
    base = writer.base_file(at(1), [{"id": "a", "ts": 5, "value": "a1"}])
    writer.commit(at(1), action="commit", wrote=[base])
    partial = writer.data_block(at(2), [{"id": "a", "ts": 6}], only=["id", "ts"])
    writer.commit(at(2), wrote=[writer.log_file(at(2), [partial])])
    # The writer has died.
    writer.log_file(at(3), [writer.data_block(at(3), [{"id": "a", "ts": 7, "value": "lost"}])])
    table = writer.open()
    facts = tools.history_of(table, "a").to_table().to_pylist()
    values = [(fact["kind"], fact["absent"], fact["counts"], fact["row"]["ts"], fact["row"]["value"]) for fact in facts]
    assert values == [
        ("base row", [], True, 5, "a1"),
        ("partial update", ["value"], True, 6, None),
        ("log row", [], False, 7, "lost"),
    ]
    lost = tools.find_versions(table, pc.field("value") == "lost", ["value"]).read_all().to_pylist()
    assert lost == [{"partition_path": "", "record_key": "a", "row": {"value": "lost"}}]


def test_what_is_not_in_the_table_is_refused() -> None:
    table = HudiTable.open(str(golden_table("b_event_time_120")))
    with pytest.raises(QueryError, match="none"):
        tools.find_versions(table, pc.field("none") == 1)
    with pytest.raises(QueryError, match="none"):
        tools.find_versions(table, columns=["none"])
    empty = HudiTable.open(str(golden_table("i_empty_120")))
    assert tools.find_versions(empty).read_all().num_rows == 0
