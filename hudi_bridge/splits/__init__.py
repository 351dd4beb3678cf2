"""From a table and an instant to the splits that a reader needs."""
