"""The records of log blocks, and the map from record keys, or positions of base rows, to the versions that survive.

Survivors that are rows come first, then deletes. A base file may have several rows of one key, and log records for each
of them; if these are matched by position, they are versions of different records.

Source: ``PositionBasedFileGroupRecordBuffer`` of Hudi.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge.arrays import (
    Booleans,
    Column,
    Positions,
    Value,
    all_positions,
    as_booleans,
    ordering_type,
    ordering_values,
)
from hudi_bridge.merge.custom_payload import LogVersions, RecordMerger, merge_log_versions
from hudi_bridge.merge.fold import (
    FieldMerging,
    Versions,
    combine_versions,
    fills_earlier,
    fold_fields,
    fold_versions,
    ordering_ranks,
    unset_fields,
    what_versions_are,
)
from hudi_bridge.merge.rules import IS_DELETED_COLUMN, MergeRule
from hudi_bridge.schema.meta_columns import META_COLUMNS, OPERATION_COLUMN

_KEYS_AT_ONCE = 1 << 15
_MAX_GAPS = 16
"""Positions of base rows are numbered by a table of all rows up to this many times their number."""
_HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
HEEDED_BY_MERGE = frozenset(
    {
        "after_row",
        "after_delete",
        "after_unordered_delete",
        "over_base_row",
        "nulls_as_zero",
        "marked_in_logs",
        "flag_deletes_base",
        "orders_as_0x",
        "ordering_fields",
        "delete_marker",
        "fill",
        "fills_in_logs",
        "newest_meta",
        "payload",
        "sequences_against_base",
        "equal_sequences_keep_base",
        "sequences_in_logs",
        "asks_about_deletes",
    }
)
"""The behaviours of rules that the columnar merge supports: among log records here, against base
rows in ``columnar``.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecords:
    """The records of one block, in order.

    Attributes:
        keys: the record keys.
        rows: the records of a data block; None for a delete block.
        absent: the columns that a partial update left out.
        ordering: one array for each ordering field, in the types of the query's columns.
        is_delete: whether a record is compared with other log records as a delete.
        always_deletes: marks those without an ordering value.
        marked: marks rows that are marked as deletes, and delete the record if they survive.
        base_positions: the positions of the records in the base file, -1 for a record without one; None if the block
            has no positions.
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

    Records are identified by key or, if ``base_positions`` are given, by base row; then several may have equal keys.

    ``keys[i]`` belongs to ``rows[i]`` for the first ``rows.num_rows`` keys; the following keys are deleted.
    ``always_deletes`` and ``marked`` are as in ``LogRecords``. ``unset`` marks, for columns that are unset in some row,
    the rows that take them from the base row. ``base_positions`` match records with base rows; None if keys do.
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


def build_record_map(
    blocks: Sequence[LogRecords],
    rule: MergeRule,
    schema: pa.Schema,
    defaults: Mapping[str, Value],
    *,
    by_position: bool = False,
) -> LogRecordMap:
    """The surviving records of all blocks, oldest first; ``schema`` has the columns of the rows.

    With ``by_position``, records with the same position are versions of one record, if all blocks have positions.
    Otherwise, records with the same key are; if some of these have positions, only the ones of a single base row count.

    Raises:
        MergeError: a user's payload or merger failed.
        UnsupportedTableError: a user's payload would have to merge partial updates, or the rule has a behaviour that is
            not supported.
    """
    rule.require_heeded(HEEDED_BY_MERGE, "the columnar merge")
    if rule.payload is not None and any(block.absent for block in blocks):
        actual = f"rows of some columns, with the payload {type(rule.payload).__name__} of your own"
        raise UnsupportedTableError(
            "partial update", actual, "partial updates with the payloads and merge modes of Hudi"
        )
    numbered = _numbered_versions(blocks, by_position=by_position)
    written = _all_versions(numbered, rule, schema)
    compares = rule.ranks_logs and numbered.records < len(numbered.codes)
    marked = _concatenated([block.marked for block in numbered.blocks])
    versions = Versions(
        codes=numbered.codes,
        keys=numbered.records,
        ranks=ordering_ranks(written.ordering if compares else (), len(numbered.codes), rule, against_base=False),
        what=what_versions_are(written.is_delete, written.no_ordering, marked),
    )
    unset_by_row = _unset_by_row(numbered.blocks, written.rows, rule, defaults)
    outcome = _survivors(numbered.blocks, rule, written, versions, unset_by_row)
    merged, survivors = outcome.versions, outcome.positions
    marked = _concatenated([marked, np.zeros(len(merged.keys) - len(written.keys), dtype=np.bool_)])

    marked = marked[survivors]
    deletes = outcome.deletes | marked
    if outcome.sources or rule.precedence.flag_deletes_base:
        marks = _marks_of_survivors(outcome, rule)
        marked = np.logical_or.reduce([np.zeros_like(deletes), *marks.values()])
        deletes = outcome.deletes | marked
        if rule.precedence.flag_deletes_base and IS_DELETED_COLUMN in marks:
            # These are compared with base rows as records of delete blocks are.
            marked &= ~marks[IS_DELETED_COLUMN]
    order: Positions | slice = slice(None)
    if deletes.any():
        order = np.concatenate([np.flatnonzero(~deletes), np.flatnonzero(deletes)])
    rows = len(deletes) - np.count_nonzero(deletes)
    rows_of_field = {name: merged.row_of_version[source[order][:rows]] for name, source in outcome.sources.items()}
    stored = _stored_versions(survivors, versions)[order]
    survivors, marked = survivors[order], marked[order]
    rows_of_survivors = merged.row_of_version[survivors[:rows]]
    return LogRecordMap(
        keys=_taken(merged.keys, survivors),
        rows=_taken_rows(merged.rows, rows_of_survivors, rows_of_field),
        ordering=tuple(_taken(column, survivors) for column in merged.ordering),
        always_deletes=merged.no_ordering[survivors],
        marked=marked,
        unset={name: unset[rows_of_field.get(name, rows_of_survivors)] for name, unset in unset_by_row.items()},
        base_positions=None if numbered.positions is None else numbered.positions[stored],
    )


def data_records(
    rows: pa.RecordBatch,
    keys: Column,
    rule: MergeRule,
    *,
    absent: frozenset[str] = frozenset(),
    base_positions: Positions | None = None,
) -> LogRecords:
    """The records of a data block."""
    marked = marked_deletes(rows, rule)
    ordering = tuple(ordering_values(name, rows) for name in rule.ordering_fields) if rule.uses_ordering else ()
    always_deletes = np.zeros_like(marked)
    reads_ordering = rule.precedence.marked_in_logs or rule.uses_ordering
    if marked.any() and reads_ordering and not rule.precedence.orders_as_0x:
        always_deletes = marked & has_default_ordering(ordering, rows.num_rows)
    return LogRecords(
        keys=keys,
        rows=rows,
        absent=absent,
        ordering=ordering,
        is_delete=marked if rule.precedence.marked_in_logs else always_deletes,
        always_deletes=always_deletes,
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
    """A mask of the deletes without an ordering value to compare, which replace every earlier version."""
    # The default is null or Java's Integer 0; a long 0 is a value like any other.
    if len(ordering) != 1:
        return np.full(rows, not ordering)
    if pa.types.is_int32(ordering[0].type):
        return as_booleans(pc.equal(ordering[0].fill_null(0), pa.scalar(0)))
    return as_booleans(ordering[0].is_null())


def selected(records: LogRecords, selection: Booleans) -> LogRecords:
    """The records of a block at which a mask is true."""
    mask = pa.array(selection)
    return LogRecords(
        keys=records.keys.filter(mask),
        rows=None if records.rows is None else records.rows.filter(mask),
        absent=records.absent,
        ordering=tuple(column.filter(mask) for column in records.ordering),
        is_delete=records.is_delete[selection],
        always_deletes=records.always_deletes[selection],
        marked=records.marked[selection],
        base_positions=None if records.base_positions is None else records.base_positions[selection],
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


def marked_deletes(rows: pa.RecordBatch, rule: MergeRule) -> Booleans:
    """Whether rows are marked as deletes."""
    marked = np.zeros(rows.num_rows, dtype=np.bool_)
    for marks in marks_of(rows, rule).values():
        marked |= marks
    return marked


def marks_of(rows: pa.RecordBatch | pa.Table, rule: MergeRule) -> dict[str, Booleans]:
    """For each column that marks rows as deletes, a mask: for the flag, the operation, and the delete marker."""
    marks = {}
    names = rows.schema.names
    if IS_DELETED_COLUMN in names and pa.types.is_boolean(rows.schema.field(IS_DELETED_COLUMN).type):
        marks[IS_DELETED_COLUMN] = as_booleans(_flat(rows.column(IS_DELETED_COLUMN)))
    if OPERATION_COLUMN in names:
        operations = pa.array(rule.precedence.delete_operations)
        marks[OPERATION_COLUMN] = as_booleans(pc.is_in(_flat(rows.column(OPERATION_COLUMN)), value_set=operations))
    if rule.delete_marker is not None and rule.delete_marker[0] in names:
        field, marker = rule.delete_marker
        marks[field] = as_booleans(pc.equal(_flat(rows.column(field)).cast(pa.string()), pa.scalar(marker)))
    return marks


def _flat(column: "Column | pa.ChunkedArray[Any]") -> Column:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


@dataclass(frozen=True, slots=True, kw_only=True)
class _NumberedVersions:
    """The versions that count, with the ``codes`` of their ``records``, which are numbered from 0 on.

    ``positions`` are the positions in the base file if these tell records apart; None if keys do.
    """

    blocks: Sequence[LogRecords]
    keys: Column
    positions: Positions | None
    codes: Positions
    records: int


def _numbered_versions(blocks: Sequence[LogRecords], *, by_position: bool) -> _NumberedVersions:
    positions = all_positions([block.base_positions for block in blocks]) if by_position else None
    keys = _joined_keys(blocks)
    codes, records = _numbered(keys if positions is None else pa.array(positions), positions)
    counted = _single_position(blocks, codes, records) if positions is None else None
    if counted is not None:
        ends = np.cumsum([len(block.keys) for block in blocks])[:-1]
        blocks = [selected(block, part) for block, part in zip(blocks, np.split(counted, ends), strict=True)]
        keys, codes = _joined_keys(blocks), codes[counted]
    return _NumberedVersions(blocks=blocks, keys=keys, positions=positions, codes=codes, records=records)


def _all_versions(numbered: _NumberedVersions, rule: MergeRule, schema: pa.Schema) -> LogVersions:
    blocks = numbered.blocks
    in_rows = _concatenated([np.full(len(block.keys), block.rows is not None) for block in blocks])
    row_of_version = np.cumsum(in_rows, dtype=np.int64)
    row_of_version -= 1
    return LogVersions(
        keys=numbered.keys,
        rows=pa.Table.from_batches([block.rows for block in blocks if block.rows is not None], schema=schema),
        row_of_version=row_of_version,
        in_rows=in_rows,
        ordering=_ordering_columns(blocks, rule, schema),
        is_delete=_concatenated([block.is_delete for block in blocks]),
        no_ordering=_concatenated([block.always_deletes for block in blocks]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Survivors:
    """The position of each record's surviving version among all ``versions``, and which of them are deletes.

    ``versions`` has the versions in the logs, followed by versions that a merger has made. ``sources`` has the
    positions of the versions that merged fields come from.
    """

    versions: LogVersions
    positions: Positions
    deletes: Booleans
    sources: Mapping[str, Positions] = field(default_factory=dict)


def _survivors(
    blocks: Sequence[LogRecords],
    rule: MergeRule,
    written: LogVersions,
    versions: Versions,
    unset_by_row: Mapping[str, Booleans],
) -> _Survivors:
    if isinstance(rule.payload, RecordMerger) and rule.precedence.asks_about_deletes:
        positions, merged = merge_log_versions(rule.payload, written, versions.codes, versions.keys)
        return _Survivors(versions=merged, positions=positions, deletes=merged.is_delete[positions])
    if rule.payload is not None:
        positions, deletes, row_of_version, rows = combine_versions(
            rule.payload, versions, written.keys, written.row_of_version, written.rows
        )
        combined = replace(written, row_of_version=row_of_version, rows=rows)
        return _Survivors(versions=combined, positions=positions, deletes=deletes)
    sources: Mapping[str, Positions] = {}
    if versions.keys == len(versions.codes):
        positions = np.arange(versions.keys)
    elif (merging := _field_merging(blocks, unset_by_row, written, rule)) is not None:
        positions, sources = fold_fields(rule.precedence.in_logs, versions, merging)
    else:
        positions = fold_versions(rule.precedence.in_logs, versions)
    return _Survivors(versions=written, positions=positions, deletes=written.is_delete[positions], sources=sources)


def _marks_of_survivors(outcome: _Survivors, rule: MergeRule) -> dict[str, Booleans]:
    """For each column that marks deletes, the survivors that it marks: it is merged as any field is."""
    merged, marks = outcome.versions, {}
    for name, marked_rows in marks_of(merged.rows, rule).items():
        sources = outcome.sources.get(name, outcome.positions)
        marks[name] = merged.in_rows[sources]
        marks[name][marks[name]] = marked_rows[merged.row_of_version[sources[marks[name]]]]
    return marks


def _joined_keys(blocks: Sequence[LogRecords]) -> Column:
    return pa.chunked_array([block.keys for block in blocks], type=pa.string()).combine_chunks()


def _numbered(values: Column, positions: Positions | None) -> tuple[Positions, int]:
    """The number of each value among the distinct ones, in order of appearance, and the number of distinct ones.

    ``positions`` are the values if these are positions. A table of their hashes takes many times longer than the ways
    without, and as much memory as keys of a few bytes.
    """
    index = np.arange(len(values))
    if pc.all(pc.less(values[:-1], values[1:]), min_count=0).as_py():
        return index, len(index)
    if positions is not None and positions.max() < _MAX_GAPS * len(positions):
        # Of equal positions, the one that is assigned last counts.
        first = np.empty(int(positions.max()) + 1, dtype=np.int64)
        first[positions[::-1]] = index[::-1]
        numbers = np.cumsum(first[positions] == index) - 1
        return numbers[first[positions]], int(numbers[-1]) + 1
    encoded = values.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False), len(encoded.dictionary)


def _single_position(blocks: Sequence[LogRecords], codes: Positions, distinct: int) -> Booleans | None:
    """The versions that count, by key code, if blocks without positions follow others; None if all count.

    Hudi has then merged the versions of each position, and continues with one position for each key: the one that its
    hash map returns last. The highest is taken here. All positions of a key have the same versions apart from their
    sequence numbers, because a writer changes all rows of a key (``fallbackToKeyBasedBuffer``).
    """
    if all(block.base_positions is None for block in blocks):
        return None
    positions = np.concatenate(
        [np.full(len(block.keys), -1) if block.base_positions is None else block.base_positions for block in blocks]
    )
    positioned = np.flatnonzero(positions >= 0)
    position_of_key = np.full(distinct, -1)
    position_of_key[codes[positioned]] = positions[positioned]
    if (position_of_key[codes[positioned]] == positions[positioned]).all():
        return None
    ascending = positioned[np.argsort(positions[positioned], kind="stable")]
    position_of_key[codes[ascending]] = positions[ascending]
    counted: Booleans = (positions < 0) | (position_of_key[codes] == positions)
    return counted


def _stored_versions(survivors: Positions, versions: Versions) -> Positions:
    """For each survivor, a version of the same record that is in the logs, and so has its base row."""
    is_made = survivors >= len(versions.codes)
    if not is_made.any():
        return survivors
    _, first_of_key = np.unique(versions.codes, return_index=True)
    return np.where(is_made, first_of_key, survivors)


def _ordering_columns(blocks: Sequence[LogRecords], rule: MergeRule, schema: pa.Schema) -> tuple[Column, ...]:
    if not rule.uses_ordering:
        return ()
    return tuple(
        pa.chunked_array([block.ordering[position] for block in blocks], ordering_type(name, schema)).combine_chunks()
        for position, name in enumerate(rule.ordering_fields)
    )


def _unset_by_row(
    blocks: Sequence[LogRecords], rows: pa.Table, rule: MergeRule, defaults: Mapping[str, Value]
) -> dict[str, Booleans]:
    unset = unset_fields(rows, rule, defaults)
    start = 0
    for block in blocks:
        if block.rows is None:
            continue
        end = start + block.rows.num_rows
        for name in block.absent.intersection(rows.schema.names):
            unset.setdefault(name, np.zeros(rows.num_rows, dtype=np.bool_))[start:end] = True
        start = end
    return unset


def _field_merging(
    blocks: Sequence[LogRecords],
    unset_by_row: Mapping[str, Booleans],
    written: LogVersions,
    rule: MergeRule,
) -> FieldMerging | None:
    partial = any(block.absent for block in blocks)
    if not (partial or (rule.fill is not None and rule.fills_in_logs)):
        return None
    newest = frozenset(META_COLUMNS).intersection(written.rows.schema.names) if rule.newest_meta else frozenset()
    # Versions in delete blocks have no row and get an arbitrary one, which is never used: deletes are not merged.
    return FieldMerging(
        unset={name: unset[np.maximum(written.row_of_version, 0)] for name, unset in unset_by_row.items()},
        newest=newest,
        fills_earlier=fills_earlier(rule),
    )


def _concatenated(arrays: list[Booleans]) -> Booleans:
    return np.concatenate([np.zeros(0, dtype=np.bool_), *arrays])


def _taken(column: Column, positions: Positions) -> Column:
    return column if _is_identity(positions, len(column)) else column.take(pa.array(positions, pa.int64()))


def _taken_rows(rows: pa.Table, positions: Positions, rows_of_field: Mapping[str, Positions]) -> pa.Table:
    if not rows_of_field:
        if _is_identity(positions, rows.num_rows):
            return rows
        return rows.take(pa.array(positions, pa.int64()))
    columns = [
        rows.column(name).take(pa.array(rows_of_field.get(name, positions), pa.int64())) for name in rows.schema.names
    ]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _is_identity(positions: Positions, length: int) -> bool:
    return len(positions) == length and bool((positions == np.arange(length)).all())
