"""Finds the blocks of log files, and the blocks that count for a query.

All blocks of an instant are applied at the position of its first block, as in Hudi 1.2 and the optimized scan of
earlier releases. Their default scan keeps the file order, and does not know log compactions: it merges the originals,
and then the block that replaces them.

Source: ``HoodieLogFileReader``; ``scanInternal`` of ``BaseHoodieLogRecordReader``, V1 and V2 before 1.2.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.block import BytesInMemory, ByteSource, LogBlock, parse_block
from hudi_bridge.logformat.layout import (
    MAGIC,
    MIN_BLOCK_SIZE,
    SIZE_FIELD,
    UNCOUNTED_SIZE,
    BlockType,
    HeaderKey,
)
from hudi_bridge.logformat.native import native_block, parse_native_log_name


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptBlock:
    """A damaged part of a log file that was skipped; ``offset`` is where its magic begins."""

    path: str
    offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """The blocks of one log file, and the damaged parts between them, both in file order."""

    blocks: tuple[LogBlock, ...]
    corrupt: tuple[CorruptBlock, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedBlocks:
    """How many blocks were skipped, by reason. Source: ``BaseHoodieLogRecordReader.scanInternal`` of Hudi.

    ``corrupt``: incomplete blocks of a failed writer, which Hudi skips as well.
    ``later``: written after the query's instant. ``uncommitted``: of an instant that is not completed.
    ``rolled_back``: undone by a rollback block. ``compacted``: replaced by the block of a log compaction.

    Made by ``HudiDataset.skipped_log_blocks``.
    """

    corrupt: int
    later: int
    uncommitted: int
    rolled_back: int
    compacted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBlocks:
    """The data and delete blocks that count, in the order in which to apply them: oldest first.

    ``instants`` has the instants of all data and delete blocks, including skipped ones. Another query gets the same
    result if the same of these instants are committed, and the same ones are later than its own.
    """

    blocks: tuple[LogBlock, ...]
    skipped: SkippedBlocks
    instants: frozenset[str]


def scan_blocks(data: bytes | memoryview | pa.Buffer, path: str) -> ScanResult:
    """All blocks of one log file; skips and reports the damage that a crashed writer can leave behind.

    Args:
        data: the whole file, in memory or mapped; contents of blocks are slices of it.
        path: the file, for errors.

    Raises:
        CorruptLogFileError: the file does not start with a block, or the parts of a block do not fill it.
        UnsupportedTableError: a block has an unknown version or type.
    """
    return scan_source(BytesInMemory(data), path)


def scan_source(source: ByteSource, path: str) -> ScanResult:
    """As ``scan_blocks``, for any source of bytes; it decides how much of the contents is read."""
    if (name := parse_native_log_name(path)) is not None:
        return ScanResult(blocks=(native_block(source, name, path),), corrupt=())
    blocks: list[LogBlock] = []
    corrupt: list[CorruptBlock] = []
    offset = 0
    # Hudi ignores trailing bytes that are shorter than a magic.
    while source.size - offset >= len(MAGIC):
        magic = source.at(offset, len(MAGIC))
        if magic != MAGIC:
            raise CorruptLogFileError(path, offset, repr(magic), repr(MAGIC))
        damage = _damage(source, offset)
        if damage is None:
            block = parse_block(source, offset, path)
            blocks.append(block)
            offset += block.size_bytes
            continue
        corrupt.append(CorruptBlock(path=path, offset=offset, reason=damage))
        offset = source.next_magic(offset + len(MAGIC))
    return ScanResult(blocks=tuple(blocks), corrupt=tuple(corrupt))


def block_before(source: ByteSource, end: int, path: str) -> LogBlock | None:
    """The block that ends at ``end``, found by the length at its end; None if it is not complete, or a native log file.

    Raises:
        CorruptLogFileError: the parts of the block do not fill it.
        UnsupportedTableError: the block has an unknown version or type.
    """
    if end < UNCOUNTED_SIZE + MIN_BLOCK_SIZE or parse_native_log_name(path) is not None:
        return None
    # The length at the end includes the magic, but not the size field.
    (length,) = SIZE_FIELD.unpack(source.at(end - SIZE_FIELD.size, SIZE_FIELD.size))
    offset = end - SIZE_FIELD.size - length
    if not 0 <= offset <= end - UNCOUNTED_SIZE - MIN_BLOCK_SIZE or source.at(offset, len(MAGIC)) != MAGIC:
        return None
    (size,) = SIZE_FIELD.unpack(source.at(offset + len(MAGIC), SIZE_FIELD.size))
    return parse_block(source, offset, path) if size + len(MAGIC) == length else None


def _damage(source: ByteSource, offset: int) -> str | None:
    """What is wrong with the block at ``offset``; None if it is whole."""
    body = offset + UNCOUNTED_SIZE
    if body > source.size:
        return "the file ends in the block's size field"
    (size,) = SIZE_FIELD.unpack(source.at(offset + len(MAGIC), SIZE_FIELD.size))
    end = body + size
    if size < MIN_BLOCK_SIZE:
        return f"size {size} is too small for a block"
    if end > source.size:
        return f"the block ends at byte {end}, the file at {source.size}"
    # Reads the end of the block and the next magic at once.
    tail = source.at(end - SIZE_FIELD.size, SIZE_FIELD.size + len(MAGIC))
    (trailing,) = SIZE_FIELD.unpack_from(tail)
    if trailing != size + len(MAGIC):
        return f"the size field says {size}, the trailing length {trailing}"
    following = tail[SIZE_FIELD.size :]
    if len(following) == len(MAGIC) and following != MAGIC:
        return "neither a block nor the end of the file follows"
    return None


def live_blocks(
    scans: Iterable[ScanResult],
    *,
    latest_instant: str | None,
    is_valid: Callable[[str], bool],
    replaces_compacted: bool,
) -> LiveBlocks:
    """The blocks that count for a query.

    A rollback block undoes the blocks of its target *before* it, in this file or an earlier one, whatever the
    rollback's own instant. Blocks of change data never count.

    Args:
        scans: the log files of a file slice, in log file order.
        latest_instant: the query's instant; None for no limit.
        is_valid: whether an instant is committed.
        replaces_compacted: whether the block of a log compaction counts in place of its originals, or after them.

    Raises:
        CorruptLogFileError: a block lacks its instant.
        UnsupportedTableError: a command is not a rollback.
    """
    by_instant: dict[str, list[LogBlock]] = {}
    all_instants: set[str] = set()
    corrupt = later = uncommitted = rolled_back = 0
    for scan in scans:
        corrupt += len(scan.corrupt)
        for block in scan.blocks:
            if block.block_type is BlockType.COMMAND:
                rolled_back += len(by_instant.pop(_rollback_target(block), ()))
                continue
            if not block.holds_records:
                continue
            instant = block.instant_time
            if instant is None:
                raise CorruptLogFileError(
                    block.path, block.offset, "a block without INSTANT_TIME", "the instant that wrote it"
                )
            all_instants.add(instant)
            if latest_instant is not None and instant > latest_instant:
                later += 1
            elif not is_valid(instant):
                uncommitted += 1
            else:
                by_instant.setdefault(instant, []).append(block)
    instants = _without_replaced(by_instant) if replaces_compacted else list(by_instant)
    blocks = tuple(block for instant in instants for block in by_instant[instant])
    compacted = sum(map(len, by_instant.values())) - len(blocks)
    skipped = SkippedBlocks(
        corrupt=corrupt, later=later, uncommitted=uncommitted, rolled_back=rolled_back, compacted=compacted
    )
    return LiveBlocks(blocks=blocks, skipped=skipped, instants=frozenset(all_instants))


def _rollback_target(block: LogBlock) -> str:
    if not block.is_rollback:
        command = block.header.get(HeaderKey.COMMAND_BLOCK_TYPE)
        raise UnsupportedTableError(
            "command block", f"command {command!r} in {block.path} at byte {block.offset}", "0 (rollback)"
        )
    target = block.target_instant_time
    if target is None:
        raise CorruptLogFileError(
            block.path, block.offset, "a rollback without TARGET_INSTANT_TIME", "the instant it takes back"
        )
    return target


def _without_replaced(by_instant: dict[str, list[LogBlock]]) -> list[str]:
    """The instants whose blocks are applied, oldest first; ``by_instant`` is in file order.

    The block of a log compaction replaces the blocks of the instants that it lists, at the position of the newest of
    them. Without any of them, it does not count. A later log compaction may list an earlier one, and then replaces its
    instants too. From the newest instant to the oldest, the last compaction of such a chain comes first.
    """
    replaced_by: dict[str, str] = {}
    newest_first: dict[str, None] = {}
    for instant in reversed(by_instant):
        originals = by_instant[instant][0].compacted_block_times
        final = replaced_by.get(instant, instant)
        if originals:
            replaced_by.update(dict.fromkeys(originals, final))
        if not originals:
            newest_first.setdefault(final)
    return list(reversed(newest_first))
