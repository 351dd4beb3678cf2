"""Hudi tables published as Iceberg tables, in Presto: the golden ones, and what Presto makes of others.

With ``--matrix`` all queries to all golden tables, otherwise the first of each kind to some tables of each group.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time
from pathlib import Path
from shutil import rmtree
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from hudi_bridge.config import QueryType
from hudi_bridge.connectors.iceberg.columns import with_types
from hudi_bridge.connectors.iceberg.compatibility import Rewriting, schema_for_presto
from tests.connectors.iceberg.golden import KEYS
from tests.connectors.iceberg.publishing import FOR_PRESTO, publish
from tests.integration.presto_client import PrestoQueryError
from tests.integration.presto_server import Presto
from tests.integration.sql_views import NESTED, NOT_IN_PRESTO, all_fields
from tests.integration.trino_rows import rows_like
from tests.support.compare import differences
from tests.support.deviations import NOT_A_NUMBER
from tests.support.golden_cases import golden_table
from tests.support.golden_queries import QUERIES, Key, answer_of, parametrize_keys
from tests.support.table_writer import TableWriter, at

CASES_PER_GROUP = 4
CATALOG = "iceberg_hadoop"
OTHERWISE_IN_PRESTO = {("p_ext_avro_120", 3), ("p_ext_avro_120", 7), ("r_filters_120", 24)}
"""Conditions on a double that is 0.0, where Presto passes over -0.0, and on timestamps, which are numbers there."""
MOMENT = datetime(2020, 7, 1, 12, 30, 15, 123456, tzinfo=UTC)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "key" in metafunc.fixturenames:
        parametrize_keys(metafunc, set(KEYS) - NOT_A_NUMBER - OTHERWISE_IN_PRESTO, CASES_PER_GROUP)


@pytest.fixture
def folder(presto: Presto) -> Iterator[Path]:
    """A folder in the warehouse of the catalog; its name is that of the table."""
    folder = presto.warehouse / "default" / f"t_{uuid4().hex}"
    yield folder
    rmtree(folder, ignore_errors=True)


@pytest.mark.engine("presto")
def test_golden_rows_are_those_of_hudi(key: Key, presto: Presto, folder: Path) -> None:
    query = QUERIES[key]
    query_type = QueryType.READ_OPTIMIZED if query.kind == "read_optimized" else QueryType.SNAPSHOT
    publish(query.table, folder, query_type=query_type, as_of=query.as_of)
    expected = as_shown(answer_of(query))
    source = f"{CATALOG}.default.{folder.name} WHERE {query.where_in_trino}"
    assert differences(expected, rows_like(presto, source, expected)) == []


def as_shown(rows: pa.Table) -> pa.Table:
    """The rows in the types of a table for Presto."""
    in_microseconds = with_types(rows.schema, lambda kind: pa.time64("us") if pa.types.is_time(kind) else kind)
    return rows.cast(in_microseconds).cast(schema_for_presto(rows.schema, cut_times=False))


@pytest.mark.parametrize("as_stored", [False, True], ids=["rewritten", "as stored"])
@pytest.mark.parametrize("case", sorted(NESTED.keys() - {NOT_IN_PRESTO}))
def test_nested_rows_are_those_of_hudi(case: str, as_stored: bool, presto: Presto, folder: Path) -> None:
    publish(NESTED[case].table, folder, replace(FOR_PRESTO, lists_as_stored=as_stored))
    expected = as_shown(answer_of(NESTED[case]))
    source = f"{CATALOG}.default.{folder.name}"
    assert differences(expected, rows_like(presto, source, expected)) == []
    if case == "names":
        sql, rows = all_fields(case, source)
        assert presto.query(sql) == rows


def test_presto_reads_renamed_columns_of_base_files_only_with_the_option(presto: Presto, folder: Path) -> None:
    sql = f"SELECT count(*), count(aa) FROM {CATALOG}.default.{folder.name}"
    for rewriting, is_read in ((Rewriting(), False), (FOR_PRESTO, True)):
        published = publish(golden_table("g_logs_rename_0150"), folder, rewriting)
        ((rows, values),) = presto.query(sql)
        assert (rows == values) is is_read
        assert any("column aa is a in the file" in note for note in published.notes) is not is_read


def column_of(folder: Path, kind: Any, value: Any) -> Path:
    """A table with a column ``c`` of one value."""
    table = TableWriter(folder=folder, fields=(("id", "string"), ("ts", "long"), ("c", kind))).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "c": value}])
    table.commit(at(1))
    return table.folder


def test_presto_reads_a_timestamp_with_time_zone_only_with_the_option(
    presto: Presto, folder: Path, tmp_path: Path
) -> None:
    table = column_of(tmp_path / "table", {"type": "long", "logicalType": "timestamp-micros"}, MOMENT)
    sql = f"SELECT c FROM {CATALOG}.default.{folder.name}"
    publish(table, folder, Rewriting())
    with pytest.raises(PrestoQueryError, match="timestamptz is not supported"):
        presto.query(sql)
    publish(table, folder)
    assert presto.query(sql) == [[1593606615123456]]
    publish(table, folder, replace(FOR_PRESTO, cut_times=True))
    cut = datetime(2020, 7, 1, 12, 30, 15, 123000)  # noqa: DTZ001 - Presto's timestamp has no time zone
    assert presto.query(sql) == [[cut]]
    assert presto.query(f"{sql} WHERE c = timestamp '2020-07-01 12:30:15.123'") == [[cut]]


def test_presto_reads_times_of_day_only_with_the_option(presto: Presto, folder: Path, tmp_path: Path) -> None:
    table = column_of(tmp_path / "table", {"type": "long", "logicalType": "time-micros"}, time(12, 30, 15, 123456))
    sql = f"SELECT hour(c) FROM {CATALOG}.default.{folder.name}"
    publish(table, folder, Rewriting())
    assert presto.query(sql) != [[12]]
    publish(table, folder)
    assert presto.query(sql.replace("hour(c)", "c")) == [[45_015_123_456]]


def test_time_travel_in_sql(presto: Presto, folder: Path) -> None:
    table = golden_table("g_logs_rename_0150")
    for instant in ("20261121150233388", "20261121150235764", None):
        publish(table, folder, as_of=instant)
    sql = f"SELECT count(*), count(aa) FROM {CATALOG}.default.{folder.name}"
    as_of_version = f"{sql} FOR VERSION AS OF 20261121150235764"
    as_of_time = f"{sql} FOR TIMESTAMP AS OF TIMESTAMP '2026-11-21 15:02:35.764 UTC'"
    ((rows, values),) = presto.query(as_of_version)
    assert rows == values > 0
    assert presto.query(as_of_time) == [[rows, values]]
    # Presto would look for the newest columns in it.
    with pytest.raises(PrestoQueryError, match="20261121150233388"):
        presto.query(f"{sql} FOR VERSION AS OF 20261121150233388")
    with pytest.raises(PrestoQueryError, match="20261121150234063"):
        presto.query(f"{sql} FOR TIMESTAMP AS OF TIMESTAMP '2026-11-21 15:02:34.063 UTC'")


def test_a_published_table_can_be_registered_in_a_metastore(presto: Presto, tmp_path: Path) -> None:
    name = f"t_{uuid4().hex}"
    published = publish(golden_table("a_story_v9_120"), tmp_path / "published")
    presto.query("CREATE SCHEMA IF NOT EXISTS iceberg.lake")
    presto.query(f"CALL iceberg.system.register_table('lake', '{name}', '{published.location}')")
    try:
        assert presto.query(f"SELECT count(*) FROM iceberg.lake.{name}") == [[65]]
    finally:
        presto.query(f"CALL iceberg.system.unregister_table('lake', '{name}')")


def test_what_presto_inserts_is_gone_after_the_next_publication(presto: Presto, folder: Path, tmp_path: Path) -> None:
    table = column_of(tmp_path / "table", "long", 1)
    publish(table, folder)
    presto.query(f"INSERT INTO {CATALOG}.default.{folder.name} (id, c) VALUES ('new', 2)")
    sql = f"SELECT c FROM {CATALOG}.default.{folder.name} ORDER BY c"
    assert presto.query(sql) == [[1], [2]]
    publish(table, folder)
    assert presto.query(sql) == [[1]]
    presto.query(f"DROP TABLE {CATALOG}.default.{folder.name}")
    assert not folder.exists()
    assert list(table.glob("*.parquet"))
