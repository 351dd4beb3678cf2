"""Writes HFiles of version 3, byte by byte, for tests."""

import gzip
import itertools
import struct
from collections.abc import Mapping, Sequence

GZ = 1
NONE = 2

END_OF_KEY = b"\x00" + struct.pack(">q", (1 << 63) - 1) + b"\x04"
"""No family, the latest timestamp, and the type Put, as Hudi writes them."""

Cell = tuple[str | bytes, bytes]


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def raw(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def cell_key(row: str | bytes) -> bytes:
    return struct.pack(">h", len(raw(row))) + raw(row) + END_OF_KEY


def cell_bytes(key: bytes, value: bytes) -> bytes:
    return struct.pack(">ii", len(key), len(value)) + key + value + b"\x00"


def vint(number: int) -> bytes:
    if number <= 127:
        return struct.pack(">b", number)
    width = (number.bit_length() + 7) // 8
    return struct.pack(">b", -112 - width) + number.to_bytes(width, "big")


def block(magic: bytes, data: bytes, codec: int = NONE, *, checksums: bytes = bytes(4)) -> bytes:
    stored = gzip.compress(data, mtime=0) if codec == GZ else data
    header = struct.pack(">8siiqbii", magic, len(stored) + len(checksums), len(data), -1, 0, 16384, 33 + len(stored))
    return header + stored + checksums


def data_block(cells: Sequence[Cell], codec: int = NONE) -> bytes:
    return block(b"DATABLK*", b"".join(cell_bytes(cell_key(row), value) for row, value in cells), codec)


def lower_index(magic: bytes, entries: Sequence[tuple[str | bytes, int, int]], codec: int = NONE) -> bytes:
    """A leaf or intermediate index block of entries: row, offset and size of a block."""
    written = [struct.pack(">qi", offset, size) + cell_key(row) for row, offset, size in entries]
    ends = list(itertools.accumulate(map(len, written), initial=0))
    offsets = b"".join(struct.pack(">i", end) for end in ends)
    return block(magic, struct.pack(">i", len(entries)) + offsets + b"".join(written), codec)


def file_info(pairs: Mapping[str, bytes]) -> bytes:
    message = b"".join(field(1, field(1, name.encode()) + field(2, value)) for name, value in pairs.items())
    return b"PBUF" + varint(len(message)) + message


def trailer(fields: Mapping[int, int], version: int = 3) -> bytes:
    message = b"".join(field(number, value) for number, value in fields.items())
    return (b'TRABLK"$' + varint(len(message)) + message).ljust(4092, b"\x00") + struct.pack(">i", version)


def hfile(
    blocks: Sequence[Sequence[Cell]],
    *,
    codec: int = NONE,
    info: Mapping[str, bytes] | None = None,
    meta: Mapping[str, bytes] | None = None,
    between: bytes = b"",
    version: int = 3,
    overrides: Mapping[int, int] | None = None,
) -> bytes:
    """An HFile with these blocks of cells, each followed by ``between``; ``overrides`` are fields of the trailer."""
    body = b""
    index = b""
    offsets = [0]
    for cells in blocks:
        offsets.append(len(body))
        written = data_block(cells, codec)
        key = cell_key(cells[0][0])
        index += struct.pack(">qi", len(body), len(written)) + vint(len(key)) + key
        body += written + between
    meta_index = b""
    for name, content in (meta or {}).items():
        written = block(b"METABLKc", content, codec)
        meta_index += struct.pack(">qi", len(body), len(written)) + vint(len(name)) + name.encode()
        body += written
    load_on_open = len(body)
    body += block(b"IDXROOT2", index, codec) + block(b"IDXROOT2", meta_index, codec)
    info_offset = len(body)
    body += block(b"FILEINF2", file_info(info or {}), codec)
    fields = {
        1: info_offset,
        2: load_on_open,
        5: len(blocks),
        6: len(meta or {}),
        7: sum(map(len, blocks)),
        8: 1,
        9: 0,
        10: offsets[-1],
        12: codec,
    }
    return body + trailer(fields | dict(overrides or {}), version)


def hfile_of_levels(blocks: Sequence[Sequence[Cell]], levels: int, fanout: int, *, codec: int = NONE) -> bytes:
    """An HFile whose index has several levels, each lower block of ``fanout`` entries."""
    body = b""
    entries = []
    for cells in blocks:
        written = data_block(cells, codec)
        entries.append((cells[0][0], len(body), len(written)))
        body += written
    last = entries[-1][1]
    for level in range(levels - 1):
        magic = b"IDXINTE2" if level else b"IDXLEAF2"
        above = []
        for first in range(0, len(entries), fanout):
            part = entries[first : first + fanout]
            written = lower_index(magic, part, codec)
            above.append((part[0][0], len(body), len(written)))
            body += written
        entries = above
    index = b""
    for row, offset, size in entries:
        key = cell_key(row)
        index += struct.pack(">qi", offset, size) + vint(len(key)) + key
    fields = {2: len(body), 5: len(entries), 6: 0, 7: sum(map(len, blocks)), 8: levels, 9: 0, 10: last, 12: codec}
    body += block(b"IDXROOT2", index, codec)
    fields[1] = len(body)
    return body + block(b"FILEINF2", file_info({}), codec) + trailer(fields)
