"""Record positions: merging by the rows that log blocks tell gives the rows that merging by record key gives.

If the base file has a key several times, it gives the rows of a table in which each of these rows has its own key.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hudi_bridge import HudiTable
from hudi_bridge.readers.log_scan import LogScan
from tests.support.compare import differences
from tests.support.slice_reads import slice_read
from tests.support.strength import examples, one_in
from tests.support.table_writer import Row, TableWriter, at, record_positions

MODES = {
    "commit time": {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"},
    "event time": {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"},
    "event time, defaults ignored": {
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
    },
}
OTHER_BASE = at(0)
"""An instant that is not that of the base file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write to a base file of rows with the keys k0, k1, …: the rows that it changes, by their places.

    ``ordering`` holds the ordering values of all places. ``values`` is None for a block of deletes, and has as many
    values as there are places otherwise.
    """

    places: tuple[int, ...]
    ordering: tuple[int, ...]
    values: tuple[str | None, ...] | None


KEYS = tuple(f"k{number}" for number in range(9))
BASE = st.lists(st.integers(0, 3), min_size=1, max_size=9)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[Write]]:
    """Ordering values of the base rows, and writes over them."""
    base = draw(BASE)
    writes = []
    for _ in range(draw(st.integers(1, 4))):
        places = tuple(sorted(draw(st.sets(st.integers(0, len(base) - 1), min_size=1))))
        ordering = tuple(draw(st.integers(0, 3)) for _ in places)
        texts = st.tuples(*(st.sampled_from([None, "new", "newer"]) for _ in places))
        writes.append(Write(places=places, ordering=ordering, values=draw(st.one_of(st.none(), texts))))
    return base, writes


@pytest.mark.parametrize("mode", one_in(2, MODES))
def test_positions_change_nothing(mode: str) -> None:
    @settings(max_examples=examples(40), deadline=None)
    @example(([1, 1, 1], [Write(places=(0, 2), ordering=(2, 0), values=("new", "new"))]))
    @given(histories())
    def check(history: tuple[list[int], list[Write]]) -> None:
        base, writes = history
        by_position = read(mode, base, writes, [at(1)] * len(writes), by_position=True)
        assert by_position == read(mode, base, writes, [None] * len(writes), by_position=False)

    check()


@pytest.mark.parametrize("mode", one_in(2, MODES))
def test_positions_in_another_base_file_are_ignored(mode: str) -> None:
    @settings(max_examples=examples(20), deadline=None)
    @given(histories(), st.data())
    def check(history: tuple[list[int], list[Write]], data: st.DataObject) -> None:
        base, writes = history
        told_of = [data.draw(st.sampled_from([None, at(1), OTHER_BASE])) for _ in writes]
        told_of[data.draw(st.integers(0, len(writes) - 1))] = OTHER_BASE
        plain = read(mode, base, writes, [None] * len(writes), by_position=False)
        assert read(mode, base, writes, told_of, by_position=False) == plain

    check()


@pytest.mark.parametrize("mode", one_in(2, MODES))
@pytest.mark.parametrize("log_memory_bytes", one_in(2, [None, 300]))
def test_rows_of_equal_keys_are_merged_as_if_their_keys_were_distinct(mode: str, log_memory_bytes: int | None) -> None:
    @settings(max_examples=examples(40), deadline=None)
    @example(([1, 1, 1], [Write(places=(0, 2), ordering=(2, 2), values=("new", "new"))]), ["k0", "k1", "k0"])
    @given(histories(), st.lists(st.sampled_from(["k0", "k1", "k2"]), min_size=9, max_size=9))
    def check(history: tuple[list[int], list[Write]], names: list[str]) -> None:
        base, writes = history
        told_of = [at(1)] * len(writes)
        distinct = read(mode, base, writes, told_of, by_position=True)
        actual = read(mode, base, writes, told_of, by_position=True, names=names, log_memory_bytes=log_memory_bytes)
        assert actual == sorted(((names[KEYS.index(key)], *rest) for key, *rest in distinct), key=str)

    check()


def read(
    mode: str,
    base: Sequence[int],
    writes: Sequence[Write],
    told_of: Sequence[str | None],
    *,
    by_position: bool,
    names: Sequence[str] = KEYS,
    log_memory_bytes: int | None = None,
) -> list[tuple[Any, ...]]:
    """The rows, where the blocks of each write tell the positions in the base file of an instant, or none.

    ``names`` are the record keys of the places.
    """
    with tempfile.TemporaryDirectory() as folder:
        writer = TableWriter(folder=Path(folder), options=MODES[mode]).create()
        rows = [{"id": key, "ts": ts, "value": "base"} for key, ts in zip(names, base, strict=False)]
        writer.base_file(at(1), rows, row_group_size=2)
        writer.commit(at(1))
        for number, (write, instant) in enumerate(zip(writes, told_of, strict=True), start=2):
            writer.log_file(at(number), [block(writer, at(number), write, instant, names)])
            writer.commit(at(number))
        table = HudiTable.open(folder, log_memory_bytes=log_memory_bytes)
        assert merges_by_position(table, len(base)) is by_position
        columns = ["id", "ts", "value"]
        actual = table.snapshot().to_table(columns=columns)
        # With a filter, a small slice is read in the way of a large one.
        assert not differences(actual, table.snapshot().to_table(columns=columns, filter=pc.field("ts") >= 0))
        return sorted((tuple(row.values()) for row in actual.to_pylist()), key=str)


def block(writer: TableWriter, instant: str, write: Write, told_of: str | None, names: Sequence[str]) -> bytes:
    places = write.places
    if told_of == OTHER_BASE:
        # What is said of another base file is wrong of this one.
        places = tuple(location + 1 for location in places)
    positions = None if told_of is None else record_positions(places, told_of)
    keys = [names[location] for location in write.places]
    if write.values is None:
        return writer.delete_block(instant, list(zip(keys, write.ordering, strict=True)), positions=positions)
    rows: list[Row] = [
        {"id": key, "ts": ts, "value": value} for key, ts, value in zip(keys, write.ordering, write.values, strict=True)
    ]
    return writer.data_block(instant, rows, positions=positions)


def merges_by_position(table: HudiTable, base_rows: int) -> bool:
    (split,) = table.splits()
    records = LogScan(slice_read(table._state.storage, split), base_rows=base_rows).records()
    return records.base_positions is not None
