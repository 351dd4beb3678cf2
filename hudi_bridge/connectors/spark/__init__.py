"""Hudi tables in PySpark, without the Hudi bundle.

The format ``hudi_bridge`` needs PySpark 4.0 and ``register_functions`` 4.1; ``read`` and ``locate_keys`` work with
PySpark 3.5 too.
"""

from hudi_bridge.common.imports import needing_extra

with needing_extra("spark", "pyspark"):
    from hudi_bridge.connectors.spark.errors import cause_of
    from hudi_bridge.connectors.spark.frames import read, register
    from hudi_bridge.connectors.spark.functions import register_functions
    from hudi_bridge.connectors.spark.key_lookup import locate_keys
    from hudi_bridge.connectors.spark.lake import Lake, attach_all
    from hudi_bridge.connectors.spark.native_read import SliceRoutes, slice_routes

__all__ = [
    "Lake",
    "SliceRoutes",
    "attach_all",
    "cause_of",
    "locate_keys",
    "read",
    "register",
    "register_functions",
    "slice_routes",
]
