"""The slices that clients were given for planned scans, as notes that all services on a scratch folder read.

A note has the period in its name. Slices are given out again in that period and the next; their files stay until no
query can need them (``is_past``).
"""

import json
from collections.abc import Collection, Iterable

from hudi_bridge.connectors.publishing.scratch import Scratch
from hudi_bridge.connectors.publishing.unique_names import current_period, is_past, new_mark, period_of

GIVEN = "given"


class GivenSlices:
    """The notes of one table; not thread-safe."""

    def __init__(self, scratch: Scratch, keep_seconds: float) -> None:
        self._scratch = scratch
        self._keep_seconds = keep_seconds
        self._notes: dict[str, frozenset[str]] = {}

    def refresh(self) -> None:
        """Read new notes, and forget those that are gone."""
        names = set(self._scratch.names(GIVEN))
        for name in self._notes.keys() - names:
            del self._notes[name]
        for name in names - self._notes.keys():
            self._notes[name] = _slices(self._scratch.read(f"{GIVEN}/{name}"))

    def give(self, slices: Iterable[str]) -> None:
        """Note that a client gets these slices, unless that is known."""
        period = current_period(self._keep_seconds)
        new = set(slices) - self._of(period)
        if new:
            name = f"p{period}-{new_mark()}.json"
            self._scratch.write(f"{GIVEN}/{name}", json.dumps(sorted(new)).encode())
            self._notes[name] = frozenset(new)

    def usable(self) -> Collection[str]:
        """The slices that can be given again."""
        period = current_period(self._keep_seconds)
        return self._of(period) | self._of(period - 1)

    def needed(self) -> Collection[str]:
        """The slices that running queries may need."""
        return {one for slices in self._notes.values() for one in slices}

    def forget_past(self) -> None:
        """Remove the notes that nobody needs any more."""
        for name in [name for name in self._notes if is_past(name, self._keep_seconds)]:
            self._scratch.remove(f"{GIVEN}/{name}")
            del self._notes[name]

    def _of(self, period: int) -> set[str]:
        return {one for name, slices in self._notes.items() if period_of(name) == period for one in slices}


def _slices(text: bytes | None) -> frozenset[str]:
    """The slices of a note; none if it is damaged, and they are built again."""
    try:
        return frozenset(map(str, json.loads(text or b"[]")))
    except (ValueError, TypeError):
        return frozenset()
