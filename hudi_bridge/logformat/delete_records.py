"""The content of a delete block -> deleted keys and their ordering values, as Arrow columns.

From ``HoodieDeleteBlock``: a 4-byte content version, a 4-byte payload length, the payload. Versions 1 and 2
are Kryo (``kryo``), version 3 is one Avro datum (``delete_lists``). Values of several kinds may stand in one
block: a delete by SQL carries the Java Integer 0, a delete by upsert the ordering value of its row.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.delete_lists import DeleteList, decode_delete_list
from hudi_bridge.logformat.kryo import KryoDelete, decode_deletes
from hudi_bridge.logformat.layout import ContentVersion, OrderingKind
from hudi_bridge.logformat.ordering_values import DEFAULT, OrderingGroup, Orderings, cast_orderings

_CONTENT_START = struct.Struct(">ii")
# The most that a decimal of Arrow can hold.
_MAX_DECIMAL_BITS = 255
_MAX_DECIMAL_SCALE = 76


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    """The deletes of one block, in block order; every column has one row per delete.

    ``is_default`` marks an ordering value of null or the Java *Integer* 0: such a delete beats whatever came
    before, where one with a long 0 takes part in the ordering like a row.
    """

    record_keys: pa.StringArray
    partition_paths: pa.StringArray
    is_default: pa.BooleanArray
    field_counts: npt.NDArray[np.int32]
    groups: tuple[OrderingGroup, ...]

    def __len__(self) -> int:
        return len(self.record_keys)

    def ordering_as(self, types: Sequence[pa.DataType]) -> Orderings:
        """The ordering values as columns of the table's ordering fields, given by their types."""
        return cast_orderings(self.groups, self.field_counts, types)


def parse_delete_block(block: LogBlock) -> DeleteRecords:
    """The deletes of a delete block.

    Raises:
        CorruptLogFileError: the content is not what its version says.
        UnsupportedTableError: the content version, or the class of an ordering value, is unknown.
    """
    content = block.content
    if content.size < _CONTENT_START.size:
        raise _corrupt(block, f"a delete block of {content.size} bytes", f"at least {_CONTENT_START.size}")
    version, length = _CONTENT_START.unpack_from(content)
    payload = content.slice(_CONTENT_START.size)
    if length != payload.size:
        raise _corrupt(block, f"a payload length of {length}", f"{payload.size}, the rest of the block")
    match version:
        case ContentVersion.KRYO_KEYS | ContentVersion.KRYO_DELETE_RECORDS:
            offset = block.content_offset + _CONTENT_START.size
            deletes = _of_kryo(decode_deletes(payload.to_pybytes(), block.path, offset), block)
        case ContentVersion.AVRO_DELETE_RECORDS:
            deletes = decode_delete_list(payload, block.path, block.content_offset)
        case _:
            found = f"{version} in {block.path} at byte {block.content_offset}"
            raise UnsupportedTableError("delete block version", found, "1 to 3")
    if deletes.record_keys.null_count:
        raise _corrupt(block, "a delete without a record key", "a record key")
    return DeleteRecords(
        record_keys=deletes.record_keys,
        partition_paths=deletes.partition_paths,
        is_default=pa.array(deletes.field_counts == DEFAULT),
        field_counts=deletes.field_counts,
        groups=deletes.groups,
    )


def _corrupt(block: LogBlock, found: str, expected: str) -> CorruptLogFileError:
    return CorruptLogFileError(block.path, block.content_offset, found, expected)


def _of_kryo(deletes: Sequence[KryoDelete], block: LogBlock) -> DeleteList:
    counts: list[int] = []
    grouped: dict[OrderingKind, tuple[list[int], list[Any]]] = {}
    for position, delete in enumerate(deletes):
        kind, value = delete.kind, delete.ordering
        if kind is OrderingKind.NULL or (kind is OrderingKind.INT and value == 0):
            counts.append(DEFAULT)
            continue
        counts.append(1)
        positions, values = grouped.setdefault(kind, ([], []))
        positions.append(position)
        values.append(_decimal(value, block) if kind is OrderingKind.DECIMAL else value)
    try:
        return DeleteList(
            record_keys=pa.array([delete.record_key for delete in deletes], pa.string()),
            partition_paths=pa.array([delete.partition_path for delete in deletes], pa.string()),
            field_counts=np.array(counts, dtype=np.int32),
            groups=tuple(
                OrderingGroup.of(field_index=0, kind=kind, positions=positions, values=values)
                for kind, (positions, values) in grouped.items()
            ),
        )
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError) as error:
        raise _corrupt(block, f"a value out of range ({error})", "a value of its kind") from error


def _decimal(value: tuple[int, int], block: LogBlock) -> Decimal:
    unscaled, scale = value
    if unscaled.bit_length() > _MAX_DECIMAL_BITS or abs(scale) > _MAX_DECIMAL_SCALE:
        found = f"a decimal of {unscaled.bit_length()} bits and scale {scale}"
        raise _corrupt(block, found, f"at most {_MAX_DECIMAL_BITS} bits and scale {_MAX_DECIMAL_SCALE}")
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
