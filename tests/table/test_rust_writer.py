"""Tables that hudi-rs 0.6 wrote: their rows are Hudi's, by the indexes that it writes and without them."""

import datetime as dt
from decimal import Decimal

import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable, tools
from hudi_bridge.options import METADATA_TABLE_KEY
from hudi_bridge.tools.checks.findings import Severity
from tests.support.compare import differences
from tests.support.golden_cases import golden_rust_writer
from tests.support.golden_queries import answer_of, dataset_of
from tests.support.strength import one_in

QUERIES = {query.name: query for query in golden_rust_writer()}
ANSWERED = [name for name, query in QUERIES.items() if query.answer is not None]
SNAPSHOTS = [name for name in ANSWERED if QUERIES[name].kind == "snapshot"]
LISTED = {METADATA_TABLE_KEY: "false"}
CONDITIONS = {
    "id": pc.field("id") == "k08",
    "part": pc.field("part") == "b",
    "ts": pc.field("ts") > 20,
    "label": pc.field("label").is_null(),
    "number": pc.field("number") < 100,
    "price": pc.field("price") > 3.5,
    "ratio": pc.field("ratio") <= 1.0,
    "is_new": pc.field("is_new"),
    "day": pc.field("day") < dt.date(1970, 1, 1),
    "at": pc.field("at") < dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    "at_millis": pc.field("at_millis") > dt.datetime(1970, 1, 20, tzinfo=dt.UTC),
    "at_local": pc.field("at_local") < dt.datetime(1970, 1, 1, 2, tzinfo=dt.UTC).replace(tzinfo=None),
    "amount": pc.field("amount") < Decimal("0.00"),
    "amount_wide": pc.field("amount_wide") > Decimal("20000000000000000.00000"),
}
"""By column; of each, some files have rows that pass and some have none."""


@pytest.mark.parametrize("name", one_in(5, ANSWERED))
def test_rows_are_those_of_hudi(name: str) -> None:
    query = QUERIES[name]
    assert differences(answer_of(query), dataset_of(query, HudiTable.open(query.table)).to_table()) == []


@pytest.mark.parametrize("name", one_in(7, ANSWERED))
def test_rows_are_the_same_by_what_is_listed(name: str) -> None:
    query = QUERIES[name]
    actual = dataset_of(query, HudiTable.open(query.table, options=LISTED)).to_table()
    assert differences(answer_of(query), actual) == []


@pytest.mark.parametrize("name", one_in(7, SNAPSHOTS))
def test_a_filter_has_the_rows_of_the_snapshot_that_pass(name: str) -> None:
    snapshot = HudiTable.open(QUERIES[name].table).snapshot()
    whole = snapshot.to_table()
    for column, condition in CONDITIONS.items():
        if column in whole.column_names:
            assert differences(whole.filter(condition), snapshot.to_table(filter=condition)) == []


@pytest.mark.parametrize("name", one_in(5, SNAPSHOTS))
def test_doctor_finds_nothing_wrong(name: str) -> None:
    findings = tools.doctor(HudiTable.open(QUERIES[name].table), deep=True).findings
    assert [finding for finding in findings if finding.severity in (Severity.ERROR, Severity.WARNING)] == []
