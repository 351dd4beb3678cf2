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

from hudi_bridge.common.threads import begun, iter_ahead
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.arrays import Booleans, Positions
from hudi_bridge.merge.columnar import FileSliceMerger, KeyMatches, joined
from hudi_bridge.readers.base_file import (
    BaseFileColumns,
    OpenBaseFile,
    ReadExtent,
    RowGroups,
    WantedRows,
    extent,
    groups_with_logs,
    groups_without_logs,
    kept_rows,
)
from hudi_bridge.readers.base_formats.opening import open_base_file
from hudi_bridge.readers.column_ranges import RangesInLogs
from hudi_bridge.readers.key_matches import KeyMatchFinder, MatchedBatches, matched_columns
from hudi_bridge.readers.log_scan import LateLogRows, LogScan
from hudi_bridge.readers.merge_in_parts import MergeInParts
from hudi_bridge.readers.merging import MatchedRows, ReplacedRows, RequestedRows, merge
from hudi_bridge.readers.request import SliceRead


class MergingReader:
    """Reads one split with its log files merged in.

    Holds the log records of the split, and a few batches of the base file, in memory. Log records that exceed the
    memory for logs are merged a part at a time. ``batches`` can be called again.
    """

    def __init__(self, read: SliceRead) -> None:
        """A reader of a split with logs to merge."""
        self._read = read
        self._selects = read.is_selective
        self.schema = read.schema

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
        scan = LogScan(self._read, base_rows=0 if base is None else base.num_rows)
        if scan.parts > 1:
            yield from self._rows_in_parts(scan, base)
        elif base is None:
            merger, late_rows = self._merger(scan)
            yield from merge((), merger, RequestedRows(self._read.request, self._read.request, late_rows))
        elif (selector := self._deciding(base)) is not None:
            merger, late_rows = self._merger(scan)
            # The source has applied the filter to the base rows that are not superseded.
            sink = RequestedRows(self._read.request, self._read.request.of_chosen_rows(), late_rows)
            yield from merge(self._selected_rows(base, selector, merger), merger, sink)
        else:
            yield from self._all_rows(scan, base)

    def _merger(self, scan: LogScan) -> tuple[FileSliceMerger, LateLogRows | None]:
        request = self._read.request
        is_learning = request.record_keys is None and request.filter_columns
        ranges = RangesInLogs(self._read.split, request.filter_columns) if is_learning else None
        records, late_rows = scan.records_and_late_rows(ranges)
        return FileSliceMerger(records, self._read.rule, self._read.context.defaults), late_rows

    def _all_rows(self, scan: LogScan, base: OpenBaseFile) -> Iterator[pa.RecordBatch]:
        """The rows where all columns are read together."""
        request, use_threads = self._read.request, self._read.use_threads
        view = base.view(self._read.columns, are_held=request.is_held)
        matching = view.matching_row_groups(request)
        view.expect(matching)
        batches = MatchedBatches(base, view)
        first = batches.others(0)
        # The base file is decoded in parallel with the logs at first, then with the merge. What a store is asked for
        # is kept until a batch is left.
        most = 1 if base.is_fetched else None
        is_begun = use_threads and 0 in matching
        with begun(first, most, are_held=request.is_held) if is_begun else nullcontext(first) as first_group:
            merger, late_rows = self._merger(scan)
            groups = self._groups(base, view, None, merges_fields=merger.merges_rows)
            read = partial(self._matched_rows, base, view, batches, groups, first_group, merger)
            sink = RequestedRows(request, request, late_rows)
            yield from merge(iter_ahead(read) if use_threads else read(), merger, sink)

    def _matched_rows(
        self,
        base: OpenBaseFile,
        view: BaseFileColumns,
        batches: MatchedBatches,
        groups: RowGroups,
        first_group: Iterator[pa.RecordBatch],
        merger: FileSliceMerger,
    ) -> Iterator[MatchedRows]:
        """The rows of the row groups that may pass the filter, and the matches of those whose keys matter."""
        finder = KeyMatchFinder(base, merger)
        for group in base.row_groups:
            if group in groups.rows:
                others = batches.others(group) if group else first_group
                for stored, matches in batches.batches(group, others, finder):
                    yield MatchedRows(matches=matches, rows=stored, view=view)
            elif group in groups.keys:
                yield from _matches_alone(finder, group)

    def _selected_rows(
        self, base: OpenBaseFile, selector: WantedRows, merger: FileSliceMerger
    ) -> Iterator[MatchedRows]:
        """The rows of a selective request: columns that do not decide are read where a row is left."""
        context = self._read.context
        finder = KeyMatchFinder(base, merger)
        # Key columns that are read anyway also show whether positions in the logs are right.
        keys = context.key_columns if set(context.key_columns).issubset(self._read.columns) else ()
        first = base.view(dict.fromkeys((*selector.columns, *keys, *finder.columns)))
        view = base.view(self._read.columns)
        groups = self._groups(base, view, selector, merges_fields=merger.merges_rows)
        for group in base.row_groups:
            if group in groups.rows:
                yield from self._selected_in(group, first, view, selector, finder, merger)
            elif group in groups.keys:
                yield from _matches_alone(finder, group)

    def _selected_in(
        self,
        group: int,
        first: BaseFileColumns,
        view: BaseFileColumns,
        selector: WantedRows,
        finder: KeyMatchFinder,
        merger: FileSliceMerger,
    ) -> Iterator[MatchedRows]:
        matches_of = finder.matches_of_batches(
            group, first.file_columns, first.rows_per_batch(group, first.file_columns)
        )
        all_matches: list[KeyMatches] = []

        def keep(stored: pa.RecordBatch) -> Booleans:
            matches = matches_of(stored)
            all_matches.append(matches)
            kept = selector.among(stored)
            kept[merger.superseded(matches)] = False
            if merger.merges_rows:
                kept[matches.rows] = True
            return kept

        for stored, positions in kept_rows(first, view, group, keep):
            yield MatchedRows(matches=joined(all_matches).among(positions), rows=stored, view=view)

    def _rows_in_parts(self, scan: LogScan, base: OpenBaseFile | None) -> Iterator[pa.RecordBatch]:
        """The rows if the logs are larger than memory: those that logs add, then the others of the base file."""
        sink = ReplacedRows(self._read.request)
        yield from MergeInParts(replace(self._read, use_threads=False), scan, base).merge(sink)
        if base is not None:
            yield from self._rows_without(base, sink.positions)

    def _rows_without(self, base: OpenBaseFile, deleted: Positions) -> Iterator[pa.RecordBatch]:
        wanted = base.view(self._read.request.needed)
        for group in wanted.matching_row_groups(self._read.request):
            start = int(base.row_group_starts[group])
            for stored in wanted.stored_batches(group):
                low, high = np.searchsorted(deleted, [start, start + stored.num_rows])
                yield from wanted.passing(stored, self._read.request, without=deleted[low:high] - start)
                start += stored.num_rows


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


def _matches_alone(finder: KeyMatchFinder, group: int) -> Iterator[MatchedRows]:
    """The matches of a row group whose rows cannot pass the filter, so that its log records count as matched."""
    return (MatchedRows(matches=matches) for matches in finder.iter_matches(group))
