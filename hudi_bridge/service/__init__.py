"""The Iceberg REST service."""

from hudi_bridge.connectors import iceberg  # noqa: F401 - says which extra is missing, before any module needs it
