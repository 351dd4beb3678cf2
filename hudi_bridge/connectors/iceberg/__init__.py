"""Hudi tables as Iceberg tables: a catalog service, and metadata written once."""

from hudi_bridge.common.imports import needing_extra

with needing_extra("iceberg", "pyiceberg", "starlette", "uvicorn"):
    import pyiceberg  # noqa: F401 - checked once, for all modules of the package
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
