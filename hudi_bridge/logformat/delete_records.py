"""Parses delete blocks into deleted keys and their ordering values, as Arrow columns.

The content (``HoodieDeleteBlock``) is a 4-byte version, a 4-byte payload length, and the payload: Kryo in versions 1
and 2, an Avro ``HoodieDeleteRecordList`` in version 3.

Deletes have no lengths, so they are stepped over one after another. In a large block, many chains of deletes are
stepped over at once, each from a guessed start. All deletes of a file group have the same partition path between the
record key and the ordering value, so the end of the delete around an occurrence of this path is a guess. If every chain
ends at the start of the next one, all guesses were right.

Ordering values in a block may differ in kind: a delete by SQL has the Java Integer 0, a delete by upsert the value of
its row. They are cast to the types of the table's ordering fields. As in Hudi 1.x, numbers compare whatever their
width, an Integer with a long column too, but never with a String. Dates, times and timestamps may also be stored as the
int or long of their Avro encoding, in the column's unit. Hudi 0.x compares fewer classes: see ``of_other_classes``.
"""

import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, Self, TypeAlias

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
from hudi_bridge.schema.avro import parse_avro_schema
from hudi_bridge.schema.avro_types import AvroArray, AvroRecord

Column: TypeAlias = "pa.Array[Any]"
DEFAULT = -1
"""The number of ordering values of a delete with the default ordering value."""
_STORED_TYPES: dict[OrderingKind, pa.DataType] = {
    OrderingKind.NULL: pa.null(),
    OrderingKind.BOOLEAN: pa.bool_(),
    OrderingKind.INT: pa.int32(),
    OrderingKind.LONG: pa.int64(),
    OrderingKind.FLOAT: pa.float32(),
    OrderingKind.DOUBLE: pa.float64(),
    OrderingKind.BYTES: pa.binary(),
    OrderingKind.STRING: pa.string(),
    OrderingKind.UTF8: pa.string(),
    OrderingKind.DATE: pa.int32(),
    OrderingKind.LOCAL_DATE: pa.int32(),
    OrderingKind.TIME_MICROS: pa.int64(),
    OrderingKind.TIMESTAMP_MICROS: pa.int64(),
}
_INT_BITS = 32
_WHOLE_NUMBERS = frozenset({OrderingKind.INT, OrderingKind.LONG})
_NUMBERS = frozenset({OrderingKind.FLOAT, OrderingKind.DOUBLE}) | _WHOLE_NUMBERS
_DATES = frozenset({OrderingKind.DATE, OrderingKind.LOCAL_DATE}) | _WHOLE_NUMBERS
_DELETES_OF_CHAIN = 16
# With fewer chains, stepping over the deletes one after another takes less time.
_MIN_CHAINS = 32
_MAX_CHAINS = 1024
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
class OrderingGroup:
    """The values of one kind for one ordering field; ``positions`` are their ascending record numbers.

    Dates are numbers of days, times numbers of microseconds. Decimals have a type that holds all of them.
    """

    field_index: int
    kind: OrderingKind
    positions: npt.NDArray[np.int64]
    values: Column

    @classmethod
    def of(cls, *, field_index: int, kind: OrderingKind, positions: list[int], values: list[Any]) -> Self:
        """A group of Python values.

        Raises:
            pa.ArrowInvalid, OverflowError: a value is out of the range of its kind.
        """
        return cls(
            field_index=field_index,
            kind=kind,
            positions=np.array(positions, dtype=np.int64),
            values=pa.array(values, _STORED_TYPES.get(kind)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Orderings:
    """Ordering values as columns, one per ordering field.

    ``comparable`` is false, and every column null, for a default ordering value and for one that does not compare
    with the fields: it has another number of values, or a value of another kind. A null among several values does
    compare; its column is null in that row.
    """

    columns: tuple[Column, ...]
    comparable: pa.BooleanArray


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    """The deletes of one block, in block order; every column has one row per delete.

    ``is_default`` marks ordering values of null or the Java *Integer* 0: such a delete wins over every earlier version,
    while one with a long 0 is ordered like a row. ``field_counts`` has the number of ordering values of each delete, or
    ``DEFAULT``.
    """

    record_keys: pa.StringArray
    partition_paths: pa.StringArray
    is_default: pa.BooleanArray
    field_counts: npt.NDArray[np.int32]
    groups: tuple[OrderingGroup, ...]

    def __len__(self) -> int:
        return len(self.record_keys)

    def ordering_as(self, types: Sequence[pa.DataType]) -> Orderings:
        """The ordering values as columns of the types of the table's ordering fields."""
        return cast_orderings(self.groups, self.field_counts, types)

    def unlike_rows_of(self, types: Sequence[pa.DataType]) -> npt.NDArray[np.bool_]:
        """A mask of the deletes that Hudi 0.x does not compare with rows whose ordering fields have these types."""
        return of_other_classes(self.groups, len(self), types)


class DeleteList(NamedTuple):
    """The stored columns of ``DeleteRecords``."""

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
            actual = f"{version} in {block.path} at byte {block.content_offset}"
            raise UnsupportedTableError("delete block version", actual, "1 to 3")
    if deletes.record_keys.null_count:
        raise _corrupt(block, "a delete without a record key", "a record key")
    return DeleteRecords(
        record_keys=deletes.record_keys,
        partition_paths=deletes.partition_paths,
        is_default=pa.array(deletes.field_counts == DEFAULT),
        field_counts=deletes.field_counts,
        groups=deletes.groups,
    )


def _corrupt(block: LogBlock, actual: str, expected: str) -> CorruptLogFileError:
    return CorruptLogFileError(block.path, block.content_offset, actual, expected)


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
        actual = f"a decimal of {unscaled.bit_length()} bits and scale {scale}"
        raise _corrupt(block, actual, f"at most {_MAX_DECIMAL_BITS} bits and scale {_MAX_DECIMAL_SCALE}")
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
    """The deletes of a payload of version 3; ``path`` and ``offset`` of its block are for errors.

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
        # Deletes that follow one another without a gap, each of which is whole, are those of the list.
        with suppress(CorruptLogFileError):
            keys, paths, ordering = decode_avro_records(payload, *bounds, _DELETE, None, path, offset).columns
            return keys, paths, ordering
    starts, ends = np.zeros(1, np.int64), np.full(1, payload.size, np.int64)
    list_column: Any = decode_avro_records(payload, starts, ends, _DELETE_LIST, None, path, offset).column(0)
    keys, paths, ordering = list_column.flatten().flatten()
    return keys, paths, ordering


def _array_groups(positions: _Positions, lists: Any) -> Iterator[OrderingGroup]:  # noqa: ANN401 - a ListArray
    """The values in the arrays of the deletes at ``positions``, grouped by index in the array and by kind."""
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
    """Yields each kind that occurs with its positions and values; ``wrapped`` has the wrapper records of each kind."""
    for kind, records in zip(kinds, wrapped, strict=True):
        positions = np.flatnonzero(records.is_valid())
        if positions.size:
            yield kind, positions, records.drop_null().field(0)


def delete_bounds(payload: pa.Buffer, delete: AvroRecord, path: str, offset: int) -> tuple[Ints, Ints] | None:
    """The start and end of each delete of a list; None if the list is small or the guessed starts turn out wrong.

    All deletes have the width of the first one if that fills the list; whether they do, decoding shows. ``delete`` is
    the record of a key, a partition path and an ordering value; ``path`` and ``offset`` are for errors.
    """
    source = DatumBytes.of(payload, np.zeros(1, np.int64), path, offset)
    try:
        head = Cursors(source, np.zeros(1, np.int64), np.full(1, payload.size, np.int64))
        count, first, end = int(head.varints("a count")[0]), int(head.pos[0]), payload.size - 1
        # One block of all deletes, and the end of the list. A damaged list may announce more than it has bytes for.
        if not _MIN_CHAINS * _DELETES_OF_CHAIN <= count <= end - first or source.data[end] != 0:
            return None
        width = value_step(delete, source)(first, end) - first
        if first + count * width == end:
            uniform_starts = np.arange(first, end, width)
            return uniform_starts, uniform_starts + width
        starts = np.unique([first, *_likely_starts(payload.to_pybytes(), source, delete, count, first, end)])
        if starts.size < _MIN_CHAINS:
            return None
        delete_starts = _starts_of_chains(source, delete, starts, count, end)
    except CorruptLogFileError:
        # A guess was wrong, or the block is damaged; then stepping over all deletes raises the error.
        return None
    return None if delete_starts is None else (delete_starts, np.append(delete_starts[1:], end))


def _likely_starts(
    content: bytes, source: DatumBytes, delete: AvroRecord, count: int, first: int, end: int
) -> Iterator[int]:
    """Guessed starts of deletes, up to one in each part of the list."""
    over_key, over_path, over_ordering = (value_step(field.type, source) for field in delete.fields)
    after_key = over_key(first, end)
    after_path = over_path(after_key, end)
    # Includes the first byte of the ordering value, which is its kind.
    mark = content[after_key : after_path + 1]
    chains = min(count // _DELETES_OF_CHAIN, _MAX_CHAINS)
    part = (end - first) // chains
    for start in range(first + part, end - part, part):
        match = content.find(mark, start, start + part)
        if match >= 0:
            yield over_ordering(match + len(mark) - 1, end)


def _starts_of_chains(source: DatumBytes, delete: AvroRecord, starts: Ints, count: int, end: int) -> Ints | None:
    """The starts of all deletes if every chain ends at the next start and there are ``count``
    deletes; otherwise None.
    """
    stops = np.append(starts[1:], end)
    cursors = Cursors(source, starts, np.full(starts.size, end, np.int64))
    parts, number = [starts], starts.size
    while len(cursors) >= _MIN_CHAINS:
        step_over(delete, cursors)
        unfinished = np.flatnonzero(cursors.pos != stops)
        cursors, stops = cursors.select(unfinished), stops[unfinished]
        parts.append(cursors.pos)
        number += unfinished.size
        if (cursors.pos > stops).any() or number > count:
            return None
    # The few longest chains are finished one delete at a time; their current positions are already in ``parts``.
    step = value_step(delete, source)
    for position, stop in zip(cursors.pos.tolist(), stops.tolist(), strict=True):
        rest = []
        next_start = step(position, end)
        while next_start < stop:
            rest.append(next_start)
            next_start = step(next_start, end)
        if next_start != stop:
            return None
        parts.append(np.array(rest, np.int64))
    all_starts = np.sort(np.concatenate(parts))
    return all_starts if all_starts.size == count else None


def cast_orderings(
    groups: Sequence[OrderingGroup], field_counts: npt.NDArray[np.int32], types: Sequence[pa.DataType]
) -> Orderings:
    """The values of all records as columns of these types; ``field_counts`` has the number of values of each record."""
    comparable = (field_counts == len(types)) & (field_counts > 0)
    fields: list[tuple[npt.NDArray[np.int64], Column]] = []
    for index, data_type in enumerate(types):
        rows, values, compares = _cast_field(
            [group for group in groups if group.field_index == index], data_type, len(field_counts)
        )
        comparable &= compares
        fields.append((rows, values))
    columns: list[Column] = []
    for rows, values in fields:
        indices: pa.Int64Array = pa.array(rows, pa.int64(), mask=(rows < 0) | ~comparable)
        columns.append(values.take(indices))
    return Orderings(columns=tuple(columns), comparable=pa.array(comparable))


def of_other_classes(
    groups: Sequence[OrderingGroup], records: int, types: Sequence[pa.DataType]
) -> npt.NDArray[np.bool_]:
    """A mask of the records whose values have other Java classes than Hudi 0.x reads from rows of these types.

    0.x compares a delete with a row only if their classes are equal. It takes the value of a row as Avro has it, such
    as an Integer for a date, but unwraps the value of a delete, such as a LocalDate.

    Source: ``HoodieMergedLogRecordScanner.processNextDeletedRecord``, ``SpillableMapUtils.getPreCombineVal`` and
    ``HoodieAvroUtils.unwrapAvroValueWrapper`` of 0.x.
    """
    others = np.zeros(records, dtype=np.bool_)
    in_rows = list(map(_kind_in_rows, types))
    for group in groups:
        if group.field_index >= len(in_rows) or group.kind is not in_rows[group.field_index]:
            others[group.positions] = True
    return others


def _kind_in_rows(data_type: pa.DataType) -> OrderingKind | None:
    """The kind whose Java class is the class of the Avro value in a row; None for decimals, which no kind has."""
    types = pa.types
    if types.is_integer(data_type) or types.is_temporal(data_type):
        return OrderingKind.INT if data_type.bit_width <= _INT_BITS else OrderingKind.LONG
    if types.is_floating(data_type):
        return OrderingKind.FLOAT if types.is_float32(data_type) else OrderingKind.DOUBLE
    if types.is_boolean(data_type):
        return OrderingKind.BOOLEAN
    if types.is_string(data_type) or types.is_large_string(data_type):
        return OrderingKind.UTF8
    return OrderingKind.BYTES if types.is_binary(data_type) or types.is_large_binary(data_type) else None


def _cast_field(
    groups: Sequence[OrderingGroup], data_type: pa.DataType, length: int
) -> tuple[npt.NDArray[np.int64], Column, npt.NDArray[np.bool_]]:
    """The values of one field: for each record an index into the values or -1, the values, and
    whether each one compares.
    """
    rows = np.full(length, -1, dtype=np.int64)
    compares = np.zeros(length, dtype=np.bool_)
    parts: list[Column] = [pa.array([], data_type)]
    filled = 0
    for group in groups:
        if group.kind is OrderingKind.NULL:
            compares[group.positions] = True
            continue
        cast = _cast(group, data_type)
        if cast is None:
            continue
        compares[group.positions] = cast.is_valid().to_numpy(zero_copy_only=False)
        rows[group.positions] = np.arange(filled, filled + len(cast))
        filled += len(cast)
        parts.append(cast)
    return rows, pa.concat_arrays(parts), compares


def _cast(group: OrderingGroup, data_type: pa.DataType) -> "Column | None":
    """The values cast to the type, null where one does not fit; None if the kind does not compare with the type."""
    via = _intermediate_type(group.kind, data_type)
    if via is None:
        return None
    values = group.values
    if pa.types.is_floating(data_type):
        # An integer beyond a float's precision is rounded, as in Java's comparison.
        return values.cast(via, safe=False).cast(data_type, safe=False)
    try:
        return values.cast(via).cast(data_type)
    except pa.ArrowInvalid:
        return pa.concat_arrays([_cast_one(values.slice(row, 1), via, data_type) for row in range(len(values))])


def _cast_one(value: Column, via: pa.DataType, data_type: pa.DataType) -> Column:
    try:
        return value.cast(via).cast(data_type)
    except pa.ArrowInvalid:
        return pa.array([None], data_type)


def _intermediate_type(kind: OrderingKind, data_type: pa.DataType) -> pa.DataType | None:
    """The type to cast to before the column's type; None if the kind does not compare with the column."""
    types = pa.types
    if types.is_timestamp(data_type):
        if kind is OrderingKind.TIMESTAMP_MICROS:
            return pa.timestamp("us", data_type.tz)
        return pa.int64() if kind in _WHOLE_NUMBERS else None
    if types.is_date32(data_type):
        return pa.int32() if kind in _DATES else None
    if types.is_time(data_type):
        if kind is OrderingKind.TIME_MICROS:
            return pa.time64("us")
        width = pa.int32() if types.is_time32(data_type) else pa.int64()
        return width if kind in _WHOLE_NUMBERS else None
    if types.is_integer(data_type):
        return data_type if kind in _WHOLE_NUMBERS else None
    if types.is_floating(data_type):
        return pa.float64() if kind in _NUMBERS else None
    return data_type if _is_same_kind(kind, data_type) else None


def _is_same_kind(kind: OrderingKind, data_type: pa.DataType) -> bool:
    types = pa.types
    match kind:
        case OrderingKind.BOOLEAN:
            return types.is_boolean(data_type)
        case OrderingKind.STRING | OrderingKind.UTF8:
            return types.is_string(data_type) or types.is_large_string(data_type)
        case OrderingKind.BYTES:
            return types.is_binary(data_type) or types.is_large_binary(data_type)
        case OrderingKind.DECIMAL:
            return types.is_decimal(data_type)
    return False
