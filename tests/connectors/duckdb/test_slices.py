"""How many file slices of the golden tables DuckDB scans itself, and why it does not scan the others."""

from pathlib import Path

import duckdb
import pytest

from hudi_bridge import HudiTable
from hudi_bridge.connectors.duckdb import ViewPlan, attach
from tests.support.golden_queries import QUERIES

A_STRUCT_HAS_CHANGED = "changed inside"
NOT_ITS_TYPE = "DuckDB reads it as"
BY_HUDI_BRIDGE = {
    "e_ts_keygen_120": NOT_ITS_TYPE,
    "e_ts_keygen_partial_102": NOT_ITS_TYPE,
    "f_millis_0150": A_STRUCT_HAS_CHANGED,
    "g_logs_nested_0150": A_STRUCT_HAS_CHANGED,
    "g_logs_type_decimal_120": NOT_ITS_TYPE,
    "g_logs_type_float_120": NOT_ITS_TYPE,
    "g_logs_type_int_0150": NOT_ITS_TYPE,
    "g_logs_type_string_0150": NOT_ITS_TYPE,
    "g_sor_nested_0150": A_STRUCT_HAS_CHANGED,
    "g_sor_nested_120": A_STRUCT_HAS_CHANGED,
    "g_widen_0150": A_STRUCT_HAS_CHANGED,
    "g_widen_120": A_STRUCT_HAS_CHANGED,
    "n_alter_0150": A_STRUCT_HAS_CHANGED,
    "p_blob_120": A_STRUCT_HAS_CHANGED,
    "p_vector_120": NOT_ITS_TYPE,
    "v_vector_avro_120": NOT_ITS_TYPE,
    "v_vector_cow_120": NOT_ITS_TYPE,
    "v_vector_hfile_120": NOT_ITS_TYPE,
    "v_vector_mor_120": NOT_ITS_TYPE,
    "v_vector_parquet_120": NOT_ITS_TYPE,
    "v_widen_102": A_STRUCT_HAS_CHANGED,
    "v_widen_parquet_102": A_STRUCT_HAS_CHANGED,
    "v_widen_v6_by102": A_STRUCT_HAS_CHANGED,
}
"""The tables with base files that hudi-bridge reads: their columns have changed, or have types that DuckDB has not."""
NATIVE_SLICES = 2_055


@pytest.mark.long
def test_duckdb_scans_every_base_file_that_it_reads_as_hudi_does() -> None:
    native, reasons = 0, {}
    with duckdb.connect() as connection:
        for case, path in sorted({(query.case, query.table) for query in QUERIES.values()}):
            for plan in plans(connection, path):
                assert plan.reason is None, case
                native += plan.by_duckdb
                for reason in plan.by_hudi_bridge:
                    reasons[case] = next(item for item in (A_STRUCT_HAS_CHANGED, NOT_ITS_TYPE) if item in reason)
    assert reasons == BY_HUDI_BRIDGE
    assert native >= NATIVE_SLICES


def plans(connection: duckdb.DuckDBPyConnection, path: Path) -> list[ViewPlan]:
    table = HudiTable.open(path)
    if not table.schema.names:
        # Nothing has been written yet.
        return []
    return list(attach(connection, table, "trips").plan().values())
