"""The pairs of rows with repeated keys, against a plain search, row by row."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.changes.row_differences import RowPairs
from hudi_bridge.merge.arrays import Positions
from hudi_bridge.tools.differences.states import pair_equal_rows_first

Row = tuple[str, int]

ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=8)


def paired(before: Sequence[Row], after: Sequence[Row]) -> tuple[RowPairs, int]:
    """The pairs, and how often values were asked for."""
    asked = 0

    def numbers(ones: Positions, others: Positions) -> Positions:
        nonlocal asked
        asked += 1
        return np.array([*(before[item][1] for item in ones), *(after[other][1] for other in others)], dtype=np.int64)

    keys: list[Any] = [pa.chunked_array([[key for key, _ in rows]], pa.string()) for rows in (before, after)]
    return pair_equal_rows_first(keys[0], keys[1], numbers), asked


def searched(before: Sequence[Row], after: Sequence[Row]) -> set[tuple[int, int]]:
    """Each row with the first equal one that is left, then the others of a key in their order."""
    pairs: dict[int, int] = {}
    for same_values in (True, False):
        for place, row in enumerate(before):
            left = [
                other
                for other, later in enumerate(after)
                if other not in pairs.values() and (later == row if same_values else later[0] == row[0])
            ]
            if left and place not in pairs:
                pairs[place] = left[0]
    return set(pairs.items())


@given(before=ROWS, after=ROWS)
def test_rows_with_equal_values_meet_first(before: Sequence[Row], after: Sequence[Row]) -> None:
    actual, _ = paired(before, after)
    pairs = list(zip(actual.before.tolist(), actual.after.tolist(), strict=True))
    assert set(pairs) == searched(before, after)
    assert sorted([*actual.before, *actual.only_before]) == list(range(len(before)))
    assert sorted([*actual.after, *actual.only_after]) == list(range(len(after)))
    assert len(set(pairs)) == len(pairs)


def test_values_are_asked_for_once_however_often_a_key_repeats() -> None:
    rows = [("a", number) for number in range(1000)]
    actual, asked = paired(rows, rows[::-1])
    assert asked == 1
    assert actual.after.tolist() == [999 - location for location in actual.before]
    assert paired([("a", 1), ("a", 1), ("b", 1)], [("b", 2)])[1] == 0
