"""The indexes and the file info of an HFile -> where its blocks are, and what its writer noted.

An index block repeats: 8-byte block offset, 4-byte block size, key length as Hadoop's ``WritableUtils``
writes a VInt, key. The key of a data block is a cell's key, which starts with a 2-byte row length and the
row; that of a meta block is its name. The indexes start where the trailer says "load on open": first the root
index, then the meta index. File info is ``PBUF`` and a Protocol Buffers message of name-value pairs.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hudi_bridge.logformat.hfile_blocks import HFileSource, HFileTrailer, block_at, block_data
from hudi_bridge.logformat.protobuf import iter_fields, parse_delimited

_META_MAGIC = b"METABLKc"
_ROOT_INDEX_MAGIC = b"IDXROOT2"
_FILE_INFO_MAGIC = b"FILEINF2"
_FILE_INFO_PREFIX = b"PBUF"

_INDEX_ENTRY = struct.Struct(">qi")
_ROW_LENGTH = struct.Struct(">h")
# The first byte of a VInt, read as signed: from here up it is the value itself,
_MIN_VINT_VALUE = -112
# and from here up it says how many bytes of a positive number follow.
_MIN_POSITIVE_VINT = -120


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """One block as an index names it: its first row key, or the name of a meta block."""

    key: bytes
    offset: int
    size_bytes: int


def read_root_index(source: HFileSource, trailer: HFileTrailer) -> tuple[IndexEntry, ...]:
    """The root index, in key order: the data blocks themselves if the file has one index level."""
    block = block_at(source, trailer.load_on_open_offset, _ROOT_INDEX_MAGIC)
    entries = _index_entries(block_data(source, block, trailer.codec), trailer.data_index_count, source, block.position)
    return tuple(
        IndexEntry(key=_row_key(entry.key, source, block.position), offset=entry.offset, size_bytes=entry.size_bytes)
        for entry in entries
    )


def read_meta_index(source: HFileSource, trailer: HFileTrailer) -> tuple[IndexEntry, ...]:
    """The meta blocks by name; the bloom filter of a base file is one of them."""
    if trailer.meta_index_count == 0:
        return ()
    root = block_at(source, trailer.load_on_open_offset, _ROOT_INDEX_MAGIC)
    block = block_at(source, root.next_position, _ROOT_INDEX_MAGIC)
    return _index_entries(block_data(source, block, trailer.codec), trailer.meta_index_count, source, block.position)


def read_meta_block(source: HFileSource, trailer: HFileTrailer, entry: IndexEntry) -> bytes:
    """The content of a meta block."""
    return block_data(source, block_at(source, entry.offset, _META_MAGIC), trailer.codec)


def read_file_info(source: HFileSource, trailer: HFileTrailer) -> Mapping[str, bytes]:
    """The key-value pairs that the writer left: among them ``schema``, ``minRecordKey``, ``maxRecordKey``."""
    block = block_at(source, trailer.file_info_offset, _FILE_INFO_MAGIC)
    data = block_data(source, block, trailer.codec)
    if not data.startswith(_FILE_INFO_PREFIX):
        raise source.corrupt(block.data_start, repr(data[: len(_FILE_INFO_PREFIX)]), repr(_FILE_INFO_PREFIX))
    info: dict[str, bytes] = {}
    try:
        for number, entry in iter_fields(parse_delimited(data[len(_FILE_INFO_PREFIX) :])):
            if number == 1 and isinstance(entry, bytes):
                pair = {field: value for field, value in iter_fields(entry) if isinstance(value, bytes)}
                info[pair.get(1, b"").decode()] = pair.get(2, b"")
    except ValueError as error:
        raise source.corrupt(block.data_start, str(error), "file info as a Protocol Buffers message") from error
    return MappingProxyType(info)


def _index_entries(data: bytes, count: int, source: HFileSource, position: int) -> tuple[IndexEntry, ...]:
    if count < 0:
        raise source.corrupt(position, f"{count} index entries", "0 or more")
    entries: list[IndexEntry] = []
    at = 0
    for _ in range(count):
        key_start = at + _INDEX_ENTRY.size
        if key_start >= len(data):
            raise source.corrupt(position, f"{len(entries)} index entries", str(count))
        offset, size = _INDEX_ENTRY.unpack_from(data, at)
        length, key_start = _parse_vint(data, key_start)
        at = key_start + length
        if length < 0 or at > len(data):
            raise source.corrupt(position, f"an index key of {length} bytes", "keys that fit the index block")
        entries.append(IndexEntry(key=data[key_start:at], offset=offset, size_bytes=size))
    return tuple(entries)


def _parse_vint(data: bytes, position: int) -> tuple[int, int]:
    """(value, position after it) of a number as Hadoop's ``WritableUtils.writeVInt`` writes it.

    A first byte below those of positive numbers means a negative one; -1 stands for all of them.
    """
    first = int.from_bytes(data[position : position + 1], signed=True)
    if first >= _MIN_VINT_VALUE:
        return first, position + 1
    if first < _MIN_POSITIVE_VINT:
        return -1, position + 1
    end = position + 1 + _MIN_VINT_VALUE - first
    return int.from_bytes(data[position + 1 : end], "big"), end


def _row_key(key: bytes, source: HFileSource, position: int) -> bytes:
    if len(key) < _ROW_LENGTH.size:
        raise source.corrupt(position, f"an index key of {len(key)} bytes", "a key with a row")
    (length,) = _ROW_LENGTH.unpack_from(key)
    return key[_ROW_LENGTH.size : _ROW_LENGTH.size + max(length, 0)]
