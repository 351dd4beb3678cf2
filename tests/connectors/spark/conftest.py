"""One classic Spark session and one of Spark Connect for all tests that need no special ones.

If they cannot start, these tests fail.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hudi_bridge.connectors.spark import register
from tests.connectors.spark import connect_server
from tests.connectors.spark.processes import environment

# PySpark closes its sockets late.
WARNINGS_OF_PYSPARK = ("ignore::ResourceWarning", "ignore::DeprecationWarning:pyspark")


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            for text in WARNINGS_OF_PYSPARK:
                item.add_marker(pytest.mark.filterwarnings(text))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ |= environment(Path(sys.executable))
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    register(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def connect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server.connect_server(tmp_path_factory.mktemp("connect")) as url:
        yield url


@pytest.fixture(scope="session")
def connect_session(connect_url: str) -> Iterator[SparkSession]:
    session = connect_server.session(connect_url)
    with connect_server.as_connect():
        register(session)
    yield session
    session.stop()


@pytest.fixture
def connect(connect_session: SparkSession) -> Iterator[SparkSession]:
    with connect_server.as_connect():
        yield connect_session
