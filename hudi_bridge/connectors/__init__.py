"""Adapters that show tables to query engines; each needs its engine installed."""
