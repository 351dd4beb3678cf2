"""The views of ``trino sql --dialect presto`` on a real server, against the answers of Hudi."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudi_bridge import HudiTable
from hudi_bridge.connectors.trino import realtime_view
from hudi_bridge.connectors.trino.sql_text import Engine
from tests.connectors.iceberg.test_iceberg_golden import KEYS
from tests.golden_cases import golden_table
from tests.integration.adding_payload import AddingPayload
from tests.integration.presto_client import PrestoQueryError
from tests.integration.presto_server import Presto
from tests.integration.sql_route import ORDERINGS, SqlRoute, in_two_cities, ordered, written
from tests.table_writer import TableWriter, at
from tests.test_golden import QUERIES, Key, answer_of, query_id

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
    if "key" in metafunc.fixturenames:
        every = [key for key in KEYS if QUERIES[key].kind == "snapshot"]
        keys = every if metafunc.config.getoption("--matrix") else [(case, 0) for case in CASES]
        metafunc.parametrize("key", keys, ids=query_id)


@pytest.fixture
def route(presto: Presto, tmp_path: Path) -> SqlRoute:
    schema = f"s{uuid.uuid4().hex[:8]}"
    return SqlRoute(
        server=presto, engine=Engine.PRESTO, locate="/=file:/", catalog="hive", schema=schema, folder=tmp_path
    )


@pytest.mark.engine("presto sql")
def test_golden_rows_are_those_of_hudi(route: SqlRoute, key: Key) -> None:
    table = HudiTable.open(str(QUERIES[key].table))
    route.create(route.publish(table))
    assert route.differences_from(answer_of(QUERIES[key])) == []


@pytest.mark.parametrize("version", [6, 9])
@ORDERINGS
def test_ordering_values_compare_as_in_hudi(route: SqlRoute, version: int, kind: str, values: list[Any]) -> None:
    table = ordered(route.folder / "t", version, kind, values).open()
    publication = route.publish(table)
    assert publication.contested > 0
    route.create(publication)
    assert route.differences_from(table.snapshot().to_table()) == []


def test_files_are_found_without_a_rule_for_their_place(route: SqlRoute) -> None:
    here = replace(route, locate=f"{route.folder}/elsewhere=file:/nowhere")
    table = written(route.folder / "t", lambda writer: writer.data_block(at(2), [CHANGE]), {}).open()
    here.create(here.publish(table))
    assert here.differences_from(table.snapshot().to_table()) == []


CHANGE = {"id": "a", "ts": 6, "n": 7, "note": "log"}


@pytest.mark.parametrize(
    ("block_of", "options"),
    [
        (lambda writer: writer.data_block(at(2), [{"id": "a", "ts": 6, "n": 7}], only=("id", "ts", "n")), {}),
        (
            lambda writer: writer.data_block(at(2), [CHANGE | {"note": None}]),
            {
                "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
                "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
            },
        ),
    ],
    ids=["partial updates", "defaults"],
)
def test_fields_are_merged_in_sql(
    route: SqlRoute, block_of: Callable[[TableWriter], bytes], options: dict[str, str]
) -> None:
    table = written(route.folder / "t", block_of, options).open()
    publication = route.publish(table)
    assert (publication.whole, publication.merges_fields) == (0, True)
    route.create(publication)
    assert route.differences_from(table.snapshot().to_table()) == []


def test_a_payload_of_the_users_own_merges_when_it_is_published(route: SqlRoute) -> None:
    options = {"hoodie.record.merge.mode": "CUSTOM", "hoodie.compaction.payload.class": "com.acme.Adding"}
    changes = [{"id": key, "ts": 1, "n": n, "note": f"log {key}"} for key, n in (("a", 10), ("b", -1), ("d", 5))]
    writer = written(route.folder / "t", lambda writer: writer.data_block(at(2), changes), options)
    table = HudiTable.open(str(writer.folder), payloads={"com.acme.Adding": AddingPayload()})
    publication = route.publish(table)
    assert publication.why_whole == "Presto has no functions for the payload com.acme.Adding"
    route.create(publication)
    assert route.query("SELECT id, n, note FROM v ORDER BY id") == [
        ["a", 11, "base a + log a"],
        ["c", 1, "base c"],
        ["d", 5, "log d"],
    ]


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


def test_a_base_file_that_the_view_does_not_name_is_not_opened(route: SqlRoute) -> None:
    writer = written(route.folder / "t", lambda writer: writer.data_block(at(2), [CHANGE]), {})
    route.create(route.publish(writer.open()))
    (base,) = writer.folder.glob("*.parquet")
    for number in range(20):
        (writer.folder / f"f{number}-0_0-1-1_{at(3)}.parquet").write_bytes(base.read_bytes()[:-50])
    assert route.query("SELECT id, note FROM v ORDER BY id") == [["a", "log"], ["b", "base b"], ["c", "base c"]]


@pytest.mark.parametrize("most", [0, 300])
def test_a_list_of_files_that_is_too_long_becomes_a_join(
    route: SqlRoute, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(realtime_view, "MOST_NAMES_LENGTH", most)
    table = in_two_cities(route.folder / "t").open()
    route.create(route.publish(table))
    assert route.differences_from(table.snapshot().to_table()) == []


CONDITIONS = ("true", "id = 'x'", "id IS NOT NULL", "ts > 3", "raw IS NULL", "city = 'rome'", "city IS NOT NULL")


@pytest.mark.parametrize("place", ["t/rome/*.parquet", "published/*/log/*-*.parquet", "published/*/slices/*"])
def test_a_file_that_is_gone_is_an_error_whatever_is_asked(route: SqlRoute, place: str) -> None:
    table = in_two_cities(route.folder / "t").open()
    route.create(route.publish(table))
    assert route.differences_from(table.snapshot().to_table()) == []
    (gone,) = route.folder.glob(place)
    gone.unlink()
    for condition in CONDITIONS:
        with pytest.raises(PrestoQueryError, match="has to be published again"):
            route.query(f"SELECT count(*) FROM v WHERE {condition}")


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


def test_log_blocks_are_shown(route: SqlRoute) -> None:
    table = written(route.folder / "t", lambda writer: writer.data_block(at(2), [CHANGE]), {}).open()
    route.create(route.publish(table, blocks=True))
    assert route.query("SELECT block_type, instant, counts, records FROM v_blocks") == [["avro_data", at(2), True, 1]]
