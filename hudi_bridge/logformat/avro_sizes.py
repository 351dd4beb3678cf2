"""How many bytes a value of an Avro type takes: what bounds the counts that a damaged file announces."""

from hudi_bridge.schema.avro_types import (
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
)

# Items such as null take no bytes, so that the bytes left say nothing about how many there are.
MOST_EMPTY_ITEMS = 2**16

_WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def wire_width(avro: AvroType) -> int | None:
    """The bytes that every value of the type takes, None where values differ."""
    match avro:
        case AvroPrimitive():
            return _WIDTHS.get(avro.kind)
        case AvroFixed():
            return avro.size_bytes
        case AvroRecord():
            widths = [wire_width(field.type) for field in avro.fields]
            known = [width for width in widths if width is not None]
            return sum(known) if len(known) == len(widths) else None
        case AvroEnum() | AvroArray() | AvroMap() | AvroUnion():
            return None


def least_width(avro: AvroType) -> int:
    """The bytes that the shortest value of the type takes."""
    match avro:
        case AvroRecord():
            return sum(least_width(field.type) for field in avro.fields)
        case AvroUnion():
            return 1 + min(least_width(branch) for branch in avro.branches)
        case AvroPrimitive() | AvroFixed():
            width = wire_width(avro)
            return 1 if width is None else width
        case AvroEnum() | AvroArray() | AvroMap():
            return 1
