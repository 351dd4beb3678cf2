import base64

import pyarrow as pa
import pytest
from pyroaring import BitMap64

from hudi_bridge.errors import CorruptLogFileError
from hudi_bridge.logformat.block import LogBlock, parse_record_positions
from hudi_bridge.logformat.layout import BlockType, HeaderKey

BASE = "001"


def block(positions: bytes | str) -> LogBlock:
    text = positions if isinstance(positions, str) else base64.b64encode(positions).decode()
    header: dict[int, str] = {
        HeaderKey.RECORD_POSITIONS: text,
        HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: BASE,
    }
    return LogBlock(
        block_type=BlockType.AVRO_DATA,
        version=1,
        header=header,
        footer={},
        content=pa.py_buffer(b""),
        path="f",
        offset=0,
        content_offset=0,
        size_bytes=0,
    )


def test_positions_in_the_base_file_of_one_instant() -> None:
    stored = block(BitMap64([3, 5, 1 << 40]).serialize())
    actual = parse_record_positions(stored, BASE, 3)
    assert actual is not None
    assert actual.tolist() == [3, 5, 1 << 40]
    assert parse_record_positions(stored, "002", 3) is None
    assert parse_record_positions(stored, BASE, 4) is None
    assert parse_record_positions(block(BitMap64([1, 1 << 63]).serialize()), BASE, 2) is None


@pytest.mark.parametrize("positions", ["", "=", "ключ", b"\0" * 7, b"\1" + b"\0" * 7, b"\xff" * 8])
def test_what_is_no_bitmap(positions: bytes | str) -> None:
    with pytest.raises(CorruptLogFileError, match="RECORD_POSITIONS"):
        parse_record_positions(block(positions), BASE, 1)


def test_positions_that_are_not_in_order() -> None:
    whole = BitMap64([3, 5, 9]).serialize()
    # An array of 16-bit numbers comes last.
    with pytest.raises(CorruptLogFileError, match="strictly increasing"):
        parse_record_positions(block(whole[:-6] + bytes([5, 0, 3, 0, 9, 0])), BASE, 3)
