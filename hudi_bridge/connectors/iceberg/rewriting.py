"""Which slices are rewritten although some Iceberg clients could read their base files."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from hudi_bridge.errors import QueryError

_PERCENT = 100


class IcebergClient(StrEnum):
    """A client that tables can be written for, because it misreads them otherwise."""

    PRESTO = "presto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """Which slices are rewritten, and for whom.

    Base files whose lists or maps some clients misread are copied. ``lists_as_stored``: only those that Trino does not
    open. ``above``: slices are rewritten whose logs delete or replace more than this share of the base rows, from 0 to
    1, so that clients need not look up deletes for each row; None for no slice. ``client``: those that this client
    misreads; its table has the types that it reads right. ``cut_times``: for ``client``, timestamps are of type
    ``timestamp`` although it cuts their microseconds.
    """

    lists_as_stored: bool = False
    above: float | None = None
    client: IcebergClient | None = None
    cut_times: bool = False

    @classmethod
    def of(
        cls,
        *,
        lists_as_stored: bool,
        above_percent: float | None,
        client: str | None = None,
        cut_times: bool = False,
    ) -> Self:
        """The options of a user.

        Raises:
            QueryError: ``above_percent`` is not between 0 and 100, ``client`` is not known, or ``cut_times`` is without
                ``client``.
        """
        if above_percent is not None and not 0 <= above_percent <= _PERCENT:
            raise QueryError("--rewrite-above", str(above_percent), "a number from 0 to 100")
        if client is not None and client not in set(IcebergClient):
            raise QueryError("--for", client, ", ".join(IcebergClient))
        if cut_times and client is None:
            raise QueryError("--cut-times", "no --for", "--for presto, whose timestamps have milliseconds")
        above = None if above_percent is None else above_percent / _PERCENT
        known = None if client is None else IcebergClient(client)
        return cls(lists_as_stored=lists_as_stored, above=above, client=known, cut_times=cut_times)

    def is_due(self, deleted: int, rows: int) -> bool:
        """Whether ``deleted`` of the ``rows`` of a base file are too many."""
        return self.above is not None and deleted > self.above * rows
