"""Reads, and the tables with a name, which are of one size.

``make_tables`` writes the tables. Every number that results depend on is here, so results of the same scenario can be
compared. The suite has more tables, of several sizes: see ``suite``.
"""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

Comparison = tuple[str, str, str | int]
"""Column, operator and literal: a filter that both readers support."""


class Delivery(Enum):
    """What the caller does with the rows, and so when the clock stops."""

    TABLE = "table"  # keeps all rows in memory
    STREAM = "stream"  # takes every batch and keeps none
    FIRST_BATCH = "first batch"  # takes the first batch only


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One read; None for all columns."""

    name: str
    columns: tuple[str, ...] | None = None
    where: Comparison | None = None
    delivery: Delivery = Delivery.TABLE

    @property
    def where_sql(self) -> str | None:
        """The filter as a condition of SQL."""
        if self.where is None:
            return None
        column, comparison, literal = self.where
        return f"{column} {comparison} {literal!r}"

    def to_json(self) -> dict[str, Any]:
        """The read as values of JSON."""
        return asdict(self) | {"delivery": self.delivery.value}

    @staticmethod
    def from_json(document: dict[str, Any]) -> "Read":
        """The read that ``to_json`` returned."""
        columns, where = document["columns"], document["where"]
        return Read(
            name=document["name"],
            columns=None if columns is None else tuple(columns),
            where=None if where is None else (where[0], where[1], where[2]),
            delivery=Delivery(document["delivery"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A merge-on-read table; each partition has a base file, an Avro block of updates and a delete block."""

    name: str
    rows: int
    partitions: int
    update_every: int  # one row in this many has a newer version in the log
    delete_every: int  # one row in this many is deleted in the log
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
        # without the read that keeps all columns in memory: this one is about streams
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
