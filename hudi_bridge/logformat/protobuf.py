"""Protocol Buffers bytes -> field numbers and raw values; as much of the wire format as an HFile uses.

Varint: little-endian base-128. Field: a varint of number * 8 + wire type, then the value: 0 a varint, 1 eight
bytes, 2 a varint length and that many bytes, 5 four bytes.
"""

from collections.abc import Iterator

_MAX_VARINT_BYTES = 10
_MORE_FOLLOW = 0x80
_FIXED_WIDTHS = {1: 8, 5: 4}
_VARINT, _BYTES = 0, 2


def parse_varint(data: bytes, position: int) -> tuple[int, int]:
    """(the unsigned value at the position, the position after it).

    Raises:
        ValueError: the data ends within the varint, or it is longer than 64 bits need.
    """
    value = 0
    for index, byte in enumerate(data[position : position + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * index
        if byte < _MORE_FOLLOW:
            return value, position + index + 1
    raise ValueError(f"a varint without an end at byte {position}")


def iter_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of one message, in order; a value is an int for a varint and otherwise bytes.

    Raises:
        ValueError: the data is not a message.
    """
    position = 0
    while position < len(data):
        tag, position = parse_varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, position = parse_varint(data, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            length, position = parse_varint(data, position)
        elif wire_type in _FIXED_WIDTHS:
            length = _FIXED_WIDTHS[wire_type]
        else:
            raise ValueError(f"wire type {wire_type} at byte {position}")
        if length > len(data) - position:
            raise ValueError(f"a field of {length} bytes at byte {position}, {len(data) - position} are left")
        yield number, data[position : position + length]
        position += length


def parse_delimited(data: bytes) -> bytes:
    """The message that follows a varint of its length; what comes after it is ignored.

    Raises:
        ValueError: the data ends within the message.
    """
    length, position = parse_varint(data, 0)
    if length > len(data) - position:
        raise ValueError(f"a message of {length} bytes, {len(data) - position} are left")
    return data[position : position + length]
