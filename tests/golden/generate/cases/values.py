"""V: values that releases read differently, and types of Hudi's own."""

import io
import zipfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from benchmarks.maven_jar import MavenJar
from tests.golden.generate.options import BLOCK_FORMAT, SMALL_FILES
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@case("v_widen_102", "1.0.2", "float->double by name, also in a struct and an array; Avro logs")
@case("v_widen_parquet_102", "1.0.2", "the same, Parquet logs", block_format="parquet")
@case("v_widen_v6_by102", "1.0.2", "the same, table version 6", version=6)
def v_widen(w: Writer, *, block_format: str | None = None, version: int | None = None) -> None:
    w.without_metadata_table()
    w.use_table_version(version)
    if block_format is not None:
        w.options[BLOCK_FORMAT] = block_format
    # Of table version 8, Hudi 1.0 returns all rows here, whatever instants are asked for.
    w.questions.incremental = version is not None
    w.questions.time_travels, w.questions.ranges = 3, 2
    floats = "id string, part string, ts int, f_d float, n_d struct<x:float>, a_d array<float>"

    def rows(keys: Iterable[int], ts: int, schema: str) -> "DataFrame":
        return w.frame(((f"k{key}", "p", ts, 0.1 * key, (0.1 * key,), [0.1 * key]) for key in keys), schema)

    w.write(rows(range(8), 1, floats), "bulk_insert")
    w.write(rows(range(0, 8, 4), 2, floats))
    w.write(rows(range(1, 8, 4), 3, floats.replace("float", "double")))


@case(
    "v_vector_avro_120", "1.2.0", "VECTOR columns of float, double and int8, with nulls; Avro logs", block_format="avro"
)
@case("v_vector_parquet_120", "1.2.0", "the same, Parquet logs", block_format="parquet")
@case("v_vector_hfile_120", "1.2.0", "the same, HFile logs", block_format="hfile")
def v_vector(w: Writer, *, block_format: str) -> None:
    from pyspark.sql import types as t  # noqa: PLC0415 - the registry is read without Spark

    w.without_metadata_table()
    # Inserts would go into the small base file, and write it anew.
    w.options |= {BLOCK_FORMAT: block_format, SMALL_FILES: "0"}
    w.questions.time_travels = w.questions.ranges = 2

    def vector(name: str, item: t.DataType, kind: str) -> t.StructField:
        return t.StructField(name, t.ArrayType(item, False), True, {"hudi_type": f"VECTOR({kind})"})

    schema = t.StructType(
        [
            t.StructField("id", t.StringType()),
            t.StructField("part", t.StringType()),
            t.StructField("ts", t.LongType()),
            vector("f", t.FloatType(), "3"),
            vector("d", t.DoubleType(), "2, DOUBLE"),
            vector("b", t.ByteType(), "5, INT8"),
        ]
    )

    def row(key: int, ts: int) -> tuple[Any, ...]:
        floats = None if key % 5 == 3 else [0.1 * key, -float(key), float("nan") if key == 1 else 1e30]
        doubles = None if key % 5 == 4 else [0.1 * key * ts, -1e300]
        return f"k{key}", "p", ts, floats, doubles, None if key % 5 == 2 else [key, -key, 127, -128, ts]

    def rows(keys: range, ts: int) -> "DataFrame":
        return w.frame((row(key, ts) for key in keys), schema)

    w.write(rows(range(10), 1), "bulk_insert")
    w.write(rows(range(0, 12, 2), 2))
    w.write(rows(range(1, 12, 5), 3))


TESTS_OF_HUDI = MavenJar(
    group="org.apache.hudi",
    artifact="hudi-common",
    version="1.2.0",
    classifier="tests",
    sha256="b57882a0fe193f7d25fc7af5d32f6defe95ea691f5a3eed4b5a2a582749ba68a",
)


@case(
    "v_vector_cow_120",
    "1.2.0",
    "vector_cow.zip of the tests of hudi-common 1.2.0: VECTOR of 128 of each type",
    table="vector_cow",
)
@case("v_vector_mor_120", "1.2.0", "vector_mor.zip, the same, merge on read", table="vector_mor")
def v_vector_of_hudi(w: Writer, *, table: str) -> None:
    """A table that Hudi has for its own tests; only the answers are made here."""
    w.questions.time_travels = w.questions.ranges = 2
    with zipfile.ZipFile(TESTS_OF_HUDI.fetched()) as jar:
        packed = io.BytesIO(jar.read(f"vector_cross_engine_validation/{table}.zip"))
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(w.path.parent)
    (w.path.parent / table).rename(w.path)
