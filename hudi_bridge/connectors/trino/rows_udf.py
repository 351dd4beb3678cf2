"""Avro records of a log block -> rows, with the standard library alone.

The source text of this module runs in Trino's Python. A chunk is as for ``decode_udf``. A layout says as JSON how the
records of a writer are stored, and which fields are wanted: ``hudi_bridge.engines.log_blocks`` makes it. For each
layout, the text of a function is made and compiled once. Each step of Python takes about a microsecond there, and a
call more: so lengths and numbers of one byte are looked up, and a field that mostly has the value of the record before
is compared with its bytes.

Dates and times stay the whole numbers that they are stored as, those of milliseconds in microseconds. Arrays, and maps,
which are arrays of entries, begin with None: Trino 476 takes the values that follow an empty one for other types.

Source: the Avro specification, "Binary Encoding".
"""

import json
import struct
from decimal import Context, Decimal
from typing import Any

READERS: dict[str, Any] = {}
SHORT = 1 << 7
ZIGZAG = tuple((byte >> 1) ^ -(byte & 1) for byte in range(SHORT))
ENDS = tuple(0 if byte >= SHORT or byte & 1 else (byte >> 1) + 1 for byte in range(2 * SHORT))
MASKS = tuple((1 << 8 * size) - 1 for size in range(9))
LAST_SHIFT = 63
WIDE = Context(prec=200)
NO_NUMBER = b"\xff" * 11
INDENT = "    "
SIZE_OF = struct.Struct(">i").unpack_from
WORD = struct.Struct("<Q").unpack_from
FLOAT, DOUBLE = struct.Struct("<f").unpack_from, struct.Struct("<d").unpack_from
USED = {
    "WORD": WORD,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "ENDS": ENDS,
    "ZIGZAG": ZIGZAG,
    "SIZE_OF": SIZE_OF,
    "Decimal": Decimal,
    "WIDE": WIDE,
}


def decode_rows(chunk: bytes, layout: str) -> list[Any]:
    """The records of a chunk, each as a tuple of the wanted fields in the order of their slots."""
    if layout not in READERS:
        space = {**USED, "number": number, "size": size}
        exec(reader_text(json.loads(layout)), space)  # noqa: S102 - the text is made here
        READERS[layout] = space["read"]
    rows: list[Any] = READERS[layout](chunk)
    return rows


def reader_text(layout: Any) -> str:  # noqa: ANN401 - any JSON
    """The text of a function ``read``: a chunk -> rows."""
    body, before = [], []
    for position, (slot, kind) in enumerate(layout["fields"]):
        name = f"skipped{position}" if slot is None else f"c{int(slot)}"
        body += value_lines(kind, name, 0)
        if kind[0] == "repeated":
            before += [f"{name} = None", f"{name}_bytes = {NO_NUMBER!r}", f"{name}_size = 0"]
    slots = {slot for slot, _ in layout["fields"]}
    row = "".join(f"c{slot}, " if slot in slots else "None, " for slot in range(layout["width"]))
    return "\n".join(
        [
            f"def read(data, {', '.join(f'{name}={name}' for name in USED)}):",
            "    rows = []",
            "    p = 0",
            "    length = len(data)",
            "    data += bytes(8)",
            *(INDENT + line for line in before),
            "    while p < length:",
            "        stop = p + 4 + SIZE_OF(data, p)[0]",
            "        p += 4",
            *(INDENT * 2 + line for line in body),
            "        if p != stop or p > length:",
            "            raise ValueError(f'a record that should end at byte {stop} of {length} and ends at byte {p}')",
            f"        rows.append(({row}))",
            "    return rows",
        ]
    )


def value_lines(kind: Any, name: str, depth: int) -> list[str]:  # noqa: ANN401 - any JSON
    """The lines that read a value from ``data`` at ``p`` into a variable."""
    if isinstance(kind, str):
        return [line.replace("VALUE", name) for line in SIMPLE[kind]]
    return MAKERS[kind[0]](kind[1:], name, depth)


def fixed_lines(details: Any, name: str, depth: int) -> list[str]:  # noqa: ANN401 - any JSON
    """The lines that read bytes of a fixed size."""
    del depth
    return [f"{name} = data[p:p + {int(details[0])}]", f"p += {int(details[0])}"]


def enum_lines(details: Any, name: str, depth: int) -> list[str]:  # noqa: ANN401 - any JSON
    """The lines that read a symbol."""
    del depth
    return ["i, p = size(data, p)", f"{name} = {tuple(details[0])!r}[i]"]


def decimal_lines(details: Any, name: str, depth: int) -> list[str]:  # noqa: ANN401 - any JSON
    """The lines that read a decimal, whose size is in its type or before its bytes."""
    scale, width = details
    taken = value_lines("bytes" if width is None else ["fixed", width], name, depth)
    return [*taken, f"{name} = Decimal(int.from_bytes({name}, 'big', signed=True)).scaleb({-int(scale)}, WIDE)"]


def row_lines(details: Any, name: str, depth: int) -> list[str]:  # noqa: ANN401 - any JSON
    """The lines that read a record within a column."""
    lines, fields = [], ""
    for position, of_field in enumerate(details[0]):
        lines += value_lines(of_field, f"f{depth}_{position}", depth + 1)
        fields += f"f{depth}_{position}, "
    return [*lines, f"{name} = ({fields})"]


def union_lines(details: Any, name: str, depth: int) -> list[str]:  # noqa: ANN401 - any JSON
    """The lines that read a value of one of several types, the usual one first."""
    lines = ["i = data[p]", "p += 1"]
    order = sorted(enumerate(details[0]), key=lambda branch: branch[1] == "null")
    for turn, (position, branch) in enumerate(order):
        lines.append(f"{'el' if turn else ''}if i == {2 * position}:")
        lines += [INDENT + line for line in value_lines(branch, name, depth)]
    return [*lines, "else:", f"{INDENT}raise ValueError(f'choice {{i}} of {len(order)} before byte {{p}}')"]


def array_lines(details: Any, name: str, depth: int) -> list[str]:  # noqa: ANN401 - any JSON
    """The lines that read an array."""
    return entries_lines(name, depth, [*value_lines(details[0], f"v{depth}", depth + 1), f"e{depth}.append(v{depth})"])


def map_lines(details: Any, name: str, depth: int) -> list[str]:  # noqa: ANN401 - any JSON
    """The lines that read a map."""
    read_key, value = value_lines("string", f"k{depth}", depth), value_lines(details[0], f"v{depth}", depth + 1)
    return entries_lines(name, depth, [*read_key, *value, f"e{depth}.append((k{depth}, v{depth}))"])


def entries_lines(name: str, depth: int, read_one: list[str]) -> list[str]:
    """The lines that read the entries of an array or a map, block by block, to a list that begins with None."""
    count = f"n{depth}"
    return [
        f"e{depth} = [None]",
        f"{count}, p = number(data, p)",
        f"while {count}:",
        f"    if {count} < 0:",
        f"        {count} = -{count}",
        "        p = number(data, p)[1]",
        f"    if {count} > length:",
        f"        raise ValueError(f'{{{count}}} entries before byte {{p}} of {{length}}')",
        f"    for _ in range({count}):",
        *(INDENT * 2 + line for line in read_one),
        f"    {count}, p = number(data, p)",
        f"{name} = e{depth}",
    ]


def repeated_lines(details: Any, name: str, depth: int) -> list[str]:  # noqa: ANN401 - any JSON
    """The lines that read a value which is mostly that of the record before: then it has the same bytes."""
    return [
        f"if data.startswith({name}_bytes, p):",
        f"    p += {name}_size",
        "else:",
        "    start = p",
        *(INDENT + line for line in value_lines(details[0], name, depth)),
        f"    {name}_bytes = data[start:p]",
        f"    {name}_size = p - start",
    ]


def number(data: bytes, p: int) -> tuple[int, int]:
    """The integer at a position, zigzag encoded, and the position after it.

    Of eight bytes, those up to the first that is below 128 are taken, and their groups of seven bits are joined.
    """
    (word,) = WORD(data, p)
    ends = ~word & 0x8080808080808080
    if not ends:
        return long_number(data, p)
    width = (ends & -ends).bit_length() >> 3
    word &= MASKS[width]
    word = (word & 0x007F007F007F007F) | ((word & 0x7F007F007F007F00) >> 1)
    word = (word & 0x00003FFF00003FFF) | ((word & 0x3FFF00003FFF0000) >> 2)
    word = (word & 0x000000000FFFFFFF) | ((word & 0x0FFFFFFF00000000) >> 4)
    return (word >> 1) ^ -(word & 1), p + width


def long_number(data: bytes, p: int) -> tuple[int, int]:
    """As ``number``, for integers of more than eight bytes."""
    value = shift = 0
    while True:
        byte = data[p]
        p += 1
        value |= (byte & ~SHORT) << shift
        if byte < SHORT:
            return (value >> 1) ^ -(value & 1), p
        shift += 7
        if shift > LAST_SHIFT:
            raise ValueError(f"a number of more than 64 bits before byte {p}")


def size(data: bytes, p: int) -> tuple[int, int]:
    """The length at a position, and the position after it."""
    value, p = number(data, p)
    if value < 0:
        raise ValueError(f"a length of {value} before byte {p}")
    return value, p


def sized(taken: str) -> list[str]:
    """The lines that read bytes with their length, which mostly has one byte."""
    return [
        "i = ENDS[data[p]]",
        "if i:",
        f"    VALUE = {taken.format('p + 1', 'p + i')}",
        "    p += i",
        "else:",
        "    i, p = size(data, p)",
        f"    VALUE = {taken.format('p', 'p + i')}",
        "    p += i",
    ]


LONG = [
    "i = data[p]",
    f"if i < {SHORT}:",
    "    p += 1",
    "    VALUE = ZIGZAG[i]",
    "else:",
    "    VALUE, p = number(data, p)",
]
SIMPLE = {
    "null": ["VALUE = None"],
    "boolean": ["VALUE = data[p] != 0", "p += 1"],
    "long": LONG,
    "millis": [*LONG, "VALUE *= 1000"],
    "float": ["VALUE, = FLOAT(data, p)", "p += 4"],
    "double": ["VALUE, = DOUBLE(data, p)", "p += 8"],
    "string": sized("data[{}:{}].decode()"),
    "bytes": sized("data[{}:{}]"),
}
MAKERS = {
    "fixed": fixed_lines,
    "enum": enum_lines,
    "decimal": decimal_lines,
    "row": row_lines,
    "union": union_lines,
    "array": array_lines,
    "map": map_lines,
    "repeated": repeated_lines,
}
