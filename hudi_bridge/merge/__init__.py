"""Which version of a record wins, decided for whole batches."""
