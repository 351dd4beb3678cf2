"""Reads several small file slices of one table as if they were one.

The calls of Arrow and NumPy would take longer than the rows of a single one. Base rows and log records of all slices
are concatenated. Equal keys of different file groups are unrelated, so the number of the slice is made a part of each
key.
"""

import logging
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, repeat, zip_longest

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import HudiReadError
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.parquet import PARQUET_ERRORS
from hudi_bridge.merge.arrays import Column, Positions, all_positions, as_booleans, ordering_values
from hudi_bridge.merge.columnar import FileSliceMerger, KeyMatches
from hudi_bridge.merge.record_map import LogRecordMap, LogRecords, build_record_map, selected
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFileColumns, RowSelector, require_meta_columns
from hudi_bridge.readers.base_formats.small_parquet import SmallParquetFile
from hudi_bridge.readers.block_decoder import (
    BlockDecoder,
    RecordPositions,
    adjacent_groups,
    bytes_of_row,
    bytes_when_decoded,
)
from hudi_bridge.readers.key_matches import matched_columns
from hudi_bridge.readers.log_scan import read_live_blocks
from hudi_bridge.readers.merging import MatchedRows, RequestedRows, merge
from hudi_bridge.readers.realtime_compacted import slice_reader
from hudi_bridge.readers.request import RowRequest, SplitRead, log_memory_bytes, rule_of
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit

MAX_SLICES = 32
_MAX_FILE_BYTES = 1 << 20
"""The largest base file, and the largest logs, of a small slice."""
_MAX_BYTES = 1 << 22
"""About the most bytes of base rows and log records that are merged together."""
_BATCH_BYTES = 1 << 17
"""Batches of this size are not joined with the next one: the copy would cost more than it saves."""
_FAULTS = (HudiReadError, pa.ArrowException)
"""Errors in the files of a slice. Each slice is then read alone, so that the error names the file."""

_PARQUET = ".parquet"
_LOG = logging.getLogger(__name__)


class _ReadAloneError(Exception):
    """The slices must be read alone: their record positions are not valid, or a base file cannot be decoded at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallSlices:
    """Small file slices of one plan that are read together."""

    slices: tuple[RealtimeFileSplit, ...]

    @property
    def context(self) -> ReadContext:
        """What all slices share."""
        return self.slices[0].context


def are_read_together(request: RowRequest, context: ReadContext) -> bool:
    """Whether a request may read small slices together: a request for all rows, or for the rows of some keys."""
    rule = context.merge_rule
    if request.row_filter is not None or context.commit_times is not None:
        return False
    return rule is None or rule.payload is None


def is_small(split: RealtimeFileSplit) -> bool:
    """Whether a slice may be read together with others, by the sizes of its files."""
    if split.source_path is not None or (split.context.is_lsm_tree and split.log_paths):
        return False
    if split.base_path is not None and not (split.base_path.endswith(_PARQUET) and split.base_size_bytes):
        return False
    return max(split.base_size_bytes, split.log_size_bytes) <= _MAX_FILE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenSlice:
    """A slice whose files have been read."""

    split: RealtimeFileSplit
    base: SmallParquetFile | None
    blocks: tuple[LogBlock, ...]
    record_positions: RecordPositions
    log_bytes: int

    @property
    def base_rows(self) -> int:
        return 0 if self.base is None else self.base.num_rows

    @property
    def is_by_position(self) -> bool | None:
        """Whether all log blocks store positions in the base file; None without blocks."""
        return self.record_positions.are_complete if self.blocks else None

    @property
    def size_bytes(self) -> int:
        return self.log_bytes + (0 if self.base is None else self.base.size_bytes)

    def is_like(self, other: "_OpenSlice") -> bool:
        """Whether both base files have the same columns, and both slices the same partition values."""
        if self.split.path_values != other.split.path_values:
            return False
        if self.base is None or other.base is None:
            return self.base is other.base
        # With column ids, the schema of a file depends on its instant.
        has_ids = self.split.context.schema_history is not None
        if has_ids and self.split.base_instant_time != other.split.base_instant_time:
            return False
        return self.base.arrow_schema.equals(other.base.arrow_schema)


class SmallSlicesReader:
    """Reads small slices together; slices for which that fails are read one by one.

    Holds a few megabytes of rows in memory. ``batches`` can be called again.
    """

    def __init__(self, read: SplitRead[SmallSlices]) -> None:
        context, request = read.split.context, read.request
        self._read = read
        # A slice that is read alone after all needs its files once more.
        self._prefetched = dict(read.storage.prefetched)
        self._context = context
        self._log_memory_bytes = log_memory_bytes(context, read.at_once)
        keys = () if request.record_keys is None else context.key_columns
        self._columns = tuple(dict.fromkeys((*request.needed, *keys)))
        self._row_bytes = bytes_of_row(pa.schema([context.schema.field(name) for name in self._columns]))
        self.schema = pa.schema([context.schema.field(name) for name in request.columns])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the merged rows, in no particular order."""
        waiting: list[_OpenSlice] = []
        for split in self._read.split.slices:
            opened = self._opened(split)
            if opened is None or not _fits(opened, waiting):
                yield from self._rows_or_alone(waiting)
                waiting = []
            if opened is None:
                yield from self._alone(split)
            else:
                waiting.append(opened)
        yield from self._rows_or_alone(waiting)

    def _opened(self, split: RealtimeFileSplit) -> _OpenSlice | None:
        """The slice with its files read; None if it must be read alone."""
        try:
            base = None if split.base_path is None else SmallParquetFile(self._read.storage, split, split.base_path)
            if base is not None:
                require_meta_columns(base, split, ())
            has_logs = self._context.merge_rule is not None and split.log_paths
            blocks = read_live_blocks(self._read.storage, split).blocks if has_logs else ()
        except (*_FAULTS, *PARQUET_ERRORS) as error:
            _LOG.debug("%s/%s is read alone: %r", split.partition_path, split.file_id, error)
            return None
        record_positions = RecordPositions(split, blocks, 0 if base is None else base.num_rows)
        log_bytes = bytes_when_decoded(blocks, self._row_bytes, self._log_memory_bytes)
        opened = _OpenSlice(
            split=split, base=base, blocks=blocks, record_positions=record_positions, log_bytes=log_bytes
        )
        is_large = opened.base_rows > ROWS_PER_BATCH or opened.size_bytes > _MAX_BYTES
        is_large = is_large or not (base is None or base.is_bounded)
        return None if is_large or opened.log_bytes > self._log_memory_bytes else opened

    def _rows_or_alone(self, slices: Sequence[_OpenSlice]) -> Iterator[pa.RecordBatch]:
        if not slices:
            return
        try:
            rows = list(self._rows(slices))
        except (*_FAULTS, _ReadAloneError) as error:
            names = ", ".join(f"{opened.split.partition_path}/{opened.split.file_id}" for opened in slices)
            _LOG.debug("%s are read one by one: %r", names, error)
            for opened in slices:
                yield from self._alone(opened.split)
            return
        yield from rows

    def _alone(self, split: RealtimeFileSplit) -> Iterator[pa.RecordBatch]:
        read = self._read
        if self._prefetched:
            read = replace(read, storage=read.storage.with_prefetched(self._prefetched))
        return slice_reader(read.of_slice(split)).batches()

    def _rows(self, slices: Sequence[_OpenSlice]) -> Iterator[pa.RecordBatch]:
        request, base = self._read.request, slices[0].base
        rule = self._context.merge_rule
        sink = RequestedRows(request, request.of_chosen_rows())
        if rule is None or not any(opened.blocks for opened in slices):
            if base is not None:
                view, selector = base.view(self._columns), RowSelector(base, request)
                for stored in _stored(slices, view.file_columns):
                    without = np.flatnonzero(~selector.mask(stored))
                    yield from view.passing(stored, request.of_chosen_rows(), without=without)
            return
        merging = _Merging(slices, rule.columns_to_read(self._columns, self._context.schema), request.record_keys)
        yield from merge(merging.rows(request), merging.merger, sink)


class _Merging:
    """The merge of slices whose base rows are concatenated: of all records, or of the records with ``wanted_keys``."""

    def __init__(self, slices: Sequence[_OpenSlice], columns: tuple[str, ...], wanted_keys: "Column | None") -> None:
        split = slices[0].split
        self._slices = slices
        self._columns = columns
        self._rule = rule_of(split)
        self._wanted_keys = wanted_keys
        self._context = split.context
        self._decoder = BlockDecoder(split, columns)
        self._row_starts = list(accumulate((opened.base_rows for opened in slices), initial=0))
        self.is_by_position = any(opened.is_by_position for opened in slices)
        records = self._log_records()
        self.merger = FileSliceMerger(records, self._rule, self._context.defaults)
        if self.is_by_position and records.base_positions is None:
            # If a base file has several rows of one key, matching by key gives another result than by position.
            raise _ReadAloneError("positions that do not fit")
        self.matched_columns = matched_columns(split, by_position=self.is_by_position)

    def rows(self, request: RowRequest) -> Iterator[MatchedRows]:
        """Yields the requested base rows with their matches."""
        base = self._slices[0].base
        if base is None or not any(opened.base_rows for opened in self._slices):
            return
        view, selector = base.view(self._columns), RowSelector(base, request)
        matched, keys = base.view(self.matched_columns), base.view(self._context.key_columns)
        parts = deque(_stored(self._slices, (*matched.file_columns, *view.file_columns)))
        checks = self.is_by_position and view.has_columns_of(keys)
        names = list(dict.fromkeys((*matched.file_columns, *(keys.file_columns if checks else ()))))
        rows: pa.RecordBatch = pa.concat_batches([part.select(names) for part in parts])  # type: ignore[attr-defined]
        matches = self.matches(matched.evolve(rows))
        if checks:
            self.check(matches, keys, rows)
        start = 0
        while parts:
            part = parts.popleft()
            part_matches = matches.between(start, start + part.num_rows)
            start += part.num_rows
            if request.record_keys is not None:
                # All log records have requested keys, so no match is lost.
                positions = np.flatnonzero(selector.mask(part))
                part, part_matches = part.take(pa.array(positions, pa.int64())), part_matches.among(positions)
            yield MatchedRows(matches=part_matches, rows=part, view=view)

    def matches(self, rows: pa.RecordBatch) -> KeyMatches:
        """The matches of all base rows, given their ``matched_columns``."""
        fields = self._rule.ordering_fields if self._rule.orders_base else ()
        ordering = [ordering_values(name, rows) for name in fields]
        if self.is_by_position:
            return self.merger.match_positions(0, rows.num_rows, ordering)
        numbers = np.repeat(np.arange(len(self._slices)), np.diff(self._row_starts))
        return self.merger.match(self._distinct(record_keys(rows, self._context), numbers), ordering)

    def check(self, matches: KeyMatches, view: BaseFileColumns, stored: pa.RecordBatch) -> None:
        """Verifies matches by position against the record keys; ``stored`` are all base rows with the columns of the
        view.

        Raises:
            _ReadAloneError: a log record has the position of another key.
        """
        matched = stored.select(list(view.file_columns)).take(pa.array(matches.rows, pa.int64()))
        numbers = np.searchsorted(self._row_starts, matches.rows, side="right") - 1
        keys = self._distinct(record_keys(view.evolve(matched), self._context), numbers)
        if not keys.equals(self.merger.log_records.keys.take(pa.array(matches.records, pa.int64()))):
            raise _ReadAloneError("positions of other record keys")

    def _log_records(self) -> LogRecordMap:
        decoded: list[LogRecords] = []
        groups_of_slices = [adjacent_groups(deque(opened.blocks), self._decoder.decode_key) for opened in self._slices]
        # The first groups of all slices are decoded together, then the second ones, so that the blocks of each slice
        # keep their order.
        for groups in zip_longest(*groups_of_slices):
            blocks_by_key: dict[Hashable, list[tuple[int, LogBlock]]] = {}
            for number, group in enumerate(groups):
                if group is not None:
                    blocks = blocks_by_key.setdefault(self._decoder.decode_key(group[0]) or number, [])
                    blocks += ((number, block) for block in group)
            decoded += [self._decoded(*zip(*blocks, strict=True)) for blocks in blocks_by_key.values()]
        defaults = self._context.defaults
        return build_record_map(decoded, self._rule, self._decoder.schema, defaults, by_position=self.is_by_position)

    def _decoded(self, numbers: Sequence[int], blocks: Sequence[LogBlock]) -> LogRecords:
        """The records of blocks with one ``decode_key``; ``numbers`` are the numbers of their slices."""
        if self._decoder.decode_key(blocks[0]) is None:
            (block,) = blocks
            records = self._decoder.decode(block)
            counts = [len(records.keys)]
        else:
            records, counts = self._decoder.decode_concatenated(blocks)
        positions = list(map(self._positions, numbers, blocks, counts))
        records_of_slices = replace(
            records,
            keys=self._distinct(records.keys, np.repeat(np.array(numbers), counts)),
            base_positions=all_positions(positions) if self.is_by_position else _joined_positions(positions, counts),
        )
        if self._wanted_keys is None:
            return records_of_slices
        return selected(records_of_slices, as_booleans(pc.is_in(records.keys, value_set=self._wanted_keys)))

    def _positions(self, number: int, block: LogBlock, records: int) -> Positions | None:
        opened = self._slices[number]
        positions = opened.record_positions.positions(block, records)
        return None if positions is None else positions + self._row_starts[number]

    def _distinct(self, keys: Column, numbers: Positions) -> Column:
        """The keys, prefixed with the numbers of their slices."""
        if len(self._slices) == 1:
            return keys
        prefixes = pa.array([f"{number}/" for number in range(len(self._slices))])
        prefix_of_key: Column = prefixes.take(pa.array(numbers, pa.int64()))
        return pc.binary_join_element_wise(prefix_of_key, keys, "")  # type: ignore[call-overload,no-any-return]


def _joined_positions(parts: Sequence[Positions | None], counts: Sequence[int]) -> Positions | None:
    """The positions of all parts, with -1 for the records of a part without positions; None if no part has any."""
    if all(part is None for part in parts):
        return None
    return np.concatenate(
        [np.full(count, -1) if part is None else part for part, count in zip(parts, counts, strict=True)]
    )


def _fits(opened: _OpenSlice, waiting: Sequence[_OpenSlice]) -> bool:
    """Whether a slice can be merged with the waiting ones."""
    candidates = (*waiting, opened)
    if sum(candidate.size_bytes for candidate in candidates) > _MAX_BYTES:
        return False
    if len({candidate.is_by_position for candidate in candidates} - {None}) > 1:
        return False
    return sum(candidate.base_rows for candidate in candidates) <= ROWS_PER_BATCH and candidates[0].is_like(opened)


def _stored(slices: Sequence[_OpenSlice], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the base rows of all slices with columns of the files; very small batches are joined."""
    names = tuple(dict.fromkeys(columns))
    batches: list[pa.RecordBatch] = []
    row_bytes = 0.0
    for opened in slices:
        try:
            batches += opened.base.rows(names) if opened.base is not None else ()
        except PARQUET_ERRORS as error:
            raise _ReadAloneError(f"{opened.split.base_path} cannot be decoded") from error
        rows = sum(batch.num_rows for batch in batches)
        # Asking each batch for its size would take a fortieth of the time of the read.
        row_bytes = row_bytes or sum(batch.nbytes for batch in batches) / max(1, rows)
        if rows * row_bytes >= _BATCH_BYTES:
            yield from _concatenated(batches)
            batches = []
    yield from _concatenated(batches)


def _concatenated(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return batches if len(batches) <= 1 else [pa.concat_batches(batches)]  # type: ignore[attr-defined]


def small_groups(remaining: int, cores: int, *, materialized: bool = False) -> Iterator[int]:
    """Yields the numbers of small slices to read together, until all are covered.

    If all rows are ``materialized`` before any is returned, each core has as many groups as the others, all of about
    one size. Otherwise the first groups are small, so that rows arrive early.
    """
    if materialized:
        groups = min(remaining, cores * -(-remaining // (cores * MAX_SLICES)))
        yield from (remaining * (number + 1) // groups - remaining * number // groups for number in range(groups))
        return
    max_size = min(MAX_SLICES, max(1, -(-remaining // (2 * cores))))
    doubled = accumulate(repeat(2), lambda a, b: a * b, initial=1)
    ramp = (size for same in doubled for size in repeat(same, cores))
    while remaining > 0:
        size = min(remaining, max_size, next(ramp))
        yield size
        remaining -= size
