"""Reads the bytes that BLOB columns refer to, where an option names the folders whose files may be read.

A BLOB is a struct: bytes that are in the row (``INLINE``), or a reference (``OUT_OF_LINE``) to a file, or to a range of
it. Any writer of the table can name any file, so only those below the given folders are read. The bytes become the
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
"""The bytes that a batch refers to, unless one row alone refers to more."""
_MOST_BYTES = (1 << 31) - 1
"""The most bytes of one value; Arrow and Java count no further."""
_GAP_BYTES = 1 << 12
"""Ranges of a file that are no further apart are read with one request."""
_MOVED = "=>"
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
    """The BLOB columns among some columns."""
    return tuple(name for name in schema.names if schema.field(name).type.equals(BLOB_TYPE))


def with_blobs(reader: BatchReader, storage: Storage, context: ReadContext) -> BatchReader:
    """The reader, or one that also reads the bytes that its BLOB columns refer to, if an option allows to."""
    names = blob_columns(reader.schema) if context.blob_sources else ()
    return _ReaderOfBlobs(reader, BlobFiles(storage, context.blob_sources), names) if names else reader


class _ReaderOfBlobs:
    def __init__(self, reader: BatchReader, files: "BlobFiles", names: Sequence[str]) -> None:
        self._reader = reader
        self._files = files
        self._names = names
        self.schema = reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader.batches():
            yield from self._files.filled(batch, self._names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """The references of a column: their rows, ranges, and numbers of bytes."""

    rows: Sequence[int]
    ranges: Sequence[_Range]
    sizes: Mapping[_Range, int]


class BlobFiles:
    """The files that BLOB columns refer to; those of some folders alone are read.

    ``sources`` are these folders, or ``RECORDED=>FOLDER`` for files that references look for in another one.
    """

    def __init__(self, storage: Storage, sources: Sequence[str]) -> None:
        self._storage = storage
        self._folders: dict[str, str] = {}
        for source in sources:
            recorded, _, folder = source.partition(_MOVED)
            self._folders[f"{_comparable(recorded.strip()).rstrip('/')}/"] = folder.strip() or recorded.strip()

    def filled(self, batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The batch with the bytes of references in these columns, in parts that bound the memory for them.

        Raises:
            UnsupportedTableError: a reference is to a file of another folder, or to too many bytes.
            CorruptTableError: a reference is to bytes that are not there.
            StorageError: a file cannot be read.
        """
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            part = batch.slice(start, _ROWS_AT_ONCE)
            wanted = {name: self._wanted(part.column(name)) for name in names}
            sizes = np.zeros(part.num_rows, dtype=np.int64)
            for found in wanted.values():
                for row, one in zip(found.rows, found.ranges, strict=True):
                    sizes[row] += found.sizes[one]
            for first, last in _runs(sizes):
                yield self._filled(part, wanted, first, last)

    def _wanted(self, column: "pa.Array[Any]") -> _Wanted:
        rows = np.flatnonzero(as_booleans(pc.equal(pc.struct_field(column, "type"), pa.scalar(_OUT_OF_LINE)))).tolist()
        references = pc.struct_field(column, "reference").take(pa.array(rows, pa.int64())).to_pylist()
        ranges = [self._range(reference) for reference in references]
        of_file: dict[tuple[str, str], list[_Range]] = defaultdict(list)
        for one in dict.fromkeys(ranges):
            of_file[one.folder, one.path].append(one)
        sizes = {one: size for found in of_file.values() for one, size in self._sizes(found)}
        return _Wanted(rows=rows, ranges=ranges, sizes=sizes)

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
        """The number of bytes of each of some ranges of one file, which exists and has these."""
        file_bytes = self._file_bytes(ranges[0])
        for one in ranges:
            size = file_bytes - one.offset if one.length is None else one.length
            if not 0 <= one.offset <= one.offset + size <= file_bytes:
                found = f"a reference to the bytes from {one.offset} to {one.offset + size}"
                raise CorruptTableError(_shown(one), one.offset, found, f"{file_bytes} bytes, as the file has")
            if size > _MOST_BYTES:
                found = f"{size} bytes of {_shown(one)}"
                raise UnsupportedTableError("size of a BLOB", found, f"up to {_MOST_BYTES} bytes")
            yield one, size

    def _file_bytes(self, one: _Range) -> int:
        try:
            with self._folder(one).open_input(one.path) as file:
                return file.size()
        except FileNotFoundError as error:
            raise CorruptTableError(_shown(one), None, "a reference to a file that is not there", "a file") from error

    def _folder(self, one: _Range) -> Storage:
        """The folder of a file, which no link in it leads out of.

        Raises:
            UnsupportedTableError: the file lies elsewhere when links are resolved.
        """
        folder = self._storage.sibling(one.folder)
        if folder.is_local and not folder.real_path(one.path).startswith(f"{folder.real_path('').rstrip('/')}/"):
            supported = f"files below the folders that the option {BLOB_SOURCE_KEY} names"
            raise UnsupportedTableError("reference of a BLOB", f"{_shown(one)}, a link that leads elsewhere", supported)
        return folder

    def _filled(self, part: pa.RecordBatch, wanted: Mapping[str, _Wanted], first: int, last: int) -> pa.RecordBatch:
        columns = dict(zip(part.schema.names, part.slice(first, last - first).columns, strict=True))
        for name, found in wanted.items():
            rows = {row - first: one for row, one in zip(found.rows, found.ranges, strict=True) if first <= row < last}
            if rows:
                contents = self._contents({one: found.sizes[one] for one in rows.values()})
                columns[name] = _with_data(columns[name], {row: contents[one] for row, one in rows.items()})
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=part.schema)

    def _contents(self, sizes: Mapping[_Range, int]) -> Mapping[_Range, bytes]:
        """The bytes of ranges; near ones are read together."""
        contents: dict[_Range, bytes] = {}
        pending: list[_Range] = []
        for one in sorted(sizes, key=lambda one: (one.folder, one.path, one.offset)):
            if pending and not self._is_near(pending, one, sizes):
                contents |= self._read(pending, sizes)
                pending = []
            pending.append(one)
        return {**contents, **self._read(pending, sizes)} if pending else contents

    def _is_near(self, pending: Sequence[_Range], one: _Range, sizes: Mapping[_Range, int]) -> bool:
        first = pending[0]
        end = max(before.offset + sizes[before] for before in pending)
        is_same_file = (first.folder, first.path) == (one.folder, one.path)
        together = max(end, one.offset + sizes[one]) - first.offset
        return is_same_file and one.offset <= end + _GAP_BYTES and together <= _BYTES_AT_ONCE

    def _read(self, ranges: Sequence[_Range], sizes: Mapping[_Range, int]) -> Mapping[_Range, bytes]:
        first = ranges[0]
        end = max(one.offset + sizes[one] for one in ranges)
        storage = self._folder(first)
        try:
            with storage.open_input(first.path) as file:
                read = memoryview(storage.read_range(file, first.path, first.offset, end - first.offset))
        except FileNotFoundError as error:
            found = "a reference to a file that is not there"
            raise CorruptTableError(_shown(first), None, found, "a file") from error
        starts = {one: one.offset - first.offset for one in ranges}
        return {one: bytes(read[start : start + sizes[one]]) for one, start in starts.items()}


def _with_data(column: "pa.Array[Any]", contents: Mapping[int, bytes]) -> "pa.StructArray":
    """A BLOB column with the data of some rows."""
    kind, data, reference = (pc.struct_field(column, name) for name in ("type", "data", "reference"))
    values = [contents.get(row, value.as_py()) for row, value in enumerate(data)]
    is_null = column.is_null()
    return pa.StructArray.from_arrays(
        [kind, pa.array(values, pa.binary()), reference], fields=list(BLOB_TYPE), mask=is_null
    )


def _runs(sizes: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Iterator[tuple[int, int]]:
    """Runs of rows, from first to last exclusive, of at most so many bytes, or of one row."""
    first, held = 0, 0
    for row, size in enumerate(sizes.tolist()):
        if row > first and held + size > _BYTES_AT_ONCE:
            yield first, row
            first, held = row, 0
        held += size
    if first < len(sizes):
        yield first, len(sizes)


def _comparable(path: str) -> str:
    """A path or URI as others for the same place are written, too: one scheme for S3, none for local files."""
    match = _URI.fullmatch(path)
    if match is None:
        return path
    scheme = match["scheme"].lower()
    if scheme == "file":
        return re.sub("^/+", "/", match["rest"])
    return f"{_SCHEMES.get(scheme, scheme)}:{match['rest']}"


def _shown(one: _Range) -> str:
    return f"{one.folder.rstrip('/')}/{one.path}"
