import struct

import pyarrow as pa
import pytest

from hudi_bridge.errors import CorruptLogFileError, HudiReadError, UnsupportedTableError
from hudi_bridge.logformat.layout import BlockType, HeaderKey
from hudi_bridge.logformat.scan import scan_blocks
from tests.logformat.log_writer import MAGIC, data_block, delete_block, log_block, rollback_block

PATH = ".f1-0_001.log.1_0-1-2"
FIRST = data_block("001", b"first rows")
SECOND = delete_block("002", b"deletes")
THIRD = data_block("003", b"third rows")
WHOLE = FIRST + SECOND + THIRD


def instants(data: bytes) -> list[str | None]:
    return [block.instant_time for block in scan_blocks(data, PATH).blocks]


def damage(data: bytes) -> list[tuple[int, str]]:
    return [(corrupt.offset, corrupt.reason) for corrupt in scan_blocks(data, PATH).corrupt]


def test_blocks_come_in_file_order_with_their_place() -> None:
    result = scan_blocks(WHOLE, PATH)
    assert result.corrupt == ()
    assert [block.block_type for block in result.blocks] == [
        BlockType.AVRO_DATA,
        BlockType.DELETE,
        BlockType.AVRO_DATA,
    ]
    assert [block.offset for block in result.blocks] == [0, len(FIRST), len(FIRST + SECOND)]
    assert [block.size_bytes for block in result.blocks] == [len(FIRST), len(SECOND), len(THIRD)]
    first = result.blocks[0]
    assert (first.path, first.version, first.instant_time, first.schema_text) == (PATH, 1, "001", '"string"')
    assert first.content.to_pybytes() == b"first rows"
    assert WHOLE[first.content_offset :].startswith(b"first rows")


def test_contents_are_slices_of_the_file() -> None:
    buffer = pa.py_buffer(WHOLE)
    for block in scan_blocks(buffer, PATH).blocks:
        assert block.content.address == buffer.address + block.content_offset


def test_any_buffer_will_do() -> None:
    assert instants(WHOLE) == ["001", "002", "003"]
    assert len(scan_blocks(memoryview(WHOLE), PATH).blocks) == 3


def test_header_keys_have_properties_and_unknown_ones_are_kept() -> None:
    header = {
        HeaderKey.RECORD_POSITIONS: "OjAAAA==",
        HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: "001",
        HeaderKey.COMPACTED_BLOCK_TIMES: "002,003",
        HeaderKey.IS_PARTIAL: "true",
        99: "of a later release",
    }
    (block,) = scan_blocks(log_block(BlockType.PARQUET_DATA, b"", header, footer={0: "end"}), PATH).blocks
    assert block.record_positions == "OjAAAA=="
    assert block.base_file_instant_of_positions == "001"
    assert block.compacted_block_times == ("002", "003")
    assert block.is_partial
    assert block.is_data
    assert block.header[99] == "of a later release"
    assert block.footer == {0: "end"}


def test_absent_header_keys() -> None:
    (block,) = scan_blocks(log_block(BlockType.CDC_DATA), PATH).blocks
    assert block.instant_time is None
    assert block.compacted_block_times == ()
    assert not block.is_partial
    assert not block.is_rollback
    assert not block.is_data


def test_rollback_names_its_target() -> None:
    (block,) = scan_blocks(rollback_block("005", "003"), PATH).blocks
    assert block.is_rollback
    assert (block.instant_time, block.target_instant_time) == ("005", "003")


def test_empty_file_has_no_blocks() -> None:
    assert scan_blocks(b"", PATH).blocks == ()


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_truncation_keeps_the_whole_blocks_before_it(length: int) -> None:
    ends = [len(FIRST), len(FIRST + SECOND)]
    expected = ["001", "002"][: sum(end <= length for end in ends)]
    assert instants(WHOLE[:length]) == expected
    cut_start = max([0, *(end for end in ends if end <= length)])
    # Less than a magic is no damage to speak of: the file just ends.
    assert [offset for offset, _ in damage(WHOLE[:length])] == ([cut_start] if length - cut_start >= 6 else [])


@pytest.mark.parametrize(
    ("tail", "kept", "damaged_at"),
    [
        (b"\x00\x01garbage", ["001", "002"], [len(FIRST + SECOND)]),
        (b"garba", ["001", "002", "003"], []),
        (b"#HUDI", ["001", "002", "003"], []),
        (MAGIC, ["001", "002", "003"], [len(WHOLE)]),
        (MAGIC + b"\x00\x00\x00", ["001", "002", "003"], [len(WHOLE)]),
        (MAGIC + struct.pack(">q", 1 << 40), ["001", "002", "003"], [len(WHOLE)]),
        (MAGIC + struct.pack(">q", -1), ["001", "002", "003"], [len(WHOLE)]),
        (MAGIC + struct.pack(">q", 0), ["001", "002", "003"], [len(WHOLE)]),
    ],
)
def test_trailing_bytes(tail: bytes, kept: list[str], damaged_at: list[int]) -> None:
    assert instants(WHOLE + tail) == kept
    assert [offset for offset, _ in damage(WHOLE + tail)] == damaged_at


def test_damaged_magic_takes_the_block_before_it_too() -> None:
    broken = bytearray(WHOLE)
    broken[len(FIRST)] ^= 1
    assert instants(bytes(broken)) == ["003"]
    assert damage(bytes(broken)) == [(0, "neither a block nor the end of the file follows")]


def test_damaged_trailing_length_skips_to_the_next_block() -> None:
    broken = bytearray(WHOLE)
    broken[len(FIRST) - 1] ^= 1
    assert instants(bytes(broken)) == ["002", "003"]
    ((offset, reason),) = damage(bytes(broken))
    assert offset == 0
    assert "trailing length" in reason


@pytest.mark.parametrize("size", [-(1 << 63), -1, 0, 5, 31, 1 << 31, (1 << 63) - 1])
def test_damaged_size_skips_to_the_next_block(size: int) -> None:
    broken = FIRST[:6] + struct.pack(">q", size) + FIRST[14:] + SECOND
    assert instants(broken) == ["002"]


def test_recovery_takes_a_magic_inside_the_damaged_block() -> None:
    carrier = data_block("001", b"before" + SECOND + b"after")
    broken = carrier[:-1] + b"\x00" + THIRD
    # The block inside is whole, but what follows it is neither a block nor the end of the file.
    assert instants(broken) == ["003"]
    assert [offset for offset, _ in damage(broken)] == [0, carrier.index(SECOND)]


@pytest.mark.parametrize("start", [b"PAR1xxxx", b"#HUDI!", b"\x00" * 20])
def test_a_file_that_does_not_start_with_a_block(start: bytes) -> None:
    with pytest.raises(CorruptLogFileError) as caught:
        scan_blocks(start + WHOLE, PATH)
    assert (caught.value.path, caught.value.offset) == (PATH, 0)
    assert "#HUDI#" in str(caught.value)


@pytest.mark.parametrize(
    ("block", "feature", "found"),
    [
        (log_block(version=0), "log format version", "0"),
        (log_block(version=2), "log format version", "2"),
        (log_block(2), "log block type", "2"),
        (log_block(7), "log block type", "7"),
        (log_block(-1), "log block type", "-1"),
    ],
)
def test_unknown_blocks_are_refused_by_name(block: bytes, feature: str, found: str) -> None:
    with pytest.raises(UnsupportedTableError) as caught:
        scan_blocks(FIRST + block, PATH)
    assert caught.value.feature == feature
    assert caught.value.found == f"{found} in {PATH} at byte {len(FIRST)}"


# Offsets of int32 fields in a block whose header has one entry of key 0 with three characters.
@pytest.mark.parametrize(
    ("field_offset", "number"),
    [
        (22, -1),
        (22, 2),
        (22, 1 << 30),
        (30, -1),
        (30, 4),
        (30, 1 << 30),
        (37, -1),
        (37, 1 << 30),
        (41, 1),
        (41, 1 << 30),
        (45, -1),
        (45, 1),
    ],
)
def test_lengths_that_contradict_the_block(field_offset: int, number: int) -> None:
    block = log_block(BlockType.DELETE, b"", {HeaderKey.INSTANT_TIME: "001"})
    broken = block[:field_offset] + struct.pack(">i", number) + block[field_offset + 4 :]
    assert len(broken) == len(block) == 57
    with pytest.raises(CorruptLogFileError) as caught:
        scan_blocks(broken, PATH)
    assert caught.value.offset is not None
    assert 22 <= caught.value.offset <= len(broken)


def test_header_that_is_not_text() -> None:
    block = log_block(BlockType.DELETE, b"", {HeaderKey.INSTANT_TIME: "001"})
    with pytest.raises(CorruptLogFileError, match="UTF-8"):
        scan_blocks(block.replace(b"001", b"\xff01"), PATH)


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_flipped_bits_give_blocks_or_an_error_of_ours(mask: int) -> None:
    for position in range(len(WHOLE)):
        broken = bytearray(WHOLE)
        broken[position] ^= mask
        try:
            result = scan_blocks(bytes(broken), PATH)
        except HudiReadError:
            continue
        assert len(result.blocks) + len(result.corrupt) >= 1
