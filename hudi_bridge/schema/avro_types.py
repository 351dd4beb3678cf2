"""Avro types, and the Arrow type of each, as in Spark's ``SchemaConverters``.

Names are resolved, and no type contains itself. Hudi's VECTOR, a ``fixed``, is a list of fixed size. Its VARIANT, a
record, is a struct whose field is marked as Arrow's ``arrow.parquet.variant``. Every Arrow field is nullable, since an
older file may lack any column.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from hudi_bridge.common.caching import cached_property
from hudi_bridge.errors import UnsupportedTableError

_DECIMAL128_DIGITS = 38
_DECIMAL256_DIGITS = 76

VECTOR, VARIANT, BLOB = "vector", "variant", "blob"
"""Hudi's own logical types."""
PRIMITIVE_TYPES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL_TYPES: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "timestamp-nanos": pa.timestamp("ns", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
    "uuid": pa.string(),
}
VECTOR_ELEMENTS: dict[str, pa.DataType] = {"float": pa.float32(), "double": pa.float64(), "int8": pa.int8()}
"""The element types of a VECTOR, by Hudi's names in lower case."""
VARIANT_FIELD = {b"ARROW:extension:name": b"arrow.parquet.variant", b"ARROW:extension:metadata": b""}
"""The metadata of an Arrow field of type VARIANT."""
# Items such as null take no bytes, so the number of bytes does not limit how many there are.
MAX_EMPTY_ITEMS = 2**16
_WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroLogical:
    """A logical type that is valid on its underlying type.

    ``precision`` and ``scale`` belong to ``decimal`` alone, ``dimension`` and ``element`` to ``vector``.
    """

    name: str
    precision: int = 0
    scale: int = 0
    dimension: int = 0
    element: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroPrimitive:
    """``null``, ``boolean``, ``int``, ``long``, ``float``, ``double``, ``bytes`` or ``string``."""

    kind: str
    logical: AvroLogical | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroFixed:
    """Exactly ``size_bytes`` bytes; ``name`` is the full name."""

    name: str
    size_bytes: int
    logical: AvroLogical | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroEnum:
    """One of ``symbols``, stored as its index; ``name`` is the full name."""

    name: str
    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroArray:
    """A list of ``items``."""

    items: "AvroType"


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroMap:
    """A map from strings to ``values``."""

    values: "AvroType"

    @property
    def entry(self) -> "AvroRecord":
        """The record as which one entry is stored."""
        key = AvroField(name="key", type=AvroPrimitive(kind="string"))
        return AvroRecord(name="entry", fields=(key, AvroField(name="value", type=self.values)))


@dataclass(frozen=True, kw_only=True)
class AvroUnion:
    """One of ``branches``, stored after its index."""

    branches: "tuple[AvroType, ...]"

    @cached_property
    def members(self) -> "tuple[AvroType, ...]":
        """The branches other than null, in order."""
        return tuple(branch for branch in self.branches if branch != NULL)

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """As the function of that name."""
        return _union_type(self)

    @cached_property
    def widened(self) -> AvroPrimitive | None:
        """The number type that all members are read as, None if there is none.

        Logical types are ignored, so ``[date, timestamp-micros]`` is a long, as in Spark.
        """
        members = self.members
        kinds = {member.kind for member in members if isinstance(member, AvroPrimitive)}
        if len(members) == len(kinds) and kinds in ({"int", "long"}, {"float", "double"}):
            return AvroPrimitive(kind="long" if "long" in kinds else "double")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroField:
    """A field of a record; ``default_json`` is its default as JSON, None without one."""

    name: str
    type: "AvroType"
    default_json: str | None = None


@dataclass(frozen=True, kw_only=True)
class AvroRecord:
    """A record; its fields are stored in this order. ``name`` is the full name."""

    name: str
    fields: tuple[AvroField, ...]
    logical: AvroLogical | None = None

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """As the function of that name."""
        return pa.schema([arrow_field(field.name, field.type) for field in self.fields])


AvroType: TypeAlias = AvroPrimitive | AvroFixed | AvroEnum | AvroArray | AvroMap | AvroUnion | AvroRecord

NULL = AvroPrimitive(kind="null")


def arrow_type(avro: AvroType) -> pa.DataType:
    """The Arrow type of a column of this Avro type.

    Raises:
        UnsupportedTableError: a decimal has more digits than any Arrow type.
    """
    match avro:
        case AvroPrimitive():
            return PRIMITIVE_TYPES[avro.kind] if avro.logical is None else _logical_type(avro.logical)
        case AvroFixed():
            return pa.binary() if avro.logical is None else _logical_type(avro.logical)
        case AvroEnum():
            return pa.string()
        case AvroArray():
            return pa.list_(arrow_field("element", avro.items))
        case AvroMap():
            return pa.map_(pa.string(), arrow_type(avro.values))
        case AvroUnion():
            return avro.arrow_type
        case AvroRecord():
            return pa.struct([arrow_field(field.name, field.type) for field in avro.fields])


def arrow_field(name: str, avro: AvroType) -> "pa.Field[Any]":
    """The Arrow field of a column of this Avro type.

    Raises:
        UnsupportedTableError: a decimal has more digits than any Arrow type.
    """
    return pa.field(name, arrow_type(avro), metadata=variant_mark(avro))


def variant_mark(avro: AvroType) -> dict[bytes, bytes] | None:
    """The metadata of an Arrow field of this Avro type; None if it is no VARIANT."""
    inner = avro.members[0] if isinstance(avro, AvroUnion) and len(avro.members) == 1 else avro
    is_marked = isinstance(inner, AvroRecord) and inner.logical is not None and inner.logical.name == VARIANT
    return VARIANT_FIELD if is_marked else None


def is_variant(field: "pa.Field[Any]") -> bool:
    """Whether an Arrow field is marked as a VARIANT."""
    metadata = field.metadata
    return metadata is not None and metadata.items() >= VARIANT_FIELD.items()


def vector_type(element: str, dimension: int) -> pa.DataType:
    """The Arrow type of a VECTOR; ``element`` is one of ``VECTOR_ELEMENTS``."""
    # The element field keeps Arrow's default name: another one would not survive pickling.
    return pa.list_(VECTOR_ELEMENTS[element], dimension)


def arrow_schema(record: AvroRecord) -> pa.Schema:
    """The Arrow schema of a table whose rows are such records; every field nullable.

    Raises:
        UnsupportedTableError: a decimal has more digits than any Arrow type.
    """
    return record.arrow_schema


def _union_type(union: AvroUnion) -> pa.DataType:
    """Members that cannot be widened to one type become the fields of a struct, all but one of them null."""
    members = union.members
    if not members:
        return pa.null()
    if len(members) == 1:
        return arrow_type(members[0])
    if union.widened is not None:
        return arrow_type(union.widened)
    return pa.struct([arrow_field(f"member{number}", member) for number, member in enumerate(members)])


def _logical_type(logical: AvroLogical) -> pa.DataType:
    if logical.name == VECTOR:
        return vector_type(logical.element, logical.dimension)
    if logical.name != "decimal":
        return _LOGICAL_TYPES[logical.name]
    if logical.precision > _DECIMAL256_DIGITS:
        raise UnsupportedTableError("decimal", f"{logical.precision} digits", f"up to {_DECIMAL256_DIGITS} digits")
    if logical.precision > _DECIMAL128_DIGITS:
        return pa.decimal256(logical.precision, logical.scale)
    return pa.decimal128(logical.precision, logical.scale)


def wire_width(avro: AvroType) -> int | None:
    """The number of bytes that every value of the type takes, None if it varies."""
    match avro:
        case AvroPrimitive():
            return _WIDTHS.get(avro.kind)
        case AvroFixed():
            return avro.size_bytes
        case AvroRecord():
            widths = [wire_width(field.type) for field in avro.fields]
            fixed_widths = [width for width in widths if width is not None]
            return sum(fixed_widths) if len(fixed_widths) == len(widths) else None
        case AvroEnum() | AvroArray() | AvroMap() | AvroUnion():
            return None


def min_width(avro: AvroType) -> int:
    """The number of bytes that the shortest value of the type takes."""
    match avro:
        case AvroRecord():
            return sum(min_width(field.type) for field in avro.fields)
        case AvroUnion():
            return 1 if NULL in avro.branches else 1 + min(min_width(branch) for branch in avro.branches)
        case AvroPrimitive() | AvroFixed():
            width = wire_width(avro)
            return 1 if width is None else width
        case AvroEnum() | AvroArray() | AvroMap():
            return 1
