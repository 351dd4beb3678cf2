"""Parses delete blocks into deleted keys and their ordering values, as Arrow columns.

The content (``HoodieDeleteBlock``) is a 4-byte version, a 4-byte payload length, and the payload: Kryo in versions 1
and 2, an Avro ``HoodieDeleteRecordList`` in version 3. Ordering values in a block may differ in kind: a delete by SQL
has the Java Integer 0, a delete by upsert the value of its row.

Finds where the deletes of a large delete block are.

Nothing says how long a delete is, so they are stepped over one after another. In a large block, many places are
started from at once: at each, the delete that begins next is guessed. The deletes of a file group have one partition
path, which stands between the record key and the ordering value: what comes after these is the next delete. Where the
deletes from one place lead to the next place, the guess was right.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.avro_columns import decode_avro_records
from hudi_bridge.logformat.avro_cursors import Cursors, DatumBytes, Ints, step_over, value_step
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.kryo import KryoDelete, decode_deletes
from hudi_bridge.logformat.layout import ContentVersion, OrderingKind
from hudi_bridge.logformat.ordering_values import DEFAULT, OrderingGroup, Orderings, cast_orderings, of_other_classes
from hudi_bridge.schema.avro import parse_avro_schema
from hudi_bridge.schema.avro_types import AvroArray, AvroRecord

_DELETES_OF_CHAIN = 16
# With fewer, stepping over the deletes one after another takes less time.
_MIN_CHAINS = 32
_MAX_CHAINS = 1024


def delete_bounds(payload: pa.Buffer, delete: AvroRecord, path: str, offset: int) -> tuple[Ints, Ints] | None:
    """Where each delete of a list begins and ends; None if the list is small or cannot be read like this.

    ``delete`` is the record of a key, a partition path and an ordering value; ``path`` and ``offset`` are those of the
    block.
    """
    source = DatumBytes.of(payload, np.zeros(1, np.int64), path, offset)
    try:
        head = Cursors(source, np.zeros(1, np.int64), np.full(1, payload.size, np.int64))
        count, first, end = int(head.varints("a count")[0]), int(head.pos[0]), payload.size - 1
        # One block of all deletes, and the end of the list. A damaged list may announce more than it has bytes for.
        if not _MIN_CHAINS * _DELETES_OF_CHAIN <= count <= end - first or source.data[end] != 0:
            return None
        starts = np.unique([first, *_likely_starts(payload.to_pybytes(), source, delete, count, first, end)])
        if starts.size < _MIN_CHAINS:
            return None
        found = _starts_of_chains(source, delete, starts, count, end)
    except CorruptLogFileError:
        # Of a wrong guess; if the block is damaged, whoever steps over all deletes tells where.
        return None
    return None if found is None else (found, np.append(found[1:], end))


def _likely_starts(
    content: bytes, source: DatumBytes, delete: AvroRecord, count: int, first: int, end: int
) -> Iterator[int]:
    """Where deletes may begin, one place in each of some parts of the list."""
    over_key, over_path, over_ordering = (value_step(field.type, source) for field in delete.fields)
    after_key = over_key(first, end)
    after_path = over_path(after_key, end)
    # With the first byte of the ordering value, which says of what kind it is.
    mark = content[after_key : after_path + 1]
    chains = min(count // _DELETES_OF_CHAIN, _MAX_CHAINS)
    part = (end - first) // chains
    for begin in range(first + part, end - part, part):
        place = content.find(mark, begin, begin + part)
        if place >= 0:
            yield over_ordering(place + len(mark) - 1, end)


def _starts_of_chains(source: DatumBytes, delete: AvroRecord, starts: Ints, count: int, end: int) -> Ints | None:
    """Where all deletes begin, if those from each start lead to the next one and are ``count`` together."""
    stops = np.append(starts[1:], end)
    cursors = Cursors(source, starts, np.full(starts.size, end, np.int64))
    found, number = [starts], starts.size
    while len(cursors) >= _MIN_CHAINS:
        step_over(delete, cursors)
        left = np.flatnonzero(cursors.pos != stops)
        cursors, stops = cursors.select(left), stops[left]
        found.append(cursors.pos)
        number += left.size
        if (cursors.pos > stops).any() or number > count:
            return None
    # The longest chains, of which the next start is known already.
    step = value_step(delete, source)
    for position, stop in zip(cursors.pos.tolist(), stops.tolist(), strict=True):
        rest = []
        place = step(position, end)
        while place < stop:
            rest.append(place)
            place = step(place, end)
        if place != stop:
            return None
        found.append(np.array(rest, np.int64))
    every = np.sort(np.concatenate(found))
    return every if every.size == count else None


_CONTENT_START = struct.Struct(">ii")
# The limits of Arrow's decimals.
_MAX_DECIMAL_BITS = 255
_MAX_DECIMAL_SCALE = 76
Array: TypeAlias = "pa.Array[Any]"
_Positions: TypeAlias = npt.NDArray[np.int64]
# The scale of DecimalWrapper. Its precision is 30, but writers do not enforce that.
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 76, "scale": 15}
# The record that wraps a value of each kind. Logical types other than decimal are left out: the kind says the type.
_WRAPPERS: dict[OrderingKind, tuple[str, object]] = {
    OrderingKind.BOOLEAN: ("BooleanWrapper", "boolean"),
    OrderingKind.INT: ("IntWrapper", "int"),
    OrderingKind.LONG: ("LongWrapper", "long"),
    OrderingKind.FLOAT: ("FloatWrapper", "float"),
    OrderingKind.DOUBLE: ("DoubleWrapper", "double"),
    OrderingKind.BYTES: ("BytesWrapper", "bytes"),
    OrderingKind.STRING: ("StringWrapper", "string"),
    OrderingKind.DATE: ("DateWrapper", "int"),
    OrderingKind.DECIMAL: ("DecimalWrapper", _DECIMAL),
    OrderingKind.TIME_MICROS: ("TimeMicrosWrapper", "long"),
    OrderingKind.TIMESTAMP_MICROS: ("TimestampMicrosWrapper", "long"),
}
_KINDS = tuple(_WRAPPERS)
_KINDS_IN_ARRAY = (*_KINDS, OrderingKind.LOCAL_DATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    """The deletes of one block, in block order; every column has one row per delete.

    ``is_default`` marks ordering values of null or the Java *Integer* 0: such a delete wins over every earlier
    version, while one with a long 0 is ordered like a row. ``field_counts`` has the number of ordering values of
    each delete, or ``DEFAULT``.
    """

    record_keys: pa.StringArray
    partition_paths: pa.StringArray
    is_default: pa.BooleanArray
    field_counts: npt.NDArray[np.int32]
    groups: tuple[OrderingGroup, ...]

    def __len__(self) -> int:
        return len(self.record_keys)

    def ordering_as(self, types: Sequence[pa.DataType]) -> Orderings:
        """The ordering values as columns of these types, those of the table's ordering fields."""
        return cast_orderings(self.groups, self.field_counts, types)

    def unlike_rows_of(self, types: Sequence[pa.DataType]) -> npt.NDArray[np.bool_]:
        """Which of the deletes Hudi 0.x does not compare with rows whose ordering fields have these types."""
        return of_other_classes(self.groups, len(self), types)


class DeleteList(NamedTuple):
    """The columns of ``DeleteRecords`` that are stored."""

    record_keys: pa.StringArray
    partition_paths: pa.StringArray
    field_counts: npt.NDArray[np.int32]
    groups: tuple[OrderingGroup, ...]


def parse_delete_block(block: LogBlock) -> DeleteRecords:
    """The deletes of a delete block.

    Raises:
        CorruptLogFileError: the content does not have the layout of its version.
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
            deletes = _from_kryo(decode_deletes(payload.to_pybytes(), block.path, offset), block)
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


def _from_kryo(deletes: Sequence[KryoDelete], block: LogBlock) -> DeleteList:
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


def _record(name: str, **fields: object) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": value} for key, value in fields.items()]}


def _list_schema() -> str:
    wrappers = [_record(name, value=avro) for name, avro in _WRAPPERS.values()]
    in_array = ["null", *(name for name, _ in _WRAPPERS.values()), _record("LocalDateWrapper", value="int")]
    array = _record("ArrayWrapper", wrappedValues=["null", {"type": "array", "items": in_array}])
    optional_text = ["null", "string"]
    delete = _record(
        "HoodieDeleteRecord",
        recordKey=optional_text,
        partitionPath=optional_text,
        orderingVal=["null", *wrappers, array],
    )
    return json.dumps(_record("HoodieDeleteRecordList", deleteRecordList={"type": "array", "items": delete}))


def _delete_in(delete_list: AvroRecord) -> AvroRecord:
    items = delete_list.fields[0].type
    assert isinstance(items, AvroArray)
    assert isinstance(items.items, AvroRecord)
    return items.items


_DELETE_LIST = parse_avro_schema(_list_schema(), "HoodieDeleteRecordList")
_DELETE = _delete_in(_DELETE_LIST)


def decode_delete_list(payload: pa.Buffer, path: str, offset: int) -> DeleteList:
    """The deletes of a payload of version 3; ``path`` and ``offset`` are those of its block, for errors.

    Raises:
        CorruptLogFileError: the payload is not exactly one list of deletes.
    """
    keys, paths, ordering = _columns(payload, path, offset)
    field_counts = np.full(len(keys), DEFAULT, np.int32)
    groups = []
    *wrapped, array_wrapped = ordering.flatten()
    for kind, positions, values in _by_kind(_KINDS, wrapped):
        if kind is OrderingKind.INT:
            is_set = np.asarray(values) != 0
            positions, values = positions[is_set], values.filter(is_set)  # noqa: PLW2901 - without default values
        field_counts[positions] = 1
        groups.append(OrderingGroup(field_index=0, kind=kind, positions=positions, values=values))
    lists = array_wrapped.field(0)
    list_positions = np.flatnonzero(lists.is_valid())
    lists = lists.drop_null()
    field_counts[list_positions] = lists.value_lengths()
    groups += _array_groups(list_positions, lists)
    return DeleteList(keys, paths, field_counts, tuple(groups))


def _columns(payload: pa.Buffer, path: str, offset: int) -> tuple[Any, Any, Any]:
    """The record keys, partition paths and ordering values."""
    bounds = delete_bounds(payload, _DELETE, path, offset)
    if bounds is not None:
        keys, paths, ordering = decode_avro_records(payload, *bounds, _DELETE, None, path, offset).columns
        return keys, paths, ordering
    starts, ends = np.zeros(1, np.int64), np.full(1, payload.size, np.int64)
    list_column: Any = decode_avro_records(payload, starts, ends, _DELETE_LIST, None, path, offset).column(0)
    keys, paths, ordering = list_column.flatten().flatten()
    return keys, paths, ordering


def _array_groups(positions: _Positions, lists: Any) -> Iterator[OrderingGroup]:  # noqa: ANN401 - a ListArray
    """The values of the arrays of the deletes at ``positions``, by index in the array and by kind."""
    parents = np.asarray(pc.list_parent_indices(lists))
    values = lists.flatten()
    firsts = np.cumsum(lists.value_lengths()) - np.asarray(lists.value_lengths())
    field_indices = np.arange(len(values)) - firsts[parents]
    nulls = np.flatnonzero(values.is_null())
    kinds = [*_by_kind(_KINDS_IN_ARRAY, values.flatten()), (OrderingKind.NULL, nulls, pa.nulls(nulls.size))]
    for kind, rows, kind_values in kinds:
        order = np.argsort(field_indices[rows], kind="stable")
        distinct, edges = np.unique(field_indices[rows[order]], return_index=True)
        for index, members in zip(distinct.tolist(), np.split(order, edges[1:]), strict=False):
            yield OrderingGroup(
                field_index=index,
                kind=kind,
                positions=positions[parents[rows[members]]],
                values=kind_values.take(members),
            )


def _by_kind(kinds: tuple[OrderingKind, ...], wrapped: list[Any]) -> Iterator[tuple[OrderingKind, _Positions, Array]]:
    """The positions and the values of each kind that occurs; ``wrapped`` has the wrapper records of each kind."""
    for kind, records in zip(kinds, wrapped, strict=True):
        positions = np.flatnonzero(records.is_valid())
        if positions.size:
            yield kind, positions, records.drop_null().field(0)
