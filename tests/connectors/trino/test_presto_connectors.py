from pathlib import Path
from typing import Any

import pytest

from hudi_bridge import HudiTable
from hudi_bridge.connectors.trino.explain import connector_routes
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at

SNAPSHOT = "the snapshot where partitions have the input format HoodieParquetRealtimeInputFormat"
DATES = "dates and timestamps of a merge-on-read table are read"
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
DATE = {"type": "int", "logicalType": "date"}


def routes_of(table: HudiTable) -> dict[str, tuple[bool, str]]:
    return {route["route"]: (route["fits"], route["reason"]) for route in connector_routes(table, table.splits())}


@pytest.mark.parametrize(
    ("case", "fit", "reasons"),
    [
        ("c_appended_log_0150", (True, True), (SNAPSHOT, SNAPSHOT)),
        ("d_log_only_0150", (True, False), (SNAPSHOT, "and 3 file slices have several")),
        ("i_cow_0150", (True, True), ("HoodieParquetInputFormat", "HoodieParquetInputFormat")),
        ("i_cow_120", (False, False), ("this is version 9", "this is version 9")),
        ("e_virtual_keys_0150", (False, False), ("without meta columns", "without meta columns")),
        ("f_types_0150", (False, False), (f"{DATES}: da, tm", f"{DATES}: da, tm")),
    ],
)
def test_says_which_connector_shows_the_snapshot(case: str, fit: tuple[bool, bool], reasons: tuple[str, str]) -> None:
    actual = routes_of(HudiTable.open(str(golden_table(case))))
    assert list(actual) == ["hive connector", "hudi connector"]
    for (fits, reason), is_fit, part in zip(actual.values(), fit, reasons, strict=True):
        assert fits == is_fit
        assert part in reason


@pytest.mark.parametrize(
    "kind",
    [
        DATE,
        MILLIS,
        {"type": "array", "items": MILLIS},
        {"type": "map", "values": DATE},
        {"type": "record", "name": "r", "fields": [{"name": "at", "type": MILLIS}]},
    ],
)
def test_dates_are_found_in_columns_of_all_types(tmp_path: Path, kind: dict[str, Any]) -> None:
    writer = TableWriter(folder=tmp_path / "t", version=6, fields=(("id", "string"), ("ts", "long"), ("x", kind)))
    writer.create().base_file(at(1), [{"id": "a", "ts": 1, "x": None}])
    writer.commit(at(1))
    assert all(reason.endswith(f"{DATES}: x") for _, reason in routes_of(writer.open()).values())
