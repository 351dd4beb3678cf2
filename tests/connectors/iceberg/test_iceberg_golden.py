"""The golden tables as Iceberg tables, through PyIceberg: with ``--matrix`` all, otherwise some of each group."""

from collections.abc import Iterator

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError

from tests.connectors.iceberg.golden import KEYS, differences_of_rows, golden_service
from tests.service.iceberg_service import client
from tests.support.deviations import WITHOUT_COLUMNS
from tests.support.golden_queries import QUERIES, Key, parametrize_keys, query_id

CASES_PER_GROUP = 6


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.function is test_pyiceberg_rows_are_those_of_hudi:
        # The conditions of group K are written in SQL and for Arrow.
        parametrize_keys(metafunc, [key for key in KEYS if "where" not in QUERIES[key].options], CASES_PER_GROUP)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    with golden_service(tmp_path_factory.mktemp("scratch")) as service:
        yield client(service)


@pytest.mark.engine("pyiceberg")
def test_pyiceberg_rows_are_those_of_hudi(key: Key, catalog: RestCatalog) -> None:
    assert differences_of_rows(QUERIES[key], catalog) == []


@pytest.mark.parametrize("key", sorted(WITHOUT_COLUMNS), ids=query_id)
def test_tables_without_columns_are_refused(key: Key, catalog: RestCatalog) -> None:
    with pytest.raises(BadRequestError, match="nothing has been committed yet"):
        catalog.load_table((key[0], "table"))
