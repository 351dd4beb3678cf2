"""Matches the rows of two states by record key, compares their values, and makes batches of the changes.

All of it works on whole columns. A change has an image of its record before and after it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from hudi_bridge.changes.json_text import AVRO, JACKSON, JACKSON_WITH_DIGITS, json_texts
from hudi_bridge.changes.split import AFTER, BEFORE, INSTANT, OPERATION, ChangeFormat, ChangeSplit
from hudi_bridge.merge.arrays import Booleans, Column, Positions, as_booleans
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.schema.avro_types import AvroRecord
from hudi_bridge.schema.casts import as_lists
from hudi_bridge.schema.meta_columns import COMPLETION_TIME_COLUMN, META_COLUMNS, OPERATION_COLUMN

INSERT, UPDATE, DELETE = "i", "u", "d"
Keys: TypeAlias = "pa.ChunkedArray[Any]"
Structs: TypeAlias = "pa.StructArray"

_NOT_STORED = (*META_COLUMNS, OPERATION_COLUMN)
_ROWS_AT_ONCE = 1 << 16
"""Bounds the memory for masks and for the copies of columns that Arrow compares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPairs:
    """Row positions: ``before[i]`` and ``after[i]`` are of one record; the other rows are in only one of the states."""

    before: Positions
    after: Positions
    only_before: Positions
    only_after: Positions


def pair_rows(before: Keys, after: Keys) -> RowPairs:
    """Pairs the rows of two states by record key; rows with equal keys are paired in order."""
    distinct: Any = pa.chunked_array([*before.chunks, *after.chunks], before.type).unique()
    numbers, later = (_occurrences(_codes(keys, distinct), len(distinct)) for keys in (before, after))
    _, paired_before, paired_after = np.intersect1d(numbers, later, assume_unique=True, return_indices=True)
    order = np.argsort(paired_after)
    return RowPairs(
        before=paired_before[order],
        after=paired_after[order],
        only_before=_unmatched(len(before), paired_before),
        only_after=_unmatched(len(after), paired_after),
    )


def differing_rows(before: pa.Table, after: pa.Table) -> Booleans:
    """A mask of the rows that differ between two tables with the same columns and length.

    Floats are compared by their bits, except that every NaN equals every other; maps regardless of entry order.
    """
    masks = [np.zeros(0, dtype=np.bool_)]
    for start in range(0, before.num_rows, _ROWS_AT_ONCE):
        left, right = (table.slice(start, _ROWS_AT_ONCE) for table in (before, after))
        differs = np.zeros(left.num_rows, dtype=np.bool_)
        for name in before.column_names:
            differs |= differing_values(_combined(left[name]), _combined(right[name]))
        masks.append(differs)
    return np.concatenate(masks)


def differing_values(left: Any, right: Any) -> Booleans:  # noqa: ANN401 - arrays of any type
    """A mask of the positions at which two arrays of one type differ."""
    valid, other_valid = as_booleans(left.is_valid()), as_booleans(right.is_valid())
    if types.is_null(left.type):
        return np.zeros(len(left), dtype=np.bool_)
    if types.is_fixed_size_list(left.type):
        return differing_values(as_lists(left), as_lists(right))
    differs: Booleans = np.zeros(len(left), dtype=np.bool_)
    if types.is_struct(left.type):
        for child, other_child in zip(left.flatten(), right.flatten(), strict=True):
            differs |= differing_values(child, other_child)
    elif types.is_map(left.type) or types.is_list(left.type) or types.is_large_list(left.type):
        differs = _lists_differ(left, right, valid & other_valid)
    elif types.is_floating(left.type):
        differs = _floats_differ(left, right)
    else:
        differs = as_booleans(pc.not_equal(left, right))
    different: Booleans = (valid != other_valid) | (valid & differs)
    return different


def row_numbers(columns: Iterable[Column], rows: int) -> Positions:
    """A number for each row, equal for rows without ``differing_values`` in any column."""
    numbers = np.zeros(rows, dtype=np.int64)
    for column in columns:
        values = _value_numbers(column) + 1
        _, numbers = np.unique(numbers * (values.max(initial=0) + 1) + values, return_inverse=True)
    return numbers


def _value_numbers(array: Any) -> Positions:  # noqa: ANN401 - an array of any type
    """A number for each value, equal for equal values; -1 for nulls."""
    if types.is_null(array.type):
        return np.full(len(array), -1)
    if types.is_fixed_size_list(array.type):
        return _value_numbers(as_lists(array))
    if types.is_struct(array.type):
        numbers = row_numbers(array.flatten(), len(array))
    elif types.is_map(array.type) or types.is_list(array.type) or types.is_large_list(array.type):
        numbers = _list_numbers(array)
    elif types.is_floating(array.type):
        floats = array.fill_null(0).to_numpy(zero_copy_only=False)
        single_nan = np.where(np.isnan(floats), np.array(np.nan, floats.dtype), floats)
        _, numbers = np.unique(single_nan.view(f"i{floats.dtype.itemsize}"), return_inverse=True)
    else:
        numbers = _codes(array, array.unique())
    with_nulls: Positions = np.where(as_booleans(array.is_valid()), numbers, -1)
    return with_nulls


def _list_numbers(array: Any) -> Positions:  # noqa: ANN401 - lists or maps
    """Numbers of lists, by the numbers of their elements; of maps, by their keys and items in the order of the keys."""
    lengths = _lengths(array)
    entries = _entries(array, np.arange(len(array)))
    if types.is_map(array.type):
        keys, items = (_value_numbers(_taken(values, entries)) for values in (array.keys, array.items))
        order = np.lexsort((keys, np.repeat(np.arange(len(array)), lengths)))
        parts = np.stack([keys[order], items[order]], axis=1)
    else:
        parts = _value_numbers(_taken(array.values, entries))[:, np.newaxis]
    row_bytes = parts.shape[1] * parts.itemsize
    offsets = np.concatenate([[0], np.cumsum(lengths)]) * row_bytes
    buffers = [None, *(pa.array(numbers.ravel()).buffers()[1] for numbers in (offsets, parts))]
    texts = pa.Array.from_buffers(pa.large_binary(), len(array), buffers)
    return _codes(texts, texts.unique())


def _codes(keys: Any, distinct: Column) -> Positions:  # noqa: ANN401 - one array or several
    return np.asarray(pc.index_in(keys, value_set=distinct).to_numpy(), dtype=np.int64)


def _occurrences(codes: Positions, distinct: int) -> Positions:
    """A number for each row: the n-th row with a code has the same number in both states."""
    counts = np.bincount(codes, minlength=distinct)
    if counts.max(initial=0) <= 1:
        return codes
    order = np.argsort(codes, kind="stable")
    starts = np.cumsum(counts) - counts
    positions = np.empty(len(codes), dtype=np.int64)
    positions[order] = np.arange(len(codes)) - starts[codes[order]]
    return np.asarray(codes + positions * distinct)


def _unmatched(rows: int, matched: Positions) -> Positions:
    unmatched = np.ones(rows, dtype=np.bool_)
    unmatched[matched] = False
    return np.flatnonzero(unmatched)


def _combined(column: "pa.ChunkedArray[Any]") -> Column:
    chunks: list[Any] = column.chunks
    whole: Column = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks or [pa.array([], column.type)])
    return whole


def _floats_differ(left: Column, right: Column) -> Booleans:
    bits = np.dtype(f"i{left.type.bit_width // 8}")
    first, second = (array.fill_null(0).to_numpy(zero_copy_only=False) for array in (left, right))
    differs: Booleans = (first.view(bits) != second.view(bits)) & ~(np.isnan(first) & np.isnan(second))
    return differs


def _lists_differ(left: Any, right: Any, both: Booleans) -> Booleans:  # noqa: ANN401 - lists or maps
    lengths, other_lengths = (_lengths(array) for array in (left, right))
    differs: Booleans = lengths != other_lengths
    same_length = np.flatnonzero(both & ~differs & (lengths > 0))
    entries = _entries(left, same_length)
    if types.is_map(left.type) and len(entries):
        differs[same_length] = _maps_differ(left, right, same_length)
        return differs
    unequal = differing_values(_taken(left.values, entries), _taken(right.values, _entries(right, same_length)))
    rows = np.repeat(same_length, lengths[same_length])
    differs[rows[unequal]] = True
    return differs


def _maps_differ(left: Any, right: Any, same_length: Positions) -> Booleans:  # noqa: ANN401
    """Whether maps with equal numbers of entries differ, compared in the order of their keys."""
    sides: list[tuple[Column, Column]] = []
    lengths = _lengths(left)[same_length]
    rows = np.repeat(np.arange(len(same_length)), lengths)
    keys = [_taken(array.keys, _entries(array, same_length)) for array in (left, right)]
    distinct = pc.unique(pa.concat_arrays(keys))
    for array, map_keys in zip((left, right), keys, strict=True):
        codes = np.asarray(pc.index_in(map_keys, value_set=distinct).to_numpy(), dtype=np.int64)
        order = np.lexsort((codes, rows))
        items = _taken(array.items, _entries(array, same_length)[order])
        sides.append((pa.array(codes[order]), items))
    unequal = np.zeros(len(rows), dtype=np.bool_)
    for first, second in zip(*sides, strict=True):
        unequal |= differing_values(first, second)
    differs = np.zeros(len(same_length), dtype=np.bool_)
    differs[rows[unequal]] = True
    return differs


def _lengths(array: Any) -> Positions:  # noqa: ANN401 - a list or a map
    lengths = np.diff(np.asarray(array.offsets.to_numpy(), dtype=np.int64))
    with_nulls: Positions = np.where(as_booleans(array.is_valid()), lengths, 0)
    return with_nulls


def _entries(array: Any, rows: Positions) -> Positions:  # noqa: ANN401 - a list or a map
    """The positions of the values of ``rows`` among all values."""
    starts = np.asarray(array.offsets.to_numpy(), dtype=np.int64)[:-1][rows]
    lengths = _lengths(array)[rows]
    positions: Positions = np.arange(int(lengths.sum())) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    return positions


def _taken(values: Column, positions: Positions) -> Column:
    return values.take(pa.array(positions, pa.int64()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """One state of some records, as structs of the table's columns; null where the record did not exist.

    ``is_logged`` is whether the writer has stored the images in a change data file, without meta columns. ``logged_as``
    is their Avro type if they are in a block. Hudi writes their JSON in another style then, with the word null for a
    missing image.
    """

    rows: Structs
    is_logged: bool = False
    logged_as: AvroRecord | None = None

    def json(self, split: ChangeSplit) -> Column:
        """The images as JSON texts."""
        if not self.is_logged:
            return json_texts(self.rows, JACKSON_WITH_DIGITS if split.digits else JACKSON)
        names = [name for name in split.image.schema.names if name not in _NOT_STORED]
        children = dict(zip(split.image.schema.names, self.rows.flatten(), strict=True))
        stored = structs([children[name] for name in names], names, self.rows.is_null())
        if self.logged_as is None:
            return json_texts(stored, JACKSON)
        return json_texts(stored, AVRO, self.logged_as).fill_null("null")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes as columns: the operations, the instants of their commits, and the images before and after."""

    operations: Column
    instants: Column
    before: Images
    after: Images

    def batch(self, split: ChangeSplit, request: RowRequest) -> pa.RecordBatch:
        """The changes that pass the request's filter, with its columns; only images that it needs are made."""
        schema = pa.schema([split.context.schema.field(name) for name in request.needed])
        columns = [self._column(name, split) for name in schema.names]
        return request.apply(pa.record_batch(columns, schema=schema))

    def _column(self, name: str, split: ChangeSplit) -> Column:
        if name == OPERATION:
            return self.operations
        if name == INSTANT:
            return self.instants
        if name == COMPLETION_TIME_COLUMN and split.image.completion_times is not None:
            return split.image.completion_times.of(self.instants)
        images = {BEFORE: self.before, AFTER: self.after}[name]
        return images.json(split) if split.change_format is ChangeFormat.CDC else images.rows


def structs(columns: list[Column], names: list[str], is_null: "pa.BooleanArray | None" = None) -> Structs:
    """Columns as an array of structs."""
    fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=is_null)


def structs_of(rows: pa.Table) -> Structs:
    """The rows of a table, no more than fit a batch, as structs."""
    columns: list[Any] = [column.combine_chunks() for column in rows.columns]
    columns = [pa.concat_arrays(child.chunks) if isinstance(child, pa.ChunkedArray) else child for child in columns]
    return structs(columns, rows.column_names)


def no_images(schema: pa.Schema, count: int) -> Images:
    """The null images of records that do not exist."""
    return Images(rows=pa.nulls(count, pa.struct(list(schema))))


def repeated(text: str, count: int) -> Column:
    """A column that repeats one text."""
    return pa.repeat(text, count)
