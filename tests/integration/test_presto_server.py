import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge.connectors.trino.sql_types import Dialect, stored_type
from tests.integration import presto_download, presto_server
from tests.integration.own_network import NoOwnNetworkError, listening_sockets
from tests.integration.presto_client import PrestoQueryError
from tests.integration.presto_server import Presto, PrestoNotStartedError, running_server
from tests.integration.trino_rows import arrow_rows
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.jdks import JdkMissingError, JdkNeed
from tests.support.snippets import blocks_of

CATALOGS = ("hive", "hudi", "iceberg", "iceberg_hadoop")
MIDDAY = dt.datetime(2024, 1, 2, 12, 0, 0, 678000, tzinfo=dt.UTC)


def test_answers_queries(presto: Presto) -> None:
    assert presto.query("SELECT 1") == [[1]]
    [[version]] = presto.query("SELECT node_version FROM system.runtime.nodes")
    assert version.startswith(presto_download.ARCHIVE.version)


def test_has_its_catalogs(presto: Presto) -> None:
    assert {name for [name] in presto.query("SHOW CATALOGS")} == {*CATALOGS, "system"}
    for name in CATALOGS:
        assert ["information_schema"] in presto.query(f"SHOW SCHEMAS FROM {name}")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("true", True),
        ("BIGINT '-9223372036854775808'", -(2**63)),
        ("REAL '1.5'", 1.5),
        ("infinity()", float("inf")),
        ("DECIMAL '12345678901234567890.10'", Decimal("12345678901234567890.10")),
        ("VARCHAR 'é'", "é"),
        ("X'00FF'", b"\x00\xff"),
        ("DATE '2024-01-02'", dt.date(2024, 1, 2)),
        ("TIMESTAMP '2024-01-02 12:00:00.678'", MIDDAY.replace(tzinfo=None)),
        ("TIMESTAMP '2024-01-02 12:00:00.678 UTC'", MIDDAY),
        ("NULL", None),
        ("ARRAY[DECIMAL '0.10', NULL]", [Decimal("0.10"), None]),
        ("ARRAY[1e0 / 3, infinity()]", [1 / 3, float("inf")]),
        ("ARRAY[ARRAY['[1]', 'a\"b'], ARRAY[]]", [["[1]", 'a"b'], []]),
        ("MAP(ARRAY[DATE '2024-01-02'], ARRAY[ARRAY[X'00FF']])", {dt.date(2024, 1, 2): [b"\x00\xff"]}),
        ("ROW(1, ROW(TIMESTAMP '2024-01-02 12:00:00.678', NULL))", (1, (MIDDAY.replace(tzinfo=None), None))),
        ("CAST(ROW(MAP(ARRAY[1], ARRAY['x'])) AS ROW(m MAP(BIGINT, VARCHAR)))", ({1: "x"},)),
    ],
)
def test_values_are_those_of_python(presto: Presto, expression: str, expected: Any) -> None:
    assert presto.query(f"SELECT {expression}") == [[expected]]


def test_many_rows_are_read_to_the_end(presto: Presto) -> None:
    numbers = "SELECT a + 1000 * b FROM UNNEST(sequence(0, 999)) AS x (a) CROSS JOIN UNNEST(sequence(0, 49)) AS y (b)"
    assert sorted(value for [value] in presto.query(numbers)) == list(range(50_000))


def test_a_refused_statement_is_an_error_with_its_name(presto: Presto) -> None:
    with pytest.raises(PrestoQueryError, match="Column 'missing' cannot be resolved") as caught:
        presto.query("SELECT missing")
    assert caught.value.error_name == "SYNTAX_ERROR"


def test_an_error_amid_the_rows_is_raised(presto: Presto) -> None:
    with pytest.raises(PrestoQueryError, match="DIVISION_BY_ZERO"):
        presto.query("SELECT 1 / (a - 5000) FROM UNNEST(sequence(0, 9999)) AS x (a)")


def test_reads_a_base_file_of_hudi(presto: Presto, tmp_path: Path) -> None:
    base_file = max(golden_table("f_types_120").glob("p/*.parquet"), key=lambda path: pq.read_metadata(path).num_rows)
    expected = pq.read_table(base_file, partitioning=None)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / base_file.name).hardlink_to(base_file)
    schema = f"hive.s{uuid.uuid4().hex[:8]}"
    columns = ", ".join(
        f'"{field.name}" {stored_type(field.type, Dialect.PRESTO, field.name)}' for field in expected.schema
    )
    location = (tmp_path / "data").as_uri()
    presto.query(f"CREATE SCHEMA {schema}")
    presto.query(f"CREATE TABLE {schema}.t ({columns}) WITH (external_location = '{location}', format = 'PARQUET')")
    actual = arrow_rows(presto, f"SELECT * FROM {schema}.t", expected.schema)
    assert differences(without_microseconds(expected), actual) == []


def without_microseconds(table: pa.Table) -> pa.Table:
    """The table as Presto reads it, which cuts timestamps to milliseconds, towards 1970."""
    for position, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            cut = pc.divide(table[field.name].cast(pa.int64()), 1000)
            table = table.set_column(position, field, pc.multiply(cut, 1000).cast(field.type))
    return table


def test_the_catalog_for_views_has_the_settings_of_the_guide(tmp_path: Path) -> None:
    ((block,),) = blocks_of("tests/integration/test_presto_server.py").values()
    settings = dict(line.split("=", 1) for line in block.text.splitlines())
    assert settings.items() <= presto_server.catalogs(tmp_path)["hive"].items()


def test_writes_to_the_warehouse(presto: Presto) -> None:
    schema = f"s{uuid.uuid4().hex[:8]}"
    presto.query(f"CREATE SCHEMA iceberg_hadoop.{schema}")
    presto.query(f"CREATE TABLE iceberg_hadoop.{schema}.t AS SELECT 1 AS one")
    assert list((presto.warehouse / schema / "t" / "metadata").glob("*.metadata.json"))
    assert presto.query(f"SELECT one FROM iceberg_hadoop.{schema}.t") == [[1]]


def test_nothing_of_the_server_is_reached_from_outside(presto: Presto) -> None:
    pid = str(presto.pid)
    assert Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    within = listening_sockets(pid)
    # JMX and Thrift are among them, whatever node.bind-ip says.
    assert len(within) > 1
    assert not within & listening_sockets("self")


def test_without_a_network_of_its_own_it_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise NoOwnNetworkError("`unshare --net` said 'not permitted'")

    monkeypatch.setattr(presto_server, "way_into_own_network", refuse)
    with pytest.raises(PrestoNotStartedError, match="`unshare --net` said 'not permitted'"), running_server(tmp_path):
        pass


def test_the_command_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: JdkNeed) -> None:
        raise JdkMissingError("Presto needs JDK 11")

    monkeypatch.setattr(presto_server, "way_into_own_network", tuple)
    monkeypatch.setattr(presto_server, "jdk_home", refuse)
    with pytest.raises(SystemExit, match="Presto needs JDK 11"):
        presto_server.main()
