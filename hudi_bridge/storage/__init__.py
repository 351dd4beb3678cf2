"""Files of a table, wherever they are: all file systems alike, with timeouts and retries, and without secrets."""
