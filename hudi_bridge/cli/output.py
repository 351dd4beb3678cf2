"""Writes record batches as a table on the screen, CSV, JSON lines, Parquet or Arrow; to a file, atomically.

In CSV, nulls are empty, empty texts are quoted, and nested values are JSON. In CSV for spreadsheets, texts that these
would take for formulas begin with an apostrophe. Arrow is the IPC file format; in a pipe, the stream format.
"""

import codecs
import errno
import os
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from io import FileIO, RawIOBase
from pathlib import Path
from typing import Any, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv, types

from hudi_bridge.cli.grid import Look, print_grid
from hudi_bridge.cli.terminal import counting_rows, escape_control
from hudi_bridge.common.display import Array, ArrowType, is_far, is_nested, to_json, values_as_text
from hudi_bridge.errors import QueryError

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
Sink: TypeAlias = Any
"""A binary file, open for writing."""
ROWS_IN_TABLE = 50
# Source: "CSV Injection" of OWASP.
_FORMULA = "^([=+\\-@\\t\\r\\n\uff1d\uff0b\uff0d\uff20])"
_DEFAULT_LOOK = Look()
Batches: TypeAlias = Generator[pa.RecordBatch, None, None]


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


class Format(StrEnum):
    """An output format."""

    TABLE = "table"
    CSV = "csv"
    SPREADSHEET = "spreadsheet"
    JSON = "json"
    PARQUET = "parquet"
    ARROW = "arrow"


BINARY = (Format.PARQUET, Format.ARROW)
_FORMAT_BY_SUFFIX = {
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
    ".parquet": Format.PARQUET,
    ".arrow": Format.ARROW,
    ".feather": Format.ARROW,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A format and a file, or standard output if ``path`` is None; ``no_clobber`` keeps an existing file."""

    format: Format
    path: Path | None
    no_clobber: bool = False

    @classmethod
    def of(
        cls, output_format: Format | None, path: Path | None, *, no_clobber: bool = False, in_pipe: Format = Format.CSV
    ) -> Self:
        """The destination for the given options; ``in_pipe`` is the default format of a pipe.

        Raises:
            QueryError: the format does not fit the destination, or the file name implies none.
        """
        is_terminal = path is None and sys.stdout.isatty()
        if output_format is None and path is None:
            output_format = Format.TABLE if is_terminal else in_pipe
        elif output_format is None and path is not None:
            output_format = _FORMAT_BY_SUFFIX.get(path.suffix.lower())
        if output_format is None:
            raise QueryError("--output", f"{path}, whose ending tells no format", "--format")
        if output_format in BINARY and is_terminal:
            raise QueryError(
                "--format", f"{output_format}, which is binary, for a terminal", "--output FILE, or a pipe"
            )
        if output_format is Format.TABLE and path is not None:
            raise QueryError("--format", "table for a file", "csv, spreadsheet, json, parquet or arrow")
        return cls(format=output_format, path=path, no_clobber=no_clobber)


def write(
    reader: pa.RecordBatchReader, destination: Destination, *, limit: int | None = None, look: Look = _DEFAULT_LOOK
) -> None:
    """Writes the first ``limit`` rows, or all; ``look`` applies to a table on the screen.

    Raises:
        QueryError: an object of JSON would have two values of one name.
    """
    if destination.format is Format.JSON:
        _require_distinct(reader.schema.names)
    with closing(_head(reader, limit)) as batches:
        if destination.format is Format.TABLE:
            print_grid(pa.Table.from_batches(batches, reader.schema), look=look)
            return
        with open_sink(destination.path, no_clobber=destination.no_clobber) as sink:
            is_arrow_file = destination.format is Format.ARROW and destination.path is not None
            write_all = _write_arrow_file if is_arrow_file else _WRITERS[destination.format]
            write_all(batches, reader.schema, sink)


def write_rows(
    reader: pa.RecordBatchReader, destination: Destination, *, limit: int | None = None, look: Look = _DEFAULT_LOOK
) -> None:
    """Like ``write``, for large results: shows progress, and by default a table shows only the first rows."""
    is_grid = destination.format is Format.TABLE
    is_output_elsewhere = destination.path is not None or not sys.stdout.isatty()
    with counting_rows(reader, show=is_grid or is_output_elsewhere) as counted:
        if not is_grid:
            write(counted, destination, limit=limit)
            return
        # One row beyond those shown tells whether there are more.
        with closing(_head(counted, ROWS_IN_TABLE + 1 if limit is None else limit)) as batches:
            rows = pa.Table.from_batches(batches, reader.schema)
    print_grid(rows, ROWS_IN_TABLE if limit is None else limit, look)


def write_stream(
    batches: Batches, schema: pa.Schema, sink: Sink, output_format: Format, *, begins: bool = True
) -> None:
    """Writes batches as they arrive; ``begins`` is false if the sink already holds rows (CSV gets no header then)."""
    if output_format in (Format.CSV, Format.SPREADSHEET):
        _write_csv(batches, schema, sink, with_header=begins, escapes_formulas=output_format is Format.SPREADSHEET)
    else:
        _WRITERS[output_format](batches, schema, sink)


def _require_distinct(names: Sequence[str]) -> None:
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise QueryError("--format", f"json for several columns named {', '.join(repeated)}", "names that differ")


def _head(reader: pa.RecordBatchReader, limit: int | None) -> Batches:
    if limit is None:
        yield from reader
        return
    left = limit
    while left > 0 and (batch := next(reader, None)) is not None:
        yield batch.slice(0, left)
        left -= batch.num_rows


def _write_csv(
    batches: Batches, schema: pa.Schema, sink: Sink, *, with_header: bool = True, escapes_formulas: bool = False
) -> None:
    escape = _without_formulas if escapes_formulas else lambda column: column
    names = escape(pa.array(schema.names, pa.string())).to_pylist()
    flat = pa.schema([pa.field(name, _csv_type(field.type)) for name, field in zip(names, schema, strict=True)])
    with csv.CSVWriter(sink, flat, write_options=csv.WriteOptions(include_header=with_header)) as writer:
        for batch in batches:
            columns = [
                escape(_csv_column(column, field.type)) for column, field in zip(batch.columns, flat, strict=True)
            ]
            given = pa.record_batch(columns, names=flat.names)
            if given.schema.equals(flat):
                writer.write_batch(given)
            else:
                csv.write_csv(given, sink, csv.WriteOptions(include_header=False))


def _without_formulas(column: Array) -> Array:
    """Texts that no spreadsheet takes for a formula; other columns as they are."""
    if not types.is_string(column.type):
        return column
    return pc.replace_substring_regex(column, _FORMULA, r"'\1")


def _csv_type(kind: ArrowType) -> pa.DataType:
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return kind if is_number or types.is_boolean(kind) or types.is_date(kind) else pa.string()


def _csv_column(column: Array, kind: ArrowType) -> Array:
    """A column as it is written: of this type, but dates that Arrow does not write are text."""
    is_text = types.is_date(kind) and is_far(column)
    if column.type.equals(kind) and not is_text:
        return column
    values = values_as_text(column)
    if is_nested(column.type):
        values = [None if value is None else to_json(value) for value in values]
    return pa.array([None if value is None else str(value) for value in values], pa.string() if is_text else kind)


def _write_json(batches: Batches, schema: pa.Schema, sink: Sink) -> None:
    names = schema.names
    for batch in batches:
        columns = [values_as_text(column) for column in batch.columns]
        lines = (to_json(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True))
        sink.write("".join(f"{line}\n" for line in lines).encode())


def _write_parquet(batches: Batches, schema: pa.Schema, sink: Sink) -> None:
    with pq.ParquetWriter(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_arrow_stream(batches: Batches, schema: pa.Schema, sink: Sink) -> None:
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_arrow_file(batches: Batches, schema: pa.Schema, sink: Sink) -> None:
    with pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


_WRITERS: Mapping[Format, Callable[[Batches, pa.Schema, Sink], None]] = {
    Format.CSV: _write_csv,
    Format.SPREADSHEET: partial(_write_csv, escapes_formulas=True),
    Format.JSON: _write_json,
    Format.PARQUET: _write_parquet,
    Format.ARROW: _write_arrow_stream,
}
