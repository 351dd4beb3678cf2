"""Replaces the children of struct, list and map arrays; and makes vectors from bytes.

Validity bitmaps and offsets are reused, but those of a slice are copied: values outside of it are not converted.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.schema.casts import Array, ArrowType

# The conversion of a child array; None if it needs none.
ChildStep = Callable[[Array], Array] | None


def rebuild_struct(
    target: ArrowType, children: tuple[tuple[int | None, ChildStep], ...], array: pa.StructArray
) -> Array:
    """The structs with one child for each field of ``target``.

    Args:
        target: the type of the result.
        children: for each field of the target, the index of the child to convert and the conversion; without an index,
            what makes the child of the structs, None for nulls.
        array: the structs.
    """
    fields = [target.field(i) for i in range(target.num_fields)]
    parts = [
        _new_child(field.type, step, array) if position is None else _converted_child(step, array, position)
        for field, (position, step) in zip(fields, children, strict=True)
    ]
    return _from_buffers(target, array, [_validity(array)], parts)


def rebuild_list(target: ArrowType, step: ChildStep, array: "pa.ListArray[Any]") -> Array:
    """The lists with converted elements; large lists become lists."""
    offsets, first, last = _offsets(array)
    values = _converted(step, array.values.slice(first, last - first))
    return _from_buffers(target, array, [_validity(array), offsets], [values])


def rebuild_map(target: ArrowType, key_step: ChildStep, item_step: ChildStep, array: "pa.MapArray[Any, Any]") -> Array:
    """The maps with converted keys and items."""
    offsets, first, last = _offsets(array)
    entries_type = pa.struct([target.key_field, target.item_field])
    keys = _converted(key_step, array.keys.slice(first, last - first))
    items = _converted(item_step, array.items.slice(first, last - first))
    entries: Array = pa.Array.from_buffers(entries_type, last - first, [None], 0, 0, [keys, items])
    return _from_buffers(target, array, [_validity(array), offsets], [entries])


def vectors_from_bytes(target: ArrowType, array: Array) -> Array:
    """Vectors from fixed-size binary values, which hold their numbers, little-endian."""
    width = array.type.byte_width
    numbers = array.buffers()[1] or pa.py_buffer(b"")
    numbers = numbers.slice(array.offset * width, len(array) * width)
    values: Array = pa.Array.from_buffers(target.value_type, len(array) * target.list_size, [None, numbers])
    return _from_buffers(target, array, [_validity(array)], [values])


def as_lists(vectors: Array) -> Array:
    """Fixed-size lists as lists."""
    kind: ArrowType = vectors.type
    return vectors.cast(pa.list_(kind.value_field))


def _new_child(kind: ArrowType, step: ChildStep, array: pa.StructArray) -> Array:
    if step is not None:
        return step(array)
    nulls: Array = pa.nulls(len(array), kind)
    return nulls


def _converted_child(step: ChildStep, array: pa.StructArray, position: int) -> Array:
    if step is None:
        return array.field(position)
    # Made null where the struct is null: the values there may be anything, and fail to convert.
    child: Array = pc.struct_field(array, [position])
    return step(child)


def _converted(step: ChildStep, child: Array) -> Array:
    return child if step is None else step(child)


def _from_buffers(target: ArrowType, array: Array, buffers: list[pa.Buffer | None], children: list[Array]) -> Array:
    return pa.Array.from_buffers(target, len(array), buffers, array.null_count, 0, children)


def _validity(array: Array) -> pa.Buffer | None:
    """The validity bitmap, beginning at its first bit; None if no row is null."""
    if array.null_count == 0:
        return None
    if array.offset == 0:
        return array.buffers()[0]
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())


def _offsets(array: "pa.ListArray[Any] | pa.MapArray[Any, Any]") -> tuple[pa.Buffer | None, int, int]:
    """32-bit offsets that begin at 0, and the range of children that they refer to."""
    offsets = array.offsets
    first, last = (offsets[0].as_py(), offsets[-1].as_py()) if len(offsets) else (0, 0)
    if first == 0 and array.offset == 0 and offsets.type == pa.int32() and len(array):
        return array.buffers()[1], first, last
    return pa.py_buffer((offsets.to_numpy() - first).astype(np.int32).tobytes()), first, last
