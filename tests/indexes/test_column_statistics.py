from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.indexes.record_kinds import VALUE_TYPES, record_kind
from hudi_bridge.table import HudiTable
from tests.support.golden_cases import golden_table


def value_of(values: dict[str, Any]) -> Any:
    present = [value for value in values.values() if value is not None]
    assert len(present) <= 1
    return present[0] if present else None


@pytest.mark.parametrize("case", ["h_column_stats_0150", "h_column_stats_120", "h_all_indexes_120"])
@pytest.mark.parametrize("column", ["id", "ts", "qty", "price"])
def test_ranges_are_those_of_the_files(case: str, column: str) -> None:
    table = HudiTable.open(golden_table(case))
    records = pa.concat_tables(table._metadata_table.all("column_stats"))
    of_column: list[dict[str, Any]] = records.filter(pc.field("column") == column).to_pylist()
    actual = {row["file_name"]: row for row in of_column}
    names = [path for path in golden_table(case).glob("*/*.parquet") if path.name in actual]
    assert len(names) >= 18
    for path in names:
        values = pq.read_table(path, columns=[column], partitioning=None).column(0)
        row = actual[path.name]
        assert value_of(row["min_value"]) == pc.min(values).as_py()
        assert value_of(row["max_value"]) == pc.max(values).as_py()
        assert (row["value_count"], row["null_count"]) == (len(values), values.null_count)


WRITES = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 99), st.integers(0, 99), st.booleans(), st.booleans()), max_size=12
)


@given(WRITES)
def test_ranges_grow_until_one_is_tight_or_removed(writes: list[tuple[str, int, int, bool, bool]]) -> None:
    kind = record_kind("partition_stats")
    assert kind is not None
    none = dict.fromkeys(VALUE_TYPES)
    expected: dict[str, tuple[int, int, int]] = {}
    rows: list[dict[str, Any]] = []
    for key, one, other, is_tight, is_deleted in writes:
        low, high = sorted((one, other))
        rows.append(
            {
                "key": key,
                "file_name": key,
                "column": "c",
                "min_value": none | {"long": low},
                "max_value": none | {"long": high},
                "value_count": 1,
                "is_tight": is_tight,
                "is_deleted": is_deleted,
            }
        )
        if is_deleted:
            expected.pop(key, None)
        elif is_tight or key not in expected:
            expected[key] = (low, high, 1)
        else:
            stats = expected[key]
            expected[key] = (min(low, stats[0]), max(high, stats[1]), stats[2] + 1)
    merged: list[Any] = kind.merged(pa.Table.from_pylist(rows, schema=kind.schema)).to_pylist()
    assert len(merged) == len(expected)
    assert {
        row["key"]: (row["min_value"]["long"], row["max_value"]["long"], row["value_count"]) for row in merged
    } == expected


@pytest.mark.parametrize(
    ("nulls", "expected"), [(2, (3, 5)), (1, (None, None))], ids=["only nulls", "values of an unknown range"]
)
def test_a_range_is_unknown_if_one_of_its_parts_is(nulls: int, expected: tuple[int | None, int | None]) -> None:
    kind = record_kind("column_stats")
    assert kind is not None
    entry = {"key": "a", "file_name": "f", "column": "c", "is_tight": False, "is_deleted": False}
    stats = {"min_value": {"int": 3}, "max_value": {"int": 5}, "value_count": 4, "null_count": 0}
    rows = [entry | stats, entry | {"value_count": 2, "null_count": nulls}]
    (row,) = kind.merged(pa.Table.from_pylist(rows, schema=kind.schema)).to_pylist()
    actual = [None if values is None else values["int"] for values in (row["min_value"], row["max_value"])]
    assert tuple(actual) == expected
    assert (row["value_count"], row["null_count"]) == (6, nulls)
