"""An interval tree that finds the base files whose key range includes a key.

Writers of Avro records compare keys by UTF-16 code units, the row writer of Spark by UTF-8 bytes. Where these orders
differ, a key is looked up in both.

Source: ``IntervalTreeBasedIndexFileFilter`` and ``KeyRangeLookupTree`` of Hudi.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

# Below this character, both orders are the same.
_FIRST_THAT_DIFFERS = "\ue000"
_UTF8, _UTF16 = "utf-8", "utf-16-be"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The least and greatest key of a file, both inclusive; ``place`` is the index of the file."""

    least: str
    greatest: str
    place: int


@dataclass(frozen=True, slots=True)
class _Interval:
    least: bytes
    greatest: bytes
    place: int


@dataclass(frozen=True, slots=True)
class _Node:
    """The ranges that contain ``middle``; those wholly below or above it are in the subtrees.

    ``starts`` and ``ends`` are ascending; ``places_by_start`` and ``places_by_end`` are parallel to them.
    """

    middle: bytes
    starts: tuple[bytes, ...]
    places_by_start: tuple[int, ...]
    ends: tuple[bytes, ...]
    places_by_end: tuple[int, ...]
    below: "_Node | None"
    above: "_Node | None"


@dataclass(frozen=True, slots=True)
class KeyRangeTree:
    """Finds the ranges that include a key."""

    _trees: tuple[tuple[str, _Node | None], ...]

    @classmethod
    def of(cls, ranges: Sequence[KeyRange]) -> Self:
        """Builds the tree."""
        orders_differ = any(max(one.least + one.greatest, default="") >= _FIRST_THAT_DIFFERS for one in ranges)
        orders = (_UTF8, _UTF16) if orders_differ else (_UTF8,)
        return cls(tuple((order, _build([_interval(one, order) for one in ranges])) for order in orders))

    def places(self, key: str) -> list[int]:
        """The places of the ranges that include a key, ascending."""
        found = {place for order, root in self._trees for place in _stab(root, _encoded(key, order))}
        return sorted(found)


def _encoded(text: str, order: str) -> bytes:
    return text.encode(order, "surrogatepass")


def _interval(one: KeyRange, order: str) -> _Interval:
    return _Interval(_encoded(one.least, order), _encoded(one.greatest, order), one.place)


def _build(intervals: Sequence[_Interval]) -> _Node | None:
    # An interval that ends before it begins holds no key in this order.
    intervals = [one for one in intervals if one.least <= one.greatest]
    if not intervals:
        return None
    ends = sorted(end for one in intervals for end in (one.least, one.greatest))
    middle = ends[len(ends) // 2]
    here = [one for one in intervals if one.least <= middle <= one.greatest]
    by_start = sorted(here, key=lambda one: one.least)
    by_end = sorted(here, key=lambda one: one.greatest)
    return _Node(
        middle,
        tuple(one.least for one in by_start),
        tuple(one.place for one in by_start),
        tuple(one.greatest for one in by_end),
        tuple(one.place for one in by_end),
        _build([one for one in intervals if one.greatest < middle]),
        _build([one for one in intervals if one.least > middle]),
    )


def _stab(node: _Node | None, key: bytes) -> Iterator[int]:
    while node is not None:
        if key < node.middle:
            yield from node.places_by_start[: bisect_right(node.starts, key)]
            node = node.below
        else:
            yield from node.places_by_end[bisect_left(node.ends, key) :]
            node = node.above if key > node.middle else None
