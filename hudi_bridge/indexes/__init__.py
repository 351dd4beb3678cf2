"""What rules out partitions and file slices before a row is read."""
