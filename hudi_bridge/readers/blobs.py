"""Reads the bytes that BLOB columns refer to, from folders that an option allows.

A BLOB is a struct that has its bytes (``INLINE``) or a reference (``OUT_OF_LINE``) to a file or a range of a file. Any
writer of the table can name any file, so only files below the allowed folders are read. Their bytes are returned as the
``data`` of the struct; the reference stays.

Source: RFC-100, ``HoodieSchema.Blob`` and ``BatchedBlobReader`` of Hudi.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import CorruptTableError, UnsupportedTableError
from hudi_bridge.merge.arrays import as_booleans
from hudi_bridge.options import BLOB_SOURCE_KEY
from hudi_bridge.splits.split import ReadContext
from hudi_bridge.storage.storage import Storage

BLOB_TYPE = pa.struct(
    [
        ("type", pa.string()),
        ("data", pa.binary()),
        (
            "reference",
            pa.struct(
                [
                    ("external_path", pa.string()),
                    ("offset", pa.int64()),
                    ("length", pa.int64()),
                    ("managed", pa.bool_()),
                ]
            ),
        ),
    ]
)
_OUT_OF_LINE = "OUT_OF_LINE"
_ROWS_AT_ONCE = 1 << 10
_BYTES_AT_ONCE = 1 << 26
"""The referenced bytes of a returned batch; a single row may exceed them."""
_MAX_BYTES = (1 << 31) - 1
"""The largest value: sizes are signed 32-bit numbers in Arrow and Java."""
_GAP_BYTES = 1 << 12
"""Ranges of a file with smaller gaps between them are read with one request."""
_REDIRECT = "=>"
_URI = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*):(?P<rest>.*)", re.DOTALL)
_SCHEMES = {"s3a": "s3", "s3n": "s3"}


class BatchReader(Protocol):
    """Reads rows in batches."""

    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""


class _Range(NamedTuple):
    """A range of the file ``path`` in an allowed folder; ``length`` is None for all from ``offset`` on."""

    folder: str
    path: str
    offset: int
    length: int | None


def blob_columns(schema: pa.Schema) -> tuple[str, ...]:
    """Names of the BLOB columns of a schema."""
    return tuple(name for name in schema.names if schema.field(name).type.equals(BLOB_TYPE))


def with_blobs(reader: BatchReader, storage: Storage, context: ReadContext) -> BatchReader:
    """Wraps a reader so that its BLOB columns get the bytes that they refer to.

    Returns the reader itself if it has no BLOB columns or no folder is allowed.
    """
    names = blob_columns(reader.schema) if context.blob_sources else ()
    return _BlobReader(reader, BlobFiles(storage, context.blob_sources), names) if names else reader


class _BlobReader:
    def __init__(self, reader: BatchReader, files: "BlobFiles", names: Sequence[str]) -> None:
        self._reader = reader
        self._files = files
        self._names = names
        self.schema = reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader.batches():
            yield from self._files.filled(batch, self._names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _References:
    """The references of a column: their rows, ranges, and sizes in bytes."""

    rows: Sequence[int]
    ranges: Sequence[_Range]
    sizes: Mapping[_Range, int]


class BlobFiles:
    """The files below the allowed folders that BLOB columns refer to.

    A member of ``sources`` is a folder, or ``RECORDED=>FOLDER``: references into ``RECORDED`` are then read from
    ``FOLDER``.
    """

    def __init__(self, storage: Storage, sources: Sequence[str]) -> None:
        self._storage = storage
        self._folders: dict[str, str] = {}
        for source in sources:
            recorded, _, folder = source.partition(_REDIRECT)
            self._folders[f"{_comparable(recorded.strip()).rstrip('/')}/"] = folder.strip() or recorded.strip()

    def filled(self, batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields a batch with the bytes of its references in the columns ``names``, in parts of bounded memory.

        Raises:
            UnsupportedTableError: a referenced file is outside of the allowed folders, or its range is too large.
            CorruptTableError: a referenced file or range does not exist.
            StorageError: a file cannot be read.
        """
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            part = batch.slice(start, _ROWS_AT_ONCE)
            references = {name: self._references(part.column(name)) for name in names}
            sizes = np.zeros(part.num_rows, dtype=np.int64)
            for column in references.values():
                for row, byte_range in zip(column.rows, column.ranges, strict=True):
                    sizes[row] += column.sizes[byte_range]
            for first, last in _row_runs(sizes):
                yield self._filled(part, references, first, last)

    def _references(self, column: "pa.Array[Any]") -> _References:
        rows = np.flatnonzero(as_booleans(pc.equal(pc.struct_field(column, "type"), pa.scalar(_OUT_OF_LINE)))).tolist()
        references = pc.struct_field(column, "reference").take(pa.array(rows, pa.int64())).to_pylist()
        ranges = [self._range(reference) for reference in references]
        ranges_by_file: dict[tuple[str, str], list[_Range]] = defaultdict(list)
        for byte_range in dict.fromkeys(ranges):
            ranges_by_file[byte_range.folder, byte_range.path].append(byte_range)
        sizes = {
            byte_range: size for file_ranges in ranges_by_file.values() for byte_range, size in self._sizes(file_ranges)
        }
        return _References(rows=rows, ranges=ranges, sizes=sizes)

    def _range(self, reference: Mapping[str, Any] | None) -> _Range:
        path = (reference or {}).get("external_path")
        if reference is None or not path:
            raise CorruptTableError(f"a {_OUT_OF_LINE} BLOB", None, f"the reference {reference}", "the path of a file")
        comparable = _comparable(path)
        folder = next((folder for folder in self._folders if comparable.startswith(folder)), None)
        if folder is None:
            supported = f"files below the folders that the option {BLOB_SOURCE_KEY} names"
            raise UnsupportedTableError("reference of a BLOB", f"the file {path}", supported)
        length = reference["length"]
        return _Range(
            folder=self._folders[folder],
            path=comparable.removeprefix(folder),
            offset=reference["offset"] or 0,
            # Hudi reads the whole file where a length is missing.
            length=None if length is None or length < 0 else length,
        )

    def _sizes(self, ranges: Sequence[_Range]) -> Iterator[tuple[_Range, int]]:
        """Yields ranges of one file with their sizes, after checking that the file has them."""
        file_bytes = self._file_bytes(ranges[0])
        for byte_range in ranges:
            size = file_bytes - byte_range.offset if byte_range.length is None else byte_range.length
            if not 0 <= byte_range.offset <= byte_range.offset + size <= file_bytes:
                actual = f"a reference to the bytes from {byte_range.offset} to {byte_range.offset + size}"
                raise CorruptTableError(
                    _full_path(byte_range), byte_range.offset, actual, f"{file_bytes} bytes, as the file has"
                )
            if size > _MAX_BYTES:
                actual = f"{size} bytes of {_full_path(byte_range)}"
                raise UnsupportedTableError("size of a BLOB", actual, f"up to {_MAX_BYTES} bytes")
            yield byte_range, size

    def _file_bytes(self, byte_range: _Range) -> int:
        try:
            with self._folder(byte_range).open_input(byte_range.path) as file:
                return file.size()
        except FileNotFoundError as error:
            raise CorruptTableError(
                _full_path(byte_range), None, "a reference to a file that is not there", "a file"
            ) from error

    def _folder(self, byte_range: _Range) -> Storage:
        """The allowed folder of a range, after checking that links do not lead out of it.

        Raises:
            UnsupportedTableError: the file lies elsewhere when links are resolved.
        """
        folder = self._storage.sibling(byte_range.folder)
        if folder.is_local and not folder.real_path(byte_range.path).startswith(f"{folder.real_path('').rstrip('/')}/"):
            supported = f"files below the folders that the option {BLOB_SOURCE_KEY} names"
            raise UnsupportedTableError(
                "reference of a BLOB", f"{_full_path(byte_range)}, a link that leads elsewhere", supported
            )
        return folder

    def _filled(
        self, part: pa.RecordBatch, references: Mapping[str, _References], first: int, last: int
    ) -> pa.RecordBatch:
        columns = dict(zip(part.schema.names, part.slice(first, last - first).columns, strict=True))
        for name, references_of_column in references.items():
            rows = {
                row - first: byte_range
                for row, byte_range in zip(references_of_column.rows, references_of_column.ranges, strict=True)
                if first <= row < last
            }
            if rows:
                contents = self._contents(
                    {byte_range: references_of_column.sizes[byte_range] for byte_range in rows.values()}
                )
                columns[name] = _with_data(
                    columns[name], {row: contents[byte_range] for row, byte_range in rows.items()}
                )
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=part.schema)

    def _contents(self, sizes: Mapping[_Range, int]) -> Mapping[_Range, bytes]:
        """The bytes of each range; ranges that are close together are read with one request."""
        contents: dict[_Range, bytes] = {}
        pending: list[_Range] = []
        for byte_range in sorted(sizes, key=lambda byte_range: (byte_range.folder, byte_range.path, byte_range.offset)):
            if pending and not self._is_near(pending, byte_range, sizes):
                contents |= self._read(pending, sizes)
                pending = []
            pending.append(byte_range)
        return {**contents, **self._read(pending, sizes)} if pending else contents

    def _is_near(self, pending: Sequence[_Range], byte_range: _Range, sizes: Mapping[_Range, int]) -> bool:
        first = pending[0]
        end = max(other.offset + sizes[other] for other in pending)
        is_same_file = (first.folder, first.path) == (byte_range.folder, byte_range.path)
        total_bytes = max(end, byte_range.offset + sizes[byte_range]) - first.offset
        return is_same_file and byte_range.offset <= end + _GAP_BYTES and total_bytes <= _BYTES_AT_ONCE

    def _read(self, ranges: Sequence[_Range], sizes: Mapping[_Range, int]) -> Mapping[_Range, bytes]:
        first = ranges[0]
        end = max(byte_range.offset + sizes[byte_range] for byte_range in ranges)
        storage = self._folder(first)
        try:
            with storage.open_input(first.path) as file:
                read = memoryview(storage.read_range(file, first.path, first.offset, end - first.offset))
        except FileNotFoundError as error:
            actual = "a reference to a file that is not there"
            raise CorruptTableError(_full_path(first), None, actual, "a file") from error
        starts = {byte_range: byte_range.offset - first.offset for byte_range in ranges}
        return {byte_range: bytes(read[start : start + sizes[byte_range]]) for byte_range, start in starts.items()}


def _with_data(column: "pa.Array[Any]", contents: Mapping[int, bytes]) -> "pa.StructArray":
    """A BLOB column with the ``contents`` of rows, by row number, as its data."""
    kind, data, reference = (pc.struct_field(column, name) for name in ("type", "data", "reference"))
    values = [contents.get(row, value.as_py()) for row, value in enumerate(data)]
    is_null = column.is_null()
    return pa.StructArray.from_arrays(
        [kind, pa.array(values, pa.binary()), reference], fields=list(BLOB_TYPE), mask=is_null
    )


def _row_runs(sizes: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Iterator[tuple[int, int]]:
    """Start and end of consecutive runs of rows with up to ``_BYTES_AT_ONCE`` bytes each, or of one larger row."""
    first, run_bytes = 0, 0
    for row, size in enumerate(sizes.tolist()):
        if row > first and run_bytes + size > _BYTES_AT_ONCE:
            yield first, row
            first, run_bytes = row, 0
        run_bytes += size
    if first < len(sizes):
        yield first, len(sizes)


def _comparable(path: str) -> str:
    """A path or URI in one spelling: ``s3`` for every scheme of S3, a plain path for local files."""
    match = _URI.fullmatch(path)
    if match is None:
        return path
    scheme = match["scheme"].lower()
    if scheme == "file":
        return re.sub("^/+", "/", match["rest"])
    return f"{_SCHEMES.get(scheme, scheme)}:{match['rest']}"


def _full_path(byte_range: _Range) -> str:
    return f"{byte_range.folder.rstrip('/')}/{byte_range.path}"
