"""Ranges of ids of rows that services claim in a folder which they share, so that no two have the same.

A claim is a file that has its range as its name. Whoever wants one writes it, and then lists the folder: if another
claim ends above the begin of its own, it leaves that as it is and tries again above all. Otherwise the range is its
own, and it removes the other claims, which all end before.

Why no id is in two ranges: of two services with ranges that overlap, one has written its claim last, and has listed the
folder after that. At that time, the claim of the other one was there, or somebody had removed it. Nobody removes claims
but a service that has a range above them, whose own claim is there or was removed in the same way. So the last one has
found a claim that ends above its begin, and has not taken its range.

This needs no clock and no lock, but a folder whose listings have all files that were written before: those of disks,
and of stores such as S3, Google Cloud Storage and Azure.
"""

import random
from dataclasses import dataclass

from hudi_bridge.connectors.publishing.scratch import Scratch
from hudi_bridge.connectors.publishing.unique_names import new_mark
from hudi_bridge.errors import StorageError

CLAIMS = "row-ids"
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
        first = max([at_least, *(one.end for one in self._claims())])
        if not count:
            return first
        for _ in range(_MOST_TRIES):
            name = f"{first}-{first + count}-{new_mark()}{_SUFFIX}"
            self._scratch.write(f"{CLAIMS}/{name}", b"")
            others = [one for one in self._claims() if one.name != name]
            if all(one.end <= first for one in others):
                for one in others:
                    self._scratch.remove(f"{CLAIMS}/{one.name}")
                return first
            # Those who try again at the same time hardly begin at the same id: one of them is above the others.
            widest = max(count, *(one.end - one.first for one in others))
            first = max(first + count, *(one.end for one in others)) + widest * random.randrange(_LANES)  # noqa: S311
        raise StorageError(self._scratch.storage.shown_path, "claim", "other services claim ids of rows all the time")

    def _claims(self) -> list[_Claim]:
        claims = []
        for name in self._scratch.names(CLAIMS):
            first, _, rest = name.removesuffix(_SUFFIX).partition("-")
            end = rest.partition("-")[0]
            if first.isdecimal() and end.isdecimal():
                claims.append(_Claim(name=name, first=int(first), end=int(end)))
        return claims
