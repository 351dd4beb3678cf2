"""Which rows have nothing of their own in a field."""

from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.merge.rules import COMMIT_TIME, FieldFill, MergeRule
from hudi_bridge.merge.unset_fields import META_FIELDS, unset_fields

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
    found = unset_fields(rows, rule, {"number": pa.scalar(0, pa.int64())})
    return {name: of_field.tolist() for name, of_field in found.items()}


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
