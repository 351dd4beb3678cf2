"""Merges a file slice one part of the record keys at a time, for logs that are larger than memory.

Log records, and the base rows that may match them, are written to temporary files in parts by their keys. So each file
of the slice is decoded once, whatever the number of parts.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pyarrow as pa

from hudi_bridge.caching import cached_property
from hudi_bridge.merge.arrays import Positions
from hudi_bridge.merge.columnar import FileSliceMerger, KeyMatches
from hudi_bridge.merge.log_records import key_hashes
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFileColumns, OpenBaseFile
from hudi_bridge.readers.key_matches import KeyMatchFinder, MatchedBatches, matched_columns
from hudi_bridge.readers.log_scan import LogScan
from hudi_bridge.readers.request import SliceRead
from hudi_bridge.readers.schedule import begun
from hudi_bridge.readers.spill import PartsOnDisk
from hudi_bridge.readers.split_columns import record_keys

_LEAST_LOG_BYTES_OF_THREAD = 1 << 20
"""Smaller logs are decoded before a thread has done anything."""
_MATCHING_THREADS = 2
_BATCHES_AT_ONCE = 16
_POSITION = "the position in the base file"


class MergeInParts:
    """The rows that the logs of a split add, and the positions of the base rows that they replace or delete.

    ``base`` is the base file of the split, if any. Both can be read again, in any order. If the read uses
    threads, keys of the base file are read beside the logs, and looked up by two threads.
    """

    def __init__(
        self,
        read: SliceRead,
        log_scan: LogScan,
        base: OpenBaseFile | None,
    ) -> None:
        self._read = read
        self._log_scan = log_scan
        self._base = base
        self._deleted_positions: Positions | None = None

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows merged from a base row and a log record, and the log records without a base row."""
        positions: list[Positions] = []
        for part in range(self._log_scan.parts):
            with self._keys_begun() as keys:
                merger = self._merger(part)
                if self._base is not None:
                    yield from self._merged_rows(self._base, part, merger, positions, keys)
            yield from log_rows(merger, self._read.columns)
        self._deleted_positions = _ascending(positions)

    def _keys_begun(self) -> AbstractContextManager[Iterator[pa.RecordBatch] | None]:
        """A context in which a thread reads what is matched of the base file, beside the logs; None if it does not."""
        scan, base = self._log_scan, self._base
        is_worth_it = self._read.use_threads and self._read.split.log_size_bytes >= _LEAST_LOG_BYTES_OF_THREAD
        if base is None or not is_worth_it or scan.parts > 1 or not scan.needs_keys_alone:
            return nullcontext()
        return begun(_in_large_batches(base, base.view(matched_columns(self._read.split))))

    @property
    def deleted_positions(self) -> Positions:
        """The positions in the base file, ascending, of the rows that the logs replace or delete.

        Known once ``rows`` is exhausted; otherwise, the keys of the base file are read to find them.
        """
        if self._deleted_positions is None:
            positions: list[Positions] = []
            if self._base is not None:
                for part in range(self._log_scan.parts):
                    self._match_keys(self._base, part, self._merger(part), positions)
            self._deleted_positions = _ascending(positions)
        return self._deleted_positions

    def _merger(self, part: int) -> FileSliceMerger:
        threads = _MATCHING_THREADS if self._read.use_threads else 1
        records = self._log_scan.records_of_part(part)
        return FileSliceMerger(records, self._read.rule, self._read.context.defaults, threads)

    def _merged_rows(
        self,
        base: OpenBaseFile,
        part: int,
        merger: FileSliceMerger,
        positions: list[Positions],
        keys: Iterator[pa.RecordBatch] | None,
    ) -> Iterator[pa.RecordBatch]:
        if not merger.merges_rows:
            self._match_keys(base, part, merger, positions, keys)
            return
        finder = KeyMatchFinder(base, merger)
        if self._log_scan.parts > 1:
            for rows, matches in self._matched_candidates(part, finder, merger, positions):
                yield merger.merged_rows(rows.select(list(self._read.columns)), matches)
            return
        wanted = base.view(self._read.columns)
        batches = MatchedBatches(base, wanted)
        for group in base.row_groups:
            start = int(base.row_group_starts[group])
            for stored, matches in batches.batches(group, batches.others(group), finder):
                positions.append(merger.superseded(matches) + start)
                start += matches.base_rows
                yield from merged_rows(wanted, stored, matches, merger)

    def _match_keys(
        self,
        base: OpenBaseFile,
        part: int,
        merger: FileSliceMerger,
        positions: list[Positions],
        keys: Iterator[pa.RecordBatch] | None = None,
    ) -> None:
        finder = KeyMatchFinder(base, merger)
        if self._log_scan.parts > 1:
            deque(self._matched_candidates(part, finder, merger, positions), 0)
            return
        for start, matches in finder.iter_matches_of_file(keys):
            positions.append(merger.superseded(matches) + start)

    def _matched_candidates(
        self, part: int, finder: KeyMatchFinder, merger: FileSliceMerger, positions: list[Positions]
    ) -> Iterator[tuple[pa.RecordBatch, KeyMatches]]:
        """The base rows of a part that match log records, with the matches; ``positions`` gets the superseded ones."""
        assert self._candidates is not None
        found: list[Positions] = []
        for stored in self._candidates.of_part(part):
            # By place: a column of the table may have any name.
            in_file = stored.column(stored.num_columns - 1).to_numpy()
            rows = stored.select(list(range(stored.num_columns - 1)))
            matches = finder.match_candidates(rows, in_file)
            found.append(in_file)
            positions.append(in_file[merger.superseded(matches)])
            if len(matches.rows):
                matched = rows.take(pa.array(matches.rows, pa.int64()))
                yield matched, matches.among(matches.rows)
        finder.require_all(found)

    @cached_property
    def _candidates(self) -> PartsOnDisk | None:
        """The base rows that may match log records, in the parts of these; None without a base file.

        The columns that are matched, and all that are read if rows may be merged, with the positions in the file. The
        base file is read once for all parts.
        """
        if self._base is None:
            return None
        context, records = self._read.split.context, self._log_scan.on_disk
        columns = matched_columns(self._read.split)
        if self._read.rule.merges_fields or records.is_partial:
            columns = tuple(dict.fromkeys((*columns, *self._read.columns)))
        found = PartsOnDisk(self._log_scan.parts)
        start = 0
        view = self._base.view(columns)
        for group in self._base.row_groups:
            for rows in view.batches(group):
                hashes = key_hashes(record_keys(rows, context))
                chosen = np.flatnonzero(records.may_hold(hashes))
                candidates = rows.take(pa.array(chosen, pa.int64()))
                position = pa.array(chosen + start, pa.int64())
                found.add(candidates.append_column(_POSITION, position), hashes[chosen])
                start += rows.num_rows
        return found


def _in_large_batches(base: OpenBaseFile, columns: BaseFileColumns) -> Iterator[pa.RecordBatch]:
    """The rows of all row groups, for a thread beside others: each batch waits for Python's lock several times."""
    for group in base.row_groups:
        yield from columns.batches(group, _BATCHES_AT_ONCE * columns.rows_per_batch(group, columns.file_columns))


def _ascending(positions: list[Positions]) -> Positions:
    found = np.concatenate([np.empty(0, dtype=np.int64), *positions])
    # Those of one part are in order.
    return found if (np.diff(found) > 0).all() else np.sort(found)


def merged_rows(
    wanted: BaseFileColumns, stored: pa.RecordBatch, matches: KeyMatches, merger: FileSliceMerger
) -> Iterator[pa.RecordBatch]:
    """The rows merged from a base row and a log record, as one batch or none."""
    if merger.merges_rows and len(matches.rows):
        base_rows = wanted.evolve(stored.take(pa.array(matches.rows, pa.int64())))
        yield merger.merged_rows(base_rows, matches)


def log_rows(merger: FileSliceMerger, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The log records that are rows without a base row."""
    yield from merger.remaining_log_rows().select(list(columns)).to_batches(ROWS_PER_BATCH)
