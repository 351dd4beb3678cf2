"""The views of ``trino sql --dialect presto`` on a real server, against the answers of Hudi."""

import re
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from hudi_bridge import HudiTable
from hudi_bridge.connectors.trino import realtime_view
from hudi_bridge.connectors.trino.sql_types import Engine
from tests.integration.presto_client import PrestoQueryError
from tests.integration.presto_server import Presto
from tests.integration.sql_route import SqlRoute, in_two_cities, written
from tests.integration.sql_views import ViewTests, adding_table, parametrize_snapshots
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at

CASES = (
    "a_story_v5_0122",
    "a_story_v6_0150",
    "a_story_v8_102",
    "a_story_v9_120",
    "b_awsdms_120",
    "b_event_time_decimal_120",
    "b_event_time_string_120",
    "b_event_time_timestamp_120",
    "b_multi_ordering_120",
    "b_mysql_debezium_0150",
    "b_partial_update_payload_120",
    "b_sql_partial_120",
    "d_log_only_120",
    "e_composite_keys_120",
    "e_drop_part_cols_120",
    "e_multilevel_120",
    "e_urlencode_120",
    "e_virtual_keys_120",
    "f_case_names_120",
    "f_millis_120",
    "f_types_120",
    "f_types_ntz_120",
    "g_logs_rename_0150",
    "g_sor_mixed_120",
    "g_sor_type_string_120",
    "g_widen_120",
    "i_cow_120",
    "i_empty_120",
    "k_nbcc_pending_120",
    "p_vector_120",
)
"""Of each kind of table, merge rule and type; with ``--matrix``, all golden tables are read."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_snapshots(metafunc, CASES)


@pytest.fixture
def route(presto: Presto, tmp_path: Path) -> SqlRoute:
    schema = f"s{uuid.uuid4().hex[:8]}"
    return SqlRoute(
        server=presto, engine=Engine.PRESTO, locate="/=file:/", catalog="hive", schema=schema, folder=tmp_path
    )


@pytest.mark.engine("presto sql")
class TestViews(ViewTests):
    error = PrestoQueryError


def test_files_are_found_without_a_rule_for_their_place(route: SqlRoute) -> None:
    here = replace(route, locate=f"{route.folder}/elsewhere=file:/nowhere")
    table = written(route.folder / "t", lambda writer: writer.data_block(at(2), [CHANGE]), {}).open()
    here.create(here.publish(table))
    assert here.differences_from(table.snapshot().to_table()) == []


PARTS = re.compile(r"LAYOUT: \w+\.v__(base|log)_")
CHANGE = {"id": "a", "ts": 6, "n": 7, "note": "log"}


def test_a_payload_of_the_users_own_merges_when_it_is_published(route: SqlRoute) -> None:
    publication = route.publish(adding_table(route.folder))
    assert publication.why_whole == "Presto has no functions for the payload com.acme.Adding"


def test_microseconds_are_kept_as_a_number(route: SqlRoute) -> None:
    moment = {"type": "long", "logicalType": "timestamp-micros"}
    writer = TableWriter(folder=route.folder / "t", fields=(("id", "string"), ("ts", moment))).create()
    writer.base_file(at(1), [{"id": "a", "ts": 1_700_000_000_123_456}, {"id": "b", "ts": None}])
    writer.commit(at(1))
    publication = route.publish(writer.open())
    assert publication.why_whole == "Presto would cut the times of column ts to milliseconds"
    route.create(publication)
    assert route.query("SELECT id, ts, typeof(ts) FROM v ORDER BY id") == [
        ["a", 1_700_000_000_123_456, "bigint"],
        ["b", None, "bigint"],
    ]


def test_times_are_cut_if_that_is_asked_for(route: SqlRoute) -> None:
    moment = {"type": "long", "logicalType": "timestamp-micros"}
    fields = (("id", "string"), ("ts", moment), ("at", moment))
    writer = TableWriter(folder=route.folder / "t", fields=fields, ordering_fields=("ts",)).create()
    rows = [{"id": key, "ts": 5, "at": 1_700_000_000_123_456} for key in "ab"]
    writer.base_file(at(1), rows)
    writer.log_file(at(2), [writer.data_block(at(2), [{"id": "c", "ts": 6, "at": -1}])])
    writer.commit(at(1))
    writer.commit(at(2))
    publication = route.publish(writer.open(), cut_times=True)
    assert publication.whole == 0
    route.create(publication)
    cut = "2023-11-14 22:13:20.123"
    assert route.query("SELECT id, CAST(at AS varchar) FROM v ORDER BY id") == [
        ["a", cut],
        ["b", cut],
        ["c", "1970-01-01 00:00:00.000"],
    ]
    # Within a millisecond, only Hudi knows which is newer.
    writer.log_file(at(3), [writer.data_block(at(3), [{"id": "a", "ts": 4, "at": 0}])])
    writer.commit(at(3))
    publication = route.publish(writer.open(), cut_times=True)
    assert publication.why_whole == "Presto would cut the ordering values to milliseconds"
    route.create(publication)
    assert route.query("SELECT id, CAST(at AS varchar) FROM v WHERE id = 'a'") == [["a", cut]]


@pytest.mark.parametrize("most", [0, 300])
def test_a_list_of_files_that_is_too_long_becomes_a_join(
    route: SqlRoute, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realtime_view, "MOST_NAMES_LENGTH", most)
    table = in_two_cities(route.folder / "t").open()
    route.create(route.publish(table))
    assert route.differences_from(table.snapshot().to_table()) == []


@pytest.mark.parametrize(
    ("case", "condition", "domain"),
    [
        ("e_multilevel_120", "region = 'eu'", 'region=[ [["eu"]] ]'),
        ("a_story_v6_0150", "part = 'a'", 'part=[ [["a"]] ]'),
        ("a_story_v9_120", "_hoodie_record_key = '3'", '_hoodie_record_key=[ [["3"]] ]'),
    ],
)
def test_conditions_on_partition_and_key_reach_the_base_files(
    route: SqlRoute, case: str, condition: str, domain: str
) -> None:
    table = HudiTable.open(str(golden_table(case)))
    publication = route.publish(table)
    route.create(publication)
    ((plan,),) = route.query(f"EXPLAIN SELECT count(ts) FROM v WHERE {condition}")
    scans = [line for line in plan.splitlines() if f"LAYOUT: {route.schema}.v__base_{publication.folder}" in line]
    assert any(domain in line for line in scans)


@pytest.mark.parametrize("case", ["a_story_v6_0150", "a_story_v9_120", "e_virtual_keys_120"])
def test_a_condition_on_the_key_field_reaches_both_sides(route: SqlRoute, case: str) -> None:
    table = HudiTable.open(str(golden_table(case)))
    publication = route.publish(table)
    assert publication.key_field == "id"
    route.create(publication)
    ((plan,),) = route.query("EXPLAIN SELECT count(ts) FROM v WHERE id = 'k00019'")
    scans = [part for line in plan.splitlines() if 'id=[ [["k00019"]] ]' in line for part in PARTS.findall(line)]
    assert sorted(scans) == ["base", "log", "log"]


def test_log_blocks_are_shown(route: SqlRoute) -> None:
    table = written(route.folder / "t", lambda writer: writer.data_block(at(2), [CHANGE]), {}).open()
    route.create(route.publish(table, blocks=True))
    assert route.query("SELECT block_type, instant, counts, records FROM v_blocks") == [["avro_data", at(2), True, 1]]
