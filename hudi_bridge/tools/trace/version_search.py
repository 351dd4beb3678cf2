"""Finds versions of records by any column: rows of base files and records of log blocks, even if they do not count."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.threads import iter_parallel
from hudi_bridge.config import QueryType
from hudi_bridge.errors import HudiReadError
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.merge.arrays import Column
from hudi_bridge.merge.record_map import LogRecords
from hudi_bridge.readers.block_decoder import BlockDecoder
from hudi_bridge.readers.log_scan import live_blocks_of
from hudi_bridge.readers.request import RowRequest, SplitRead
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.split_reader import reader_for
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.storage import Storage
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import InstantLike
from hudi_bridge.tools.trace.key_search import scan_logs, scan_other_logs, slices_to_search

PARTITION_PATH, RECORD_KEY, ROW = "partition_path", "record_key", "row"

_GROUPS_AT_ONCE = 2
_LOG = logging.getLogger(__name__)


def _version_schema(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """The columns of ``find_versions``, for these columns of a table."""
    fields = [schema.field(name) for name in columns]
    return pa.schema([(PARTITION_PATH, pa.string()), (RECORD_KEY, pa.string()), (ROW, pa.struct(fields))])


def find_versions(
    table: HudiTable,
    filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
    columns: Sequence[str] | None = None,
    *,
    partition_path: str | None = None,
    as_of: InstantLike | None = None,
) -> pa.RecordBatchReader:
    """The versions of records that pass a filter, including versions that lost or do not count, in no particular order.

    They are the rows of base files and the records of log files that ``history_of`` searches for one key. The columns
    are ``partition_path``, ``record_key`` as ``history_of`` takes it, and ``row``, a struct of ``columns``. A column
    that a partial update leaves out is null.

    Only row groups of base files that may have such rows are read; all blocks of log files are decoded. Damaged blocks,
    and blocks that do not count and cannot be decoded, are skipped with a warning.

    Args:
        table: the table.
        filter: an expression over the table's columns, by default none.
        columns: the columns to return, by default all.
        partition_path: limits the search to one partition.
        as_of: as for ``HudiTable.snapshot``.

    Raises:
        QueryError: a column or the filter does not fit the table, or the instant has none of Hudi's formats.
        InstantNotReadableError: files of that instant were removed, or an earlier write has not completed.
        HudiReadError: while versions are read, the errors of ``HudiDataset.to_batches``.
    """
    planner = SplitPlanner(table.planner(as_of).state)
    schema = planner.schema(QueryType.SNAPSHOT)
    request = RowRequest.of(schema, columns, filter)
    versions = _iter_versions(planner, request, partition_path)
    return pa.RecordBatchReader.from_batches(_version_schema(schema, request.columns), versions)


def _iter_versions(planner: SplitPlanner, request: RowRequest, partition_path: str | None) -> Iterator[pa.RecordBatch]:
    """The batches of ``find_versions``.

    Raises:
        CorruptTableError: a file of the snapshot is damaged.
        DataFileGoneError: a file of the snapshot no longer exists.
        UnsupportedTableError: the table's records cannot be merged correctly.
    """
    context, storage = planner.context(QueryType.SNAPSHOT), planner.state.storage
    if not context.schema.names:
        return
    slices = slices_to_search(planner, partition_path, request.row_filter)
    sources = [partial(_of_group, storage, context, request, *group) for group in slices]
    with closing(iter_parallel(sources, at_once=_GROUPS_AT_ONCE)) as batches:
        yield from batches


def _of_group(
    storage: Storage, context: ReadContext, request: RowRequest, split: RealtimeFileSplit, other_paths: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    needed = tuple(dict.fromkeys((*request.needed, *context.key_columns)))
    if split.base_path is not None:
        base = replace(split, log_paths=(), log_sizes=(), log_size_bytes=0)
        base_request = replace(request, columns=needed)
        read = SplitRead(storage=storage, split=base, request=base_request, use_threads=False)
        for batch in reader_for(read).batches():
            yield from _passing_versions(batch, record_keys(batch, context), request, split, is_filtered=True)
    if context.merge_rule is not None:
        yield from _of_logs(storage, request, split, other_paths)


def _of_logs(
    storage: Storage, request: RowRequest, split: RealtimeFileSplit, other_paths: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    scans = scan_logs(storage, split)
    live = live_blocks_of(split, scans.values()).blocks
    counted = {(block.path, block.offset) for block in live}
    others, unreadable = scan_other_logs(storage, split, other_paths)
    for unreadable_place in unreadable:
        _LOG.warning("%s is not searched: %s", unreadable_place.path, unreadable_place.reason)
    decoder = BlockDecoder(split, request.needed)
    for scan in (scans | others).values():
        for corrupt in scan.corrupt:
            _LOG.warning("%s at byte %d is not searched: %s", corrupt.path, corrupt.offset, corrupt.reason)
        for block in scan.blocks:
            if block.holds_records:
                must_be_read = (block.path, block.offset) in counted
                for records in _records(decoder, block, must_be_read=must_be_read):
                    if records.rows is not None:
                        yield from _passing_versions(records.rows, records.keys, request, split)


def _records(decoder: BlockDecoder, block: LogBlock, *, must_be_read: bool) -> Iterator[LogRecords]:
    try:
        yield from decoder.decode_in_chunks(block)
    except HudiReadError as error:
        if must_be_read:
            raise
        _LOG.warning("%s at byte %d is not searched: %s", block.path, block.offset, error)


def _passing_versions(
    rows: pa.RecordBatch, keys: Column, request: RowRequest, split: RealtimeFileSplit, *, is_filtered: bool = False
) -> Iterator[pa.RecordBatch]:
    if request.row_filter is not None and not is_filtered:
        passes = pa.array(request.passes(rows.select(list(request.filter_columns))))
        rows, keys = rows.filter(passes), keys.filter(passes)
    if rows.num_rows:
        schema = _version_schema(split.context.schema, request.columns)
        structs = pa.StructArray.from_arrays(
            [rows.column(name) for name in request.columns], fields=list(schema.field(ROW).type)
        )
        paths = pa.repeat(split.partition_path, rows.num_rows)
        yield pa.record_batch([paths, pc.cast(keys, pa.string()), structs], schema=schema)
