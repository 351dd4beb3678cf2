"""Steps over the values of one Avro datum, one value at a time.

This is for the few longest arrays of a block: moving cursors together pays only for many.
"""

from array import array
from collections.abc import Callable
from typing import TypeAlias

from hudi_bridge.logformat.avro_cursors import DatumBytes
from hudi_bridge.schema.avro_types import (
    MAX_EMPTY_ITEMS,
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

# (position, end of the datum) -> position after the value; raises CorruptLogFileError.
Step: TypeAlias = Callable[[int, int], int]
_StepItems: TypeAlias = Callable[[int, int, int], int]
_ReadNumber: TypeAlias = Callable[[int, int], tuple[int, int]]

_CONTINUATION_BIT = 0x80
_MAX_VARINT_BYTES = 10


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


def array_step(item: AvroType, source: DatumBytes, starts: "array[int] | None" = None) -> Step:
    """The function that steps over an array; it appends the position of each item to ``starts``, if given."""
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
        # This cannot pass the end: the header of the block was checked.
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
