"""The batches of contested rows that a call of a Trino function gets."""

import pyarrow as pa
import pytest

from hudi_bridge.connectors.trino.slice_content import batch

ALONE = "CAST(b.place AS varchar) || '/' || CAST(b.record_key AS varchar)"


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.string()), pa.map_(pa.string(), pa.int32()), pa.struct([("x", pa.int64())])]
)
def test_rows_of_unknown_size_are_alone(kind: pa.DataType) -> None:
    schema = pa.schema([pa.field("id", pa.string()), pa.field("nested", kind)])
    assert batch(schema, schema, 10_000) == ALONE
    assert batch(schema, pa.schema([schema.field("id")]), 10_000) != ALONE


def test_the_longer_the_texts_that_are_passed_the_fewer_rows() -> None:
    size = "COALESCE(length(b.c1), 0) + COALESCE(length(l.c1), 0)"
    schema = pa.schema([pa.field(name, pa.string()) for name in ("note", "id", "other")])
    assert batch(schema, pa.schema([schema.field("id")]), 10_001) == (
        f"CASE WHEN {size} <= 1000 THEN '0:' || CAST(mod(crc32(to_utf8({ALONE})), 101) AS varchar)"
        f" WHEN {size} <= 10000 THEN '1:' || CAST(mod(crc32(to_utf8({ALONE})), 1001) AS varchar) ELSE {ALONE} END"
    )


def test_the_more_columns_the_fewer_rows() -> None:
    wide = pa.schema([(f"n{number}", pa.int64()) for number in range(400)])
    assert "mod(crc32(" in batch(wide, wide, 1_000)
    assert ", 100) AS varchar)" in batch(wide, wide, 1_000)
