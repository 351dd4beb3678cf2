"""Finds the files that may hold versions of a record key, and its versions: rows of base files, records of log files.

Of a base file, only what its indexes and statistics do not rule out is read. Log files that a snapshot does not read
are searched too, and versions that do not count are returned as such.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import QueryType
from hudi_bridge.errors import DataFileGoneError, HudiReadError
from hudi_bridge.indexes.footer_index import FooterAnswer, footer_index
from hudi_bridge.inspection.log_files import WhyNotCounted
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.scan import ScanResult, scan_blocks
from hudi_bridge.merge.arrays import Booleans, Positions, ordering_values
from hudi_bridge.merge.record_map import LogRecords, selected
from hudi_bridge.merge.rules import IS_DELETED_COLUMN, MergeRule
from hudi_bridge.readers.base_file import OpenBaseFile
from hudi_bridge.readers.base_formats.opening import open_base_file
from hudi_bridge.readers.block_decoder import BlockDecoder, RecordPositions
from hudi_bridge.readers.log_scan import live_blocks_of, read_log_file
from hudi_bridge.readers.request import RowRequest, log_memory_bytes
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.schema.meta_columns import OPERATION_COLUMN
from hudi_bridge.splits.file_slice import parse_log_file_name
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.storage import FileInfo, Storage
from hudi_bridge.timeline.instant_files import GroupId
from hudi_bridge.tools.trace.verdicts import RecordVersion, UncountedVersion, UnreadablePlace


class BaseCheck(StrEnum):
    """How far a base file was read to find a key."""

    NO_BASE_FILE = "not there"
    KEY_RANGE = "ruled out by key range"
    BLOOM_FILTER = "ruled out by Bloom filter"
    READ = "read"


_CHECKS = {
    FooterAnswer.OUT_OF_RANGE: BaseCheck.KEY_RANGE,
    FooterAnswer.NOT_IN_FILTER: BaseCheck.BLOOM_FILTER,
    FooterAnswer.MAY_HOLD: BaseCheck.READ,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRows:
    """The rows of a key in a base file, with all columns of the query.

    ``positions`` are the positions of the rows among the ``file_rows`` rows of the file.
    """

    check: BaseCheck
    file_rows: int
    rows: pa.RecordBatch
    positions: Positions


def find_base_rows(storage: Storage, split: RealtimeFileSplit, record_key: str) -> BaseRows:
    """The rows of a key in the base file of a split; several only if a writer allowed duplicates.

    Raises:
        CorruptBaseFileError: the file is not valid Parquet, or the key range or Bloom filter in its footer is damaged.
        DataFileGoneError: the file no longer exists.
    """
    if split.base_path is None:
        return _nothing(split, BaseCheck.NO_BASE_FILE)
    check = _CHECKS[footer_index(storage, split).ask(record_key)]
    if check is not BaseCheck.READ:
        return _nothing(split, check)
    with open_base_file(storage, split, split.base_path, use_threads=False) as base:
        return _read(base, split, record_key)


def base_versions(base: BaseRows, split: RealtimeFileSplit, rule: MergeRule | None) -> tuple[RecordVersion, ...]:
    """The rows as versions, with ordering values if the rule compares them."""
    fields = rule.ordering_fields if rule is not None and rule.uses_ordering else ()
    rows = (pa.Table.from_batches([base.rows.slice(number, 1)]) for number in range(base.rows.num_rows))
    return tuple(
        RecordVersion(
            instant_time=split.base_instant_time,
            path=split.base_path or "",
            block_number=None,
            offset=None,
            ordering=tuple(ordering_values(name, row)[0].as_py() for name in fields),
            delete=None,
            is_partial=False,
            absent=frozenset(),
            is_delete=False,
            always_deletes=False,
            marked=False,
            row=row,
        )
        for row in rows
    )


def _nothing(split: RealtimeFileSplit, check: BaseCheck) -> BaseRows:
    rows = pa.RecordBatch.from_pylist([], schema=split.context.schema)
    return BaseRows(check=check, file_rows=0, rows=rows, positions=np.zeros(0, dtype=np.int64))


def _read(base: OpenBaseFile, split: RealtimeFileSplit, record_key: str) -> BaseRows:
    context = split.context
    keys = base.view(context.key_columns)
    groups = keys.matching_row_groups(RowRequest.of(context.schema, (), _key_filter(context, record_key)))
    positions: list[int] = []
    batches = []
    for group in groups:
        start = int(base.row_group_starts[group])
        hits: list[int] = []
        for batch in keys.batches(group):
            equal = pc.equal(record_keys(batch, context), pa.scalar(record_key)).fill_null(False)  # noqa: FBT003
            hits += (np.flatnonzero(equal.to_numpy(zero_copy_only=False)) + start).tolist()
            start += batch.num_rows
        if hits:
            batches += _rows_at(base, context, group, hits)
            positions += hits
    return BaseRows(
        check=BaseCheck.READ if groups else BaseCheck.KEY_RANGE,
        file_rows=base.num_rows,
        rows=pa.Table.from_batches(batches, context.schema).combine_chunks().to_batches()[0]
        if batches
        else _nothing(split, BaseCheck.READ).rows,
        positions=np.array(positions, dtype=np.int64),
    )


def _rows_at(base: OpenBaseFile, context: ReadContext, group: int, positions: list[int]) -> list[pa.RecordBatch]:
    """The rows of a row group at ascending positions in the file, with all columns."""
    everything = base.view(context.schema.names)
    start = int(base.row_group_starts[group])
    batches = []
    for stored in everything.stored_batches(group):
        end = start + stored.num_rows
        indices = [position - start for position in positions if start <= position < end]
        if indices:
            batches.append(everything.evolve(stored.take(pa.array(indices, pa.int64()))))
        if positions[-1] < end:
            break
        start = end
    return batches


def _key_filter(context: ReadContext, record_key: str) -> pc.Expression | None:
    """A filter for the key, to be compared with row group statistics; None if the key's text does
    not determine the value.
    """
    names = context.key_columns
    kind = context.schema.field(names[0]).type
    if len(names) > 1 or not (pa.types.is_string(kind) or pa.types.is_integer(kind)):
        return None
    try:
        return pc.field(names[0]) == pa.scalar(record_key).cast(kind)
    except pa.ArrowInvalid:
        return None


def slices_to_search(
    planner: SplitPlanner, partition_path: str | None, row_filter: pc.Expression | None = None
) -> list[tuple[RealtimeFileSplit, tuple[str, ...]]]:
    """The splits of the snapshot, each with the log files of its file group that the snapshot does not read.

    With a path, only splits of this partition are returned; partitions that the filter rules out are left out. A file
    group with only such log files is a split without files.
    """
    partition_path = partition_path and partition_path.strip("/")
    context = planner.context(QueryType.SNAPSHOT)
    within = None if partition_path is None else (partition_path,)
    planned = planner.splits(QueryType.SNAPSHOT, row_filter, within=within)
    splits = {(split.partition_path, split.file_id): split for split in planned}
    others: dict[GroupId, list[str]] = {group: [] for group in splits}
    for path in planner.files.partitions(planner.columns(QueryType.SNAPSHOT), row_filter, within=within):
        for file_id, log_path in _uncounted_log_files(planner.files.in_partition(path, must_exist=False), context):
            others.setdefault((path, file_id), []).append(log_path)
    slices = []
    for group in sorted(others):
        split = splits.get(group) or planner.split_without_files(group)
        # In older layouts, log files written after a pending compaction have its instant, and a snapshot reads them.
        slices.append((split, tuple(path for path in others[group] if path not in split.log_paths)))
    return slices


def _uncounted_log_files(files: Iterable[FileInfo], context: ReadContext) -> list[tuple[str, str]]:
    """File ids and paths of the log files that a snapshot does not read, by their names, in log file order.

    Log files of earlier file slices are left out, because their records are in a base file.
    """
    names = ((parse_log_file_name(info.name), info.path) for info in files)
    uncounted = [
        (name, path)
        for name, path in names
        if name is not None
        and not name.is_cdc
        and (name.instant_time > context.latest_instant or not context.is_committed(name.instant_time))
    ]
    uncounted.sort(key=lambda item: item[0].sort_key)
    return [(name.file_id, path) for name, path in uncounted]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogVersions:
    """The versions of a key in log files.

    ``versions`` are the versions that count, in merge order; ``blocks`` has the same versions as merge input, one entry
    per block. With ``by_position``, base rows are matched by positions, which every block that counts stores.
    """

    versions: tuple[RecordVersion, ...]
    blocks: tuple[LogRecords, ...]
    by_position: bool
    uncounted: tuple[UncountedVersion, ...]
    unreadable: tuple[UnreadablePlace, ...]


def find_log_versions(
    storage: Storage,
    split: RealtimeFileSplit,
    rule: MergeRule,
    record_key: str,
    other_paths: Sequence[str],
    *,
    base_rows: int,
) -> LogVersions:
    """The versions of a key in the log files of a split, and in ``other_paths``: uncounted log files of its file group.

    If ``base_rows``, the number of rows of the base file, is not 0, every block is decoded to get the positions of its
    records. Holds the log files in memory, or maps them from disk if they are larger than the memory for logs.

    Raises:
        CorruptLogFileError: a log file of the split is damaged in a way that Hudi does not skip.
        DataFileGoneError: a log file of the split no longer exists.
    """
    scans = scan_logs(storage, split)
    live = live_blocks_of(split, scans.values()).blocks
    others, unreadable = scan_other_logs(storage, split, other_paths)
    scans |= others
    for scan in scans.values():
        unreadable += [UnreadablePlace(path=bad.path, offset=bad.offset, reason=bad.reason) for bad in scan.corrupt]
    record_positions = RecordPositions(split, live, base_rows)
    search = _KeySearch(split, rule, record_key, scans, record_positions)
    by_position = record_positions.are_complete and search.have_positions(live)
    blocks = []
    versions: list[RecordVersion] = []
    for block in live:
        records = search.complete_records(block)
        if records is not None:
            blocks.append(records)
            versions += search.versions(block, records)
    uncounted, undecodable = search.uncounted({(block.path, block.offset) for block in live})
    return LogVersions(
        versions=tuple(versions),
        blocks=tuple(blocks),
        by_position=by_position,
        uncounted=tuple(uncounted),
        unreadable=(*unreadable, *undecodable),
    )


def scan_logs(storage: Storage, split: RealtimeFileSplit) -> dict[str, ScanResult]:
    """The blocks of the log files of a split, by path, oldest first; raises like ``find_log_versions``."""
    return {path: _scan_log(storage, split, path, size) for path, size in split.log_files}


def _scan_log(storage: Storage, split: RealtimeFileSplit, path: str, size_bytes: int | None) -> ScanResult:
    on_disk = split.log_size_bytes > log_memory_bytes(split.context)
    return scan_blocks(read_log_file(storage, split, path, size_bytes, on_disk=on_disk), path)


def scan_other_logs(
    storage: Storage, split: RealtimeFileSplit, paths: Sequence[str]
) -> tuple[dict[str, ScanResult], list[UnreadablePlace]]:
    """The blocks of log files that do not count, without files that are gone, and the files that cannot be read."""
    scans = {}
    unreadable = []
    for path in paths:
        try:
            scans[path] = _scan_log(storage, split, path, None)
        except DataFileGoneError:
            continue  # The rollback of an unfinished write may remove its files at any time.
        except HudiReadError as error:
            unreadable.append(UnreadablePlace(path=path, offset=None, reason=str(error)))
    return scans, unreadable


class _KeySearch:
    """Searches for a key in the blocks of log files, given in log file order."""

    def __init__(
        self,
        split: RealtimeFileSplit,
        rule: MergeRule,
        record_key: str,
        scans: Mapping[str, ScanResult],
        record_positions: RecordPositions,
    ) -> None:
        self._split = split
        self._rule = rule
        self._record_key = record_key
        self._blocks = [block for scan in scans.values() for block in scan.blocks]
        self._numbers = {
            (block.path, block.offset): number
            for scan in scans.values()
            for number, block in enumerate(scan.blocks, start=1)
        }
        self._bytes_of_key = re.compile(re.escape(record_key.encode("utf-8", "surrogatepass")))
        self._key_decoder = BlockDecoder(split, (), record_positions=record_positions)
        self._row_decoder = BlockDecoder(split, split.context.schema.names, record_positions=record_positions)

    def have_positions(self, blocks: Iterable[LogBlock]) -> bool:
        """Whether all records of blocks have valid positions in the base file."""
        return all(self._key_decoder.decode(block).base_positions is not None for block in blocks)

    def complete_records(self, block: LogBlock) -> LogRecords | None:
        """The records of the key in a block, with all columns of the query; None if there are none."""
        records = self.records(block)
        if records is None or records.rows is None:
            return records
        complete = self._row_decoder.decode(block)
        return selected(complete, self._is_of_key(complete))

    def records(self, block: LogBlock) -> LogRecords | None:
        """The records of the key in a block, with the columns that merging needs; None if there are none."""
        if self._stores_keys_as_text(block) and self._bytes_of_key.search(memoryview(block.content)) is None:
            return None
        records = self._key_decoder.decode(block)
        mask = self._is_of_key(records)
        return selected(records, mask) if mask.any() else None

    def records_of_uncounted(self, block: LogBlock) -> LogRecords | None:
        """As ``complete_records``, but with the columns that merging needs if others cannot be read."""
        try:
            return self.complete_records(block)
        except HudiReadError:
            return self.records(block)

    def _stores_keys_as_text(self, block: LogBlock) -> bool:
        """Whether the block has the UTF-8 bytes of its record keys, uncompressed."""
        return block.kind.has_plain_rows and self._split.context.populates_meta_fields

    def versions(self, block: LogBlock, records: LogRecords) -> Iterator[RecordVersion]:
        """Yields the records of a block as versions, with the block's number and offset."""
        for index in range(len(records.keys)):
            row = None if records.rows is None else pa.Table.from_batches([records.rows.slice(index, 1)])
            yield RecordVersion(
                instant_time=block.instant_time or "",
                path=block.path,
                block_number=self._numbers[block.path, block.offset],
                offset=block.offset,
                ordering=tuple(column[index].as_py() for column in records.ordering),
                delete="delete block" if row is None else _delete_text(row, self._rule, marked=records.marked[index]),
                is_partial=block.is_partial,
                absent=records.absent,
                is_delete=bool(records.is_delete[index]),
                always_deletes=bool(records.always_deletes[index]),
                marked=bool(records.marked[index]),
                row=self._split.context.schema.empty_table() if row is None else row,
            )

    def uncounted(self, counted: set[tuple[str, int]]) -> tuple[list[UncountedVersion], list[UnreadablePlace]]:
        """The versions in blocks that are not in ``counted``, and the blocks that cannot be decoded."""
        uncounted_versions: list[UncountedVersion] = []
        undecodable = []
        context = self._split.context
        why_not = WhyNotCounted(self._blocks, context.latest_instant, context.is_committed, context.pending_instants)
        for block in self._blocks:
            if not block.holds_records or (block.path, block.offset) in counted:
                continue
            reason = why_not.of(block)
            try:
                records = self.records_of_uncounted(block)
            except HudiReadError as error:
                undecodable.append(UnreadablePlace(path=block.path, offset=block.offset, reason=f"{reason}; {error}"))
                continue
            if records is not None:
                versions = self.versions(block, records)
                uncounted_versions += [UncountedVersion(version=version, reason=reason) for version in versions]
        return uncounted_versions, undecodable

    def _is_of_key(self, records: LogRecords) -> Booleans:
        equal = pc.equal(records.keys, pa.scalar(self._record_key)).fill_null(False)  # noqa: FBT003
        mask: Booleans = equal.to_numpy(zero_copy_only=False)
        return mask


def _delete_text(row: pa.Table, rule: MergeRule, *, marked: bool) -> str | None:
    values = row.to_pylist()[0]
    if values.get(IS_DELETED_COLUMN) is True:
        return IS_DELETED_COLUMN
    if values.get(OPERATION_COLUMN) in rule.precedence.delete_operations:
        return f"{OPERATION_COLUMN} {values[OPERATION_COLUMN]}"
    return " = ".join(rule.delete_marker) if marked and rule.delete_marker is not None else None
