"""What importing a connector says on a machine without its engine."""

import subprocess
import sys
from itertools import starmap

import pytest

from hudi_bridge.common.imports import how_to_install
from tests.support.strength import one_in

pytestmark = pytest.mark.extra  # one package is absent, and the others are there
ENGINES = (
    "daft",
    "dask",
    "duckdb",
    "polars",
    "pyiceberg",
    "pyspark",
    "ray",
    "rich",
    "starlette",
    "trino",
    "typer",
    "uvicorn",
)


def imported(module: str, *absent: str) -> subprocess.CompletedProcess[str]:
    """Import a module in a process of its own, in which some packages cannot be found."""
    program = f"import sys; sys.modules.update(dict.fromkeys({absent!r})); import {module}"
    return subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("connector", "absent"),
    one_in(
        4,
        starmap(
            pytest.param,
            [
                ("duckdb", "duckdb"),
                ("polars", "polars"),
                ("daft", "daft"),
                ("dask", "dask"),
                ("dbt", "dbt"),
                ("dbt", "duckdb"),
                ("ray", "ray"),
                ("spark", "pyspark"),
                ("iceberg", "pyiceberg"),
                ("iceberg", "starlette"),
                ("iceberg", "uvicorn"),
            ],
        ),
    ),
)
def test_a_connector_without_its_engine_says_which_extra_to_install(connector: str, absent: str) -> None:
    done = imported(f"hudi_bridge.connectors.{connector}", absent)
    assert done.returncode == 1
    *_, last = done.stderr.splitlines()
    expected = f"hudi_bridge.connectors.{connector} needs {absent}: {how_to_install(connector)}"
    assert last == f"ModuleNotFoundError: {expected}"
    assert "direct cause of the following exception" in done.stderr


@pytest.mark.parametrize(
    ("uri", "absent", "by", "extra"),
    one_in(
        3,
        starmap(
            pytest.param,
            [
                ("hive://metastore", "hive_metastore", "hive://", "hive"),
                ("hive://metastore", "thrift", "hive://", "hive"),
                ("glue://eu-west-1", "boto3", "glue://", "glue"),
                ("rest:https://polaris", "pyiceberg", "rest:", "iceberg"),
            ],
        ),
    ),
)
def test_a_catalog_without_its_client_says_which_extra_to_install(uri: str, absent: str, by: str, extra: str) -> None:
    asked = f"open_catalog({uri!r}).namespaces()"
    done = imported(f"hudi_bridge.catalogs.uris; hudi_bridge.catalogs.uris.{asked}", absent)
    *_, last = done.stderr.splitlines()
    assert last == f"ModuleNotFoundError: {by} needs {absent}: {how_to_install(extra)}"


@pytest.mark.parametrize(
    ("module", "absent", "by", "extra"),
    one_in(
        3,
        starmap(
            pytest.param,
            [
                ("assumed_roles", "boto3", "credentials by STS", "glue"),
                ("google_tokens", "google.auth", "credentials for Google Cloud Storage", "gcs"),
                ("google_tokens", "requests", "credentials for Google Cloud Storage", "gcs"),
                ("azure_signatures", "azure.storage.filedatalake", "credentials for Azure", "azure"),
            ],
        ),
    ),
)
def test_credentials_for_a_store_say_which_extra_to_install(module: str, absent: str, by: str, extra: str) -> None:
    done = imported(f"hudi_bridge.service.{module}", absent)
    *_, last = done.stderr.splitlines()
    missing = absent.partition(".")[0]
    assert last == f"ModuleNotFoundError: {by} needs {missing}: {how_to_install(extra)}"


def test_without_rules_for_a_store_its_extra_is_not_needed() -> None:
    done = imported("hudi_bridge.service.config", "google", "azure", "boto3")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_connector_whose_engine_is_damaged_says_what_it_lacks() -> None:
    done = imported("hudi_bridge.connectors.duckdb", "numpy")
    assert "numpy" in done.stderr.splitlines()[-1]
    assert "pip install" not in done.stderr


@pytest.mark.parametrize("module", ["hudi_bridge", "hudi_bridge.inspection", "hudi_bridge.connectors.trino.publish"])
def test_all_else_needs_no_engine(module: str) -> None:
    done = imported(module, *ENGINES)
    assert (done.returncode, done.stderr) == (0, "")
