"""Sinks for output: standard output, or a file that is written atomically."""

import codecs
import errno
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO, RawIOBase
from pathlib import Path
from typing import Any, TypeAlias

from hudi_bridge.cli.terminal import escape_control

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class OutputClosedError(Exception):
    """Raised when the reader of standard output closed the pipe (``| head``); not an OSError, which Typer reports."""


class UnwritableFileError(Exception):
    """Raised when a file cannot be written; ``path`` is the one that the user gave."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} cannot be written: {self.reason}"


class StandardOutput(RawIOBase):
    """Standard output as a binary file. On a terminal, control characters are written as escapes."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = sys.stdout.buffer
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace") if sys.stdout.isatty() else None

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - of any kind of buffer
        """Writes all of ``data``.

        Raises:
            OutputClosedError: the reader closed the pipe.
        """
        content = written = bytes(data)
        if self._decoder is not None:
            content = escape_control(self._decoder.decode(content), keep_lines=True).encode()
        with noticing_closed_pipe():
            self._stream.write(content)
        return len(written)

    def flush(self) -> None:
        """Flushes the buffer.

        Raises:
            OutputClosedError: the reader closed the pipe.
        """
        with noticing_closed_pipe():
            self._stream.flush()


Sink: TypeAlias = Any
"""A binary file, open for writing."""


class OutputFile(FileIO):
    """A file whose errors name the path that the user gave, even while it has a temporary name."""

    def __init__(self, file: Path, mode: str, named: Path) -> None:
        with naming(named):
            super().__init__(file, mode)
        self._named = named

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - of any kind of buffer
        """Writes all of ``data``.

        Raises:
            UnwritableFileError: the system reports an error, such as a full disk.
        """
        content = memoryview(data).cast("B")
        written = 0
        with naming(self._named):
            while written < len(content):
                written += super().write(content[written:]) or 0
        return written

    def sync(self) -> None:
        """Waits until the written bytes are on disk.

        Raises:
            UnwritableFileError: the system reports an error.
        """
        with naming(self._named):
            os.fsync(self.fileno())


@contextmanager
def open_sink(path: Path | None, *, no_clobber: bool = False) -> Iterator[Sink]:
    """Opens a file, or standard output without a path. A regular file is replaced once all is written.

    Raises:
        UnwritableFileError: the file cannot be written or, with ``no_clobber``, exists.
    """
    if path is None:
        output = StandardOutput()
        yield output
        output.flush()
    elif path.exists() and not path.is_file():
        with OutputFile(path, "wb", path) as file:
            yield file
    else:
        if no_clobber:
            refuse_existing(path)
        with appearing(path, no_clobber=no_clobber) as file:
            yield file


@contextmanager
def appearing(path: Path, *, no_clobber: bool = False) -> Iterator[OutputFile]:
    """Opens a temporary file that is renamed to ``path`` once all is written, and removed if that fails.

    Raises:
        UnwritableFileError: the file cannot be written or, with ``no_clobber``, ``path`` exists by then.
    """
    # A name that nobody can guess, and "x", so that no link of somebody else is written through.
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    with OutputFile(part, "xb", path) as file:
        try:
            yield file
            file.close()
            with naming(path):
                if no_clobber:
                    _rename_to_nothing(part, path)
                else:
                    part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def refuse_existing(path: Path) -> None:
    """Raises if the path exists.

    Raises:
        UnwritableFileError: the path exists.
    """
    if os.path.lexists(path):
        raise UnwritableFileError(path, "it is there already, and --no-clobber keeps it")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turns an OSError into an error that names the path that the user gave.

    Raises:
        UnwritableFileError: the body raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise UnwritableFileError(path, error.strerror or str(error)) from error


def _rename_to_nothing(part: Path, path: Path) -> None:
    try:
        path.hardlink_to(part)
    except FileExistsError:
        refuse_existing(path)
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Without hard links, another process may create the file between these two calls.
        refuse_existing(path)
        part.replace(path)


@contextmanager
def noticing_closed_pipe() -> Iterator[None]:
    """Raises OutputClosedError in the block once the reader of standard output has gone."""
    try:
        yield
    except BrokenPipeError as error:
        # Python flushes standard output again at exit, which would print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputClosedError from error
