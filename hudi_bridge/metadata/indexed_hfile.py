"""Reads the cells of some keys of an HFile: by its index, then of the blocks that may hold them."""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hudi_bridge.caching import cached_property
from hudi_bridge.logformat.hfile import (
    HFileCells,
    IndexEntry,
    find_cells,
    read_cells,
    read_lower_index,
    read_root_index,
)
from hudi_bridge.logformat.hfile_blocks import DATA_MAGIC, HFileSource, HFileTrailer, block_at, parse_trailer

# Blocks that are read at once, and bytes between them that are read rather than asked for in another request.
_MOST_AT_ONCE = 1 << 22
_MAX_GAP = 1 << 16
FEW_KEYS = 64
"""Of so many keys, only their cells are looked at in a block; of more, all cells are read."""
_SEARCHES_FOR_ALL = 8
"""Reading all cells of a block takes longer than that many searches for one key."""
_MAX_LEVELS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The keys from ``start`` on and, unless it is None, before ``end``, both as UTF-8."""

    start: bytes
    end: bytes | None

    @classmethod
    def of_prefix(cls, prefix: bytes) -> "KeyRange":
        """The range of the keys with a prefix, which is not empty."""
        return cls(start=prefix, end=prefix[:-1] + bytes([prefix[-1] + 1]))


class IndexedHFile(ABC):
    """An HFile, of which at least the end has been read: the index is there."""

    _searched = 0

    @property
    def is_searched_through(self) -> bool:
        """Whether blocks were searched so often for keys that all of them had better be read, once."""
        return self._searched >= _SEARCHES_FOR_ALL * len(self._root)

    @property
    @abstractmethod
    def _tail(self) -> HFileSource:
        """The end of the file, with the root index."""

    @abstractmethod
    def _window(self, entries: Sequence[IndexEntry]) -> HFileSource:
        """A part of the file with blocks that are close together."""

    @property
    def entries(self) -> int:
        """The number of cells."""
        return self._trailer.entry_count

    def cells_of_keys(self, keys: Sequence[bytes]) -> Iterator[HFileCells]:
        """The cells of some keys, which are in order; if they are many, of all keys of the blocks that may hold them.

        Raises:
            CorruptTableError: the file is damaged.
            StorageError: the file cannot be read.
        """
        if not keys:
            return iter(())
        return self._cells(_blocks_of_keys(self._root, keys), self._levels, keys)

    def cells_of_range(self, wanted: KeyRange | None = None) -> Iterator[HFileCells]:
        """All cells of the blocks that may hold keys of a range, of all blocks if it is None; raises as for keys."""
        return self._cells(_blocks_of_range(self._root, wanted), self._levels, wanted)

    def _cells(
        self, entries: Sequence[IndexEntry], levels: int, wanted: Sequence[bytes] | KeyRange | None
    ) -> Iterator[HFileCells]:
        if levels == 0:
            for part in _read_together(entries):
                yield from self._read_blocks(part, wanted)
            return
        for part in _read_together(entries):
            source = self._window(part)
            below = (entry for block in part for entry in read_lower_index(source, self._trailer, block.offset))
            yield from self._cells(_narrowed(tuple(below), wanted), levels - 1, wanted)

    def _read_blocks(
        self, entries: Sequence[IndexEntry], wanted: Sequence[bytes] | KeyRange | None
    ) -> Iterator[HFileCells]:
        source = self._window(entries)
        blocks = [block_at(source, entry.offset, DATA_MAGIC) for entry in entries]
        if wanted is None or isinstance(wanted, KeyRange) or len(wanted) > FEW_KEYS:
            yield read_cells(source, self._trailer, blocks)
            return
        self._searched += len(blocks) * len(wanted)
        for block in blocks:
            yield find_cells(source, self._trailer, block, wanted)

    @cached_property
    def _trailer(self) -> HFileTrailer:
        return parse_trailer(self._tail)

    @cached_property
    def _root(self) -> tuple[IndexEntry, ...]:
        if self._trailer.data_index_count:
            return read_root_index(self._tail, self._trailer)
        if self._trailer.entry_count:
            raise self._tail.corrupt(
                0, f"{self._trailer.entry_count} entries without an index", "an index of the blocks"
            )
        return ()

    @property
    def _levels(self) -> int:
        """The number of index levels below the root."""
        levels = self._trailer.index_levels
        if not 0 <= levels <= _MAX_LEVELS:
            raise self._tail.corrupt(0, f"{levels} index levels", f"at most {_MAX_LEVELS}")
        return max(0, levels - 1)


class HFileInMemory(IndexedHFile):
    """An HFile that has been read as a whole."""

    def __init__(self, source: HFileSource) -> None:
        """The HFile of a source with all of its bytes."""
        self._source = source

    @property
    def _tail(self) -> HFileSource:
        return self._source

    def _window(self, entries: Sequence[IndexEntry]) -> HFileSource:
        del entries
        return self._source


def _narrowed(entries: tuple[IndexEntry, ...], wanted: Sequence[bytes] | KeyRange | None) -> Sequence[IndexEntry]:
    if wanted is None or isinstance(wanted, KeyRange):
        return _blocks_of_range(entries, wanted)
    return _blocks_of_keys(entries, wanted)


def _blocks_of_keys(entries: tuple[IndexEntry, ...], keys: Sequence[bytes]) -> Sequence[IndexEntry]:
    """The blocks that may hold one of the keys, in order: each may hold those from its own key to that of the next."""
    starts = [entry.key for entry in entries]
    return [entries[place] for place in sorted({bisect_right(starts, key) - 1 for key in keys}) if place >= 0]


def _blocks_of_range(entries: tuple[IndexEntry, ...], wanted: KeyRange | None) -> Sequence[IndexEntry]:
    if wanted is None:
        return entries
    starts = [entry.key for entry in entries]
    last = len(starts) if wanted.end is None else bisect_left(starts, wanted.end)
    return entries[max(0, bisect_right(starts, wanted.start) - 1) : last]


def _read_together(entries: Sequence[IndexEntry]) -> Iterator[list[IndexEntry]]:
    """The entries in parts that are close together in the file, each small enough to be read at once."""
    part: list[IndexEntry] = []
    for entry in entries:
        if part:
            end = part[-1].offset + part[-1].size_bytes
            is_near = 0 <= entry.offset - end <= _MAX_GAP
            if not is_near or entry.offset + entry.size_bytes - part[0].offset > _MOST_AT_ONCE:
                yield part
                part = []
        part.append(entry)
    if part:
        yield part
