"""Writes shredded.zip: Parquet files with shredded VARIANT columns, by Spark and DuckDB, and what both read.

    .venv/bin/python -m tests.golden.shredded work-folder
    (cd work-folder && zip -X -9 - *) > tests/golden/shredded.zip

Needs the PySpark 4 and the DuckDB of the tests, which make base files and log blocks of them, in tables without meta
columns: with a forced schema, Spark 4.3 fails to write more than three columns.

<name>.parquet  the rows: id, ts and v
<name>.json     for each id, the JSON that Spark and DuckDB make of v, and the types that they name
"""

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession

OBJECT = (
    "a int, s string, d decimal(9,2), big decimal(38,4), dt date, ts timestamp, tn timestamp_ntz, bin binary, "
    "f float, x double, b boolean, l bigint, arr array<int>, nest struct<p: int, q: array<struct<z: string>>>"
)
JSONS: Mapping[str, str | None] = {
    "all": '{"a":1,"s":"text","d":1.25,"x":0.5,"b":true,"l":12345678901,"arr":[1,2,3],'
    '"nest":{"p":7,"q":[{"z":"one"},{"z":"two","more":[null]}]}}',
    "rest": '{"a":2,"s":"t","zz":{"a":[1,{"b":2}]},"aa":"before","é":"after"}',
    "only_rest": '{"other":1,"b2":[true,false,null]}',
    "others": '{"a":"no int","s":5,"d":"1.25","b":0,"arr":[1,"two",3.5,null,[4]],"nest":[1]}',
    "nulls": '{"a":null,"s":null,"arr":null,"nest":{"p":null,"q":null}}',
    "empty": '{"arr":[],"nest":{"q":[]},"s":""}',
    "inner_rest": '{"nest":{"p":1,"r":"rest","q":[{"y":1},2,{}]},"arr":[10000000000]}',
    "object_of_none": "{}",
    "array": '[1,{"a":1},"x"]',
    "number": "17",
    "text": '"a text that is no object, and longer than sixty-three bytes, which is all that a short one has"',
    "null": "null",
    "absent": None,
    "long": json.dumps({"s": "long " * 60, "a": 3}),
    "many": json.dumps({"arr": list(range(300)), **{f"k{number:03d}": number for number in range(300)}}),
}
OF_TYPES = (
    "named_struct('a', 5, 's', 'typed', 'd', 12.5bd, 'big', 12345678901234567890.1234bd, 'dt', date'2024-02-29', "
    "'ts', timestamp'2024-02-29 12:34:56.789012Z', 'tn', timestamp_ntz'1969-12-31 23:59:59.999999', "
    "'bin', X'00FF10', 'f', 1.5f, 'x', -0.0d, 'b', false, 'l', -1L, 'arr', array(1, null), "
    "'nest', named_struct('p', 1, 'q', array(named_struct('z', 'in'))))"
)
OTHERWISE = (
    "named_struct('d', 123456789012.125bd, 'big', 1e0d, 'dt', timestamp_ntz'2024-01-01 00:00:00', 'ts', "
    "date'2024-01-01', 'tn', timestamp'2024-01-01 00:00:00Z', 'f', 1.5d, 'x', 2.5f, 'rest', X'01')"
)
FORCED = {
    "spark_object": OBJECT,
    "spark_number": "bigint",
    "spark_decimal": "decimal(18,3)",
    "spark_text": "string",
    "spark_arrays": "array<array<bigint>>",
}
DUCKDB_TYPES = {
    "duckdb_object": "STRUCT(a INTEGER, s VARCHAR, d DECIMAL(9,2), dt DATE, ts TIMESTAMPTZ, tn TIMESTAMP, tm TIME, "
    "u UUID, bin BLOB, f FLOAT, x DOUBLE, b BOOLEAN, l BIGINT, i1 TINYINT, i2 SMALLINT, tns TIMESTAMP_NS, "
    "arr INTEGER[], nest STRUCT(p INTEGER, q STRUCT(z VARCHAR)[]))",
    "duckdb_by_itself": None,
}
DUCKDB_ROWS = (
    (
        "{'a': 1, 's': 'text', 'd': 1.25::DECIMAL(9,2), 'dt': DATE '2024-02-29', 'ts': TIMESTAMPTZ "
        "'2024-02-29 12:34:56.789012+00', 'tn': TIMESTAMP '1969-12-31 23:59:59.999999', 'tm': TIME '12:34:56.789', "
        "'u': UUID '00112233-4455-6677-8899-aabbccddeeff', 'bin': '\\x00\\xFF'::BLOB, 'f': 1.5::FLOAT, "
        "'x': 2.5::DOUBLE, 'b': true, 'l': 12345678901, 'i1': -1::TINYINT, 'i2': 300::SMALLINT, "
        "'tns': TIMESTAMP_NS '2024-02-29 12:34:56.789012345', 'arr': [1, 2, NULL], "
        "'nest': {'p': 1, 'q': [{'z': 'one'}]}, 'more': [1]}"
    ),
    "{'a': 'other', 's': 1, 'arr': ['x'], 'nest': 5, 'rest': {'k': NULL}}",
    "{'a': NULL, 's': ''}",
    "[1, 2]",
    "'text'",
    "42",
    "NULL",
)


def write_by_spark(folder: Path) -> None:
    """The files of Spark, and what Spark and DuckDB read."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    rows = [
        f"SELECT '{key}' AS id, " + ("CAST(NULL AS variant)" if text is None else f"parse_json('{text}')") + " AS v"
        for key, text in JSONS.items()
    ]
    rows += [
        f"SELECT '{key}' AS id, to_variant_object({value}) AS v"
        for key, value in (("types", OF_TYPES), ("other_types", OTHERWISE))
    ]
    rows += [
        f"SELECT 'plain_{number}' AS id, CAST({value} AS variant) AS v"
        for number, value in enumerate(
            ("1.125bd", "123456789012.125bd", "1Y", "array(array(1L, null), array())", "date'2024-02-29'", "true")
        )
    ]
    frame = spark.sql(f"SELECT id, 1L AS ts, v FROM ({' UNION ALL '.join(rows)})").coalesce(1)
    for name, forced in {**FORCED, "spark_by_itself": None}.items():
        spark.conf.set("spark.sql.variant.writeShredding.enabled", "true")
        spark.conf.set("spark.sql.variant.inferShreddingSchema", str(forced is None).lower())
        spark.conf.set("spark.sql.variant.forceShreddingSchemaForTest", forced or "")
        spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
        # Spark shreds nothing by itself if values have nothing in common.
        rows_to_write = frame if forced else frame.where("startswith(schema_of_variant(v), 'OBJECT')")
        rows_to_write.write.mode("overwrite").parquet(str(folder / "spark"))
        (written,) = (folder / "spark").glob("*.parquet")
        written.rename(folder / f"{name}.parquet")
        shutil.rmtree(folder / "spark")
        describe(spark, folder, name)
    spark.stop()


def describe(spark: SparkSession | None, folder: Path, name: str) -> None:
    """What Spark and DuckDB read from a file; None for one that fails."""
    path = str(folder / f"{name}.parquet")
    seen: dict[str, dict[str, object]] = {}
    if spark is not None:
        read = spark.read.parquet(path).selectExpr("id", "to_json(v) AS json", "schema_of_variant(v) AS type")
        for row in read.collect():
            seen.setdefault(row.id, {})["spark"] = [row.json, row.type]
    with duckdb.connect() as connection:
        connection.sql("SET TimeZone = 'UTC'")
        rows = connection.sql(f"SELECT id, v::JSON::VARCHAR, variant_typeof(v) FROM read_parquet('{path}')").fetchall()
    for key, text, kind in rows:
        seen.setdefault(key, {})["duckdb"] = [text, kind]
    (folder / f"{name}.json").write_text(json.dumps(seen, indent=1, ensure_ascii=False) + "\n")


def write_by_duckdb(folder: Path) -> None:
    """The files of DuckDB, and what DuckDB reads."""
    for name, kind in DUCKDB_TYPES.items():
        rows = " UNION ALL ".join(
            f"SELECT 'r{number}' AS id, ({value})::VARIANT AS v" for number, value in enumerate(DUCKDB_ROWS)
        )
        shredding = "" if kind is None else f", SHREDDING {{'v': '{kind}'}}"
        with duckdb.connect() as connection:
            connection.sql("SET TimeZone = 'UTC'")
            connection.sql(
                f"COPY (SELECT id, 1::BIGINT AS ts, v FROM ({rows})) "
                f"TO '{folder / name}.parquet' (FORMAT parquet, COMPRESSION zstd{shredding})"
            )
        describe(None, folder, name)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    write_by_duckdb(target)
    write_by_spark(target)
