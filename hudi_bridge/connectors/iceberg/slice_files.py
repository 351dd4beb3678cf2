"""The files that an Iceberg client reads for one file slice: their manifest entries, and their JSON form for the cache.

They are valid while the files of the slice are the same and the same log blocks count.

The entry of a Parquet file has row and null counts, bounds and partition, from its footer. Floating-point columns of
base files have no bounds: statistics leave NaN out, and a client could skip a file that has one. In files that are
written here, NaN is looked for. Deleted positions of a data file become a deletion vector in a Puffin file.

Source: the Iceberg specification, "Manifests" and "Binary single-value serialization"; the Puffin specification, "File
structure" and "``deletion-vector-v1`` blob type".
"""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)
from pyroaring import BitMap64

from hudi_bridge.connectors.iceberg.columns import ROW_POSITION_ID, Ids
from hudi_bridge.engines import ColumnStatistics, column_statistics

_MAGIC = b"PFA1"
_VECTOR_MAGIC = bytes.fromhex("d1d33964")
_NO_FLAGS = bytes(4)
_UNKNOWN = -1
"""The snapshot and the sequence number of a vector, which are known when it is committed."""
_WITH_BOUNDS = (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)
_BOUND_LENGTH = 64
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_NO_BYTES = (ValueError, OverflowError, TypeError, NotImplementedError, AttributeError)
_FORMAT = 5
Misread: TypeAlias = Mapping[str, str]
"""The clients that misread a base file, with the reasons."""


class Folder(StrEnum):
    """The folders in the scratch folder of a table, by what they hold."""

    DATA = "data"
    SLICES = "slices"
    METADATA = "metadata"
    SNAPSHOTS = "snapshots"
    DROPPED = "dropped"
    TABLES = "tables"
    GIVEN = "given"
    CLAIMS = "row-ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorLocation:
    """Where the deletion vector of the data file at ``of``, a URI, lies in a Puffin file; in bytes."""

    of: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PuffinFile:
    """The content of a Puffin file with one deletion vector."""

    content: bytes
    vector: VectorLocation


def puffin_file(location: str, deleted: "npt.NDArray[np.int64]") -> PuffinFile:
    """The Puffin file with the deleted positions of the data file at ``location``; all are zero or greater."""
    bitmap = BitMap64(deleted.astype(np.uint64))
    bitmap.run_optimize()
    vector = _VECTOR_MAGIC + bitmap.serialize()
    blob = len(vector).to_bytes(4, "big") + vector + zlib.crc32(vector).to_bytes(4, "big")
    position = VectorLocation(of=location, offset=len(_MAGIC), size=len(blob))
    described = {
        "type": "deletion-vector-v1",
        "fields": [ROW_POSITION_ID],
        "snapshot-id": _UNKNOWN,
        "sequence-number": _UNKNOWN,
        "offset": position.offset,
        "length": position.size,
        "properties": {"referenced-data-file": location, "cardinality": str(len(bitmap))},
    }
    footer = json.dumps({"blobs": [described], "properties": {"created-by": "Hudi Bridge"}}).encode()
    size = len(footer).to_bytes(4, "little")
    return PuffinFile(content=b"".join((_MAGIC, blob, _MAGIC, footer, size, _NO_FLAGS, _MAGIC)), vector=position)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data file of an Iceberg table, as a manifest lists it.

    ``location`` is the URI that clients use. ``partition`` holds the values of all partition columns, in Iceberg's
    form; it is None unless all rows are known to have them. Counts, sizes in bytes and bounds are by field id;
    ``nan_counts`` are known of files that are written here. In version 3, ``written_at`` is the instant, as a number,
    of the newest write that the file shows, and ``vector`` tells where in the file the deletion vector lies, if any.
    """

    location: str
    rows: int
    size_bytes: int
    partition: tuple[Any, ...] | None
    value_counts: Mapping[int, int]
    null_counts: Mapping[int, int]
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]
    split_offsets: tuple[int, ...]
    written_at: int | None = None
    vector: VectorLocation | None = None
    column_sizes: Mapping[int, int] = field(default_factory=dict)
    nan_counts: Mapping[int, int] = field(default_factory=dict)


def without_bounds(file: DataFile, ids: Collection[int]) -> DataFile:
    """The data file without bounds of the columns with these ids."""
    lower = {id_: bound for id_, bound in file.lower_bounds.items() if id_ not in ids}
    upper = {id_: bound for id_, bound in file.upper_bounds.items() if id_ not in ids}
    return replace(file, lower_bounds=lower, upper_bounds=upper)


def data_file(
    location: str,
    size_bytes: int,
    footer: pq.FileMetaData,
    schema: Schema,
    ids: Ids,
    partition: tuple[Any, ...] | None,
) -> DataFile:
    """The data file of a footer; ``ids`` are the field ids of the file's columns by dotted path."""
    statistics_by_id = {ids[path]: statistics for path, statistics in column_statistics(footer, ids).items()}
    bounds = {id_: _bounds(schema.find_type(id_), statistics) for id_, statistics in statistics_by_id.items()}
    return DataFile(
        location=location,
        rows=footer.num_rows,
        size_bytes=size_bytes,
        partition=partition,
        value_counts={id_: statistics.values for id_, statistics in statistics_by_id.items()},
        null_counts={
            id_: statistics.nulls for id_, statistics in statistics_by_id.items() if statistics.nulls is not None
        },
        lower_bounds={id_: lower for id_, (lower, _) in bounds.items() if lower is not None},
        upper_bounds={id_: upper for id_, (_, upper) in bounds.items() if upper is not None},
        split_offsets=tuple(_offsets(footer)),
        column_sizes={id_: statistics.stored_bytes for id_, statistics in statistics_by_id.items()},
    )


def _bounds(kind: IcebergType, statistics: ColumnStatistics) -> tuple[bytes | None, bytes | None]:
    if not isinstance(kind, _WITH_BOUNDS) or statistics.least is None or statistics.greatest is None:
        return None, None
    lower, upper = statistics.least, statistics.greatest
    if isinstance(kind, LongType) and not isinstance(lower, int):
        return None, None
    if isinstance(kind, StringType):
        if not isinstance(lower, str) or not isinstance(upper, str):
            return None, None
        lower, upper = lower[:_BOUND_LENGTH], _upper_text(upper)
    if isinstance(kind, BinaryType):
        if not isinstance(lower, bytes) or not isinstance(upper, bytes):
            return None, None
        lower, upper = lower[:_BOUND_LENGTH], _upper_bytes(upper)
    try:
        return to_bytes(kind, lower), None if upper is None else to_bytes(kind, upper)
    except _NO_BYTES:
        return None, None


def _upper_text(text: str) -> str | None:
    """A text of at most ``_BOUND_LENGTH`` characters that is not less than the given one; None if there is none."""
    if len(text) <= _BOUND_LENGTH:
        return text
    start = text[:_BOUND_LENGTH]
    while start:
        following = ord(start[-1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LAST_CHARACTER:
            return start[:-1] + chr(following)
        start = start[:-1]
    return None


def _upper_bytes(content: bytes) -> bytes | None:
    """Bytes of at most ``_BOUND_LENGTH`` that are not less than the given ones; None if there are none."""
    if len(content) <= _BOUND_LENGTH:
        return content
    start = content[:_BOUND_LENGTH].rstrip(b"\xff")
    return start[:-1] + bytes([start[-1] + 1]) if start else None


def _offsets(footer: pq.FileMetaData) -> Iterator[int]:
    for group in range(footer.num_row_groups):
        chunk = footer.row_group(group).column(0)
        dictionary = chunk.dictionary_page_offset
        yield chunk.data_page_offset if dictionary is None else min(dictionary, chunk.data_page_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFiles:
    """The files of one slice.

    ``name`` is unique. ``own_files`` are the names of the files that were written to the scratch folder; the others are
    the table's. ``counted`` tells for the instant of each log block whether the block counted. ``stored_paths`` are the
    dotted paths of the base file's columns, if clients read that file; ``misread`` names those that misread it.
    ``base_copy`` is the name of the slice whose data file clients read in place of the base file, because of its lists
    or maps: the slice without the logs.
    """

    name: str
    data: tuple[DataFile, ...]
    deletes: tuple[DataFile, ...]
    own_files: tuple[str, ...]
    counted: Mapping[str, bool]
    stored_paths: tuple[str, ...]
    misread: Misread
    base_copy: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the cache entries whose files these are."""
        return (self.name,) if self.base_copy in (None, self.name) else (self.name, self.base_copy)

    def holds(self, counts: Callable[[str], bool]) -> bool:
        """Whether the same log blocks still count."""
        return all(counts(instant) == counted for instant, counted in self.counted.items())


def slice_to_json(files: SliceFiles) -> bytes:
    """The JSON text that ``slice_from_json`` reads."""
    document = {
        "format": _FORMAT,
        "name": files.name,
        "data": [_file_to_json(file) for file in files.data],
        "deletes": [_file_to_json(file) for file in files.deletes],
        "own_files": files.own_files,
        "counted": dict(files.counted),
        "stored_paths": files.stored_paths,
        "misread": dict(files.misread),
        "base_copy": files.base_copy,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def slice_from_json(text: bytes) -> SliceFiles | None:
    """The files that ``slice_to_json`` wrote; None for another format version."""
    document = json.loads(text)
    if document.get("format") != _FORMAT:
        return None
    return SliceFiles(
        name=document["name"],
        data=tuple(map(_file_from_json, document["data"])),
        deletes=tuple(map(_file_from_json, document["deletes"])),
        own_files=tuple(document["own_files"]),
        counted=document["counted"],
        stored_paths=tuple(document["stored_paths"]),
        misread=document["misread"],
        base_copy=document["base_copy"],
    )


def _file_to_json(file: DataFile) -> dict[str, Any]:
    vector = file.vector
    return {
        "location": file.location,
        "rows": file.rows,
        "size_bytes": file.size_bytes,
        "partition": file.partition,
        "value_counts": dict(file.value_counts),
        "null_counts": dict(file.null_counts),
        "lower_bounds": {id_: b64encode(bound).decode() for id_, bound in file.lower_bounds.items()},
        "upper_bounds": {id_: b64encode(bound).decode() for id_, bound in file.upper_bounds.items()},
        "split_offsets": file.split_offsets,
        "written_at": file.written_at,
        "vector": None if vector is None else {"of": vector.of, "offset": vector.offset, "size": vector.size},
        "column_sizes": dict(file.column_sizes),
        "nan_counts": dict(file.nan_counts),
    }


def _file_from_json(document: dict[str, Any]) -> DataFile:
    vector = document.get("vector")
    return DataFile(
        location=document["location"],
        rows=document["rows"],
        size_bytes=document["size_bytes"],
        partition=None if document["partition"] is None else tuple(document["partition"]),
        value_counts=_by_id(document["value_counts"]),
        null_counts=_by_id(document["null_counts"]),
        lower_bounds={id_: b64decode(bound) for id_, bound in _by_id(document["lower_bounds"]).items()},
        upper_bounds={id_: b64decode(bound) for id_, bound in _by_id(document["upper_bounds"]).items()},
        split_offsets=tuple(document["split_offsets"]),
        written_at=document["written_at"],
        vector=None if vector is None else VectorLocation(**vector),
        column_sizes=_by_id(document["column_sizes"]),
        nan_counts=_by_id(document["nan_counts"]),
    )


def _by_id(document: Mapping[str, Any]) -> dict[int, Any]:
    return {int(id_): value for id_, value in document.items()}
