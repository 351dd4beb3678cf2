"""The bytes of log files -> their blocks, and which of them count for a query.

``scan_blocks`` follows ``HoodieLogFileReader``: damage that a crashed writer can leave behind is stepped over
and reported. ``live_blocks`` follows ``BaseHoodieLogRecordReader.scanInternal`` of Hudi 1.x, which is also
the optimized scan of 0.15. The plain scan of 0.15 keeps blocks strictly in the order they arrive, where this
one puts all blocks of an instant at the instant's first block, and knows no log compaction; apart from that
the two agree.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pyarrow as pa

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.block import LogBlock, parse_block
from hudi_bridge.logformat.layout import (
    MAGIC,
    MIN_BLOCK_SIZE,
    SIZE_FIELD,
    UNCOUNTED_SIZE,
    BlockType,
    HeaderKey,
)

# A regular expression, because it searches any buffer in place and ``bytes.find`` would need a copy.
_NEXT_MAGIC = re.compile(re.escape(MAGIC))


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptBlock:
    """A damaged stretch of a log file that was stepped over; ``offset`` is the place of its magic."""

    path: str
    offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """All blocks of one log file in file order, and what was damaged between them."""

    blocks: tuple[LogBlock, ...]
    corrupt: tuple[CorruptBlock, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedBlocks:
    """How many blocks did not count, and why.

    ``later``: written after the query's instant. ``uncommitted``: of an instant that is not completed.
    ``rolled_back``: taken back by a rollback block. ``compacted``: replaced by the block of a log compaction.
    """

    corrupt: int
    later: int
    uncommitted: int
    rolled_back: int
    compacted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBlocks:
    """The data and delete blocks that count, oldest first: the order in which they are to be applied.

    ``instants`` are those of all data and delete blocks, whether or not they count: as long as the query's instant lies
    on the same side of each, and the same of them are committed, the same blocks count.
    """

    blocks: tuple[LogBlock, ...]
    skipped: SkippedBlocks
    instants: frozenset[str]


def scan_blocks(data: bytes | memoryview | pa.Buffer, path: str) -> ScanResult:
    """All blocks of one log file; ``data`` is the whole file, in memory or mapped, and contents are slices of
    it.

    Raises:
        CorruptLogFileError: the file does not start with a block, or a whole block contradicts itself.
        UnsupportedTableError: a block is of an unknown version or type.
    """
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    view = memoryview(buffer)
    blocks: list[LogBlock] = []
    corrupt: list[CorruptBlock] = []
    offset = 0
    # Fewer bytes than a magic are the end of the file to Hudi, whatever they are.
    while len(view) - offset >= len(MAGIC):
        if view[offset : offset + len(MAGIC)] != MAGIC:
            raise CorruptLogFileError(path, offset, repr(bytes(view[offset : offset + len(MAGIC)])), repr(MAGIC))
        damage = _damage(view, offset)
        if damage is None:
            block = parse_block(buffer, offset, path)
            blocks.append(block)
            offset += block.size_bytes
            continue
        corrupt.append(CorruptBlock(path=path, offset=offset, reason=damage))
        found = _NEXT_MAGIC.search(view, offset + len(MAGIC))
        offset = len(view) if found is None else found.start()
    return ScanResult(blocks=tuple(blocks), corrupt=tuple(corrupt))


def _damage(view: memoryview, offset: int) -> str | None:
    """Why the block at ``offset`` is not whole; None if it is."""
    body = offset + UNCOUNTED_SIZE
    if body > len(view):
        return "the file ends in the block's size field"
    (size,) = SIZE_FIELD.unpack_from(view, offset + len(MAGIC))
    end = body + size
    if size < MIN_BLOCK_SIZE:
        return f"size {size} is too small for a block"
    if end > len(view):
        return f"the block ends at byte {end}, the file at {len(view)}"
    (trailing,) = SIZE_FIELD.unpack_from(view, end - SIZE_FIELD.size)
    if trailing != size + len(MAGIC):
        return f"the size field says {size}, the trailing length {trailing}"
    following = view[end : end + len(MAGIC)]
    if len(following) == len(MAGIC) and following != MAGIC:
        return "neither a block nor the end of the file follows"
    return None


def live_blocks(
    scans: Iterable[ScanResult], *, latest_instant: str | None, is_valid: Callable[[str], bool]
) -> LiveBlocks:
    """The blocks that count among log files given in log file order.

    ``latest_instant`` is the query's instant, None for no limit; ``is_valid`` says whether an instant is
    committed. A rollback block takes back what its target wrote *before* it, in this file or an earlier one,
    and is obeyed whatever its own instant. Blocks of change data never count.

    Raises:
        CorruptLogFileError: a block lacks the instant it belongs to.
        UnsupportedTableError: a command is not a rollback.
    """
    by_instant: dict[str, list[LogBlock]] = {}
    seen: set[str] = set()
    corrupt = later = uncommitted = rolled_back = 0
    for scan in scans:
        corrupt += len(scan.corrupt)
        for block in scan.blocks:
            if block.block_type is BlockType.COMMAND:
                rolled_back += len(by_instant.pop(_rollback_target(block), ()))
                continue
            if not (block.is_data or block.block_type is BlockType.DELETE):
                continue
            instant = block.instant_time
            if instant is None:
                raise CorruptLogFileError(
                    block.path, block.offset, "a block without INSTANT_TIME", "the instant that wrote it"
                )
            seen.add(instant)
            if latest_instant is not None and instant > latest_instant:
                later += 1
            elif not is_valid(instant):
                uncommitted += 1
            else:
                by_instant.setdefault(instant, []).append(block)
    instants = _instants_to_apply(by_instant)
    blocks = tuple(block for instant in instants for block in by_instant[instant])
    compacted = sum(map(len, by_instant.values())) - len(blocks)
    skipped = SkippedBlocks(
        corrupt=corrupt, later=later, uncommitted=uncommitted, rolled_back=rolled_back, compacted=compacted
    )
    return LiveBlocks(blocks=blocks, skipped=skipped, instants=frozenset(seen))


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


def _instants_to_apply(by_instant: dict[str, list[LogBlock]]) -> list[str]:
    """The instants whose blocks are applied, oldest first; ``by_instant`` is in order of arrival.

    The block of a log compaction stands in for the instants it lists, at the place of the newest of them, and
    nowhere else. A compaction of compactions stands in for all that those listed: walking from the newest
    instant to the oldest meets the last compaction of a chain first.
    """
    replaced_by: dict[str, str] = {}
    newest_first: dict[str, None] = {}
    for instant in reversed(by_instant):
        originals = by_instant[instant][0].compacted_block_times
        final = replaced_by.get(instant, instant)
        if originals:
            replaced_by.update(dict.fromkeys(originals, final))
        else:
            newest_first.setdefault(final)
    return list(reversed(newest_first))
