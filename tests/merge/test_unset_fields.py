"""Which rows have nothing of their own in a field."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.merge.fold import META_FIELDS, unset_fields
from hudi_bridge.merge.rules import COMMIT_TIME, FieldFill, MergeRule

ANY_MAP: Any = pa.map_
ROWS = pa.table(
    {
        "_hoodie_record_key": pa.array([None, "k", "k"], pa.string()),
        "text": pa.array([None, "?", "x"], pa.string()),
        "raw": pa.array([b"?", None, b"x"], pa.binary()),
        "number": pa.array([0, None, 1], pa.int64()),
        "full": pa.array([1, 1, 1], pa.int64()),
    }
)


def unset(fill: FieldFill | None, rows: Any = ROWS) -> dict[str, list[bool]]:
    rule = MergeRule(precedence=COMMIT_TIME, ordering_fields=(), fill=fill, unavailable_value="?")
    actual = unset_fields(rows, rule, {"number": pa.scalar(0, pa.int64())})
    return {name: of_field.tolist() for name, of_field in actual.items()}


def test_without_filling_no_field_lacks() -> None:
    assert unset(None) == {}


def test_nulls_lack() -> None:
    assert unset(FieldFill.NULLS) == {
        "text": [True, False, False],
        "raw": [False, True, False],
        "number": [False, True, False],
    }


def test_defaults_lack_and_nulls_only_where_they_are_the_default() -> None:
    assert unset(FieldFill.DEFAULTS) == {
        "text": [True, False, False],
        "raw": [False, True, False],
        "number": [True, False, False],
    }


def test_the_mark_of_unavailable_values_lacks_in_texts_and_bytes() -> None:
    assert unset(FieldFill.UNAVAILABLE) == {"text": [False, True, False], "raw": [True, False, False]}


def test_for_partial_update_modes_bytes_are_no_mark() -> None:
    assert unset(FieldFill.UNAVAILABLE_TEXTS) == {"text": [False, True, False]}


def test_for_partial_update_modes_nulls_and_defaults_that_java_keeps_lack() -> None:
    assert unset(FieldFill.IDENTICAL_DEFAULTS) == unset(FieldFill.DEFAULTS)


@pytest.mark.parametrize(
    ("default", "kind", "lacks"),
    [
        (True, pa.bool_(), True),
        (False, pa.bool_(), True),
        (127, pa.int32(), True),
        (128, pa.int32(), False),
        (-128, pa.int64(), True),
        (-129, pa.int64(), False),
        (0.0, pa.float32(), False),
        (0.0, pa.float64(), False),
        (0, pa.decimal128(4, 2), False),
        ("", pa.string(), False),
        (b"", pa.binary(), False),
        (dt.date(1970, 5, 8), pa.date32(), True),
        (dt.date(1970, 5, 9), pa.date32(), False),
        (127, pa.time64("us"), True),
        (128, pa.time32("ms"), False),
        (127, pa.timestamp("us", tz="UTC"), True),
        (128, pa.timestamp("us"), False),
        (0, pa.timestamp("ms", tz="UTC"), True),
        (1, pa.timestamp("ms"), False),
    ],
)
def test_java_keeps_one_object_of_booleans_and_small_numbers(default: Any, kind: Any, lacks: bool) -> None:
    rule = MergeRule(precedence=COMMIT_TIME, fill=FieldFill.IDENTICAL_DEFAULTS)
    rows = pa.table({"field": pa.array([default, None], kind)})
    actual = unset_fields(rows, rule, {"field": pa.scalar(default, kind)})
    # Null is not the default, so it is a value like others.
    assert {name: of_field.tolist() for name, of_field in actual.items()} == ({"field": [True, False]} if lacks else {})


@pytest.mark.parametrize(
    ("default", "kind", "lacks"),
    [
        ([], pa.list_(pa.string()), True),
        ([], ANY_MAP(pa.string(), pa.int32()), True),
        ({"x": 1}, pa.struct([("x", pa.int32())]), False),
        (b"x", pa.binary(), False),
        (1, pa.decimal128(4, 2), False),
        (1.5, pa.float64(), True),
    ],
)
def test_for_payloads_bytes_and_records_equal_no_default(default: Any, kind: Any, lacks: bool) -> None:
    rule = MergeRule(precedence=COMMIT_TIME, fill=FieldFill.DEFAULTS)
    rows = pa.table({"field": pa.array([default, None], kind)})
    actual = unset_fields(rows, rule, {"field": rows.column("field")[0]})
    assert {name: of_field.tolist() for name, of_field in actual.items()} == ({"field": [True, False]} if lacks else {})


@pytest.mark.parametrize("fill", FieldFill)
def test_batches_are_like_tables_and_meta_columns_never_lack(fill: FieldFill) -> None:
    batch = ROWS.combine_chunks().to_batches()[0]
    assert unset(fill, batch) == unset(fill)
    chunks = pa.concat_tables([ROWS.slice(0, 1), ROWS.slice(1)])
    assert unset(fill, chunks) == unset(fill)
    assert META_FIELDS.isdisjoint(unset(fill))


@pytest.mark.parametrize("fill", FieldFill)
def test_no_rows_lack_nothing(fill: FieldFill) -> None:
    assert unset(fill, ROWS.slice(0, 0)) == {}
