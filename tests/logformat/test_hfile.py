import struct
import zlib

import pyarrow as pa
import pytest

from hudi_bridge.errors import CorruptTableError, HudiReadError, UnsupportedTableError
from hudi_bridge.logformat.hfile import HFile, read_hfile, read_root_index
from hudi_bridge.logformat.hfile_blocks import HFileSource, parse_trailer
from tests.logformat.hfile_writer import GZ, NONE, block, cell_key, data_block, hfile, varint
from tests.support.strength import one_in

PATH = ".f1-0_001.log.1_0-1-2"
LONG_KEY = "key-" + "x" * 200
BLOCKS = [[("a", b"1"), ("b", b"")], [("c-ключ", b"33")], [(LONG_KEY, b"\x00" * 5), ("z", b"end")]]
KEYS = ["a", "b", "c-ключ", LONG_KEY, "z"]
VALUES = [b"1", b"", b"33", b"\x00" * 5, b"end"]
CODECS = pytest.mark.parametrize("codec", [NONE, GZ])


def values(read: HFile) -> list[bytes]:
    data = memoryview(read.values)
    return [
        bytes(data[start:end]) for start, end in zip(read.value_starts.tolist(), read.value_ends.tolist(), strict=True)
    ]


def source(data: bytes) -> HFileSource:
    return HFileSource(buffer=pa.py_buffer(data), path=PATH, offset=0)


@CODECS
def test_cells_of_all_blocks_in_order(codec: int) -> None:
    read = read_hfile(hfile(BLOCKS, codec=codec), PATH)
    assert read.keys.type == pa.string()
    assert read.keys.to_pylist() == KEYS
    assert values(read) == VALUES


def test_uncompressed_values_are_not_copied() -> None:
    buffer = pa.py_buffer(hfile(BLOCKS))
    assert read_hfile(buffer, PATH).values.address == buffer.address


@CODECS
def test_blocks_of_other_kinds_between_data_blocks(codec: int) -> None:
    between = block(b"IDXLEAF2", b"an index", codec) + block(b"BLMFBLK2", b"a bloom filter", codec)
    assert read_hfile(hfile(BLOCKS, codec=codec, between=between), PATH).keys.to_pylist() == KEYS


@CODECS
def test_no_cells(codec: int) -> None:
    nowhere = (1 << 64) - 1
    data = hfile([], codec=codec, info={"schema": b"{}"}, overrides={9: nowhere, 10: nowhere})
    read = read_hfile(data, PATH)
    assert len(read.keys) == 0
    assert values(read) == []
    assert read.file_info == {"schema": b"{}"}


@CODECS
def test_file_info(codec: int) -> None:
    info = {"schema": b'"string"', "minRecordKey": b"a", "binary": b"\xff\x00", "empty": b""}
    assert read_hfile(hfile(BLOCKS, codec=codec, info=info), PATH).file_info == info


@CODECS
def test_indexes(codec: int) -> None:
    data = hfile(BLOCKS, codec=codec, meta={"bloomFilter": b"bits" * 100, "m2": b""})
    trailer = parse_trailer(source(data))
    assert (trailer.entry_count, trailer.index_levels, trailer.data_index_count) == (5, 1, 3)
    root = read_root_index(source(data), trailer)
    assert [entry.key.decode() for entry in root] == ["a", "c-ключ", LONG_KEY]
    assert [data[entry.offset :][:8] for entry in root] == [b"DATABLK*"] * 3
    assert [entry.size_bytes for entry in root] == [len(data_block(cells, codec)) for cells in BLOCKS]


def test_minor_version_is_ignored() -> None:
    # As HBase's own writer leaves it, up to Hudi 1.0.
    assert read_hfile(hfile(BLOCKS, version=0x03000003), PATH).keys.to_pylist() == KEYS


@pytest.mark.parametrize("version", [0, 2, 4, 0x03000002])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(UnsupportedTableError, match="HFile version"):
        read_hfile(hfile(BLOCKS, version=version), PATH)


@pytest.mark.parametrize(("number", "name"), [(0, "LZO"), (3, "SNAPPY"), (6, "ZSTD"), (77, "77")])
def test_other_compressions_are_refused_by_name(number: int, name: str) -> None:
    with pytest.raises(UnsupportedTableError) as caught:
        read_hfile(hfile(BLOCKS, overrides={12: number}), PATH)
    assert caught.value.found == f"{name} in {PATH}"


@pytest.mark.parametrize(
    "overrides",
    [
        {1: 0},
        {1: 1 << 40},
        {1: (1 << 64) - 1},
        {7: 4},
        {7: 0},
        {9: 1},
        {9: 1 << 62},
        {10: 1 << 62},
        {10: 0},
    ],
)
def test_trailer_that_contradicts_the_file(overrides: dict[int, int]) -> None:
    with pytest.raises(CorruptTableError) as caught:
        read_hfile(hfile(BLOCKS, overrides=overrides), PATH)
    assert caught.value.path == PATH


def test_offsets_in_errors_count_from_the_file() -> None:
    with pytest.raises(CorruptTableError) as caught:
        read_hfile(hfile(BLOCKS).replace(b"FILEINF2", b"FILEINFO"), PATH, 1000)
    assert caught.value.offset == 1000 + hfile(BLOCKS).index(b"FILEINF2")


@pytest.mark.parametrize("index", [{5: 4}, {5: 1 << 40}, {5: (1 << 64) - 1}, {2: 0}, {2: 1 << 40}])
def test_index_that_contradicts_the_file(index: dict[int, int]) -> None:
    data = hfile(BLOCKS, overrides=index)
    with pytest.raises(CorruptTableError):
        read_root_index(source(data), parse_trailer(source(data)))


@pytest.mark.parametrize(
    ("key_length", "value_length", "row_length"),
    [
        (-1, 1, 1),
        (1 << 30, 1, 1),
        (13, -1, 1),
        (13, -20, 1),
        (13, 1 << 30, 1),
        (13, 2, 1),
        (13, 1, -1),
        (13, 1, 12),
        (2, 1, 1),
    ],
)
def test_cells_that_leave_their_block(key_length: int, value_length: int, row_length: int) -> None:
    cell = struct.pack(">ii", 13, 1) + cell_key("a") + b"1"
    data = hfile([[("a", b"1")]])
    assert data.count(cell) == 1
    broken = struct.pack(">iih", key_length, value_length, row_length) + cell[10:]
    with pytest.raises(CorruptTableError) as caught:
        read_hfile(data.replace(cell, broken), PATH)
    assert caught.value.offset == 0


@pytest.mark.parametrize("key", [b"\x80", b"\xff", b"\x8f\x7f", b"\x01\x00", b"\x00", b"\x88\x7f\xff"])
def test_index_keys_that_leave_their_block(key: bytes) -> None:
    whole = hfile([[("a", b"1")]])
    entry = struct.pack(">qi", 0, len(data_block([("a", b"1")])))
    start = whole.index(entry, 1) + len(entry)
    data = whole[:start] + key + whole[start + len(key) :]
    with pytest.raises(CorruptTableError):
        read_root_index(source(data), parse_trailer(source(data)))


def test_key_that_is_not_text() -> None:
    with pytest.raises(CorruptTableError, match="UTF-8"):
        read_hfile(hfile([[(b"\xff", b"")]]), PATH)


def test_wrong_size_before_compression() -> None:
    data = bytearray(hfile([[("a", b"1" * 5000)]], codec=GZ))
    for size in (-1, 0, 10, 1 << 30):
        data[12:16] = struct.pack(">i", size)
        with pytest.raises(CorruptTableError, match="inflated"):
            read_hfile(bytes(data), PATH)


def test_bytes_that_do_not_inflate() -> None:
    data = hfile(BLOCKS, codec=GZ)
    with pytest.raises(CorruptTableError, match="do not inflate"):
        read_hfile(data.replace(b"\x1f\x8b", b"\x1f\x8c"), PATH)


def test_a_bomb_is_not_inflated() -> None:
    squeezed = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = squeezed.compress(bytes(1 << 24)) + squeezed.flush()
    data = hfile([[("a", b"1")]], codec=GZ)
    info = data.index(b"FILEINF2")
    header = struct.pack(">8siiqbii", b"FILEINF2", len(bomb), 100, -1, 0, 16384, 33 + len(bomb))
    with pytest.raises(CorruptTableError, match="more than 100 inflated"):
        read_hfile(data[:info] + header + bomb + data[-4096:], PATH)


def read_all(data: bytes) -> None:
    read_hfile(data, PATH)
    trailer = parse_trailer(source(data))
    read_root_index(source(data), trailer)


@CODECS
def test_truncation_is_an_error_of_ours(codec: int) -> None:
    data = hfile(BLOCKS, codec=codec, info={"schema": b"{}"}, meta={"bloomFilter": b"bits"})
    read_all(data)
    for length in range(len(data)):
        with pytest.raises(HudiReadError):
            read_all(data[:length])


@CODECS
@pytest.mark.parametrize("mask", one_in(2, [0x01, 0x80, 0xFF]))
def test_flipped_bits_give_cells_or_an_error_of_ours(codec: int, mask: int) -> None:
    data = hfile(BLOCKS, codec=codec, info={"schema": b"{}"}, meta={"bloomFilter": b"bits"})
    trailer = len(data) - 4096
    refused = 0
    for position in [*range(trailer + 100), *range(len(data) - 4, len(data))]:
        broken = bytearray(data)
        broken[position] ^= mask
        try:
            read_all(bytes(broken))
        except HudiReadError:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize("message", [b"\x08", b"\x08\xff", b"\x0b", b"\x0a\x05abc", b"\xff" * 11, b"\x09\x01"])
def test_trailer_that_is_no_message(message: bytes) -> None:
    data = hfile(BLOCKS)
    trailer = (b'TRABLK"$' + varint(len(message)) + message).ljust(4092, b"\x00") + struct.pack(">i", 3)
    with pytest.raises(HudiReadError):
        read_hfile(data[:-4096] + trailer, PATH)
