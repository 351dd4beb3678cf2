"""Folds the log versions of all keys at once into the surviving version, and finds the version of each merged field.

Keys without deletes need one sort. Other keys, and all keys if fields are merged, are folded in rounds: round n
compares the n-th version of each key with the survivor so far.

Ordering values are compared by their ranks: integers that compare like the values. Text and binary compare by their
bytes. Missing values rank below all others, except that missing numbers count as 0 in Hudi 1.x. Hudi 0.x compares the
bytes of binary as signed numbers. It also compares decimals among log versions by the bytes that Avro stores, so that
negative ones rank above all others.

If fields are merged, the unset fields of the winner are filled from the version that loses; by some rules only if the
later version wins.

Source: ``OrderingValues``, ``HoodieRecord.DEFAULT_ORDERING_VALUE`` and ``PartialUpdateHandler`` of Hudi 1.x;
``DefaultHoodieRecordPayload`` of 0.x, whose values are a ``ByteBuffer`` and a ``GenericData.Fixed`` of Avro,
``PartialUpdateAvroPayload``, ``OverwriteNonDefaultsWithLatestAvroPayload`` and ``PostgresDebeziumAvroPayload``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.caching import cached_property
from hudi_bridge.errors import MergeError, UnsupportedTableError
from hudi_bridge.merge import ordering
from hudi_bridge.merge.arrays import Booleans, Column, Kinds, Positions, Ranks, Value, as_booleans
from hudi_bridge.merge.custom_payload import RecordMerger, RecordPayload, Row, ask_payload, rows_of_payload
from hudi_bridge.merge.ordering import InLogs
from hudi_bridge.merge.rules import CUSTOM_MERGER, CUSTOM_PAYLOAD, FieldFill, MergeRule
from hudi_bridge.schema.casts import ArrowType
from hudi_bridge.schema.meta_columns import META_COLUMNS, OPERATION_COLUMN

_NARROW_ROUND = 64
_INT32_BITS = 32
_SIGN_BIT = np.uint8(0x80)
META_FIELDS = frozenset((*META_COLUMNS, OPERATION_COLUMN))
_MIN_CACHED, _MAX_CACHED = -128, 127
"""Java caches one object for each of these numbers (``Integer.valueOf``, ``Long.valueOf``)."""


@dataclass(frozen=True, kw_only=True)
class Versions:
    """All log versions of a file slice, in order of arrival.

    ``codes`` numbers the key of each version from 0 to ``keys`` - 1. ``ranks`` compare like the ordering values.
    ``what`` has the kind of each version, as in ``merge.ordering``.
    """

    codes: Positions
    keys: int
    ranks: Ranks
    what: Kinds

    @cached_property
    def is_delete(self) -> Booleans:
        """Whether a version is compared as a delete."""
        is_delete: Booleans = self.what != ordering.ROW
        return is_delete

    def at(self, position: int) -> ordering.Version:
        """One version, as the functions of ``merge.ordering`` take it."""
        return (int(self.ranks[position]),), int(self.what[position])


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMerging:
    """The fields that are merged.

    ``unset`` marks the versions in which a field is unset. Fields in ``newest`` come from the later version.
    ``fills_earlier`` is as in the function.
    """

    unset: Mapping[str, Booleans]
    newest: frozenset[str] = frozenset()
    fills_earlier: bool = True

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields."""
        return (*self.unset, *self.newest)


def what_versions_are(is_delete: Booleans, always_deletes: Booleans, marked: Booleans | None = None) -> Kinds:
    """``ordering.what_is`` for many versions; without ``marked``, none is a marked row."""
    kinds = np.where(is_delete, np.int8(ordering.DELETE), np.int8(ordering.ROW))
    if marked is not None:
        kinds = np.where(is_delete & marked, np.int8(ordering.MARKED), kinds)
    return np.where(always_deletes, np.int8(ordering.UNORDERED_DELETE), kinds)


def ordering_ranks(columns: Sequence[Column], rows: int, rule: MergeRule, *, against_base: bool) -> Ranks:
    """One integer per row; the integers of two rows compare like their ordering values, field by field.

    Ranks of different calls are not comparable. With ``against_base``, the first half of the rows are log versions and
    the second half the base rows to compare them with.
    """
    if rule.sequences_against_base if against_base else rule.sequences_in_logs:
        columns = [part for column in columns for part in _sequence_parts(column)]
        if against_base and rule.equal_sequences_keep_base:
            columns.append(pa.array(np.arange(rows) >= rows // 2).cast(pa.int8()))
    if against_base:
        columns = [column for column in columns if rule.compares_with_base(column.type)]
    if rule.precedence.orders_as_0x:
        columns = [part for column in columns for part in _parts_in_0x(column, against_base=against_base)]
    ranks = np.zeros(rows, dtype=np.int64)
    for position, column in enumerate(columns):
        column_ranks = _column_ranks(column, nulls_as_zero=rule.precedence.nulls_as_zero)
        if position == 0:
            ranks = column_ranks
        else:
            lower = _dense(column_ranks)
            ranks = _dense(ranks) * (int(lower.max(initial=0)) + 1) + lower
    return ranks


def fold_versions(in_logs: InLogs, versions: Versions) -> Positions:
    """The position of the surviving version of each key, by key code.

    ``in_logs`` has the outcomes for two versions, as in ``merge.ordering``.
    """
    positions = np.arange(len(versions.codes))
    survivors = np.empty(versions.keys, dtype=np.int64)
    if all(outcome == ordering.LATER for outcomes in in_logs for outcome in outcomes):
        survivors[versions.codes] = positions
        return survivors
    key_has_delete = np.zeros(versions.keys, dtype=np.bool_)
    key_has_delete[versions.codes[versions.is_delete]] = True
    with_delete = key_has_delete[versions.codes]
    rows = positions[~with_delete]
    match in_logs[ordering.ROW][ordering.ROW]:
        case ordering.HIGHER:
            rows = rows[np.argsort(versions.ranks[rows], kind="stable")]
        case ordering.EARLIER:
            rows = rows[::-1]
    survivors[versions.codes[rows]] = rows
    if with_delete.any():
        rounds = _Rounds(in_logs, versions, positions[with_delete], FieldMerging(unset={}))
        survivors[rounds.codes] = rounds.survivors
    return survivors


def fold_fields(in_logs: InLogs, versions: Versions, merging: FieldMerging) -> tuple[Positions, dict[str, Positions]]:
    """As ``fold_versions``, with the position of the version that each merged field comes from, by key code."""
    rounds = _Rounds(in_logs, versions, np.arange(len(versions.codes)), merging)
    survivors = np.empty(versions.keys, dtype=np.int64)
    survivors[rounds.codes] = rounds.survivors
    sources = {}
    for name, source in rounds.sources.items():
        sources[name] = np.empty(versions.keys, dtype=np.int64)
        sources[name][rounds.codes] = source
    return survivors, sources


def combine_versions(
    payload: RecordPayload, versions: Versions, keys: Column, row_of_version: Positions, rows: pa.Table
) -> tuple[Positions, Booleans, Positions, pa.Table]:
    """The surviving version of each key, whether it is a delete, the row of each version, and the rows.

    Combined rows are appended to the rows. A delete replaces an earlier row, for a payload unless its ordering value is
    lower, and a row replaces an earlier delete. Two rows are combined; the later one survives with the combined row,
    for a payload the one with the higher ordering value.

    Raises:
        MergeError: the payload failed.
    """
    order = np.argsort(versions.codes, kind="stable")
    bounds = np.flatnonzero(np.diff(versions.codes[order])) + 1
    survivors = np.empty(versions.keys, dtype=np.int64)
    deletes = np.zeros(versions.keys, dtype=np.bool_)
    row_of_version = row_of_version.copy()
    combined: list[Row] = []
    for group in np.split(order, bounds) if len(order) else []:
        code = versions.codes[group[0]]
        if len(group) == 1:
            survivors[code], deletes[code] = group[0], versions.is_delete[group[0]]
            continue
        survivor, is_delete, row = _combine_one(
            payload, versions, group, str(keys[int(group[0])]), rows, row_of_version
        )
        survivors[code], deletes[code] = survivor, is_delete
        if row is not None:
            row_of_version[survivor] = rows.num_rows + len(combined)
            combined.append(row)
    if combined:
        rows = pa.concat_tables([rows, pa.Table.from_batches([rows_of_payload(payload, combined, rows.schema)])])
    return survivors, deletes, row_of_version, rows


def fills_earlier(rule: MergeRule) -> bool:
    """Whether unset fields of a version are also filled if it wins over a later one.

    ``PostgresDebeziumAvroPayload`` fills the row that it picks from the stored one, which may be the same row.
    """
    return rule.fill is not FieldFill.UNAVAILABLE


def unset_value(rule: MergeRule, name: str, kind: ArrowType, default: "Value | None") -> "Value | None":
    """The value that marks a field as unset, which may be a null scalar; None if the field is never unset.

    ``default`` is the default of the field in the schema, None for null.
    """
    if rule.fill is None or name in META_FIELDS:
        return None
    match rule.fill:
        case FieldFill.NULLS:
            return _null()
        case FieldFill.DEFAULTS:
            if default is None:
                return _null()
            return default if _has_equals(default) else None
        case FieldFill.IDENTICAL_DEFAULTS:
            if default is None:
                return _null()
            return default if _is_one_object(default) else None
        case FieldFill.UNAVAILABLE:
            is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
            return pa.scalar(rule.unavailable_value).cast(kind) if is_text else None
        case FieldFill.UNAVAILABLE_TEXTS:
            return pa.scalar(rule.unavailable_value) if pa.types.is_string(kind) else None
        case _:
            assert_never(rule.fill)


def unset_fields(
    rows: pa.RecordBatch | pa.Table, rule: MergeRule, defaults: Mapping[str, Value]
) -> dict[str, Booleans]:
    """For each column that is unset in some rows, a mask of these rows.

    ``defaults`` holds the defaults of the schema that are not null.
    """
    masks = {}
    for field in rows.schema:
        value = unset_value(rule, field.name, field.type, defaults.get(field.name))
        if value is None:
            continue
        column = rows.column(field.name)
        flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        mask = _are_empty(flat) if pa.types.is_nested(value.type) else _equal(flat, value)
        if mask.any():
            masks[field.name] = mask
    return masks


class _Rounds:
    """Folds the versions of some keys; ``codes``, ``survivors`` and ``sources`` then have one entry per key."""

    def __init__(self, in_logs: InLogs, versions: Versions, positions: Positions, merging: FieldMerging) -> None:
        self._in_logs = in_logs
        self._versions = versions
        self._merging = merging
        self._order = positions[np.argsort(versions.codes[positions], kind="stable")]
        codes = versions.codes[self._order]
        self._starts = np.flatnonzero(np.r_[np.ones(min(len(codes), 1), dtype=np.bool_), np.diff(codes) != 0])
        self._counts = np.diff(np.r_[self._starts, len(codes)])
        self.codes = codes[self._starts]
        self.survivors = self._order[self._starts]
        self.sources = {name: self.survivors.copy() for name in merging.fields}
        self._fold()

    def _fold(self) -> None:
        active = np.flatnonzero(self._counts > 1)
        round_number = 1
        while len(active) > _NARROW_ROUND:
            self._round(active, self._order[self._starts[active] + round_number])
            round_number += 1
            active = active[self._counts[active] > round_number]
        for key in active:
            self._fold_one(int(key), round_number)

    def _round(self, keys: Positions, later: Positions) -> None:
        versions = self._versions
        earlier = self.survivors[keys]
        replaces = _later_replaces(self._in_logs, versions, earlier, later)
        mergeable = ~(versions.is_delete[earlier] | versions.is_delete[later])
        for name, source in self.sources.items():
            current = source[keys]
            if name in self._merging.newest:
                takes_later = replaces | mergeable
            else:
                unset = self._merging.unset[name]
                filled = np.where(replaces, ~unset[later], unset[current] & self._merging.fills_earlier)
                takes_later = np.where(mergeable, filled, replaces)
            source[keys] = np.where(takes_later, later, current)
        self.survivors[keys] = np.where(replaces, later, earlier)

    def _fold_one(self, key: int, round_number: int) -> None:
        remaining = self._order[self._starts[key] + round_number : self._starts[key] + self._counts[key]]
        survivor = int(self.survivors[key])
        sources = {name: int(source[key]) for name, source in self.sources.items()}
        for later in remaining.tolist():
            older, newer = self._versions.at(survivor), self._versions.at(later)
            has_delete = older[1] != ordering.ROW or newer[1] != ordering.ROW
            replaces = ordering.later_replaces(self._in_logs, older, newer)
            for name, source in sources.items():
                if has_delete:
                    takes_later = replaces
                elif name in self._merging.newest:
                    takes_later = True
                else:
                    unset = self._merging.unset[name]
                    is_filled = self._merging.fills_earlier and unset[source]
                    takes_later = bool(not unset[later] if replaces else is_filled)
                sources[name] = later if takes_later else source
            survivor = later if replaces else survivor
        self.survivors[key] = survivor
        for name, source in sources.items():
            self.sources[name][key] = source


def _later_replaces(in_logs: InLogs, versions: Versions, earlier: Positions, later: Positions) -> Booleans:
    """``ordering.later_replaces`` for many pairs."""
    outcomes = np.array(in_logs, dtype=np.int8)[versions.what[earlier], versions.what[later]]
    not_lower = versions.ranks[later] >= versions.ranks[earlier]
    return np.asarray(np.where(outcomes == ordering.HIGHER, not_lower, outcomes == ordering.LATER))


def _combine_one(
    payload: RecordPayload,
    versions: Versions,
    group: Positions,
    record_key: str,
    rows: pa.Table,
    row_of_version: Positions,
) -> tuple[int, bool, Row | None]:
    """The surviving version of a key, whether it is a delete, and its combined row, if there is one."""
    is_merger = isinstance(payload, RecordMerger)
    in_logs = (CUSTOM_MERGER if is_merger else CUSTOM_PAYLOAD).in_logs
    survivor, row = int(group[0]), None
    is_delete = bool(versions.is_delete[survivor])
    for later in group[1:].tolist():
        if is_delete or versions.is_delete[later]:
            if ordering.later_replaces(in_logs, versions.at(survivor), versions.at(later)):
                survivor, row, is_delete = later, None, bool(versions.is_delete[later])
            continue
        if row is None:
            row = _row(rows, row_of_version[survivor])
        method = "merge" if is_merger else "pre_combine"
        row = ask_payload(payload, method, record_key, row, _row(rows, row_of_version[later]))
        if row is None and not is_merger:
            raise MergeError(type(payload).__name__, record_key, "pre_combine returned None, expected a row")
        is_delete = row is None
        if is_merger or versions.ranks[later] >= versions.ranks[survivor]:
            survivor = later
    return survivor, is_delete, row


def _row(rows: pa.Table, position: int) -> Row:
    row: Row = rows.slice(position, 1).to_pylist()[0]
    return row


def _sequence_parts(column: Column) -> tuple[Column, Column]:
    """The file numbers and the positions in texts like ``000005.1234``; null for texts of another form."""
    parts = pc.extract_regex(column.cast(pa.string()), r"^(?P<file>[0-9]{1,18})\.(?P<position>[0-9]{1,18})$")
    return tuple(pc.struct_field(parts, name).cast(pa.int64()) for name in ("file", "position"))


def _parts_in_0x(column: Column, *, against_base: bool) -> tuple[Column, ...]:
    """The columns by which 0.x compares the values of a column, in order of precedence."""
    if pa.types.is_dictionary(column.type):
        return _parts_in_0x(column.cast(column.type.value_type), against_base=against_base)
    if pa.types.is_decimal(column.type) and not against_base:
        return pc.less(column, pa.scalar(Decimal(0), column.type)), column
    return (_with_signed_bytes(column) if pa.types.is_binary(column.type) else column,)


def _with_signed_bytes(column: Column) -> Column:
    """Flips each sign bit, so that unsigned comparison gives Java's signed order."""
    validity, offsets, data = column.buffers()
    flipped = np.frombuffer(memoryview(data or b""), dtype=np.uint8) ^ _SIGN_BIT
    buffers = [validity, offsets, pa.py_buffer(flipped.tobytes())]
    return pa.Array.from_buffers(column.type, len(column), buffers, offset=column.offset)


def _column_ranks(column: Column, *, nulls_as_zero: bool) -> Ranks:
    data_type = column.type
    if pa.types.is_dictionary(data_type):
        return _column_ranks(column.cast(data_type.value_type), nulls_as_zero=nulls_as_zero)
    if pa.types.is_decimal(data_type):
        return _ranks_by_sorting(column.fill_null(pa.scalar(Decimal(0), data_type)) if nulls_as_zero else column)
    if pa.types.is_floating(data_type):
        return _with_nulls(column, _float_ranks(column.cast(pa.float64()).fill_null(0.0)), nulls_as_zero=nulls_as_zero)
    if pa.types.is_integer(data_type):
        return _with_nulls(column, _values(column.cast(pa.int64()).fill_null(0)), nulls_as_zero=nulls_as_zero)
    if pa.types.is_temporal(data_type):
        width = pa.int32() if data_type.bit_width == _INT32_BITS else pa.int64()
        return _with_nulls(column, _values(column.cast(width).cast(pa.int64()).fill_null(0)), nulls_as_zero=False)
    if pa.types.is_nested(data_type):
        raise UnsupportedTableError(
            "ordering field", f"a column of type {data_type}", "plain types, which have an order"
        )
    return _ranks_by_sorting(column)


def _with_nulls(column: Column, ranks: Ranks, *, nulls_as_zero: bool) -> Ranks:
    if nulls_as_zero or not column.null_count:
        return ranks
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), _dense(ranks), -1)


def _ranks_by_sorting(column: Column) -> Ranks:
    encoded = column.dictionary_encode()
    rank_of = np.empty(len(encoded.dictionary) + 1, dtype=np.int64)
    rank_of[pc.array_sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
    rank_of[-1] = -1
    return rank_of[_values(encoded.indices.fill_null(-1))]


def _values(column: Column) -> Ranks:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)


def _float_ranks(column: Column) -> Ranks:
    # Java's total order of doubles: -0.0 below 0.0, NaN above infinity. As integers, the bits of positive doubles
    # ascend with their values, and the bits of negative ones descend.
    values = column.to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)


def _dense(ranks: Ranks) -> Ranks:
    return np.unique(ranks, return_inverse=True)[1].astype(np.int64)


def _equal(column: Column, value: Value) -> Booleans:
    return as_booleans(pc.equal(column, value) if value.is_valid else column.is_null())


def _are_empty(lists: Any) -> Booleans:  # noqa: ANN401 - of lists or maps, which are generic in the stubs alone
    lengths: Positions = np.diff(lists.offsets.to_numpy())
    return np.asarray(as_booleans(lists.is_valid()) & (lengths == 0), dtype=np.bool_)


def _has_equals(default: Value) -> bool:
    """Whether a default in Java equals the object that Avro decodes from the same value.

    Bytes, decimals (which are bytes) and records do not: their classes differ.
    """
    kind: ArrowType = default.type
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return not default.as_py()
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_decimal(kind))


def _is_one_object(default: Value) -> bool:
    """Whether Java has the same object for a default and for an equal value of a row.

    Booleans and small whole numbers are cached, and so are dates and times in Spark. Times are cached in microseconds,
    so a default in milliseconds is another number, except for zero.
    """
    kind: ArrowType = default.type
    if pa.types.is_boolean(kind):
        return True
    if pa.types.is_timestamp(kind) and kind.unit == "ms":
        return bool(default.cast(pa.int64()).as_py() == 0)
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        whole = pa.int32() if kind.bit_width == pa.int32().bit_width else pa.int64()
        return bool(_MIN_CACHED <= default.cast(whole).as_py() <= _MAX_CACHED)
    return False


def _null() -> Value:
    null: Value = pa.scalar(None, pa.null())
    return null
