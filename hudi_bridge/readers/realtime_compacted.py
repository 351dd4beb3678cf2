"""Reads one file slice of a snapshot: its base file, merged with the records of its logs if there are any.

Keys of row groups that the filter rules out may still have to be read, because their rows match log records.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from hudi_bridge.common.threads import prefetch, prefetch_one
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.arrays import Booleans, Positions
from hudi_bridge.merge.columnar import FileSliceMerger, KeyMatches, joined
from hudi_bridge.readers.base_file import (
    BaseFileColumns,
    OpenBaseFile,
    ReadExtent,
    RowGroups,
    RowSelector,
    extent,
    groups_with_logs,
    groups_without_logs,
    selected_rows,
)
from hudi_bridge.readers.base_formats.opening import open_base_file
from hudi_bridge.readers.column_ranges import RangesInLogs
from hudi_bridge.readers.key_matches import KeyMatchFinder, MatchedBatches, matched_columns
from hudi_bridge.readers.log_scan import LateLogRows, LogScan
from hudi_bridge.readers.lsm_slices import LsmSliceReader
from hudi_bridge.readers.merging import MatchedRows, MergeInParts, ReplacedRows, RequestedRows, merge
from hudi_bridge.readers.request import SliceRead


class MergingReader:
    """Reads one split with its log files merged in.

    Holds the log records and a few batches of the base file in memory. Log records that exceed the memory for logs are
    merged in parts. ``batches`` can be called again.
    """

    def __init__(self, read: SliceRead) -> None:
        self._read = read
        self._selects = read.is_selective
        self.schema = read.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the merged rows that pass the filter, in no particular order."""
        if self._read.split.base_path is None:
            yield from self._rows(None)
            return
        with _open(self._read, self._read.split.base_path, keep_footer=self._selects) as base:
            yield from self._rows(base)

    def extent(self) -> ReadExtent:
        """How much of the base file a read takes, by its footer.

        The logs are not read, so the extent includes all row groups that partial updates might need.
        """
        if self._read.split.base_path is None:
            return ReadExtent()
        with _open(self._read, self._read.split.base_path, keep_footer=self._selects) as base:
            view, selector = base.view(self._read.columns), self._selector(base)
            groups = self._groups(base, view, selector, merges_fields=self._read.rule.merges_fields)
            matched = base.view(matched_columns(self._read.split)).file_columns
            selector_columns = () if selector is None else base.view(selector.columns).file_columns
            return extent(base, groups, (*selector_columns, *matched, *view.file_columns), matched)

    def _selector(self, base: OpenBaseFile) -> RowSelector | None:
        return RowSelector(base, self._read.request) if self._selects else None

    def _groups(
        self, base: OpenBaseFile, view: BaseFileColumns, selector: RowSelector | None, *, merges_fields: bool
    ) -> RowGroups:
        return groups_with_logs(base, view, self._read.request, selector, merges_fields=merges_fields)

    def _rows(self, base: OpenBaseFile | None) -> Iterator[pa.RecordBatch]:
        scan = LogScan(self._read, base_rows=0 if base is None else base.num_rows)
        if scan.parts > 1:
            yield from self._rows_in_parts(scan, base)
        elif base is None:
            merger, late_rows = self._merger(scan)
            yield from merge((), merger, RequestedRows(self._read.request, self._read.request, late_rows))
        elif (selector := self._selector(base)) is not None:
            merger, late_rows = self._merger(scan)
            # The source has applied the filter to the base rows that are not superseded.
            sink = RequestedRows(self._read.request, self._read.request.of_chosen_rows(), late_rows)
            yield from merge(self._selected_rows(base, selector, merger), merger, sink)
        else:
            yield from self._all_rows(scan, base)

    def _merger(self, scan: LogScan) -> tuple[FileSliceMerger, LateLogRows | None]:
        request = self._read.request
        learns_ranges = request.record_keys is None and request.filter_columns
        ranges = RangesInLogs(self._read.split, request.filter_columns) if learns_ranges else None
        records, late_rows = scan.records_and_late_rows(ranges)
        return FileSliceMerger(records, self._read.rule, self._read.context.defaults), late_rows

    def _all_rows(self, scan: LogScan, base: OpenBaseFile) -> Iterator[pa.RecordBatch]:
        """Merges row groups with all columns."""
        request, use_threads = self._read.request, self._read.use_threads
        view = base.view(self._read.columns, materialized=request.keeps_batches)
        matching = view.matching_row_groups(request)
        view.expect(matching)
        batches = MatchedBatches(base, view, by_position=scan.is_by_position)
        first_batches = batches.others(0)
        # The base file is decoded in parallel with the logs at first, then with the merge. Columns that were fetched
        # from a store stay in memory until their last batch is taken, so only one batch is decoded ahead.
        limit = 1 if base.is_fetched else None
        is_prefetched = use_threads and 0 in matching
        with (
            prefetch(first_batches, limit, materialized=request.keeps_batches)
            if is_prefetched
            else nullcontext(first_batches) as first_group
        ):
            merger, late_rows = self._merger(scan)
            groups = self._groups(base, view, None, merges_fields=merger.merges_rows)
            read = partial(self._matched_rows, base, view, batches, groups, first_group, merger)
            sink = RequestedRows(request, request, late_rows)
            yield from merge(prefetch_one(read) if use_threads else read(), merger, sink)

    def _matched_rows(
        self,
        base: OpenBaseFile,
        view: BaseFileColumns,
        batches: MatchedBatches,
        groups: RowGroups,
        first_group: Iterator[pa.RecordBatch],
        merger: FileSliceMerger,
    ) -> Iterator[MatchedRows]:
        """Yields the rows of row groups that may pass the filter, and only the matches of row
        groups whose keys matter.
        """
        finder = KeyMatchFinder(base, merger)
        for group in base.row_groups:
            if group in groups.rows:
                others = batches.others(group) if group else first_group
                for stored, matches in batches.batches(group, others, finder):
                    yield MatchedRows(matches=matches, rows=stored, view=view)
            elif group in groups.keys:
                yield from _only_matches(finder, group)

    def _selected_rows(
        self, base: OpenBaseFile, selector: RowSelector, merger: FileSliceMerger
    ) -> Iterator[MatchedRows]:
        """Yields the base rows for a selective request; other columns are read only where a row is selected."""
        context = self._read.context
        finder = KeyMatchFinder(base, merger)
        # Key columns that are read anyway serve to verify positions in the logs.
        keys = context.key_columns if set(context.key_columns).issubset(self._read.columns) else ()
        selector_view = base.view(dict.fromkeys((*selector.columns, *keys, *finder.columns)))
        view = base.view(self._read.columns)
        groups = self._groups(base, view, selector, merges_fields=merger.merges_rows)
        for group in base.row_groups:
            if group in groups.rows:
                yield from self._selected_in(group, selector_view, view, selector, finder, merger)
            elif group in groups.keys:
                yield from _only_matches(finder, group)

    def _selected_in(
        self,
        group: int,
        selector_view: BaseFileColumns,
        view: BaseFileColumns,
        selector: RowSelector,
        finder: KeyMatchFinder,
        merger: FileSliceMerger,
    ) -> Iterator[MatchedRows]:
        matches_of = finder.matches_of_batches(
            group, selector_view.file_columns, selector_view.rows_per_batch(group, selector_view.file_columns)
        )
        all_matches: list[KeyMatches] = []

        def select(stored: pa.RecordBatch) -> Booleans:
            matches = matches_of(stored)
            all_matches.append(matches)
            selected = selector.mask(stored)
            selected[merger.superseded(matches)] = False
            if merger.merges_rows:
                selected[matches.rows] = True
            return selected

        for stored, positions in selected_rows(selector_view, view, group, select):
            yield MatchedRows(matches=joined(all_matches).among(positions), rows=stored, view=view)

    def _rows_in_parts(self, scan: LogScan, base: OpenBaseFile | None) -> Iterator[pa.RecordBatch]:
        """Merges logs that are larger than memory: first the rows from the logs, then the other
        rows of the base file.
        """
        sink = ReplacedRows(self._read.request)
        yield from MergeInParts(replace(self._read, use_threads=False), scan, base).merge(sink)
        if base is not None:
            yield from self._rows_without(base, sink.positions)

    def _rows_without(self, base: OpenBaseFile, replaced: Positions) -> Iterator[pa.RecordBatch]:
        view = base.view(self._read.request.needed)
        for group in view.matching_row_groups(self._read.request):
            start = int(base.row_group_starts[group])
            for stored in view.stored_batches(group):
                low, high = np.searchsorted(replaced, [start, start + stored.num_rows])
                yield from view.passing(stored, self._read.request, without=replaced[low:high] - start)
                start += stored.num_rows


class BaseFileReader:
    """Reads the base file of one split without logs; the filter may skip row groups."""

    def __init__(self, read: SliceRead, base_path: str) -> None:
        self._read = read
        self._base_path = base_path
        self._selects = read.is_selective
        self.schema = read.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows that pass the filter, in the order of the base file."""
        with _open(self._read, self._base_path, keep_footer=self._selects) as base:
            view = self._view(base)
            selector = self._selector(base)
            groups = groups_without_logs(view, self._read.request, selector)
            if selector is not None:
                yield from self._selected(base, view, groups, selector)
                return
            read = partial(self._stored_batches, view, groups)
            for stored in prefetch_one(read) if self._read.use_threads else read():
                yield from view.passing(stored, self._read.request)

    def extent(self) -> ReadExtent:
        """How much of the base file a read takes, by its footer."""
        with _open(self._read, self._base_path, keep_footer=self._selects) as base:
            view, selector = self._view(base), self._selector(base)
            groups = groups_without_logs(view, self._read.request, selector)
            selector_columns = () if selector is None else base.view(selector.columns).file_columns
            return extent(base, groups, (*selector_columns, *view.names_to_read(view.file_columns)))

    def _view(self, base: OpenBaseFile) -> BaseFileColumns:
        request = self._read.request
        return base.view(request.needed, materialized=request.keeps_batches, variant_paths=request.variant_paths)

    def _selector(self, base: OpenBaseFile) -> RowSelector | None:
        return RowSelector(base, self._read.request) if self._selects else None

    def _stored_batches(self, view: BaseFileColumns, groups: RowGroups) -> Iterator[pa.RecordBatch]:
        view.expect(sorted(groups.rows))
        for group in sorted(groups.rows):
            yield from view.stored_batches(group)

    def _selected(
        self, base: OpenBaseFile, view: BaseFileColumns, groups: RowGroups, selector: RowSelector
    ) -> Iterator[pa.RecordBatch]:
        selector_view = base.view(selector.columns)
        request = self._read.request.of_chosen_rows()
        for group in sorted(groups.rows):
            for stored, _ in selected_rows(selector_view, view, group, selector.mask):
                yield from view.passing(stored, request)


def slice_reader(read: SliceRead) -> MergingReader | BaseFileReader | LsmSliceReader:
    """The reader of a file slice, for the rows that the request and the split ask for.

    Raises:
        QueryError: the split has no file to read.
    """
    read = read.with_conditions()
    if read.has_logs:
        if not read.context.is_lsm_tree:
            return MergingReader(read)
        base_path = read.split.base_path
        return LsmSliceReader(read, None if base_path is None else BaseFileReader(read, base_path))
    if read.split.base_path is None:
        raise QueryError("split", "neither a base file nor log files to merge", "a split of a planner")
    return BaseFileReader(read, read.split.base_path)


def _open(read: SliceRead, path: str, *, keep_footer: bool) -> OpenBaseFile:
    """Opens the base file; the footer of a filtered read is cached."""
    keep_footer = keep_footer or read.request.row_filter is not None
    return open_base_file(read.storage, read.split, path, use_threads=read.use_threads, keep_footer=keep_footer)


def _only_matches(finder: KeyMatchFinder, group: int) -> Iterator[MatchedRows]:
    """The matches of a row group whose rows cannot pass the filter, so that their log records count as matched."""
    return (MatchedRows(matches=matches) for matches in finder.iter_matches(group))
