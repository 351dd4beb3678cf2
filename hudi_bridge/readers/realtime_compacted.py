"""Reads one file slice of a snapshot: its base file merged with its log records.

The keys of row groups that the filter rules out may still have to be read.

Reads the base file of a slice without logs.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from hudi_bridge.caching import cached_property
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.arrays import Booleans, Positions
from hudi_bridge.merge.columnar import FileSliceMerger, KeyMatches, joined
from hudi_bridge.merge.log_records import LogRecordMap
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFileColumns, OpenBaseFile
from hudi_bridge.readers.base_formats.opening import open_base_file
from hudi_bridge.readers.column_ranges import RangesInLogs
from hudi_bridge.readers.key_matches import KeyMatchFinder, MatchedBatches, matched_columns
from hudi_bridge.readers.log_scan import LogScan
from hudi_bridge.readers.merge_in_parts import MergeInParts, log_rows, merged_rows
from hudi_bridge.readers.request import SliceRead
from hudi_bridge.readers.schedule import begun, iter_ahead
from hudi_bridge.readers.selective import (
    ReadExtent,
    RowGroups,
    WantedRows,
    extent,
    groups_with_logs,
    groups_without_logs,
    kept_rows,
)


class MergingReader:
    """Reads one split with its log files merged in.

    Holds the log records of the split, and a few batches of the base file, in memory. Log records that exceed the
    memory for logs are merged a part at a time. ``batches`` can be called again.
    """

    def __init__(self, read: SliceRead) -> None:
        """A reader of a split with logs to merge."""
        self._read = read
        self._selects = read.is_selective
        self._base_rows = 0
        self.schema = read.schema

    @cached_property
    def _log_scan(self) -> LogScan:
        return LogScan(self._read, base_rows=self._base_rows)

    @cached_property
    def _all_log_records(self) -> LogRecordMap:
        if self._read.request.record_keys is not None or not self._read.request.filter_columns:
            return self._log_scan.records()
        return self._log_scan.records(RangesInLogs(self._read.split, self._read.request.filter_columns))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The merged rows that pass the filter, in no particular order."""
        if self._read.split.base_path is None:
            yield from self._rows(None)
            return
        with _open(self._read, self._read.split.base_path, keep_footer=self._selects) as base:
            yield from self._rows(base)

    def extent(self) -> ReadExtent:
        """What the read needs of the base file, of which only the footer is read.

        The logs are not read: if they hold partial updates, all row groups that may hold a wanted key are read.
        """
        if self._read.split.base_path is None:
            return ReadExtent()
        with _open(self._read, self._read.split.base_path, keep_footer=self._selects) as base:
            wanted, deciding = base.view(self._read.columns), self._deciding(base)
            groups = self._groups(base, wanted, deciding, merges_fields=self._read.rule.merges_fields)
            matched = base.view(matched_columns(self._read.split)).file_columns
            first = () if deciding is None else base.view(deciding.columns).file_columns
            return extent(base, groups, (*first, *matched, *wanted.file_columns), matched)

    def _deciding(self, base: OpenBaseFile) -> WantedRows | None:
        return WantedRows(base, self._read.request) if self._selects else None

    def _groups(
        self, base: OpenBaseFile, wanted: BaseFileColumns, deciding: WantedRows | None, *, merges_fields: bool
    ) -> RowGroups:
        return groups_with_logs(base, wanted, self._read.request, deciding, merges_fields=merges_fields)

    def _rows(self, base: OpenBaseFile | None) -> Iterator[pa.RecordBatch]:
        self._base_rows = 0 if base is None else base.num_rows
        if self._log_scan.parts > 1:
            yield from self._rows_in_parts(base)
            return
        if base is None:
            yield from self._log_rows(self._merger())
            return
        deciding = self._deciding(base)
        if deciding is not None:
            yield from self._selected_rows(base, deciding)
            return
        wanted = base.view(self._read.columns, are_held=self._read.request.is_held)
        matching = wanted.matching_row_groups(self._read.request)
        wanted.expect(matching)
        batches = MatchedBatches(base, wanted)
        first = batches.others(0)
        # The base file is decoded in parallel with the logs at first, then with the merge. What a store is asked for
        # is kept until a batch is left.
        most = 1 if base.is_fetched else None
        is_begun = self._read.use_threads and 0 in matching
        with begun(first, most, are_held=self._read.request.is_held) if is_begun else nullcontext(first) as first_group:
            merger = self._merger()
            groups = self._groups(base, wanted, None, merges_fields=merger.merges_rows)
            read = partial(self._matched_batches, base, batches, groups, first_group, merger)
            for stored, matches in iter_ahead(read) if self._read.use_threads else read():
                yield from wanted.passing(stored, self._read.request, without=merger.superseded(matches))
                for rows in merged_rows(wanted, stored, matches, merger):
                    yield from self._passing(rows)
        yield from self._log_rows(merger)

    def _log_rows(self, merger: FileSliceMerger) -> Iterator[pa.RecordBatch]:
        late = self._log_scan.late_rows
        if late is None:
            for rows in log_rows(merger, self._read.columns):
                yield from self._passing(rows)
            return
        chosen = self._read.request.of_chosen_rows()
        for rows in merger.remaining_log_rows().to_batches(ROWS_PER_BATCH):
            passes = self._read.request.passes(rows.select(list(self._read.request.filter_columns)))
            for found in late.rows(rows.column(late.number_column).to_numpy()[passes]):
                yield chosen.apply(found)

    def _merger(self) -> FileSliceMerger:
        return FileSliceMerger(self._all_log_records, self._read.rule, self._read.split.context.defaults)

    def _matched_batches(
        self,
        base: OpenBaseFile,
        batches: MatchedBatches,
        groups: RowGroups,
        first_group: Iterator[pa.RecordBatch],
        merger: FileSliceMerger,
    ) -> Iterator[tuple[pa.RecordBatch, KeyMatches]]:
        """The stored rows of the row groups that may pass the filter, with their key matches."""
        finder = KeyMatchFinder(base, merger)
        for group in base.row_groups:
            if group in groups.rows:
                yield from batches.batches(group, batches.others(group) if group else first_group, finder)
            elif group in groups.keys:
                for _ in finder.iter_matches(group):
                    pass

    def _selected_rows(self, base: OpenBaseFile, deciding: WantedRows) -> Iterator[pa.RecordBatch]:
        """The rows of a selective request: columns that do not decide are read where a row is left."""
        context = self._read.split.context
        merger = self._merger()
        finder = KeyMatchFinder(base, merger)
        # Key columns that are read anyway also show whether positions in the logs are right.
        keys = context.key_columns if set(context.key_columns).issubset(self._read.columns) else ()
        first = base.view(dict.fromkeys((*deciding.columns, *keys, *finder.columns)))
        wanted = base.view(self._read.columns)
        groups = self._groups(base, wanted, deciding, merges_fields=merger.merges_rows)
        for group in base.row_groups:
            if group in groups.rows:
                yield from self._selected_in(group, first, wanted, deciding, finder, merger)
            elif group in groups.keys:
                for _ in finder.iter_matches(group):
                    pass
        yield from self._log_rows(merger)

    def _selected_in(
        self,
        group: int,
        first: BaseFileColumns,
        wanted: BaseFileColumns,
        deciding: WantedRows,
        finder: KeyMatchFinder,
        merger: FileSliceMerger,
    ) -> Iterator[pa.RecordBatch]:
        matches_of = finder.matches_of_batches(
            group, first.file_columns, first.rows_per_batch(group, first.file_columns)
        )
        found: list[KeyMatches] = []

        def keep(stored: pa.RecordBatch) -> Booleans:
            matches = matches_of(stored)
            found.append(matches)
            kept = deciding.among(stored)
            kept[merger.superseded(matches)] = False
            if merger.merges_rows:
                kept[matches.rows] = True
            return kept

        for stored, positions in kept_rows(first, wanted, group, keep):
            matches = joined(found).among(positions)
            # Those that are not superseded have passed the filter.
            chosen = self._read.request.of_chosen_rows()
            yield from wanted.passing(stored, chosen, without=merger.superseded(matches))
            for rows in merged_rows(wanted, stored, matches, merger):
                yield from self._passing(rows)

    def _rows_in_parts(self, base: OpenBaseFile | None) -> Iterator[pa.RecordBatch]:
        """The rows if the logs are larger than memory.

        Reads the keys of the base file once for each part of the record keys, and the requested columns once.
        """
        merge = MergeInParts(replace(self._read, use_threads=False), self._log_scan, base)
        for rows in merge.rows():
            yield from self._passing(rows)
        if base is not None:
            yield from self._rows_without(base, merge.deleted_positions)

    def _rows_without(self, base: OpenBaseFile, deleted: Positions) -> Iterator[pa.RecordBatch]:
        wanted = base.view(self._read.request.needed)
        for group in wanted.matching_row_groups(self._read.request):
            start = int(base.row_group_starts[group])
            for stored in wanted.stored_batches(group):
                low, high = np.searchsorted(deleted, [start, start + stored.num_rows])
                yield from wanted.passing(stored, self._read.request, without=deleted[low:high] - start)
                start += stored.num_rows

    def _passing(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows = self._read.request.apply(batch)
        if rows.num_rows:
            yield rows


class BaseFileReader:
    """Reads the base file of one split without logs; the filter may skip row groups."""

    def __init__(self, read: SliceRead, base_path: str) -> None:
        self._read = read
        self._base_path = base_path
        self._selects = read.is_selective
        self.schema = read.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filter, in the order of the base file."""
        with _open(self._read, self._base_path, keep_footer=self._selects) as base:
            wanted = base.view(self._read.request.needed, are_held=self._read.request.is_held)
            deciding = self._deciding(base)
            groups = groups_without_logs(wanted, self._read.request, deciding)
            if deciding is not None:
                yield from self._selected(base, wanted, groups, deciding)
                return
            read = partial(self._stored_batches, wanted, groups)
            for stored in iter_ahead(read) if self._read.use_threads else read():
                yield from wanted.passing(stored, self._read.request)

    def extent(self) -> ReadExtent:
        """What the read needs of the base file, of which only the footer is read."""
        with _open(self._read, self._base_path, keep_footer=self._selects) as base:
            wanted, deciding = base.view(self._read.request.needed), self._deciding(base)
            groups = groups_without_logs(wanted, self._read.request, deciding)
            first = () if deciding is None else base.view(deciding.columns).file_columns
            return extent(base, groups, (*first, *wanted.file_columns))

    def _deciding(self, base: OpenBaseFile) -> WantedRows | None:
        return WantedRows(base, self._read.request) if self._selects else None

    def _stored_batches(self, wanted: BaseFileColumns, groups: RowGroups) -> Iterator[pa.RecordBatch]:
        wanted.expect(sorted(groups.rows))
        for group in sorted(groups.rows):
            yield from wanted.stored_batches(group)

    def _selected(
        self, base: OpenBaseFile, wanted: BaseFileColumns, groups: RowGroups, deciding: WantedRows
    ) -> Iterator[pa.RecordBatch]:
        first = base.view(deciding.columns)
        chosen = self._read.request.of_chosen_rows()
        for group in sorted(groups.rows):
            for stored, _ in kept_rows(first, wanted, group, deciding.among):
                yield from wanted.passing(stored, chosen)


def slice_reader(read: SliceRead) -> MergingReader | BaseFileReader:
    """The reader of a file slice, for the rows that the request and the split ask for.

    Raises:
        QueryError: the split has no file to read.
    """
    read = read.with_conditions()
    if read.has_logs:
        return MergingReader(read)
    if read.split.base_path is None:
        raise QueryError("split", "neither a base file nor log files to merge", "a split of a planner")
    return BaseFileReader(read, read.split.base_path)


def _open(read: SliceRead, path: str, *, keep_footer: bool) -> OpenBaseFile:
    """Opens the base file; its footer is also kept for the next time if the read is filtered."""
    keep_footer = keep_footer or read.request.row_filter is not None
    return open_base_file(read.storage, read.split, path, use_threads=read.use_threads, keep_footer=keep_footer)
