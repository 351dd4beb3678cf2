"""Which rows have nothing of their own in a field."""

from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.merge.lacking import META_FIELDS, lacking_fields
from hudi_bridge.merge.ordering import COMMIT_TIME
from hudi_bridge.merge.payloads import FieldFill, MergeRule

ROWS = pa.table(
    {
        "_hoodie_record_key": pa.array([None, "k", "k"], pa.string()),
        "text": pa.array([None, "?", "x"], pa.string()),
        "raw": pa.array([b"?", None, b"x"], pa.binary()),
        "number": pa.array([0, None, 1], pa.int64()),
        "full": pa.array([1, 1, 1], pa.int64()),
    }
)


def lacking(fill: FieldFill | None, rows: Any = ROWS) -> dict[str, list[bool]]:
    rule = MergeRule(kind=COMMIT_TIME, ordering_fields=(), fill=fill, unavailable_value="?")
    found = lacking_fields(rows, rule, {"number": pa.scalar(0, pa.int64())})
    return {name: of_field.tolist() for name, of_field in found.items()}


def test_without_filling_no_field_lacks() -> None:
    assert lacking(None) == {}


def test_nulls_lack() -> None:
    assert lacking(FieldFill.NULLS) == {
        "text": [True, False, False],
        "raw": [False, True, False],
        "number": [False, True, False],
    }


def test_defaults_lack_and_nulls_only_where_they_are_the_default() -> None:
    assert lacking(FieldFill.DEFAULTS) == {
        "text": [True, False, False],
        "raw": [False, True, False],
        "number": [True, False, False],
    }


def test_the_mark_of_unavailable_values_lacks_in_texts_and_bytes() -> None:
    assert lacking(FieldFill.UNAVAILABLE) == {"text": [False, True, False], "raw": [True, False, False]}


@pytest.mark.parametrize("fill", FieldFill)
def test_batches_are_like_tables_and_meta_columns_never_lack(fill: FieldFill) -> None:
    batch = ROWS.combine_chunks().to_batches()[0]
    assert lacking(fill, batch) == lacking(fill)
    chunks = pa.concat_tables([ROWS.slice(0, 1), ROWS.slice(1)])
    assert lacking(fill, chunks) == lacking(fill)
    assert META_FIELDS.isdisjoint(lacking(fill))


@pytest.mark.parametrize("fill", FieldFill)
def test_no_rows_lack_nothing(fill: FieldFill) -> None:
    assert lacking(fill, ROWS.slice(0, 0)) == {}
