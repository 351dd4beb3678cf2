"""The versions of Iceberg's table format that tables can be shown in."""

from enum import IntEnum
from typing import Self

from hudi_bridge.connectors.iceberg.rewriting import IcebergClient
from hudi_bridge.errors import QueryError


class FormatVersion(IntEnum):
    """A version of the table format: ``V2`` has position-delete files, ``V3`` deletion vectors and ids of rows."""

    V2 = 2
    V3 = 3

    @classmethod
    def of(cls, number: int, client: IcebergClient | None = None) -> Self:
        """The version of a number, for all clients or one.

        Raises:
            QueryError: there is no such version here, or the client cannot read it.
        """
        if number not in set(cls):
            raise QueryError("--format-version", str(number), "2 or 3")
        if client is not None and number != cls.V2:
            raise QueryError("--format-version", f"{number} with --for {client}", f"2, which is what {client} reads")
        return cls(number)
