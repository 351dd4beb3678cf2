"""Plans queries: the file slices of a table as of an instant, and the splits to read them."""
