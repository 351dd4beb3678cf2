"""The records of one log block, and the map of the records that survive."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.merge.arrays import Booleans, Column, Positions, as_booleans, ordering_values
from hudi_bridge.merge.rules import IS_DELETED_COLUMN, MergeRule
from hudi_bridge.schema.meta_columns import OPERATION_COLUMN

_KEYS_AT_ONCE = 1 << 15
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecords:
    """The records of one block, in order.

    ``rows`` holds the records of a data block, None for a delete block; ``absent`` names the columns that a partial
    update left out. ``ordering`` holds one array for each ordering field, in the types of the query's columns.
    ``always_deletes`` marks deletes without an ordering value, ``marked`` rows that delete the record if they survive.
    ``base_positions`` are the positions of the records in the base file, -1 for one without; None if the block has
    none.
    """

    keys: Column
    rows: pa.RecordBatch | None
    absent: frozenset[str]
    ordering: tuple[Column, ...]
    is_delete: Booleans
    always_deletes: Booleans
    marked: Booleans
    base_positions: Positions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecordMap:
    """The surviving log version of each record.

    A record has the key, or the base row, that others do not have: if ``base_positions`` are known, several may have
    equal keys.

    ``keys[i]`` belongs to ``rows[i]`` for the first ``rows.num_rows`` keys; the keys after those are deleted.
    ``always_deletes`` and ``marked`` are as in ``LogRecords``. ``unset`` marks, for columns that are unset in some row,
    the rows that take them from the base row. ``base_positions`` are the positions in the base file by which base rows
    are found, None if they are found by key.
    """

    keys: Column
    rows: pa.Table
    ordering: tuple[Column, ...]
    always_deletes: Booleans
    marked: Booleans
    unset: Mapping[str, Booleans]
    base_positions: Positions | None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def is_delete(self) -> Booleans:
        """For each key, whether its survivor deletes the record."""
        return np.arange(len(self.keys)) >= self.rows.num_rows


def selected(records: LogRecords, chosen: Booleans) -> LogRecords:
    """Some of the records of a block."""
    mask = pa.array(chosen)
    return LogRecords(
        keys=records.keys.filter(mask),
        rows=None if records.rows is None else records.rows.filter(mask),
        absent=records.absent,
        ordering=tuple(column.filter(mask) for column in records.ordering),
        is_delete=records.is_delete[chosen],
        always_deletes=records.always_deletes[chosen],
        marked=records.marked[chosen],
        base_positions=None if records.base_positions is None else records.base_positions[chosen],
    )


def part_of_keys(keys: Column, parts: int) -> Positions:
    """The part of each key, from 0 to ``parts`` - 1.

    Parts have about the same size. Equal keys are in the same part, so each part can be merged separately.
    """
    return (key_hashes(keys) % np.uint64(parts)).astype(np.int64)


def key_hashes(keys: Column) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each key; equal keys have equal hashes."""
    parts = (keys.slice(start, _KEYS_AT_ONCE) for start in range(0, len(keys), _KEYS_AT_ONCE))
    return np.concatenate([np.zeros(0, dtype=np.uint64), *(_hashes(part.cast(pa.large_binary())) for part in parts)])


def _hashes(keys: Column) -> npt.NDArray[np.uint64]:
    """A polynomial hash of the bytes of each key, modulo 2**64."""
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(memoryview(offset_buffer or b""), dtype=np.int64)[keys.offset : keys.offset + len(keys) + 1]
    lengths = np.diff(offsets)
    used = np.frombuffer(memoryview(data_buffer or b""), dtype=np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64)
    starts = offsets[:-1] - offsets[0]
    index = np.arange(len(used)) - np.repeat(starts, lengths)
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.full(int(lengths.max(initial=0)), _HASH_FACTOR, dtype=np.uint64))
        sums = np.concatenate([[np.uint64(0)], np.cumsum((used + np.uint64(1)) * powers[index])])
        hashes = sums[starts + lengths] - sums[starts]
        hashes = (hashes ^ (hashes >> np.uint64(32))) * _HASH_FACTOR
    mixed: npt.NDArray[np.uint64] = hashes ^ (hashes >> np.uint64(29))
    return mixed


def data_records(
    rows: pa.RecordBatch,
    keys: Column,
    rule: MergeRule,
    *,
    absent: frozenset[str] = frozenset(),
    base_positions: Positions | None = None,
) -> LogRecords:
    """The records of a data block."""
    flagged, marked = _flagged_deletes(rows), _marked_deletes(rows, rule)
    by_operation = _deletes_by_operation(rows, rule)
    if rule.precedence.orders_as_0x:
        marked = marked | by_operation
    else:
        flagged = flagged | by_operation
    is_delete = flagged | marked if rule.precedence.marked_in_logs else flagged
    ordering = tuple(ordering_values(name, rows) for name in rule.ordering_fields) if rule.uses_ordering else ()
    return LogRecords(
        keys=keys,
        rows=rows,
        absent=absent,
        ordering=ordering,
        is_delete=is_delete,
        always_deletes=is_delete & has_default_ordering(ordering, rows.num_rows),
        marked=marked,
        base_positions=base_positions,
    )


def delete_records(
    keys: Column, ordering: tuple[Column, ...], always_deletes: Booleans, base_positions: Positions | None = None
) -> LogRecords:
    """The records of a delete block."""
    return LogRecords(
        keys=keys,
        rows=None,
        absent=frozenset(),
        ordering=ordering,
        is_delete=np.ones(len(keys), dtype=np.bool_),
        always_deletes=always_deletes,
        marked=np.zeros(len(keys), dtype=np.bool_),
        base_positions=base_positions,
    )


def has_default_ordering(ordering: tuple[Column, ...], rows: int) -> Booleans:
    """Which of some deletes have no ordering value to compare, and so replace whatever came before."""
    # The default is null or Java's Integer 0; a long 0 is a value like any other.
    if len(ordering) != 1:
        return np.full(rows, not ordering)
    if pa.types.is_int32(ordering[0].type):
        return as_booleans(pc.equal(ordering[0].fill_null(0), pa.scalar(0)))
    return as_booleans(ordering[0].is_null())


def _flagged_deletes(rows: pa.RecordBatch) -> Booleans:
    flagged = np.zeros(rows.num_rows, dtype=np.bool_)
    position = rows.schema.get_field_index(IS_DELETED_COLUMN)
    if position >= 0 and pa.types.is_boolean(rows.schema.field(position).type):
        flagged |= as_booleans(rows.column(position))
    return flagged


def _deletes_by_operation(rows: pa.RecordBatch, rule: MergeRule) -> Booleans:
    position = rows.schema.get_field_index(OPERATION_COLUMN)
    if position < 0:
        return np.zeros(rows.num_rows, dtype=np.bool_)
    return as_booleans(pc.is_in(rows.column(position), value_set=pa.array(rule.precedence.delete_operations)))


def _marked_deletes(rows: pa.RecordBatch, rule: MergeRule) -> Booleans:
    if rule.delete_marker is not None:
        field, marker = rule.delete_marker
        position = rows.schema.get_field_index(field)
        if position >= 0:
            return as_booleans(pc.equal(rows.column(position).cast(pa.string()), pa.scalar(marker)))
    return np.zeros(rows.num_rows, dtype=np.bool_)
