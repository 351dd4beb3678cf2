import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from hudi_bridge import UnsupportedTableError
from hudi_bridge.connectors.spark.types import arrow_layout, in_layout, spark_schema
from hudi_bridge.schema.avro_types import VARIANT_FIELD

NESTED = pa.struct(
    [("m", pa.map_(pa.string(), pa.list_(pa.field("item", pa.timestamp("ms"))))), ("t", pa.timestamp("ns", "UTC"))]
)
FIELDS: "list[pa.Field[Any]]" = [
    pa.field("nothing", pa.null()),
    pa.field("b", pa.bool_()),
    pa.field("i", pa.int32()),
    pa.field("l", pa.int64()),
    pa.field("f", pa.float32()),
    pa.field("d", pa.float64()),
    pa.field("s", pa.string()),
    pa.field("bin", pa.binary()),
    pa.field("dec", pa.decimal128(38, 18)),
    pa.field("day", pa.date32()),
    pa.field("millis", pa.time32("ms")),
    pa.field("micros", pa.time64("us")),
    pa.field("at", pa.timestamp("us", "UTC")),
    pa.field("wall", pa.timestamp("us")),
    pa.field("nested", NESTED),
    pa.field("vector", pa.list_(pa.int8(), 2)),
    pa.field("variant", pa.struct([("metadata", pa.binary()), ("value", pa.binary())]), metadata=VARIANT_FIELD),
]
EVERY = pa.schema(FIELDS)


def test_the_layout_is_the_one_that_spark_expects() -> None:
    expected = to_arrow_schema(spark_schema(EVERY), timezone="UTC")
    assert arrow_layout(EVERY).equals(expected)


def test_types_as_spark_spells_them() -> None:
    spelled = {field.name: field.dataType.simpleString() for field in spark_schema(EVERY)}
    assert spelled["millis"] == "int"
    assert spelled["micros"] == "bigint"
    assert (spelled["at"], spelled["wall"]) == ("timestamp", "timestamp_ntz")
    assert spelled["dec"] == "decimal(38,18)"
    assert (spelled["vector"], spelled["variant"]) == ("array<tinyint>", "variant")
    assert spelled["nested"] == "struct<m:map<string,array<timestamp_ntz>>,t:timestamp>"


def test_values_keep_their_meaning() -> None:
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 6000, dt.UTC)
    value = {"m": [("k", [at.replace(tzinfo=None), None])], "t": at}
    batch = pa.record_batch([pa.array([value, None], NESTED), pa.array([5, None], pa.time32("ms"))], names=["n", "t"])
    layout = arrow_layout(batch.schema)
    (actual,) = in_layout(iter([batch]), layout)
    assert actual.schema == layout
    assert actual.column(0).to_pylist() == [value, None]
    assert actual.column(1).to_pylist() == [5, None]


def test_vectors_and_variants_in_spark_s_layout() -> None:
    variant = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x01"}
    fields = [EVERY.field("vector"), EVERY.field("variant")]
    rows: list[dict[str, Any]] = [{"vector": [-128, 127], "variant": variant}, {"vector": None, "variant": None}]
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema(fields))
    (actual,) = in_layout(iter([batch]), arrow_layout(batch.schema))
    actual.validate(full=True)
    assert actual.to_pylist() == rows
    assert [field.name for field in actual.schema.field("variant").type] == ["value", "metadata"]


def test_a_variant_that_is_null_as_parquet_has_it() -> None:
    field = EVERY.field("variant")
    parts = [pa.array([b"\x01\x00\x00", None]), pa.array([b"\x0c\x01", None])]
    stored = pa.StructArray.from_arrays(parts, fields=list(field.type), mask=pa.array([False, True]))
    batch = pa.RecordBatch.from_arrays([stored], schema=pa.schema([field]))
    (actual,) = in_layout(iter([batch]), arrow_layout(batch.schema))
    actual.validate(full=True)
    assert actual.to_pylist() == batch.to_pylist()


def test_a_decimal_that_spark_does_not_have_is_refused() -> None:
    with pytest.raises(UnsupportedTableError, match=r"column wide.*decimal256\(50, 3\)"):
        spark_schema(pa.schema([("wide", pa.decimal256(50, 3))]))
