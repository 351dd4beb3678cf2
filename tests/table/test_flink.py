"""Tables that Hudi 0.14 wrote on Flink, with the answers of Hudi 0.15 and 1.2 on Spark."""

from collections import Counter
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest

from hudi_bridge import HudiTable
from hudi_bridge.connectors.duckdb import INCREMENTAL, READ_OPTIMIZED, attach
from hudi_bridge.connectors.polars import scan_dataset
from hudi_bridge.options import READ_AS_RELEASE_KEY
from tests.support.compare import differences
from tests.support.golden_cases import GoldenQuery, golden_flink
from tests.support.golden_queries import answer_of, dataset_of, parsed
from tests.support.polars_rows import differences_in_polars
from tests.support.strength import one_in


class Asked(NamedTuple):
    """A query, and the release of Hudi that answered it."""

    query: GoldenQuery
    release: str

    def open(self) -> HudiTable:
        """The table, read as the release reads it."""
        return HudiTable.open(self.query.table, options={READ_AS_RELEASE_KEY: self.release.removesuffix(".0")})


ASKED = {
    f"{query.name}-{release}": Asked(query, release)
    for release in ("0.15.0", "1.2.0")
    for query in golden_flink(release)
}
NULLS_BY_HUDI = "cow_partition_by_time"
"""The table of which 0.15 reads the partition path as a time, which it is not."""
ANSWERED = {name: one for name, one in ASKED.items() if one.query.answer is not None}
DEVIATING = [
    name
    for name, (query, release) in ANSWERED.items()
    if (query.case, release) == (NULLS_BY_HUDI, "0.15.0") and query.kind != "incremental"
]
ROWS = [name for name, one in ANSWERED.items() if one.query.kind != "cdc" and name not in DEVIATING]
CHANGES = [name for name, one in ANSWERED.items() if one.query.kind == "cdc"]
ONE_OF_EACH_KIND = list({(ASKED[name].query.case, ASKED[name].query.kind): name for name in ROWS}.values())


@pytest.mark.parametrize("name", one_in(4, ROWS))
def test_rows_are_those_of_hudi(name: str) -> None:
    asked = ASKED[name]
    actual = dataset_of(asked.query, asked.open()).to_table()
    assert differences(*as_hudi_has_them(answer_of(asked.query), actual)) == []


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_those_of_hudi(name: str) -> None:
    asked = ASKED[name]
    expected, actual = (
        Counter((row["op"], row["ts_ms"], parsed(row["before"]), parsed(row["after"])) for row in rows.to_pylist())
        for rows in (answer_of(asked.query), dataset_of(asked.query, asked.open()).to_table())
    )
    assert actual == expected


@pytest.mark.parametrize("name", DEVIATING)
def test_a_path_that_is_no_time_is_the_text_that_it_is(name: str) -> None:
    query = ASKED[name].query
    expected, actual = answer_of(query), dataset_of(query, ASKED[name].open()).to_table()
    assert expected["part"].null_count == expected.num_rows
    assert actual["part"].equals(actual["_hoodie_partition_path"])
    assert differences(expected.drop_columns("part"), actual.drop_columns("part")) == []


@pytest.mark.parametrize("name", one_in(10, ONE_OF_EACH_KIND))
def test_duckdb(name: str) -> None:
    query, table = ASKED[name].query, ASKED[name].open()
    with duckdb.connect() as connection:
        if query.kind == "incremental":
            view = attach(connection, table, "rows", after=query.after, up_to=query.up_to).name + INCREMENTAL
        else:
            view = attach(connection, table, "rows", as_of=query.as_of).name
            view += READ_OPTIMIZED if query.kind == "read_optimized" else ""
        actual = connection.sql(f"FROM {view}").to_arrow_table()
    assert differences(*as_hudi_has_them(answer_of(query), actual)) == []


@pytest.mark.parametrize("name", one_in(10, ONE_OF_EACH_KIND))
def test_polars(name: str) -> None:
    query = ASKED[name].query
    actual = scan_dataset(dataset_of(query, ASKED[name].open())).collect().to_arrow()
    assert differences_in_polars(*as_hudi_has_them(answer_of(query), actual)) == []


def as_hudi_has_them(expected: pa.Table, found: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Both with the numbers of times where Hudi returns numbers."""
    for position, field in enumerate(found.schema):
        index = expected.schema.get_field_index(field.name)
        if index >= 0 and pa.types.is_integer(expected.schema.field(index).type) and pa.types.is_temporal(field.type):
            numbers: Any = found.column(position).cast(pa.int32() if field.type.bit_width == 32 else pa.int64())
            found = found.set_column(position, field.name, numbers.cast(expected.schema.field(index).type))
    return expected, found
