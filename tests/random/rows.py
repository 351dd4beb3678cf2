"""The rows of a random table: which keys there may be, where they are, and what a row of one has."""

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.random.draw import DMS, FILLS_UNSET, MYSQL, POSTGRES, Draw
from tests.random.kinds import arrow_type, ordering_value, value

ODD_KEYS = (
    *(" ", "a,b", "a:b", "x/y", "ü", "日本", "\U0001f600", "tab\t", 'q"uote', "'", "\\"),
    *("%20", "null", "A" * 120, "0", "-1", "k=v&z", "Zz", "#", "*"),
)
ODD_PARTITIONS = ("a b", "x=y", "50%", "ünï✓", "q?&#", "colon:", "plus+", "quote'\"", "sl/ash")
UNAVAILABLE = "__debezium_unavailable_value"
PLACES = 4
"""The partitions of most tables."""

_TWO_PLACES = 2
_DAY = 24 * 3600 * 1000
_MIDNIGHT = 1704067200000
_DATE = dt.date(2024, 2, 28)
_HOMES: dict[str, Sequence[Any]] = {
    "text": "abcd",
    "int": (1, 20, -3, 4),
    "date": [_DATE + dt.timedelta(number) for number in range(PLACES)],
    "timestamp": [_MIDNIGHT + number * (17 * _DAY + 1) for number in range(PLACES)],
    "null": ("a", None, "b", "a"),
}
"""The values of the only partition field, by the kind of partitioning."""

Row = dict[str, Any]
"""Values by column, as Arrow takes them."""


@dataclass(slots=True)
class RowSource:
    """Makes rows of a table while it is written; ``columns`` changes as the table's do.

    Keys are numbers from 0 on, each of which has been written at some time. Each batch has a level, from which its
    ordering values follow. ``moved`` has the places of keys that have left theirs.
    """

    table: Draw
    columns: list[tuple[str, str]] = field(init=False)
    keys: int = 0
    level: int = 100
    moved: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.columns = list(self.table.columns)

    @property
    def schema(self) -> str:
        """The columns as Spark spells them."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns)

    @property
    def plain_columns(self) -> list[tuple[str, str]]:
        """The columns that have no role."""
        roles = {*self.table.key_fields, *self.table.partition_fields, *(name for name, _ in self.table.ordering)}
        roles |= {"_hoodie_is_deleted", "mark", "Op"}
        return [(name, kind) for name, kind in self.columns if name not in roles]

    def new_keys(self, count: int) -> list[int]:
        """So many keys that have not been written before."""
        self.keys += count
        return list(range(self.keys - count, self.keys))

    def some_keys(self, chance: Random, share: float | None = None) -> list[int]:
        """Some of the keys that have been written, in order."""
        count = int(self.keys * (share or chance.choice([0.05, 0.2, 0.5])))
        return sorted(chance.sample(range(self.keys), min(self.keys, max(1, count))))

    def key(self, number: int) -> Row:
        """The key fields of a key."""
        match self.table.key:
            case "int":
                return {"id": number * 7 - 20}
            case "odd":
                again = str(number) if number >= len(ODD_KEYS) else ""
                return {"id": ODD_KEYS[number % len(ODD_KEYS)] + again}
            case "composite":
                return {"id": f"k{number // 3:03d}", "k2": number % 3}
        return {"id": f"k{number:04d}"}

    def home(self, number: int) -> Row:
        """The partition fields of a key."""
        position = self.moved.get(number, (number // 2 + self.table.seed) % PLACES)
        values = _HOMES.get(self.table.partition)
        if values is not None:
            return {self.table.partition_fields[0]: values[position % len(values)]}
        half = position // _TWO_PLACES
        match self.table.partition:
            case "odd":
                return {"part": ODD_PARTITIONS[(position * 2 + self.table.seed) % len(ODD_PARTITIONS)]}
            case "two":
                return {"part": "ab"[position % 2], "year": 2020 + half}
            case "three":
                return {"part": "ab"[position % 2], "year": 2020 + half, "day": _DATE + dt.timedelta(half)}
            case "custom":
                return {"part": "ab"[position % 2], "at": _MIDNIGHT + half * 40 * _DAY}
            case "many":
                return {"part": f"p{(number * 5 + position) % 12:02d}"}
        return {}

    def batch(self, chance: Random, keys: Sequence[int], *, late: float = 0.2, deleted: float = 0) -> list[Row]:
        """Rows of keys in a batch of its own; ``late`` and ``deleted`` are shares of them."""
        self.level += 10
        return [
            self._row(chance, key, level, is_deleted=chance.random() < deleted)
            for key, level in zip(keys, list(self._levels(chance, len(keys), late)), strict=True)
        ]

    def _levels(self, chance: Random, count: int, late: float) -> Iterable[int | None]:
        """Ordering levels of a batch: its own, ties with the batch before, late ones, nulls."""
        for _ in range(count):
            draw = chance.random()
            if self.table.has_null_ordering and draw > 0.93:
                yield None
            elif draw < late:
                yield max(1, self.level - chance.randrange(15, 90))
            else:
                yield self.level - 10 if draw < late + 0.12 else self.level

    def _row(self, chance: Random, key: int, level: int | None, *, is_deleted: bool) -> Row:
        table = self.table
        given = {**self.home(key), **self.key(key), **self._ordering(level)}
        given |= self._special(chance, level, is_deleted=is_deleted)
        if table.has_deletes:
            given["_hoodie_is_deleted"] = True if is_deleted else chance.choice([False, False, None])
        if table.has_marker:
            given["mark"] = "D" if is_deleted else chance.choice(["x", None])
        nulls = 0.4 if table.payload in FILLS_UNSET else 0.15
        row = {}
        for name, kind in self.columns:
            if name in given:
                row[name] = given[name]
            elif table.payload == POSTGRES and kind == "string" and chance.random() < 0.3:
                row[name] = UNAVAILABLE
            else:
                row[name] = value(chance, arrow_type(kind), nulls)
        return row

    def _ordering(self, level: int | None) -> Row:
        several = len(self.table.ordering) > 1
        return {
            # Of two fields, the first has many ties.
            name: ordering_value(kind, level // 20 if several and index == 0 and level is not None else level)
            for index, (name, kind) in enumerate(self.table.ordering)
        }

    def _special(self, chance: Random, level: int | None, *, is_deleted: bool) -> Row:
        """The columns that a payload goes by."""
        payload = self.table.payload
        if payload == DMS:
            return {"Op": "D" if is_deleted else chance.choice(["I", "U", None])}
        if payload not in (MYSQL, POSTGRES):
            return {}
        operation = {"_change_operation_type": "d" if is_deleted else chance.choice("cu")}
        if payload == POSTGRES:
            return operation
        assert level is not None
        file, position = 5 + level // 50, level * 7 % 89 + 90
        sequence = f"{file:06d}.{position}"
        return {**operation, "_event_bin_file": f"mysql-bin.{file:06d}", "_event_pos": position, "_event_seq": sequence}
