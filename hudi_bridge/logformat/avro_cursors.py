"""Reads many Avro datums at once: one cursor per datum, all moved together.

A value must end within its own datum; otherwise the error names the datum.

Source: "Binary Encoding" of the Avro specification.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
_Words = npt.NDArray[np.uint64]

WORD_BYTES = 8
# Hudi's writers hold a block in one Java byte array, and Arrow's 32-bit offsets reach no further either.
MAX_BYTES = 2**31 - 1

_CONTINUATION_BIT = 0x80
_MAX_VARINT_BYTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DatumBytes:
    """The bytes of a block; its datums begin at ``starts``.

    ``path`` and ``block_offset`` are those of the block, for errors.
    """

    buffer: pa.Buffer
    data: Bytes
    starts: Ints
    path: str
    block_offset: int

    @classmethod
    def of(cls, buffer: pa.Buffer, starts: Ints, path: str, block_offset: int) -> "DatumBytes":
        """The bytes of ``buffer``, padded to at least one word.

        Raises:
            UnsupportedTableError: there are more bytes than Hudi can write.
        """
        if buffer.size > MAX_BYTES:
            raise UnsupportedTableError("log block", f"{buffer.size} bytes", f"up to {MAX_BYTES} bytes")
        if buffer.size < WORD_BYTES:
            buffer = pa.py_buffer(buffer.to_pybytes().ljust(WORD_BYTES, b"\0"))
        data = np.frombuffer(memoryview(buffer), np.uint8)
        return cls(buffer=buffer, data=data, starts=starts, path=path, block_offset=block_offset)

    def corrupt(self, position: int, found: str, expected: str) -> CorruptLogFileError:
        """The error for what was found at ``position``; it names the record of the block."""
        record = int(np.searchsorted(self.starts, position, side="right")) - 1
        location = f"record {max(record, 0)} of the block (byte {position} of its content)"
        return CorruptLogFileError(self.path, self.block_offset, f"{found} in {location}", expected)

    def windows(self, positions: Ints, width: int) -> Bytes:
        """The ``width`` bytes from each position on, as one row each; they must lie within the data."""
        if not width:
            return np.empty((positions.size, width), np.uint8)
        return windows_at(self.data, positions, width).view(np.uint8).reshape(-1, width)

    def words(self, positions: Ints) -> _Words:
        """The eight bytes from each position on as a little-endian number; zeros after the end of the data."""
        last = self.data.size - WORD_BYTES
        if positions.max(initial=0) <= last:
            return self.windows(positions, WORD_BYTES).view(np.dtype("<u8")).reshape(-1)
        inside = np.minimum(positions, last)
        words = self.words(inside)
        return words >> ((positions - inside) * 8).astype(np.uint64)


def windows_at(data: Bytes, positions: Ints, width: int) -> npt.NDArray[np.void]:
    """The ``width`` bytes from each position on, which lie within the data, as one item each; one byte at least."""
    if not positions.size:
        return np.empty(0, f"V{width}")
    # A view of overlapping items of a void type lets NumPy copy whole windows, which is faster than bytes.
    return np.ndarray((data.size - width + 1,), f"V{width}", data.data, strides=(1,))[positions]


class Cursors:
    """The current position in each datum, and its end. Arrays that methods return are never modified later."""

    __slots__ = ("end", "pos", "source")

    def __init__(self, source: DatumBytes, pos: Ints, end: Ints) -> None:
        self.source = source
        self.pos = pos
        self.end = end

    def __len__(self) -> int:
        return self.pos.size

    def select(self, index: Ints) -> "Cursors":
        """Independent cursors for the datums at ``index``."""
        return Cursors(self.source, self.pos[index], self.end[index])

    def resume(self, index: Ints, moved: "Cursors") -> None:
        """Moves the cursors at ``index`` to the positions of ``moved``, which came from ``select(index)``."""
        self.move(index, moved.pos)

    def move(self, index: Ints, positions: Ints) -> None:
        """Sets the positions of the cursors at ``index``."""
        self.pos = self.pos.copy()
        self.pos[index] = positions

    def refuse(self, where: Bools, found: str, expected: str) -> None:
        """Raises CorruptLogFileError for the first datum where ``where`` is true, if any."""
        # The fastest way to ask whether any is true.
        if np.count_nonzero(where):
            raise self.source.corrupt(int(self.pos[where.argmax()]), found, expected)

    def skip(self, lengths: Ints | int, what: str) -> Ints:
        """Moves the cursors by ``lengths`` bytes; returns where they were."""
        self.refuse(lengths > self.end - self.pos, f"{what} that runs past the end", "the record's own bytes")
        starts = self.pos
        self.pos = starts + lengths
        return starts

    def lengths(self, what: str) -> Ints:
        """The next lengths; not yet compared with the bytes that are left."""
        lengths = self.varints(what)
        self.refuse(lengths < 0, f"{what} of negative length", "a length")
        return lengths

    def fixed(self, width: int, what: str) -> Bytes:
        """The next ``width`` bytes, one row for each datum."""
        return self.source.windows(self.skip(width, what), width)

    def varints(self, what: str) -> Ints:
        """The next ints or longs: zigzag-encoded varints."""
        self.refuse(self.pos >= self.end, f"the end before {what}", "the record's remaining fields")
        first = self.source.data[self.pos]
        if first.max(initial=0) < _CONTINUATION_BIT:
            self.pos = self.pos + 1
            return ((first >> 1).view(np.int8) ^ -(first & 1).view(np.int8)).astype(np.int64)
        unsigned, lengths = self._unsigned(first)
        self.refuse(lengths > _MAX_VARINT_BYTES, f"{what} of more than 64 bits", "a number of at most 64 bits")
        self.skip(lengths, what)
        return ((unsigned >> 1) ^ (0 - (unsigned & 1))).view(np.int64)

    def common_number(self, most: int) -> int | None:
        """The next int or long, if it is the same for all cursors, from 0 to ``most``, and in one byte.

        Otherwise, none of the cursors moves.
        """
        if not self.pos.size or np.count_nonzero(self.pos >= self.end):
            return None
        first = self.source.data[self.pos]
        byte = int(first[0])
        if byte >= _CONTINUATION_BIT or byte & 1 or byte >> 1 > most or np.count_nonzero(first != byte):
            return None
        self.pos = self.pos + 1
        return byte >> 1

    def branches(self, count: int) -> Ints:
        """The next branch numbers of a union of ``count`` branches."""
        branches = self.varints("a union branch")
        self.refuse(
            (branches < 0) | (branches >= count),
            "a branch that the union lacks",
            f"one of its {count} branches",
        )
        return branches

    def _unsigned(self, first: Bytes) -> tuple[_Words, Ints]:
        long_ones = np.flatnonzero(first >= _CONTINUATION_BIT)
        if 2 * long_ones.size > first.size:
            return _wide_numbers(self.source, self.pos)
        unsigned, lengths = first.astype(np.uint64), np.ones(first.size, np.int64)
        unsigned[long_ones], lengths[long_ones] = _wide_numbers(self.source, self.pos[long_ones])
        return unsigned, lengths


def _wide_numbers(source: DatumBytes, positions: Ints) -> tuple[_Words, Ints]:
    """Unsigned varints, and the number of bytes of each: 11 for one of more than 64 bits."""
    words = source.words(positions)
    stops = ~words & np.uint64(0x8080808080808080)
    below_stop = (stops & (0 - stops)) - np.uint64(1)
    lengths = (np.bitwise_count(below_stop).astype(np.int64) + 1) >> 3
    digits = words & below_stop & np.uint64(0x7F7F7F7F7F7F7F7F)
    # Three steps join eight digits of 7 bits: pairs to 14 bits, to 28, to 56.
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    ):
        digits = (digits & np.uint64(low)) | ((digits & np.uint64(high)) >> np.uint64(shift))
    longer = np.flatnonzero(stops == 0)
    if longer.size:
        tail = source.words(positions[longer] + WORD_BYTES)
        ninth, tenth = tail & np.uint64(0xFF), (tail >> np.uint64(8)) & np.uint64(0xFF)
        tenth[ninth < _CONTINUATION_BIT] = 0
        digits[longer] |= ((ninth & np.uint64(0x7F)) << np.uint64(56)) | (tenth << np.uint64(63))
        lengths[longer] = np.where(ninth < _CONTINUATION_BIT, 9, np.where(tenth <= 1, 10, 11))
    return digits, lengths
