"""Hudi tables as lazy frames of Polars, which pass on the columns, the conditions and the number of rows they need."""

from hudi_bridge.common.imports import needing_extra

with needing_extra("polars", "polars"):
    from hudi_bridge.connectors.polars.frames import scan, scan_dataset

__all__ = ["scan", "scan_dataset"]
