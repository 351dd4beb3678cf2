"""Writes blobs.tar.xz: tables with a BLOB column of bytes and of references, Hudi's rows, and the bytes it reads.

    .venv-spark35/bin/python -m tests.golden.blobs work-folder
    tar -C work-folder --sort=name -cf - . | xz -9e > tests/golden/blobs.tar.xz

Needs the PySpark 3.5 of ``make spark``, and leave to make a link at ``/blobs``: references have whole paths, so that
files are asked for in that folder. Instants and file ids come from the clock.

blobs                          the files that the references are to
references_120/table           the table
references_120/rows.parquet    the snapshot
references_120/bytes.parquet   the column ``id`` and what Hudi's function ``read_blob`` gives
lance_120/table                a table of Lance base files
lance_120/base.parquet         its snapshot after the first write, with the bytes of BLOBs (``CONTENT``)
lance_120/content.parquet      its snapshot with the bytes of BLOBs; Hudi loses those after an empty value
lance_120/base_default.parquet  its read-optimized rows without the option
lance_120/default.parquet      its snapshot without the option
lance_changes_120/table        a table of Lance base files with change data
lance_changes_120/default.parquet  its snapshot without the option
lance_changes_120/changes.parquet  its changes without the option
"""

import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as t

from tests.golden.base_formats import _SPARK_MERGER, LANCE
from tests.golden.generate.answers import save_rows
from tests.golden.generate.releases import NEWEST, RELEASES
from tests.golden.generate.session import spark_session

LINK = Path("/blobs")
FILES = {"first.bin": bytes(range(256)) * 40, "deeper/second.bin": b"of the second file " * 100, "empty.bin": b""}
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.compact.inline": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.index.bloom.num_entries": "50",
    "hoodie.bloom.index.filter.dynamic.max.entries": "50",
}


def inline(content: bytes) -> dict[str, Any]:
    return {"type": "INLINE", "data": bytearray(content), "reference": None}


def reference(name: str, offset: int | None = None, length: int | None = None) -> dict[str, Any]:
    """A reference to a range of a file, or to a whole file."""
    of_file = {"external_path": f"{LINK}/{name}", "offset": offset, "length": length, "managed": False}
    return {"type": "OUT_OF_LINE", "data": None, "reference": of_file}


INSERTS = [
    (0, 1, inline(b"in the row")),
    (1, 1, None),
    (2, 1, reference("first.bin", 0, 16)),
    (3, 1, reference("first.bin", 5000, 100)),
    (4, 1, reference("first.bin", 100, 300)),
    (5, 1, reference("deeper/second.bin")),
    (6, 1, reference("deeper/second.bin", 19, 19)),
    (7, 1, inline(b"")),
    (8, 1, reference("empty.bin")),
]
UPDATES = [(0, 2, reference("first.bin", 10239, 1)), (2, 2, inline(b"no longer there")), (9, 2, reference("first.bin"))]


LANCE_INSERTS = [
    (0, 1, inline(b"in the row")),
    (2, 1, reference("first.bin", 0, 16)),
    (3, 1, inline(b"")),
    (4, 1, inline(b"second " * 100)),
    (5, 1, inline(b"x")),
]
LANCE_UPDATES = [(0, 2, inline(b"of the log")), (2, 2, inline(b"now here"))]
CHANGES_INSERTS = [
    (0, 1, inline(b"in the row")),
    (1, 1, {"type": "INLINE", "data": None, "reference": None}),
    (2, 1, reference("first.bin", 0, 16)),
    (3, 1, inline(b"of the base file")),
    (4, 1, reference("deeper/second.bin")),
    (5, 1, inline(b"another")),
]
CHANGES_UPDATES = [(0, 2, inline(b"new bytes")), (2, 2, reference("first.bin", 7, 8)), (6, 2, inline(b"added"))]
_OF_LANCE = {"hoodie.table.base.file.format": "LANCE", "hoodie.base.file.format": "LANCE", **_SPARK_MERGER}
_TYPE = "hoodie.datasource.write.table.type"
_CONTENT = {"hoodie.read.blob.inline.mode": "CONTENT"}
_READ_OPTIMIZED = {"hoodie.datasource.query.type": "read_optimized"}
_CHANGES = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "cdc",
    "hoodie.datasource.read.begin.instanttime": "0",
}


def create(spark: SparkSession, path: Path, more: str = "", table_type: str = "MERGE_ON_READ") -> t.StructType:
    """Creates a table; its columns."""
    kind = {"MERGE_ON_READ": "mor", "COPY_ON_WRITE": "cow"}[table_type]
    spark.sql(
        f"create table blobs (id int, ts bigint, b blob) using hudi location '{path}' "
        f"tblproperties (type='{kind}', primaryKey='id', preCombineField='ts', 'hoodie.metadata.enable'='false'{more})"
    )
    blob = t.StructField("b", spark.table("blobs").schema["b"].dataType, True, {"hudi_type": "BLOB"})
    return t.StructType([t.StructField("id", t.IntegerType()), t.StructField("ts", t.LongType()), blob])


def write_lance(spark: SparkSession, path: Path, writes: tuple[list[Any], list[Any]], more: dict[str, str]) -> None:
    """Writes a table of Lance base files: rows that are inserted, and rows that are upserted."""
    spark.sql("drop table if exists blobs")
    properties = {"hoodie.table.base.file.format": "LANCE"} | more
    as_sql = "".join(f", '{name}'='{value}'" for name, value in properties.items() if name != _TYPE)
    schema = create(spark, path, as_sql, more.get(_TYPE, "MERGE_ON_READ"))
    options = OPTIONS | _OF_LANCE | {"hoodie.table.name": "blobs"} | more
    for operation, rows in zip(("insert", "upsert"), writes, strict=True):
        writer = spark.createDataFrame(rows, schema).coalesce(1).write.format("hudi").options(**options)
        writer.option("hoodie.datasource.write.operation", operation).mode("append").save(str(path))
    spark.catalog.clearCache()


def save_lance(spark: SparkSession, folder: Path, answer: str, options: dict[str, str]) -> None:
    """Saves what Hudi reads of a table with some options."""
    frame = spark.read.format("hudi").options(**options).load(str(folder / "table"))
    save_rows(spark, frame, folder / f"{answer}.parquet")


def write_lance_table(spark: SparkSession, folder: Path) -> None:
    write_lance(spark, folder / "table", (LANCE_INSERTS, LANCE_UPDATES), {})
    save_lance(spark, folder, "base", _READ_OPTIMIZED | _CONTENT)
    save_lance(spark, folder, "content", _CONTENT)
    save_lance(spark, folder, "base_default", _READ_OPTIMIZED)
    save_lance(spark, folder, "default", {})


def write_lance_changes(spark: SparkSession, folder: Path) -> None:
    more = {_TYPE: "COPY_ON_WRITE", "hoodie.table.cdc.enabled": "true"}
    write_lance(spark, folder / "table", (CHANGES_INSERTS, CHANGES_UPDATES), more)
    save_lance(spark, folder, "default", {})
    save_lance(spark, folder, "changes", _CHANGES)


def write_table(spark: SparkSession, folder: Path) -> None:
    path = folder / "table"
    schema = create(spark, path)
    options = OPTIONS | {"hoodie.table.name": "blobs"}
    for operation, rows in (("insert", INSERTS), ("upsert", UPDATES)):
        writer = spark.createDataFrame(rows, schema).coalesce(1).write.format("hudi").options(**options)
        writer.option("hoodie.datasource.write.operation", operation).mode("append").save(str(path))
    spark.catalog.clearCache()
    save_rows(spark, spark.read.format("hudi").load(str(path)), folder / "rows.parquet")
    spark.read.format("hudi").load(str(path)).createOrReplaceTempView("found")
    save_rows(spark, spark.sql("select id, read_blob(b) as content from found"), folder / "bytes.parquet")


def main() -> None:
    """Writes the files and the table."""
    to = Path(sys.argv[1]).resolve()
    files, folder, of_lance, changes = (
        to / name for name in ("blobs", "references_120", "lance_120", "lance_changes_120")
    )
    for each in (folder, of_lance, changes):
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir(parents=True)
    for name, content in FILES.items():
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).write_bytes(content)
    LINK.symlink_to(files)
    try:
        with spark_session(NEWEST, RELEASES[NEWEST].bundle.fetched(), LANCE) as spark:
            write_table(spark, folder)
            write_lance_table(spark, of_lance)
            write_lance_changes(spark, changes)
    finally:
        LINK.unlink()
    for crc in to.rglob("*.crc"):
        crc.unlink()


if __name__ == "__main__":
    main()
