"""Reads the log files of a split, and folds their records into one version for each record key.

Decoding columns takes most of the time of a log. Columns that neither merging nor the filter needs are therefore
decoded late, only for records that pass the filter.

Source: ``BaseHoodieLogRecordReader`` of Hudi.
"""

import errno
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa

from hudi_bridge.common.caching import cached_property
from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.native import parse_native_log_name
from hudi_bridge.logformat.scan import LiveBlocks, ScanResult, live_blocks, scan_blocks, scan_source
from hudi_bridge.merge.arrays import Positions
from hudi_bridge.merge.record_map import LogRecordMap, LogRecords, build_record_map
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.base_file import data_file_gone
from hudi_bridge.readers.block_decoder import (
    BlockDecoder,
    Datums,
    RecordPositions,
    adjacent_groups,
    bytes_of_row,
    bytes_when_decoded,
)
from hudi_bridge.readers.column_ranges import RangesInLogs
from hudi_bridge.readers.request import SliceRead
from hudi_bridge.readers.spill import LogRecordsOnDisk
from hudi_bridge.splits.query_schema import PartsOfFile
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

_MAX_PARTS = 1024
_PARTS_IN_MEMORY = 2
"""By how much parts are smaller than the memory for logs, because they differ in size."""
_MAX_COLUMN_BYTES = (1 << 31) - 1
"""The largest column that Arrow concatenates: its offsets are signed 32-bit numbers."""
_MIN_LATE_BYTES = 1 << 20
"""In smaller logs, decoding is a small part of the time."""
_LARGE_BLOCK_BYTES = 1 << 23
"""Larger contents of plain rows in local files are decoded as they are read, in pieces: in less memory and time."""
_LARGE_FILE_BYTES = 1 << 24
"""Smaller log files are read at once."""
_LOG = logging.getLogger(__name__)


def may_be_late(blocks: Sequence[LogBlock], rule: MergeRule) -> bool:
    """Whether rows of the blocks can be decoded late: they are not merged by field, and each can
    be decoded by itself.
    """
    if rule.merges_fields:
        return False
    return all(block.kind.holds_deletes or (block.kind.has_plain_rows and not block.is_partial) for block in blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NumberedBlocks:
    blocks: Sequence[LogBlock]
    datums: Datums
    first_number: int


class LateLogRows:
    """Decodes the rows of data blocks by number, counted over all blocks; holds the blocks in memory."""

    def __init__(self, first: BlockDecoder, rest: BlockDecoder) -> None:
        """``first`` decodes the columns that merging and the filter need, ``rest`` all columns."""
        self._first = first
        self._rest = rest
        self._groups: list[_NumberedBlocks] = []
        self._records = 0
        self.number_column = "".join(first.schema.names) + "#"
        """The name of the column with the numbers; no column of the table has it."""
        self.schema = first.schema.append(pa.field(self.number_column, pa.int64()))
        """The columns of the records."""

    def decode_all(self, blocks: deque[LogBlock]) -> Iterator[LogRecords]:
        """Yields the records of data and delete blocks, with their numbers in place of the late columns.

        Blocks are removed from ``blocks`` when they are decoded.

        Raises:
            CorruptLogFileError: the content of a block does not match its header.
        """
        for group in adjacent_groups(blocks, self._first.decode_key):
            yield self._numbered(group) if group[0].is_data else self._first.decode(group[0])

    def _numbered(self, group: Sequence[LogBlock]) -> LogRecords:
        datums, counts = self._first.concatenate(group)
        records = self._first.decode_group(group, datums, counts)
        start, self._records = self._records, self._records + len(datums)
        contents = group if len(group) == 1 else tuple(_blocks_within(datums.data, group))
        self._groups.append(_NumberedBlocks(blocks=contents, datums=datums, first_number=start))
        assert records.rows is not None
        numbers = pa.array(np.arange(start, self._records))
        rows = pa.record_batch([*records.rows.columns, numbers], schema=self.schema)
        return replace(records, rows=rows)

    def rows(self, numbers: Positions) -> Iterator[pa.RecordBatch]:
        """Yields the rows with these numbers, in no particular order.

        Raises:
            CorruptLogFileError: the content of a block does not match its header.
        """
        ascending = np.sort(numbers)
        ends = np.cumsum([len(group.datums) for group in self._groups])
        parts = np.split(ascending, np.searchsorted(ascending, ends)[:-1]) if len(ends) else []
        for group, part in zip(self._groups, parts, strict=True):
            if len(part):
                yield self._rows(group, part)

    def _rows(self, group: _NumberedBlocks, numbers: Positions) -> pa.RecordBatch:
        try:
            return self._rest.rows(group.blocks[0], group.datums.at(numbers - group.first_number))
        except CorruptLogFileError:
            self._rest.find_damage(group.blocks)
            raise


def _blocks_within(data: pa.Buffer, blocks: Iterable[LogBlock]) -> Iterator[LogBlock]:
    """The blocks with their contents as slices of ``data``, their concatenation, so that only one copy is held."""
    start = 0
    for block in blocks:
        size = block.content.size
        yield replace(block, content=data.slice(start, size))
        start += size


class LogScan:
    """The log blocks of a split that count, decoded on demand.

    Holds the log files in memory until they are decoded. If they are larger than the memory for logs, they are copied
    to local disk instead.
    """

    def __init__(self, read: SliceRead, *, base_rows: int = 0) -> None:
        """Reads the log files and the headers of their blocks.

        Args:
            read: the columns and record keys to return. The columns that merging needs are decoded as well.
            base_rows: the number of rows of the base file. Without it, record positions are not used.

        Raises:
            CorruptLogFileError: a log file is damaged in a way that Hudi does not skip.
            DataFileGoneError: a log file no longer exists.
            UnsupportedTableError: a block has an unknown type.
        """
        split, rule, wanted_keys = read.split, read.rule, read.request.record_keys
        self._read = read
        self._on_disk = split.log_size_bytes > read.log_memory_bytes
        self._in_pieces = not self._on_disk and read.storage.is_local and not _is_late(read)
        live = self._live_blocks()
        blocks = live.blocks
        self.instants = live.instants
        """The instants of all blocks, as in ``LiveBlocks``."""
        self.parts = 1
        """The number of parts that are merged one at a time; each fits into the memory for logs and into arrays."""
        record_positions = RecordPositions(split, blocks, base_rows)
        self.is_by_position = record_positions.are_complete
        """Whether base rows are matched by position, unless the positions of a block turn out invalid."""
        is_merged = rule.merges_fields or any(block.is_partial for block in blocks)
        self.needs_keys_alone = not record_positions.are_complete and not is_merged
        """Whether merging certainly reads nothing but the record keys of base rows."""
        self._decoder = BlockDecoder(split, read.columns, wanted_keys, record_positions=record_positions)
        self._blocks: tuple[LogBlock, ...] | None = tuple(filter(self._decoder.is_merged, blocks))
        self._merges_all = len(self._blocks) == len(blocks)
        blocks = self._blocks
        if wanted_keys is None:
            max_bytes = max(1, min(read.log_memory_bytes, _MAX_COLUMN_BYTES))
            decoded_bytes = bytes_when_decoded(blocks, bytes_of_row(self._decoder.schema), max_bytes)
            if decoded_bytes > max_bytes:
                self.parts = min(_MAX_PARTS, 1 + _PARTS_IN_MEMORY * decoded_bytes // max_bytes)
        self._first: BlockDecoder | None = None
        if _is_late(read) and self.parts == 1 and may_be_late(blocks, rule):
            self._first = BlockDecoder(split, read.request.filter_columns, record_positions=record_positions)

    def records(self) -> LogRecordMap:
        """The surviving log records.

        Log files are released while they are decoded; a second call reads them again.

        Raises:
            UnsupportedTableError: a column is too large for an array.
        """
        return self._record_map(self._decoder.decode_all(self._release()), self._decoder.schema)

    def records_and_late_rows(self, ranges: RangesInLogs | None = None) -> tuple[LogRecordMap, LateLogRows | None]:
        """As ``records``, with the decoder of the late columns; it is None if the records have all columns.

        Blocks with late columns stay in memory. ``ranges`` collects the ranges of columns from all records.
        """
        blocks = self._release()
        late = None if self._first is None else LateLogRows(self._first, self._decoder)
        decoded = list(self._decoder.decode_all(blocks) if late is None else late.decode_all(blocks))
        if ranges is not None and self._merges_all:
            for records in decoded:
                ranges.add(records)
            ranges.keep(self._read.storage, self.instants)
        return self._record_map(decoded, self._decoder.schema if late is None else late.schema), late

    def records_of_part(self, part: int) -> LogRecordMap:
        """The surviving log records of one part of the record keys.

        With several parts, all records are decoded once, into a temporary file that each part is read from.

        Raises:
            OSError: the temporary file cannot be written.
            UnsupportedTableError: a column is too large for an array.
        """
        if self.parts > 1:
            return self._record_map(self.on_disk.of_part(part), self._decoder.schema)
        return self.records()

    @cached_property
    def on_disk(self) -> LogRecordsOnDisk:
        """All log records in a temporary file, divided into parts; raises like ``records_of_part``."""
        records = LogRecordsOnDisk(self.parts)
        for chunk in self._decoder.decode_all(self._release(), materialized=False):
            records.add(chunk)
        return records

    def _release(self) -> deque[LogBlock]:
        """Hands over the blocks and drops this scan's reference, so that log files are freed while decoding.

        A second call reads the files again.
        """
        blocks, self._blocks = self._blocks, None
        if blocks is None:
            blocks = tuple(filter(self._decoder.is_merged, self._live_blocks().blocks))
        return deque(blocks)

    def _live_blocks(self) -> LiveBlocks:
        return read_live_blocks(self._read.storage, self._read.split, on_disk=self._on_disk, in_pieces=self._in_pieces)

    def _record_map(self, decoded: Iterable[LogRecords], schema: pa.Schema) -> LogRecordMap:
        records, defaults = list(decoded), self._read.context.defaults
        try:
            return build_record_map(records, self._read.rule, schema, defaults, by_position=self.is_by_position)
        except pa.ArrowInvalid as error:
            size = sum(part.rows.nbytes for part in records if part.rows is not None)
            if size <= _MAX_COLUMN_BYTES:
                raise
            actual = f"{size} bytes of them to merge at once, from {self._read.split.log_paths[0]} on"
            supported = f"{_MAX_COLUMN_BYTES} bytes in a column: with a lower log_memory_bytes, or fewer record keys"
            raise UnsupportedTableError("size of log records", actual, supported) from error


def _is_late(read: SliceRead) -> bool:
    """Whether columns of log records are decoded only for records that pass the filter."""
    context, request = read.context, read.request
    if request.row_filter is None or request.record_keys is not None:
        return False
    eager = {*context.key_columns, *read.rule.columns_in(context.schema), *request.filter_columns}
    return not eager.issuperset(read.columns) and read.split.log_size_bytes >= _MIN_LATE_BYTES


def read_live_blocks(
    storage: Storage, split: RealtimeFileSplit, *, on_disk: bool = False, in_pieces: bool = False
) -> LiveBlocks:
    """The log blocks of a split that count as of its instant, oldest first.

    With ``on_disk``, log files are copied to local disk instead of memory. With ``in_pieces``, the contents of large
    blocks with plain rows stay in their files, which are open as long as the blocks are held.

    Raises:
        CorruptLogFileError: a log file is damaged in a way that Hudi does not skip.
        DataFileGoneError: a log file no longer exists.
        StorageError: a log file cannot be read, or is shorter than it was when the split was planned.
    """
    files = [
        _InPieces(storage, split, path)
        if in_pieces and (size_bytes or 0) >= _LARGE_FILE_BYTES and parse_native_log_name(path) is None
        else read_log_file(storage, split, path, size_bytes, on_disk=on_disk)
        for path, size_bytes in split.log_files
    ]
    if shorter := shorter_log_file(split, [file.size for file in files]):
        path, reason = shorter
        raise storage.failure("read", path, OSError(errno.EIO, reason))
    scans = [
        file.scan() if isinstance(file, _InPieces) else scan_blocks(file, path)
        for file, path in zip(files, split.log_paths, strict=True)
    ]
    for corrupt in (block for scan in scans for block in scan.corrupt):
        _LOG.warning("%s at byte %d: skipped a corrupt block: %s", corrupt.path, corrupt.offset, corrupt.reason)
    return live_blocks_of(split, scans)


def live_blocks_of(split: RealtimeFileSplit, scans: Iterable[ScanResult]) -> LiveBlocks:
    """The blocks that count as of the split's instant, of its log files in their order; raises like ``live_blocks``."""
    context = split.context
    return live_blocks(
        scans,
        latest_instant=split.latest_instant,
        is_valid=context.is_committed,
        replaces_compacted=context.replaces_compacted_blocks,
    )


class _InPieces:
    """A local log file; large contents of blocks with plain rows are not read before they are decoded."""

    def __init__(self, storage: Storage, split: RealtimeFileSplit, path: str) -> None:
        self._storage = storage
        self._path = path
        try:
            self._file = storage.open_input(path)
        except FileNotFoundError as error:
            raise data_file_gone(storage, split, path) from error
        self.size = self._file.size()

    def scan(self) -> ScanResult:
        """The blocks of the file."""
        scan = scan_source(PartsOfFile(self._read, self.size), self._path)
        blocks = (replace(block, read_into=partial(self._fill, block.content_offset)) for block in scan.blocks)
        return replace(scan, blocks=tuple(block if _is_read_in_pieces(block) else block.whole() for block in blocks))

    def _fill(self, content_offset: int, start: int, buffer: memoryview) -> None:
        self._storage.read_into(self._file, self._path, content_offset + start, buffer)

    def _read(self, start: int, length: int) -> pa.Buffer:
        return self._storage.read_range(self._file, self._path, start, length)


def _is_read_in_pieces(block: LogBlock) -> bool:
    return block.kind.has_plain_rows and block.content_bytes >= _LARGE_BLOCK_BYTES


def shorter_log_file(split: RealtimeFileSplit, sizes: Sequence[int]) -> tuple[str, str] | None:
    """A log file that has become shorter since it was listed: its path, and a reason for an error; else None.

    ``sizes`` are the current sizes of the log files, in bytes. Writers only append, so a shorter file is incomplete.
    """
    for (path, listed), size in zip(split.log_files, sizes, strict=True):
        if listed is not None and size < listed:
            return path, f"the file has {size} bytes, and had {listed} when listed"
    if sum(sizes) < split.log_size_bytes:
        # A split from elsewhere may know no more than the sum.
        reason = f"the log files from this one on have {sum(sizes)} bytes, and had {split.log_size_bytes} when listed"
        return split.log_paths[0], reason
    return None


def read_log_file(
    storage: Storage, split: RealtimeFileSplit, path: str, size_bytes: int | None, *, on_disk: bool
) -> pa.Buffer:
    """The bytes of a log file, in memory or mapped from a copy on disk; ``size_bytes`` saves a request if it is given.

    Raises:
        DataFileGoneError: the file no longer exists.
    """
    try:
        return storage.copy_to_disk(path) if on_disk else storage.read_buffer(path, size_bytes)
    except FileNotFoundError as error:
        raise data_file_gone(storage, split, path) from error
