"""Whole tables: the columnar merge equals the plain rules, however the same records are cut into blocks and files.

The tables are one for each entry of the table of rules, in each of its releases, and some of table version 9, which
states a merge mode.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge import HudiTable
from hudi_bridge.merge import fold
from hudi_bridge.merge.rules import PAYLOAD_RULES, MergeRule
from tests.properties.merge_reference import (
    OF_MODES,
    Change,
    PlainRules,
    Table,
    base_rows,
    changes,
    in_order,
    table_of,
    tables_of_entries,
    write,
)
from tests.support.strength import examples, one_in
from tests.support.table_writer import Row

TABLES = {**OF_MODES, **tables_of_entries()}
PRECEDENCES = {entry.rule.precedence.name: entry for entry in reversed(PAYLOAD_RULES)}
OF_PRECEDENCES = {**OF_MODES, **{name: table_of(entry, min(entry.releases)) for name, entry in PRECEDENCES.items()}}
"""Some of them, with each precedence."""


@pytest.mark.parametrize("name", one_in(3, TABLES))
def test_merging_equals_the_plain_rules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tables are small, so that no key would be left to the rounds.
    monkeypatch.setattr(fold, "_NARROW_ROUND", 1)
    table = TABLES[name]

    @settings(max_examples=examples(8), deadline=None)
    @given(base=base_rows(table), log=changes(table, "upsert", "upsert", "delete"))
    def check(base: list[Row], log: list[Change]) -> None:
        check_against_the_plain_rules(table, base, log)

    check()


@pytest.mark.parametrize("name", ["commit time", "event time"])
def test_partial_updates_equal_the_plain_rules(name: str) -> None:
    table = OF_MODES[name]

    @settings(max_examples=examples(12), deadline=None)
    @given(base=base_rows(table), log=changes(table, "upsert", "partial", "delete"))
    def check(base: list[Row], log: list[Change]) -> None:
        check_against_the_plain_rules(table, base, log)

    check()


@pytest.mark.parametrize("name", one_in(4, OF_PRECEDENCES))
def test_cutting_the_same_records_into_other_blocks_and_files_changes_nothing(name: str) -> None:
    table = OF_PRECEDENCES[name]

    @settings(max_examples=examples(3), deadline=None)
    @given(base=base_rows(table), log=changes(table, "upsert", "delete"), data=st.data())
    def check(base: list[Row], log: list[Change], data: st.DataObject) -> None:
        cuts = data.draw(st.lists(st.integers(0, 3), min_size=len(log), max_size=len(log)))
        other = [Change(kind=one.kind, row=one.row, cut=cut) for one, cut in zip(log, cuts, strict=True)]
        assert read(table, base, log)[1] == read(table, base, other)[1]

    check()


@pytest.mark.parametrize("name", one_in(4, OF_PRECEDENCES))
def test_logs_that_outgrow_their_memory_are_merged_in_parts(name: str) -> None:
    table = OF_PRECEDENCES[name]

    @settings(max_examples=examples(3), deadline=None)
    @given(base=base_rows(table), log=changes(table, "upsert", "delete"))
    def check(base: list[Row], log: list[Change]) -> None:
        assert read(table, base, log)[1] == read(table, base, log, log_memory_bytes=100)[1]

    check()


def check_against_the_plain_rules(table: Table, base: Sequence[Row], log: Sequence[Change]) -> None:
    rule, rows = read(table, base, log)
    assert rule is not None
    merged = PlainRules(rule=rule, table=table).merged(base, log)
    assert rows == in_order(table, (row for item in merged.values() for row in item.rows))


def read(
    table: Table, base: Sequence[Row], log: Sequence[Change], log_memory_bytes: int | None = None
) -> tuple[MergeRule | None, list[tuple[Any, ...]]]:
    """The rule of the table of these records, and its rows."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), table, base, log)
        opened = HudiTable.open(folder, log_memory_bytes=log_memory_bytes)
        rows = opened.snapshot().to_table(columns=table.names).to_pylist()
        return opened.splits()[0].context.merge_rule, in_order(table, rows)
