"""From a split to its rows, as Arrow record batches."""
