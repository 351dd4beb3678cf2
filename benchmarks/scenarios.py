"""The tables that are timed and the reads that are asked of them.

A scenario says how much real Hudi writes; the SQL that follows from it is in ``make_tables``. Every number
a result depends on is here, so that two results of the same scenario can be compared.
"""

from dataclasses import dataclass
from enum import Enum

Comparison = tuple[str, str, str | int]
"""Column, operator and literal: the part of a filter that both readers can be told."""


class Delivery(Enum):
    """What the caller does with the rows, and so when the clock stops."""

    TABLE = "table"  # all rows held in memory
    STREAM = "stream"  # every batch looked at and let go
    FIRST_BATCH = "first batch"  # the rest never asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One question; ``columns`` of None means all of them."""

    name: str
    columns: tuple[str, ...] | None = None
    where: Comparison | None = None
    delivery: Delivery = Delivery.TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A merge-on-read table; each partition has a base file, an Avro block of updates, a delete block."""

    name: str
    rows: int
    partitions: int
    update_every: int  # one row in so many has a newer version in the log
    delete_every: int  # one row in so many is deleted in the log
    reads: tuple[Read, ...]


def row_key(number: int) -> str:
    """The record key of the row with this number."""
    return f"order-{number:09d}"


QTY_VALUES = 1_000
"""Quantities are spread evenly over 0 to 999, so that ``qty < 10`` holds for one row in a hundred."""

FULL = Read(name="all columns")
THREE_COLUMNS = Read(name="three columns", columns=("id", "price", "qty"))
ONE_PERCENT = Read(name="filter, 1 % of rows", where=("qty", "<", QTY_VALUES // 100))
ONE_KEY = Read(name="one key", where=("id", "=", row_key(123_450)))
FIRST_BATCH = Read(name="first streamed batch", delivery=Delivery.FIRST_BATCH)
STREAM = Read(name="streamed, nothing kept", delivery=Delivery.STREAM)

EVERY_READ = (FULL, THREE_COLUMNS, ONE_PERCENT, ONE_KEY, FIRST_BATCH, STREAM)

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="standard",
            rows=1_000_000,
            partitions=1,
            update_every=10,
            delete_every=1_000,
            reads=EVERY_READ,
        ),
        Scenario(
            name="partitioned",
            rows=2_000_000,
            partitions=8,
            update_every=10,
            delete_every=1_000,
            reads=EVERY_READ,
        ),
        # all columns of this one are not held at once: it shows what a stream costs
        Scenario(
            name="large",
            rows=5_000_000,
            partitions=1,
            update_every=100,
            delete_every=10_000,
            reads=(STREAM, THREE_COLUMNS, ONE_PERCENT, ONE_KEY, FIRST_BATCH),
        ),
    )
}
