"""Moves cursors over Avro values: past those that are not asked for, and to each item of arrays and maps.

The n-th items of all arrays are skipped together; ``avro_single`` finishes the few arrays that are longer.
"""

from array import array
from dataclasses import dataclass, field

import numpy as np

from hudi_bridge.logformat.avro_cursors import MAX_BYTES, Cursors, Ints
from hudi_bridge.logformat.avro_single import array_step, value_step
from hudi_bridge.schema.avro_types import (
    MAX_EMPTY_ITEMS,
    NULL,
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    min_width,
    wire_width,
)

# With fewer cursors, the overhead of NumPy calls exceeds the cost of stepping in Python.
MIN_TOGETHER = 64

_NO_POSITIONS: Ints = np.empty(0, np.int64)


def step_over(avro: AvroType, cursors: Cursors) -> None:
    """Moves every cursor past one value."""
    match avro:
        case AvroPrimitive(kind="string" | "bytes"):
            _step_over_bytes(cursors)
        case AvroPrimitive(kind="int" | "long") | AvroEnum():
            cursors.varints("a number")
        case AvroRecord():
            for entry in avro.fields:
                step_over(entry.type, cursors)
        case AvroUnion():
            _step_over_union(avro, cursors)
        case AvroArray(items=item) | AvroMap(entry=item):
            _walk(item, cursors, _Items(wanted=False))
        case AvroPrimitive() | AvroFixed():
            cursors.skip(wire_width(avro) or 0, "a value of fixed width")


def _step_over_bytes(cursors: Cursors) -> None:
    what = "a value of variable length"
    length = cursors.common_number(MAX_BYTES)
    cursors.skip(cursors.lengths(what) if length is None else length, what)


def _step_over_union(union: AvroUnion, cursors: Cursors) -> None:
    common = cursors.common_number(len(union.branches) - 1)
    if common is not None:
        step_over(union.branches[common], cursors)
        return
    branches = cursors.branches(len(union.branches))
    for number, branch in enumerate(union.branches):
        chosen = branches == number
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
    items = _Items(wanted=True)
    _walk(item, cursors, items)
    arrays, starts = np.concatenate(items.arrays), np.concatenate(items.starts)
    order = np.argsort(arrays, kind="stable")
    arrays, starts = arrays[order], starts[order]
    counts = np.bincount(arrays, minlength=len(cursors))
    return counts, Cursors(cursors.source, starts, cursors.end[arrays])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Items:
    """The number of the array, and the start, of each item, in the order in which they were read."""

    wanted: bool
    arrays: list[Ints] = field(default_factory=lambda: [_NO_POSITIONS])
    starts: list[Ints] = field(default_factory=lambda: [_NO_POSITIONS])

    def add(self, arrays: Ints, starts: Ints) -> None:
        self.arrays.append(arrays)
        self.starts.append(starts)

    def limit(self, item: AvroType) -> int:
        """How many more items are allowed; the bytes of a block limit all items but those that take none."""
        if min_width(item) or not self.wanted:
            return MAX_BYTES
        return MAX_EMPTY_ITEMS - sum(starts.size for starts in self.starts)


def _walk(item: AvroType, cursors: Cursors, items: _Items) -> None:
    """Moves each cursor past its array, all together as long as many arrays have another block."""
    live = np.arange(len(cursors))
    while live.size >= MIN_TOGETHER:
        moving = cursors.select(live)
        counts, announced = _block_headers(item, moving)
        if counts.sum() > items.limit(item):
            moving.refuse(counts > 0, "too many array items without bytes", f"up to {MAX_EMPTY_ITEMS}")
        starts = _step_over_items(item, moving, counts, wanted=items.wanted)
        if items.wanted:
            items.add(np.repeat(live, counts), starts)
        differs = (announced >= 0) & (moving.pos != announced)
        moving.refuse(differs, "array items of another size than announced", "the size announced")
        cursors.resume(live, moving)
        live = live[counts > 0]
    if live.size:
        _walk_singly(item, cursors, live, items)


def _walk_singly(item: AvroType, cursors: Cursors, index: Ints, items: _Items) -> None:
    starts = array("q")
    step = array_step(item, cursors.source, starts if items.wanted else None)
    counts, ends = [], []
    for pos, end in zip(cursors.pos[index].tolist(), cursors.end[index].tolist(), strict=True):
        before = len(starts)
        ends.append(step(pos, end))
        counts.append(len(starts) - before)
    cursors.move(index, np.array(ends, np.int64))
    items.add(np.repeat(index, counts), np.array(starts, np.int64))


def _block_headers(item: AvroType, cursors: Cursors) -> tuple[Ints, Ints]:
    """The number of items in the next block of each array, and the end that it announces, -1 if none."""
    counts = cursors.varints("an item count")
    announced = np.full(len(cursors), -1, np.int64)
    sized = np.flatnonzero(counts < 0)
    if sized.size:
        moving = cursors.select(sized)
        sizes = moving.lengths("an array block")
        announced[sized] = moving.pos + np.minimum(sizes, moving.end - moving.pos + 1)
        cursors.resume(sized, moving)
        counts = np.abs(counts)
    width = min_width(item)
    max_items = (cursors.end - cursors.pos) // width if width else MAX_EMPTY_ITEMS
    # The absolute value of the smallest long is negative.
    cursors.refuse((counts < 0) | (counts > max_items), "a block of more array items than fit", "items that fit")
    return counts, announced


def _step_over_items(item: AvroType, cursors: Cursors, counts: Ints, *, wanted: bool) -> Ints:
    """Moves the cursors past the next ``counts`` items; returns where these begin, empty unless ``wanted``."""
    slots = np.cumsum(counts) - counts
    total = int(counts.sum())
    width = wire_width(item)
    if width is not None:
        first = cursors.skip(counts * width, "array items")
        return np.repeat(first - slots * width, counts) + np.arange(total) * width if wanted else _NO_POSITIONS
    starts = np.empty(total, np.int64)
    live, nth = np.flatnonzero(counts), 0
    while live.size >= MIN_TOGETHER:
        moving = cursors.select(live)
        starts[slots[live] + nth] = moving.pos
        step_over(item, moving)
        cursors.resume(live, moving)
        nth += 1
        live = live[counts[live] > nth]
    step = value_step(item, cursors.source)
    ends = []
    for row, pos, end in zip(live.tolist(), cursors.pos[live].tolist(), cursors.end[live].tolist(), strict=True):
        positions = array("q", [pos])
        for _ in range(counts[row] - nth):
            positions.append(step(positions[-1], end))
        ends.append(positions.pop())
        starts[slots[row] + nth :][: len(positions)] = positions
    cursors.move(live, np.array(ends, np.int64))
    return starts
