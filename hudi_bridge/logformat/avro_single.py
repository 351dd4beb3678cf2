"""Steps over the values of one Avro datum, one value at a time.

Moving many cursors together pays only while there are many. The last few long arrays of a block are walked
here instead, by functions put together once for each type.
"""

from array import array
from collections.abc import Callable
from typing import TypeAlias

from hudi_bridge.logformat.avro_cursors import DatumBytes
from hudi_bridge.schema.avro_types import (
    MOST_EMPTY_ITEMS,
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

# (position, end of the datum) -> position after the value; both raise CorruptLogFileError
Step: TypeAlias = Callable[[int, int], int]
_StepItems: TypeAlias = Callable[[int, int, int], int]
_ReadNumber: TypeAlias = Callable[[int, int], tuple[int, int]]

_CONTINUES = 0x80
_BYTES_AT_MOST = 10


def value_step(avro: AvroType, source: DatumBytes) -> Step:
    """The function that steps over one value of the type."""
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


def array_step(item: AvroType, source: DatumBytes, found: "array[int] | None" = None) -> Step:
    """The function that steps over an array and adds the position of each of its items to ``found``."""
    read_header = _block_header_reader(item, source)
    step_items = _items_over(item, source) if found is None else _items_into(item, source, found)

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


def _items_over(item: AvroType, source: DatumBytes) -> _StepItems:
    width = wire_width(item)
    if width is not None:
        # The block's header was refused if this passes the end.
        return lambda pos, _end, count: pos + count * width
    item_step = value_step(item, source)

    def step(pos: int, end: int, count: int) -> int:
        for _ in range(count):
            pos = item_step(pos, end)
        return pos

    return step


def _items_into(item: AvroType, source: DatumBytes, found: "array[int]") -> _StepItems:
    item_step = value_step(item, source)
    room = source.data.size if least_width(item) else MOST_EMPTY_ITEMS

    def step(pos: int, end: int, count: int) -> int:
        if len(found) + count > room:
            raise source.corrupt(pos, f"{len(found) + count} array items", f"up to {room} items")
        for _ in range(count):
            found.append(pos)
            pos = item_step(pos, end)
        return pos

    return step


def _block_header_reader(item: AvroType, source: DatumBytes) -> Callable[[int, int], tuple[int, int | None, int]]:
    read = _number_reader(source)
    least = least_width(item)

    def read_header(pos: int, end: int) -> tuple[int, int | None, int]:
        count, after = read(pos, end)
        size = None
        if count < 0:
            size, after = read(after, end)
        most = (end - after) // least if least else MOST_EMPTY_ITEMS
        if abs(count) > most:
            raise source.corrupt(pos, f"a block of {abs(count)} array items", f"up to {most} items")
        return abs(count), size, after

    return read_header


def _number_reader(source: DatumBytes) -> _ReadNumber:
    data = source.data.data

    def read(pos: int, end: int) -> tuple[int, int]:
        number = shift = 0
        for place in range(pos, min(end, pos + _BYTES_AT_MOST)):
            byte = data[place]
            number |= (byte & 0x7F) << shift
            if byte < _CONTINUES:
                if number >> 64:
                    break
                return (number >> 1) ^ -(number & 1), place + 1
            shift += 7
        raise source.corrupt(pos, "no whole number", f"one in up to {_BYTES_AT_MOST} bytes and 64 bits")

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
    # Put together when they are met: of a wide schema, most branches never are.
    steps: dict[int, Step] = {}

    def step(pos: int, end: int) -> int:
        branch, after = read(pos, end)
        if branch not in steps:
            if not 0 <= branch < len(branches):
                raise source.corrupt(pos, f"branch {branch} of a union", f"one of its {len(branches)} branches")
            steps[branch] = value_step(branches[branch], source)
        return steps[branch](after, end)

    return step
