"""Which slices are rewritten although Iceberg clients could read their base files."""

from dataclasses import dataclass
from typing import Self

from hudi_bridge.errors import QueryError

_PERCENT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """Which slices are rewritten.

    ``lists``: those whose base files have two-level lists, which some clients misread. ``above``: those whose logs
    delete or replace more than this share of the base rows, from 0 to 1, so that clients need not look up deletes for
    each row; None for no slice.
    """

    lists: bool = False
    above: float | None = None

    @classmethod
    def of(cls, *, lists: bool, above_percent: float | None) -> Self:
        """The options of a user.

        Raises:
            QueryError: ``above_percent`` is not between 0 and 100.
        """
        if above_percent is not None and not 0 <= above_percent <= _PERCENT:
            raise QueryError("--rewrite-above", str(above_percent), "a number from 0 to 100")
        return cls(lists=lists, above=None if above_percent is None else above_percent / _PERCENT)

    def is_due(self, deleted: int, rows: int) -> bool:
        """Whether ``deleted`` of the ``rows`` of a base file are too many."""
        return self.above is not None and deleted > self.above * rows
