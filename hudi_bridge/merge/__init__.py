"""Merges the versions of records, whole batches at a time."""
