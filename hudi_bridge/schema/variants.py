"""Rebuilds VARIANT values that a Parquet file has shredded into typed columns.

A shredded group has a ``value``, encoded as a VARIANT, and a ``typed_value`` of a plain type, of a list of such groups,
or of a struct of such groups, one for each field of an object. An object may have further fields in ``value``. All
values of a batch are encoded together, from the innermost groups outwards: an array of binary values has the encoded
value of each row, null where there is none.

Field ids refer to the names in ``metadata``, which is returned as it is stored. A value that is missing where there has
to be one is a VARIANT null, as the specification says; Spark fails on it. What Spark refuses otherwise is refused here.

Source: ``VariantShredding.md`` and ``VariantEncoding.md`` of Parquet, ``ShreddingUtils`` of Spark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import SchemaEvolutionError
from hudi_bridge.schema.casts import ArrowType

# The stubs have no arrays of any type whose kernels take them.
Array: TypeAlias = Any
Bytes: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]
Booleans: TypeAlias = npt.NDArray[np.bool_]

METADATA, VALUE, TYPED_VALUE = "metadata", "value", "typed_value"
VARIANT_PARTS = pa.struct([(METADATA, pa.binary()), (VALUE, pa.binary())])
"""The type of a VARIANT column."""
_VARIANT_NULL, _EMPTY = b"\x00", b""

SHORT_STRING, OBJECT, ARRAY = 1, 2, 3
"""Basic types: the lowest two bits of a value."""
BASIC_BITS, BASIC_MASK = 2, 3
TRUE, FALSE, BINARY, STRING = 1, 2, 15, 16
"""Types of primitive values, whose lowest two bits are 0."""
FIXED_TYPES: Mapping[pa.DataType, tuple[int, int]] = {
    pa.int8(): (3, 1),
    pa.int16(): (4, 2),
    pa.int32(): (5, 4),
    pa.int64(): (6, 8),
    pa.float64(): (7, 8),
    pa.date32(): (11, 4),
    pa.timestamp("us", "UTC"): (12, 8),
    pa.timestamp("us"): (13, 8),
    pa.float32(): (14, 4),
    pa.time64("us"): (17, 8),
    pa.timestamp("ns", "UTC"): (18, 8),
    pa.timestamp("ns"): (19, 8),
    pa.uuid(): (20, 16),
}
"""The type of a primitive value and its width in bytes, which are those of Arrow."""
DECIMAL_TYPES = ((9, 8, 4), (18, 9, 8), (38, 10, 16))
"""The most digits, the type and the width of decimals."""
_MAX_SHORT = 63
_MAX_ONE_BYTE = 255
_VERSION, _VERSION_MASK, _WIDTH_SHIFT = 1, 15, 6
_SUPPORTED = "a VARIANT that is shredded as Parquet specifies"


class MalformedVariantError(ValueError):
    """Raised for shredded values that are no VARIANT; the file is added by whoever knows it."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.found = found
        self.expected = expected


@dataclass(frozen=True, slots=True, kw_only=True)
class ShreddedVariant:
    """Makes the parts of a VARIANT, in the order of ``target``, from structs that are shredded."""

    target: ArrowType
    metadata: int
    group: "_Group"

    def __call__(self, structs: Array) -> Array:
        """The structs of ``metadata`` and ``value``.

        Raises:
            MalformedVariantError: a value cannot be rebuilt.
        """
        if structs.null_count == len(structs):
            nulls: Array = pa.nulls(len(structs), self.target)
            return nulls
        metadata: Array = pc.struct_field(structs, [self.metadata])
        require(metadata.null_count == structs.null_count, "a null in metadata", "the names of fields")
        values = self.group.encoded(structs, Names.of(metadata)).fill_null(_VARIANT_NULL)
        parts = {METADATA: metadata, VALUE: values}
        children = [parts[field.name].cast(field.type) for field in self.target]
        mask = structs.is_null() if structs.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(self.target), mask=mask)


def has_parts_of_variant(kind: ArrowType) -> bool:
    """Whether a type is the struct of the parts of a VARIANT."""
    parts = {field.name: field.type for field in kind} if pa.types.is_struct(kind) else {}
    return parts == {METADATA: pa.binary(), VALUE: pa.binary()}


def is_shredded(stored: ArrowType, target: ArrowType) -> bool:
    """Whether structs with the parts of a VARIANT are stored with a ``typed_value``."""
    names = {field.name for field in stored}
    return has_parts_of_variant(target) and names >= {METADATA, TYPED_VALUE} and names <= {METADATA, VALUE, TYPED_VALUE}


def plan_shredded(stored: ArrowType, target: ArrowType, column: str, path: str) -> ShreddedVariant:
    """Plans how the values of a shredded column are rebuilt; ``column`` and ``path`` of the file are for errors.

    Raises:
        SchemaEvolutionError: the specification has no such typed values.
    """
    names = [field.name for field in stored]
    if _as_binary(stored.field(METADATA).type) is None:
        raise _unsupported(column, path, f"{METADATA} of type {stored.field(METADATA).type}")
    return ShreddedVariant(
        target=target, metadata=names.index(METADATA), group=_group(stored, column, path, also=(METADATA,))
    )


class _Encoder(Protocol):
    """Encodes typed values; those of objects take further fields from ``stored`` values, others do not allow these."""

    def encoded(self, typed: Any, stored: Array | None, names: "Names", /) -> Array: ...  # noqa: ANN401 - of any type


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """A group of ``value`` and ``typed_value``: their positions, None for one that the file leaves out."""

    value: int | None
    typed: int | None
    encoder: _Encoder | None

    def encoded(self, structs: pa.StructArray, names: "Names") -> Array:
        """The encoded values of a struct array; null where both are null or the struct is."""
        stored: Array | None = None
        if self.value is not None:
            # Null where the struct is null, as are all fields within.
            stored = pc.struct_field(structs, [self.value]).cast(pa.large_binary())
        if self.typed is None or self.encoder is None:
            return pa.nulls(len(structs), pa.large_binary()) if stored is None else stored
        encoded = self.encoder.encoded(pc.struct_field(structs, [self.typed]), stored, names)
        return encoded if stored is None else pc.coalesce(encoded, stored)


def _group(stored: ArrowType, column: str, path: str, also: Sequence[str] = ()) -> _Group:
    if not pa.types.is_struct(stored):
        raise _unsupported(column, path, f"{stored} in place of a group")
    names = [field.name for field in stored]
    positions = {name: names.index(name) for name in (VALUE, TYPED_VALUE) if name in names}
    if len(set(names)) < len(names) or not positions or not set(names) <= {VALUE, TYPED_VALUE, *also}:
        raise _unsupported(column, path, f"a group of {', '.join(names) or 'nothing'}")
    if VALUE in positions and _as_binary(stored.field(VALUE).type) is None:
        raise _unsupported(column, path, f"{VALUE} of type {stored.field(VALUE).type}")
    typed = positions.get(TYPED_VALUE)
    return _Group(
        value=positions.get(VALUE),
        typed=typed,
        encoder=None if typed is None else _encoder(stored.field(typed).type, f"{column}.{TYPED_VALUE}", path),
    )


def _encoder(kind: ArrowType, column: str, path: str) -> _Encoder:
    if pa.types.is_struct(kind):
        names = tuple(field.name for field in kind)
        if len(set(names)) < len(names):
            raise _unsupported(column, path, "two fields of one name")
        return _Objects(names=names, groups=tuple(_group(field.type, f"{column}.{field.name}", path) for field in kind))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _Lists(element=_group(kind.value_type, f"{column}.element", path))
    if pa.types.is_boolean(kind):
        return _Flags()
    if _as_binary(kind) is not None:
        return _Texts(is_text=pa.types.is_string(kind) or pa.types.is_large_string(kind))
    if pa.types.is_decimal(kind) and 0 <= kind.scale <= kind.precision:
        for digits, primitive, width in DECIMAL_TYPES:
            if kind.precision <= digits:
                return _Numbers(prefix=bytes((primitive << BASIC_BITS, kind.scale)), width=width)
    if kind in FIXED_TYPES:
        primitive, width = FIXED_TYPES[kind]
        return _Numbers(prefix=bytes((primitive << BASIC_BITS,)), width=width)
    raise _unsupported(column, path, f"values of type {kind}")


def _as_binary(kind: ArrowType) -> ArrowType | None:
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    return kind if is_bytes or pa.types.is_string(kind) or pa.types.is_large_string(kind) else None


def _unsupported(column: str, path: str, actual: str) -> SchemaEvolutionError:
    return SchemaEvolutionError(column, actual, _SUPPORTED, path)


@dataclass(frozen=True, slots=True)
class _Flags:
    """Truth values, which are types of their own."""

    def encoded(self, typed: Array, stored: Array | None, _names: "Names") -> Array:
        _require_one(typed, stored)
        flags = typed.fill_null(pa.scalar(value=False)).to_numpy(zero_copy_only=False)
        content = np.where(flags, TRUE << BASIC_BITS, FALSE << BASIC_BITS).astype(np.uint8)
        return _array(content, np.arange(len(typed) + 1, dtype=np.int64), _validity(typed))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers:
    """Values of a fixed width, whose bytes Arrow has in the order of the encoding, after a ``prefix``."""

    prefix: bytes
    width: int

    def encoded(self, typed: Array, stored: Array | None, _names: "Names") -> Array:
        _require_one(typed, stored)
        count, size = len(typed), len(self.prefix) + self.width
        content = np.zeros((count, size), np.uint8)
        content[:, : len(self.prefix)] = np.frombuffer(self.prefix, np.uint8)
        typed = typed.storage if isinstance(typed, pa.ExtensionArray) else typed
        kind: ArrowType = typed.type
        numbers, stride = typed.buffers()[1], kind.bit_width // 8
        if count and numbers is not None:
            rows = np.frombuffer(numbers, np.uint8, count * stride, typed.offset * stride).reshape(count, stride)
            content[:, len(self.prefix) :] = rows[:, : self.width]
        return _array(content.ravel(), np.arange(count + 1, dtype=np.int64) * size, _validity(typed))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Texts:
    """Strings, or bytes, after their length."""

    is_text: bool

    def encoded(self, typed: Array, stored: Array | None, _names: "Names") -> Array:
        _require_one(typed, stored)
        lengths = _ints(pc.binary_length(typed))
        is_short = (lengths <= _MAX_SHORT) & self.is_text
        sizes = np.where(is_short, 1, 5)
        offsets = _offsets(sizes)
        content = np.empty(offsets[-1], np.uint8)
        long = (STRING if self.is_text else BINARY) << BASIC_BITS
        content[offsets[:-1]] = np.where(is_short, (lengths << BASIC_BITS) | SHORT_STRING, long)
        _write(content, offsets[:-1] + 1, sizes - 1, lengths)
        return _joined(_array(content, offsets), typed.cast(pa.large_binary()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lists:
    """Arrays, whose elements are groups."""

    element: _Group

    def encoded(self, typed: "pa.ListArray[Any]", stored: Array | None, names: "Names") -> Array:
        _require_one(typed, stored)
        counts = _ints(pc.list_value_length(typed))
        elements: Any = typed.flatten()
        require(not elements.null_count, "a list element without a group", "a value or typed_value of each element")
        values = self.element.encoded(elements, names.repeated(counts)).fill_null(_VARIANT_NULL)
        content, offsets = content_of(values)
        ends = offsets[_offsets(counts)]
        starts = offsets[:-1] - np.repeat(ends[:-1], counts)
        return _framed(ARRAY, counts, None, starts, _array(content, ends), _validity(typed))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Objects:
    """Objects, some fields of which are groups, and others, of each object its own, in ``value``."""

    names: tuple[str, ...]
    groups: tuple[_Group, ...]

    def encoded(self, typed: pa.StructArray, stored: Array | None, names: "Names") -> Array:
        has_object = np.asarray(typed.is_valid())
        fields = self._fields(typed, names)
        rest = _Rest.of(stored, has_object, names)
        require(not np.isin(rest.ranks, names.ranks_of(self.names)).any(), *TWICE)
        rows, ids = np.concatenate([fields.rows, rest.rows]), np.concatenate([fields.ids, rest.ids])
        starts = np.concatenate([fields.starts + rest.sizes[fields.rows], rest.starts])
        ranks = np.concatenate([fields.ranks, rest.ranks])
        order = np.lexsort((ranks, rows))
        rows, ids, starts, ranks = rows[order], ids[order], starts[order], ranks[order]
        require(not ((rows[1:] == rows[:-1]) & (ranks[1:] == ranks[:-1])).any(), *TWICE)
        counts = np.bincount(rows, minlength=len(typed)).astype(np.int64)
        return _framed(OBJECT, counts, ids, starts, _joined(rest.content, fields.content), _validity(typed))

    def _fields(self, typed: pa.StructArray, names: "Names") -> "_Fields":
        """The shredded fields, by row and then as they are stored."""
        values, rows = [pa.nulls(0, pa.large_binary())], [np.empty(0, np.int64)]
        for position, (name, group) in enumerate(zip(self.names, self.groups, strict=True)):
            structs: Any = pc.struct_field(typed, [position])
            require(structs.null_count == typed.null_count, f"a null for the group of the field {name}", "a group")
            encoded = group.encoded(structs, names)
            values.append(encoded.drop_null())
            rows.append(np.flatnonzero(np.asarray(encoded.is_valid())))
        numbers = np.repeat(np.arange(len(self.names)), [len(part) for part in rows[1:]])
        unordered = np.concatenate(rows)
        order = np.argsort(unordered, kind="stable")
        rows_of_fields, numbers = unordered[order], numbers[order]
        content, offsets = content_of(pa.concat_arrays(values).take(order))
        ends = offsets[_offsets(np.bincount(rows_of_fields, minlength=len(typed)))]
        ids = names.ids_of(self.names)[names.rows[rows_of_fields], numbers]
        if (ids < 0).any():
            lacking = self.names[int(numbers[ids < 0][0])]
            raise MalformedVariantError(f"metadata without the name of the field {lacking}", "the names of all fields")
        return _Fields(
            rows=rows_of_fields,
            ids=ids,
            ranks=names.ranks_of(self.names)[numbers],
            starts=offsets[:-1] - ends[rows_of_fields],
            content=_array(content, ends),
        )


TWICE = ("a field that an object has twice", "one value of each field")


class _Fields(NamedTuple):
    """Fields of objects: their rows, ids, ranks of names, and where they start in the ``content`` of their row."""

    rows: Ints
    ids: Ints
    ranks: Ints
    starts: Ints
    content: Array


class _Rest(NamedTuple):
    """The fields that objects have in ``value``: like ``_Fields``, with the sizes of the contents."""

    rows: Ints
    ids: Ints
    ranks: Ints
    starts: Ints
    content: Array
    sizes: Ints

    @classmethod
    def of(cls, stored: Array | None, has_object: Booleans, names: "Names") -> Self:
        """The fields of encoded objects, in rows that have shredded ones too."""
        rows = np.empty(0, np.int64)
        sizes = np.zeros(has_object.size, np.int64)
        if stored is not None:
            rows = np.flatnonzero(has_object & np.asarray(stored.is_valid()))
        if stored is None or not rows.size:
            empty = pa.nulls(has_object.size, pa.large_binary()).fill_null(_EMPTY)
            return cls(rows, rows, rows, rows, empty, sizes)
        content, offsets = content_of(stored)
        begins, ends = offsets[rows], offsets[rows + 1]
        headers = numbers_at(content, begins, 1, ends)
        require(bool((headers & BASIC_MASK == OBJECT).all()), "a value beside a typed_value", "the fields of an object")
        layout = Layout.of(content, begins, ends, OBJECT)
        counts, content_begin = layout.counts, layout.contents
        sizes[rows] = layout.sizes
        content_end = content_begin + layout.sizes
        require(bool((content_end <= ends).all()), *OBJECT_CUT_OFF)
        objects = np.repeat(np.arange(rows.size), counts)
        numbers = ramp(counts)
        of_field = rows[objects]
        ids = layout.ids_of(content, objects, numbers, ends)
        starts = layout.starts_of(content, objects, numbers, ends)
        require(bool((starts < sizes[of_field]).all()), *OBJECT_CUT_OFF)
        values = byte_ranges(content, content_begin, content_end)
        indices = np.full(has_object.size, -1)
        indices[rows] = np.arange(rows.size)
        taken = values.take(pa.array(indices, mask=indices < 0)).fill_null(_EMPTY)
        return cls(of_field, ids, names.ranks(of_field, ids), starts, taken, sizes)


OBJECT_CUT_OFF = ("an object that is cut off", "the ids, offsets and values of all its fields")
_ARRAY_CUT_OFF = ("an array that is cut off", "the offsets and values of all its elements")


class Layout(NamedTuple):
    """How objects or arrays are laid out: ids and offsets of their parts, and where the contents of these begin.

    ``sizes`` are those of the contents; ids take no bytes in arrays.
    """

    counts: Ints
    width: Ints
    id_width: Ints
    ids: Ints
    starts: Ints
    contents: Ints
    sizes: Ints

    @classmethod
    def of(cls, content: Bytes, begins: Ints, ends: Ints, basic_type: int) -> Self:
        """The layout of values of one basic type, ``OBJECT`` or ``ARRAY``."""
        headers = numbers_at(content, begins, 1, ends) >> BASIC_BITS
        width, id_width = (headers & 3) + 1, (headers >> 2 & 3) + 1
        is_large = headers >> 4 & 1
        if basic_type == ARRAY:
            id_width, is_large = np.zeros(headers.size, np.int64), headers >> 2 & 1
        count_width = np.where(is_large, 4, 1)
        counts = numbers_at(content, begins + 1, count_width, ends)
        ids = begins + 1 + count_width
        starts = ids + counts * id_width
        contents = starts + (counts + 1) * width
        require(bool((contents <= ends).all()), *(OBJECT_CUT_OFF if basic_type == OBJECT else _ARRAY_CUT_OFF))
        sizes = numbers_at(content, contents - width, width, ends)
        return cls(counts, width, id_width, ids, starts, contents, sizes)

    def ids_of(self, content: Bytes, values: Ints, numbers: Ints, ends: Ints) -> Ints:
        """The ids of some fields, each given by its value and its number among the fields of it."""
        positions = self.ids[values] + numbers * self.id_width[values]
        return numbers_at(content, positions, self.id_width[values], ends[values])

    def starts_of(self, content: Bytes, values: Ints, numbers: Ints, ends: Ints) -> Ints:
        """Where some parts start in the contents of their values; given as for ``ids_of``."""
        positions = self.starts[values] + numbers * self.width[values]
        return numbers_at(content, positions, self.width[values], ends[values])


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names in the metadata of values, by id: those of value ``i`` begin at ``starts[rows[i]]``.

    ``rank_by_name`` has the place of each name among the different ``texts``, in the order of their bytes.
    """

    rows: Ints
    starts: Ints
    rank_by_name: Ints
    texts: Array

    @classmethod
    def of(cls, metadata: Array) -> Self:
        """The names in an array of metadata, some of which may be null."""
        encoded: Any = metadata.cast(pa.large_binary()).dictionary_encode()
        content, offsets = content_of(encoded.dictionary)
        begins, ends = offsets[:-1], offsets[1:]
        headers = numbers_at(content, begins, 1, ends)
        versions = headers & _VERSION_MASK
        if (versions != _VERSION).any():
            raise MalformedVariantError(f"metadata of version {versions[versions != _VERSION][0]}", "version 1")
        width = (headers >> _WIDTH_SHIFT) + 1
        counts = numbers_at(content, begins + 1, width, ends)
        # Some writers leave the only offset out if there are no names.
        text_begin = begins + 1 + (counts + np.where(counts, 2, 1)) * width
        require(bool((text_begin <= ends).all()), *_NAMES_CUT_OFF)
        dictionaries, numbers = np.repeat(np.arange(counts.size), counts), ramp(counts)
        widths, limits = width[dictionaries], ends[dictionaries]
        position = begins[dictionaries] + 1 + (numbers + 1) * widths
        first = text_begin[dictionaries] + numbers_at(content, position, widths, limits)
        last = text_begin[dictionaries] + numbers_at(content, position + widths, widths, limits)
        require(bool(((first <= last) & (last <= limits)).all()), *_NAMES_CUT_OFF)
        texts: Any = byte_ranges(content, first, last).dictionary_encode()
        order: Any = pc.array_sort_indices(texts.dictionary)
        ranks = np.empty(len(order), np.int64)
        ranks[_ints(order)] = np.arange(len(order))
        return cls(
            rows=_ints(encoded.indices),
            starts=_offsets(counts),
            rank_by_name=ranks[_ints(texts.indices)],
            texts=texts.dictionary.take(order),
        )

    def repeated(self, counts: Ints) -> Self:
        """The names of values that take the place of each value, as many as ``counts``."""
        return replace(self, rows=np.repeat(self.rows, counts))

    def ranks(self, values: Ints, ids: Ints) -> Ints:
        """The ranks of the names that the values have for ids."""
        rows = self.rows[values]
        require(bool((ids < np.diff(self.starts)[rows]).all()), "an id of a field without a name", "ids of names")
        ranks: Ints = self.rank_by_name[self.starts[rows] + ids]
        return ranks

    def ranks_of(self, names: Sequence[str]) -> Ints:
        """The ranks of names, -1 for a name that no value has."""
        texts = pa.array([name.encode() for name in names], pa.large_binary())
        ranks: Any = pc.index_in(texts, value_set=self.texts)
        return _ints(ranks.fill_null(-1))

    def ids_of(self, names: Sequence[str]) -> Ints:
        """The ids of names in each metadata, a row of a matrix; -1 for a name that it lacks."""
        ranks = self.ranks_of(names)
        ids = np.full((self.starts.size - 1, len(names)), -1)
        number_by_rank = np.full(len(self.texts), -1)
        number_by_rank[ranks[ranks >= 0]] = np.flatnonzero(ranks >= 0)
        numbers = number_by_rank[self.rank_by_name]
        counts = np.diff(self.starts)
        dictionaries, id_by_name = np.repeat(np.arange(counts.size), counts), ramp(counts)
        is_asked = numbers >= 0
        ids[dictionaries[is_asked], numbers[is_asked]] = id_by_name[is_asked]
        return ids


_NAMES_CUT_OFF = ("metadata that is cut off", "the offsets and texts of all names")


def _framed(
    basic_type: int, counts: Ints, ids: Ints | None, starts: Ints, values: Array, validity: Booleans | None
) -> Array:
    """Arrays, or with ``ids`` objects: the header, number, ids and offsets of their parts before the ``values``.

    ``starts`` and ``ids`` are those of all parts, row by row.
    """
    rows, numbers = np.repeat(np.arange(counts.size), counts), ramp(counts)
    sizes = _ints(pc.binary_length(values))
    width, id_width = _width(sizes), np.zeros(counts.size, np.int64)
    count_width = np.where(counts > _MAX_ONE_BYTE, 4, 1)
    is_large = count_width > 1
    headers = (width - 1) | is_large << 2
    if ids is not None:
        highest = np.zeros(counts.size, np.int64)
        np.maximum.at(highest, rows, ids)
        id_width = _width(highest)
        headers = (width - 1) | (id_width - 1) << 2 | is_large << 4
    offsets = _offsets(1 + count_width + counts * id_width + (counts + 1) * width)
    begins = offsets[:-1]
    content = np.empty(offsets[-1], np.uint8)
    content[begins] = headers << BASIC_BITS | basic_type
    _write(content, begins + 1, count_width, counts)
    ids_begin = begins + 1 + count_width
    starts_begin = ids_begin + counts * id_width
    if ids is not None:
        _write(content, ids_begin[rows] + numbers * id_width[rows], id_width[rows], ids)
    _write(content, starts_begin[rows] + numbers * width[rows], width[rows], starts)
    _write(content, starts_begin + counts * width, width, sizes)
    return _joined(_array(content, offsets, validity), values)


def require(is_met: bool, found: str, expected: str) -> None:  # noqa: FBT001 - the condition
    """Raises a ``MalformedVariantError`` unless the condition is met."""
    if not is_met:
        raise MalformedVariantError(found, expected)


def _require_one(typed: Array, stored: Array | None) -> None:
    if stored is not None and typed.null_count < len(typed) and stored.null_count < len(stored):
        is_both: Any = pc.any(pc.and_(typed.is_valid(), stored.is_valid()))
        require(not is_both.as_py(), "a value beside a typed_value that is no object", "one of the two")


def _width(numbers: Ints) -> Ints:
    """The least number of bytes, from 1 to 4, that hold each number."""
    width = np.ones(numbers.shape, np.int64)
    for bits in (8, 16, 24):
        width += numbers >= 1 << bits
    return width


def _offsets(sizes: Ints) -> Ints:
    """The offsets of parts of some sizes that follow one another, and the end of the last."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def ramp(counts: Ints) -> Ints:
    """The numbers from 0 on, as many as each count, one after another."""
    offsets = _offsets(counts)
    return np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)


def numbers_at(content: Bytes, positions: Ints, widths: "Ints | int", ends: Ints) -> Ints:
    """Little-endian numbers of up to four bytes, each of which ends within its value."""
    require(bool((positions + widths <= ends).all()), "a value that is cut off", "as many bytes as it announces")
    numbers = np.zeros(positions.size, np.int64)
    for byte in range(int(np.max(widths, initial=0)) if positions.size else 0):
        is_within = np.broadcast_to(byte < np.asarray(widths), positions.shape)
        numbers[is_within] |= content[positions[is_within] + byte].astype(np.int64) << 8 * byte
    return numbers


def _write(content: Bytes, positions: Ints, widths: Ints, numbers: Ints) -> None:
    """Writes numbers of up to four bytes, little-endian."""
    for byte in range(int(widths.max(initial=0))):
        is_within = widths > byte
        content[positions[is_within] + byte] = numbers[is_within] >> 8 * byte & 255


def _ints(array: Array) -> Ints:
    """Integers, with 0 for nulls."""
    filled = array.fill_null(0) if array.null_count else array
    numbers: Ints = filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def _validity(array: Array) -> Booleans | None:
    return np.asarray(array.is_valid()) if array.null_count else None


def _array(content: Bytes, offsets: Ints, validity: Booleans | None = None) -> Array:
    """Binary values that follow one another in ``content``."""
    bits = None if validity is None else pa.py_buffer(np.packbits(validity, bitorder="little").data)
    buffers = [bits, pa.py_buffer(np.ascontiguousarray(offsets).data), pa.py_buffer(content.data)]
    array: Array = pa.Array.from_buffers(pa.large_binary(), offsets.size - 1, buffers)
    return array


def content_of(array: Array) -> tuple[Bytes, Ints]:
    """The bytes of binary values, and their offsets in these; those of a null may be any bytes."""
    _, offsets, content = array.buffers()
    numbers = (
        np.frombuffer(offsets, np.int64)[array.offset :][: len(array) + 1] if len(array) else np.zeros(1, np.int64)
    )
    return np.frombuffer(content or b"", np.uint8), numbers


def byte_ranges(content: Bytes, starts: Ints, ends: Ints) -> Array:
    """Binary values of ranges of bytes, which ascend and do not overlap."""
    edges = np.stack([starts, ends], axis=1).ravel()
    if not edges.size:
        return pa.nulls(0, pa.large_binary())
    # The values of this array alternate between a range and the gap after it.
    return _array(content, edges).take(pa.array(np.arange(0, edges.size, 2)))


def _joined(left: Array, right: Array) -> Array:
    joined: Array = pc.binary_join_element_wise(left, right, pa.scalar(_EMPTY, pa.large_binary()))
    return joined
