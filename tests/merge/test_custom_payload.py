"""Payloads of a user's own, as docs/payloads.md shows them."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hudi_bridge import (
    HudiTable,
    MergeError,
    QueryError,
    RealtimeFileSplit,
    RecordPayload,
    UnsupportedTableError,
    open_reader,
)
from tests.support.table_writer import TableWriter, at

NAME = "com.acme.CounterPayload"
FIELDS = (("id", "string"), ("ts", "long"), ("count", "long"), ("address", "string"))
Row = Mapping[str, Any]


class CounterPayload(RecordPayload):
    def pre_combine(self, older: Row, newer: Row) -> Row:
        return {**newer, "count": older["count"] + newer["count"]}

    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row | None:
        total = current["count"] + incoming["count"]
        return {**incoming, "count": total} if total else None


class NoNegativeInserts(RecordPayload):
    def get_insert_value(self, incoming: Row) -> Row | None:
        return None if incoming["count"] < 0 else {**incoming, "address": "checked"}


class BrokenPayload(RecordPayload):
    def pre_combine(self, older: Row, newer: Row) -> Row:
        raise KeyError(older["id"], newer["id"])


def row(key: str, ts: int, count: int) -> Row:
    return {"id": key, "ts": ts, "count": count, "address": key.upper()}


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableWriter:
    """Increments of five keys in a base file and three log blocks."""
    options = {"hoodie.compaction.payload.class": NAME}
    if request.param == 9:
        options["hoodie.record.merge.mode"] = "CUSTOM"
    writer = TableWriter(folder=tmp_path, version=request.param, fields=FIELDS, options=options).create()
    writer.base_file(at(1), [row("a", 1, 1), row("b", 1, 1), row("c", 1, 1), row("z", 1, 5)])
    blocks = [
        writer.data_block(at(2), [row("a", 2, 10), row("b", 2, 10), row("d", 2, 10)]),
        writer.data_block(at(2), [row("a", 3, 100), row("d", 1, 100), row("z", 2, -5)]),
        writer.delete_block(at(2), [("b", None), ("c", None)]),
        writer.data_block(at(2), [row("c", 1, 7), row("e", 1, -3)]),
    ]
    writer.log_file(at(2), blocks, base_instant=at(1))
    writer.commit(at(1))
    writer.commit(at(2))
    return writer


def counts(table: HudiTable) -> dict[str, int]:
    rows = table.snapshot().to_table(columns=["id", "count"]).to_pylist()
    return {item["id"]: item["count"] for item in rows}


def opened(writer: TableWriter, payload: RecordPayload) -> HudiTable:
    return HudiTable.open(str(writer.folder), payloads={NAME: payload})


def test_an_unknown_payload_is_refused_with_the_name_to_register(table: TableWriter) -> None:
    with pytest.raises(UnsupportedTableError, match=NAME):
        table.open().snapshot().to_table()


def test_a_counter_adds_up_what_its_versions_carry(table: TableWriter) -> None:
    # b is deleted; c is deleted and written again, which meets the base row; z adds up to nothing and is dropped.
    assert counts(opened(table, CounterPayload())) == {"a": 111, "c": 8, "d": 110, "e": -3}


def test_an_insert_may_be_changed_or_refused(table: TableWriter) -> None:
    rows = opened(table, NoNegativeInserts()).snapshot().to_table(columns=["id", "address"]).to_pylist()
    assert {item["id"]: item["address"] for item in rows} == {"a": "A", "c": "C", "d": "checked", "z": "Z"}


def test_merging_in_parts_asks_the_payload_the_same(table: TableWriter) -> None:
    tiny = HudiTable.open(str(table.folder), payloads={NAME: CounterPayload()}, log_memory_bytes=100)
    assert counts(tiny) == counts(opened(table, CounterPayload()))


def test_a_failing_payload_is_named_with_its_record(table: TableWriter) -> None:
    with pytest.raises(MergeError, match="pre_combine raised KeyError") as caught:
        opened(table, BrokenPayload()).snapshot().to_table()
    assert caught.value.record_key in {"a", "d"}


def test_a_payload_travels_with_pickled_splits_and_is_given_again_for_json(table: TableWriter) -> None:
    [split] = opened(table, CounterPayload()).splits()
    expected = sum(batch.num_rows for batch in open_reader(split).batches())
    assert sum(batch.num_rows for batch in open_reader(pickle.loads(pickle.dumps(split))).batches()) == expected
    again = RealtimeFileSplit.from_json(split.to_json(), payloads={NAME: CounterPayload()})
    assert sum(batch.num_rows for batch in open_reader(again).batches()) == expected
    with pytest.raises(QueryError, match=NAME):
        RealtimeFileSplit.from_json(split.to_json())
