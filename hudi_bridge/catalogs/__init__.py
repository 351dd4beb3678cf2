"""Tables by the names that a catalog has for them: a Hive metastore, AWS Glue, a REST catalog with generic tables."""
