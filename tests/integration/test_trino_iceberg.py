"""Hudi tables through Trino's Iceberg connector: the golden ones, and some that change while Trino reads them.

With ``--matrix`` all queries to all golden tables, otherwise the first of each kind to some tables of each group.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest
from trino.exceptions import TrinoQueryError

from hudi_bridge.connectors.iceberg.compatibility import FormatVersion, Rewriting
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.service.server import IcebergService
from hudi_bridge.storage.storage import Storage
from tests.connectors.iceberg.golden import KEYS, name_of
from tests.connectors.iceberg.publishing import rename_in_footer
from tests.integration.sql_views import NESTED, all_fields
from tests.integration.trino_catalogs import LOCAL_FILES, iceberg_properties
from tests.integration.trino_rows import as_arrow_has_it
from tests.integration.trino_server import Trino
from tests.service.iceberg_service import running, service_options
from tests.support.compare import differences
from tests.support.deviations import NOT_A_NUMBER
from tests.support.golden_queries import QUERIES, Key, answer_of, parametrize_keys
from tests.support.table_writer import TableWriter, at

CASES_PER_GROUP = 4
COMMITS = 12


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "key" in metafunc.fixturenames:
        parametrize_keys(metafunc, set(KEYS) - NOT_A_NUMBER, CASES_PER_GROUP)


@pytest.fixture(scope="module")
def golden(trino: Trino, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A catalog of all golden tables."""
    roots = sorted({query.table.parent.parent for query in QUERIES.values()})
    with (
        running(service_options(tmp_path_factory.mktemp("scratch"), roots)) as service,
        trino.catalog("golden", "iceberg", iceberg_properties(service.url)) as catalog,
    ):
        yield catalog


@pytest.mark.engine("trino")
def test_golden_rows_are_those_of_hudi(key: Key, trino: Trino, golden: str) -> None:
    query = QUERIES[key]
    expected = answer_of(query)
    table = f"{golden}.{quoted(query.case)}.{quoted(name_of(query))}"
    actual = rows(trino, f"SELECT * FROM {table} WHERE {query.where_in_trino}", expected.schema)
    assert differences(expected, actual) == []


@pytest.fixture(scope="module", params=[False, True], ids=["rewritten", "as stored"])
def nested(request: pytest.FixtureRequest, trino: Trino, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A catalog of the tables of nested types."""
    tables = [f"nested.{case}={query.table}" for case, query in NESTED.items()]
    rewriting = Rewriting(lists_as_stored=request.param)
    with (
        running(service_options(tmp_path_factory.mktemp("scratch"), [], tables, rewriting=rewriting)) as service,
        trino.catalog("nested_types", "iceberg", iceberg_properties(service.url)) as catalog,
    ):
        yield catalog


@pytest.mark.parametrize("case", NESTED)
def test_nested_rows_are_those_of_hudi(case: str, trino: Trino, nested: str) -> None:
    expected = answer_of(NESTED[case])
    assert differences(expected, rows(trino, f"SELECT * FROM {nested}.nested.{case}", expected.schema)) == []


def test_lists_and_maps_are_read_whatever_the_names_of_their_groups(trino: Trino, tmp_path: Path) -> None:
    """As stored: other clients find elements, keys and values by these names."""
    kinds = {"l": {"type": "array", "items": ["null", "long"]}, "m": {"type": "map", "values": ["null", "long"]}}
    table = TableWriter(folder=tmp_path / "lake" / "groups", fields=(("id", "string"), ("ts", "long"), *kinds.items()))
    base = table.create().base_file(at(1), [{"id": "a", "ts": 1, "l": [1, None], "m": {"k": 2}}])
    rename_in_footer(base, {b"list": b"bags", b"element": b"array_e", b"key_value": b"map_entry", b"value": b"worth"})
    table.commit(at(1))
    options = service_options(tmp_path / "scratch", [tmp_path / "lake"], rewriting=Rewriting(lists_as_stored=True))
    with (
        running(options) as service,
        trino.catalog("groups", "iceberg", iceberg_properties(service.url)) as catalog,
    ):
        groups = f"{catalog}.default.groups"
        assert trino.query(f'SELECT "$path" FROM {groups}') == [[f"file://{base}"]]
        assert trino.query(f"SELECT l, m FROM {groups}") == [[[1, None], {"k": 2}]]


@pytest.mark.parametrize("case", ["names", "names_not_ascii"])
def test_fields_are_found_by_their_names(case: str, trino: Trino, nested: str) -> None:
    sql, expected = all_fields(case, f"{nested}.nested.{case}")
    assert trino.query(sql) == expected


def rows(trino: Trino, sql: str, schema: pa.Schema) -> pa.Table:
    """The rows of a query, in the types of a schema whose columns Trino writes in lower case."""
    with closing(trino.connect()) as connection:
        cursor = connection.cursor().execute(sql)
        values, names = cursor.fetchall(), [column.name for column in cursor.description or ()]
    by_name = {field.name.lower(): field for field in schema}
    fields = [by_name[name] for name in names]
    columns = [
        pa.array([as_arrow_has_it(row[position], field.type) for row in values], field.type)
        for position, field in enumerate(fields)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def quoted(name: str) -> str:
    return f'"{name}"'


@pytest.fixture
def table(tmp_path: Path) -> TableWriter:
    """Two partitions of two files each, in which the values of a column lie apart."""
    table = TableWriter(
        folder=tmp_path / "root" / "trips",
        fields=(("id", "string"), ("ts", "long"), ("city", "string")),
        partition_fields=("city",),
    ).create()
    for city in ("rome", "oslo"):
        for number in (0, 1):
            rows = [{"id": f"{city}{number}{n}", "ts": 1000 * number + n, "city": city} for n in range(100)]
            table.base_file(at(1), rows, file_id=f"{city}{number}-0", partition=city)
    table.commit(at(1))
    return table


@pytest.fixture
def live(trino: Trino, table: TableWriter, tmp_path: Path) -> Iterator[str]:
    """The name of the table in a catalog of its own."""
    with (
        running(service_options(tmp_path / "scratch", [table.folder.parent])) as service,
        trino.catalog("live", "iceberg", iceberg_properties(service.url)) as catalog,
    ):
        yield f"{catalog}.default.trips"


def test_a_partition_keeps_the_files_of_others_from_being_read(trino: Trino, live: str) -> None:
    ((plan,),) = trino.query(f"EXPLAIN ANALYZE SELECT count(ts) FROM {live} WHERE city = 'oslo'")
    assert "Splits: 2," in plan
    assert "Input: 200 rows" in plan


def test_bounds_keep_files_from_being_read(trino: Trino, live: str) -> None:
    ((plan,),) = trino.query(f"EXPLAIN ANALYZE SELECT count(city) FROM {live} WHERE ts >= 1000")
    assert "Splits: 2," in plan
    ((plan,),) = trino.query(f"EXPLAIN ANALYZE SELECT count(id) FROM {live} WHERE ts = 5000")
    assert "Physical input: " not in plan
    assert "Input: 0 rows" in plan


def add(table: TableWriter, number: int) -> None:
    """A commit that brings one row into each of two files, and takes the ones before."""
    for location in (0, 1):
        blocks = [
            table.data_block(at(number), [{"id": f"new{location}", "ts": number, "city": "rome"}], partition="rome")
        ]
        table.log_file(at(number), blocks, file_id=f"rome{location}-0", partition="rome", number=number)
    table.commit(at(number))


def add_all(table: TableWriter, numbers: range) -> None:
    for number in numbers:
        add(table, number)


def test_time_travel_in_sql(trino: Trino, live: str, table: TableWriter) -> None:
    count = f"SELECT count(*) FROM {live}"
    assert trino.query(count) == [[400]]
    add(table, 2)
    add(table, 3)
    assert trino.query(count) == [[402]]
    assert trino.query(f"{count} FOR VERSION AS OF {at(1)}") == [[400]]
    assert trino.query(f"{count} FOR TIMESTAMP AS OF TIMESTAMP '2026-01-01 00:00:00.150 UTC'") == [[400]]
    # No snapshot of the second commit has been built; what there was before it is not the answer.
    between = f"{count} FOR TIMESTAMP AS OF TIMESTAMP '2026-01-01 00:00:00.250 UTC'"
    with pytest.raises(TrinoQueryError, match="Metadata not found in metadata location for table"):
        trino.query(between)
    assert trino.query(f"SELECT count(*), max(ts) FROM {live}__at_{at(2)} WHERE id LIKE 'new%'") == [[2, 2]]
    assert trino.query(between) == [[402]]
    assert trino.query(f"SELECT count(*) FROM {live}__ro") == [[400]]
    assert trino.query('SELECT count(*) FROM live."default"."trips__at_2026-01-01 00:00:00.100"') == [[400]]


def test_every_answer_is_that_of_a_commit_while_commits_come(trino: Trino, live: str, table: TableWriter) -> None:
    """Each commit writes the same number into two files: an answer with two numbers is a mixture."""
    add(table, 2)
    writer = Thread(target=add_all, args=(table, range(3, 3 + COMMITS)))
    sql = f"SELECT count(*), min(ts), max(ts) FROM {live} WHERE id LIKE 'new%'"
    answers = []
    writer.start()
    while writer.is_alive():
        answers += trino.query(sql)
    answers += trino.query(sql)
    assert all(count == 2 and least == greatest for count, least, greatest in answers)
    assert [least for _, least, _ in answers] == sorted(least for _, least, _ in answers)
    assert answers[-1] == [2, 2 + COMMITS, 2 + COMMITS]


def test_a_query_asks_the_service_for_the_table_alone(trino: Trino, table: TableWriter, tmp_path: Path) -> None:
    with (
        running(service_options(tmp_path / "scratch", [table.folder.parent])) as service,
        trino.catalog("asking", "iceberg", iceberg_properties(service.url)) as catalog,
    ):
        query = f"SELECT count(*) FROM {catalog}.default.trips WHERE ts >= 0"
        assert trino.query(query) == [[400]]
        before = requests(service)
        assert trino.query(query) == [[400]]
        assert requests(service) - before == Counter({"loadTable": 1})


def requests(service: IcebergService) -> Counter[str]:
    """How many requests of each operation have been answered."""
    actual = re.findall(r'requests_total{operation="(\w+)",status="\d+"} (\d+)', service.counters.prometheus())
    return Counter({operation: int(number) for operation, number in actual})


def test_what_is_published_once_needs_no_service(trino: Trino, table: TableWriter, tmp_path: Path) -> None:
    properties = LOCAL_FILES | {
        "iceberg.catalog.type": "TESTING_FILE_METASTORE",
        "hive.metastore.catalog.dir": f"local://{tmp_path}/metastore",
        "iceberg.register-table-procedure.enabled": "true",
    }
    add(table, 2)
    storage, folder = Storage.open(str(table.folder)), Scratch.open(str(tmp_path / "published"))
    published = publish_table(storage, folder, locations=Locations(), builds=1)
    with trino.catalog("published", "iceberg", properties) as catalog:
        trino.query(f"CREATE SCHEMA {catalog}.lake")
        trino.query(f"CALL {catalog}.system.register_table('lake', 'trips', '{published.location}')")
        assert trino.query(f"SELECT count(*), max(ts) FROM {catalog}.lake.trips") == [[402, 1099]]
        assert trino.query(f"SELECT ts FROM {catalog}.lake.trips WHERE id LIKE 'new%'") == [[2], [2]]


def test_a_namespace_in_a_namespace(trino: Trino, table: TableWriter, tmp_path: Path) -> None:
    with running(service_options(tmp_path / "scratch", [], [f"lake.eu.trips={table.folder}"])) as service:
        nested = iceberg_properties(service.url, **{"iceberg.rest-catalog.nested-namespace-enabled": "true"})
        with trino.catalog("nested", "iceberg", nested) as catalog:
            assert trino.query(f'SELECT count(*) FROM {catalog}."lake.eu".trips') == [[400]]
            assert ["lake.eu"] in trino.query(f"SHOW SCHEMAS FROM {catalog}")


def test_deletion_vectors_are_an_error_and_never_other_rows(trino: Trino, tmp_path: Path) -> None:
    """Trino 476 loads tables of version 3, but does not read their deletes."""
    table = TableWriter(folder=tmp_path / "lake" / "trips").create()
    table.base_file(at(1), [{"id": key, "ts": 1, "value": "old"} for key in "ab"])
    table.commit(at(1))
    options = service_options(tmp_path / "scratch", [tmp_path / "lake"], format_version=FormatVersion.V3)
    with (
        running(options) as service,
        trino.catalog("newer", "iceberg", iceberg_properties(service.url)) as catalog,
    ):
        ids = f"SELECT id FROM {catalog}.default.trips ORDER BY id"
        assert trino.query(ids) == [["a"], ["b"]]
        table.log_file(at(2), [table.delete_block(at(2), [("b", 2)])])
        table.commit(at(2))
        with pytest.raises(TrinoQueryError, match="Unexpected PUFFIN file format"):
            trino.query(ids)
