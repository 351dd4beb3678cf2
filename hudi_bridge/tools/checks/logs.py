"""Checks of the log files of the newest slices, by the headers and footers of their blocks."""

import struct
from collections.abc import Iterator, Mapping

from hudi_bridge.common.caching import cached_property
from hudi_bridge.errors import CorruptTableError, HudiReadError
from hudi_bridge.logformat.block import LogBlock, stored_positions
from hudi_bridge.logformat.layout import BlockType, HeaderKey
from hudi_bridge.logformat.scan import CorruptBlock, ScanResult
from hudi_bridge.schema.avro import parse_avro_schema
from hudi_bridge.splits.file_slice import FileSlice, LogFile
from hudi_bridge.timeline.instant_files import WriteStat
from hudi_bridge.tools.checks.examined import Examined, Footer
from hudi_bridge.tools.checks.findings import Finding, Severity, of_error, quoted, remedy_of

_BLOCKS, _INSTANTS, _SIZES, _POSITIONS = "log-blocks", "log-instants", "log-sizes", "record-positions"
_COUNTED = struct.Struct(">ii")
"""The start of the content of an Avro block: its version, and the number of records."""
_WITHOUT_POSITIONS = "in Hudi, read with hoodie.merge.use.record.positions=false; then compact"


class LogChecks:
    """The checks of log files, which share parsed schemas and the statistics of writes."""

    def __init__(self, examined: Examined) -> None:
        self._examined = examined
        self._schemas: dict[str, CorruptTableError | None] = {}

    def blocks(self) -> Iterator[Finding]:
        """Every block is whole, and its header has what its type needs."""
        for _, log, scan in self._scans():
            if isinstance(scan, HudiReadError):
                yield _of_error(scan, log.path)
                continue
            for corrupt in scan.corrupt:
                yield self._of_damage(corrupt)
            for block in scan.blocks:
                yield from self._header(block)

    def instants(self) -> Iterator[Finding]:
        """The instants of blocks are on the timeline, and the instants that rollbacks undo are not."""
        timeline = self._examined.timeline
        pending = timeline.pending_times()
        undone = self._undone()
        for file_slice, log, scan in self._scans():
            if isinstance(scan, HudiReadError):
                continue
            for block in scan.blocks:
                time = block.instant_time
                if time is None:
                    continue
                own = log.name.instant_time
                is_foreign = self._examined.logs_name_their_own_instant and time != own and block.holds_records
                if is_foreign and timeline.contains(own) and log.path not in self._examined.written.get(time, ()):
                    yield Finding(
                        severity=Severity.WARNING,
                        check=_INSTANTS,
                        path=log.path,
                        offset=block.offset,
                        found=f"a block of the instant {quoted(time)}",
                        expected=f"{own}, as the file is named",
                        remedy="readers go by the block; tables that were upgraded may have such files",
                    )
                if block.holds_records and not timeline.is_committed(time) and (file_slice, time) not in undone:
                    is_pending = time in pending
                    yield Finding(
                        severity=Severity.INFO if is_pending else Severity.WARNING,
                        check=_INSTANTS,
                        path=log.path,
                        offset=block.offset,
                        found=f"a block of the instant {quoted(time)}, which "
                        + ("has not completed" if is_pending else "the timeline does not know"),
                        remedy=None if is_pending else "readers skip it; compaction removes it",
                    )
                target = block.target_instant_time if block.is_rollback else None
                if target is not None and timeline.contains(target) and target < time:
                    yield Finding(
                        severity=Severity.ERROR,
                        check=_INSTANTS,
                        path=log.path,
                        offset=block.offset,
                        found=f"a rollback of the instant {quoted(target)}, which is completed",
                        expected="a rollback of a failed write",
                        remedy="readers leave out what that write has logged before; compare with a backup",
                    )

    def _undone(self) -> set[tuple[FileSlice, str | None]]:
        """The instants that rollback blocks undo, each with its slice: the rollback block may be in a later file."""
        return {
            (file_slice, block.target_instant_time)
            for file_slice, _, scan in self._scans()
            if not isinstance(scan, HudiReadError)
            for block in scan.blocks
            if block.is_rollback
        }

    def sizes(self) -> Iterator[Finding]:
        """Log files are as long as the commits state that wrote them."""
        for _, log, scan in self._scans():
            stats = self._stats.get(log.path, ())
            if not stats or isinstance(scan, HudiReadError):
                continue
            longest = max(stat.file_size_bytes for _, stat in stats)
            # In stores without append, each write makes a new file; elsewhere, files grow.
            if longest > log.size_bytes:
                yield Finding(
                    severity=Severity.ERROR,
                    check=_SIZES,
                    path=log.path,
                    found=f"{log.size_bytes} bytes",
                    expected=f"at least {longest}, as the commit {stats[-1][0]} says",
                    remedy="restore the file from a backup: what was cut off is lost",
                )

    def positions(self) -> Iterator[Finding]:
        """Record positions are bitmaps of existing rows of the base file."""
        for file_slice, log, scan in self._scans():
            if isinstance(scan, HudiReadError):
                continue
            for block in scan.blocks:
                if block.record_positions is not None:
                    yield from self._positions_of(block, file_slice, log)

    def _positions_of(self, block: LogBlock, file_slice: FileSlice, log: LogFile) -> Iterator[Finding]:
        base_instant = block.base_file_instant_of_positions
        if base_instant is None:
            return
        count = _records(block)
        try:
            positions = stored_positions(block)
        except CorruptTableError as error:
            yield of_error(error, severity=Severity.ERROR, check=_POSITIONS, path=log.path, remedy=_WITHOUT_POSITIONS)
            return
        if count is not None and len(positions) != count:
            yield Finding(
                severity=Severity.INFO,
                check=_POSITIONS,
                path=log.path,
                offset=block.offset,
                found=f"{len(positions)} positions of the {count} records of a block",
                remedy="readers go by record keys instead",
            )
            return
        base = file_slice.base_file
        footer = (
            self._examined.footers.get(base.path) if base is not None and base.instant_time == base_instant else None
        )
        if isinstance(footer, Footer) and len(positions) and positions.max() >= footer.rows:
            yield Finding(
                severity=Severity.ERROR,
                check=_POSITIONS,
                path=log.path,
                offset=block.offset,
                found=f"the position {positions.max()} in the base file of {quoted(base_instant)}",
                expected=f"positions below {footer.rows}, the number of its rows",
                remedy=_WITHOUT_POSITIONS,
            )

    def _header(self, block: LogBlock) -> Iterator[Finding]:
        missing = []
        if block.instant_time is None:
            missing.append(HeaderKey.INSTANT_TIME)
        if block.is_data and block.schema_text is None:
            missing.append(HeaderKey.SCHEMA)
        if block.block_type is BlockType.COMMAND and (not block.is_rollback or block.target_instant_time is None):
            missing.append(HeaderKey.TARGET_INSTANT_TIME)
        if missing:
            yield Finding(
                severity=Severity.ERROR,
                check=_BLOCKS,
                path=block.path,
                offset=block.offset,
                found=f"a {block.block_type.name} block without " + ", ".join(key.name for key in missing),
                expected="these header entries, without which readers fail",
                remedy="restore the file from a backup",
            )
        if block.schema_text is not None and (error := self._error_in(block.schema_text, block)) is not None:
            yield _of_error(error, block.path)

    def _error_in(self, schema_text: str, block: LogBlock) -> CorruptTableError | None:
        if schema_text not in self._schemas:
            self._schemas[schema_text] = None
            try:
                parse_avro_schema(schema_text, block.path, block.offset)
            except CorruptTableError as error:
                self._schemas[schema_text] = error
        return self._schemas[schema_text]

    def _of_damage(self, corrupt: CorruptBlock) -> Finding:
        """The finding for a damaged block: an error if it lies in the bytes that a completed write has recorded."""
        covering = next(
            (
                time
                for time, stat in self._stats.get(corrupt.path, ())
                if stat.log_offset <= corrupt.offset < max(stat.file_size_bytes, stat.log_offset + 1)
            ),
            None,
        )
        actual = f"a damaged block: {corrupt.reason}"
        if covering is None:
            return Finding(
                severity=Severity.WARNING,
                check=_BLOCKS,
                path=corrupt.path,
                offset=corrupt.offset,
                found=actual,
                expected="whole blocks",
                remedy="readers skip it, as it may be of a writer that crashed; if none has, its rows are lost",
            )
        return Finding(
            severity=Severity.ERROR,
            check=_BLOCKS,
            path=corrupt.path,
            offset=corrupt.offset,
            found=actual,
            expected=f"a whole block, since the commit {covering} has written it",
            remedy="restore the file from a backup: readers skip the block without an error",
        )

    def _scans(self) -> Iterator[tuple[FileSlice, LogFile, ScanResult | HudiReadError]]:
        for file_slice in self._examined.slices:
            for log in file_slice.log_files:
                if log.path in self._examined.log_heads:
                    yield file_slice, log, self._examined.log_heads[log.path]

    @cached_property
    def _stats(self) -> Mapping[str, list[tuple[str, WriteStat]]]:
        """The statistics in completed writes for each log file, oldest first."""
        stats: dict[str, list[tuple[str, WriteStat]]] = {}
        for time, commit in self._examined.commits.items():
            for stat in commit.write_stats:
                stats.setdefault(stat.path, []).append((time, stat))
        return stats


def _of_error(error: HudiReadError, path: str) -> Finding:
    remedy = remedy_of(error, "restore the file from a backup; no reader can read it")
    return of_error(error, severity=Severity.ERROR, check=_BLOCKS, path=path, remedy=remedy)


def _records(block: LogBlock) -> int | None:
    """The number of records of a block; None if its content does not start with it."""
    if block.kind.has_plain_rows and block.content.size >= _COUNTED.size:
        count: int = _COUNTED.unpack_from(block.content)[1]
        return count
    return None
