"""The bytes of an HFile -> its keys, and where their values are.

Hudi stores the base files and log blocks of its metadata table as HFiles, and HFile data blocks of other
tables. A data block repeats: 4-byte key length, 4-byte value length, key, value, one byte of MVCC version. A
key is a 2-byte row length, the row (which is Hudi's record key), a 1-byte family length, 8 bytes of
timestamp, 1 byte of type. A value is the Avro datum of the record, whose key field Hudi empties.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_bridge.logformat.hfile_blocks import (
    Codec,
    HFileSource,
    block_data,
    iter_data_blocks,
    parse_trailer,
)
from hudi_bridge.logformat.hfile_index import read_file_info
from hudi_bridge.logformat.inflating import most_inflated

_CELL_START = struct.Struct(">iih")
_CELL_LENGTHS_SIZE = 8
_MVCC_SIZE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HFile:
    """All cells of an HFile in key order; value ``i`` is ``values[value_starts[i]:value_ends[i]]``.

    ``values`` is the HFile's own buffer if its blocks are not compressed, so nothing was copied.
    """

    keys: pa.StringArray
    values: pa.Buffer
    value_starts: npt.NDArray[np.int64]
    value_ends: npt.NDArray[np.int64]
    file_info: Mapping[str, bytes]


def read_hfile(data: bytes | memoryview | pa.Buffer, path: str, offset: int = 0) -> HFile:
    """All cells of the HFile that is ``data``; ``offset`` is its place in the file, for messages.

    Raises:
        CorruptTableError: the bytes are not an HFile, or contradict themselves.
        UnsupportedTableError: the version or the compression is not supported.
    """
    source = HFileSource(buffer=data if isinstance(data, pa.Buffer) else pa.py_buffer(data), path=path, offset=offset)
    trailer = parse_trailer(source)
    file_info = read_file_info(source, trailer)
    cells = _Cells()
    if trailer.codec is Codec.NONE:
        values = source.buffer
        for block in iter_data_blocks(source, trailer):
            cells.collect(source.buffer, block.data_start, block.data_end, source, block.position)
    else:
        blocks = list(iter_data_blocks(source, trailer))
        announced, most = sum(max(block.uncompressed_size, 0) for block in blocks), most_inflated(source.buffer.size)
        if announced > most:
            raise source.corrupt(0, f"blocks of {announced} inflated bytes", f"up to {most} from {source.buffer.size}")
        pieces: list[bytes] = []
        start = 0
        for block in blocks:
            piece = block_data(source, block, trailer.codec)
            cells.collect(piece, 0, len(piece), source, block.position, shift=start)
            pieces.append(piece)
            start += len(piece)
        values = pa.py_buffer(b"".join(pieces))
    if len(cells.keys) != trailer.entry_count:
        raise source.corrupt(0, f"{len(cells.keys)} entries", f"{trailer.entry_count}, as the trailer says")
    return HFile(
        keys=_key_array(cells.keys, source),
        values=values,
        value_starts=np.array(cells.starts, dtype=np.int64),
        value_ends=np.array(cells.ends, dtype=np.int64),
        file_info=file_info,
    )


class _Cells:
    """Keys and value ranges, collected block by block."""

    __slots__ = ("ends", "keys", "starts")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.starts: list[int] = []
        self.ends: list[int] = []

    def collect(
        self,
        data: bytes | pa.Buffer,
        position: int,
        end: int,
        source: HFileSource,
        block_position: int,
        *,
        shift: int = 0,
    ) -> None:
        """Add the cells of one data block; ``shift`` is what its values move by when blocks are joined."""
        view = memoryview(data)
        unpack, keys, starts, ends = _CELL_START.unpack_from, self.keys, self.starts, self.ends
        while position < end:
            if end - position < _CELL_START.size:
                raise source.corrupt(block_position, f"{end - position} bytes after the last cell", "a cell")
            key_length, value_length, row_length = unpack(view, position)
            row = position + _CELL_START.size
            start = position + _CELL_LENGTHS_SIZE + key_length
            position = start + value_length + _MVCC_SIZE
            if row_length < 0 or row + row_length > start or value_length < 0 or position > end:
                found = f"a cell with a key of {key_length} and a value of {value_length} bytes"
                raise source.corrupt(block_position, found, "cells that fill the data block")
            keys.append(bytes(view[row : row + row_length]))
            starts.append(start + shift)
            ends.append(start + value_length + shift)


def _key_array(keys: list[bytes], source: HFileSource) -> pa.StringArray:
    try:
        return pa.array(keys, pa.string())
    except pa.ArrowInvalid as error:
        raise source.corrupt(0, f"a key that is not text ({error})", "UTF-8") from error
