"""Tables by their names in AWS Glue, as moto simulates it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from hudi_bridge import HudiTable
from hudi_bridge.catalogs.glue import GlueCatalog
from hudi_bridge.catalogs.uris import open_catalog
from hudi_bridge.config import QueryType
from hudi_bridge.errors import StorageError, TableNotFoundError
from tests.catalogs.glue_tables import glue_entry
from tests.catalogs.rows import rows_of
from tests.support.golden_cases import golden_trips

REGION = "eu-west-1"


@pytest.fixture
def location() -> Path:
    return golden_trips() / "trips"


@pytest.fixture
def glue(location: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name, value in (("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")):
        monkeypatch.setenv(name, value)
    with mock_aws():
        client = boto3.client("glue", region_name=REGION)
        for database in ("sales", "empty"):
            client.create_database(DatabaseInput={"Name": database})
        for name, said in (("orders", "false"), ("orders_ro", "true"), ("plain", None)):
            client.create_table(DatabaseName="sales", TableInput=glue_entry(name, location, said))
        yield client


@pytest.mark.usefixtures("glue")
def test_databases_and_the_tables_of_hudi_are_listed() -> None:
    catalog = open_catalog(f"glue://{REGION}")
    assert catalog.namespaces() == [("empty",), ("sales",)]
    assert catalog.namespaces(("sales",)) == []
    assert catalog.table_names(("sales",)) == ["orders", "orders_ro"]
    assert catalog.table_names(("empty",)) == catalog.table_names(("missing",)) == []


@pytest.mark.usefixtures("glue")
def test_names_stand_for_query_types() -> None:
    merged = HudiTable.open(f"glue://{REGION}/sales.orders")
    assert rows_of(merged.query()) == rows_of(merged.snapshot())
    base = HudiTable.open(f"glue://{REGION}/sales.orders_ro")
    assert base.query_type is QueryType.READ_OPTIMIZED
    assert rows_of(base.query()) == rows_of(merged.read_optimized())


@pytest.mark.usefixtures("glue")
def test_the_region_may_be_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    assert HudiTable.open("glue:///sales.orders").latest_instant


@pytest.mark.usefixtures("glue")
@pytest.mark.parametrize("name", ["sales.plain", "sales.missing", "missing.orders"])
def test_what_is_no_table_of_hudi_is_not_found(name: str) -> None:
    with pytest.raises(TableNotFoundError, match="has no Hudi table"):
        HudiTable.open(f"glue://{REGION}/{name}")


def test_all_pages_are_read(location: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = boto3.client("glue", region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")
    monkeypatch.setattr(boto3, "client", lambda *_, **__: client)
    with Stubber(client) as stubber:
        pages: list[tuple[str, dict[str, str], dict[str, str]]] = [
            ("first", {}, {"NextToken": "more"}),
            ("second", {"NextToken": "more"}, {}),
        ]
        for name, asked, next_page in pages:
            answer = {"TableList": [glue_entry(name, location, "false")], **next_page}
            stubber.add_response("get_tables", answer, {"DatabaseName": "sales", "CatalogId": "42", **asked})
        assert GlueCatalog(REGION, "42").table_names(("sales",)) == ["first", "second"]


def test_what_glue_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    client = boto3.client("glue", region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")
    monkeypatch.setattr(boto3, "client", lambda *_, **__: client)
    with Stubber(client) as stubber:
        stubber.add_client_error("get_databases", "AccessDeniedException", "no right")
        with pytest.raises(StorageError, match=r"glue://eu-west-1: cannot list the databases.*AccessDenied"):
            GlueCatalog(REGION).namespaces()
