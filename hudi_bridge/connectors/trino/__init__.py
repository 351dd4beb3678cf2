"""Hudi tables in Trino by SQL alone: published log records, views over them, and merge rules as Python functions."""
