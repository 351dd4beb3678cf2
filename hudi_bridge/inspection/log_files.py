"""The blocks of log files, and the records in them, whether they count or not.

Of a block, its header and as much of its content is read as tells the number of its records. A block counts if a
snapshot merges its records; ``WhyNotCounted`` says why others do not.

Source: ``ShowHoodieLogFileMetadataProcedure``, ``ShowHoodieLogFileRecordsProcedure``; which blocks count is decided by
``logformat.scan.live_blocks``.
"""

import io
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge.config import QueryType
from hudi_bridge.errors import CorruptLogFileError, HudiReadError, QueryError
from hudi_bridge.inspection.file_groups import FileGroupHistories, GroupHistory, SliceState, SliceVersion
from hudi_bridge.inspection.rows import arrow_schema, rows_to_table
from hudi_bridge.logformat.block import LogBlock, positions_of
from hudi_bridge.logformat.delete_records import parse_delete_block
from hudi_bridge.logformat.hfile_blocks import TRAILER_SIZE, HFileSource, parse_trailer
from hudi_bridge.logformat.kinds import PARQUET_ROWS, ColumnRows
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.parquet import PARQUET_ERRORS, first_line
from hudi_bridge.logformat.scan import ScanResult, live_blocks, scan_blocks
from hudi_bridge.merge.arrays import Column, Positions
from hudi_bridge.merge.record_map import LogRecords
from hudi_bridge.readers.block_decoder import BlockDecoder
from hudi_bridge.readers.request import RowRequest, log_memory_bytes
from hudi_bridge.schema.avro import parse_json
from hudi_bridge.splits.file_slice import LogFile
from hudi_bridge.splits.planner import SplitPlanner, replaces_compacted_blocks
from hudi_bridge.splits.query_schema import columns_of_query, scan_heads
from hudi_bridge.splits.split import ReadContext
from hudi_bridge.storage.storage import Storage
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import InstantLike
from hudi_bridge.timeline.instant_files import GroupId

LOG_BLOCKS_SCHEMA = arrow_schema(
    partition_path=pa.string(),
    file_id=pa.string(),
    base_instant_time=pa.string(),
    path=pa.string(),
    block=pa.int64(),
    kind=pa.string(),
    instant_time=pa.string(),
    counts=pa.bool_(),
    why_not=pa.string(),
    rows=pa.int64(),
    deletes=pa.int64(),
    offset=pa.int64(),
    size_bytes=pa.int64(),
    content_size_bytes=pa.int64(),
    version=pa.int64(),
    schema=pa.string(),
    is_partial=pa.bool_(),
    positions=pa.int64(),
    base_instant_of_positions=pa.string(),
    target_instant_time=pa.string(),
    compacted_instants=pa.list_(pa.string()),
    problem=pa.string(),
)
_OF_RECORD = arrow_schema(
    partition_path=pa.string(),
    file_id=pa.string(),
    path=pa.string(),
    block=pa.int64(),
    record=pa.int64(),
    instant_time=pa.string(),
    counts=pa.bool_(),
    record_key=pa.string(),
    ordering=pa.list_(pa.string()),
    operation=pa.string(),
    position=pa.int64(),
    problem=pa.string(),
)
_KINDS = {
    BlockType.COMMAND: "command",
    BlockType.DELETE: "deletes",
    BlockType.AVRO_DATA: "rows (Avro)",
    BlockType.HFILE_DATA: "rows (HFile)",
    BlockType.CDC_DATA: "change data",
}
_DAMAGED, _ROLLBACK = "damaged", "rollback"
_UPSERT, _DELETE = "upsert", "delete"
_CONTENT_HEAD = struct.Struct(">ii")
_WHOLE_FILE_BYTES = 1 << 20
"""A log file up to this size is read by one request; of others, the heads of the blocks are."""


class WhyNotCounted:
    """Why blocks of log files do not count in a snapshot."""

    def __init__(
        self,
        blocks: Iterable[LogBlock],
        latest_instant: str,
        is_committed: Callable[[str], bool],
        pending: AbstractSet[str],
    ) -> None:
        """Takes all blocks of a slice in log file order, and what the timeline says."""
        self._latest_instant = latest_instant
        self._is_committed = is_committed
        self._pending = pending
        self._compacted: set[str] = set()
        self._rollbacks: dict[str, tuple[int, str]] = {}
        self._numbers: dict[tuple[str, int], int] = {}
        for number, block in enumerate(blocks):
            self._numbers[block.path, block.offset] = number
            self._compacted.update(block.compacted_block_times)
            if block.is_rollback and block.target_instant_time is not None:
                self._rollbacks[block.target_instant_time] = (number, block.instant_time or "")

    def of(self, block: LogBlock) -> str:
        """The reason for a block with records that does not count."""
        instant = block.instant_time or ""
        number, rollback = self._rollbacks.get(instant, (-1, ""))
        if number > self._numbers[block.path, block.offset]:
            return f"rolled back by {rollback}"
        if not self._is_committed(instant):
            return f"uncommitted: its commit {'is pending' if instant in self._pending else 'never completed'}"
        if instant > self._latest_instant:
            return f"later than {self._latest_instant}"
        if instant in self._compacted:
            return "replaced by the block of a log compaction"
        return "its file slice is not committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """A block of a log file, or a damaged part of it; ``number`` counts the blocks of a file from 1."""

    log: LogFile
    number: int
    block: LogBlock
    counts: bool
    why_not: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """A log file that cannot be read, from an offset on if there is one; without a file, a whole partition."""

    log: LogFile | None
    reason: str
    offset: int | None = None


class _LogsOfTable:
    """The log files of a table that were asked for, by slice."""

    def __init__(self, table: HudiTable, path: str | None, file_id: str | None, as_of: InstantLike | None) -> None:
        self.planner: SplitPlanner = table.planner(as_of)
        self._path = None if path is None else path.strip("/")
        self._file_id = file_id
        self._pending = self.planner.state.timeline.pending_times()

    def slices(self) -> "Iterator[tuple[_LogSlice, list[_Block | _Problem]]]":
        """Yields each slice with log files that were asked for, and the blocks of these files, in file order.

        Raises:
            QueryError: there is no such file, or no such file group.
        """
        folder = (self._path or "").rpartition("/")[0]
        has_any = False
        for group in FileGroupHistories(self.planner).of_partitions([folder] if folder else None):
            if group.problem is not None and self._file_id is None and not group.versions:
                whole = _LogSlice(partition_path=group.partition_path, file_id=None, base_instant_time=None, logs=())
                yield whole, [_Problem(log=None, reason=group.problem)]
            if self._file_id not in (None, group.file_id):
                continue
            for log_slice in _log_slices(group):
                if any(map(self._is_asked_for, log_slice.logs)):
                    has_any = True
                    blocks = self._blocks(log_slice)
                    yield log_slice, [entry for entry in blocks if entry.log and self._is_asked_for(entry.log)]
        if not has_any and self._path is not None:
            raise QueryError("log file", repr(self._path), "the path or the name of a log file of the table")
        if not has_any and self._file_id is not None:
            raise QueryError("file group", repr(self._file_id), "the file id of a file group with log files")

    def _is_asked_for(self, log: LogFile) -> bool:
        return self._path in (None, log.path, log.path.rpartition("/")[2])

    def _blocks(self, log_slice: "_LogSlice") -> "Iterator[_Block | _Problem]":
        state = self.planner.state
        scans: dict[str, ScanResult] = {}
        problems: dict[str, str] = {}
        for log in log_slice.logs:
            try:
                scans[log.path] = _scan(state.storage, log)
            except HudiReadError as error:
                problems[log.path] = str(error)
        reason, live = log_slice.why_not_read, frozenset[tuple[str, int]]()
        if reason is None:
            live, reason = self._live(scans, problems)
        everything = [block for scan in scans.values() for block in scan.blocks]
        why_not = WhyNotCounted(everything, state.instant, state.timeline.is_committed, self._pending)
        for log in log_slice.logs:
            if log.path in problems:
                yield _Problem(log=log, reason=problems[log.path])
                continue
            scan = scans[log.path]
            for number, block in enumerate(scan.blocks, start=1):
                counts = (block.path, block.offset) in live
                why = None if counts or not block.holds_records else reason or why_not.of(block)
                yield _Block(log=log, number=number, block=block, counts=counts, why_not=why)
            for damage in scan.corrupt:
                yield _Problem(log=log, reason=damage.reason, offset=damage.offset)

    def _live(
        self, scans: Mapping[str, ScanResult], problems: Mapping[str, str]
    ) -> tuple[frozenset[tuple[str, int]], str | None]:
        """The blocks that count, or the reason why that cannot be told."""
        if problems:
            return frozenset(), "unknown: another log file of its slice cannot be read"
        state = self.planner.state
        try:
            live = live_blocks(
                scans.values(),
                latest_instant=state.instant,
                is_valid=state.timeline.is_committed,
                replaces_compacted=replaces_compacted_blocks(state.config, state.options),
            )
        except HudiReadError as error:
            return frozenset(), f"unknown: {error}"
        return frozenset((block.path, block.offset) for block in live.blocks), None


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogSlice:
    """Log files that are merged together, in merge order; ``why_not_read`` is None if a snapshot reads them."""

    partition_path: str
    file_id: str | None
    base_instant_time: str | None
    logs: tuple[LogFile, ...]
    why_not_read: str | None = None

    @property
    def group(self) -> GroupId:
        """Its file group."""
        return self.partition_path, self.file_id or ""


def _log_slices(group: GroupHistory) -> Iterator[_LogSlice]:
    """The slices of a group with log files; current slices that a pending compaction divides are merged as one."""
    current = [version for version in group.versions if version.state is SliceState.CURRENT]
    for version in group.versions:
        part, logs = version.file_slice, list(version.file_slice.log_files)
        if version in current:
            is_first = version is current[0]
            logs = [log for member in current for log in member.file_slice.log_files] if is_first else []
        if logs:
            yield _LogSlice(
                partition_path=group.partition_path,
                file_id=group.file_id,
                base_instant_time=part.base_instant_time,
                logs=tuple(sorted(logs, key=lambda log: log.name.sort_key)),
                why_not_read=_why_not_read(version),
            )
    if group.change_files:
        yield _LogSlice(
            partition_path=group.partition_path,
            file_id=group.file_id,
            base_instant_time=None,
            logs=group.change_files,
            why_not_read="change data is not merged",
        )


def _why_not_read(version: SliceVersion) -> str | None:
    match version.state:
        case SliceState.SUPERSEDED:
            return f"its file slice was superseded by {version.ended_by}"
        case SliceState.REPLACED:
            return f"its file group was replaced by {version.ended_by}"
        case SliceState.UNKNOWN:
            return "unknown: what became of its file slice cannot be told"
    return None


def _scan(storage: Storage, log: LogFile) -> ScanResult:
    if log.size_bytes <= _WHOLE_FILE_BYTES:
        return scan_blocks(storage.read_buffer(log.path, log.size_bytes or None), log.path)
    return scan_heads(storage, log.path, log.size_bytes)


def inspect_log_blocks(
    table: HudiTable,
    path: str | None = None,
    *,
    file_id: str | None = None,
    as_of: InstantLike | None = None,
) -> pa.Table:
    """One row per block of log files, in file order, in ``LOG_BLOCKS_SCHEMA``.

    ``counts`` is whether a snapshot merges the records of the block, and ``why_not`` the reason if it does not.
    ``block`` counts the blocks of a file from 1; ``rows`` and ``deletes`` are the numbers of records, ``schema`` the
    name of the writer's record. A damaged part of a file, and a file that cannot be read, are rows with a ``problem``.

    Args:
        table: the table.
        path: a log file, by its path in the table or by its name; by default all log files of slices.
        file_id: the file group whose log files are read.
        as_of: as for ``HudiTable.snapshot``.

    Raises:
        QueryError: there is no such log file or file group.
        StorageError: a folder cannot be listed, or a file cannot be read.
    """
    logs = _LogsOfTable(table, path, file_id, as_of)
    storage = logs.planner.state.storage
    return rows_to_table(
        LOG_BLOCKS_SCHEMA,
        (_block_row(storage, log_slice, entry) for log_slice, entries in logs.slices() for entry in entries),
    )


def inspect_log_records(
    table: HudiTable,
    path: str | None = None,
    *,
    file_id: str | None = None,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
    as_of: InstantLike | None = None,
) -> pa.RecordBatchReader:
    """The records in log blocks, in file order, whether they count or not.

    ``record`` counts the records of a block from 1; ``record_key``, ``ordering`` (the ordering values as texts) and
    ``operation`` (``upsert`` or ``delete``) are as merging takes them, ``position`` is the row of the base file that
    the block names, if it does. ``row`` is a struct of columns of the table: null for a delete without a row, and with
    nulls for what a partial update leaves out. A block that cannot be decoded is a row with the ``problem``.

    Args:
        table: the table.
        path: a log file, by its path in the table or by its name; by default all log files of slices.
        file_id: the file group whose log files are read.
        columns: the columns in ``row``, by default all.
        filter: an expression over the table's columns; records without a row do not pass it.
        as_of: as for ``HudiTable.snapshot``.

    Raises:
        QueryError: there is no such log file or file group, or a column or the filter does not fit the table.
        CorruptTableError: the columns of the table cannot be read.
        StorageError: a folder cannot be listed, or a file cannot be read.
        UnsupportedTableError: a record key field has a type whose text is not known.
    """
    logs = _LogsOfTable(table, path, file_id, as_of)
    schema = columns_of_query(logs.planner.query_schema, logs.planner.state.config, QueryType.SNAPSHOT).schema
    request = RowRequest.of(schema, columns, filter)
    row = pa.field("row", pa.struct([schema.field(name) for name in request.columns]))
    shown = _OF_RECORD.append(row)
    return pa.RecordBatchReader.from_batches(shown, _record_batches(logs, request, shown))


def _block_row(storage: Storage, log_slice: _LogSlice, entry: _Block | _Problem) -> Mapping[str, Any]:
    row: dict[str, Any] = {
        "partition_path": log_slice.partition_path,
        "file_id": log_slice.file_id,
        "base_instant_time": log_slice.base_instant_time,
        "path": entry.log and entry.log.path,
    }
    if isinstance(entry, _Problem):
        return row | {"kind": _DAMAGED, "counts": False, "offset": entry.offset, "problem": entry.reason}
    block, size = entry.block, entry.block.content_bytes
    rows = deletes = problem = None
    try:
        rows, deletes = _numbers_of_records(storage, entry.log, block)
        positions = None if block.record_positions is None else len(positions_of(block))
    except HudiReadError as error:
        problem, positions = str(error), None
    return row | {
        "block": entry.number,
        "kind": _kind_of(block),
        "instant_time": block.instant_time,
        "counts": entry.counts,
        "why_not": entry.why_not,
        "rows": rows,
        "deletes": deletes,
        "offset": block.offset,
        "size_bytes": block.size_bytes,
        "content_size_bytes": size,
        "version": block.version,
        "schema": _schema_name(block.schema_text),
        "is_partial": block.is_partial,
        "positions": positions,
        "base_instant_of_positions": block.base_file_instant_of_positions,
        "target_instant_time": block.target_instant_time,
        "compacted_instants": list(block.compacted_block_times),
        "problem": problem,
    }


def _kind_of(block: LogBlock) -> str:
    if isinstance(block.kind.rows, ColumnRows):
        return f"rows ({block.kind.rows.stored_as})"
    return _ROLLBACK if block.is_rollback else _KINDS[block.block_type]


def _numbers_of_records(storage: Storage, log: LogFile, block: LogBlock) -> tuple[int | None, int | None]:
    """The numbers of rows and of deletes in a block.

    Raises:
        CorruptLogFileError: the content is damaged.
        StorageError: the file cannot be read.
    """
    size, path, start = block.content_bytes, block.path, block.content_offset
    if block.kind.has_plain_rows:
        if block.content.size < _CONTENT_HEAD.size:
            raise CorruptLogFileError(path, start, f"{block.content.size} bytes", "a version and a number of records")
        return int(_CONTENT_HEAD.unpack_from(block.content)[1]), None
    is_whole = block.content.size == size
    columns = block.kind.rows if isinstance(block.kind.rows, ColumnRows) else block.kind.columns
    if columns is not None:
        rows = _rows_of_columns(storage, log, block, columns)
        return (None, rows) if block.kind.holds_deletes else (rows, None)
    if block.kind.holds_deletes:
        whole = block if is_whole else replace(block, content=_range(storage, log, start, size))
        return None, len(parse_delete_block(whole))
    if block.block_type is BlockType.HFILE_DATA:
        first = max(0, size - TRAILER_SIZE)
        tail = block.content.slice(first) if is_whole else _range(storage, log, start + first, size - first)
        source = HFileSource(buffer=tail, path=path, offset=start, start=first, total_bytes=size)
        return parse_trailer(source).entry_count, None
    return None, None


def _rows_of_columns(storage: Storage, log: LogFile, block: LogBlock, columns: ColumnRows) -> int:
    size, path, start = block.content_bytes, block.path, block.content_offset
    if columns is not PARQUET_ROWS:
        return columns.size(_range(storage, log, start, size))[0]
    if block.content.size == size:
        return _rows_of_parquet(pa.BufferReader(block.content), path, start)
    with storage.open_input(log.path, log.size_bytes) as file:
        part = _PartOfFile(lambda begin, length: storage.read_range(file, path, start + begin, length), size)
        return _rows_of_parquet(pa.PythonFile(part), path, start)


def _range(storage: Storage, log: LogFile, start: int, size: int) -> pa.Buffer:
    with storage.open_input(log.path, log.size_bytes) as file:
        return storage.read_range(file, log.path, start, size)


def _rows_of_parquet(file: Any, path: str, offset: int) -> int:  # noqa: ANN401 - a file of Arrow
    try:
        return int(pq.read_metadata(file).num_rows)
    except PARQUET_ERRORS as error:
        raise CorruptLogFileError(path, offset, f"no readable Parquet ({first_line(error)})", "rows") from error


class _PartOfFile(io.RawIOBase):
    """Bytes of a file that begin at the content of a block, for readers of footers."""

    def __init__(self, read: Callable[[int, int], pa.Buffer], size: int) -> None:
        super().__init__()
        self._read_range = read
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether positions can be chosen."""
        return True

    def tell(self) -> int:
        """The position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to a position."""
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        left = self._size - self._position
        part = self._read_range(self._position, left if size is None or size < 0 else min(size, left)).to_pybytes()
        self._position += len(part)
        return part


def _schema_name(text: str | None) -> str | None:
    """The full name of a writer's record; None if the schema cannot be parsed: decoding its records raises."""
    with suppress(ValueError, RecursionError):
        schema = None if text is None else parse_json(text)
        if isinstance(schema, dict) and isinstance(schema.get("name"), str):
            return ".".join(
                part for part in (schema.get("namespace"), schema["name"]) if isinstance(part, str) and part
            )
    return None


def _record_batches(logs: _LogsOfTable, request: RowRequest, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for log_slice, entries in logs.slices():
        decoder: BlockDecoder | None = None
        contents: dict[str, dict[int, LogBlock]] = {}
        for entry in entries:
            if isinstance(entry, _Problem):
                yield _problem_batch(log_slice, entry, None, entry.reason, schema)
                continue
            if not entry.block.holds_records:
                continue
            try:
                # Nothing is merged, so that a payload of the user's is not needed.
                split = logs.planner.split_without_files(log_slice.group, merges=False)
                decoder = decoder or BlockDecoder(split, request.needed)
                block = _with_content(logs.planner.state.storage, split.context, entry, contents)
                yield from _batches_of_block(decoder, log_slice, replace(entry, block=block), request, schema)
            except HudiReadError as error:
                yield _problem_batch(log_slice, entry, entry.number, str(error), schema)


def _with_content(
    storage: Storage, context: ReadContext, entry: _Block, contents: dict[str, dict[int, LogBlock]]
) -> LogBlock:
    """The block with all of its content; a file is read once, and the one before it is let go."""
    block, log = entry.block, entry.log
    if block.content.size == block.content_bytes:
        return block
    if log.path not in contents:
        contents.clear()
        limit = log_memory_bytes(context)
        data = (
            storage.copy_to_disk(log.path) if log.size_bytes > limit else storage.read_buffer(log.path, log.size_bytes)
        )
        contents[log.path] = {whole.offset: whole for whole in scan_blocks(data, log.path).blocks}
    return contents[log.path][block.offset]


def _batches_of_block(
    decoder: BlockDecoder, log_slice: _LogSlice, entry: _Block, request: RowRequest, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    block, first = entry.block, 0
    positions = None if block.record_positions is None else positions_of(block)
    for records in decoder.decode_in_chunks(block):
        count = len(records.keys)
        of_records = None if positions is None else positions[first : first + count]
        batch = _records_batch(log_slice, entry, records, of_records, first, request, schema)
        first += count
        if request.row_filter is not None:
            if records.rows is None:
                continue
            batch = batch.filter(pa.array(request.passes(records.rows.select(list(request.filter_columns)))))
        if batch.num_rows:
            yield batch


def _records_batch(
    log_slice: _LogSlice,
    entry: _Block,
    records: LogRecords,
    positions: Positions | None,
    first: int,
    request: RowRequest,
    schema: pa.Schema,
) -> pa.RecordBatch:
    count = len(records.keys)
    operations = np.where(records.is_delete | records.marked, _DELETE, _UPSERT)
    if positions is not None and len(positions) != count:
        positions = None
    kind = schema.field("row").type
    if records.rows is None:
        rows = pa.nulls(count, kind)
    else:
        rows = pa.StructArray.from_arrays([records.rows.column(name) for name in request.columns], fields=list(kind))
    columns = {
        "partition_path": pa.repeat(log_slice.partition_path, count),
        "file_id": pa.repeat(log_slice.file_id, count),
        "path": pa.repeat(entry.log.path, count),
        "block": pa.repeat(pa.scalar(entry.number, pa.int64()), count),
        "record": pa.array(np.arange(first + 1, first + count + 1)),
        "instant_time": pa.repeat(pa.scalar(entry.block.instant_time, pa.string()), count),
        "counts": pa.repeat(entry.counts, count),
        "record_key": pc.cast(records.keys, pa.string()),
        "ordering": _texts_of(records.ordering, count),
        "operation": pa.array(operations.tolist(), pa.string()),
        "position": pa.nulls(count, pa.int64()) if positions is None else pa.array(positions),
        "problem": pa.nulls(count, pa.string()),
        "row": rows,
    }
    return pa.record_batch(list(columns.values()), schema=schema)


def _texts_of(ordering: Sequence[Column], count: int) -> Column:
    texts = [[None if value is None else str(value) for value in column.to_pylist()] for column in ordering]
    return pa.array(
        [list(values) for values in zip(*texts, strict=True)] if texts else [None] * count, pa.list_(pa.string())
    )


def _problem_batch(
    log_slice: _LogSlice, entry: _Block | _Problem, number: int | None, reason: str, schema: pa.Schema
) -> pa.RecordBatch:
    row = {
        "partition_path": log_slice.partition_path,
        "file_id": log_slice.file_id,
        "path": entry.log and entry.log.path,
        "block": number,
        "counts": False,
        "problem": reason,
    }
    return pa.RecordBatch.from_pylist([row], schema=schema)
