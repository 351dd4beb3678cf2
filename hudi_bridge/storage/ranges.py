"""Reads ranges of the files of a store, several requests at a time, and notices answers that are cut short."""

import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

import pyarrow as pa
from pyarrow import fs  # noqa: TID251 - what storage opens files with

from hudi_bridge.storage.file_systems import FsspecHandler
from hudi_bridge.storage.hdfs import HdfsHandler
from hudi_bridge.storage.retries import CutAnswerError

PIECE_BYTES = 1 << 24
"""The most bytes of one request, which have to arrive before the timeout."""
_PIECES_AT_ONCE = 4
"""Large requests are limited by bandwidth, not by waiting."""
_MARK_BYTES = 16
"""Random bytes that data does not have by chance."""

Result = TypeVar("Result")


class Request(Protocol):
    """Does a request to a store, with its timeout and retries; ``operation`` names it in errors."""

    def __call__(self, operation: str, call: Callable[[], Result]) -> Result:
        """The result of the call."""


class RangesOfHandles:
    """The bytes of a file of Arrow's own clients, or of a local one, which have to be opened.

    ``open_file`` opens it. Threads may share it: each that reads at the same time has a handle of its own.
    """

    def __init__(self, request: Request, open_file: Callable[[], pa.NativeFile], *, is_marked: bool) -> None:
        self._request = request
        self._open_file = open_file
        self._is_marked = is_marked
        self._size: int | None = None
        self._idle: SimpleQueue[pa.NativeFile] = SimpleQueue()

    @property
    def size(self) -> int:
        """The size of the file, in bytes."""
        if self._size is None:
            self.open()
            assert self._size is not None
        return self._size

    def open(self) -> None:
        """Open the file now."""
        self._idle.put(self._handle())

    def whole(self) -> pa.Buffer:
        """The whole file; a small one is opened and read by one call."""
        content = self._request("read", self._small_content)
        return read_in_pieces(self, 0, self.size) if content is None else content

    def _small_content(self) -> pa.Buffer | None:
        handle, self._size = self._open_with_size()
        if self._size > PIECE_BYTES:
            self._idle.put(handle)
            return None
        with handle:
            content = pa.allocate_buffer(self._size)
            # Stores refuse an empty range.
            if self._size:
                self._fill(memoryview(content).cast("B"), 0, handle)
        return content

    def read(self, start: int, size: int) -> pa.Buffer:
        """The bytes of a range."""
        content = pa.allocate_buffer(size)
        self.read_into(memoryview(content).cast("B"), start)
        return content

    def read_into(self, target: memoryview, start: int) -> None:
        """Fill the target with the bytes from an offset on."""
        handles = [self._handle()]

        def read() -> None:
            # What has failed is opened anew.
            handle = handles.pop() if handles else self._open_file()
            try:
                self._fill(target, start, handle)
            except BaseException:
                handle.close()
                raise
            handles.append(handle)

        self._request("read", read)
        self._idle.put(handles.pop())

    def close(self) -> None:
        """Close all handles; the next read opens another."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()

    def _handle(self) -> pa.NativeFile:
        try:
            return self._idle.get_nowait()
        except Empty:
            handle, self._size = self._request("open", self._open_with_size)
            return handle

    def _open_with_size(self) -> tuple[pa.NativeFile, int]:
        handle = self._open_file()
        return handle, handle.size()

    def _fill(self, target: memoryview, start: int, handle: pa.NativeFile) -> None:
        # Arrow's S3 client reports a complete read even if the response was shorter, and leaves the rest unchanged:
        # a random mark at the end shows that.
        mark = os.urandom(min(_MARK_BYTES, len(target))) if self._is_marked else b""
        target[len(target) - len(mark) :] = mark
        handle.seek(start)
        filled = handle.readinto(target)
        is_unchanged = len(mark) == _MARK_BYTES and target[-_MARK_BYTES:] == mark
        if filled < len(target) or is_unchanged:
            raise CutAnswerError(max(self.size, start + len(target)))


class RangeReader(Protocol):
    """Reads one file of a store."""

    def size(self) -> int:
        """The size of the file, in bytes."""

    def read_range(self, start: int, size: int) -> bytes:
        """The bytes of a range, in one request; fewer if the store sends fewer."""


class RangesOfReader:
    """The bytes of a file of fsspec or HDFS, which takes one request for each range, and none to open it."""

    def __init__(self, request: Request, reader: RangeReader, size: int | None) -> None:
        self._request = request
        self._reader = reader
        self._size = size

    @property
    def size(self) -> int:
        """The size of the file, in bytes."""
        if self._size is None:
            self.open()
            assert self._size is not None
        return self._size

    def open(self) -> None:
        """Ask for the size, unless it is known."""
        if self._size is None:
            self._size = self._request("open", self._reader.size)

    def whole(self) -> pa.Buffer:
        """The whole file."""
        return read_in_pieces(self, 0, self.size)

    def read(self, start: int, size: int) -> pa.Buffer:
        """The bytes of a range."""
        return pa.py_buffer(self._request("read", partial(self._read, start, size)))

    def read_into(self, target: memoryview, start: int) -> None:
        """Fill the target with the bytes from an offset on."""
        target[:] = self._request("read", partial(self._read, start, len(target)))

    def close(self) -> None:
        """Nothing: there is no handle."""

    def _read(self, start: int, size: int) -> bytes:
        content = self._reader.read_range(start, size)
        if len(content) != size:
            raise CutAnswerError(self.size)
        return content


Ranges = RangesOfHandles | RangesOfReader


def ranges_of(
    filesystem: fs.FileSystem, path: str, size: int | None, request: Request, open_file: Callable[[], pa.NativeFile]
) -> Ranges:
    """The bytes of a file, whose size may be known already.

    ``path`` is the file system's own; ``open_file`` opens it, if the file system needs that.
    """
    handler = filesystem.handler if isinstance(filesystem, fs.PyFileSystem) else None
    if isinstance(handler, FsspecHandler | HdfsHandler):
        return RangesOfReader(request, handler.reader(path), size)
    return RangesOfHandles(request, open_file, is_marked=not isinstance(filesystem, fs.LocalFileSystem))


def read_in_pieces(file: Ranges, start: int, size: int) -> pa.Buffer:
    """The bytes of a range, in requests of limited size, several at the same time."""
    if not size:
        # Stores refuse an empty range.
        return pa.py_buffer(b"")
    if size <= PIECE_BYTES:
        return file.read(start, size)
    content = pa.allocate_buffer(size)
    view = memoryview(content).cast("B")

    def read(begin: int) -> None:
        file.read_into(view[begin : begin + PIECE_BYTES], start + begin)

    with ThreadPoolExecutor(_PIECES_AT_ONCE, thread_name_prefix="hudi-bridge-pieces") as pool:
        # What has not begun is not done after an error.
        list(pool.map(read, range(0, size, PIECE_BYTES)))
    return content


class FileOfRanges(io.RawIOBase):
    """A file of a store that is read in ranges; each range is one request, unless its bytes are buffered.

    Threads may share it as long as each seeks and reads through Arrow, which locks it.
    """

    def __init__(self, ranges: Ranges) -> None:
        super().__init__()
        self.size_bytes = ranges.size
        self._ranges = ranges
        self._position = 0
        self._buffers: dict[int, tuple[int, pa.Buffer]] = {}
        self._numbers = count()
        self._first: list[int] = []

    def read_range(self, start: int, size: int) -> pa.Buffer:
        """The bytes of a range, from the store."""
        return read_in_pieces(self._ranges, start, size)

    def read_into(self, target: memoryview, start: int) -> None:
        """Fill the target with the bytes from an offset on, in one request."""
        self._ranges.read_into(target, start)

    def hold(self, start: int, content: pa.Buffer) -> int:
        """Hold the bytes from an offset on; returns a number with which to release them."""
        number = next(self._numbers)
        self._buffers[number] = (start, content)
        return number

    def hold_for_first_read(self, numbers: list[int]) -> None:
        """Leave what is held to the first who reads rows of the file."""
        self._first = numbers

    def take_first(self) -> list[int]:
        """The numbers of what was left to the first who reads rows; nobody else gets them."""
        numbers, self._first = self._first, []
        return numbers

    def release(self, number: int) -> None:
        """Let go of bytes that are held."""
        self._buffers.pop(number, None)

    def holds(self, start: int, size: int) -> bool:
        """Whether the bytes of a range are held."""
        return self._buffered(start, size) is not None

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The offset of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """The new offset of the next byte."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size_bytes}[whence]
        self._position = max(0, origin + offset)
        return self._position

    def read(self, size: int = -1) -> Any:  # noqa: ANN401 - a buffer, which Arrow takes as it is
        """The next ``size`` bytes, or all that are left."""
        left = max(0, self.size_bytes - self._position)
        size = left if size < 0 else min(size, left)
        if not size:
            return b""
        start, self._position = self._position, self._position + size
        content = self._buffered(start, size)
        return self.read_range(start, size) if content is None else content

    def close(self) -> None:
        """Close the file, and release what is held."""
        self._buffers.clear()
        self._ranges.close()
        super().close()

    def _buffered(self, start: int, size: int) -> pa.Buffer | None:
        # Another thread may hold or release bytes meanwhile.
        for first, content in tuple(self._buffers.values()):
            if first <= start and start + size <= first + content.size:
                return content.slice(start - first, size)
        return None
