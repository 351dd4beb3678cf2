"""Bootstrapped tables and other base files than Parquet through Spark: with ``--matrix`` all, otherwise some."""

import pytest
from pyspark.sql import SparkSession

from hudi_bridge.connectors.spark import read
from tests.support.compare import differences
from tests.support.golden_queries import answer_of
from tests.support.other_golden import OTHERS, chosen


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("name", chosen(everything=metafunc.config.getoption("--matrix")))


def test_the_format(spark: SparkSession, name: str) -> None:
    query, options = OTHERS[name]
    rows = spark.read.format("hudi_bridge").options(**query.reader_options, **options).load(str(query.table))
    assert differences(answer_of(query), rows.toArrow()) == []


def test_read(spark: SparkSession, name: str) -> None:
    query, options = OTHERS[name]
    frame = read(spark, str(query.table), options={**query.reader_options, **options})
    assert differences(answer_of(query), frame.toArrow()) == []
