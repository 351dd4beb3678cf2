"""The golden tables through Polars against the answers of Hudi: some of each group, with ``--matrix`` all."""

import datetime as dt
from collections.abc import Mapping

import polars as pl
import pyarrow as pa
import pytest

from hudi_bridge import HudiDataset
from hudi_bridge.connectors.polars import scan_dataset
from tests.support.compare import differences
from tests.support.deviations import ANSWERED
from tests.support.golden_cases import GoldenQuery
from tests.support.golden_queries import QUERIES, Key, answer_of, dataset_of, parametrize_keys

CASES_PER_GROUP = 6

NOT_IN_SQL_OF_POLARS: Mapping[str, pl.Expr] = {
    "t < timestamptz '1901-01-01 00:00:00+00'": pl.col("t") < dt.datetime(1901, 1, 1, tzinfo=dt.UTC),
    "t < timestamptz '2020-01-01 05:00:00+00'": pl.col("t") < dt.datetime(2020, 1, 1, 5, tzinfo=dt.UTC),
    "bin = '\\x00'::blob": pl.col("bin") == b"\x00",
    "length(id) = 6 and len(arr) = 2": (pl.col("id").str.len_chars() == 6) & (pl.col("arr").list.len() == 2),
}
"""Conditions of DuckDB that the SQL of Polars lacks words for."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_keys(metafunc, ANSWERED, CASES_PER_GROUP)


@pytest.mark.engine("polars")
def test_polars_rows_are_those_of_hudi(key: Key) -> None:
    query = QUERIES[key]
    actual = rows_through_polars(dataset_of(query), query)
    assert differences(answer_of(query), actual) == []


def rows_through_polars(dataset: HudiDataset, query: GoldenQuery) -> pa.Table:
    rows = scan_dataset(dataset)
    if (where := query.where_in_duckdb) != "true":
        rows = rows.filter(NOT_IN_SQL_OF_POLARS[where] if where in NOT_IN_SQL_OF_POLARS else pl.sql_expr(where))
    return rows.collect().to_arrow()
