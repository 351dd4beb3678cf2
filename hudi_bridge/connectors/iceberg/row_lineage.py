"""Ids of rows in version 3 of Iceberg's format: each data file of a table has a range of ids of its own.

A file keeps its range as long as a snapshot lists it. Rows that logs replace or insert are in files of their own, so
that they get new ids, as a delete and an insert would give them.

Services that share a folder claim ranges there, so that no two have the same. A claim is a file whose name is its
range. A service writes its claim, and then lists the folder. If another claim ends above the begin of its own, it
leaves its claim there and tries again above all others. Otherwise the range is its own, and it removes the other
claims, which all end before.

Why no id is in two ranges: suppose the ranges of two services overlap. One of them wrote its claim last, and listed the
folder after that. At that time the claim of the other was there, or somebody had removed it. Only a service with a
range above a claim removes it, and the claim of that service was there or was removed in the same way. So the last
service saw a claim that ends above its begin, and has not taken its range.

This needs no clock and no lock, but a folder whose listings have all files that were written before: those of disks,
and of stores such as S3, Google Cloud Storage and Azure.

Source: the Iceberg specification, "Row Lineage" and "Snapshot Row IDs".
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from hudi_bridge.connectors.iceberg.slice_files import DataFile, Folder
from hudi_bridge.connectors.scratch import Scratch, new_mark
from hudi_bridge.errors import StorageError

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
        """The ids of the rows of some data files: those they have, or new ones."""
        ranges, following = dict[str, tuple[int, int]](), self.next_row_id
        for file in files:
            row_range = self._range_of(file)
            if row_range is None:
                row_range, following = (following, file.rows), following + file.rows
            ranges[file.location] = row_range
        return RowLineage(first_row_id=self.next_row_id, added_rows=following - self.next_row_id, ranges=ranges)

    def _range_of(self, file: DataFile) -> tuple[int, int] | None:
        row_range = self.ranges.get(file.location)
        return row_range if row_range is not None and row_range[1] == file.rows else None


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


_SUFFIX = ".claim"
_MOST_TRIES = 100
_LANES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    name: str
    first: int
    end: int


class RowIdClaims:
    """The claims in a scratch folder."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch

    def claim(self, count: int, at_least: int) -> int:
        """The first of ``count`` ids that nobody has had; none is below ``at_least``.

        Raises:
            StorageError: other services are faster each time.
        """
        first = max([at_least, *(claim.end for claim in self._claims())])
        if not count:
            return first
        for _ in range(_MOST_TRIES):
            name = f"{first}-{first + count}-{new_mark()}{_SUFFIX}"
            self._scratch.write(f"{Folder.CLAIMS}/{name}", b"")
            others = [claim for claim in self._claims() if claim.name != name]
            if all(claim.end <= first for claim in others):
                for claim in others:
                    self._scratch.remove(f"{Folder.CLAIMS}/{claim.name}")
                return first
            # Those who try again at the same time hardly begin at the same id: one of them is above the others.
            widest = max(count, *(claim.end - claim.first for claim in others))
            first = max(first + count, *(claim.end for claim in others)) + widest * random.randrange(_LANES)  # noqa: S311
        raise StorageError(self._scratch.storage.shown_path, "claim", "other services claim ids of rows all the time")

    def _claims(self) -> list[_Claim]:
        claims = []
        for name in self._scratch.names(Folder.CLAIMS):
            first, _, rest = name.removesuffix(_SUFFIX).partition("-")
            end = rest.partition("-")[0]
            if first.isdecimal() and end.isdecimal():
                claims.append(_Claim(name=name, first=int(first), end=int(end)))
        return claims
