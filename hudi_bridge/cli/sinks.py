"""Where output goes: standard output, or a file that appears whole or not at all."""

import codecs
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO, RawIOBase
from pathlib import Path
from typing import Any, TypeAlias

from hudi_bridge.cli.terminal import plain

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class OutputClosedError(Exception):
    """Raised when nobody reads standard output any more (``| head``); not an OSError, which Typer would report."""


class UnwritableFileError(Exception):
    """Raised when a file that the user has named cannot be written; ``path`` is as it was named."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} cannot be written: {self.reason}"


class StandardOutput(RawIOBase):
    """Standard output as a binary file. On a terminal, control characters are shown as escapes."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = sys.stdout.buffer
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace") if sys.stdout.isatty() else None

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - of any kind of buffer
        """Write all of it.

        Raises:
            OutputClosedError: nobody reads any more.
        """
        content = written = bytes(data)
        if self._decoder is not None:
            content = plain(self._decoder.decode(content), keep_lines=True).encode()
        with _noticing_closed_pipe():
            self._stream.write(content)
        return len(written)

    def flush(self) -> None:
        """Pass on what is buffered.

        Raises:
            OutputClosedError: nobody reads any more.
        """
        with _noticing_closed_pipe():
            self._stream.flush()


Sink: TypeAlias = Any
"""A binary file, open for writing."""


class OutputFile(FileIO):
    """A file whose errors name it as the user did, whatever it is called while it is written."""

    def __init__(self, file: Path, mode: str, named: Path) -> None:
        with naming(named):
            super().__init__(file, mode)
        self._named = named

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - of any kind of buffer
        """Write all of it.

        Raises:
            UnwritableFileError: there is no room, or whatever else the system says.
        """
        content = memoryview(data).cast("B")
        written = 0
        with naming(self._named):
            while written < len(content):
                written += super().write(content[written:]) or 0
        return written

    def sync(self) -> None:
        """Wait until what is written would survive a loss of power.

        Raises:
            UnwritableFileError: it cannot be made sure of.
        """
        with naming(self._named):
            os.fsync(self.fileno())


@contextmanager
def open_sink(path: Path | None, *, no_clobber: bool = False) -> Iterator[Sink]:
    """A place to write to; without a path, standard output. A regular file is replaced once all is written.

    Raises:
        UnwritableFileError: the file cannot be written or, with ``no_clobber``, is there already.
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
    """A file that takes its name, from another one if need be, once all is written; not if that fails.

    Raises:
        UnwritableFileError: it cannot be written or, with ``no_clobber``, another has appeared meanwhile.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with OutputFile(part, "wb", path) as file:
            yield file
        with naming(path):
            if no_clobber:
                _rename_to_nothing(part, path)
            else:
                part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def refuse_existing(path: Path) -> None:
    """Raises if there is a file of that name.

    Raises:
        UnwritableFileError: there is.
    """
    if os.path.lexists(path):
        raise UnwritableFileError(path, "it is there already, and --no-clobber keeps it")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the system within are those of a file, by the name that the user has given it.

    Raises:
        UnwritableFileError: such an error.
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
        # Without links there is a moment in which another file may appear.
        refuse_existing(path)
        part.replace(path)


@contextmanager
def _noticing_closed_pipe() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        # Python flushes standard output once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputClosedError from error
