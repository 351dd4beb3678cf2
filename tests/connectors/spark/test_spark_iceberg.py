"""The golden tables served as Iceberg tables and read by Spark with Iceberg: with ``--matrix`` all, otherwise some.

Spark's time travel, and Iceberg tables without a service.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hudi_bridge.connectors.iceberg.compatibility import FormatVersion, Rewriting
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.service.server import IcebergService
from hudi_bridge.storage.storage import Storage
from tests.connectors.iceberg.golden import KEYS, name_of
from tests.connectors.iceberg.publishing import publish
from tests.connectors.spark.iceberg_queries import catalog_settings
from tests.connectors.spark.spark_iceberg import SparkIceberg, SparkQueryError, spark_iceberg
from tests.service.iceberg_service import running, service_options
from tests.service.many_slices import SLICES, table_of_many_slices
from tests.support.compare import differences
from tests.support.golden_cases import GoldenQuery, golden_nested
from tests.support.golden_queries import QUERIES, Key, answer_of, parametrize_keys
from tests.support.table_writer import TableWriter, at

pytestmark = pytest.mark.jvm

CASES_PER_GROUP = 1
NESTED = {query.case: query for query in golden_nested() if query.kind == "snapshot"}
NEGATIVE_ZERO = ("p_ext_avro_120", 3)
"""A condition (`= 0.0`) for which Iceberg for Spark passes over base files whose dictionary has -0.0 and not 0.0."""


IN_VERSION_3 = [
    (name, 0)
    for name in (
        "a_story_v9_120",
        "b_awsdms_120",
        "c_avro_blocks_120",
        "e_composite_keys_120",
        "f_types_120",
        "g_logs_rename_0150",
    )
]
"""Queries of several groups."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "key" in metafunc.fixturenames:
        parametrize_keys(metafunc, set(KEYS) - {NEGATIVE_ZERO}, CASES_PER_GROUP)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose tables are served beside the golden ones, as ``default``."""
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def service(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergService]:
    roots = sorted({lake, *(query.table.parent.parent for query in QUERIES.values())})
    options = service_options(tmp_path_factory.mktemp("scratch"), roots)
    with running(options) as service:
        yield service


@pytest.fixture(scope="module")
def engine(service: IcebergService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkIceberg]:
    with spark_iceberg(service.url, tmp_path_factory.mktemp("spark")) as engine:
        yield engine


@pytest.mark.engine("spark+iceberg")
def test_spark_with_iceberg_reads_the_rows_of_hudi(engine: SparkIceberg, key: Key) -> None:
    assert differences_of_rows(engine, QUERIES[key], "lake") == []


@pytest.mark.engine("spark+plans")
def test_scans_that_the_service_plans_have_the_rows_of_hudi(engine: SparkIceberg, key: Key) -> None:
    assert differences_of_rows(engine, QUERIES[key], "planned") == []


def differences_of_rows(engine: SparkIceberg, query: GoldenQuery, catalog: str) -> list[str]:
    """How the rows of a query differ from those of Hudi."""
    table = f"{catalog}.`{query.case}`.`{name_of(query)}`"
    return differences(answer_of(query), engine.rows(f"SELECT * FROM {table} WHERE {query.where_in_spark}"))


@pytest.mark.parametrize("case", NESTED)
def test_nested_rows_are_those_of_hudi(engine: SparkIceberg, case: str, tmp_path: Path) -> None:
    published = publish(NESTED[case].table, tmp_path / "published", Rewriting())
    assert differences(answer_of(NESTED[case]), engine.rows_of_metadata(published.metadata_location)) == []


@pytest.mark.engine("spark+iceberg")
def test_iceberg_for_spark_passes_over_negative_zeros(engine: SparkIceberg) -> None:
    query = QUERIES[NEGATIVE_ZERO]
    table = f"lake.`{query.case}`.`{name_of(query)}`"
    assert differences(answer_of(query), engine.rows(f"SELECT * FROM {table} WHERE dbl + 0 = 0")) == []
    assert query.where_in_spark == "dbl = 0.0"
    assert engine.rows(f"SELECT * FROM {table} WHERE dbl = 0.0").num_rows < answer_of(query).num_rows


def test_time_travel_in_sql(engine: SparkIceberg, lake: Path) -> None:
    table = TableWriter(folder=lake / "trips").create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "old"}, {"id": "b", "ts": 1, "value": "old"}])
    table.commit(at(1))
    trips = "SELECT id, value FROM lake.default.trips"
    first = [{"id": "a", "value": "old"}, {"id": "b", "value": "old"}]
    assert rows_of(engine, trips) == first
    for number in (2, 3):
        block = table.data_block(at(number), [{"id": "a", "ts": number, "value": f"by {number}"}])
        table.log_file(at(number), [block], number=number)
        table.commit(at(number))
    assert rows_of(engine, trips) == [{"id": "a", "value": "by 3"}, first[1]]
    assert rows_of(engine, f"{trips} VERSION AS OF {at(1)}") == first
    assert rows_of(engine, f"{trips} TIMESTAMP AS OF '2026-01-01 00:00:00.150'") == first
    # No view of the second commit has been made; what there was before it is not the answer.
    between = f"{trips} TIMESTAMP AS OF '2026-01-01 00:00:00.250'"
    with pytest.raises(SparkQueryError, match=at(2)):
        rows_of(engine, between)
    second = [{"id": "a", "value": "by 2"}, first[1]]
    assert rows_of(engine, f"SELECT id, value FROM lake.default.trips__at_{at(2)}") == second
    assert rows_of(engine, between) == second
    assert rows_of(engine, "SELECT id, value FROM lake.default.trips__ro") == first


def test_only_what_a_query_may_need_is_merged_where_the_service_plans(
    engine: SparkIceberg, service: IcebergService, lake: Path
) -> None:
    table_of_many_slices(lake / "many")
    rows = "SELECT id, value FROM planned.default.many"
    before = service.counters.value("slices_built_total")
    new = {"id": "k7", "value": "new"}
    assert rows_of(engine, f"{rows} WHERE part = 7 AND value IS NOT NULL") == [new]
    assert service.counters.value("slices_built_total") == before + 1
    assert rows_of(engine, f"{rows} WHERE part IN (7, 8) AND id = 'k7'") == [new]
    assert rows_of(engine, f"{rows} WHERE part > {SLICES}") == []
    assert service.counters.value("slices_built_total") <= before + 2
    assert len(rows_of(engine, rows)) == 2 * SLICES
    assert service.counters.value("slices_built_total") == before + SLICES
    old = [{"id": "k7", "value": "old"}]
    assert rows_of(engine, f"SELECT id, value FROM planned.default.many__at_{at(1)} WHERE id = 'k7'") == old
    assert rows_of(engine, f"{rows} VERSION AS OF {at(1)} WHERE id = 'k7'") == old


def rows_of(engine: SparkIceberg, sql: str) -> list[dict[str, str]]:
    return engine.rows(f"{sql} ORDER BY id").to_pylist()


def test_published_metadata_are_read_without_a_service(engine: SparkIceberg, tmp_path: Path) -> None:
    query = QUERIES["a_story_v9_120", 0]
    published = publish_table(
        Storage.open(str(query.table)), Scratch.open(str(tmp_path / "published")), locations=Locations(), builds=2
    )
    for location in (published.metadata_location, published.location):
        assert differences(answer_of(query), engine.rows_of_metadata(location)) == []


def test_tables_of_version_3(engine: SparkIceberg, lake: Path, tmp_path: Path) -> None:
    """Deletion vectors, and the ids of rows with the commits that have written them."""
    table = TableWriter(folder=lake / "lineage").create()
    table.base_file(at(1), [{"id": key, "ts": 1, "value": "old"} for key in "abcd"])
    table.commit(at(1))
    for number, key in ((2, "a"), (3, "c")):
        block = table.data_block(at(number), [{"id": key, "ts": number, "value": f"by {number}"}])
        table.log_file(at(number), [block], number=number)
    table.commit(at(2))
    queries = [QUERIES[key] for key in IN_VERSION_3]
    roots = sorted({lake, *(query.table.parent.parent for query in queries)})
    options = service_options(tmp_path, roots, format_version=FormatVersion.V3)
    with running(options) as service:
        for setting, value in catalog_settings("newer", service.url).items():
            engine.rows(f"SET `{setting}`=`{value}`")
        for query in queries:
            actual = engine.rows(f"SELECT * FROM newer.`{query.case}`.`{name_of(query)}`")
            assert differences(answer_of(query), actual) == [], query.case
        lineage = "SELECT id, _row_id, _last_updated_sequence_number AS written FROM newer.default.lineage"
        old = [{"id": key, "_row_id": number, "written": int(at(1))} for number, key in enumerate("abcd")]
        assert rows_of(engine, lineage) == [{"id": "a", "_row_id": 4, "written": int(at(2))}, *old[1:]]
        table.commit(at(3))
        new = [{"id": key, "_row_id": number, "written": int(at(3))} for key, number in (("a", 5), ("c", 6))]
        assert rows_of(engine, lineage) == [new[0], old[1], new[1], old[3]]
        assert {path.suffix for path in tmp_path.rglob("*-deletes.*")} == {".puffin"}
