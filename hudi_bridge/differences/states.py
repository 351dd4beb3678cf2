"""Compares the rows of two states of a table, by record key and by value.

File groups are compared one by one. Rows without a counterpart in their file group are compared with those of all
others, first in the same partition: a clustering or an overwrite moves records to other file groups. A record that is
gone from one partition and new in another has moved.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.changes.images import structs_of
from hudi_bridge.changes.row_differences import RowPairs, differing_values, pair_rows, row_numbers
from hudi_bridge.changes.slice_rows import (
    Part,
    SliceRows,
    all_rows,
    held_bytes,
    keys_that_may_differ,
    slice_rows,
)
from hudi_bridge.changes.split import GroupChange
from hudi_bridge.differences.plan import DifferencePlan
from hudi_bridge.differences.repeated_keys import pair_equal_rows_first
from hudi_bridge.differences.unmatched import UnmatchedRows
from hudi_bridge.dispatch import reader_for
from hudi_bridge.merge.arrays import Booleans, Column, Positions, as_booleans
from hudi_bridge.readers.parallel import iter_parallel, most_at_once
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage
from hudi_bridge.system_memory import memory_bytes

INSERT, UPDATE, DELETE = "insert", "update", "delete"
OPERATION, KEY, PARTITION, MOVED_FROM, CHANGED, BEFORE, AFTER = (
    "op",
    "key",
    "partition",
    "moved_from",
    "changed",
    "before",
    "after",
)

RowTest: TypeAlias = Callable[[pa.RecordBatch], Booleans]
"""Which rows of a batch meet a condition."""

_ROWS_AT_ONCE = 1 << 15
_MOST_PARTS = 1024
# Arrays of texts have at most 2 GiB of them.
_MOST_MEMORY = 1 << 30
_SEPARATOR = "\x00"


def difference_schema(image: pa.Schema) -> pa.Schema:
    """The columns of differences, with images of the given columns."""
    structs = pa.struct(list(image))
    return pa.schema(
        [
            (OPERATION, pa.string()),
            (KEY, pa.string()),
            (PARTITION, pa.string()),
            (MOVED_FROM, pa.string()),
            (CHANGED, pa.list_(pa.string())),
            (BEFORE, structs),
            (AFTER, structs),
        ]
    )


class StateDifferences:
    """The differences of the ``columns`` of records that meet a condition, before or after."""

    def __init__(
        self,
        storage: Storage,
        plan: DifferencePlan,
        columns: tuple[str, ...],
        keys: "Column | None",
        test: RowTest | None,
        tested: tuple[str, ...],
    ) -> None:
        """Differences of all records, or of those with some ``keys``; ``tested`` are the columns of the condition."""
        self._storage = storage
        self._plan = plan
        self._columns = columns
        self._keys = keys
        self._test = test
        self._tested = tested
        context = plan.image
        of_keys = (RECORD_KEY_COLUMN,) if context.populates_meta_fields else context.key_columns
        # A table without a commit has no columns and no rows.
        self._read = tuple(dict.fromkeys((*of_keys, *columns, *tested))) if context.schema.names else ()
        self._rows_schema = pa.schema([context.schema.field(name) for name in self._read])
        self._image = pa.schema([context.schema.field(name) for name in columns])
        self._at_once = most_at_once(len(plan.groups))
        memory = min(_MOST_MEMORY, context.log_memory_bytes or memory_bytes() // 4)
        self._memory = memory // self._at_once
        self._unmatched = UnmatchedRows(self._rows_schema, memory)
        # Where no row can have a counterpart, none is held.
        self._matches = any(group.before for group in plan.groups) and any(group.after for group in plan.groups)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The differences, in no particular order; iterate over them once.

        Raises:
            HudiReadError: a file cannot be read.
            OSError: a temporary file cannot be written or read.
        """
        sources = [partial(self._of_group, group) for group in self._plan.groups]
        with closing(iter_parallel(sources, at_once=self._at_once)) as batches:
            yield from batches
        for before, after in self._unmatched.parts():
            yield from self._of_unmatched(before, after)

    def _of_group(self, group: GroupChange) -> Iterator[pa.RecordBatch]:
        if group.before is None or group.after is None:
            yield from self._of_one_sided(group)
            return
        keys = keys_that_may_differ(self._storage, group)
        parts = min(_MOST_PARTS, 1 + held_bytes(group, keys) // max(1, self._memory))
        for number in range(parts):
            part = (number, parts) if parts > 1 else None
            before, after = (all_rows(self._rows(one, keys, part), self._rows_schema) for one in group.slices)
            pairs = pair_equal_rows_first(before.keys, after.keys, partial(self._numbers, before, after))
            yield from self._updates(before, after, pairs)
            self._unmatched.add(_copied(before, pairs.only_before), _copied(after, pairs.only_after))

    def _of_one_sided(self, group: GroupChange) -> Iterator[pa.RecordBatch]:
        for one, operation in ((group.before, DELETE), (group.after, INSERT)):
            for rows in self._rows(one, None, None) if one is not None else ():
                if not self._matches:
                    yield from self._all(operation, rows)
                elif operation == DELETE:
                    self._unmatched.add(rows, None)
                else:
                    self._unmatched.add(None, rows)

    def _rows(self, piece: RealtimeFileSplit | None, keys: "Column | None", part: Part | None) -> Iterator[SliceRows]:
        label = piece.partition_path if piece is not None else ""
        wanted = self._keys
        if wanted is not None and self._plan.image.populates_meta_fields:
            # The readers look up the keys of a filter.
            keys = wanted if keys is None else wanted.filter(pc.is_in(wanted, value_set=keys))
            wanted = None
        for rows in slice_rows(self._read_slice, piece, label, keys, part):
            chosen = None if wanted is None else np.flatnonzero(as_booleans(pc.is_in(rows.keys, value_set=wanted)))
            yield rows if chosen is None else rows.take(chosen)

    def _read_slice(self, piece: RealtimeFileSplit, row_filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        request = RowRequest.of(piece.context.schema, self._read, row_filter)
        alone = self._at_once == 1
        return reader_for(self._storage, piece, request, use_threads=alone, at_once=self._at_once).batches()

    def _of_unmatched(self, before: SliceRows, after: SliceRows) -> Iterator[pa.RecordBatch]:
        """Rows of all file groups: those of one partition are paired first, then those that have moved."""
        keys, later = _keys_in_partitions(before), _keys_in_partitions(after)
        pairs = pair_equal_rows_first(keys, later, partial(self._numbers, before, after))
        yield from self._updates(before, after, pairs)
        before, after = before.take(pairs.only_before), after.take(pairs.only_after)
        pairs = pair_rows(before.keys, after.keys)
        yield from self._updates(before, after, pairs)
        yield from self._all(DELETE, before.take(pairs.only_before))
        yield from self._all(INSERT, after.take(pairs.only_after))

    def _numbers(self, before: SliceRows, after: SliceRows, ones: Positions, others: Positions) -> Positions:
        one, other = before.take(ones).rows, after.take(others).rows
        columns = (pa.chunked_array([*one[name].chunks, *other[name].chunks], one[name].type) for name in self._columns)
        return row_numbers(map(_combined, columns), len(ones) + len(others))

    def _updates(self, before: SliceRows, after: SliceRows, pairs: RowPairs) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(pairs.before), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            one, other = before.take(pairs.before[some]), after.take(pairs.after[some])
            values = [
                differing_values(_combined(one.rows[name]), _combined(other.rows[name])) for name in self._columns
            ]
            differs = np.array(values, dtype=np.bool_).reshape(len(values), one.rows.num_rows)
            moved = as_booleans(pc.not_equal(_combined(one.labels), _combined(other.labels)))
            found = np.flatnonzero(moved | differs.any(axis=0))
            if not len(found):
                continue
            one, other, differs = one.take(found), other.take(found), differs[:, found]
            batch = self._batch(UPDATE, one, other, differs)
            passes = self._passes(one) | self._passes(other)
            yield from self._kept(batch, passes)

    def _all(self, operation: str, state: SliceRows) -> Iterator[pa.RecordBatch]:
        for piece in state.pieces(_ROWS_AT_ONCE):
            batch = self._batch(
                operation, None if operation == INSERT else piece, None if operation == DELETE else piece, None
            )
            yield from self._kept(batch, self._passes(piece))

    def _passes(self, state: SliceRows) -> Booleans:
        if self._test is None:
            return np.ones(state.rows.num_rows, dtype=np.bool_)
        columns = [_combined(state.rows[name]) for name in self._tested]
        return self._test(pa.record_batch(columns, names=list(self._tested)))

    def _kept(self, batch: pa.RecordBatch, passes: Booleans) -> Iterator[pa.RecordBatch]:
        kept = batch if passes.all() else batch.filter(pa.array(passes))
        if kept.num_rows:
            yield kept

    def _batch(
        self, operation: str, before: SliceRows | None, after: SliceRows | None, differs: Booleans | None
    ) -> pa.RecordBatch:
        known: Any = before if after is None else after
        count = known.rows.num_rows
        partitions, moved_from = _combined(known.labels), pa.nulls(count, pa.string())
        if before is not None and after is not None:
            origin = _combined(before.labels)
            moved_from = pc.if_else(pc.not_equal(origin, partitions), origin, moved_from)
        columns = [
            pa.repeat(operation, count),
            _combined(known.keys),
            partitions,
            moved_from,
            self._changed(differs, count),
            self._images(before, count),
            self._images(after, count),
        ]
        return pa.record_batch(columns, schema=difference_schema(self._image))

    def _changed(self, differs: Booleans | None, count: int) -> Column:
        kind = pa.list_(pa.string())
        if differs is None:
            return pa.nulls(count, kind)
        _, columns = np.nonzero(differs.T)
        offsets = np.concatenate([[0], np.cumsum(differs.sum(axis=0))])
        names = pa.array(self._columns, pa.string()).take(pa.array(columns, pa.int64()))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), names)

    def _images(self, state: SliceRows | None, count: int) -> Column:
        if state is None:
            return pa.nulls(count, pa.struct(list(self._image)))
        fields = list(self._image)
        arrays = structs_of(state.rows.select(list(self._columns))).flatten() if fields else []
        mask = pa.array(np.zeros(count, dtype=np.bool_))
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def _copied(state: SliceRows, positions: Positions) -> SliceRows:
    """Rows that keep no others in memory, as slices of arrays would."""
    places = pa.array(positions, pa.int64())
    return SliceRows(keys=state.keys.take(places), labels=state.labels.take(places), rows=state.rows.take(places))


def _keys_in_partitions(state: SliceRows) -> "pa.ChunkedArray[Any]":
    labels: Any = _combined(state.labels)
    keys: Any = _combined(state.keys)
    joined: Column = pc.binary_join_element_wise(labels, keys, _SEPARATOR)
    return pa.chunked_array([joined], pa.string())


def _combined(column: "pa.ChunkedArray[Any]") -> Column:
    whole: Column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return whole
