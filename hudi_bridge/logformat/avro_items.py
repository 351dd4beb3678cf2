"""Moves cursors over Avro values: past those that nobody wants, and to each item of arrays and maps.

Cursors walk the schema, not the records: each step reads one field of all records. Within arrays, the n-th
items of all records are stepped over together; ``avro_single`` finishes the few that are longer than others.
"""

from array import array
from dataclasses import dataclass, field

import numpy as np

from hudi_bridge.logformat.avro_cursors import MAX_BYTES, Cursors, Ints
from hudi_bridge.logformat.avro_single import array_step, value_step
from hudi_bridge.schema.avro_types import (
    MOST_EMPTY_ITEMS,
    NULL,
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    least_width,
    wire_width,
)

# Below this many cursors, NumPy's fixed cost for a call exceeds that of stepping in Python.
FEW = 64

_NO_POSITIONS: Ints = np.empty(0, np.int64)


def step_over(avro: AvroType, cursors: Cursors) -> None:
    """Moves every cursor past one value."""
    match avro:
        case AvroPrimitive(kind="string" | "bytes"):
            cursors.skip(cursors.lengths("a value of variable length"), "a value of variable length")
        case AvroPrimitive(kind="int" | "long") | AvroEnum():
            cursors.varints("a number")
        case AvroRecord():
            for entry in avro.fields:
                step_over(entry.type, cursors)
        case AvroUnion():
            _step_over_union(avro, cursors)
        case AvroArray(items=item) | AvroMap(entry=item):
            _walk(item, cursors, _Found(wanted=False))
        case AvroPrimitive() | AvroFixed():
            cursors.skip(wire_width(avro) or 0, "a value of fixed width")


def _step_over_union(union: AvroUnion, cursors: Cursors) -> None:
    branches = cursors.branches(len(union.branches))
    for place, branch in enumerate(union.branches):
        chosen = branches == place
        if chosen.all():
            step_over(branch, cursors)
        elif branch != NULL:
            index = np.flatnonzero(chosen)
            moving = cursors.select(index)
            step_over(branch, moving)
            cursors.resume(index, moving)


def step_into_items(item: AvroType, cursors: Cursors) -> tuple[Ints, Cursors]:
    """The number of items in each array, and a cursor at each item, array by array.

    Moves ``cursors`` past the arrays.
    """
    found = _Found(wanted=True)
    _walk(item, cursors, found)
    owners, starts = np.concatenate(found.owners), np.concatenate(found.starts)
    order = np.argsort(owners, kind="stable")
    owners, starts = owners[order], starts[order]
    counts = np.bincount(owners, minlength=len(cursors))
    return counts, Cursors(cursors.source, starts, cursors.end[owners])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """Positions of items in the order of the walk, and for each the number of its array."""

    wanted: bool
    owners: list[Ints] = field(default_factory=lambda: [_NO_POSITIONS])
    starts: list[Ints] = field(default_factory=lambda: [_NO_POSITIONS])

    def add(self, owners: Ints, starts: Ints) -> None:
        self.owners.append(owners)
        self.starts.append(starts)

    def room(self, item: AvroType) -> int:
        """How many more items are let in; only those without bytes could be more than the bytes."""
        if least_width(item) or not self.wanted:
            return MAX_BYTES
        return MOST_EMPTY_ITEMS - sum(starts.size for starts in self.starts)


def _walk(item: AvroType, cursors: Cursors, found: _Found) -> None:
    """Moves the cursors past one array each, together for as long as many arrays have one more block."""
    live = np.arange(len(cursors))
    while live.size >= FEW:
        moving = cursors.select(live)
        counts, announced = _block_headers(item, moving)
        if counts.sum() > found.room(item):
            moving.refuse(counts > 0, "too many array items without bytes", f"up to {MOST_EMPTY_ITEMS}")
        starts = _step_over_items(item, moving, counts, wanted=found.wanted)
        if found.wanted:
            found.add(np.repeat(live, counts), starts)
        unlike = (announced >= 0) & (moving.pos != announced)
        moving.refuse(unlike, "array items of another size than announced", "the size announced")
        cursors.resume(live, moving)
        live = live[counts > 0]
    if live.size:
        _walk_singly(item, cursors, live, found)


def _walk_singly(item: AvroType, cursors: Cursors, index: Ints, found: _Found) -> None:
    starts = array("q")
    step = array_step(item, cursors.source, starts if found.wanted else None)
    counts, ends = [], []
    for pos, end in zip(cursors.pos[index].tolist(), cursors.end[index].tolist(), strict=True):
        before = len(starts)
        ends.append(step(pos, end))
        counts.append(len(starts) - before)
    cursors.move(index, np.array(ends, np.int64))
    found.add(np.repeat(index, counts), np.array(starts, np.int64))


def _block_headers(item: AvroType, cursors: Cursors) -> tuple[Ints, Ints]:
    """The number of items in each next block, and the end it announces, -1 where it announces none."""
    counts = cursors.varints("an item count")
    announced = np.full(len(cursors), -1, np.int64)
    sized = np.flatnonzero(counts < 0)
    if sized.size:
        moving = cursors.select(sized)
        sizes = moving.lengths("an array block")
        announced[sized] = moving.pos + np.minimum(sizes, moving.end - moving.pos + 1)
        cursors.resume(sized, moving)
        counts = np.abs(counts)
    least = least_width(item)
    most = (cursors.end - cursors.pos) // least if least else MOST_EMPTY_ITEMS
    # The absolute value of the least number stays negative.
    cursors.refuse((counts < 0) | (counts > most), "a block of more array items than fit", "items that fit")
    return counts, announced


def _step_over_items(item: AvroType, cursors: Cursors, counts: Ints, *, wanted: bool) -> Ints:
    """The positions of the next ``counts`` items, empty unless ``wanted``; moves the cursors past them."""
    slots = np.cumsum(counts) - counts
    total = int(counts.sum())
    width = wire_width(item)
    if width is not None:
        first = cursors.skip(counts * width, "array items")
        return np.repeat(first - slots * width, counts) + np.arange(total) * width if wanted else _NO_POSITIONS
    starts = np.empty(total, np.int64)
    live, nth = np.flatnonzero(counts), 0
    while live.size >= FEW:
        moving = cursors.select(live)
        starts[slots[live] + nth] = moving.pos
        step_over(item, moving)
        cursors.resume(live, moving)
        nth += 1
        live = live[counts[live] > nth]
    step = value_step(item, cursors.source)
    ends = []
    for row, pos, end in zip(live.tolist(), cursors.pos[live].tolist(), cursors.end[live].tolist(), strict=True):
        places = array("q", [pos])
        for _ in range(counts[row] - nth):
            places.append(step(places[-1], end))
        ends.append(places.pop())
        starts[slots[row] + nth :][: len(places)] = places
    cursors.move(live, np.array(ends, np.int64))
    return starts
