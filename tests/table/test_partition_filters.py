"""A filter on a partition column gives the rows that it leaves of the whole answer, whatever partition they are in."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiDataset, HudiReadError, HudiTable, tools
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.connectors.polars import scan_dataset
from hudi_bridge.options import PATHS_TELL_VALUES_KEY
from tests.support.compare import differences
from tests.support.golden_cases import golden_queries, golden_table, spread
from tests.support.moved_partitions import MOVED_KEYS, moved
from tests.support.strength import one_in

CASES = sorted({query.case for query in golden_queries(("snapshot",))})
MOST_VALUES = 3
DUCKDB_CASES = sorted(
    {*spread(CASES, 24), "e_urlencode_0150", "e_urlencode_120", "e_null_part_0150", "j_move_gsimple_120"}
)


def conditions(rows: pa.Table, name: str) -> Iterator[pc.Expression]:
    """Conditions on a column: each of some values, all others, no value."""
    values = rows[name].unique().drop_null()
    for value in spread(list(values), MOST_VALUES):
        yield pc.field(name) == value
    if len(values):
        yield pc.field(name) != values[0]
    yield pc.field(name).is_null()


def partition_columns(table: HudiTable, rows: pa.Table) -> list[str]:
    return [name for name in table.config.partition_fields if name in rows.schema.names]


@pytest.mark.parametrize("case", one_in(40, CASES))
def test_no_filter_loses_a_row(case: str) -> None:
    try:
        table = HudiTable.open(golden_table(case))
    except HudiReadError:
        return
    for query in (HudiTable.snapshot, HudiTable.read_optimized, partial(HudiTable.incremental, after="earliest")):
        try:
            rows = query(table).to_table()
        except HudiReadError:
            continue
        for name in partition_columns(table, rows):
            for condition in conditions(rows, name):
                assert differences(rows.filter(condition), query(table).to_table(filter=condition)) == []


@pytest.mark.parametrize("case", one_in(8, DUCKDB_CASES))
def test_duckdb_loses_no_row(case: str) -> None:
    table = HudiTable.open(golden_table(case))
    rows = table.snapshot().to_table()
    connection = duckdb.connect()
    if rows.num_columns:  # DuckDB has no views without columns
        attach(connection, golden_table(case), name="t")
    for name in partition_columns(table, rows):
        for value in [None, *spread(rows[name].unique().drop_null().to_pylist(), MOST_VALUES)]:
            column: Any = pc.field(name)
            left = rows.filter(column.is_null() if value is None else column == value)
            condition = f'"{name}" IS NULL' if value is None else f'"{name}" = ?'
            actual = connection.execute(f"SELECT count(*) FROM t WHERE {condition}", [] if value is None else [value])
            assert actual.fetchall() == [(left.num_rows,)]


@pytest.mark.parametrize(("value", "keys"), MOVED_KEYS.items())
def test_rows_are_found_in_other_partitions_than_their_own(tmp_path: Path, value: str, keys: list[str]) -> None:
    table = moved(tmp_path / "t").open()
    condition = pc.field("part") == value

    def ids(rows: pa.Table) -> list[str]:
        return sorted(map(str, rows["id"].to_pylist()))

    queries: dict[str, Callable[[], HudiDataset]] = {
        "snapshot": table.snapshot,
        "incremental": partial(table.incremental, "earliest"),
    }
    for query in queries.values():
        for _ in range(2):
            assert ids(query().to_table(filter=condition)) == keys
        assert query().count_rows(filter=condition) == len(keys)
    assert ids(table.read_optimized().to_table(filter=pc.field("id") == keys[0])) == keys[:1]
    assert tools.find_versions(table, condition).read_all().num_rows >= len(keys)
    frame = scan_dataset(table.snapshot()).filter(pl.col("part") == value).collect()
    assert sorted(frame["id"].to_list()) == keys
    connection = duckdb.connect()
    attach(connection, str(tmp_path / "t"), name="t")
    for _ in range(2):
        actual = connection.execute("SELECT id FROM t WHERE part = ? ORDER BY id", [value]).fetchall()
        assert [key for (key,) in actual] == keys


def test_a_reader_can_promise_that_paths_tell_the_values(tmp_path: Path) -> None:
    moved(tmp_path / "t")
    table = HudiTable.open(tmp_path / "t", options={PATHS_TELL_VALUES_KEY: "true"})
    assert {split.partition_path for split in table.splits(filter=pc.field("part") == "b")} == {"b"}
    assert {split.partition_path for split in table.splits()} == {"a", "b"}
