"""Indexes that rule out partitions and file slices before a row is read."""
