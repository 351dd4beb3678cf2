"""Filters DataFrames by many conditions in one action."""

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr, lit


def ids_by_condition(frames: Mapping[str, DataFrame], column: str = "id") -> dict[str, list[str]]:
    """The ids, sorted, of the rows of each DataFrame that pass its condition: filters of their own, in one action."""
    parts = [frame.where(condition).select(lit(condition), column) for condition, frame in frames.items()]
    actual: dict[str, list[str]] = {condition: [] for condition in frames}
    for condition, key in reduce(DataFrame.union, parts).collect():
        actual[condition].append(key)
    return {condition: sorted(keys) for condition, keys in actual.items()}


def ids_where_true(frame: DataFrame, conditions: Sequence[str], column: str = "id") -> dict[str, list[str]]:
    """The same of one DataFrame that is read once; what the conditions say is computed for all rows."""
    rows = frame.select(column, *[expr(condition) for condition in conditions]).collect()
    return {
        condition: sorted(row[0] for row in rows if row[number]) for number, condition in enumerate(conditions, start=1)
    }
