"""Change queries: the inserts, updates and deletes of records in a range of commits."""
