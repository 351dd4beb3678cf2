"""The merge of sorted runs, by a model that merges one key at a time."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.errors import CorruptBaseFileError, CorruptLogFileError
from hudi_bridge.merge import ordering
from hudi_bridge.merge.arrays import Booleans
from hudi_bridge.merge.lsm import Chunk, LsmMerge, SortedRun, Window
from hudi_bridge.merge.record_map import LogRecords, data_records, delete_records
from hudi_bridge.merge.rules import COMMIT_TIME, EVENT_TIME, FieldFill, MergeRule, Precedence

TYPES: dict[str, pa.DataType] = {
    "_hoodie_record_key": pa.string(),
    "ts": pa.int64(),
    "_hoodie_is_deleted": pa.bool_(),
    "a": pa.string(),
    "number": pa.int64(),
}
SCHEMA = pa.schema(TYPES)
COLUMNS = tuple(SCHEMA.names)
# Their order by code points is that of their bytes, and not that of UTF-16.
KEYS = ["", "a", "aa", "ab", "b", "é", "\uffff", "\U00010000", "z" * 9]


@dataclass(frozen=True)
class Version:
    """A record of a run; ``is_row`` is false in a file of deletes."""

    key: str
    ts: int | None
    is_deleted: bool
    a: str | None
    is_row: bool = True

    @property
    def as_compared(self) -> ordering.Version:
        is_delete = self.is_deleted or not self.is_row
        always_deletes = is_delete and self.ts is None
        # Hudi compares a delete of a file as one in a row.
        return (self.ts or 0,), ordering.what_is(is_delete=is_delete, always_deletes=always_deletes, marked=True)


@dataclass(frozen=True)
class Run:
    """A file; ``sizes`` are those of its chunks, one after another."""

    versions: list[Version]
    sizes: list[int]
    first_number: int = 0

    def row(self, index: int) -> dict[str, Any]:
        version = self.versions[index]
        values = (version.key, version.ts, version.is_deleted, version.a, self.first_number + index)
        return dict(zip(COLUMNS, values, strict=True))

    def chunks(self, rule: MergeRule) -> Iterator[Chunk]:
        start, sizes = 0, iter(self.sizes)
        while start < len(self.versions):
            end = min(len(self.versions), start + next(sizes, len(self.versions)))
            yield Chunk(records=self._records(start, end, rule), positions=np.arange(start, end))
            start = end

    def _records(self, start: int, end: int, rule: MergeRule) -> LogRecords:
        versions = self.versions[start:end]
        if not versions[0].is_row:
            values: Any = pa.array([version.ts for version in versions], pa.int64())
            always: Any = np.array([version.ts is None for version in versions], np.bool_)
            keys: Any = pa.array([version.key for version in versions], pa.string())
            ordering_columns = (values,) if rule.uses_ordering else ()
            return delete_records(keys, ordering_columns, always if rule.uses_ordering else np.ones_like(always))
        rows = pa.RecordBatch.from_pylist([self.row(index) for index in range(start, end)], SCHEMA)
        return data_records(rows, rows.column(0), rule)


def runs_of(*, is_row: st.SearchStrategy[bool]) -> st.SearchStrategy[Run]:
    def of_kind(of_rows: bool) -> st.SearchStrategy[Run]:
        version = st.builds(
            Version,
            key=st.sampled_from(KEYS),
            ts=st.sampled_from([None, 0, 1, 2]),
            is_deleted=st.booleans() if of_rows else st.just(False),
            a=st.sampled_from([None, "x", "y"]),
            is_row=st.just(of_rows),
        )
        versions = st.lists(version, max_size=8).map(lambda drawn: sorted(drawn, key=lambda item: item.key.encode()))
        return st.builds(Run, versions=versions, sizes=st.lists(st.integers(1, 4), max_size=8))

    return is_row.flatmap(of_kind)


def rules() -> st.SearchStrategy[MergeRule]:
    def rule(precedence: Precedence, fill: FieldFill | None) -> MergeRule:
        return MergeRule(precedence=precedence, ordering_fields=("ts",), fill=fill)

    return st.builds(
        rule, st.sampled_from([COMMIT_TIME, EVENT_TIME]), st.sampled_from([None, FieldFill.IDENTICAL_DEFAULTS])
    )


def numbered(runs: Sequence[Run]) -> list[Run]:
    return [Run(run.versions, run.sizes, 100 * number) for number, run in enumerate(runs)]


def windows_of(rule: MergeRule, base: Run | None, logs: Sequence[Run]) -> list[Window]:
    runs = [SortedRun(f"log {number}", run.chunks(rule), CorruptLogFileError) for number, run in enumerate(logs)]
    if base is not None:
        runs.insert(0, SortedRun("base", base.chunks(rule), CorruptBaseFileError, is_base=True))
    return list(LsmMerge(rule, SCHEMA, {}).windows(runs))


def modelled(rule: MergeRule, base: Run | None, logs: Sequence[Run]) -> list[dict[str, Any]]:
    """The rows by key, each key merged by itself: rows of one key in the base file as well."""
    by_key: dict[str, list[tuple[Version, dict[str, Any]]]] = defaultdict(list)
    for run in [*([] if base is None else [base]), *logs]:
        for index, version in enumerate(run.versions):
            by_key[version.key].append((version, run.row(index)))
    of_base = set() if base is None else {version.key for version in base.versions}
    rows = []
    for key in sorted(by_key, key=str.encode):
        versions = [version.as_compared for version, _ in by_key[key]]
        if len(versions) == 1 and key in of_base:
            rows.append(by_key[key][0][1])
            continue
        winner = ordering.survivor(rule.precedence.in_logs, versions)
        if versions[winner][1]:
            continue
        row = {}
        for name in COLUMNS:
            unset = [record[name] is None for _, record in by_key[key]]
            is_filled = rule.fill is not None and name != "_hoodie_record_key"
            source = (
                ordering.field_source(rule.precedence.in_logs, versions, unset, newest=False) if is_filled else winner
            )
            row[name] = by_key[key][source][1][name]
        rows.append(row)
    return rows


@given(
    rule=rules(),
    base=st.none() | runs_of(is_row=st.just(True)),
    logs=st.lists(runs_of(is_row=st.booleans()), max_size=4),
)
def test_runs_are_merged_key_by_key(rule: MergeRule, base: Run | None, logs: list[Run]) -> None:
    *logs, base_or_none = numbered([*logs, base or Run([], [])])
    base = base_or_none if base is not None else None
    windows = windows_of(rule, base, logs)
    expected = modelled(rule, base, logs)
    assert [row for window in windows for row in window.rows(COLUMNS, None).to_pylist()] == expected
    # What is added to the base file, and its rows that stay, are the same rows.
    added = [row for window in windows for row in window.added.to_pylist()]
    staying = [
        row
        for window in windows
        if window.base is not None and window.base.records.rows is not None
        for row in window.base.records.rows.filter(pa.array(~window.superseded)).to_pylist()
    ]
    assert sorted([*added, *staying], key=lambda row: row["_hoodie_record_key"].encode()) == expected

    def passes(rows: pa.RecordBatch) -> Booleans:
        return np.array([value == "x" for value in rows.column("a").to_pylist()], np.bool_)

    passing = [row for window in windows for row in window.rows(["number"], passes).to_pylist()]
    assert passing == [{"number": row["number"]} for row in expected if row["a"] == "x"]


def run_of(*keys: str, sizes: Sequence[int] = ()) -> Run:
    return Run([Version(key, 1, False, "x") for key in keys], list(sizes))


RULE = MergeRule(precedence=EVENT_TIME, ordering_fields=("ts",))


def test_a_chunk_that_is_alone_in_its_window_is_passed_on_as_it_is() -> None:
    base, log = run_of("a", "b", "m", "n", sizes=[2, 2]), run_of("c", "d")
    windows = windows_of(RULE, base, [log])
    assert [window.rows(["_hoodie_record_key"], None).column(0).to_pylist() for window in windows] == [
        ["a", "b"],
        ["c", "d"],
        ["m", "n"],
    ]
    (first, _, _) = windows
    assert first.base is not None
    assert first.base.records.rows is not None
    # Not even a copy is made.
    passed: Any = first.rows(COLUMNS, None).column(0).buffers()
    stored: Any = first.base.records.rows.column(0).buffers()
    assert passed[2].address == stored[2].address


@pytest.mark.parametrize("sizes", [[], [2], [1, 1, 1]])
def test_rows_that_are_not_in_order_are_an_error(sizes: list[int]) -> None:
    found = "found the record key 'b' in row 2 after 'c' in row 1, expected rows in the order of their keys"
    with pytest.raises(CorruptBaseFileError, match=f"base: {found}"):
        windows_of(RULE, run_of("a", "c", "b", sizes=sizes), [run_of("a")])
    with pytest.raises(CorruptLogFileError, match=f"log 0: {found}"):
        windows_of(RULE, None, [run_of("a", "c", "b", sizes=sizes)])


def test_the_order_of_keys_is_that_of_their_bytes() -> None:
    in_utf_16 = ["\U00010000", "\uffff"]
    with pytest.raises(CorruptBaseFileError, match="in the order of their keys"):
        windows_of(RULE, run_of(*in_utf_16), [run_of("a")])
    assert len(windows_of(RULE, run_of(*reversed(in_utf_16)), [run_of("a")])) == 2


def test_two_chunks_of_each_run_are_held() -> None:
    """Whatever the number of chunks: a chunk is read when the one before has been taken."""
    taken: list[int] = []

    def chunks(run: Run, number: int) -> Iterator[Chunk]:
        for chunk in run.chunks(RULE):
            taken.append(number)
            yield chunk

    keys = [f"{number:04}" for number in range(400)]
    runs = [run_of(*keys[start::4], sizes=[5] * 20) for start in range(4)]
    sorted_runs = [SortedRun("run", chunks(run, number), CorruptLogFileError) for number, run in enumerate(runs)]
    assert sorted(taken) == [0, 0, 1, 1, 2, 2, 3, 3]
    emitted = 0
    for window in LsmMerge(RULE, SCHEMA, {}).windows(sorted_runs):
        emitted += window.added.num_rows
        # Of what was read, no more than two chunks of each run, and the rows of this window, are still there.
        assert 5 * len(taken) - emitted <= 5 * 4 * 3
    assert emitted == 400
