"""Decodes the Avro records of a log block, column by column, into a RecordBatch in the writer's schema.

The content of an Avro data block (``HoodieAvroDataBlock``), big-endian:

    offset  width    meaning
    0       4        content version, 1 to 3; the layout is the same
    4       4        number of records
    8       4 + len  length of a record, the record as one Avro datum

The bytes of columns that are not asked for are still checked.
"""

from collections.abc import Collection
from struct import Struct
from typing import cast

import numpy as np
import pyarrow as pa

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.avro_arrays import nested_array, read_array
from hudi_bridge.logformat.avro_cursors import Cursors, DatumBytes, Ints
from hudi_bridge.logformat.avro_items import step_over
from hudi_bridge.logformat.record_bounds import record_bounds
from hudi_bridge.schema.avro_types import AvroRecord, arrow_schema

_CONTENT_HEAD = Struct(">ii")
_CONTENT_VERSIONS = range(1, 4)
_LEAST_RECORD_BYTES = 4
"""The bytes of the length before each record."""

# Each field is read in a pass of its own over the records, over as many at a time as fit a CPU cache.
_CACHED_BYTES = 2**23
_MIN_ROWS = 1024


def decode_avro_block(
    content: pa.Buffer | bytes | memoryview,
    writer: AvroRecord,
    columns: Collection[str] | None,
    path: str,
    offset: int,
) -> pa.RecordBatch:
    """The records of an Avro data block.

    Args:
        content: the content of the block.
        writer: the schema of the block.
        columns: the columns to read, None for all; those that the writer does not have are left out. The batch has
            them in the writer's order.
        path: the log file, for errors.
        offset: where the block begins, for errors.

    Raises:
        CorruptLogFileError: the content is not whole records of the writer's schema.
        UnsupportedTableError: the version or size of the content, or the type of a column, is not supported.
    """
    buffer = pa.py_buffer(content)
    starts, ends = content_bounds(buffer, path, offset)
    return decode_avro_records(buffer, starts, ends, writer, columns, path, offset)


def content_bounds(buffer: pa.Buffer, path: str, offset: int) -> tuple[Ints, Ints]:
    """Where each record in the content of an Avro data block begins and ends.

    Raises:
        CorruptLogFileError: the records do not add up to the content.
        UnsupportedTableError: the version of the content is not supported.
    """
    if buffer.size < _CONTENT_HEAD.size:
        raise CorruptLogFileError(path, offset, f"an Avro block of {buffer.size} bytes", "a version and a count")
    version, count = _CONTENT_HEAD.unpack_from(buffer)
    if version not in _CONTENT_VERSIONS:
        raise UnsupportedTableError("version of Avro log block content", f"{version} in {path}", "1 to 3")
    return record_bounds(buffer, _CONTENT_HEAD.size, count, path, offset)


def stated_records(content: pa.Buffer) -> int:
    """How many records the content of an Avro data block states, no more than fit it; 0 if it is too short."""
    if content.size < _CONTENT_HEAD.size:
        return 0
    _, count = _CONTENT_HEAD.unpack_from(content)
    return max(0, min(int(count), content.size // _LEAST_RECORD_BYTES))


def decode_avro_records(
    buffer: pa.Buffer | bytes | memoryview,
    starts: Ints,
    ends: Ints,
    writer: AvroRecord,
    columns: Collection[str] | None,
    path: str,
    block_offset: int,
) -> pa.RecordBatch:
    """One row for each of the datums at ``[starts[i], ends[i])``, which ascend and do not overlap.

    ``columns``, and ``path`` and ``block_offset`` of their block, are as for ``decode_avro_block``.

    Raises:
        CorruptLogFileError: a datum is not exactly one record of the writer's schema.
        UnsupportedTableError: the size of the buffer, or the type of a column, is not supported.
    """
    source = DatumBytes.of(pa.py_buffer(buffer), starts, path, block_offset)
    edges = np.stack([starts, ends], axis=1).ravel()
    if edges.size and (edges[0] < 0 or edges[-1] > source.data.size or (np.diff(edges) < 0).any()):
        raise CorruptLogFileError(path, block_offset, "records that overlap or leave their block", "whole records")
    fields = arrow_schema(writer)
    wanted = None if columns is None else frozenset(columns)
    schema = pa.schema([field for field in fields if wanted is None or field.name in wanted])
    rows = max(_MIN_ROWS, _CACHED_BYTES * starts.size // max(int((ends - starts).sum()), 1))
    parts = []
    for first in range(0, max(starts.size, 1), rows):
        cursors = Cursors(source, starts[first : first + rows], ends[first : first + rows])
        parts.append(_read_rows(writer, schema, cursors))
    # Structs keep their number of rows even without columns.
    return pa.RecordBatch.from_struct_array(parts[0] if len(parts) == 1 else pa.concat_arrays(parts))


def _read_rows(writer: AvroRecord, schema: pa.Schema, cursors: Cursors) -> pa.StructArray:
    """One struct for each cursor, with the fields of ``schema``."""
    wanted = frozenset(schema.names)
    arrays = []
    for field in writer.fields:
        if field.name in wanted:
            arrays.append(read_array(field.type, cursors))
        else:
            step_over(field.type, cursors)
    cursors.refuse(cursors.pos != cursors.end, "bytes after the last field", "the end of the record")
    return cast("pa.StructArray", nested_array(pa.struct(list(schema)), len(cursors), [None], arrays))
