"""Tables that Hudi 1.1.2 and 1.2.1 wrote by their Java client, with the answers of 1.2.1 in Java and 1.2.0 on Spark."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable, UnsupportedTableError
from tests.support.compare import differences
from tests.support.golden_cases import golden_java_client
from tests.support.golden_queries import answer_of, dataset_of
from tests.support.strength import one_in
from tests.support.table_writer import sorted_column

IN_JAVA = {query.case: query for query in golden_java_client("1.2.1")}
BEGUN_BY_PENDING = ("begun_v6", "begun_v8", "begun_v9")
"""Tables of which 1.2.0 leaves rows out that a later write has added to a file group of a pending write."""
FILLED_IN_JAVA = ("postgres_v6", "postgres_v8")
"""Tables whose unavailable values Hudi's Java engine replaces. On Spark they stay, and here."""
ON_SPARK = {query.name: query for query in golden_java_client("1.2.0")}
RECORD_INDEX = "record_index_v9"
"""A table of external files without keys, whose rows the record index names by their positions."""


def with_numbers(rows: pa.Table) -> pa.Table:
    """The rows with the numbers of times, as Avro has them."""
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in rows.columns]
    return pa.table(columns, rows.schema.names)


@pytest.mark.parametrize("case", [case for case, query in IN_JAVA.items() if query.answer is not None])
def test_rows_are_those_of_hudi_in_java(case: str) -> None:
    query = IN_JAVA[case]
    expected, actual = answer_of(query), with_numbers(dataset_of(query).to_table())
    assert actual.num_rows
    if case in FILLED_IN_JAVA:
        assert expected["big"].to_pylist() == ["big a", "big b", "new", "set", "big f"]
        expected, actual = expected.drop_columns("big"), actual.drop_columns("big")
    assert differences(expected, actual) == []


@pytest.mark.parametrize("name", one_in(4, [name for name, query in ON_SPARK.items() if query.answer is not None]))
def test_rows_are_those_of_hudi_on_spark(name: str) -> None:
    query = ON_SPARK[name]
    expected, actual = answer_of(query), dataset_of(query).to_table()
    if query.case in BEGUN_BY_PENDING and query.kind == "snapshot":
        assert (expected["id"].to_pylist(), sorted_column(actual, "id")) == (["z"], ["a", "b", "c", "z"])
        actual = actual.filter(pc.field("id") == "z")
    assert differences(expected, actual) == []


def test_the_record_index_has_rows_of_external_files_by_position() -> None:
    table = HudiTable.open(IN_JAVA[RECORD_INDEX].table)
    locations = table.record_locations(["b/g1.parquet_0", "b/bucket-1/f2.parquet_4", "a/f1.parquet_0", "5"])
    assert locations is not None
    assert sorted(zip(*(locations[name].to_pylist() for name in ("key", "partition", "file_id")), strict=True)) == [
        ("b/bucket-1/f2.parquet_4", "b", "bucket-1/f2.parquet"),
        ("b/g1.parquet_0", "b", "g1.parquet"),
    ]


@pytest.mark.parametrize("options", [{}, {"hoodie.metadata.enable": "false"}], ids=["index", "no index"])
@pytest.mark.parametrize("key", ["5", "b/g1.parquet_0", "a/f1.parquet_0"])
def test_look_ups_of_rows_without_keys_are_refused_whatever_an_index_knows(key: str, options: dict[str, str]) -> None:
    table = HudiTable.open(IN_JAVA[RECORD_INDEX].table, options=options)
    with pytest.raises(UnsupportedTableError, match="no meta columns and no record key fields"):
        table.get(key)
