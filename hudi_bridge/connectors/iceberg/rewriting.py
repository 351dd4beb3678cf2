"""Which slices are written anew although an Iceberg client could be told what to make of their base files."""

from dataclasses import dataclass
from typing import Self

from hudi_bridge.errors import QueryError

_PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """``lists``: slices with lists of two levels in their base files, which some clients misread.

    ``above``: slices of whose base rows the logs take away a larger share than this, from 0 to 1: a client then has no
    deletes to look up for each row that it reads. None for no slice.
    """

    lists: bool = False
    above: float | None = None

    @classmethod
    def of(cls, *, lists: bool, above_percent: float | None) -> Self:
        """What a user asks for.

        Raises:
            QueryError: the share is none.
        """
        if above_percent is not None and not 0 <= above_percent <= _PERCENT:
            raise QueryError("--rewrite-above", str(above_percent), "a number from 0 to 100")
        return cls(lists=lists, above=None if above_percent is None else above_percent / _PERCENT)

    def is_due(self, deleted: int, rows: int) -> bool:
        """Whether logs take away too many of the rows of a base file."""
        return self.above is not None and deleted > self.above * rows
