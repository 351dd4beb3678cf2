"""Ids of rows, as version 3 of Iceberg's format wants them: each data file of a table has a range of its own.

A file keeps its range as long as a snapshot lists it. Rows that logs replace or insert are in files of their own, so
that they get new ids, as a delete and an insert would give them. Services that share a folder claim the ranges
(``row_id_claims``).

Source: the Iceberg specification, "Row Lineage" and "Snapshot Row IDs".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from hudi_bridge.connectors.iceberg.data_files import DataFile

RowRanges: TypeAlias = Mapping[str, tuple[int, int]]
"""The first id and the number of the rows of data files, by location."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLineage:
    """The ids of the rows of a snapshot: those from ``first_row_id`` on, ``added_rows`` of them, are new in it."""

    first_row_id: int
    added_rows: int
    ranges: RowRanges

    @property
    def next_row_id(self) -> int:
        """The first id that was free after the snapshot."""
        return self.first_row_id + self.added_rows

    def first_id_of(self, file: DataFile) -> int:
        """The id of the first row of a data file of the snapshot."""
        return self.ranges[file.location][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowIds:
    """The ids that a table has given to rows: those of the files that are known, all below ``next_row_id``."""

    ranges: RowRanges
    next_row_id: int

    def new_rows(self, files: Iterable[DataFile]) -> int:
        """How many rows of some data files have no id yet."""
        return sum(file.rows for file in files if self._range_of(file) is None)

    def assign(self, files: Iterable[DataFile]) -> RowLineage:
        """The ids of the rows of some data files: new ones for those that are not known."""
        ranges, following = dict[str, tuple[int, int]](), self.next_row_id
        for file in files:
            known = self._range_of(file)
            if known is None:
                known, following = (following, file.rows), following + file.rows
            ranges[file.location] = known
        return RowLineage(first_row_id=self.next_row_id, added_rows=following - self.next_row_id, ranges=ranges)

    def _range_of(self, file: DataFile) -> tuple[int, int] | None:
        known = self.ranges.get(file.location)
        return known if known is not None and known[1] == file.rows else None


def lineage_to_json(lineage: RowLineage | None) -> object:
    """What ``lineage_from_json`` reads, as JSON."""
    if lineage is None:
        return None
    return {
        "first_row_id": lineage.first_row_id,
        "added_rows": lineage.added_rows,
        "ranges": dict(lineage.ranges),
    }


def lineage_from_json(document: Mapping[str, object] | None) -> RowLineage | None:
    """The lineage that ``lineage_to_json`` wrote.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is damaged.
    """
    if document is None:
        return None
    stored: Mapping[str, tuple[int, int]] = document["ranges"]  # type: ignore[assignment]  # JSON
    return RowLineage(
        first_row_id=int(document["first_row_id"]),  # type: ignore[call-overload]  # JSON
        added_rows=int(document["added_rows"]),  # type: ignore[call-overload]  # JSON
        ranges={location: (int(first), int(rows)) for location, (first, rows) in stored.items()},
    )
