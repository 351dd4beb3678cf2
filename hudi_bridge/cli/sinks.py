"""Where output goes: standard output, or a file that appears whole or not at all."""

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from typing import Any, TypeAlias

from hudi_bridge.cli.terminal import plain


class OutputClosedError(Exception):
    """Raised when nobody reads standard output any more (``| head``); not an OSError, which Typer would report."""


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


@contextmanager
def open_sink(path: Path | None) -> Iterator[Sink]:
    """A place to write to; without a path, standard output. A regular file is replaced once all is written."""
    if path is None:
        output = StandardOutput()
        yield output
        output.flush()
    elif path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
    else:
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with part.open("wb") as file:
                yield file
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def _noticing_closed_pipe() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        # Python flushes standard output once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputClosedError from error
