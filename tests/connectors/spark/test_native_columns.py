"""Which base files of the golden tables Spark reads itself; no session is needed to decide that."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable
from hudi_bridge.connectors.spark.native_columns import reason_columns_not_native, reason_file_not_native
from hudi_bridge.engines import slice_delta
from hudi_bridge.splits.split import RealtimeFileSplit
from tests.support.golden_cases import golden_queries
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at

REASONS = {
    "its value is only in the path": (
        "e_drop_part_cols_",
        "e_null_part_",
        "e_slash_dates_",
        "n_merge_every_",
        "o_custom_",
    ),
    "cast long to string": ("e_ts_keygen_",),
    "cast timestamp_millis to timestamp": ("f_millis_",),
    "another column (dropped and added again)": ("g_logs_drop_readd_",),
    "changed inside": ("g_logs_nested_", "g_sor_nested_", "p_blob_"),
    "renamed": ("g_logs_rename_", "g_sor_mixed_", "n_alter_"),
    "cast ": ("g_logs_type_", "g_widen_", "v_widen_"),
    "fixed_size_list": ("p_vector_", "v_vector_"),
}
"""The reasons that are to be expected, by the cases whose columns have changed or are odd."""


@pytest.mark.long
def test_all_slices_that_have_not_evolved_are_read_by_spark() -> None:
    queries = [query for query in golden_queries() if query.kind == "snapshot"]
    actual = [(query.case, reason) for query in queries for reason in reasons(query.table)]
    others = [(case, reason) for case, reason in actual if reason is not None]
    assert [other for other in others if not is_expected(*other)] == []
    assert 0 < len(others) < len(actual) / 10


@pytest.mark.parametrize(("day", "expected"), [(-141_428, "it has dates in the calendar of Spark 2"), (-141_427, None)])
def test_dates_that_calendars_agree_on_are_read_by_spark(tmp_path: Path, day: int, expected: str | None) -> None:
    fields = (*KEY_AND_VALUE, ("d", {"type": "int", "logicalType": "date"}))
    table = TableWriter(folder=tmp_path / "t", fields=fields).create()
    path = table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x", "d": day}])
    facts = {"org.apache.spark.version": "2.4.8"}
    pq.write_table(pq.read_table(path).replace_schema_metadata(facts), path)
    table.commit(at(1))
    assert list(reasons(table.folder)) == [expected]


def is_expected(case: str, reason: str) -> bool:
    return any(kind in reason and case.startswith(cases) for kind, cases in REASONS.items())


def reasons(table: Path) -> Iterator[str | None]:
    dataset = HudiTable.open(str(table)).snapshot()
    for split in dataset.splits():
        assert isinstance(split, RealtimeFileSplit)
        with slice_delta(split) as delta:
            base = delta.base_file
        of_file = None if base is None else reason_file_not_native(split, base, dataset.schema)
        yield reason_columns_not_native(dataset.schema) or of_file
