"""The Iceberg REST service."""
