"""Finds the changes between file slices before and after, by record key.

A record is updated if a commit of the range has written it again, or if any of its columns differs. Rows that are only
in one slice of a group are matched across file groups. A row that was only moved to another file is not a change.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.changes.images import DELETE, INSERT, UPDATE, Changes, Images, no_images, repeated, structs_of
from hudi_bridge.changes.row_differences import RowPairs, differing_rows, pair_rows
from hudi_bridge.changes.slice_rows import (
    Part,
    ReadSlice,
    SliceRows,
    all_rows,
    held_bytes,
    keys_that_may_differ,
    slice_rows,
)
from hudi_bridge.changes.split import ChangeSplit, GroupChange
from hudi_bridge.merge.arrays import Booleans, Column, as_booleans
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN, META_COLUMNS
from hudi_bridge.storage import Storage
from hudi_bridge.system_memory import memory_bytes

_ROWS_AT_ONCE = 1 << 15
_MOST_PARTS = 1024


class StateChanges:
    """The changes between the slices of a split; ``at_once`` is the number of splits that share the memory for logs."""

    def __init__(self, storage: Storage, split: ChangeSplit, read_slice: ReadSlice, at_once: int) -> None:
        self._storage = storage
        self._split = split
        self._schema = split.image.schema
        self._read_slice = read_slice
        self._memory = (split.image.log_memory_bytes or memory_bytes() // 4) // at_once
        self._compared = [name for name in self._schema.names if name not in META_COLUMNS]

    def changes(self) -> Iterator[Changes]:
        """All changes, in batches."""
        if all(group.before is None for group in self._split.groups):
            for group in self._split.groups:
                for piece in slice_rows(self._read_slice, group.after, group.instant, None, None):
                    yield from self._all(INSERT, piece)
            return
        keys = [keys_that_may_differ(self._storage, group) for group in self._split.groups]
        held = sum(map(held_bytes, self._split.groups, keys))
        parts = min(_MOST_PARTS, 1 + held // max(1, self._memory))
        for number in range(parts):
            yield from self._changes_of_part(keys, (number, parts) if parts > 1 else None)

    def _changes_of_part(self, keys: "list[Column | None]", part: Part | None) -> Iterator[Changes]:
        befores, afters = [], []
        for group, its_keys in zip(self._split.groups, keys, strict=True):
            before, after = self._states(group, its_keys, part)
            pairs = pair_rows(before.keys, after.keys)
            yield from self._updates(before, after, pairs)
            befores.append(before.take(pairs.only_before))
            afters.append(after.take(pairs.only_after))
        before, after = all_rows(befores, self._schema), all_rows(afters, self._schema)
        pairs = pair_rows(before.keys, after.keys)
        yield from self._updates(before, after, pairs)
        yield from self._all(DELETE, before.take(pairs.only_before))
        yield from self._all(INSERT, after.take(pairs.only_after))

    def _states(self, group: GroupChange, keys: "Column | None", part: Part | None) -> tuple[SliceRows, SliceRows]:
        before = slice_rows(self._read_slice, group.before, group.instant, keys, part)
        after = slice_rows(self._read_slice, group.after, group.instant, keys, part)
        return all_rows(before, self._schema), all_rows(after, self._schema)

    def _updates(self, before: SliceRows, after: SliceRows, pairs: RowPairs) -> Iterator[Changes]:
        for start in range(0, len(pairs.before), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            one, other = before.take(pairs.before[some]), after.take(pairs.after[some])
            updated = self._written_again(one.rows, other.rows)
            rest = np.flatnonzero(~updated)
            values = (state.rows.select(self._compared).take(pa.array(rest, pa.int64())) for state in (one, other))
            updated[rest] = differing_rows(*values)
            if updated.any():
                positions = np.flatnonzero(updated)
                yield self._changes(UPDATE, one.take(positions), other.take(positions))

    def _written_again(self, before: pa.Table, after: pa.Table) -> Booleans:
        if not self._split.image.populates_meta_fields:
            return np.zeros(before.num_rows, dtype=np.bool_)
        times, earlier = (_combined(table[COMMIT_TIME_COLUMN]) for table in (after, before))
        # A copy, since arrays backed by Arrow's memory are read-only.
        return np.array(as_booleans(pc.and_(pc.not_equal(times, earlier), self._in_range(times))))

    def _in_range(self, times: Column) -> "pa.BooleanArray":
        return pc.is_in(times, value_set=pa.array(sorted(self._split.commit_times), pa.string()))

    def _all(self, operation: str, state: SliceRows) -> Iterator[Changes]:
        for piece in state.pieces(_ROWS_AT_ONCE):
            yield self._changes(
                operation, None if operation == INSERT else piece, None if operation == DELETE else piece
            )

    def _changes(self, operation: str, before: SliceRows | None, after: SliceRows | None) -> Changes:
        known: Any = before if after is None else after
        count, instants = known.rows.num_rows, _combined(known.labels)
        if after is not None and self._split.image.populates_meta_fields:
            times = _combined(after.rows[COMMIT_TIME_COLUMN])
            instants = pc.if_else(self._in_range(times), times, instants)
        one, other = (
            no_images(self._schema, count) if state is None else Images(rows=structs_of(state.rows))
            for state in (before, after)
        )
        return Changes(operations=repeated(operation, count), instants=instants, before=one, after=other)


def _combined(column: "pa.ChunkedArray[Any]") -> Column:
    whole: Column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return whole
