"""Publications of log blocks that Trino is to merge by itself: what they hold, and what is refused by name."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable
from hudi_bridge.connectors.trino.conditions import compares_not_lower, later_replaces
from hudi_bridge.connectors.trino.publication import Publication
from hudi_bridge.connectors.trino.publish import publish_log_records
from hudi_bridge.connectors.trino.sql_types import Dialect, Engine
from hudi_bridge.connectors.trino.views import statements
from hudi_bridge.errors import QueryError, UnsupportedTableError
from hudi_bridge.merge import rules
from hudi_bridge.merge.rules import MergeRule
from tests.connectors.trino.unmerged_tables import REFUSED, SNAPSHOTS
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

SUPPORTED = sorted({name for name, _ in SNAPSHOTS} - REFUSED.keys())


@pytest.mark.parametrize("case", one_in(21, SUPPORTED))
def test_other_golden_tables_are_published(case: str, tmp_path: Path) -> None:
    table = HudiTable.open(str(golden_table(case)))
    publication = publish_log_records(table, tmp_path, unmerged=True).publication
    assert not publication.is_merged
    assert publication.records == 0


@pytest.mark.parametrize("case", one_in(4, REFUSED))
def test_what_trino_cannot_merge_is_refused_before_anything_is_published(case: str, tmp_path: Path) -> None:
    table = HudiTable.open(str(golden_table(case)))
    with pytest.raises(UnsupportedTableError, match=re.escape(REFUSED[case])):
        publish_log_records(table, tmp_path, unmerged=True)
    assert not [path for path in tmp_path.rglob("*.parquet") if path.parent.name != "log"]
    assert not (tmp_path / "current.json").exists()


def row(key: str, ts: int | None = 1, value: str = "v") -> dict[str, object]:
    return {"id": key, "ts": ts, "value": value}


def written(folder: Path, *blocks: Any, base: tuple[str, ...] = ("a",), **given: Any) -> TableWriter:
    """A table of a base file and a log file; blocks are made by functions of the writer."""
    writer = TableWriter(folder=folder, **given).create()
    writer.base_file(at(1), [row(key) for key in base])
    writer.log_file(at(2), [block(writer) for block in blocks], base_instant=at(1))
    writer.commit(at(1))
    writer.commit(at(2))
    return writer


def published(writer: TableWriter, folder: Path) -> Publication:
    return publish_log_records(writer.open(), folder, unmerged=True).publication


def blocks_of(folder: Path, publication: Publication) -> list[dict[str, Any]]:
    actual = folder / publication.folder / "blocks" / f"{publication.publication}.parquet"
    return pq.read_table(actual).to_pylist()


def test_blocks_tell_their_turn_and_delete_blocks_their_keys(tmp_path: Path) -> None:
    writer = written(
        tmp_path / "t",
        lambda writer: writer.data_block(at(2), [row("a", 2), row("b")]),
        lambda writer: writer.delete_block(at(2), [("a", 3), ("b", None)]),
        lambda writer: writer.data_block(at(9), [row("c")]),
    )
    publication = published(writer, tmp_path / "own")
    assert (publication.is_merged, publication.records, publication.block_rows) == (False, 0, 3)
    blocks = blocks_of(tmp_path / "own", publication)
    assert [(block["place"], block["turn"], block["first"], block["records"], block["counts"]) for block in blocks] == [
        (0, 0, 0, 2, True),
        (0, 1, 0, 2, True),
        (0, None, 0, 1, False),
    ]
    assert blocks[1]["deletes"] == [
        {"key": "a", "always": False, "o0": 3},
        {"key": "b", "always": True, "o0": None},
    ]
    assert [block["layout"] is not None for block in blocks] == [True, False, False]
    assert not list((tmp_path / "own" / publication.folder / "log").glob("*-*"))


def test_a_slice_that_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    writer = written(tmp_path / "t", lambda writer: writer.data_block(at(2), [row("a", 2)]))
    published(writer, tmp_path / "own")
    again = publish_log_records(writer.open(), tmp_path / "own", unmerged=True)
    assert (again.built, again.reused) == (0, 1)
    merged = publish_log_records(writer.open(), tmp_path / "own")
    assert (merged.built, merged.publication.is_merged, merged.publication.records) == (1, True, 1)


def test_the_statements_have_no_table_of_log_records(tmp_path: Path) -> None:
    writer = written(tmp_path / "t", lambda writer: writer.data_block(at(2), [row("a", 2)]))
    publication = published(writer, tmp_path / "own")
    made = statements(publication, catalog="hive", schema="lake", view="v")
    heads = [item.removeprefix("CREATE OR REPLACE ").partition("(")[0].partition(" AS")[0] for item in made]
    assert [re.sub(r"_[0-9a-f]{8}|-- .*\n", "", head).strip() for head in heads] == [
        'CREATE SCHEMA IF NOT EXISTS "hive"."lake"',
        'CREATE TABLE IF NOT EXISTS "hive"."lake"."v__base"',
        'CREATE TABLE IF NOT EXISTS "hive"."lake"."v__slices"',
        'FUNCTION "hive"."lake"."v__rows"',
        'CREATE TABLE IF NOT EXISTS "hive"."lake"."v__blocks"',
        'VIEW "hive"."lake"."v_blocks"',
        'FUNCTION "hive"."lake"."hudi_decode"',
        'CREATE OR REPLACE VIEW "hive"."lake"."v"',
    ]
    assert made[-1].count("v__rows_") == 1
    with pytest.raises(UnsupportedTableError, match="not merged"):
        statements(publication, catalog="hive", schema="lake", view="v", dialect=Dialect.ANSI, base_table="ro.t")


def test_versions_compare_by_the_tables_of_outcomes() -> None:
    by_commit = MergeRule(precedence=rules.COMMIT_TIME, ordering_fields=("ts",))
    assert later_replaces(by_commit, (), "s", "v") == "TRUE"
    by_event = MergeRule(precedence=rules.EVENT_TIME, ordering_fields=("ts",))
    not_lower = "COALESCE((COALESCE(v.o0, 0) > COALESCE(s.o0, 0) OR COALESCE(v.o0, 0) = COALESCE(s.o0, 0)), FALSE)"
    of_row = f"CASE v.what WHEN 0 THEN {not_lower} WHEN 1 THEN {not_lower} WHEN 2 THEN TRUE WHEN 3 THEN {not_lower} END"
    of_unordered = "CASE v.what WHEN 0 THEN TRUE WHEN 1 THEN FALSE WHEN 2 THEN TRUE WHEN 3 THEN TRUE END"
    assert later_replaces(by_event, (pa.int64(),), "s", "v") == (
        f"CASE s.what WHEN 0 THEN {of_row} WHEN 1 THEN {of_row} WHEN 2 THEN {of_unordered} WHEN 3 THEN {of_row} END"
    )


def test_decimals_below_0_are_above_others_among_log_records_of_0x() -> None:
    rule = MergeRule(precedence=rules.OVERWRITE_LATEST, ordering_fields=("ts",))
    condition = later_replaces(rule, (pa.decimal128(10, 2),), "s", "v")
    assert "(v.o0 < 0) > (s.o0 < 0)" in condition


def test_bytes_compare_as_signed_ones_in_0x() -> None:
    rule = MergeRule(precedence=rules.DEFAULT_PAYLOAD, ordering_fields=("ts",))
    assert "regexp_replace(to_hex(v.o0), " in later_replaces(rule, (pa.binary(),), "s", "v")
    with pytest.raises(UnsupportedTableError, match="bytes that compare as signed ones"):
        compares_not_lower(rule, (pa.binary(),), Dialect.ANSI, ["b"], ["l"])


def test_presto_has_no_function_to_decode(tmp_path: Path) -> None:
    writer = written(tmp_path / "t", lambda writer: writer.data_block(at(2), [row("a", 2)]))
    with pytest.raises(QueryError, match="--for trino"):
        publish_log_records(writer.open(), tmp_path / "own", engine=Engine.PRESTO, unmerged=True)


@pytest.mark.parametrize(
    ("options", "block", "base", "reason"),
    [
        ({}, lambda writer: writer.data_block(at(2), [row("a")], only=("id", "ts")), ("a",), "a partial update"),
        ({}, lambda writer: writer.data_block(at(2), [row("a")]), ("a", "a"), "several rows of one record key"),
        (
            {},
            lambda writer: writer.data_block(at(2), [row("b"), row("a", 1, "x" * 300_000)]),
            ("a",),
            "a record of 300,",
        ),
        (
            {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
            lambda writer: writer.data_block(at(2), [row("a")]),
            ("a",),
            "merging of fields, identical defaults",
        ),
    ],
)
def test_what_a_statement_cannot_say_is_refused(
    options: dict[str, str], block: Any, base: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    writer = written(tmp_path / "t", block, base=base, options=options)
    with pytest.raises(UnsupportedTableError, match=reason):
        published(writer, tmp_path / "own")
    assert not (tmp_path / "own" / "current.json").exists()
