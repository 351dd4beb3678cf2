"""One Spark session for all tests that need no special one. If it cannot start, they fail."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hudi_bridge.connectors.spark import register
from tests.connectors.spark.processes import environment

# PySpark does not know the newest pandas, and closes its sockets late.
WARNINGS_OF_PYSPARK = ("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning:pyspark")


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
