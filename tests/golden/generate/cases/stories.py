"""Stories that several cases tell."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tests.golden.generate.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Rows = Callable[[Iterable[int], int, str], "DataFrame"]
"""Rows of some keys by an ordering value and a tag."""


def tell_story(w: Writer, rows: Rows, keys: int = 36) -> None:
    """A bulk insert, an update, deletes, and an update with inserts."""
    w.write(rows(range(keys), 1, "base"), "bulk_insert")
    w.write(rows(range(0, keys, 3), 2, "u1"))
    w.write(rows(range(0, keys, 8), 3, "d"), "delete")
    w.write(rows([*range(1, keys, 4), keys + 1, keys + 2], 4, "u2"))
