"""Paths of VARIANT columns: the values there, and what has to be read for them of a file that has shredded the column.

Values are cut out of encoded ones, for whole columns at a time. As with ``variant_get`` of Spark and the type
``variant``, there is a null where a row lacks the path, and a VARIANT null at a path stays one. The ``metadata`` are
those of the whole value.

Where a file has a path in typed columns, the ``value`` of objects and arrays around it is not read: a row without a
typed value has no object or array there, as the specification says. All other paths are in ``value``.

Source: ``VariantShredding.md`` and ``VariantEncoding.md`` of Parquet; ``VariantGet`` of Spark.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import QueryError
from hudi_bridge.schema.casts import ArrowType
from hudi_bridge.schema.variants import (
    ARRAY,
    BASIC_BITS,
    BASIC_MASK,
    BINARY,
    DECIMAL_TYPES,
    FALSE,
    FIXED_TYPES,
    METADATA,
    OBJECT,
    OBJECT_CUT_OFF,
    SHORT_STRING,
    STRING,
    TRUE,
    TWICE,
    TYPED_VALUE,
    VALUE,
    Array,
    Bytes,
    Ints,
    Layout,
    MalformedVariantError,
    Names,
    byte_ranges,
    content_of,
    numbers_at,
    ramp,
    require,
)

Steps: TypeAlias = tuple[str | int, ...]
"""Names of fields and positions of elements, from the whole value on."""
_CUT_OFF = ("a value that is cut off", "all of its bytes")
_LENGTH_BYTES = 4
_WIDTH_OF_TYPE = {
    **dict.fromkeys((0, TRUE, FALSE), 0),
    **dict(FIXED_TYPES.values()),
    **{kind: 1 + width for _, kind, width in DECIMAL_TYPES},
    **dict.fromkeys((BINARY, STRING), _LENGTH_BYTES),
}
_WIDTHS = np.array([_WIDTH_OF_TYPE.get(kind, -1) for kind in range(256 >> BASIC_BITS)])
"""The bytes after the header of a primitive value of each type, without texts; -1 for types that do not exist."""


@dataclass(frozen=True, slots=True)
class VariantPath:
    """A path within a VARIANT column; made by ``variant_path``."""

    column: str
    steps: Steps


def variant_path(column: str, *steps: str | int) -> VariantPath:
    """The values at a path of a VARIANT column, for the ``columns`` of a scan; they are VARIANT, too.

    ``steps`` are names of fields and positions of array elements, from 0 on. The value is null where a row lacks the
    path, as with ``variant_get(column, path, 'variant')`` of Spark. Of shredded base files without logs to merge, only
    the columns of the path are read::

        table.snapshot().to_table({"id": pc.field("id"), "city": variant_path("v", "address", "city")})

    Raises:
        QueryError: a step is neither a name nor a position.
    """
    for step in steps:
        is_position = isinstance(step, int) and not isinstance(step, bool) and step >= 0
        if not is_position and not isinstance(step, str):
            raise QueryError("variant_path", repr(step), "names of fields, and positions of elements from 0 on")
    return VariantPath(column, steps)


def values_at(structs: Array, steps: Steps) -> Array:
    """The parts of the values at a path, given the parts of whole values; null where a row lacks the path.

    Raises:
        MalformedVariantError: a value on the way cannot be decoded.
    """
    kind: ArrowType = structs.type
    metadata: Array = pc.struct_field(structs, [kind.get_field_index(METADATA)])
    values: Array = pc.struct_field(structs, [kind.get_field_index(VALUE)]).cast(pa.large_binary())
    for part, name in ((metadata, METADATA), (values, VALUE)):
        require(part.null_count == structs.null_count, f"a null in {name}", "both parts of a VARIANT")
    content, offsets = content_of(values)
    rows = np.flatnonzero(np.asarray(values.is_valid()))
    spans = _Spans(rows, offsets[rows], offsets[rows + 1])
    names = Names.of(metadata) if rows.size and any(isinstance(step, str) for step in steps) else None
    for step in steps:
        if isinstance(step, int):
            spans = _elements(content, spans, step)
        elif names is not None:
            spans = _fields(content, spans, step, names)
    sizes = _sizes(content, spans)
    indices = np.full(len(values), -1)
    indices[spans.rows] = np.arange(spans.rows.size)
    is_missing = indices < 0
    taken = byte_ranges(content, spans.begins, spans.begins + sizes).take(pa.array(indices, mask=is_missing))
    parts = {METADATA: metadata, VALUE: taken}
    children = [parts[field.name].cast(field.type) for field in kind]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(is_missing))


def part_to_read(stored: ArrowType, paths: Collection[Steps]) -> tuple[ArrowType, tuple[int, ...]]:
    """The part of a shredded column that has the values at paths: its type, and the numbers of its leaves."""
    kind, leaves = _part_of_group(stored, frozenset(paths), 0)
    return kind, tuple(leaves)


class _Spans(NamedTuple):
    """Values of some rows, in ascending order: where each begins, and a bound for its end."""

    rows: Ints
    begins: Ints
    ends: Ints

    def of_type(self, content: Bytes, basic_type: int) -> "_Spans":
        headers = numbers_at(content, self.begins, 1, self.ends)
        is_of_type = headers & BASIC_MASK == basic_type
        return _Spans(self.rows[is_of_type], self.begins[is_of_type], self.ends[is_of_type])


def _fields(content: Bytes, spans: _Spans, name: str, names: Names) -> _Spans:
    """The values of one field, of the objects that have it."""
    spans = spans.of_type(content, OBJECT)
    layout = Layout.of(content, spans.begins, spans.ends, OBJECT)
    objects, numbers = np.repeat(np.arange(spans.rows.size), layout.counts), ramp(layout.counts)
    ids = layout.ids_of(content, objects, numbers, spans.ends)
    has_name = names.ranks(spans.rows[objects], ids) == names.ranks_of([name])[0]
    objects, numbers = objects[has_name], numbers[has_name]
    require(not (objects[1:] == objects[:-1]).any(), *TWICE)
    return _parts(content, spans, layout, objects, numbers)


def _elements(content: Bytes, spans: _Spans, position: int) -> _Spans:
    """The elements at one position, of the arrays that are long enough."""
    spans = spans.of_type(content, ARRAY)
    layout = Layout.of(content, spans.begins, spans.ends, ARRAY)
    arrays = np.flatnonzero(layout.counts > position)
    return _parts(content, spans, layout, arrays, np.full(arrays.size, position))


def _parts(content: Bytes, spans: _Spans, layout: Layout, values: Ints, numbers: Ints) -> _Spans:
    starts = layout.starts_of(content, values, numbers, spans.ends)
    begins, ends = layout.contents[values] + starts, (layout.contents + layout.sizes)[values]
    require(bool((ends <= spans.ends[values]).all() and (begins < ends).all()), *OBJECT_CUT_OFF)
    return _Spans(spans.rows[values], begins, ends)


def _sizes(content: Bytes, spans: _Spans) -> Ints:
    """The number of bytes of each value, which only its header tells: parts may be in any order."""
    headers = numbers_at(content, spans.begins, 1, spans.ends)
    basic_types, details = headers & BASIC_MASK, headers >> BASIC_BITS
    # Those of objects and arrays are replaced below.
    sizes = np.where(basic_types == SHORT_STRING, 1 + details, 1)
    for basic_type in (OBJECT, ARRAY):
        are_of_type = np.flatnonzero(basic_types == basic_type)
        begins, ends = spans.begins[are_of_type], spans.ends[are_of_type]
        layout = Layout.of(content, begins, ends, basic_type)
        sizes[are_of_type] = layout.contents + layout.sizes - begins
    primitives = np.flatnonzero(basic_types == 0)
    widths = _WIDTHS[details[primitives]]
    if (widths < 0).any():
        raise MalformedVariantError(
            f"a primitive value of type {details[primitives][widths < 0][0]}", "types that Parquet specifies"
        )
    sizes[primitives] = 1 + widths
    texts = np.flatnonzero((basic_types == 0) & np.isin(details, (BINARY, STRING)))
    sizes[texts] += numbers_at(content, spans.begins[texts] + 1, _LENGTH_BYTES, spans.ends[texts])
    require(bool((spans.begins + sizes <= spans.ends).all()), *_CUT_OFF)
    return sizes


def _part_of_group(group: ArrowType, paths: frozenset[Steps], first: int) -> tuple[ArrowType, list[int]]:
    """As ``part_to_read``, for a group whose leaves are numbered from ``first`` on."""
    whole = group, list(range(first, first + _leaves(group)))
    names = [field.name for field in group]
    typed = group.field(TYPED_VALUE).type if TYPED_VALUE in names else pa.null()
    inside = frozenset(steps for steps in paths if steps and _is_typed(typed, steps[0]))
    needs_value = len(inside) < len(paths)
    if () in paths or (needs_value and VALUE not in names):
        return whole
    fields, leaves = [], []
    for field in group:
        kind, numbers = field.type, list(range(first, first + _leaves(field.type)))
        first += len(numbers)
        if field.name == TYPED_VALUE and inside:
            kind, numbers = _part_of_typed(field.type, inside, numbers[0])
        if field.name == METADATA or (field.name == VALUE and needs_value) or (field.name == TYPED_VALUE and inside):
            fields.append(field.with_type(kind))
            leaves += numbers
    return pa.struct(fields), leaves


def _part_of_typed(kind: ArrowType, paths: frozenset[Steps], first: int) -> tuple[ArrowType, list[int]]:
    """As ``_part_of_group``, for typed values that the paths lead into."""
    if not pa.types.is_struct(kind):
        element, leaves = _part_of_group(kind.value_type, _after(paths), first)
        list_of = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        return list_of(kind.value_field.with_type(element)), leaves
    fields, leaves = [], []
    for field in kind:
        inside = frozenset(steps for steps in paths if steps[0] == field.name)
        if inside:
            part, numbers = _part_of_group(field.type, _after(inside), first)
            fields.append(field.with_type(part))
            leaves += numbers
        first += _leaves(field.type)
    return pa.struct(fields), leaves


def _after(paths: frozenset[Steps]) -> frozenset[Steps]:
    return frozenset(steps[1:] for steps in paths)


def _is_typed(typed: ArrowType, step: str | int) -> bool:
    """Whether all values that a step leads to are in typed columns of this type."""
    if isinstance(step, int):
        return pa.types.is_list(typed) or pa.types.is_large_list(typed)
    return pa.types.is_struct(typed) and typed.get_field_index(step) >= 0


def _leaves(kind: ArrowType) -> int:
    """The number of leaves of a shredded type."""
    if pa.types.is_struct(kind):
        return sum(_leaves(field.type) for field in kind)
    return _leaves(kind.value_type) if pa.types.is_list(kind) or pa.types.is_large_list(kind) else 1
