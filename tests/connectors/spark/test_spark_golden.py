"""The golden tables through Spark: with ``--matrix`` all of them, otherwise some of each group."""

import json

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from hudi_bridge.connectors.spark import read
from tests.connectors.spark.public_api import public_session
from tests.support.compare import differences
from tests.support.deviations import ANSWERED
from tests.support.golden_cases import GoldenQuery
from tests.support.golden_queries import QUERIES, Key, answer_of, parametrize_keys

CASES_PER_GROUP = 2
READ_PER_GROUP = 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.function is test_spark_rows_are_those_of_hudi:
        parametrize_keys(metafunc, ANSWERED, CASES_PER_GROUP)
    if metafunc.function in (
        test_rows_of_read_are_those_of_hudi,
        test_rows_by_the_public_api_are_those_of_hudi,
        test_rows_through_spark_connect_are_those_of_hudi,
    ):
        parametrize_keys(metafunc, ANSWERED, READ_PER_GROUP)


@pytest.fixture(scope="module")
def public(spark: SparkSession) -> SparkSession:
    return public_session(spark)


@pytest.mark.engine("spark")
def test_spark_rows_are_those_of_hudi(spark: SparkSession, key: Key) -> None:
    query = QUERIES[key]
    rows = spark.read.format("hudi_bridge").options(**query.reader_options).load(str(query.table))
    rows = rows.where(query.where_in_spark)
    assert differences(answer_of(query), rows.toArrow()) == []


@pytest.mark.engine("spark read")
def test_rows_of_read_are_those_of_hudi(spark: SparkSession, key: Key) -> None:
    require_rows_of_read(spark, QUERIES[key])


@pytest.mark.engine("spark public")
def test_rows_by_the_public_api_are_those_of_hudi(public: SparkSession, key: Key) -> None:
    require_rows_of_read(public, QUERIES[key])


@pytest.mark.engine("spark connect")
def test_rows_through_spark_connect_are_those_of_hudi(connect: SparkSession, key: Key) -> None:
    query = QUERIES[key]
    require_rows_of_read(connect, query)
    rows = connect.read.format("hudi_bridge").options(**query.reader_options).load(str(query.table))
    assert differences(answer_of(query), rows.where(query.where_in_spark).toArrow()) == []


def require_rows_of_read(spark: SparkSession, query: GoldenQuery) -> None:
    frame = read(spark, str(query.table), options=query.reader_options)
    assert differences(answer_of(query), frame.where(query.where_in_spark).toArrow()) == []
    if query.where_in_spark != "true":
        given = read(spark, str(query.table), filter=query.where_in_spark, options=query.reader_options)
        assert differences(answer_of(query), given.toArrow()) == []


@pytest.mark.parametrize(
    "case", ["f_types_120", "f_types_0150", "f_types_ntz_120", "g_sor_mixed_120", "e_ts_keygen_120"]
)
def test_columns_have_the_types_that_the_bundle_gives_them(spark: SparkSession, case: str) -> None:
    query = QUERIES[case, 0]
    actual = spark.read.format("hudi_bridge").load(str(query.table)).schema
    assert actual == types_of_the_bundle(query) == read(spark, str(query.table)).schema


def types_of_the_bundle(query: GoldenQuery) -> StructType:
    """The columns of the bundle's DataFrame, which Spark noted down in the file of the answer."""
    assert query.answer is not None
    noted = (pq.read_metadata(query.answer).metadata or {})[b"org.apache.spark.sql.parquet.row.metadata"]
    return StructType.fromJson(json.loads(noted))
