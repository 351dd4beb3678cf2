"""Whole tables: the columnar merge equals the plain rules, however the same records are cut into blocks and files."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge import HudiTable
from hudi_bridge.merge import fold, ordering
from hudi_bridge.merge.ordering import Version
from hudi_bridge.merge.rules import FieldFill, MergeRule
from tests.strength import examples
from tests.table_writer import Row, TableWriter, at

FIELDS: tuple[tuple[str, Any], ...] = (
    ("id", "string"),
    ("ts", "long"),
    ("a", "string"),
    ("b", "string"),
    ("_hoodie_is_deleted", "boolean"),
)
NAMES = tuple(name for name, _ in FIELDS)
DEFAULTS = {"b": "-"}
CHANGED = ("ts", "a")
"""The fields of a partial update."""

PAYLOAD = "hoodie.compaction.payload.class"
PACKAGE = "org.apache.hudi.common.model."
COMMIT_TIME = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
EVENT_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
IGNORE_DEFAULTS = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}

TABLES: dict[str, tuple[int, Mapping[str, str]]] = {
    "commit time": (9, COMMIT_TIME),
    "event time": (9, EVENT_TIME),
    "overwrite with latest": (6, {PAYLOAD: PACKAGE + "OverwriteWithLatestAvroPayload"}),
    "default payload": (6, {PAYLOAD: PACKAGE + "DefaultHoodieRecordPayload"}),
    "commit time, defaults ignored": (9, COMMIT_TIME | IGNORE_DEFAULTS),
    "event time, defaults ignored": (9, EVENT_TIME | IGNORE_DEFAULTS),
    "partial update": (6, {PAYLOAD: PACKAGE + "PartialUpdateAvroPayload"}),
    "latest, 1.0": (8, {PAYLOAD: PACKAGE + "AWSDmsAvroPayload"}),
    "non-defaults, 1.0": (8, {PAYLOAD: PACKAGE + "OverwriteNonDefaultsWithLatestAvroPayload"}),
    "partial update, 1.1": (8, {PAYLOAD: PACKAGE + "PartialUpdateAvroPayload", "hoodie.table.format": "native"}),
    "overwrite non-defaults": (6, {PAYLOAD: PACKAGE + "OverwriteNonDefaultsWithLatestAvroPayload"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One log record: a row, or a delete. ``cut`` says where it stands.

    0 in the block of the record before, 1 in a new block, 2 in a new file of the same write, 3 in a new write.
    """

    kind: str
    row: Row
    cut: int

    @property
    def is_delete(self) -> bool:
        return self.kind == "delete" or self.row["_hoodie_is_deleted"] is True


KEYS = st.sampled_from(["k0", "k1", "k2", "k3", "k4"])
ORDERINGS = st.one_of(st.none(), st.integers(-1, 3))
ROWS = st.fixed_dictionaries(
    {
        "id": KEYS,
        "ts": ORDERINGS,
        "a": st.sampled_from([None, "a1", "a2"]),
        "b": st.sampled_from([None, "-", "b1", "b2"]),
        "_hoodie_is_deleted": st.sampled_from([None, None, None, False, True]),
    }
)
BASE_ROWS = st.lists(ROWS.map(lambda row: row | {"_hoodie_is_deleted": None}), max_size=7)


def changes(*kinds: str) -> st.SearchStrategy[list[Change]]:
    one = st.builds(Change, kind=st.sampled_from(kinds), row=ROWS, cut=st.sampled_from([0, 0, 1, 2, 3]))
    return st.lists(one, min_size=1, max_size=14)


@pytest.mark.parametrize("name", TABLES)
def test_merging_equals_the_plain_rules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tables are small, so that no key would be left to the rounds.
    monkeypatch.setattr(fold, "_NARROW_ROUND", 1)

    @settings(max_examples=examples(15), deadline=None)
    @given(base=BASE_ROWS, log=changes("upsert", "upsert", "delete"))
    def check(base: list[Row], log: list[Change]) -> None:
        check_against_the_plain_rules(name, base, log)

    check()


@pytest.mark.parametrize("name", ["commit time", "event time", "event time, defaults ignored"])
def test_partial_updates_equal_the_plain_rules(name: str) -> None:
    @settings(max_examples=examples(12), deadline=None)
    @given(base=BASE_ROWS, log=changes("upsert", "partial", "delete"))
    def check(base: list[Row], log: list[Change]) -> None:
        check_against_the_plain_rules(name, base, log)

    check()


@pytest.mark.parametrize("name", TABLES)
def test_cutting_the_same_records_into_other_blocks_and_files_changes_nothing(name: str) -> None:
    @settings(max_examples=examples(5), deadline=None)
    @given(base=BASE_ROWS, log=changes("upsert", "delete"), data=st.data())
    def check(base: list[Row], log: list[Change], data: st.DataObject) -> None:
        cuts = data.draw(st.lists(st.integers(0, 3), min_size=len(log), max_size=len(log)))
        other = [Change(kind=one.kind, row=one.row, cut=cut) for one, cut in zip(log, cuts, strict=True)]
        assert read(name, base, log)[1] == read(name, base, other)[1]

    check()


@pytest.mark.parametrize("name", TABLES)
def test_logs_that_outgrow_their_memory_are_merged_in_parts(name: str) -> None:
    @settings(max_examples=examples(5), deadline=None)
    @given(base=BASE_ROWS, log=changes("upsert", "delete"))
    def check(base: list[Row], log: list[Change]) -> None:
        assert read(name, base, log)[1] == read(name, base, log, log_memory_bytes=100)[1]

    check()


def check_against_the_plain_rules(name: str, base: Sequence[Row], log: Sequence[Change]) -> None:
    rule, rows = read(name, base, log)
    assert rule is not None
    assert rows == in_order(merged(rule, base, log))


def read(
    name: str, base: Sequence[Row], log: Sequence[Change], log_memory_bytes: int | None = None
) -> tuple[MergeRule | None, list[tuple[Any, ...]]]:
    """The rule of the table of these records, and its rows."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), name, base, log)
        table = HudiTable.open(folder, log_memory_bytes=log_memory_bytes)
        rows = table.snapshot().to_table(columns=NAMES).to_pylist()
        return table.splits()[0].context.merge_rule, in_order(rows)


def in_order(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in NAMES) for row in rows), key=repr)


def write(folder: Path, name: str, base: Sequence[Row], log: Sequence[Change]) -> TableWriter:
    version, options = TABLES[name]
    table = TableWriter(folder=folder, version=version, fields=FIELDS, defaults=DEFAULTS, options=options).create()
    if base:
        table.base_file(at(1), base, row_group_size=2)
    table.commit(at(1))
    write_number, file_number = 2, 1
    blocks: list[bytes] = []
    for position, run in enumerate(runs(log)):
        if position and run[0].cut >= 2:
            table.log_file(at(write_number), blocks, base_instant=at(1), number=file_number)
            table.commit(at(write_number))
            blocks = []
            write_number += int(run[0].cut == 3)
            file_number += 1
        blocks.append(block(table, at(write_number), run))
    table.log_file(at(write_number), blocks, base_instant=at(1), number=file_number)
    table.commit(at(write_number))
    return table


def runs(log: Sequence[Change]) -> list[list[Change]]:
    """The records of each block."""
    found: list[list[Change]] = []
    for change in log:
        if not found or change.cut or change.kind != found[-1][-1].kind:
            found.append([])
        found[-1].append(change)
    return found


def block(table: TableWriter, instant: str, run: Sequence[Change]) -> bytes:
    if run[0].kind == "delete":
        return table.delete_block(instant, [(change.row["id"], change.row["ts"]) for change in run])
    return table.data_block(instant, [change.row for change in run], only=CHANGED if run[0].kind == "partial" else None)


def merged(rule: MergeRule, base: Sequence[Row], log: Sequence[Change]) -> list[Row]:
    """The rows of the table, key by key and in plain Python."""
    by_key: dict[str, list[Change]] = {}
    for change in log:
        by_key.setdefault(change.row["id"], []).append(change)
    merges_fields = rule.fill is not None or any(change.kind == "partial" for change in log)
    fills_in_logs = (rule.fill is not None and rule.fills_in_logs) or any(change.kind == "partial" for change in log)
    survivors = {key: survivor(rule, versions, fills_in_logs=fills_in_logs) for key, versions in by_key.items()}
    rows: list[Row] = []
    for row in base:
        found = survivors.pop(row["id"], None)
        if found is None:
            rows.append(row)
            continue
        version, fields, log_unset = found
        wins = ordering.log_replaces_base(rule.precedence.over_base_row, (comparable(rule, row["ts"]),), version)
        if version[1]:
            rows += [] if wins else [row]
        elif merges_fields:
            takes_log = {name: not log_unset[name] if wins else unset(rule, row, name) for name in NAMES}
            rows.append({name: fields[name] if takes_log[name] else row[name] for name in NAMES})
        else:
            rows.append(fields if wins else row)
    return rows + [fields for version, fields, _ in survivors.values() if not version[1]]


def survivor(
    rule: MergeRule, log: Sequence[Change], *, fills_in_logs: bool
) -> tuple[Version, dict[str, Any], dict[str, bool]]:
    """What survives of the log records of a key: its version, its fields, and which of them are unset."""
    versions = [version_of(rule, change) for change in log]
    kept = ordering.survivor(rule.precedence.in_logs, versions)
    fields, of_log = {}, {}
    in_logs = rule.precedence.in_logs
    for name in NAMES:
        all_unset = [change.kind != "delete" and unset_in(rule, change, name) for change in log]
        source = ordering.field_source(in_logs, versions, all_unset, newest=False) if fills_in_logs else kept
        left_out = log[source].kind == "partial" and name not in CHANGED
        fields[name] = None if left_out else log[source].row[name]
        of_log[name] = all_unset[source]
    return versions[kept], fields, of_log


def version_of(rule: MergeRule, change: Change) -> Version:
    value = change.row["ts"]
    is_delete = change.kind == "delete" or (change.kind == "upsert" and change.is_delete)
    return (comparable(rule, value),), is_delete, is_delete and value is None


def comparable(rule: MergeRule, value: int | None) -> int | None:
    return 0 if value is None and rule.precedence.nulls_as_zero else value


def unset_in(rule: MergeRule, change: Change, name: str) -> bool:
    if change.kind == "partial" and name not in CHANGED:
        return True
    return unset(rule, change.row, name)


def unset(rule: MergeRule, row: Row, name: str) -> bool:
    if rule.fill is None:
        return False
    default = DEFAULTS.get(name) if rule.fill is FieldFill.DEFAULTS else None
    return bool(row[name] == default)
