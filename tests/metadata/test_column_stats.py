from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.metadata.column_stats import MAXIMA, MINIMA, is_known, joined_ranges
from hudi_bridge.metadata.index_ids import column_id, file_id, partition_id
from hudi_bridge.metadata.record_kinds import COLUMN_STATS, record_kind
from hudi_bridge.metadata.table import MetadataTable
from hudi_bridge.table import HudiTable
from tests.golden_cases import golden_table

WITH_STATS = ("h_all_indexes_120", "h_column_stats_0150", "h_column_stats_120")


def stats(*rows: dict[str, Any]) -> pa.Table:
    kind = record_kind(COLUMN_STATS)
    assert kind is not None
    return pa.Table.from_pylist([{"file": "f", "column": "c", "is_deleted": False, **row} for row in rows], kind.schema)


def version(key: str, low: int | None, high: int | None, values: int, nulls: int) -> dict[str, Any]:
    return {"key": key, "min_int": low, "max_int": high, "values": values, "nulls": nulls}


def merged(table: pa.Table) -> list[tuple[Any, ...]]:
    kind = record_kind(COLUMN_STATS)
    assert kind is not None
    names = ("key", "min_int", "max_int", "values", "nulls")
    return sorted(tuple(row[name] for name in names) for row in kind.merged(table).to_pylist())


def test_ids_are_those_of_hudi() -> None:
    assert column_id("part") == "+WGrmgkN3io="
    assert partition_id("a") == "BFHqp2KLzrM="


@pytest.mark.parametrize("name", WITH_STATS)
def test_keys_of_real_records_are_made_of_the_ids(name: str) -> None:
    table = HudiTable.open(golden_table(name))
    partitions = [partition_id(split.partition_path) for split in table.splits()]
    checked = 0
    for records in MetadataTable(table._state).all(COLUMN_STATS):
        for row in records.to_pylist():
            start, end = column_id(row["column"]), file_id(row["file"])
            assert row["key"].startswith(start)
            assert row["key"].endswith(end)
            assert row["key"].removeprefix(start).removesuffix(end) in partitions
            checked += 1
    assert checked > 400


def test_the_range_of_a_log_file_is_that_of_all_its_parts() -> None:
    versions = stats(version("a", 3, 5, 4, 0), version("b", 1, 2, 2, 0), version("a", 1, 4, 3, 2))
    assert merged(versions) == [("a", 1, 5, 7, 2), ("b", 1, 2, 2, 0)]


def test_a_part_without_values_widens_no_range() -> None:
    versions = stats(version("a", 3, 5, 4, 0), version("a", None, None, 2, 2), version("a", None, None, 0, 0))
    assert merged(versions) == [("a", 3, 5, 6, 2)]


def test_a_part_of_unknown_values_makes_the_range_unknown() -> None:
    versions = stats(version("a", 3, 5, 4, 0), version("a", None, None, 2, 1))
    assert merged(versions) == [("a", None, None, 6, 1)]
    assert not is_known(joined_ranges(versions, "key")).any()


def test_a_removal_ends_what_was_before() -> None:
    versions = stats(
        version("a", 3, 5, 4, 0),
        version("b", 3, 5, 4, 0),
        {"key": "a", "is_deleted": True},
        {"key": "b", "is_deleted": True},
        version("a", 7, 8, 2, 0),
    )
    assert merged(versions) == [("a", 7, 8, 2, 0)]


def test_types_of_values_are_kept_apart() -> None:
    versions = stats(
        version("a", 3, 5, 4, 0), {"key": "a", "min_string": "x", "max_string": "y", "values": 1, "nulls": 0}
    )
    (row,) = joined_ranges(versions, "key").to_pylist()
    assert (row[MINIMA["int"]], row[MAXIMA["int"]], row[MINIMA["string"]], row[MAXIMA["string"]]) == (3, 5, "x", "y")
