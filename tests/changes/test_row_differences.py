from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_bridge.changes.row_differences import differing_rows, differing_values, pair_rows, row_numbers

MAP = pa.map_(pa.string(), pa.int32())
POINT = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.float64()))])
NAN = float("nan")

PAIRS: list[tuple[pa.DataType, Any, Any, bool]] = [
    (pa.int32(), 1, 1, False),
    (pa.int32(), 1, 2, True),
    (pa.int32(), None, None, False),
    (pa.int32(), None, 0, True),
    (pa.string(), "", None, True),
    (pa.float64(), NAN, NAN, False),
    (pa.float32(), 0.0, -0.0, True),
    (pa.float32(), None, NAN, True),
    (pa.bool_(), True, False, True),
    (pa.list_(pa.int32()), [1, 2], [1, 2], False),
    (pa.list_(pa.int32()), [1, 2], [1], True),
    (pa.list_(pa.int32()), [1, 2], [2, 1], True),
    (pa.list_(pa.int32()), [], None, True),
    (pa.list_(pa.float32(), 2), [1, NAN], [1, NAN], False),
    (pa.list_(pa.float32(), 2), [1, 2], [1, 3], True),
    (pa.list_(pa.float32(), 2), [0, 0], None, True),
    (pa.list_(pa.list_(pa.int32())), [[1], None], [[1], []], True),
    (MAP, [("a", 1), ("b", None)], [("b", None), ("a", 1)], False),
    (MAP, [("a", 1)], [("a", 2)], True),
    (MAP, [("a", 1)], [("b", 1)], True),
    (MAP, [], [], False),
    (POINT, {"x": 1, "y": [NAN]}, {"x": 1, "y": [NAN]}, False),
    (POINT, {"x": 1, "y": None}, {"x": 1, "y": []}, True),
    (POINT, None, {"x": None, "y": None}, True),
    (pa.null(), None, None, False),
]


@pytest.mark.parametrize(("kind", "one", "other", "differs"), PAIRS, ids=str)
def test_values_differ(kind: pa.DataType, one: Any, other: Any, *, differs: bool) -> None:
    before = pa.table({"c": pa.array([one, None, one], kind)})
    after = pa.table({"c": pa.array([other, None, one], kind)})
    assert differing_rows(before, after).tolist() == [differs, False, False]
    assert differing_rows(before.slice(1), after.slice(1)).tolist() == [False, False]


@pytest.mark.parametrize("kind", list(dict.fromkeys(kind for kind, *_ in PAIRS)), ids=str)
def test_rows_have_one_number_where_their_values_do_not_differ(kind: pa.DataType) -> None:
    values = [value for other, *both, _ in PAIRS if other == kind for value in (*both, None, *both)]
    values += [None] if kind == pa.null() else []
    array: Any = pa.array([None, *values], kind).slice(1)
    numbers = row_numbers([array], len(array))
    first, second = (part.ravel() for part in np.indices((len(array), len(array))))
    alike = ~differing_values(array.take(pa.array(first)), array.take(pa.array(second)))
    assert (numbers[first] == numbers[second]).tolist() == alike.tolist()


def test_rows_have_one_number_where_all_their_columns_are_alike() -> None:
    columns: list[Any] = [pa.array([1, 1, 2, 2, None, None, 1]), pa.array(["a", "b", "a", "b", "a", "a", "a"])]
    numbers = row_numbers(columns, 7).tolist()
    assert len(set(numbers)) == 5
    assert (numbers[0], numbers[4]) == (numbers[6], numbers[5])
    assert row_numbers([], 2).tolist() == [0, 0]
    assert row_numbers([pa.array([], MAP), pa.array([], pa.float64())], 0).tolist() == []


def test_many_rows_in_many_chunks() -> None:
    rows = pa.table({"k": range(200_000), "l": [[number % 3] for number in range(200_000)]})
    chunked = pa.concat_tables([rows.slice(0, 7), rows.slice(7, 100_000), rows.slice(100_007)])
    changed = rows.set_column(
        1, "l", pa.array([[9] if number == 150_000 else [number % 3] for number in range(200_000)])
    )
    assert np.flatnonzero(differing_rows(chunked, changed)).tolist() == [150_000]
    assert differing_rows(rows.slice(0, 0), rows.slice(0, 0)).tolist() == []


def pairs(before: list[str], after: list[str]) -> tuple[list[Any], ...]:
    actual = pair_rows(*(pa.chunked_array([keys[:2], keys[2:]], pa.string()) for keys in (before, after)))
    met = zip(actual.before.tolist(), actual.after.tolist(), strict=True)
    return list(met), actual.only_before.tolist(), actual.only_after.tolist()


def test_rows_meet_by_key() -> None:
    assert pairs(["a", "b", "c"], ["c", "d", "a"]) == ([(2, 0), (0, 2)], [1], [1])
    assert pairs([], ["a", "b"]) == ([], [], [0, 1])
    assert pairs(["a"], []) == ([], [0], [])


def test_rows_of_one_key_meet_in_their_order() -> None:
    assert pairs(["a", "b", "a", "a"], ["a", "a", "b"]) == ([(0, 0), (2, 1), (1, 2)], [3], [])
    assert pairs(["a"], ["b", "a", "a"]) == ([(0, 1)], [], [0, 2])
