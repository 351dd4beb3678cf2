"""Every entry of the table of rules, as all that read it see it.

These are the columnar merge, the plain rules, splits as JSON, the story of a record, and the query of the views in
Trino and Presto, run by DuckDB.

An entry that is added to the table is covered by that. That nothing else has to be told of it is shown by entries that
no release of Hudi has.
"""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge import HudiTable, RealtimeFileSplit, tools
from hudi_bridge.connectors.trino.conditions import why_not_in_plain_sql
from hudi_bridge.connectors.trino.publication import LOG, SLICES, Publication
from hudi_bridge.connectors.trino.publish import publish_log_records
from hudi_bridge.connectors.trino.realtime_view import HEEDED_BY_VIEW, RealtimeView
from hudi_bridge.connectors.trino.sql_types import Dialect, ObjectNames, literal
from hudi_bridge.connectors.trino.unmerged_view import HEEDED_BY_UNMERGED_VIEW
from hudi_bridge.engines.slice_delta import HEEDED_BY_ENGINES
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge import rules
from hudi_bridge.merge.ordering import EARLIER, HIGHER, LATER
from hudi_bridge.merge.record_map import HEEDED_BY_MERGE, build_record_map
from hudi_bridge.merge.rules import FieldFill, MergeRule, PayloadRule, Precedence
from hudi_bridge.releases import Release
from hudi_bridge.tools.trace.verdicts import HEEDED_BY_VERDICTS
from tests.properties.merge_reference import (
    Change,
    Merged,
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

TABLES = tables_of_entries()
BASE_TABLE = "hive.hudi.read_optimized"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A table of random versions, with what the plain rules make of it."""

    table: Table
    folder: Path
    opened: HudiTable
    rule: MergeRule
    merged: dict[str, Merged]

    @classmethod
    def of(cls, table: Table, base: Sequence[Row], log: Sequence[Change], folder: Path) -> "Written":
        opened = write(folder / "table", table, base, log).open()
        rule = opened.splits()[0].context.merge_rule
        assert rule is not None
        merged = PlainRules(rule=rule, table=table).merged(base, log)
        return cls(table=table, folder=folder, opened=opened, rule=rule, merged=merged)

    def check_rows(self, found: Iterable[Row]) -> None:
        expected = (row for item in self.merged.values() for row in item.rows)
        assert in_order(self.table, found) == in_order(self.table, expected)


def columnar(written: Written) -> None:
    written.check_rows(written.opened.snapshot().to_table().to_pylist())


def split(written: Written) -> None:
    for item in written.opened.splits():
        assert RealtimeFileSplit.from_json(item.to_json()).context.merge_rule == written.rule


def story(written: Written) -> None:
    for key, merged in written.merged.items():
        (group,) = tools.history_of(written.opened, key).file_groups
        assert in_order(written.table, group.result.to_pylist()) == in_order(written.table, merged.rows)
        in_base = sum(version.is_base_row for version in group.versions)
        assert group.winner == (1 if merged.winner is None else in_base + 1 + merged.winner)
        assert bool(group.sources) == bool(merged.rows)
        for name, number in group.sources:
            if name in written.table.names:
                (value,) = group.versions[number - 1].row.column(name).to_pylist()
                assert value == merged.rows[0][name]


def sql(written: Written) -> None:
    """The query of the view, in DuckDB with a function that Trino and Presto have."""
    publication = published(written)
    names = ObjectNames(catalog="hive", schema="hudi", view="v", fingerprint=publication.folder)
    merges_fields = why_not_in_plain_sql(written.rule, merges_fields=publication.merges_fields) is not None
    view = RealtimeView(
        publication=publication,
        names=names,
        dialect=Dialect.ANSI,
        base_table=BASE_TABLE,
        merges_fields=merges_fields,
    )
    base = written.opened.read_optimized().to_table()
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS hive; CREATE SCHEMA hive.hudi")
        connection.execute("CREATE MACRO regexp_like(text, pattern) AS regexp_matches(text, pattern)")
        for part in (LOG, SLICES):
            files = literal(f"{written.folder}/own/{publication.folder}/{part}/*.parquet")
            connection.execute(f"CREATE TABLE {names.of_part(part)} AS FROM read_parquet({files})")
        connection.register("base", base)
        connection.execute(f"CREATE TABLE {BASE_TABLE} AS FROM base")
        written.check_rows(connection.sql(view.query()).to_arrow_table().to_pylist())


def published(written: Written) -> Publication:
    return publish_log_records(written.opened, str(written.folder / "own")).publication


CONSUMERS: tuple[Callable[[Written], None], ...] = (columnar, split, story, sql)


def check(table: Table, base: Sequence[Row], log: Sequence[Change]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = Written.of(table, base, log, Path(folder))
        for consumer in CONSUMERS:
            consumer(written)


@pytest.mark.parametrize("name", one_in(7, TABLES))
def test_all_consumers_agree_on_every_entry(name: str) -> None:
    table = TABLES[name]

    @settings(max_examples=examples(3), deadline=None)
    @given(base=base_rows(table, distinct=True), log=changes(table, "upsert", "upsert", "delete"))
    def check_one(base: list[Row], log: list[Change]) -> None:
        check(table, base, log)

    check_one()


@pytest.mark.parametrize(("ts", "rows"), [(1, 1), (3, 0)])
@pytest.mark.parametrize("payload", ["AWSDmsAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload"])
def test_in_10_rows_with_a_delete_marker_are_compared_as_deletes(
    payload: str, ts: int, rows: int, tmp_path: Path
) -> None:
    (entry,) = (
        payload_rule
        for payload_rule in rules.PAYLOAD_RULES
        if payload_rule.payload == payload and Release.V1_0 in payload_rule.releases
    )
    marker = {"hoodie.payload.delete.field": "Op", "hoodie.payload.delete.marker": "D"}
    plain = table_of(entry, Release.V1_0)
    table = Table(version=plain.version, options={**plain.options, **marker}, marker=("Op", "D"))
    row = {"id": "k0", "ts": 2, "a": "a1", "b": "b1", "Op": None, "_hoodie_is_deleted": None}
    deleted = Change(kind="upsert", row=row | {"ts": ts, "Op": "D", "a": "a2"}, cut=0)
    written = Written.of(table, [row], [deleted], tmp_path)
    assert len(written.merged["k0"].rows) == rows
    for consumer in CONSUMERS:
        consumer(written)


OUTCOME = st.sampled_from((EARLIER, LATER, HIGHER))
OUTCOMES = st.tuples(OUTCOME, OUTCOME, OUTCOME, OUTCOME)
PRECEDENCES = st.builds(
    Precedence,
    name=st.just("invented"),
    after_row=OUTCOMES,
    after_delete=OUTCOMES,
    after_unordered_delete=OUTCOMES,
    over_base_row=st.tuples(OUTCOME, OUTCOME, OUTCOME),
    nulls_as_zero=st.booleans(),
    marked_in_logs=st.booleans(),
    flag_deletes_base=st.booleans(),
    source=st.just("none"),
)
INVENTED_RULES = st.builds(
    MergeRule,
    precedence=PRECEDENCES,
    delete_marker=st.just(("op", "gone")),
    fill=st.sampled_from([None, None, *FieldFill]),
    fills_in_logs=st.booleans(),
    newest_meta=st.booleans(),
).filter(lambda rule: rule.uses_ordering)


def invented(rule: MergeRule) -> PayloadRule:
    """An entry that no release of Hudi has."""
    return PayloadRule(payload="InventedPayload", releases=frozenset(Release), rule=rule, source="none")


@pytest.mark.parametrize("release", one_in(2, Release))
def test_an_entry_is_all_that_a_new_payload_takes(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    known = rules.PAYLOAD_RULES
    plainest = table_of(invented(MergeRule(precedence=rules.COMMIT_TIME, delete_marker=("op", "gone"))), release)
    base, log = base_rows(plainest, distinct=True), changes(plainest, "upsert", "upsert", "delete")

    @settings(max_examples=examples(10), deadline=None)
    @given(rule=INVENTED_RULES, base=base, log=log)
    def check_one(rule: MergeRule, base: list[Row], log: list[Change]) -> None:
        monkeypatch.setattr(rules, "PAYLOAD_RULES", (*known, invented(rule)))
        check(plainest, base, log)

    check_one()


def test_every_entry_says_where_it_comes_from_and_no_two_are_for_one_table() -> None:
    held = [(entry.payload, release, entry.ordered_by) for entry in rules.PAYLOAD_RULES for release in entry.releases]
    assert len(held) == len(set(held))
    assert all(entry.source and entry.rule.precedence.source for entry in rules.PAYLOAD_RULES)
    assert {name for name, _, _ in held} >= set(rules.PAYLOAD_OF_MODE.values()) | set(rules.PAYLOAD_OF_MERGER.values())


HEEDED = {
    "the columnar merge": HEEDED_BY_MERGE,
    "an engine that merges": HEEDED_BY_ENGINES,
    "the history of a record": HEEDED_BY_VERDICTS,
    "the SQL of a view": HEEDED_BY_VIEW,
    "the SQL of an unmerged view": HEEDED_BY_UNMERGED_VIEW,
}
PAYLOADS_OF_VERSIONS = {"asks_about_deletes"}
FIELDS = {"fill", "fills_in_logs", "newest_meta"}
SEQUENCES = {"sequences_against_base", "equal_sequences_keep_base", "sequences_in_logs"}


def test_each_consumer_heeds_a_behaviour_or_refuses_it_on_purpose() -> None:
    """A field that is added to rules fails this until the merge heeds it and each consumer has decided."""
    refused = {name: rules.BEHAVIOURS - heeded for name, heeded in HEEDED.items()}
    assert refused == {
        "the columnar merge": set(),
        "an engine that merges": PAYLOADS_OF_VERSIONS,
        "the history of a record": PAYLOADS_OF_VERSIONS,
        "the SQL of a view": PAYLOADS_OF_VERSIONS,
        "the SQL of an unmerged view": {*PAYLOADS_OF_VERSIONS, *FIELDS, *SEQUENCES, "payload", "flag_deletes_base"},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterRule(MergeRule):
    """As if rules had one more field."""

    keeps_first: bool = False


@pytest.mark.parametrize("consumer", HEEDED)
def test_a_behaviour_that_a_consumer_does_not_know_is_refused(consumer: str) -> None:
    LaterRule(precedence=rules.EVENT_TIME).require_heeded(HEEDED[consumer], consumer)
    with pytest.raises(UnsupportedTableError, match=f"merge rule in {consumer}.*keeps_first"):
        LaterRule(precedence=rules.EVENT_TIME, keeps_first=True).require_heeded(HEEDED[consumer], consumer)


def test_the_merge_refuses_a_behaviour_that_it_does_not_know() -> None:
    later = LaterRule(precedence=rules.EVENT_TIME, keeps_first=True)
    with pytest.raises(UnsupportedTableError, match="keeps_first"):
        build_record_map([], later, pa.schema([]), {})


def test_names_tell_precedences_apart() -> None:
    precedences = {entry.rule.precedence for entry in rules.PAYLOAD_RULES}
    assert len({precedence.name for precedence in precedences}) == len(precedences)
