"""Reads small file slices of one table several at a time, as if they were one.

What a step costs besides the rows, such as a call of Arrow or NumPy, would be most of the time for each of them alone.
Base rows and log records of all slices are concatenated; the number of the slice makes record keys distinct, since
equal keys of different file groups have nothing to do with one another.
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
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFileColumns, WantedRows, require_meta_columns
from hudi_bridge.readers.base_formats.small_parquet import SmallParquetFile
from hudi_bridge.readers.block_decoder import BlockDecoder, ToldPositions, bytes_of_row, bytes_when_decoded, runs
from hudi_bridge.readers.key_matches import matched_columns
from hudi_bridge.readers.log_scan import read_live_blocks
from hudi_bridge.readers.merging import MatchedRows, RequestedRows, merge
from hudi_bridge.readers.realtime_compacted import slice_reader
from hudi_bridge.readers.request import RowRequest, SplitRead, log_memory_bytes, rule_of
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit

MOST_TOGETHER = 32
_MOST_FILE_BYTES = 1 << 20
"""The size of a small base file, and of small logs of a slice."""
_MOST_BYTES = 1 << 22
"""The bytes of base rows and log records that are merged at once, about."""
_BATCH_BYTES = 1 << 17
"""The bytes of a batch that is not joined with the next one: a copy of larger ones costs more than it gains."""
_FAULTS = (HudiReadError, pa.ArrowException)
"""Faults of the files of one of the slices. Each slice is then read alone, so that the error names the file."""

_PARQUET = ".parquet"
_LOG = logging.getLogger(__name__)


class _NotMergedTogetherError(Exception):
    """Slices have to be read alone: their record positions do not fit, or a base file cannot be decoded at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallSlices:
    """Small file slices of one plan that are read together."""

    slices: tuple[RealtimeFileSplit, ...]

    @property
    def context(self) -> ReadContext:
        """What all slices share."""
        return self.slices[0].context


def are_read_together(request: RowRequest, context: ReadContext) -> bool:
    """Whether a request may be answered for several small slices at a time: one for all rows, or those of some keys."""
    rule = context.merge_rule
    if request.row_filter is not None or context.commit_times is not None:
        return False
    return rule is None or rule.payload is None


def is_small(split: RealtimeFileSplit) -> bool:
    """Whether a slice may be read together with others; if its base file decompresses to much, it is read alone."""
    if split.source_path is not None:
        return False
    if split.base_path is not None and not (split.base_path.endswith(_PARQUET) and split.base_size_bytes):
        return False
    return max(split.base_size_bytes, split.log_size_bytes) <= _MOST_FILE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenSlice:
    """A slice with what was read of it."""

    split: RealtimeFileSplit
    base: SmallParquetFile | None
    blocks: tuple[LogBlock, ...]
    told: ToldPositions
    log_bytes: int

    @property
    def base_rows(self) -> int:
        return 0 if self.base is None else self.base.num_rows

    @property
    def is_by_position(self) -> bool | None:
        """Whether the records of all blocks seem to have positions in the base file; None without records."""
        return self.told.are_complete if self.blocks else None

    @property
    def size_bytes(self) -> int:
        return self.log_bytes + (0 if self.base is None else self.base.size_bytes)

    def is_like(self, other: "_OpenSlice") -> bool:
        """Whether the base files have the same columns, and both slices the same partition values."""
        if self.split.path_values != other.split.path_values:
            return False
        if self.base is None or other.base is None:
            return self.base is other.base
        # Columns with ids mean what they meant as of the instant of the file.
        has_ids = self.split.context.schema_history is not None
        if has_ids and self.split.base_instant_time != other.split.base_instant_time:
            return False
        return self.base.arrow_schema.equals(other.base.arrow_schema)


class SmallSlicesReader:
    """Reads small slices together, or one of them in the ordinary way where that fails.

    Holds a few megabytes of rows in memory. ``batches`` can be called again.
    """

    def __init__(self, read: SplitRead[SmallSlices]) -> None:
        context, request = read.split.context, read.request
        self._read = read
        self._context = context
        self._log_memory_bytes = log_memory_bytes(context, read.at_once)
        keys = () if request.record_keys is None else context.key_columns
        self._columns = tuple(dict.fromkeys((*request.needed, *keys)))
        self._row_bytes = bytes_of_row(pa.schema([context.schema.field(name) for name in self._columns]))
        self.schema = pa.schema([context.schema.field(name) for name in request.columns])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The merged rows, in no particular order."""
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
        """The slice with its files read; None if it has to be read alone."""
        try:
            base = None if split.base_path is None else SmallParquetFile(self._read.storage, split, split.base_path)
            if base is not None:
                require_meta_columns(base, split, ())
            has_logs = self._context.merge_rule is not None and split.log_paths
            blocks = read_live_blocks(self._read.storage, split).blocks if has_logs else ()
        except (*_FAULTS, *PARQUET_ERRORS) as error:
            _LOG.debug("%s/%s is read alone: %r", split.partition_path, split.file_id, error)
            return None
        told = ToldPositions(split, blocks, 0 if base is None else base.num_rows)
        log_bytes = bytes_when_decoded(blocks, self._row_bytes, self._log_memory_bytes)
        opened = _OpenSlice(split=split, base=base, blocks=blocks, told=told, log_bytes=log_bytes)
        is_large = opened.base_rows > ROWS_PER_BATCH or opened.size_bytes > _MOST_BYTES
        is_large = is_large or not (base is None or base.is_bounded)
        return None if is_large or opened.log_bytes > self._log_memory_bytes else opened

    def _rows_or_alone(self, slices: Sequence[_OpenSlice]) -> Iterator[pa.RecordBatch]:
        if not slices:
            return
        try:
            rows = list(self._rows(slices))
        except (*_FAULTS, _NotMergedTogetherError) as error:
            names = ", ".join(f"{piece.split.partition_path}/{piece.split.file_id}" for piece in slices)
            _LOG.debug("%s are read one by one: %r", names, error)
            for piece in slices:
                yield from self._alone(piece.split)
            return
        yield from rows

    def _alone(self, split: RealtimeFileSplit) -> Iterator[pa.RecordBatch]:
        return slice_reader(self._read.of_slice(split)).batches()

    def _rows(self, slices: Sequence[_OpenSlice]) -> Iterator[pa.RecordBatch]:
        request, base = self._read.request, slices[0].base
        rule = self._context.merge_rule
        sink = RequestedRows(request, request.of_chosen_rows())
        if rule is None or not any(piece.blocks for piece in slices):
            if base is not None:
                view, selector = base.view(self._columns), WantedRows(base, request)
                for stored in _stored(slices, view.file_columns):
                    without = np.flatnonzero(~selector.among(stored))
                    yield from view.passing(stored, request.of_chosen_rows(), without=without)
            return
        merging = _Merging(slices, rule.columns_to_read(self._columns, self._context.schema), request.record_keys)
        yield from merge(merging.rows(request), merging.merger, sink)


class _Merging:
    """The merge of some slices whose base rows are concatenated, of all records or those of ``wanted_keys``."""

    def __init__(self, slices: Sequence[_OpenSlice], columns: tuple[str, ...], wanted_keys: "Column | None") -> None:
        split = slices[0].split
        self._slices = slices
        self._columns = columns
        self._rule = rule_of(split)
        self._wanted_keys = wanted_keys
        self._context = split.context
        self._decoder = BlockDecoder(split, columns)
        self._row_starts = list(accumulate((piece.base_rows for piece in slices), initial=0))
        self.is_by_position = any(piece.is_by_position for piece in slices)
        records = self._log_records()
        self.merger = FileSliceMerger(records, self._rule, self._context.defaults)
        if self.is_by_position and records.base_positions is None:
            # Where a base file has several rows of one key, it matters how they are matched.
            raise _NotMergedTogetherError("positions that do not fit")
        self.matched_columns = matched_columns(split, by_position=self.is_by_position)

    def rows(self, request: RowRequest) -> Iterator[MatchedRows]:
        """The base rows that a request asks for, with their matches."""
        base = self._slices[0].base
        if base is None or not any(piece.base_rows for piece in self._slices):
            return
        view, selector = base.view(self._columns), WantedRows(base, request)
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
            of_part = matches.between(start, start + part.num_rows)
            start += part.num_rows
            if request.record_keys is not None:
                # Log records have wanted keys, and so have their base rows.
                positions = np.flatnonzero(selector.among(part))
                part, of_part = part.take(pa.array(positions, pa.int64())), of_part.among(positions)
            yield MatchedRows(matches=of_part, rows=part, view=view)

    def matches(self, rows: pa.RecordBatch) -> KeyMatches:
        """The matches of all base rows, with ``matched_columns``."""
        fields = self._rule.ordering_fields if self._rule.orders_base else ()
        ordering = [ordering_values(name, rows) for name in fields]
        if self.is_by_position:
            return self.merger.match_positions(0, rows.num_rows, ordering)
        numbers = np.repeat(np.arange(len(self._slices)), np.diff(self._row_starts))
        return self.merger.match(self._distinct(record_keys(rows, self._context), numbers), ordering)

    def check(self, matches: KeyMatches, view: BaseFileColumns, stored: pa.RecordBatch) -> None:
        """Verify matches by position by record key; ``stored`` are all base rows with the columns of the view.

        Raises:
            _NotMergedTogetherError: a log record has a position that is that of another key.
        """
        chosen = stored.select(list(view.file_columns)).take(pa.array(matches.rows, pa.int64()))
        numbers = np.searchsorted(self._row_starts, matches.rows, side="right") - 1
        keys = self._distinct(record_keys(view.evolve(chosen), self._context), numbers)
        if not keys.equals(self.merger.log_records.keys.take(pa.array(matches.records, pa.int64()))):
            raise _NotMergedTogetherError("positions of other record keys")

    def _log_records(self) -> LogRecordMap:
        decoded: list[LogRecords] = []
        of_slices = [runs(deque(piece.blocks), self._decoder.likeness) for piece in self._slices]
        # The first runs of blocks of all slices, then the second ones: in each slice, blocks keep their order.
        for of_all in zip_longest(*of_slices):
            alike: dict[Hashable, list[tuple[int, LogBlock]]] = {}
            for number, run in enumerate(of_all):
                if run is not None:
                    blocks = alike.setdefault(self._decoder.likeness(run[0]) or number, [])
                    blocks += ((number, block) for block in run)
            decoded += [self._decoded(*zip(*blocks, strict=True)) for blocks in alike.values()]
        defaults = self._context.defaults
        return build_record_map(decoded, self._rule, self._decoder.schema, defaults, by_position=self.is_by_position)

    def _decoded(self, numbers: Sequence[int], blocks: Sequence[LogBlock]) -> LogRecords:
        """The records of alike blocks, each of the slice with its number."""
        if self._decoder.likeness(blocks[0]) is None:
            (block,) = blocks
            records = self._decoder.decode(block)
            counts = [len(records.keys)]
        else:
            records, counts = self._decoder.together(blocks)
        told = list(map(self._positions, numbers, blocks, counts))
        found = replace(
            records,
            keys=self._distinct(records.keys, np.repeat(np.array(numbers), counts)),
            base_positions=all_positions(told) if self.is_by_position else _known_positions(told, counts),
        )
        if self._wanted_keys is None:
            return found
        return selected(found, as_booleans(pc.is_in(records.keys, value_set=self._wanted_keys)))

    def _positions(self, number: int, block: LogBlock, records: int) -> Positions | None:
        piece = self._slices[number]
        positions = piece.told.positions(block, records)
        return None if positions is None else positions + self._row_starts[number]

    def _distinct(self, keys: Column, numbers: Positions) -> Column:
        """The keys, each with the number of its slice."""
        if len(self._slices) == 1:
            return keys
        prefixes = pa.array([f"{number}/" for number in range(len(self._slices))])
        of_keys: Column = prefixes.take(pa.array(numbers, pa.int64()))
        return pc.binary_join_element_wise(of_keys, keys, "")  # type: ignore[call-overload,no-any-return]


def _known_positions(parts: Sequence[Positions | None], counts: Sequence[int]) -> Positions | None:
    """The positions of all parts, one after another, -1 where they are not known; None if none are."""
    if all(part is None for part in parts):
        return None
    return np.concatenate(
        [np.full(count, -1) if part is None else part for part, count in zip(parts, counts, strict=True)]
    )


def _fits(opened: _OpenSlice, waiting: Sequence[_OpenSlice]) -> bool:
    """Whether a slice can be read with those that wait."""
    together = (*waiting, opened)
    if sum(piece.size_bytes for piece in together) > _MOST_BYTES:
        return False
    if len({piece.is_by_position for piece in together} - {None}) > 1:
        return False
    return sum(piece.base_rows for piece in together) <= ROWS_PER_BATCH and together[0].is_like(opened)


def _stored(slices: Sequence[_OpenSlice], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The base rows of all slices with columns of the files; batches that would be very small are one."""
    names = tuple(dict.fromkeys(columns))
    found: list[pa.RecordBatch] = []
    for piece in slices:
        try:
            found += piece.base.rows(names) if piece.base is not None else ()
        except PARQUET_ERRORS as error:
            raise _NotMergedTogetherError(f"{piece.split.base_path} cannot be decoded") from error
        if sum(batch.nbytes for batch in found) >= _BATCH_BYTES:
            yield from _concatenated(found)
            found = []
    yield from _concatenated(found)


def _concatenated(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return batches if len(batches) <= 1 else [pa.concat_batches(batches)]  # type: ignore[attr-defined]


def small_groups(sizes: int, cores: int, *, are_held: bool = False) -> Iterator[int]:
    """How many of so many small slices to read together, one time after another.

    Few at first, so that rows come, unless all rows ``are_held`` before one is given out.
    """
    most = min(MOST_TOGETHER, max(1, -(-sizes // (cores if are_held else 2 * cores))))
    doubled = accumulate(repeat(2), lambda a, b: a * b, initial=1)
    ramp = repeat(most) if are_held else (size for same in doubled for size in repeat(same, cores))
    while sizes > 0:
        size = min(sizes, most, next(ramp))
        yield size
        sizes -= size
