"""Reads many Avro datums at once: one cursor for each datum, all moved together.

Cursors read values, skip them, or move to each item of arrays and maps. The n-th items of all arrays are skipped
together; the few longest arrays are finished one value at a time, because moving cursors together pays only for many.

A value must end within its own datum; otherwise the error names the datum.

Source: "Binary Encoding" of the Avro specification.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
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

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
_Words = npt.NDArray[np.uint64]
WORD_BYTES = 8
# Hudi's writers hold a block in one Java byte array, and Arrow's 32-bit offsets reach no further either.
MAX_BYTES = 2**31 - 1
_CONTINUATION_BIT = 0x80
_MAX_VARINT_BYTES = 10
# (position, end of the datum) -> position after the value; raises CorruptLogFileError.
Step: TypeAlias = Callable[[int, int], int]
_StepItems: TypeAlias = Callable[[int, int, int], int]
_ReadNumber: TypeAlias = Callable[[int, int], tuple[int, int]]
# With fewer cursors, the overhead of NumPy calls exceeds the cost of stepping in Python.
MIN_TOGETHER = 64
_NO_POSITIONS: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatumBytes:
    """The bytes of a block with datums at ``starts``; ``path`` and ``block_offset`` are for errors."""

    buffer: pa.Buffer
    data: Bytes
    starts: Ints
    path: str
    block_offset: int

    @classmethod
    def of(cls, buffer: pa.Buffer, starts: Ints, path: str, block_offset: int) -> "DatumBytes":
        """The bytes of ``buffer``, padded to at least one word.

        Raises:
            UnsupportedTableError: there are more bytes than Hudi can write.
        """
        if buffer.size > MAX_BYTES:
            raise UnsupportedTableError("log block", f"{buffer.size} bytes", f"up to {MAX_BYTES} bytes")
        if buffer.size < WORD_BYTES:
            buffer = pa.py_buffer(buffer.to_pybytes().ljust(WORD_BYTES, b"\0"))
        data = np.frombuffer(memoryview(buffer), np.uint8)
        return cls(buffer=buffer, data=data, starts=starts, path=path, block_offset=block_offset)

    def corrupt(self, position: int, actual: str, expected: str) -> CorruptLogFileError:
        """The error for the bytes at ``position``; it names the record of the block."""
        record = int(np.searchsorted(self.starts, position, side="right")) - 1
        location = f"record {max(record, 0)} of the block (byte {position} of its content)"
        return CorruptLogFileError(self.path, self.block_offset, f"{actual} in {location}", expected)

    def windows(self, positions: Ints, width: int) -> Bytes:
        """The ``width`` bytes at each position, as one row each; they must lie within the data."""
        if not width:
            return np.empty((positions.size, width), np.uint8)
        return windows_at(self.data, positions, width).view(np.uint8).reshape(-1, width)

    def words(self, positions: Ints) -> _Words:
        """The eight bytes at each position as a little-endian number, with zeros after the end of the data."""
        last = self.data.size - WORD_BYTES
        if positions.max(initial=0) <= last:
            return self.windows(positions, WORD_BYTES).view(np.dtype("<u8")).reshape(-1)
        inside = np.minimum(positions, last)
        words = self.words(inside)
        return words >> ((positions - inside) * 8).astype(np.uint64)


def windows_at(data: Bytes, positions: Ints, width: int) -> npt.NDArray[np.void]:
    """The ``width`` bytes (at least 1) at each position, as one item each; they must lie within the data."""
    if not positions.size:
        return np.empty(0, f"V{width}")
    # A view of overlapping items of a void type lets NumPy copy whole windows, which is faster than bytes.
    return np.ndarray((data.size - width + 1,), f"V{width}", data.data, strides=(1,))[positions]


class Cursors:
    """The current position in each datum, and its end. Returned arrays are never modified later."""

    __slots__ = ("end", "pos", "source")

    def __init__(self, source: DatumBytes, pos: Ints, end: Ints) -> None:
        self.source = source
        self.pos = pos
        self.end = end

    def __len__(self) -> int:
        return self.pos.size

    def select(self, index: Ints) -> "Cursors":
        """Independent cursors for the datums at ``index``."""
        return Cursors(self.source, self.pos[index], self.end[index])

    def resume(self, index: Ints, moved: "Cursors") -> None:
        """Moves the cursors at ``index`` to the positions of ``moved``, which came from ``select(index)``."""
        self.move(index, moved.pos)

    def move(self, index: Ints, positions: Ints) -> None:
        """Sets the positions of the cursors at ``index``."""
        self.pos = self.pos.copy()
        self.pos[index] = positions

    def refuse(self, where: Bools, actual: str, expected: str) -> None:
        """Raises CorruptLogFileError for the first datum where ``where`` is true, if any."""
        # This is faster than ``any``.
        if np.count_nonzero(where):
            raise self.source.corrupt(int(self.pos[where.argmax()]), actual, expected)

    def skip(self, lengths: Ints | int, what: str) -> Ints:
        """Moves the cursors by ``lengths`` bytes and returns their positions before."""
        self.refuse(lengths > self.end - self.pos, f"{what} that runs past the end", "the record's own bytes")
        starts = self.pos
        self.pos = starts + lengths
        return starts

    def lengths(self, what: str) -> Ints | int:
        """The next lengths, or the length that all have; the caller compares them with the remaining bytes."""
        length = self.common_number(MAX_BYTES)
        if length is not None:
            return length
        lengths = self.varints(what)
        self.refuse(lengths < 0, f"{what} of negative length", "a length")
        return lengths

    def fixed(self, width: int, what: str) -> Bytes:
        """The next ``width`` bytes, one row for each datum."""
        return self.source.windows(self.skip(width, what), width)

    def varints(self, what: str) -> Ints:
        """The next ints or longs: zigzag-encoded varints."""
        self.refuse(self.pos >= self.end, f"the end before {what}", "the record's remaining fields")
        first = self.source.data[self.pos]
        if first.max(initial=0) < _CONTINUATION_BIT:
            self.pos = self.pos + 1
            return ((first >> 1).view(np.int8) ^ -(first & 1).view(np.int8)).astype(np.int64)
        unsigned, lengths = self._unsigned(first)
        self.refuse(lengths > _MAX_VARINT_BYTES, f"{what} of more than 64 bits", "a number of at most 64 bits")
        self.skip(lengths, what)
        return ((unsigned >> 1) ^ (0 - (unsigned & 1))).view(np.int64)

    def common_number(self, max_number: int) -> int | None:
        """The next int or long if it is one byte, from 0 to ``max_number``, and the same for all cursors.

        Otherwise returns None and moves no cursor.
        """
        if not self.pos.size:
            return None
        # Behind the last byte, clipping takes that one; then a cursor would move beyond its end.
        first = self.source.data.take(self.pos, mode="clip")
        byte = int(first[0])
        if byte >= _CONTINUATION_BIT or byte & 1 or byte >> 1 > max_number or np.count_nonzero(first != byte):
            return None
        moved = self.pos + 1
        if np.count_nonzero(moved > self.end):
            return None
        self.pos = moved
        return byte >> 1

    def branches(self, count: int) -> Ints:
        """The next branch numbers of a union of ``count`` branches."""
        branches = self.varints("a union branch")
        self.refuse(
            (branches < 0) | (branches >= count),
            "a branch that the union lacks",
            f"one of its {count} branches",
        )
        return branches

    def skip_numbers(self) -> None:
        """Moves the cursors past ints or longs."""
        what = "a number"
        self.refuse(self.pos >= self.end, f"the end before {what}", "the record's remaining fields")
        widths: Ints | int = 1
        longer = self.source.data[self.pos] >= _CONTINUATION_BIT
        if np.count_nonzero(longer):
            widths = _number_widths(self.source, self.pos, longer)
            self.refuse(widths > _MAX_VARINT_BYTES, f"{what} of more than 64 bits", "a number of at most 64 bits")
        self.skip(widths, what)

    def _unsigned(self, first: Bytes) -> tuple[_Words, Ints]:
        multibyte = np.flatnonzero(first >= _CONTINUATION_BIT)
        if 2 * multibyte.size > first.size:
            return _wide_numbers(self.source, self.pos)
        unsigned, lengths = first.astype(np.uint64), np.ones(first.size, np.int64)
        unsigned[multibyte], lengths[multibyte] = _wide_numbers(self.source, self.pos[multibyte])
        return unsigned, lengths


def _number_widths(source: DatumBytes, positions: Ints, longer: Bools) -> Ints:
    """The number of bytes of varints, some of which take more than one: 11 if one has more than 64 bits."""
    longest = longer & (source.data[1:].take(positions, mode="clip") >= _CONTINUATION_BIT)
    widths = longer + np.int64(1)
    index = np.flatnonzero(longest)
    if index.size:
        stops, lengths = _stops(source.words(positions[index]))
        widths[index] = lengths if stops.all() else _wide_numbers(source, positions[index])[1]
    return widths


def _stops(words: _Words) -> tuple[_Words, Ints]:
    """The highest bits of the bytes that may end a varint, and the number of bytes up to the first of them, if any."""
    stops = ~words & np.uint64(0x8080808080808080)
    # Each byte up to the last one has its lowest bit; the product adds these up in the highest byte.
    ones = np.uint64(0x0101010101010101)
    lowest_bits = ((stops & (0 - stops)) - np.uint64(1)) & ones
    return stops, ((lowest_bits * ones) >> np.uint64(56)).astype(np.int64)


def _wide_numbers(source: DatumBytes, positions: Ints) -> tuple[_Words, Ints]:
    """Unsigned varints, and the number of bytes of each: 11 if it has more than 64 bits."""
    words = source.words(positions)
    stops, lengths = _stops(words)
    below_stop = (stops & (0 - stops)) - np.uint64(1)
    digits = words & below_stop & np.uint64(0x7F7F7F7F7F7F7F7F)
    # Three steps join eight digits of 7 bits: pairs to 14 bits, to 28, to 56.
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    ):
        digits = (digits & np.uint64(low)) | ((digits & np.uint64(high)) >> np.uint64(shift))
    longer = np.flatnonzero(stops == 0)
    if longer.size:
        tail = source.words(positions[longer] + WORD_BYTES)
        ninth, tenth = tail & np.uint64(0xFF), (tail >> np.uint64(8)) & np.uint64(0xFF)
        tenth[ninth < _CONTINUATION_BIT] = 0
        digits[longer] |= ((ninth & np.uint64(0x7F)) << np.uint64(56)) | (tenth << np.uint64(63))
        lengths[longer] = np.where(ninth < _CONTINUATION_BIT, 9, np.where(tenth <= 1, 10, 11))
    return digits, lengths


def value_step(avro: AvroType, source: DatumBytes) -> Step:
    """A function that steps over one value of the type."""
    match avro:
        case AvroPrimitive(kind="string" | "bytes"):
            return _bytes_step(source)
        case AvroPrimitive(kind="int" | "long"):
            read = _number_reader(source)
            return lambda pos, end: read(pos, end)[1]
        case AvroEnum():
            return _enum_step(source, len(avro.symbols))
        case AvroRecord():
            return _record_step(tuple(value_step(field.type, source) for field in avro.fields))
        case AvroUnion():
            return _union_step(source, avro.branches)
        case AvroArray(items=item) | AvroMap(entry=item):
            return array_step(item, source)
        case AvroPrimitive() | AvroFixed():
            return _fixed_step(source, wire_width(avro) or 0)


def array_step(item: AvroType, source: DatumBytes, starts: "array[int] | None" = None) -> Step:
    """A function that steps over an array and appends the position of each item to ``starts``, if given."""
    read_header = _block_header_reader(item, source)
    step_items = _items_step(item, source) if starts is None else _collecting_items_step(item, source, starts)

    def step(pos: int, end: int) -> int:
        count, size, pos = read_header(pos, end)
        while count:
            first = pos
            pos = step_items(pos, end, count)
            if size is not None and pos - first != size:
                raise source.corrupt(first, f"array items of {pos - first} bytes", f"the {size} bytes announced")
            count, size, pos = read_header(pos, end)
        return pos

    return step


def _items_step(item: AvroType, source: DatumBytes) -> _StepItems:
    width = wire_width(item)
    if width is not None:
        # The end is not exceeded, because the header of the block was checked.
        return lambda pos, _end, count: pos + count * width
    item_step = value_step(item, source)

    def step(pos: int, end: int, count: int) -> int:
        for _ in range(count):
            pos = item_step(pos, end)
        return pos

    return step


def _collecting_items_step(item: AvroType, source: DatumBytes, starts: "array[int]") -> _StepItems:
    item_step = value_step(item, source)
    max_items = source.data.size if min_width(item) else MAX_EMPTY_ITEMS

    def step(pos: int, end: int, count: int) -> int:
        if len(starts) + count > max_items:
            raise source.corrupt(pos, f"{len(starts) + count} array items", f"up to {max_items} items")
        for _ in range(count):
            starts.append(pos)
            pos = item_step(pos, end)
        return pos

    return step


def _block_header_reader(item: AvroType, source: DatumBytes) -> Callable[[int, int], tuple[int, int | None, int]]:
    read = _number_reader(source)
    width = min_width(item)

    def read_header(pos: int, end: int) -> tuple[int, int | None, int]:
        count, after = read(pos, end)
        size = None
        if count < 0:
            size, after = read(after, end)
        max_items = (end - after) // width if width else MAX_EMPTY_ITEMS
        if abs(count) > max_items:
            raise source.corrupt(pos, f"a block of {abs(count)} array items", f"up to {max_items} items")
        return abs(count), size, after

    return read_header


def _number_reader(source: DatumBytes) -> _ReadNumber:
    data = source.data.data

    def read(pos: int, end: int) -> tuple[int, int]:
        number = shift = 0
        for index in range(pos, min(end, pos + _MAX_VARINT_BYTES)):
            byte = data[index]
            number |= (byte & 0x7F) << shift
            if byte < _CONTINUATION_BIT:
                if number >> 64:
                    break
                return (number >> 1) ^ -(number & 1), index + 1
            shift += 7
        raise source.corrupt(pos, "no whole number", f"one in up to {_MAX_VARINT_BYTES} bytes and 64 bits")

    return read


def _fixed_step(source: DatumBytes, width: int) -> Step:
    def step(pos: int, end: int) -> int:
        if width > end - pos:
            raise source.corrupt(pos, f"{end - pos} bytes left", f"a value of {width} bytes")
        return pos + width

    return step


def _bytes_step(source: DatumBytes) -> Step:
    read = _number_reader(source)

    def step(pos: int, end: int) -> int:
        length, pos = read(pos, end)
        if not 0 <= length <= end - pos:
            raise source.corrupt(pos, f"a value of {length} bytes", f"0 to {end - pos} bytes")
        return pos + length

    return step


def _record_step(steps: tuple[Step, ...]) -> Step:
    def step(pos: int, end: int) -> int:
        for field_step in steps:
            pos = field_step(pos, end)
        return pos

    return step


def _enum_step(source: DatumBytes, symbols: int) -> Step:
    read = _number_reader(source)

    def step(pos: int, end: int) -> int:
        symbol, after = read(pos, end)
        if not 0 <= symbol < symbols:
            raise source.corrupt(pos, f"symbol {symbol} of an enum", f"one of its {symbols} symbols")
        return after

    return step


def _union_step(source: DatumBytes, branches: tuple[AvroType, ...]) -> Step:
    read = _number_reader(source)
    # Composed when first met: most branches of a wide union never are.
    steps: dict[int, Step] = {}

    def step(pos: int, end: int) -> int:
        branch, after = read(pos, end)
        if branch not in steps:
            if not 0 <= branch < len(branches):
                raise source.corrupt(pos, f"branch {branch} of a union", f"one of its {len(branches)} branches")
            steps[branch] = value_step(branches[branch], source)
        return steps[branch](after, end)

    return step


def step_over(avro: AvroType, cursors: Cursors) -> None:
    """Moves every cursor past one value."""
    match avro:
        case AvroPrimitive(kind="string" | "bytes"):
            what = "a value of variable length"
            cursors.skip(cursors.lengths(what), what)
        case AvroPrimitive(kind="int" | "long") | AvroEnum():
            cursors.skip_numbers()
        case AvroRecord():
            for entry in avro.fields:
                step_over(entry.type, cursors)
        case AvroUnion():
            _step_over_union(avro, cursors)
        case AvroArray(items=item) | AvroMap(entry=item):
            _walk(item, cursors, _Items(collects=False))
        case AvroPrimitive() | AvroFixed():
            cursors.skip(wire_width(avro) or 0, "a value of fixed width")


def _step_over_union(union: AvroUnion, cursors: Cursors) -> None:
    common = cursors.common_number(len(union.branches) - 1)
    if common is not None:
        step_over(union.branches[common], cursors)
        return
    branches = cursors.branches(len(union.branches))
    for number, branch in enumerate(union.branches):
        mask = branches == number
        if mask.all():
            step_over(branch, cursors)
        elif branch != NULL:
            index = np.flatnonzero(mask)
            moving = cursors.select(index)
            step_over(branch, moving)
            cursors.resume(index, moving)


def step_into_items(item: AvroType, cursors: Cursors) -> tuple[Ints, Cursors]:
    """The number of items in each array, and a cursor at each item, array by array.

    Moves ``cursors`` past the arrays.
    """
    items = _Items(collects=True)
    _walk(item, cursors, items)
    arrays, starts = np.concatenate(items.arrays), np.concatenate(items.starts)
    order = np.argsort(arrays, kind="stable")
    arrays, starts = arrays[order], starts[order]
    counts = np.bincount(arrays, minlength=len(cursors))
    return counts, Cursors(cursors.source, starts, cursors.end[arrays])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Items:
    """The array number and the start of each item, in the order of reading; both stay empty unless it ``collects``."""

    collects: bool
    arrays: list[Ints] = field(default_factory=lambda: [_NO_POSITIONS])
    starts: list[Ints] = field(default_factory=lambda: [_NO_POSITIONS])

    def add(self, arrays: Ints, starts: Ints) -> None:
        self.arrays.append(arrays)
        self.starts.append(starts)

    def limit(self, item: AvroType) -> int:
        """The number of further items that are allowed. Only items that take no bytes are not
        limited by the block's size.
        """
        if min_width(item) or not self.collects:
            return MAX_BYTES
        return MAX_EMPTY_ITEMS - sum(starts.size for starts in self.starts)


def _walk(item: AvroType, cursors: Cursors, items: _Items) -> None:
    """Moves each cursor past its array; arrays move together as long as many of them have another block."""
    live = np.arange(len(cursors))
    while live.size >= MIN_TOGETHER:
        moving = cursors.select(live)
        counts, announced = _block_headers(item, moving)
        if counts.sum() > items.limit(item):
            moving.refuse(counts > 0, "too many array items without bytes", f"up to {MAX_EMPTY_ITEMS}")
        starts = _step_over_items(item, moving, counts, collects=items.collects)
        if items.collects:
            items.add(np.repeat(live, counts), starts)
        differs = (announced >= 0) & (moving.pos != announced)
        moving.refuse(differs, "array items of another size than announced", "the size announced")
        cursors.resume(live, moving)
        live = live[counts > 0]
    if live.size:
        _walk_singly(item, cursors, live, items)


def _walk_singly(item: AvroType, cursors: Cursors, index: Ints, items: _Items) -> None:
    starts = array("q")
    step = array_step(item, cursors.source, starts if items.collects else None)
    counts, ends = [], []
    for pos, end in zip(cursors.pos[index].tolist(), cursors.end[index].tolist(), strict=True):
        before = len(starts)
        ends.append(step(pos, end))
        counts.append(len(starts) - before)
    cursors.move(index, np.array(ends, np.int64))
    items.add(np.repeat(index, counts), np.array(starts, np.int64))


def _block_headers(item: AvroType, cursors: Cursors) -> tuple[Ints, Ints]:
    """The number of items in the next block of each array, and its announced end, -1 if it has none."""
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


def _step_over_items(item: AvroType, cursors: Cursors, counts: Ints, *, collects: bool) -> Ints:
    """Moves the cursors past the next ``counts`` items; returns the starts of the items if it ``collects`` them."""
    slots = np.cumsum(counts) - counts
    total = int(counts.sum())
    width = wire_width(item)
    if width is not None:
        first = cursors.skip(counts * width, "array items")
        return np.repeat(first - slots * width, counts) + np.arange(total) * width if collects else _NO_POSITIONS
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
