"""What differs between two states of a table: records inserted, updated and deleted, with their values."""
