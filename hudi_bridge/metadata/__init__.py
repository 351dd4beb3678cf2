"""The metadata table: what Hudi knows of the files, columns and keys of a table, as a table of its own."""
