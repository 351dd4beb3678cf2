"""URIs of catalogs and of tables in them."""

import pytest

from hudi_bridge.catalogs.uris import _parse, find_in_catalog, is_catalog_uri, open_catalog, uri_in_catalog
from hudi_bridge.errors import QueryError


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("hive://metastore:9083", "hive://metastore:9083"),
        ("thrift://metastore", "hive://metastore:9083"),
        ("glue://eu-west-1?catalog-id=123", "glue://eu-west-1"),
        ("glue://", "glue://"),
        pytest.param(
            "rest:https://host/api/catalog?warehouse=prod", "rest:https://host/api/catalog", marks=pytest.mark.extra
        ),
    ],
)
def test_catalogs(uri: str, shown: str) -> None:
    assert is_catalog_uri(uri)
    assert open_catalog(uri).shown_uri == shown


@pytest.mark.parametrize("path", ["/data/orders", "s3://bucket/orders", "hive", "rest/orders", "glue:x"])
def test_paths_are_not_catalogs(path: str) -> None:
    assert not is_catalog_uri(path)
    with pytest.raises(QueryError, match="expected hive://"):
        open_catalog(path)


@pytest.mark.parametrize(
    ("catalog", "expected"),
    [
        ("hive://metastore:9083", "hive://metastore:9083/sales.orders"),
        ("hive://metastore:9083/", "hive://metastore:9083/sales.orders"),
        ("glue://", "glue:///sales.orders"),
        ("glue://eu-west-1?catalog-id=123", "glue://eu-west-1/sales.orders?catalog-id=123"),
        pytest.param(
            "rest:https://host/api?warehouse=prod",
            "rest:https://host/api?warehouse=prod#sales.orders",
            marks=pytest.mark.extra,
        ),
    ],
)
def test_the_uri_of_a_table(catalog: str, expected: str) -> None:
    assert uri_in_catalog(catalog, "sales.orders") == expected


@pytest.mark.parametrize(
    "catalog",
    [
        "hive://metastore:9083",
        "glue://eu-west-1?catalog-id=123",
        pytest.param("rest:https://host/api", marks=pytest.mark.extra),
    ],
)
def test_names_of_tables_are_no_part_of_the_uri(catalog: str) -> None:
    uri = uri_in_catalog(catalog, "sales.a?b#c%20d")
    assert _parse(uri)[1] == "sales.a?b#c%20d"


@pytest.mark.parametrize("uri", ["hive:///sales.orders", "hive://host:port/sales.orders", "hive://host:99999"])
def test_places_that_cannot_be(uri: str) -> None:
    with pytest.raises(QueryError, match="hive://HOST:PORT"):
        find_in_catalog(uri)


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("glue://eu-west-1/sales.orders?catalogid=42", "the parameter 'catalogid', expected catalog-id"),
        ("glue://eu-west-1/sales.orders?catalog-id=", "the parameter 'catalog-id' without a value"),
        ("hive://metastore/sales.orders?kerberos", "the parameter 'kerberos' without a value"),
        ("hive://metastore/sales.orders?tls=true&tls=false", "the parameter 'tls' twice"),
        ("rest:https://host/api?warehouse=a&warehouse=b#sales.orders", "the parameter 'warehouse' twice"),
        ("glue://eu-west-1#sales.orders", "with a # after the table"),
        ("hive://me:secret@metastore/sales.orders", "with a user before the host"),
    ],
)
def test_nothing_of_a_uri_is_passed_over(uri: str, found: str) -> None:
    with pytest.raises(QueryError, match=found) as caught:
        find_in_catalog(uri)
    assert "secret" not in str(caught.value)


def test_a_catalog_is_not_a_table() -> None:
    with pytest.raises(QueryError, match="a catalog without a table"):
        open_catalog("hive://metastore/sales.orders")


@pytest.mark.extra
def test_secrets_are_masked() -> None:
    with pytest.raises(QueryError) as caught:
        find_in_catalog("rest:https://user:secret@host/api?credential=id:secret#orders")
    assert "secret" not in str(caught.value)
