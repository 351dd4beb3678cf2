"""Plans and compares two states of a table, by record key and by value.

A file group that has the same files in both states has the same rows, unless a commit between the states has written to
its logs: log files of older releases grow, and a state may use no block of a log file in its slice.

File groups are compared one by one. Rows without a counterpart in their file group are kept in memory, or beyond a
limit in temporary files, and are then compared with the rows of other groups, first in the same partition: a clustering
or an overwrite moves records to other file groups. A record that is gone from one partition and new in another has
moved. If a record key occurs several times, rows with equal values are paired first.
"""

from collections.abc import Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.changes.row_differences import Keys, RowPairs, differing_values, pair_rows, row_numbers, structs_of
from hudi_bridge.changes.slice_differences import (
    Part,
    SliceRows,
    all_rows,
    bytes_in_memory,
    keys_that_may_differ,
    request_of_keys,
    slice_rows,
)
from hudi_bridge.changes.split import GroupChange
from hudi_bridge.changes.writes import CleanedFiles, later_writes, whole_groups
from hudi_bridge.common.caching import cached_property
from hudi_bridge.common.threads import iter_parallel, most_at_once
from hudi_bridge.config import QueryType
from hudi_bridge.errors import InstantNotReadableError
from hudi_bridge.merge.arrays import Booleans, Column, Positions, as_booleans
from hudi_bridge.merge.record_map import key_hashes
from hudi_bridge.readers.blobs import BatchReader
from hudi_bridge.readers.request import RowRequest, SplitRead, log_memory_bytes
from hudi_bridge.readers.spill import PartsOnDisk
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.split_reader import reader_for
from hudi_bridge.splits.file_slice import FileSlice
from hudi_bridge.splits.planner import SplitPlanner, build_read_context
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.splits.table_files import CurrentFiles, FolderListings
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.instant_files import GroupId
from hudi_bridge.timeline.time_travel import keeps_file_versions
from hudi_bridge.timeline.timeline import TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferencePlan:
    """The file groups to compare, with their slices in both states.

    ``image`` is the context for the slices of both states, with the columns of the newer one.
    """

    image: ReadContext
    groups: tuple[GroupChange, ...]
    unchanged: int
    """The number of file groups with the same rows in both states."""


def plan_difference(listings: FolderListings, first: TableState, second: TableState) -> DifferencePlan:
    """Plans the comparison of two states of one table; ``listings`` have the files of its newest state.

    Raises:
        InstantNotReadableError: files of one of the states have been cleaned.
        UnsupportedTableError: the table's records cannot be merged correctly.
        CorruptTableError: a file of the timeline is missing or damaged.
    """
    planners = [SplitPlanner(state, listings) for state in (first, second)]
    older, newer = sorted(planners, key=lambda planner: planner.state.instant)
    context_of = partial(build_read_context, newer.state, newer.query_schema, QueryType.SNAPSHOT)
    contexts = [context_of(visible=planner.state) for planner in planners]
    slices = [
        {(file_slice.partition_path, file_slice.file_id): file_slice for file_slice in _slices(planner)}
        for planner in planners
    ]
    for planner, slices_of_state in zip(planners, slices, strict=True):
        _require_all_files(planner, whole_groups(planner.files, slices_of_state.values()))
    written = _WrittenBetween(older.state, newer.state)
    groups, unchanged = [], 0
    for group in sorted(slices[0].keys() | slices[1].keys()):
        before, after = (slices_of_state.get(group) for slices_of_state in slices)
        if before is not None and after is not None and _is_same(before, after, written):
            unchanged += 1
            continue
        splits = [
            _split(planner, slice_of_state, context)
            for planner, slice_of_state, context in zip(planners, (before, after), contexts, strict=True)
        ]
        if any(splits):
            groups.append(GroupChange(instant=newer.state.instant, before=splits[0], after=splits[1]))
    return DifferencePlan(image=context_of(), groups=tuple(groups), unchanged=unchanged)


def _slices(planner: SplitPlanner) -> Iterator[FileSlice]:
    return planner.file_slices(QueryType.SNAPSHOT)


def _require_all_files(planner: SplitPlanner, whole: Collection[GroupId]) -> None:
    """Requires that ``whole`` has all file groups of a state."""
    state = planner.state
    later = [commit for commit in state.timeline.commits() if commit.requested_time > state.instant]
    if not later or not keeps_file_versions(state):
        return
    cleaned = CleanedFiles(planner.files, whole, CurrentFiles(planner.files.listings))
    missing = cleaned.first_that_misses(later_writes(state, later))
    if missing is not None:
        raise InstantNotReadableError(state.instant, "files of that time have been cleaned", missing.time)


def _split(planner: SplitPlanner, file_slice: FileSlice | None, context: ReadContext) -> RealtimeFileSplit | None:
    if file_slice is None:
        return None
    split = planner.split(file_slice, context)
    return split if split.base_path or split.log_paths else None


def _is_same(before: FileSlice, after: FileSlice, written: "_WrittenBetween") -> bool:
    if _files(before) != _files(after):
        return False
    if not before.log_files:
        return True
    return written.groups is not None and (after.partition_path, after.file_id) not in written.groups


def _files(file_slice: FileSlice) -> tuple[str | None, ...]:
    return (file_slice.base_file.path if file_slice.base_file else None, *(log.path for log in file_slice.log_files))


class _WrittenBetween:
    """The file groups that commits between two states have written to."""

    def __init__(self, older: TableState, newer: TableState) -> None:
        self._older = older
        self._newer = newer

    @cached_property
    def groups(self) -> AbstractSet[GroupId] | None:
        """The file groups; None if they are unknown because some of the commits may be archived."""
        older, newer = self._older.instant, self._newer
        if older < newer.timeline_start:
            return None
        commits = [commit for commit in newer.timeline.commits() if older < commit.requested_time <= newer.instant]
        return {group for writes in later_writes(newer, commits) for group in writes.groups}


Numbered: TypeAlias = Callable[[Positions, Positions], Positions]
"""Returns numbers for rows of both states, given their positions; equal numbers for equal values."""


def pair_equal_rows_first(before: Keys, after: Keys, numbered: Numbered) -> RowPairs:
    """As ``pair_rows``; among rows with one key, rows with equal values are paired first."""
    pairs = pair_rows(before, after)
    distinct = pc.unique(pa.chunked_array([*before.chunks, *after.chunks], pa.string()))
    codes, later = (np.asarray(pc.index_in(keys, value_set=distinct).to_numpy()) for keys in (before, after))
    counts = [np.bincount(key_codes, minlength=len(distinct)) for key_codes in (codes, later)]
    repeated = (np.minimum(*counts) > 0) & (np.maximum(*counts) > 1)
    if not repeated.any():
        return pairs
    equal_before, equal_after = _equal_pairs(codes, later, repeated, numbered)
    rest_before = np.setdiff1d(np.arange(len(before)), equal_before)
    rest_after = np.setdiff1d(np.arange(len(after)), equal_after)
    others = pair_rows(before.take(pa.array(rest_before, pa.int64())), after.take(pa.array(rest_after, pa.int64())))
    return RowPairs(
        before=np.concatenate([equal_before, rest_before[others.before]]),
        after=np.concatenate([equal_after, rest_after[others.after]]),
        only_before=rest_before[others.only_before],
        only_after=rest_after[others.only_after],
    )


def _equal_pairs(
    codes: Positions, later: Positions, repeated: Booleans, numbered: Numbered
) -> tuple[Positions, Positions]:
    """Pairs rows with a repeated key and equal values, in order."""
    rows, others = (np.flatnonzero(repeated[key_codes]) for key_codes in (codes, later))
    values = numbered(rows, others)
    keys = np.concatenate([codes[rows], later[others]]).astype(np.int64)
    keys_and_values = pa.array(keys * (values.max(initial=0) + 1) + values)
    pairs = pair_rows(
        pa.chunked_array([keys_and_values[: len(rows)]]), pa.chunked_array([keys_and_values[len(rows) :]])
    )
    return rows[pairs.before], others[pairs.after]


_PARTS = 64


class UnmatchedRows:
    """Rows of two states, added by several threads; rows with equal keys are returned in the same part."""

    def __init__(self, schema: pa.Schema, memory_bytes: int) -> None:
        """``schema`` has the columns of the rows, without their keys and labels."""
        self._schema = schema
        self._memory_bytes = memory_bytes
        self._in_memory: tuple[list[SliceRows], list[SliceRows]] = ([], [])
        self._in_memory_bytes = 0
        self._on_disk: tuple[PartsOnDisk, PartsOnDisk] | None = None
        self._lock = Lock()

    def add(self, before: SliceRows | None, after: SliceRows | None) -> None:
        """Adds rows of the states.

        Raises:
            OSError: a temporary file cannot be written.
        """
        with self._lock:
            for state, rows in enumerate((before, after)):
                if rows is not None and rows.rows.num_rows:
                    self._add(state, rows)

    def parts(self) -> Iterator[tuple[SliceRows, SliceRows]]:
        """Yields all rows of both states, in parts; call it once, at the end.

        Raises:
            OSError: a temporary file cannot be written or read.
        """
        if self._on_disk is None:
            before, after = (all_rows(rows, self._schema) for rows in self._in_memory)
            yield before, after
            return
        for number in range(_PARTS):
            before, after = (all_rows(map(_restored, state.of_part(number)), self._schema) for state in self._on_disk)
            yield before, after

    def _add(self, state: int, rows: SliceRows) -> None:
        if self._on_disk is not None:
            _store(self._on_disk[state], rows)
            return
        self._in_memory[state].append(rows)
        self._in_memory_bytes += rows.rows.nbytes + rows.keys.nbytes
        if self._in_memory_bytes > self._memory_bytes:
            self._on_disk = (PartsOnDisk(_PARTS), PartsOnDisk(_PARTS))
            for waiting, parts in zip(self._in_memory, self._on_disk, strict=True):
                while waiting:
                    _store(parts, waiting.pop())


def _store(parts: PartsOnDisk, rows: SliceRows) -> None:
    table = pa.Table.from_arrays(
        [rows.keys, rows.labels, *rows.rows.columns],
        schema=pa.schema([pa.field("", pa.string()), pa.field("", pa.string()), *rows.rows.schema]),
    )
    for batch in table.to_batches():
        keys: Any = batch.column(0)
        parts.add(batch, key_hashes(keys))


def _restored(stored: pa.RecordBatch) -> SliceRows:
    columns: Any = stored.columns
    schema = pa.schema(list(stored.schema)[2:])
    return SliceRows(
        keys=pa.chunked_array([columns[0]]),
        labels=pa.chunked_array([columns[1]]),
        rows=pa.Table.from_arrays(columns[2:], schema=schema),
    )


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
"""Returns a mask of the rows of a batch that meet a condition."""

_ROWS_AT_ONCE = 1 << 15
_MAX_PARTS = 1024
# Arrays of texts are limited to 2 GiB.
_MAX_MEMORY = 1 << 30
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
        """Compares all records, or the records with some ``keys``; ``tested`` are the columns of the condition."""
        self._storage = storage
        self._plan = plan
        self._columns = columns
        self._keys = keys
        self._test = test
        self._tested = tested
        context = plan.image
        key_columns = (RECORD_KEY_COLUMN,) if context.populates_meta_fields else context.key_columns
        # A table without a commit has no columns and no rows.
        self._read = tuple(dict.fromkeys((*key_columns, *columns, *tested))) if context.schema.names else ()
        self._rows_schema = pa.schema([context.schema.field(name) for name in self._read])
        self._image = pa.schema([context.schema.field(name) for name in columns])
        self._at_once = most_at_once(len(plan.groups))
        self._memory = min(_MAX_MEMORY, log_memory_bytes(context, self._at_once))
        self._unmatched = UnmatchedRows(self._rows_schema, min(_MAX_MEMORY, log_memory_bytes(context)))
        # If no row can have a counterpart, rows are returned at once.
        self._matches = any(group.before for group in plan.groups) and any(group.after for group in plan.groups)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the differences, in no particular order; iterate over them once.

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
        parts = min(_MAX_PARTS, 1 + bytes_in_memory(group, keys) // max(1, self._memory))
        for number in range(parts):
            part = (number, parts) if parts > 1 else None
            before, after = (all_rows(self._rows(split, keys, part), self._rows_schema) for split in group.slices)
            pairs = pair_equal_rows_first(before.keys, after.keys, partial(self._numbers, before, after))
            yield from self._updates(before, after, pairs)
            self._unmatched.add(_copied(before, pairs.only_before), _copied(after, pairs.only_after))

    def _of_one_sided(self, group: GroupChange) -> Iterator[pa.RecordBatch]:
        for split, operation in ((group.before, DELETE), (group.after, INSERT)):
            for rows in self._rows(split, None, None) if split is not None else ():
                if not self._matches:
                    yield from self._all(operation, rows)
                elif operation == DELETE:
                    self._unmatched.add(rows, None)
                else:
                    self._unmatched.add(None, rows)

    def _rows(self, split: RealtimeFileSplit | None, keys: "Column | None", part: Part | None) -> Iterator[SliceRows]:
        label = split.partition_path if split is not None else ""
        remaining_keys = self._keys
        if remaining_keys is not None and self._plan.image.populates_meta_fields:
            # The keys become part of the filter, so that readers look them up.
            keys = remaining_keys if keys is None else remaining_keys.filter(pc.is_in(remaining_keys, value_set=keys))
            remaining_keys = None
        if split is None or (keys is not None and not len(keys)):
            return
        request = request_of_keys(split.context.schema, self._read, keys)
        for rows in slice_rows(self._reader(split, request), split.context, label, part):
            positions = (
                None
                if remaining_keys is None
                else np.flatnonzero(as_booleans(pc.is_in(rows.keys, value_set=remaining_keys)))
            )
            yield rows if positions is None else rows.take(positions)

    def _reader(self, split: RealtimeFileSplit, request: RowRequest) -> BatchReader:
        alone, at_once = self._at_once == 1, self._at_once
        return reader_for(
            SplitRead(storage=self._storage, split=split, request=request, use_threads=alone, at_once=at_once)
        )

    def _of_unmatched(self, before: SliceRows, after: SliceRows) -> Iterator[pa.RecordBatch]:
        """Compares the remaining rows of all file groups: first within each partition, then across partitions."""
        keys, later = _keys_in_partitions(before), _keys_in_partitions(after)
        pairs = pair_equal_rows_first(keys, later, partial(self._numbers, before, after))
        yield from self._updates(before, after, pairs)
        before, after = before.take(pairs.only_before), after.take(pairs.only_after)
        pairs = pair_rows(before.keys, after.keys)
        yield from self._updates(before, after, pairs)
        yield from self._all(DELETE, before.take(pairs.only_before))
        yield from self._all(INSERT, after.take(pairs.only_after))

    def _numbers(
        self, before: SliceRows, after: SliceRows, before_positions: Positions, after_positions: Positions
    ) -> Positions:
        before_rows, after_rows = before.take(before_positions).rows, after.take(after_positions).rows
        columns = (
            pa.chunked_array([*before_rows[name].chunks, *after_rows[name].chunks], before_rows[name].type)
            for name in self._columns
        )
        return row_numbers(map(_combined, columns), len(before_positions) + len(after_positions))

    def _updates(self, before: SliceRows, after: SliceRows, pairs: RowPairs) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(pairs.before), _ROWS_AT_ONCE):
            bounds = slice(start, start + _ROWS_AT_ONCE)
            old, new = before.take(pairs.before[bounds]), after.take(pairs.after[bounds])
            values = [differing_values(_combined(old.rows[name]), _combined(new.rows[name])) for name in self._columns]
            differs = np.array(values, dtype=np.bool_).reshape(len(values), old.rows.num_rows)
            moved = as_booleans(pc.not_equal(_combined(old.labels), _combined(new.labels)))
            changed = np.flatnonzero(moved | differs.any(axis=0))
            if not len(changed):
                continue
            old, new, differs = old.take(changed), new.take(changed), differs[:, changed]
            batch = self._batch(UPDATE, old, new, differs)
            passes = self._passes(old) | self._passes(new)
            yield from self._passing(batch, passes)

    def _all(self, operation: str, state: SliceRows) -> Iterator[pa.RecordBatch]:
        for chunk in state.chunks(_ROWS_AT_ONCE):
            batch = self._batch(
                operation, None if operation == INSERT else chunk, None if operation == DELETE else chunk, None
            )
            yield from self._passing(batch, self._passes(chunk))

    def _passes(self, state: SliceRows) -> Booleans:
        if self._test is None:
            return np.ones(state.rows.num_rows, dtype=np.bool_)
        columns = [_combined(state.rows[name]) for name in self._tested]
        return self._test(pa.record_batch(columns, names=list(self._tested)))

    def _passing(self, batch: pa.RecordBatch, passes: Booleans) -> Iterator[pa.RecordBatch]:
        passing = batch if passes.all() else batch.filter(pa.array(passes))
        if passing.num_rows:
            yield passing

    def _batch(
        self, operation: str, before: SliceRows | None, after: SliceRows | None, differs: Booleans | None
    ) -> pa.RecordBatch:
        existing: Any = before if after is None else after
        count = existing.rows.num_rows
        partitions, moved_from = _combined(existing.labels), pa.nulls(count, pa.string())
        if before is not None and after is not None:
            origin = _combined(before.labels)
            moved_from = pc.if_else(pc.not_equal(origin, partitions), origin, moved_from)
        columns = [
            pa.repeat(operation, count),
            _combined(existing.keys),
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
    """A copy of rows; slices would keep the whole arrays in memory."""
    indices = pa.array(positions, pa.int64())
    return SliceRows(keys=state.keys.take(indices), labels=state.labels.take(indices), rows=state.rows.take(indices))


def _keys_in_partitions(state: SliceRows) -> "pa.ChunkedArray[Any]":
    labels: Any = _combined(state.labels)
    keys: Any = _combined(state.keys)
    joined: Column = pc.binary_join_element_wise(labels, keys, _SEPARATOR)
    return pa.chunked_array([joined], pa.string())


def _combined(column: "pa.ChunkedArray[Any]") -> Column:
    whole: Column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return whole
