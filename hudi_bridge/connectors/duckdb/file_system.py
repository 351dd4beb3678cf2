"""What DuckDB reads through Python: base files in stores, and datasets of rows.

DuckDB's own Parquet reader gets base files from ``TableFiles`` where DuckDB has no file system of its own for them. A
``Source`` reads its batches anew for each query.
"""

import copy
import errno
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hudi_bridge.connectors.duckdb.dialect import from_arrow, quote_identifier, sql_names, without_offsets
from hudi_bridge.errors import HudiReadError
from hudi_bridge.scanner import BatchGenerator, BatchScanner
from hudi_bridge.storage.ranges import FileOfRanges
from hudi_bridge.storage.storage import Storage

Errors = deque[HudiReadError]
Read = Callable[[Sequence[str], pc.Expression | None], Iterable[pa.RecordBatch]]
"""Reads some columns of the rows that pass a condition, which is checked exactly: DuckDB does not check it again."""


@contextmanager
def recording(errors: Errors) -> Iterator[None]:
    """A context whose errors of the table are recorded, for ``Attached.cause_of``."""
    try:
        yield
    except HudiReadError as error:
        # A copy has no traceback, which would keep the batches of the failed scan alive.
        errors.append(copy.copy(error))
        raise


def with_sql_names(rows: duckdb.DuckDBPyRelation, names: Sequence[str]) -> duckdb.DuckDBPyRelation:
    """Rows whose columns have ``names`` in Arrow, with those of ``sql_names``."""
    unique_names = sql_names(names)
    if unique_names == list(names):
        return rows
    # DuckDB has numbered those that it takes for the same, beginning with the second.
    pairs = zip(rows.columns, unique_names, strict=True)
    return rows.project(", ".join(f"{quote_identifier(old)} AS {quote_identifier(new)}" for old, new in pairs))


class Source(ds.Dataset):
    """A dataset for DuckDB that records errors of the table."""

    def __init__(
        self,
        schema: pa.Schema,
        read: Read,
        errors: Errors,
        announce: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        """A dataset; ``announce`` is called with the columns of a query before the source is asked for its rows."""
        self._schema = schema
        self._read = read
        self._errors = errors
        self._announce = announce

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._schema

    def scanner(  # type: ignore[override]
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **_: object,
    ) -> BatchScanner:
        """A scan of some columns, for the rows that pass a condition."""
        names = self._schema.names if columns is None else list(columns)
        schema = pa.schema([self._schema.field(name) for name in names])
        if self._announce is not None:
            self._announce(names)
        return BatchScanner(schema, lambda: self._batches(names, filter))

    def rows_in(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows as a relation, whose columns have the names of ``sql_names``."""
        return with_sql_names(from_arrow(connection, self), self._schema.names)

    def _batches(self, names: Sequence[str], row_filter: pc.Expression | None) -> BatchGenerator:
        with recording(self._errors):
            yield from map(without_offsets, self._read(names, row_filter))


_NUMBERS = count(1)
_NEVER_CHANGES = datetime(2000, 1, 1, tzinfo=UTC)


class TableFiles(fsspec.AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The base files of a table, with the time limits and the errors of its storage."""

    cachable = False

    def __init__(self, storage: Storage, sizes: Mapping[str, int], errors: Errors) -> None:
        """The files with these sizes in bytes, by path."""
        super().__init__()
        self.protocol = f"hudi-bridge-{next(_NUMBERS)}"
        self.sizes = dict(sizes)
        self._storage = storage
        self._errors = errors

    def url(self, path: str) -> str:
        """The name of a file for DuckDB."""
        return f"{self.protocol}://{path}"

    def glob(self, path: str, **_: object) -> list[str]:
        """The path itself: no path of the table is a pattern."""
        return [path]

    def exists(self, path: str, **_: object) -> bool:
        """Whether it is one of the files."""
        return self._path(path) in self.sizes

    def info(self, path: str, **_: object) -> dict[str, Any]:
        """The size of a file."""
        return {"name": path, "size": self.sizes[self._path(path)], "type": "file"}

    def modified(self, path: str) -> datetime:
        """The same time for all files: a base file is written once."""
        del path
        return _NEVER_CHANGES

    def open(self, path: str, mode: str = "rb", **_: object) -> "TableFile":
        """A file, opened for reading."""
        del mode
        size = self.sizes[self._path(path)]
        with self._named(path):
            return TableFile(self._storage.open_ranges(self._path(path), size), size, partial(self._named, path))

    @contextmanager
    def _named(self, path: str) -> Iterator[None]:
        """A context whose errors are recorded; that of a missing file names it as DuckDB does, for ``cause_of``."""
        try:
            with recording(self._errors):
                yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url(self._path(path))) from error

    def _path(self, url: str) -> str:
        return url.removeprefix(f"{self.protocol}://")


class TableFile:
    """An open file with a position for each thread.

    Threads of DuckDB share a file: between ``seek`` and ``read`` of one, another may come.
    """

    def __init__(self, file: FileOfRanges, size: int, named: Callable[[], AbstractContextManager[None]]) -> None:
        self._file = file
        self._size = size
        self._named = named
        self._of_thread = threading.local()

    def seek(self, offset: int) -> int:
        """The offset of the next byte, for this thread."""
        self._of_thread.offset = offset
        return offset

    def tell(self) -> int:
        """The offset of the next byte, for this thread."""
        return getattr(self._of_thread, "offset", 0)

    def read(self, size: int) -> bytes:
        """The next bytes.

        Raises:
            StorageError: they cannot be read.
        """
        offset = self.tell()
        with self._named():
            # DuckDB does not look at how many bytes it gets.
            length = max(0, min(size, self._size - offset))
            content = self._file.read_range(offset, length).to_pybytes() if length else b""
        self.seek(offset + len(content))
        return content

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
