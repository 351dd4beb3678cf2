"""Finds the changes between file slices before and after, by record key.

A record is updated if a commit of the range has written it again, or if any of its columns differs. Rows that are only
in one slice of a group are matched across file groups. A row that was only moved to another file is not a change.

Reads the rows of a file slice with their record keys: all rows, or those of some keys.

If two slices have the same base file, only rows with keys of log blocks that are in one of them can differ.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.changes.images import DELETE, INSERT, UPDATE, Changes, Images, no_images, repeated, structs_of
from hudi_bridge.changes.row_differences import RowPairs, differing_rows, pair_rows
from hudi_bridge.changes.split import ChangeSplit, GroupChange
from hudi_bridge.merge.arrays import Booleans, Column, Positions, as_booleans
from hudi_bridge.merge.record_map import part_of_keys
from hudi_bridge.readers.blobs import BatchReader
from hudi_bridge.readers.block_decoder import BlockDecoder, ToldPositions
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
# Both states, and the rows taken from each.
_STATES_HELD = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRows:
    """Rows with their record keys; ``labels`` say where they are from: an instant, or a partition."""

    keys: "pa.ChunkedArray[Any]"
    labels: "pa.ChunkedArray[Any]"
    rows: pa.Table

    def take(self, positions: Positions) -> "SliceRows":
        """The rows at ``positions``; contiguous rows are not copied."""
        count = len(positions)
        if count and positions[-1] - positions[0] == count - 1 and (np.diff(positions) == 1).all():
            return self.slice(int(positions[0]), count)
        places = pa.array(positions, pa.int64())
        return SliceRows(keys=self.keys.take(places), labels=self.labels.take(places), rows=self.rows.take(places))

    def slice(self, start: int, count: int) -> "SliceRows":
        """At most ``count`` rows from position ``start`` on."""
        keys, labels = self.keys.slice(start, count), self.labels.slice(start, count)
        return SliceRows(keys=keys, labels=labels, rows=self.rows.slice(start, count))

    def pieces(self, rows: int) -> Iterator["SliceRows"]:
        """All rows, at most ``rows`` at a time."""
        return (self.slice(start, rows) for start in range(0, self.rows.num_rows, rows))


def all_rows(pieces: Iterable[SliceRows], schema: pa.Schema) -> SliceRows:
    """Concatenates rows into one chunk, since taking rows from many chunks is slow."""
    known = list(pieces)
    tables = [piece.rows for piece in known] or [schema.empty_table()]
    return SliceRows(
        keys=pa.chunked_array([chunk for piece in known for chunk in piece.keys.chunks], pa.string()),
        labels=pa.chunked_array([chunk for piece in known for chunk in piece.labels.chunks], pa.string()),
        rows=pa.concat_tables(tables).combine_chunks(),
    )


def request_of_keys(schema: pa.Schema, columns: Sequence[str], keys: "Column | None") -> RowRequest:
    """The request for some columns of the rows with the given ``keys``, by default of all."""
    return RowRequest.of(schema, columns, None if keys is None else pc.field(RECORD_KEY_COLUMN).isin(keys))


def slice_rows(reader: BatchReader, context: ReadContext, label: str, part: Part | None) -> Iterator[SliceRows]:
    """The rows of the reader of a slice, with their keys: all of them, or those in a ``part`` of all keys."""
    for batch in reader.batches():
        its_keys, rows = record_keys(batch, context), batch
        if part is not None:
            chosen = pa.array(part_of_keys(its_keys, part[1]) == part[0])
            its_keys, rows = its_keys.filter(chosen), rows.filter(chosen)
        yield SliceRows(
            keys=pa.chunked_array([its_keys.cast(pa.string())]),
            labels=pa.chunked_array([repeated(label, len(its_keys))]),
            rows=pa.Table.from_batches([rows]),
        )


def keys_that_may_differ(storage: Storage, group: GroupChange) -> "Column | None":
    """The record keys of the log blocks in which the slices of a file group differ, None if any row may differ.

    If only one of the slices is merged by position, these are the keys of all blocks: of several base rows of one key,
    other ones meet its log records. Reads the log files.
    """
    before, after = group.before, group.after
    if before is None or after is None or before.base_path != after.base_path:
        return None
    rule = after.context.merge_rule
    if rule is None or not after.context.populates_meta_fields:
        return None
    live = [read_live_blocks(storage, piece).blocks for piece in (before, after)]
    known = [{(block.path, block.offset) for block in blocks} for blocks in live]
    # Whether positions are told does not depend on the number of rows.
    told = [ToldPositions(piece, blocks, 1).are_complete for piece, blocks in zip((before, after), live, strict=True)]
    if told[0] != told[1]:
        known = [set(), set()]
    decoder = BlockDecoder(after, ())
    keys = [
        decoder.decode(block).keys
        for blocks, others in zip(live, reversed(known), strict=True)
        for block in blocks
        if (block.path, block.offset) not in others
    ]
    distinct: Any = pa.chunked_array(keys, pa.string()).unique()
    return cast("Column", distinct)


def held_bytes(group: GroupChange, keys: "Column | None") -> int:
    """The estimated memory for the rows of both slices that are held at once."""
    logs = sum(piece.log_size_bytes for piece in group.slices)
    bases = sum(piece.base_size_bytes for piece in group.slices)
    return _STATES_HELD * (_DECODED_LOG * logs + (_DECODED_BASE_FILE * bases if keys is None else 0))


_ROWS_AT_ONCE = 1 << 15
_MOST_PARTS = 1024


def rows_of_slice(
    read: SplitRead[ChangeSplit],
    piece: RealtimeFileSplit | None,
    label: str,
    keys: "Column | None" = None,
    part: Part | None = None,
) -> Iterator[SliceRows]:
    """The rows of a slice of a split with all columns, of the given ``keys`` or in a ``part`` of all keys.

    There are none if ``piece`` is None.
    """
    if piece is None or (keys is not None and not len(keys)):
        return iter(())
    context = piece.context
    request = request_of_keys(context.schema, context.schema.names, keys)
    # Images of changes are as they were stored: bytes that BLOB columns refer to are not read.
    return slice_rows(slice_reader(read.of_slice(piece, request)), context, label, part)


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
                for piece in rows_of_slice(self._read, group.after, group.instant):
                    yield from self._all(INSERT, piece)
            return
        keys = [keys_that_may_differ(self._read.storage, group) for group in self._split.groups]
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
        before = rows_of_slice(self._read, group.before, group.instant, keys, part)
        after = rows_of_slice(self._read, group.after, group.instant, keys, part)
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
