"""Finds the versions of a record key in log files, including versions that do not count."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import DataFileGoneError, HudiReadError
from hudi_bridge.inspection.log_files import WhyNotCounted
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.scan import ScanResult, live_blocks, scan_blocks
from hudi_bridge.merge.arrays import Booleans
from hudi_bridge.merge.record_map import LogRecords, selected
from hudi_bridge.merge.rules import IS_DELETED_COLUMN, MergeRule
from hudi_bridge.readers.block_decoder import BlockDecoder, RecordPositions
from hudi_bridge.readers.log_scan import read_log_file
from hudi_bridge.readers.request import log_memory_bytes
from hudi_bridge.schema.meta_columns import OPERATION_COLUMN
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage
from hudi_bridge.tools.trace.verdicts import RecordVersion, UncountedVersion, UnreadablePlace


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
    live = live_blocks(scans.values(), latest_instant=split.latest_instant, is_valid=split.context.is_committed).blocks
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
