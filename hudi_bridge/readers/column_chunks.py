"""Fetches the column chunks of a base file in a store: those that are close together in one request."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.ranges import FileOfRanges
from hudi_bridge.threads import Workers, map_in_threads

_REQUESTS_AT_ONCE = 4
_REQUEST_BYTES = 1 << 23
_MOST_GAP_BYTES = 1 << 20
"""Bytes between two column chunks that are fetched with them: a further request would take longer."""
_MOST_AHEAD_BYTES = 1 << 26
"""The bytes of a row group that are fetched while the one before is decoded; the rest follow."""
_MOST_HELD_BYTES = 1 << 28
"""Column chunks of a row group that take more are read piece by piece, as they are decoded."""

Range = tuple[int, int]
"""The offset of the first byte and that after the last."""

_Wanted = tuple[int, tuple[str, ...]]
"""A row group and top-level columns of it."""


class ColumnChunks:
    """The column chunks of one base file, which are in memory while they are decoded."""

    def __init__(self, file: FileOfRanges, footer: pq.FileMetaData) -> None:
        self._file = file
        self._footer = footer
        self._ahead: tuple[_Wanted, Workers[list[int]]] | None = None

    def are_large(self, row_group: int, columns: Iterable[str]) -> bool:
        """Whether these columns of a row group are better not in memory as a whole."""
        return sum(end - start for start, end in _chunks(self._footer, row_group, columns)) > _MOST_HELD_BYTES

    @contextmanager
    def fetched(self, row_group: int, columns: Iterable[str], then: int | None = None) -> Iterator[None]:
        """A context in which top-level columns of a row group are in memory.

        A background thread fetches those of the row group that is read ``then``.
        """
        names = tuple(columns)
        held = [*self._fetched_ahead((row_group, names)), *self._file.take_first()]
        try:
            held += self.fetch(row_group, names)
            if then is not None:
                self._begin((then, names))
            yield
        finally:
            for number in held:
                self._file.release(number)

    def close(self) -> None:
        """Stop what is being fetched."""
        if self._ahead is not None:
            _, workers = self._ahead
            workers.stopped = True
            workers.end()

    def _begin(self, wanted: _Wanted) -> None:
        self.close()
        workers = Workers([lambda: iter([self.fetch(*wanted, _MOST_AHEAD_BYTES)])], 1, 1)
        self._ahead = (wanted, workers)
        workers.start()

    def _fetched_ahead(self, wanted: _Wanted) -> list[int]:
        """What was fetched in the background, unless that was something else."""
        if self._ahead is None or self._ahead[0] != wanted:
            return []
        [held] = self._ahead[1].items()
        self.close()
        self._ahead = None
        return held

    def fetch(self, row_group: int, columns: Iterable[str], most_bytes: int | None = None) -> list[int]:
        """Hold top-level columns of a row group; returns the numbers with which to release what was not held before.

        With ``most_bytes``, those that come first in the file are held, up to that many bytes.
        """
        chunks = sorted(self._within_file(_chunks(self._footer, row_group, columns)))
        new = [one for one in chunks if not self._file.holds(one[0], one[1] - one[0])]
        if most_bytes is not None:
            sizes = accumulate(end - start for start, end in new)
            new = [one for one, size in zip(new, sizes, strict=True) if size <= most_bytes]
        missing = merged_ranges(new)
        contents = [pa.allocate_buffer(end - start) for start, end in missing]
        pieces = [piece for one, content in zip(missing, contents, strict=True) for piece in _pieces(one, content)]
        map_in_threads(lambda piece: self._file.read_into(*piece), pieces, _REQUESTS_AT_ONCE)
        return [self._file.hold(start, content) for (start, _), content in zip(missing, contents, strict=True)]

    def _within_file(self, ranges: Iterable[Range]) -> Iterator[Range]:
        """The ranges up to the end of the file; a damaged footer may name others."""
        for start, end in ranges:
            if 0 <= start < min(end, self._file.size_bytes):
                yield start, min(end, self._file.size_bytes)


def _chunks(footer: pq.FileMetaData, row_group: int, columns: Iterable[str]) -> list[Range]:
    """Where the chunks of top-level columns are; those of columns that the file does not have are left out."""
    wanted = set(columns)
    group = footer.row_group(row_group)
    ranges = []
    for number in range(group.num_columns):
        chunk = group.column(number)
        path = chunk.path_in_schema
        # A name may hold dots.
        if path in wanted or any(path[:place] in wanted for place, sign in enumerate(path) if sign == "."):
            starts = [one for one in (chunk.dictionary_page_offset, chunk.data_page_offset) if one]
            start = min(starts, default=0)
            ranges.append((start, start + chunk.total_compressed_size))
    return ranges


def merged_ranges(ranges: Iterable[Range]) -> list[Range]:
    """The ranges in ascending order; those that overlap or are close together are one."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start - merged[-1][1] <= _MOST_GAP_BYTES:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _pieces(whole: Range, content: pa.Buffer) -> Iterator[tuple[memoryview, int]]:
    """The parts of a range that one request each has to fill, with their offsets in the file."""
    view = memoryview(content).cast("B")
    for begin in range(0, len(view), _REQUEST_BYTES):
        yield view[begin : begin + _REQUEST_BYTES], whole[0] + begin
