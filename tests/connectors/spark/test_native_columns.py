"""Which base files of the golden tables Spark reads itself; no session is needed to decide that."""

from collections.abc import Iterator

from hudi_bridge import HudiTable
from hudi_bridge.connectors.spark.native_columns import why_none_is_native, why_not_native
from hudi_bridge.engines import slice_delta
from hudi_bridge.splits.split import RealtimeFileSplit
from tests.golden_cases import GoldenQuery, golden_queries

REASONS = {
    "its value is only in the path": ("e_drop_part_cols_", "e_null_part_", "n_merge_every_"),
    "cast long to string": ("e_ts_keygen_",),
    "cast timestamp_millis to timestamp": ("f_millis_",),
    "another column (dropped and added again)": ("g_logs_drop_readd_",),
    "changed inside": ("g_logs_nested_", "g_sor_nested_", "p_blob_"),
    "renamed": ("g_logs_rename_", "g_sor_mixed_", "n_alter_"),
    "cast ": ("g_logs_type_", "g_widen_", "v_widen_"),
    "fixed_size_list": ("p_vector_", "v_vector_"),
}
"""The reasons that are to be expected, by the cases whose columns have changed or are odd."""


def test_all_slices_that_have_not_evolved_are_read_by_spark() -> None:
    queries = [query for query in golden_queries() if query.kind == "snapshot"]
    found = [(query.case, reason) for query in queries for reason in reasons(query)]
    others = [(case, reason) for case, reason in found if reason is not None]
    assert [one for one in others if not is_expected(*one)] == []
    assert 0 < len(others) < len(found) / 10


def is_expected(case: str, reason: str) -> bool:
    return any(kind in reason and case.startswith(cases) for kind, cases in REASONS.items())


def reasons(query: GoldenQuery) -> Iterator[str | None]:
    dataset = HudiTable.open(str(query.table)).snapshot()
    for split in dataset.splits():
        assert isinstance(split, RealtimeFileSplit)
        with slice_delta(split) as delta:
            base = delta.base_file
        of_file = None if base is None else why_not_native(split, base, dataset.schema)
        yield why_none_is_native(dataset.schema) or of_file
