"""Deleted positions of a file as an array of bits."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.connectors.spark.deleted_rows import BITS, BLOCKS_LAYOUT, deleted_bits

ROWS = st.sampled_from([1, 2, 64, 65, 2048, 2049])


@given(rows=ROWS, data=st.data())
def test_each_bit_is_at_the_place_of_its_row(rows: int, data: st.DataObject) -> None:
    deleted = data.draw(st.sets(st.integers(0, rows - 1)))
    batch = deleted_bits("f.parquet", np.array(sorted(deleted), dtype=np.int64), rows)
    assert batch.schema.equals(BLOCKS_LAYOUT)
    (one,) = batch.to_pylist()
    words = one.pop(BITS)
    assert list(one.values()) == ["f.parquet", 0]
    assert {row for row in range(64 * len(words)) if words[row >> 6] >> (row & 63) & 1} == deleted
    assert len(words) == -(-rows // 64)
