import struct
from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.errors import CorruptTableError
from hudi_bridge.logformat import hfile
from hudi_bridge.logformat.hfile import cell_starts
from hudi_bridge.logformat.hfile_blocks import Block, HFileSource
from tests.logformat.hfile_writer import END_OF_KEY, cell_bytes, cell_key

PADDING = bytes(2000)
"""Makes blocks large enough for the quick way."""
OTHER_TIME = b"\x00" + struct.pack(">q", 5) + b"\x04"
MISLEADING = [END_OF_KEY, cell_key("k"), cell_bytes(cell_key("key-1"), b"v"), b"\x7f\xff\xff", b""]
BLOCK = Block(magic=b"DATABLK*", position=0, data_start=0, data_end=0, uncompressed_size=0, next_position=0)


def starts(cells: list[bytes], until: int | None = None) -> list[int]:
    data = pa.py_buffer(b"".join(cells))
    actual: list[int] = cell_starts(data, HFileSource(buffer=data, path="f.hfile", offset=0), BLOCK, until).tolist()
    return actual


def ends(cells: list[bytes]) -> list[int]:
    return list(accumulate(map(len, cells), initial=0))


ROWS = st.binary(max_size=12) | st.integers(0, 10**6).map(lambda number: b"key-%07d" % number)
VALUES = st.lists(st.sampled_from(MISLEADING) | st.binary(max_size=9), max_size=4).map(b"".join)
CELLS = st.builds(
    lambda row, end, value: cell_bytes(struct.pack(">h", len(row)) + row + end, value + PADDING),
    ROWS,
    st.sampled_from([END_OF_KEY] * 9 + [OTHER_TIME]),
    VALUES,
)


@given(st.lists(CELLS, max_size=30))
def test_where_cells_begin(cells: list[bytes]) -> None:
    assert starts(cells) == ends(cells)[:-1]


@pytest.mark.parametrize("lengths", [1, 16])
def test_keys_of_few_lengths_are_not_walked_over(lengths: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [cell_bytes(cell_key("k" * (1 + number % lengths)), b"%d" % number) for number in range(1000)]
    monkeypatch.delattr(hfile, "_in_turn")
    assert starts(cells) == ends(cells)[:-1]


def test_keys_of_many_lengths() -> None:
    cells = [cell_bytes(cell_key("k" * (1 + number % 100)), b"%d" % number) for number in range(1000)]
    assert starts(cells) == ends(cells)[:-1]


def test_cells_up_to_a_position_at_least() -> None:
    cells = [cell_bytes(cell_key(str(number)), b"") for number in range(10)]
    assert starts(cells, until=ends(cells)[3] + 1)[:4] == ends(cells)[:4]


@pytest.mark.parametrize("damaged", [b"\x00", cell_bytes(cell_key("k"), b"v")[:-1], b"\x00" * 30])
def test_cells_that_do_not_fill_the_block(damaged: bytes) -> None:
    cells = [cell_bytes(cell_key("key-1"), PADDING)] * 10
    with pytest.raises(CorruptTableError, match=r"f\.hfile.*expected (a cell|cells that fill)"):
        starts([*cells, damaged])
