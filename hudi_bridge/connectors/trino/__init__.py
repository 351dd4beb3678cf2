"""Hudi tables in Trino by SQL: published log records, views, and merge rules as Python functions."""
