"""The views of ``trino sql`` on a real server, against the answers of Hudi."""

import datetime as dt
import json
import re
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from trino.exceptions import TrinoUserError

from hudi_bridge import HudiTable, RecordPayload
from tests.integration.adding_payload import AddingAnyPayload, AddingPayload
from tests.integration.sql_route import FIELDS, SqlRoute, hive_catalog, route_in, written
from tests.integration.sql_views import ViewTests, parametrize_snapshots
from tests.integration.trino_server import Trino
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at

CASES = (
    "a_story_v5_0122",
    "a_story_v6_0150",
    "a_story_v8_102",
    "a_story_v9_120",
    "b_awsdms_120",
    "b_default_payload_0150",
    "b_delete_marker_120",
    "b_event_time_decimal_120",
    "b_event_time_string_120",
    "b_event_time_timestamp_120",
    "b_multi_ordering_120",
    "b_mysql_debezium_0150",
    "b_nondefaults_payload_120",
    "b_null_ordering_0150",
    "b_partial_update_payload_0150",
    "b_partial_update_payload_120",
    "b_postgres_debezium_120",
    "b_sql_partial_120",
    "c_corrupt_middle_0150",
    "c_hfile_blocks_0150",
    "c_rollback_120",
    "d_clustering_done_120",
    "d_log_only_120",
    "d_pending_compaction_120",
    "e_composite_keys_120",
    "e_drop_part_cols_120",
    "e_null_part_120",
    "e_urlencode_120",
    "e_virtual_keys_120",
    "f_case_names_120",
    "f_millis_120",
    "f_types_120",
    "f_types_ntz_120",
    "g_sor_mixed_120",
    "g_widen_120",
    "h_record_index_120",
    "i_all_deleted_120",
    "i_cow_120",
    "i_empty_120",
)
"""Of each kind of table, merge rule and log format; with ``--matrix``, all golden tables are read."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_snapshots(metafunc, CASES)


@pytest.fixture(scope="module")
def catalog(trino: Trino, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hive_catalog(trino, tmp_path_factory.mktemp("metastore")) as name:
        yield name


@pytest.fixture
def route(trino: Trino, catalog: str, tmp_path: Path) -> SqlRoute:
    return route_in(trino, catalog, f"s{uuid.uuid4().hex[:8]}", tmp_path)


@pytest.mark.engine("trino sql")
class TestViews(ViewTests):
    error = TrinoUserError


def test_the_function_is_called_once_for_a_batch(route: SqlRoute) -> None:
    options = {"hoodie.record.merge.mode": "CUSTOM", "hoodie.compaction.payload.class": "com.acme.Adding"}
    notes = {1: "😀" * 900, 3: "é" * 9_000, 25: "é" * 20_000}
    base = [{"id": f"k{n}", "ts": 1, "n": n, "note": notes.get(n % 50, "😀" * (n % 900))} for n in range(1000)]
    changes = [{"id": f"k{n}", "ts": 1, "n": -n if n % 7 == 0 else n, "note": f"log {n}"} for n in range(1, 1000, 2)]
    writer = TableWriter(folder=route.folder / "t", fields=FIELDS, options=options).create()
    writer.base_file(at(1), base)
    writer.log_file(at(2), [writer.data_block(at(2), changes)])
    writer.commit(at(1))
    writer.commit(at(2))
    table = HudiTable.open(str(writer.folder), payloads={"com.acme.Adding": AddingPayload()})
    publication = route.publish(table)
    assert publication.contested == len(changes)
    route.create(publication)
    assert route.differences_from(table.snapshot().to_table()) == []
    plan = "\n".join(row[0] for row in route.query("EXPLAIN SELECT * FROM v"))
    assert plan.count("v__merge_") == 1


@pytest.mark.parametrize("payload", [AddingPayload(), AddingAnyPayload()])
def test_columns_that_a_payload_copies_keep_their_values(payload: RecordPayload, route: SqlRoute) -> None:
    point = {"type": "record", "name": "p", "fields": [{"name": "x", "type": ["null", "long"], "default": None}]}
    fields = (
        *FIELDS,
        ("moment", {"type": "long", "logicalType": "timestamp-micros"}),
        ("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
        ("day", {"type": "int", "logicalType": "date"}),
        ("points", {"type": "array", "items": ["null", point]}),
        ("tags", {"type": "map", "values": {"type": "array", "items": "string"}}),
        ("ratio", "double"),
        ("raw", "bytes"),
    )
    options = {"hoodie.record.merge.mode": "CUSTOM", "hoodie.compaction.payload.class": "com.acme.Adding"}

    def row(number: int, side: int) -> dict[str, Any]:
        given = {
            # Before 1902, and after 2037; microseconds before 1970.
            "moment": dt.datetime(1801 + 300 * side, 1, 1, 1, 1, 1, 123456 + number, dt.UTC),
            "local": -1 - number - side,
            "day": dt.date(1801 + 300 * side, 1, 1 + number),
            # Trino mistakes what follows an empty array.
            "points": [] if number % 4 == 1 else [{"x": side}, None],
            "tags": {} if number % 5 == 1 else {"a": [], "b": [f"{side}", f"{number}"]},
            "ratio": -0.0 if side else float("nan"),
            "raw": bytes([side, 0, 255]),
        }
        others = dict.fromkeys(given) if number % 3 == side else given
        return {"id": f"k{number}", "ts": 1, "n": number * (1 - 2 * side * (number % 2)), "note": f"{side}", **others}

    writer = TableWriter(folder=route.folder / "t", fields=fields, options=options).create()
    writer.base_file(at(1), [row(number, 0) for number in range(20)])
    writer.log_file(at(2), [writer.data_block(at(2), [row(number, 1) for number in range(15)])])
    writer.commit(at(1))
    writer.commit(at(2))
    table = HudiTable.open(str(writer.folder), payloads={"com.acme.Adding": payload})
    publication = route.publish(table)
    assert publication.contested == 15
    route.create(publication)
    assert route.differences_from(table.snapshot().to_table()) == []


def test_dates_within_columns_are_merged_when_they_are_published(route: SqlRoute) -> None:
    days = {"type": "array", "items": {"type": "int", "logicalType": "date"}}
    options = {"hoodie.record.merge.mode": "CUSTOM", "hoodie.compaction.payload.class": "com.acme.Adding"}
    writer = TableWriter(folder=route.folder / "t", fields=(*FIELDS, ("days", days)), options=options).create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "n": 1, "note": "base", "days": [dt.date(1801, 1, 1)]}])
    changes = [{"id": "a", "ts": 1, "n": 2, "note": "log", "days": [dt.date(2101, 1, 1)]}]
    writer.log_file(at(2), [writer.data_block(at(2), changes)])
    writer.commit(at(1))
    writer.commit(at(2))
    why = "Trino would pass other dates and timestamps within column days to the payload"
    for payload, expected in ((AddingPayload(), None), (AddingAnyPayload(), why)):
        table = HudiTable.open(str(writer.folder), payloads={"com.acme.Adding": payload})
        here = replace(
            route,
            schema=f"{route.schema}_{type(payload).__name__.lower()}",
            folder=route.folder / type(payload).__name__,
        )
        publication = here.publish(table)
        assert publication.why_whole == expected
        here.create(publication)
        assert here.differences_from(table.snapshot().to_table()) == []


def test_a_batch_without_rows_calls_nothing(route: SqlRoute) -> None:
    options = {"hoodie.record.merge.mode": "CUSTOM", "hoodie.compaction.payload.class": "com.acme.Adding"}
    change = [{"id": "d", "ts": 1, "n": 5, "note": "log d"}]
    writer = written(route.folder / "t", lambda writer: writer.data_block(at(2), change), options)
    table = HudiTable.open(str(writer.folder), payloads={"com.acme.Adding": AddingPayload()})
    publication = route.publish(table)
    assert publication.contested == 0
    route.create(publication)
    assert route.differences_from(table.snapshot().to_table()) == []


@pytest.mark.parametrize(
    ("case", "column"),
    [
        ("a_story_v6_0150", "id"),
        ("a_story_v9_120", "id"),
        ("b_partial_update_payload_120", "id"),
        ("e_virtual_keys_120", "id"),
        ("a_story_v9_120", "_hoodie_record_key"),
        ("e_composite_keys_120", "_hoodie_record_key"),
    ],
)
def test_a_condition_on_the_key_reaches_the_files(case: str, column: str, route: SqlRoute) -> None:
    table = HudiTable.open(str(golden_table(case)))
    publication = route.publish(table)
    assert publication.records > 0
    route.create(publication)
    value = table.snapshot().to_table(columns=[column]).column(column)[0].as_py()
    plan = "\n".join(row[0] for row in route.query(f"EXPLAIN SELECT * FROM v WHERE {column} = '{value}'"))
    # One scan of the base files, and two of log records: those to join them with, and those that have no base row.
    filtered = re.compile(rf"v__(base|log)_\w+, filterPredicate = .*{column.lstrip('_')}(?:_\d+)? = varchar '{value}'")
    actual = sorted(match.group(1) for match in map(filtered.search, plan.splitlines()) if match)
    assert actual == (["base", "log", "log"] if column == publication.key_field else ["base", "log"])


def test_hudi_decode_shows_the_records_of_log_blocks(route: SqlRoute) -> None:
    changes = [{"id": f"k{number}", "ts": number, "n": number, "note": "x" * 300} for number in range(1500)]
    table = written(route.folder / "t", lambda writer: writer.data_block(at(2), changes), {}).open()
    route.create(route.publish(table, blocks=True))
    actual = route.server.query(
        f"SELECT block_type, instant, counts, record FROM {route.place}.v_blocks"
        f" CROSS JOIN UNNEST({route.place}.hudi_decode(chunk, writer_schema)) AS t(record)"
    )
    (empty,) = route.server.query(f"SELECT {route.place}.hudi_decode(NULL, '{{}}')")
    assert empty == [None]
    assert {tuple(row[:3]) for row in actual} == {("avro_data", at(2), True)}
    decoded = sorted((json.loads(row[3]) for row in actual), key=lambda one: one["ts"])
    assert [{name: item[name] for name in ("id", "ts", "n", "note")} for item in decoded] == changes


def test_only_the_files_of_a_partition_are_read(route: SqlRoute) -> None:
    table = HudiTable.open(str(golden_table("e_drop_part_cols_120")))
    route.create(route.publish(table))
    column = table.config.partition_fields[0]
    values = table.snapshot().to_table(columns=[column]).column(column).unique().to_pylist()
    asked = values[0]
    plan = "\n".join(
        row[0] for row in route.query(f"EXPLAIN ANALYZE SELECT count(id) FROM v WHERE {column} = '{asked}'")
    )
    assert "Dynamic filters" in plan
    (counted,) = route.query(f"SELECT count(*) FROM v WHERE {column} = '{asked}'")
    expected = sum(value == asked for value in table.snapshot().to_table(columns=[column]).column(column).to_pylist())
    assert counted == [expected]


HOSTILE = ('say "when"', "it's", "a b", "x.y", "select", "-- no", "ünï✓", "$$", "/* */", "{0}", "c0", "record_key")


def test_hostile_names_of_columns_are_names(trino: Trino, route: SqlRoute) -> None:
    change = [{"id": "a", "ts": 6, "n": 2, "note": "'; DROP TABLE x; --"}]
    table = written(route.folder / "it's a table", lambda writer: writer.data_block(at(2), change), {}).open()
    publication = route.publish(table)
    # Avro's names are plain, but nothing else in a view depends on that; files do not have these columns.
    hostile = pa.schema([*publication.context.schema, *(pa.field(name, pa.string()) for name in HOSTILE)])
    route.create(replace(publication, context=replace(publication.context, schema=hostile)))
    with closing(trino.connect()) as connection:
        cursor = connection.cursor()
        rows = cursor.execute(f"SELECT * FROM {route.place}.v WHERE id = 'a'").fetchall()
        names = [column.name for column in cursor.description]
    assert names == [name.lower() for name in hostile.names]
    assert rows[0][names.index("note")] == "'; DROP TABLE x; --"
    assert rows[0][-len(HOSTILE) :] == [None] * len(HOSTILE)
