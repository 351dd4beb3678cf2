"""Finds the changes between file slices before and after, by record key.

A record is updated if a commit of the range has written it again, or if any of its columns differs. Rows that are in
only one slice of a group are matched across file groups. A row that was only moved to another file is not a change.

If two slices have the same base file, only rows with keys in the log blocks of one of them can differ.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.changes.row_differences import (
    DELETE,
    INSERT,
    UPDATE,
    Changes,
    Images,
    RowPairs,
    differing_rows,
    no_images,
    pair_rows,
    repeated,
    structs_of,
)
from hudi_bridge.changes.split import ChangeSplit, GroupChange
from hudi_bridge.merge.arrays import Booleans, Column, Positions, as_booleans
from hudi_bridge.merge.record_map import part_of_keys
from hudi_bridge.readers.blobs import BatchReader
from hudi_bridge.readers.block_decoder import BlockDecoder, RecordPositions
from hudi_bridge.readers.log_scan import read_live_blocks
from hudi_bridge.readers.realtime_compacted import slice_reader
from hudi_bridge.readers.request import RowRequest, SplitRead, log_memory_bytes
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN, META_COLUMNS, RECORD_KEY_COLUMN
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

Part: TypeAlias = tuple[int, int]
"""The number of a part of the record keys, and the count of parts."""
_DECODED_BASE_FILE = 8
_DECODED_LOG = 2
# Both states, and the rows taken from each, are in memory.
_STATES_IN_MEMORY = 2
_ROWS_AT_ONCE = 1 << 15
_MAX_PARTS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRows:
    """Rows with their record keys; ``labels`` have an instant or a partition for each row."""

    keys: "pa.ChunkedArray[Any]"
    labels: "pa.ChunkedArray[Any]"
    rows: pa.Table

    def take(self, positions: Positions) -> "SliceRows":
        """The rows at ``positions``; contiguous rows are not copied."""
        count = len(positions)
        if count and positions[-1] - positions[0] == count - 1 and (np.diff(positions) == 1).all():
            return self.slice(int(positions[0]), count)
        indices = pa.array(positions, pa.int64())
        return SliceRows(keys=self.keys.take(indices), labels=self.labels.take(indices), rows=self.rows.take(indices))

    def slice(self, start: int, count: int) -> "SliceRows":
        """At most ``count`` rows from position ``start`` on."""
        keys, labels = self.keys.slice(start, count), self.labels.slice(start, count)
        return SliceRows(keys=keys, labels=labels, rows=self.rows.slice(start, count))

    def chunks(self, rows: int) -> Iterator["SliceRows"]:
        """Yields all rows, up to ``rows`` at a time."""
        return (self.slice(start, rows) for start in range(0, self.rows.num_rows, rows))


def all_rows(rows: Iterable[SliceRows], schema: pa.Schema) -> SliceRows:
    """Concatenates rows into one chunk, because ``take`` from many chunks is slow."""
    parts = list(rows)
    tables = [part.rows for part in parts] or [schema.empty_table()]
    return SliceRows(
        keys=pa.chunked_array([chunk for part in parts for chunk in part.keys.chunks], pa.string()),
        labels=pa.chunked_array([chunk for part in parts for chunk in part.labels.chunks], pa.string()),
        rows=pa.concat_tables(tables).combine_chunks(),
    )


def request_of_keys(schema: pa.Schema, columns: Sequence[str], keys: "Column | None") -> RowRequest:
    """The request for some columns of the rows with the given ``keys``, by default of all rows."""
    return RowRequest.of(schema, columns, None if keys is None else pc.field(RECORD_KEY_COLUMN).isin(keys))


def slice_rows(reader: BatchReader, context: ReadContext, label: str, part: Part | None) -> Iterator[SliceRows]:
    """Yields the rows of a slice's reader with their keys: all rows, or the rows whose keys are in a ``part``."""
    for batch in reader.batches():
        keys, rows = record_keys(batch, context), batch
        if part is not None:
            mask = pa.array(part_of_keys(keys, part[1]) == part[0])
            keys, rows = keys.filter(mask), rows.filter(mask)
        yield SliceRows(
            keys=pa.chunked_array([keys.cast(pa.string())]),
            labels=pa.chunked_array([repeated(label, len(keys))]),
            rows=pa.Table.from_batches([rows]),
        )


def keys_that_may_differ(storage: Storage, group: GroupChange) -> "Column | None":
    """The record keys in the log blocks by which two slices of a file group differ; None if any row may differ.

    If only one of the slices is merged by position, the keys of all blocks are returned: if a key has several base
    rows, its log records match other ones. Reads the log files.
    """
    before, after = group.before, group.after
    if before is None or after is None or before.base_path != after.base_path:
        return None
    rule = after.context.merge_rule
    if rule is None or not after.context.populates_meta_fields:
        return None
    live = [read_live_blocks(storage, split).blocks for split in (before, after)]
    if after.context.is_lsm_tree and bool(live[0]) != bool(live[1]):
        # With logs, base rows of one key are merged.
        return None
    block_offsets = [{(block.path, block.offset) for block in blocks} for blocks in live]
    # Whether blocks store positions does not depend on the number of rows.
    by_position = [
        RecordPositions(split, blocks, 1).are_complete for split, blocks in zip((before, after), live, strict=True)
    ]
    if by_position[0] != by_position[1]:
        block_offsets = [set(), set()]
    decoder = BlockDecoder(after, ())
    keys = [
        decoder.decode(block).keys
        for blocks, others in zip(live, reversed(block_offsets), strict=True)
        for block in blocks
        if (block.path, block.offset) not in others
    ]
    distinct: Any = pa.chunked_array(keys, pa.string()).unique()
    return cast("Column", distinct)


def bytes_in_memory(group: GroupChange, keys: "Column | None") -> int:
    """The estimated memory for the rows of both slices of a group, in bytes."""
    logs = sum(split.log_size_bytes for split in group.slices)
    bases = sum(split.base_size_bytes for split in group.slices)
    return _STATES_IN_MEMORY * (_DECODED_LOG * logs + (_DECODED_BASE_FILE * bases if keys is None else 0))


def rows_of_slice(
    read: SplitRead[ChangeSplit],
    split: RealtimeFileSplit | None,
    label: str,
    keys: "Column | None" = None,
    part: Part | None = None,
) -> Iterator[SliceRows]:
    """The rows of a slice with all columns: with the given ``keys``, or in a ``part`` of all keys.

    There are none if the slice is None.
    """
    if split is None or (keys is not None and not len(keys)):
        return iter(())
    context = split.context
    request = request_of_keys(context.schema, context.schema.names, keys)
    # Images of changes are returned as stored, so bytes that BLOB columns refer to are not read.
    return slice_rows(slice_reader(read.of_slice(split, request)), context, label, part)


class StateChanges:
    """The changes between the slices of a split."""

    def __init__(self, read: SplitRead[ChangeSplit]) -> None:
        split = read.split
        self._read = read
        self._split = split
        self._schema = split.image.schema
        self._memory = log_memory_bytes(split.image, read.at_once)
        self._compared = [name for name in self._schema.names if name not in META_COLUMNS]

    def changes(self) -> Iterator[Changes]:
        """All changes, in batches."""
        if all(group.before is None for group in self._split.groups):
            for group in self._split.groups:
                for rows in rows_of_slice(self._read, group.after, group.instant):
                    yield from self._all(INSERT, rows)
            return
        keys = [keys_that_may_differ(self._read.storage, group) for group in self._split.groups]
        size = sum(map(bytes_in_memory, self._split.groups, keys))
        parts = min(_MAX_PARTS, 1 + size // max(1, self._memory))
        for number in range(parts):
            yield from self._changes_of_part(keys, (number, parts) if parts > 1 else None)

    def _changes_of_part(self, keys: "list[Column | None]", part: Part | None) -> Iterator[Changes]:
        rows_only_before, rows_only_after = [], []
        for group, group_keys in zip(self._split.groups, keys, strict=True):
            before, after = self._states(group, group_keys, part)
            pairs = pair_rows(before.keys, after.keys)
            yield from self._updates(before, after, pairs)
            rows_only_before.append(before.take(pairs.only_before))
            rows_only_after.append(after.take(pairs.only_after))
        before, after = all_rows(rows_only_before, self._schema), all_rows(rows_only_after, self._schema)
        pairs = pair_rows(before.keys, after.keys)
        yield from self._updates(before, after, pairs)
        yield from self._all(DELETE, before.take(pairs.only_before))
        yield from self._all(INSERT, after.take(pairs.only_after))

    def _states(self, group: GroupChange, keys: "Column | None", part: Part | None) -> tuple[SliceRows, SliceRows]:
        before = rows_of_slice(self._read, group.before, group.instant, keys, part)
        after = rows_of_slice(self._read, group.after, group.instant, keys, part)
        return all_rows(before, self._schema), all_rows(after, self._schema)

    def _updates(self, before: SliceRows, after: SliceRows, pairs: RowPairs) -> Iterator[Changes]:
        for start in range(0, len(pairs.before), _ROWS_AT_ONCE):
            bounds = slice(start, start + _ROWS_AT_ONCE)
            old, new = before.take(pairs.before[bounds]), after.take(pairs.after[bounds])
            updated = self._written_again(old.rows, new.rows)
            rest = np.flatnonzero(~updated)
            values = (state.rows.select(self._compared).take(pa.array(rest, pa.int64())) for state in (old, new))
            updated[rest] = differing_rows(*values)
            if updated.any():
                positions = np.flatnonzero(updated)
                yield self._changes(UPDATE, old.take(positions), new.take(positions))

    def _written_again(self, before: pa.Table, after: pa.Table) -> Booleans:
        if not self._split.image.populates_meta_fields:
            return np.zeros(before.num_rows, dtype=np.bool_)
        times, earlier = (_combined(table[COMMIT_TIME_COLUMN]) for table in (after, before))
        # A copy, since arrays backed by Arrow's memory are read-only.
        return np.array(as_booleans(pc.and_(pc.not_equal(times, earlier), self._in_range(times))))

    def _in_range(self, times: Column) -> "pa.BooleanArray":
        if self._split.commit_times is None:
            # Files of other writers have no commit times.
            named: pa.BooleanArray = pc.not_equal(times.fill_null(""), pa.scalar("", pa.string()))
            return named
        return pc.is_in(times, value_set=pa.array(sorted(self._split.commit_times), pa.string()))

    def _all(self, operation: str, state: SliceRows) -> Iterator[Changes]:
        for chunk in state.chunks(_ROWS_AT_ONCE):
            yield self._changes(
                operation, None if operation == INSERT else chunk, None if operation == DELETE else chunk
            )

    def _changes(self, operation: str, before: SliceRows | None, after: SliceRows | None) -> Changes:
        existing: Any = before if after is None else after
        count, instants = existing.rows.num_rows, _combined(existing.labels)
        if after is not None and self._split.image.populates_meta_fields:
            times = _combined(after.rows[COMMIT_TIME_COLUMN])
            instants = pc.if_else(self._in_range(times), times, instants)
        before_images, after_images = (
            no_images(self._schema, count) if state is None else Images(rows=structs_of(state.rows))
            for state in (before, after)
        )
        return Changes(
            operations=repeated(operation, count), instants=instants, before=before_images, after=after_images
        )


def _combined(column: "pa.ChunkedArray[Any]") -> Column:
    whole: Column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return whole
