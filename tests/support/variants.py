"""Decodes a VARIANT, value by value, after Parquet's ``VariantEncoding.md``; tests compare rebuilt values by it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from struct import unpack
from typing import Any
from uuid import UUID

_FIXED = {
    3: ("int8", "<b"),
    4: ("int16", "<h"),
    5: ("int32", "<i"),
    6: ("int64", "<q"),
    7: ("double", "<d"),
    11: ("date", "<i"),
    12: ("timestamp", "<q"),
    13: ("timestamp_ntz", "<q"),
    14: ("float", "<f"),
    17: ("time", "<q"),
    18: ("timestamp_ns", "<q"),
    19: ("timestamp_ntz_ns", "<q"),
}


@dataclass(frozen=True, slots=True)
class Primitive:
    """A value that is no object, array or null, with its type; times are numbers since 1970 or midnight."""

    kind: str
    value: Any


def decoded(metadata: bytes, value: bytes) -> Any:
    """Dictionaries, lists, None and ``Primitive``s; checks the order of fields and that nothing follows the value."""
    result, end = _value(_names(metadata), value, 0)
    assert end == len(value)
    return result


def _number(content: bytes, start: int, width: int) -> int:
    assert start + width <= len(content)
    return int.from_bytes(content[start : start + width], "little")


def _names(metadata: bytes) -> list[str]:
    assert metadata[0] & 15 == 1
    width = (metadata[0] >> 6) + 1
    count = _number(metadata, 1, width)
    first = 1 + width * (count + 2)
    offsets = [_number(metadata, 1 + width * (index + 1), width) for index in range(count + 1)] if count else [0]
    assert not count or first + offsets[-1] == len(metadata)
    return [metadata[first + offsets[i] : first + offsets[i + 1]].decode() for i in range(count)]


def _value(names: list[str], content: bytes, start: int) -> tuple[Any, int]:
    basic, header = content[start] & 3, content[start] >> 2
    start += 1
    if basic == 1:
        return Primitive("string", content[start : start + header].decode()), start + header
    if basic == 0:
        return _primitive(header, content, start)
    width, id_width = (header & 3) + 1, ((header >> 2 & 3) + 1 if basic == 2 else 0)
    count_width = 4 if header >> (4 if basic == 2 else 2) & 1 else 1
    count = _number(content, start, count_width)
    ids_at = start + count_width
    offsets_at = ids_at + count * id_width
    values_at = offsets_at + (count + 1) * width
    offsets = [_number(content, offsets_at + i * width, width) for i in range(count + 1)]
    values = [_value(names, content, values_at + offset) for offset in offsets[:-1]]
    assert sum(end - values_at - offset for (_, end), offset in zip(values, offsets, strict=False)) == offsets[-1]
    items = [item for item, _ in values]
    if basic == 3:
        return items, values_at + offsets[-1]
    fields = [names[_number(content, ids_at + i * id_width, id_width)] for i in range(count)]
    assert fields == sorted(set(fields), key=str.encode)
    return dict(zip(fields, items, strict=True)), values_at + offsets[-1]


def _primitive(kind: int, content: bytes, start: int) -> tuple[Any, int]:
    if kind == 0:
        return None, start
    if kind in (1, 2):
        return Primitive("boolean", kind == 1), start
    if kind in (8, 9, 10):
        width = {8: 4, 9: 8, 10: 16}[kind]
        unscaled = int.from_bytes(content[start + 1 : start + 1 + width], "little", signed=True)
        return Primitive(f"decimal{width}", Decimal(unscaled).scaleb(-content[start])), start + 1 + width
    if kind in (15, 16):
        end = start + 4 + _number(content, start, 4)
        taken = content[start + 4 : end]
        assert len(taken) == end - start - 4
        return Primitive(*(("binary", taken) if kind == 15 else ("string", taken.decode()))), end
    if kind == 20:
        return Primitive("uuid", UUID(bytes=content[start : start + 16])), start + 16
    name, layout = _FIXED[kind]
    width = 1 if layout == "<b" else 2 if layout == "<h" else 8 if layout[1] in "qd" else 4
    (number,) = unpack(layout, content[start : start + width])
    return Primitive(name, date(1970, 1, 1) + timedelta(number) if name == "date" else number), start + width


def at_path(value: Any, steps: Sequence[str | int]) -> tuple[Any, ...]:
    """The part of a decoded value at a path, in a tuple; an empty one if there is none."""
    for step in steps:
        has_step = step in value if isinstance(value, dict) else isinstance(value, list) and step in range(len(value))
        if not has_step:
            return ()
        value = value[step]
    return (value,)


def in_json(value: Any) -> Any:
    """A decoded value as it is in JSON, if it has types of JSON alone."""
    if isinstance(value, dict):
        return {name: in_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [in_json(item) for item in value]
    return (
        float(value.value)
        if isinstance(value, Primitive) and value.kind[:7] == "decimal"
        else getattr(value, "value", value)
    )
