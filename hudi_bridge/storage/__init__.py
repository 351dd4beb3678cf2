"""Files of a table, wherever they are."""
