"""Reads the merged rows of a split as Arrow record batches."""
