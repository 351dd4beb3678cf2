"""Reads a file slice of an LSM tree: its base file and its native log files are merged by record key.

Log files are opened like base files, so that a few batches of each are in memory, whatever the sizes of the files.

A slice without logs that count is read as any other, with all rows of a repeated key. The filter is applied to merged
rows. It only leaves out row groups of the base file that hold nothing but rows that cannot pass, under rules by which a
base row never wins.

Source: ``HoodieLsmFileGroupReader`` and ``LsmFileIterators`` of Hudi's main branch.
"""

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.caching import cached_property
from hudi_bridge.common.threads import prefetch_one
from hudi_bridge.config import OPERATION_FIELD_KEY
from hudi_bridge.errors import CorruptBaseFileError, CorruptLogFileError, CorruptTableError, UnsupportedTableError
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.native import LogKind, NativeLogName, block_of_metadata
from hudi_bridge.logformat.scan import LiveBlocks, ScanResult, live_blocks
from hudi_bridge.merge.arrays import Booleans, Column, Positions, as_booleans, ordering_type
from hudi_bridge.merge.columnar import no_matches
from hudi_bridge.merge.lsm import Chunk, LsmMerge, SortedRun, Window
from hudi_bridge.merge.ordering import LATER
from hudi_bridge.merge.record_map import data_records, delete_records, has_default_ordering
from hudi_bridge.readers.base_file import (
    ROWS_PER_BATCH,
    BaseFileColumns,
    OpenBaseFile,
    ReadExtent,
    RowGroups,
    RowSelector,
    extent,
    selected_rows,
)
from hudi_bridge.readers.base_formats.opening import open_base_file
from hudi_bridge.readers.merging import MatchedRows, Sink
from hudi_bridge.readers.request import RowRequest, SliceRead
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN, OPERATION_COLUMN, RECORD_KEY_COLUMN
from hudi_bridge.splits.split import native_log_of_tree


class PlainReader(Protocol):
    """Reads a base file without logs."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows that pass the filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRun:
    """An open log file; ``block`` has its header."""

    file: OpenBaseFile
    block: LogBlock


class LogRuns:
    """The open log files of a slice: a context manager.

    ``live`` are those that count, oldest first.
    """

    def __init__(self, read: SliceRead) -> None:
        self._read = read
        self._open_files = ExitStack()
        self._live: LiveBlocks | None = None
        self._files: Mapping[str, OpenBaseFile] = {}

    def __enter__(self) -> Self:
        """Opens the files.

        Raises:
            CorruptTableError: a file is not readable, or lacks its header.
            DataFileGoneError: a log file no longer exists.
            UnsupportedTableError: a file is no native log file of an LSM tree, or has rows of some columns.
        """
        try:
            files = {name: file for path, size in self._read.split.log_files for name, file in self._open(path, size)}
        except BaseException:
            self._open_files.close()
            raise
        self._files = {file.path: file for file in files.values()}
        scans = [ScanResult(blocks=(_block(file, name),), corrupt=()) for name, file in files.items()]
        split = self._read.split
        self._live = live_blocks(
            scans,
            latest_instant=split.latest_instant,
            is_valid=split.context.is_committed,
            replaces_compacted=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._open_files.close()

    def _open(self, path: str, size: int | None) -> Iterator[tuple[NativeLogName, OpenBaseFile]]:
        name = native_log_of_tree(path)
        if name.kind is LogKind.CHANGES:
            return
        split = replace(
            self._read.split, base_path=path, base_size_bytes=size or 0, base_instant_time=name.instant_time
        )
        with _as_log_file():
            file = open_base_file(self._read.storage, split, path, use_threads=self._read.use_threads)
        yield name, self._open_files.enter_context(file)

    @property
    def instants(self) -> frozenset[str]:
        """The instants of all log files, as in ``LiveBlocks``."""
        assert self._live is not None
        return self._live.instants

    @cached_property
    def live(self) -> Sequence[LogRun]:
        """The log files that count; of an incremental query, those that its commits wrote."""
        assert self._live is not None
        times = self._read.context.commit_times
        runs = [LogRun(file=self._files[block.path], block=block) for block in self._live.blocks]
        runs = [run for run in runs if times is None or run.block.instant_time in times]
        for run in runs:
            if run.block.is_partial:
                actual = f"rows of some columns in {run.block.path}, in an LSM tree"
                raise UnsupportedTableError("partial update", actual, "rows of all columns")
        return runs


def _block(file: OpenBaseFile, name: NativeLogName) -> LogBlock:
    metadata = file.arrow_schema.metadata or {}
    return block_of_metadata(metadata, name, file.path, file.split.base_size_bytes)


@contextmanager
def _as_log_file() -> Iterator[None]:
    """A context in which damage of a file that is read like a base file is that of a log file."""
    try:
        yield
    except CorruptBaseFileError as error:
        raise CorruptLogFileError(error.path, error.offset, error.found, error.expected) from error


class LsmSlice:
    """The merge of an open base file, if any, and open log files, oldest first.

    With ``adds_alone``, only what is added to the base file is asked for, so that under most rules its other columns
    are not read.
    """

    def __init__(
        self, read: SliceRead, base: OpenBaseFile | None, logs: Sequence[LogRun], *, adds_alone: bool = False
    ) -> None:
        context, rule = read.context, read.rule
        times = (COMMIT_TIME_COLUMN,) if context.commit_times is not None else ()
        self._read = read
        self._base = base
        self._logs = logs
        self._merged = tuple(dict.fromkeys([*context.key_columns, *times, *rule.columns_in(context.schema)]))
        self._columns = tuple(dict.fromkeys([*read.columns, *self._merged]))
        self._schema = pa.schema([context.schema.field(name) for name in self._columns])
        self._base_columns = self._merged if adds_alone and rule.fill is None else self._columns

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows that pass the filter, in the order of their keys."""
        request = self._read.request
        passes = None if request.row_filter is None else partial(_passes, request)
        for window in self._windows():
            rows = window.rows(request.columns, passes)
            if rows.num_rows:
                yield rows

    def merge(self, sink: Sink) -> Iterator[pa.RecordBatch]:
        """Yields what a sink returns for the base rows and for the rows that are added."""
        for window in self._windows():
            if window.base is not None:
                positions, count = window.base.positions, len(window.base)
                matched = MatchedRows(matches=no_matches(count), positions=positions)
                yield from sink.base_rows(matched, np.flatnonzero(window.superseded))
            if window.added.num_rows:
                yield from sink.log_rows(window.added)

    def match(self, sink: Sink) -> None:
        """Gives a sink the superseded base rows."""
        deque(self.merge(sink), 0)

    def extent(self) -> ReadExtent:
        """How much of the base file a read takes, by its footer."""
        if self._base is None:
            return ReadExtent()
        view = self._base.view(self._base_columns)
        return extent(self._base, RowGroups(rows=frozenset(self._groups(self._base))), view.file_columns)

    def _windows(self) -> Iterator[Window]:
        read = self._read
        with ExitStack() as streams:
            runs = []
            if self._base is not None:
                chunks = partial(self._chunks, self._base, self._base_columns, CorruptBaseFileError)
                stream = streams.enter_context(closing(prefetch_one(chunks) if read.use_threads else chunks()))
                runs.append(SortedRun(self._base.path, stream, CorruptBaseFileError, is_base=True))
            for log in self._logs:
                reader = self._deletes if log.block.kind.holds_deletes else self._log_rows
                runs.append(SortedRun(log.block.path, reader(log), CorruptLogFileError))
            yield from LsmMerge(read.rule, self._schema, read.context.defaults).windows(runs)

    def _log_rows(self, log: LogRun) -> Iterator[Chunk]:
        with _as_log_file():
            yield from self._chunks(log.file, self._columns, CorruptLogFileError)

    def _chunks(
        self, file: OpenBaseFile, columns: tuple[str, ...], failure: type[CorruptTableError]
    ) -> Generator[Chunk, None, None]:
        """The rows of a file."""
        context, rule = self._read.context, self._read.rule
        self._require_known_operations(file)
        view = file.view(columns, materialized=file is self._base and self._read.request.is_materialized)
        for stored, stored_positions in self._stored(file, view):
            rows, positions = view.evolve(stored), stored_positions
            if context.commit_times is not None:
                in_range = _in_list(rows.column(COMMIT_TIME_COLUMN), sorted(context.commit_times))
                rows, positions = rows.filter(pa.array(in_range)), positions[in_range]
            keys = record_keys(rows, context)
            _require_keys(keys, positions, file.path, failure)
            records = data_records(rows, keys, rule)
            if columns != self._columns:
                records = replace(records, rows=self._widened(rows))
            yield Chunk(records=records, positions=positions)

    def _stored(self, file: OpenBaseFile, view: BaseFileColumns) -> Iterator[tuple[pa.RecordBatch, Positions]]:
        """The stored rows with the keys that are asked for, with their positions."""
        selector = self._selector(file)
        groups = self._groups(file) if file is self._base else _groups_with_keys(file, selector)
        view.expect(groups)
        for group in groups:
            start = int(file.row_group_starts[group])
            if selector is not None:
                for stored, positions in selected_rows(file.view(selector.columns), view, group, selector.mask):
                    yield stored, positions + start
                continue
            for stored in view.stored_batches(group):
                yield stored, np.arange(start, start + stored.num_rows)
                start += stored.num_rows

    def _selector(self, file: OpenBaseFile) -> RowSelector | None:
        """What selects the rows of the keys that are asked for; None if all rows are merged."""
        keys = self._read.request.record_keys
        if keys is None:
            return None
        return RowSelector(file, replace(self._read.request.of_chosen_rows(), record_keys=keys))

    def _groups(self, base: OpenBaseFile) -> Sequence[int]:
        """The row groups of the base file to read."""
        read = self._read
        groups = _groups_with_keys(base, self._selector(base))
        precedence = read.rule.precedence
        if read.request.row_filter is None or read.rule.fill is not None:
            return groups
        if any(outcome != LATER for outcomes in precedence.in_logs for outcome in outcomes):
            # A base row that does not pass may win over a record that does.
            return groups
        matching = set(base.view(self._base_columns).matching_row_groups(read.request))
        joined = _groups_with_common_keys(base, read.context.key_columns)
        return [group for group in groups if group in matching or group in joined]

    def _widened(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with nulls in the columns that were not read: none of these rows is returned."""
        columns = [
            rows.column(field.name) if field.name in self._base_columns else pa.nulls(rows.num_rows, field.type)
            for field in self._schema
        ]
        return pa.record_batch(columns, schema=self._schema)

    def _require_known_operations(self, file: OpenBaseFile) -> None:
        context = self._read.context
        if context.populates_meta_fields and OPERATION_COLUMN in set(file.arrow_schema.names) - set(
            context.schema.names
        ):
            actual = f"the column {OPERATION_COLUMN} in {file.path}"
            supported = f"such tables if the option {OPERATION_FIELD_KEY}=true is given"
            raise UnsupportedTableError("changelog", actual, supported)

    def _deletes(self, log: LogRun) -> Iterator[Chunk]:
        """The deletes of a file with a column of record keys, and one for each ordering field."""
        rule, file, wanted = self._read.rule, log.file, self._read.request.record_keys
        fields = rule.ordering_fields if rule.uses_ordering else ()
        names = [RECORD_KEY_COLUMN, *fields]
        missing = set(names).difference(file.arrow_schema.names)
        if missing:
            actual = f"deletes without {', '.join(sorted(missing))}"
            raise CorruptLogFileError(file.path, 0, actual, "record keys")
        types = [ordering_type(name, self._schema) for name in fields]
        for group in file.row_groups:
            start = int(file.row_group_starts[group])
            with _as_log_file():
                batches = list(file.batches(group, names, ROWS_PER_BATCH))
            for stored in batches:
                rows, positions = stored.select(names), np.arange(start, start + stored.num_rows)
                start += stored.num_rows
                if wanted is not None:
                    mask = as_booleans(pc.is_in(rows.column(0), value_set=wanted.cast(rows.column(0).type)))
                    rows, positions = rows.filter(pa.array(mask)), positions[mask]
                keys = rows.column(0).cast(pa.string())
                _require_keys(keys, positions, file.path, CorruptLogFileError)
                ordering = tuple(column.cast(kind) for column, kind in zip(rows.columns[1:], types, strict=True))
                records = delete_records(keys, ordering, has_default_ordering(ordering, rows.num_rows))
                yield Chunk(records=records, positions=positions)


def _passes(request: RowRequest, rows: pa.RecordBatch) -> Booleans:
    return request.passes(rows.select(list(request.filter_columns)))


def _in_list(column: Column, values: Sequence[str]) -> Booleans:
    return as_booleans(pc.is_in(column, value_set=pa.array(values, pa.string())))


def _require_keys(keys: Column, positions: Positions, path: str, failure: type[CorruptTableError]) -> None:
    if keys.null_count:
        row = positions[np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False))[0]]
        raise failure(path, None, f"no record key in row {row}", "a record key in each row of an LSM tree")


def _groups_with_keys(file: OpenBaseFile, selector: RowSelector | None) -> Sequence[int]:
    return file.row_groups if selector is None else sorted(selector.row_groups())


def _groups_with_common_keys(base: OpenBaseFile, key_columns: Sequence[str]) -> frozenset[int]:
    """The row groups that may share a key with the one before or after."""
    if len(key_columns) != 1:
        return frozenset(base.row_groups)
    ranges = [base.text_range(group, key_columns[0]) for group in base.row_groups]
    common = set()
    for (group, first), (_, second) in pairwise(enumerate(ranges)):
        if first is None or second is None or first[1].encode() >= second[0].encode():
            common |= {group, group + 1}
    return frozenset(common)


class LsmSliceReader:
    """Reads a split of an LSM tree; ``plain`` reads its base file, if there is one, without logs.

    ``batches`` can be called again.
    """

    def __init__(self, read: SliceRead, plain: PlainReader | None) -> None:
        self._read = read
        self._plain = plain
        self.schema = read.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the merged rows that pass the filter, in the order of their keys."""
        with LogRuns(self._read) as logs:
            if logs.live:
                with self._opened_base() as base:
                    yield from LsmSlice(self._read, base, logs.live).rows()
                return
        if self._plain is not None:
            yield from self._plain.batches()

    def extent(self) -> ReadExtent:
        """How much of the base file a read takes at most, by its footer; log files are not read."""
        with self._opened_base() as base:
            return LsmSlice(self._read, base, ()).extent()

    def _opened_base(self) -> AbstractContextManager[OpenBaseFile | None]:
        read, path = self._read, self._read.split.base_path
        if path is None:
            return nullcontext()
        keep = read.is_selective or read.request.row_filter is not None
        return open_base_file(read.storage, read.split, path, use_threads=read.use_threads, keep_footer=keep)
