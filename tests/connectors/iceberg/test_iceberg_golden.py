"""The golden tables as Iceberg tables, through PyIceberg: with ``--matrix`` all, otherwise some of each group."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import expressions
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError

from hudi_bridge.service.server import IcebergService
from tests.service.iceberg_service import client, rows, running, service_options
from tests.support.compare import differences
from tests.support.golden_cases import GoldenQuery
from tests.table.test_golden import ANSWERED, QUERIES, WITHOUT_COLUMNS, Key, answer_of, parametrize_keys, query_id

KINDS = ("snapshot", "read_optimized", "time_travel", "snapshot_filtered")
KEYS = [key for key in sorted(ANSWERED - WITHOUT_COLUMNS) if QUERIES[key].kind in KINDS]
CASES_PER_GROUP = 6
OPERATORS: dict[str, Any] = {
    "=": expressions.EqualTo,
    "<": expressions.LessThan,
    ">": expressions.GreaterThan,
    "<=": expressions.LessThanOrEqual,
    ">=": expressions.GreaterThanOrEqual,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.function is test_pyiceberg_rows_are_those_of_hudi:
        # The conditions of group K are written in SQL and for Arrow.
        parametrize_keys(metafunc, [key for key in KEYS if "where" not in QUERIES[key].options], CASES_PER_GROUP)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    with golden_service(tmp_path_factory.mktemp("scratch")) as service:
        yield client(service)


@contextmanager
def golden_service(scratch: Path) -> Iterator[IcebergService]:
    """A service with the golden tables."""
    roots = sorted({query.table.parent.parent for query in QUERIES.values()})
    with running(service_options(scratch, roots)) as service:
        yield service


@pytest.mark.engine("pyiceberg")
def test_pyiceberg_rows_are_those_of_hudi(key: Key, catalog: RestCatalog) -> None:
    assert differences_of_rows(QUERIES[key], catalog) == []


def differences_of_rows(query: GoldenQuery, catalog: RestCatalog) -> list[str]:
    """How the rows of a query through PyIceberg differ from those of Hudi."""
    conditions = [OPERATORS[sign](column, value) for column, sign, value in query.comparisons]
    row_filter = reduce(expressions.And, conditions) if conditions else expressions.AlwaysTrue()
    found = rows(catalog.load_table((query.case, name_of(query))), row_filter=row_filter)
    return differences(as_pyiceberg_has_it(answer_of(query)), as_pyiceberg_has_it(found))


@pytest.mark.parametrize("key", sorted(WITHOUT_COLUMNS), ids=query_id)
def test_tables_without_columns_are_refused(key: Key, catalog: RestCatalog) -> None:
    with pytest.raises(BadRequestError, match="nothing has been committed yet"):
        catalog.load_table((key[0], "table"))


def name_of(query: GoldenQuery) -> str:
    """The name under which the table is found as the query asks for it."""
    name = "table__ro" if query.kind == "read_optimized" else "table"
    return name if query.as_of is None else f"{name}__at_{query.as_of}"


def as_pyiceberg_has_it(table: pa.Table) -> pa.Table:
    """The rows with empty lists and maps of structs in place of nulls: PyIceberg 0.12 does not tell them apart."""
    for position, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            values = [_with_empty(value, field.type) for value in table.column(position).to_pylist()]
            table = table.set_column(position, field, pa.array(values, field.type))
    return table


def _with_empty(value: Any, kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return value and {field.name: _with_empty(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        if value is None:
            return [] if pa.types.is_struct(kind.item_type) else None
        return [(key, _with_empty(item, kind.item_type)) for key, item in value]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        if value is None:
            return [] if pa.types.is_struct(kind.value_type) else None
        return [_with_empty(item, kind.value_type) for item in value]
    return value
