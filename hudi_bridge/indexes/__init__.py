"""Indexes that rule out files for a record key."""
