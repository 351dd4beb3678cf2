"""Deleted positions of several files, as one array of bits."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.connectors.spark import deleted_bits
from hudi_bridge.connectors.spark.delta_columns import BLOCK_ROWS, deleted_blocks, told_blocks

ENDS = (0, 1, 63, 64, BLOCK_ROWS - 1, BLOCK_ROWS, 2 * BLOCK_ROWS - 1)
ROWS = st.sampled_from([one + 1 for one in ENDS])
FILES = st.lists(ROWS.flatmap(lambda rows: st.tuples(st.just(rows), st.sets(st.integers(0, rows - 1)))), max_size=4)


@given(files=FILES)
def test_each_bit_is_at_the_place_of_its_row(files: list[tuple[int, set[int]]]) -> None:
    rows = {f"f{number}.parquet": count for number, (count, _) in enumerate(files)}
    deleted = {name: positions for name, (_, positions) in zip(rows, files, strict=True)}
    blocks = told_blocks(
        [
            deleted_blocks(name, np.array(sorted(positions), dtype=np.int64)).serialize().to_pybytes()
            for name, positions in deleted.items()
            if positions
        ]
    )
    (array,) = deleted_bits.bits_of(rows, blocks).column(0)
    words = np.array(array.as_py(), dtype=np.int64)
    starts = deleted_bits.first_words(rows)
    assert {name: _set_bits(words[starts[name] :], count) for name, count in rows.items()} == deleted
    assert len(words) == sum(-(-count // BLOCK_ROWS) * BLOCK_ROWS // 64 for count in rows.values())


def _set_bits(words: "np.ndarray[tuple[int], np.dtype[np.int64]]", rows: int) -> set[int]:
    return {row for row in range(rows) if words[row >> 6] >> (row & 63) & 1}


@pytest.mark.parametrize(
    ("rows", "few"),
    [
        ({"a": 1}, True),
        ({"a": deleted_bits.MOST_ROWS}, True),
        ({"a": deleted_bits.MOST_ROWS, "b": 1}, False),
        ({str(number): 1 for number in range(deleted_bits.MOST_FILES)}, True),
        ({str(number): 1 for number in range(deleted_bits.MOST_FILES + 1)}, False),
    ],
)
def test_few_files_of_few_rows_have_one_array(rows: Mapping[str, int], few: bool) -> None:
    assert deleted_bits.are_few(rows) is few


def test_no_file_has_no_bits() -> None:
    assert deleted_bits.bits_of({}, told_blocks([])).to_pylist() == pa.table({"_hudi_bridge_bits": [[]]}).to_pylist()
