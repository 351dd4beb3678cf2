"""A Hudi table as views of a DuckDB connection."""

from hudi_bridge.common.imports import needing_extra

with needing_extra("duckdb", "duckdb", "fsspec"):
    from hudi_bridge.connectors.duckdb.dialect import require_tested

    require_tested()
    from hudi_bridge.connectors.duckdb.attached import (
        CACHE_BYTES,
        CHANGES,
        COMMITS,
        FILE_SLICES,
        FILES,
        INCREMENTAL,
        READ_OPTIMIZED,
        TIMELINE,
        Attached,
        attach,
    )
    from hudi_bridge.connectors.duckdb.dialect import quote_identifier
    from hudi_bridge.connectors.duckdb.lake import Lake, attach_all
    from hudi_bridge.connectors.duckdb.native_scan import ViewPlan

__all__ = [
    "CACHE_BYTES",
    "CHANGES",
    "COMMITS",
    "FILES",
    "FILE_SLICES",
    "INCREMENTAL",
    "READ_OPTIMIZED",
    "TIMELINE",
    "Attached",
    "Lake",
    "ViewPlan",
    "attach",
    "attach_all",
    "quote_identifier",
]
