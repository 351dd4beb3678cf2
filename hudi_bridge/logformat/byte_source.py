"""Where the bytes of a log file come from: memory, or a file that is read in parts."""

import re
from typing import Protocol

import pyarrow as pa

from hudi_bridge.logformat.layout import MAGIC

# A regular expression searches any buffer in place; ``bytes.find`` would need a copy.
_NEXT_MAGIC = re.compile(re.escape(MAGIC))


class ByteSource(Protocol):
    """The bytes of one file."""

    size: int

    def at(self, start: int, length: int) -> bytes:
        """The bytes from an offset on, fewer at the end of the file."""

    def content(self, start: int, length: int) -> pa.Buffer:
        """The content of a block, or as much of it as the source gives."""

    def next_magic(self, start: int) -> int:
        """Where the next block may begin, the end of the file if nowhere."""


class BytesInMemory:
    """A whole file in memory, or mapped; the contents of blocks are slices of it."""

    def __init__(self, data: bytes | memoryview | pa.Buffer) -> None:
        self._buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
        self._view = memoryview(self._buffer)
        self.size = len(self._view)

    def at(self, start: int, length: int) -> bytes:
        """The bytes from an offset on, fewer at the end of the file."""
        return self._view[start : start + length].tobytes()

    def content(self, start: int, length: int) -> pa.Buffer:
        """The whole content of a block."""
        return self._buffer.slice(start, length)

    def next_magic(self, start: int) -> int:
        """Where the next block may begin, the end of the file if nowhere."""
        found = _NEXT_MAGIC.search(self._view, start)
        return self.size if found is None else found.start()
