"""Hudi tables as Iceberg tables: a catalog service, and metadata written once."""
