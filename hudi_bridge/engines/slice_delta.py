"""The effect of the log files of a file slice on its base file, for engines that read base files themselves.

An engine reads the base file without the rows at ``deleted_positions``, and adds ``rows``; or it merges ``log_records``
itself. If ``base_file.reason_incompatible`` returns a reason, it uses ``open_reader``.

An engine may join base rows with log records by a record key field instead of the record key, so that conditions on the
field reach both sides of the join. How a field becomes a record key depends on the key generator and on the release of
Hudi, so nothing is assumed: every row of the base file is looked up both ways.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.caching import cached_property
from hudi_bridge.engines.stored_base_file import BYTES_ELSEWHERE, StoredBaseFile, stored_base_file
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.arrays import Booleans, Column, Positions
from hudi_bridge.merge.columnar import FileSliceMerger
from hudi_bridge.merge.record_map import LogRecordMap
from hudi_bridge.readers.base_file import OpenBaseFile
from hudi_bridge.readers.base_formats.opening import open_base_file
from hudi_bridge.readers.blobs import BlobFiles, blob_columns
from hudi_bridge.readers.log_scan import LogScan
from hudi_bridge.readers.lsm_slices import LogRuns, LsmSlice
from hudi_bridge.readers.merging import MergeInParts, ReplacedRows
from hudi_bridge.readers.request import RowRequest, SliceRead
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.splits.planner import Split
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

_OF_TREE = "in an LSM tree, rows of one key in its base file are merged, too"
_TYPES = (pa.string(), pa.int32(), pa.int64())
"""Types whose values are equal in SQL as in Arrow."""


def single_key_field(context: ReadContext) -> str | None:
    """The only record key field of a table; None if there are several, or if it is nested or in the partition path."""
    if len(context.record_key_fields) != 1:
        return None
    (name,) = context.record_key_fields
    if name not in context.schema.names or name in context.path_columns:
        return None
    return name if context.schema.field(name).type in _TYPES else None


HEEDED_BY_ENGINES = frozenset(
    {
        "after_row",
        "after_delete",
        "after_unordered_delete",
        "over_base_row",
        "nulls_as_zero",
        "marked_in_logs",
        "flag_deletes_base",
        "orders_as_0x",
        "ordering_fields",
        "delete_marker",
        "fill",
        "fills_in_logs",
        "newest_meta",
        "payload",
        "sequences_against_base",
        "equal_sequences_keep_base",
        "sequences_in_logs",
    }
)
"""The behaviours of rules that an engine must support to merge ``SurvivingLogRecords`` with base rows."""


class KeyFieldLookup:
    """Compares lookups of base rows by a record key field with lookups by record key.

    ``values`` are the field's values in the log records; deletes have no fields, so they have the record key.
    ``is_same`` is whether all base rows so far have matched the same log records both ways.
    """

    def __init__(self, name: str, values: Column, keys: Column) -> None:
        self.name = name
        self.values = values
        given: Any = values.drop_null()
        self.is_same = len(given.unique()) == len(given)
        self._is_key = values.equals(keys)

    @classmethod
    def of(cls, log: LogRecordMap, context: ReadContext) -> Self | None:
        """The lookup for log records; None without a key field to look up by."""
        name = single_key_field(context)
        if name is None or name not in log.rows.schema.names:
            return None
        rows = log.rows.column(name)
        try:
            deletes = log.keys.slice(len(rows)).cast(rows.type)
        except pa.ArrowInvalid:
            return None
        return cls(name, pa.concat_arrays([*rows.chunks, deletes]), log.keys)

    def look_up(self, fields: Column, keys: Column, matched: Column) -> None:
        """Compares the lookups for a batch of base rows; ``matched`` has the log records that match ``keys``."""
        if self.is_same and not (self._is_key and fields.equals(keys)):
            by_field: Column = pc.index_in(fields, value_set=self.values, skip_nulls=True)
            self.is_same = by_field.equals(matched)


@dataclass(frozen=True, slots=True, kw_only=True)
class SurvivingLogRecords:
    """The surviving log version of each record key, with what an engine needs to merge it with its base row.

    All arrays have one entry for each record key; deletes come last, and their ``rows`` are null.

    Attributes:
        keys: the record keys.
        rows: the rows.
        ordering: one array for each ordering field to compare with the base row.
        is_delete: marks records that remove the base row if they win.
        compares_as_delete: marks records that the merge rule compares as deletes.
        always_deletes: marks deletes without an ordering value.
        contested: marks the records that an engine has to compare with their base rows. A user's payload merges them.
        merges_fields: whether the result takes fields of both rows.
        unset: for each column, the records in which it is unset.
        key_values: the values of a record key field by which base rows match the same log records as by record key; for
            a delete, the values of its base row. Empty if there is no such field.

    Made by ``SliceDelta.log_records``.
    """

    keys: Column
    rows: pa.RecordBatch
    ordering: tuple[Column, ...]
    is_delete: Booleans
    compares_as_delete: Booleans
    always_deletes: Booleans
    contested: Booleans
    merges_fields: bool
    unset: Mapping[str, Booleans]
    key_values: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.keys)


class SliceDelta:
    """The effect of the logs of one file slice on its base file: a context manager that opens the base file when
    entered.

    Entering raises as described for ``slice_delta``. Holds the log records of the slice, and a batch of the base file,
    in memory. Log records that exceed the memory for logs are merged in parts.

    Made by ``slice_delta``.
    """

    def __init__(self, read: SliceRead) -> None:
        self._read = read
        self._open_files = ExitStack()
        self._base: OpenBaseFile | None = None
        self._deleted_positions: Positions | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of ``rows``."""
        return self._read.schema

    def __enter__(self) -> Self:
        read = self._read
        if read.split.base_path is not None:
            base = open_base_file(read.storage, read.split, read.split.base_path, use_threads=read.use_threads)
            self._base = self._open_files.enter_context(base)
        return self

    def __exit__(self, *_: object) -> None:
        self._open_files.close()

    @cached_property
    def base_file(self) -> StoredBaseFile | None:
        """The base file as stored, and whether an engine can read it in place; None for a slice without one."""
        return None if self._base is None else stored_base_file(self._read.split, self._base)

    @cached_property
    def counted_instants(self) -> Mapping[str, bool]:
        """For the instant of each log block, whether its blocks count.

        The delta stays the same as long as these and the files of the slice do.

        Raises:
            CorruptLogFileError: a log file is damaged in a way that Hudi does not skip.
            DataFileGoneError: a log file no longer exists.
        """
        scan = self._log_runs or self._log_scan
        instants = sorted(scan.instants) if scan is not None else ()
        return {instant: self._read.context.counts(instant) for instant in instants}

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows that replace deleted ones, and the new rows, in batches with ``schema``.

        Raises:
            HudiReadError: a file of the slice cannot be read, or records cannot be merged.
        """
        if self._merge is not None:
            sources = self._read.context.blob_sources
            names = blob_columns(self.schema) if sources else ()
            files = BlobFiles(self._read.storage, sources)
            sink = ReplacedRows(self._read.request)
            for rows in self._merge.merge(sink):
                yield from files.filled(rows, names) if names else (rows,)
            self._deleted_positions = sink.positions

    @property
    def deleted_positions(self) -> Positions:
        """Ascending positions in the base file, from 0, of the rows that the logs delete or replace.

        They are known once ``rows`` is exhausted. Otherwise, keys and ordering values of the base file are read to find
        them.

        Raises:
            HudiReadError: a file of the slice cannot be read, or records cannot be merged.
        """
        if self._deleted_positions is None:
            sink = ReplacedRows(self._read.request)
            if self._merge is not None:
                self._merge.match(sink)
            self._deleted_positions = sink.positions
        return self._deleted_positions

    def log_records(self) -> SurvivingLogRecords | str | None:
        """The surviving log records for an engine that merges them with base rows, or the reason why it must not.

        None if there are no log files to merge. Only the record keys and their field are read from the base file.

        Raises:
            HudiReadError: a file of the slice cannot be read, or log records cannot be merged.
        """
        context = self._read.context
        if self._log_runs is not None:
            return _OF_TREE
        scan = self._log_scan
        if scan is None:
            return None
        rule = self._read.rule
        if rule.payload is not None and rule.payload.changes_inserts:
            return "its payload changes rows that have no base row"
        if context.blob_sources and blob_columns(context.schema):
            return BYTES_ELSEWHERE
        if rule.precedence.asks_about_deletes:
            return "its merger decides about deletes"
        rule.require_heeded(HEEDED_BY_ENGINES, "an engine that merges")
        if scan.parts > 1:
            return "its log records are larger than the memory for them"
        log = scan.records()
        lookup = KeyFieldLookup.of(log, context)
        matched = self._times_matched(log, lookup)
        if matched.max(initial=0) > 1:
            return "its base file has several rows of one record key"
        key_values = {lookup.name: lookup.values} if lookup is not None and lookup.is_same else {}
        return self._surviving_records(log, matched > 0, key_values)

    def why_keys_not_unique(self) -> str | None:
        """The reason why a join by record key matches other base rows than a merge; None if it matches the same.

        Reads the record keys of the base file.

        Raises:
            HudiReadError: the base file cannot be read.
        """
        if self._log_runs is not None:
            return _OF_TREE
        if self._base is None:
            return None
        context = self._read.context
        columns = self._base.view(dict.fromkeys(context.key_columns))
        read = (record_keys(rows, context) for group in self._base.row_groups for rows in columns.batches(group))
        keys = pa.chunked_array(read, pa.string()).drop_null()
        if pc.count_distinct(keys).as_py() < len(keys):
            return "its base file has several rows of one record key"
        return None

    @cached_property
    def _log_runs(self) -> LogRuns | None:
        """The log files of an LSM tree; None of others, and without logs."""
        if not self._read.has_logs or not self._read.context.is_lsm_tree:
            return None
        return self._open_files.enter_context(LogRuns(self._read))

    @cached_property
    def _log_scan(self) -> LogScan | None:
        if not self._read.has_logs or self._log_runs is not None:
            return None
        return LogScan(self._read, base_rows=0 if self._base is None else self._base.num_rows)

    @cached_property
    def _merge(self) -> MergeInParts | LsmSlice | None:
        logs, scan = self._log_runs, self._log_scan
        if logs is not None:
            # Without logs that count, no row of the base file is changed.
            return LsmSlice(self._read, self._base, logs.live, adds_alone=True) if logs.live else None
        return None if scan is None else MergeInParts(self._read, scan, self._base)

    def _times_matched(
        self, log: LogRecordMap, lookup: KeyFieldLookup | None
    ) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """The number of base rows with the key of each log record."""
        times = np.zeros(len(log), dtype=np.int64)
        if self._base is None:
            return times
        context = self._read.context
        fields = () if lookup is None else (lookup.name,)
        columns = self._base.view(dict.fromkeys((*context.key_columns, *fields)))
        for group in self._base.row_groups:
            for rows in columns.batches(group):
                keys = record_keys(rows, context)
                matched: Column = pc.index_in(keys, value_set=log.keys)
                times += np.bincount(matched.drop_null().to_numpy(zero_copy_only=False), minlength=len(log))
                if lookup is not None:
                    lookup.look_up(rows.column(lookup.name), keys, matched)
        return times

    def _surviving_records(
        self, log: LogRecordMap, has_base_row: Booleans, key_values: Mapping[str, Column]
    ) -> SurvivingLogRecords:
        rule = self._read.rule
        merger = FileSliceMerger(log, rule, self._read.context.defaults)
        is_delete = log.is_delete
        # A record that wins over any base row need not be compared, unless fields of both are merged.
        is_settled = merger.wins_always & (is_delete | ~np.bool_(merger.merges_rows))
        rows = log.rows.select(list(self._read.request.columns))
        deletes = len(log) - rows.num_rows
        nulls = pa.record_batch([pa.nulls(deletes, field.type) for field in rows.schema], schema=rows.schema)
        return SurvivingLogRecords(
            keys=log.keys,
            rows=pa.concat_batches([*rows.combine_chunks().to_batches(), nulls]),  # type: ignore[attr-defined]
            ordering=log.ordering if rule.orders_base else (),
            is_delete=is_delete,
            compares_as_delete=merger.compares_as_delete,
            always_deletes=log.always_deletes,
            contested=has_base_row & ~is_settled,
            merges_fields=merger.merges_rows and rule.payload is None,
            unset={name: np.append(unset, np.zeros(deletes, dtype=np.bool_)) for name, unset in log.unset.items()},
            key_values=key_values,
        )


def slice_delta(
    split: Split,
    *,
    columns: Sequence[str] | None = None,
    filesystem: Any = None,  # noqa: ANN401 - of any library
) -> SliceDelta:
    """The effect of the logs of a file slice on its base file, in some of its columns (default: all).

    Nothing but the split is needed; ``filesystem`` is as for ``HudiTable.open``. Entering the result opens the base
    file and reads its footer; everything else is read on demand.

    Raises:
        QueryError: the split does not belong to a snapshot or read-optimized query, or a column does not exist.
        CorruptBaseFileError: when entered, the base file is not Parquet.
        DataFileGoneError: when entered, the base file no longer exists.
    """
    return slice_delta_in(split.context.open_storage(filesystem), split, columns)


def slice_delta_in(
    storage: Storage,
    split: Split,
    columns: Sequence[str] | None = None,
    *,
    use_threads: bool = False,
    at_once: int = 1,
) -> SliceDelta:
    """As ``slice_delta``, with an open storage. With ``use_threads``, threads decode the base file while logs are
    decoded.

    ``at_once`` slices are read at the same time and share the memory for logs.
    """
    context = split.context
    if not isinstance(split, RealtimeFileSplit) or context.commit_times is not None:
        raise QueryError("split", "one of a range of commits", "one of a snapshot or read-optimized query")
    context.require_no_completion_times("the delta of a slice")
    request = RowRequest.of(context.schema, columns)
    return SliceDelta(
        SliceRead(storage=storage, split=split, request=request, use_threads=use_threads, at_once=at_once)
    )
