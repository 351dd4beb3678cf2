"""Writes bootstrap.tar.xz: tables that real Hudi bootstrapped from Parquet files, with Hudi's answers.

    .venv-spark35/bin/python -m tests.golden.bootstrap 1.2.0 work-folder [table ...]
    .venv-spark35/bin/python -m tests.golden.bootstrap 1.0.2 work-folder
    .venv-spark35/bin/python -m tests.golden.bootstrap 0.15.0 work-folder
    tar -C work-folder --sort=name -cf - . | xz -9e > tests/golden/bootstrap.tar.xz

Needs the PySpark 3.5 of ``make spark``; one process per release. Instants and file ids come from the clock and from
random numbers; keys and values are the same in each run. The table ``tests_of_hudi`` is one that Hudi 1.0 wrote for the
tests of ``hudi-common`` 1.2.0; only the answers are made here.

<table>/source        the Parquet files that the table was made of
<table>/table         the table
<table>/answers.json  the queries: kind, options of Hudi's data source, and the name of the answer or Hudi's error
<table>/answers       the rows that Hudi returned
"""

import io
import json
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tests.golden.generate.answers import save_rows, short_error
from tests.golden.generate.cases.values import TESTS_OF_HUDI
from tests.golden.generate.questions import Questions
from tests.golden.generate.releases import NEWEST, RELEASES
from tests.golden.generate.session import spark_session
from tests.golden.generate.timeline import instants, table_version

SCHEMA = "id string, ts bigint, name string, price double, place struct<x:int,y:string>, part string"
_REGEX_OF_METADATA = ".*a$"
_BASE_PATH = re.compile(r"(?m)^hoodie\.bootstrap\.base\.path=(.*)$")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: how it is bootstrapped (``metadata``, ``full`` or ``mixed``), and what is written to it then."""

    release: str
    mode: str
    table_type: str = "MERGE_ON_READ"
    partitioned: bool = True
    steps: tuple[str, ...] = ("upsert", "delete", "insert")
    options: Mapping[str, str] = field(default_factory=dict)


_V6 = {"hoodie.write.table.version": "6"}
TABLES = {
    "metadata_v9": Table(release="1.2.0", mode="metadata"),
    "full_v9": Table(release="1.2.0", mode="full", steps=("upsert", "delete")),
    "mixed_v9": Table(release="1.2.0", mode="mixed", steps=("upsert", "compact", "delete")),
    "flat_v9": Table(release="1.2.0", mode="metadata", partitioned=False, steps=("upsert",)),
    "cow_v9": Table(release="1.2.0", mode="metadata", table_type="COPY_ON_WRITE", steps=("update",)),
    "metadata_v6_by_120": Table(release="1.2.0", mode="metadata", options=_V6, steps=("upsert", "delete")),
    "metadata_v8": Table(release="1.0.2", mode="metadata", steps=("upsert", "delete")),
    "metadata_v6": Table(release="0.15.0", mode="metadata"),
    "mixed_v6": Table(release="0.15.0", mode="mixed", steps=("upsert", "compact", "delete")),
    "flat_v6": Table(release="0.15.0", mode="metadata", partitioned=False, steps=("upsert",)),
}


def _rows(spark: SparkSession, numbers: Iterator[int] | range, ts: int) -> DataFrame:
    rows = [
        (
            f"k{number:03d}",
            ts,
            None if number % 7 == 3 else f"n{number}-{ts}",
            number / 4 + ts,
            None if number % 5 == 4 else (number, f"y{number}"),
            "abc"[number % 3],
        )
        for number in numbers
    ]
    return spark.createDataFrame(rows, SCHEMA).coalesce(1)


def _write_source(spark: SparkSession, folder: Path, *, partitioned: bool) -> None:
    """Two files in each folder, of several row groups."""
    for numbers in (range(30), range(30, 45)):
        writer = _rows(spark, numbers, 1).write.mode("append").option("parquet.block.size", "64")
        writer = writer.option("parquet.page.size.row.check.min", "2").option("compression", "uncompressed")
        writer = writer.option("parquet.block.size.row.check.min", "2").option("parquet.block.size.row.check.max", "2")
        (writer.partitionBy("part") if partitioned else writer).parquet(str(folder))


def _options(name: str, table: Table, source: Path) -> dict[str, str]:
    mode = {"metadata": "METADATA_ONLY", "full": "FULL_RECORD"}.get(table.mode)
    selector = "org.apache.hudi.client.bootstrap.selector."
    keys = "Simple" if table.partitioned else "Nonpartitioned"
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.table.type": table.table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part" if table.partitioned else "",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{keys}KeyGenerator",
        "hoodie.bootstrap.base.path": source.as_uri(),
        "hoodie.bootstrap.keygen.class": f"org.apache.hudi.keygen.{keys}KeyGenerator",
        "hoodie.bootstrap.full.input.provider": "org.apache.hudi.bootstrap.SparkParquetBootstrapDataProvider",
        "hoodie.bootstrap.parallelism": "1",
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
        "hoodie.insert.shuffle.parallelism": "1",
        "hoodie.delete.shuffle.parallelism": "1",
        "hoodie.bulkinsert.shuffle.parallelism": "1",
        "hoodie.simple.index.parallelism": "1",
        "hoodie.bloom.index.parallelism": "1",
        "hoodie.index.bloom.num_entries": "50",
        "hoodie.bloom.index.filter.dynamic.max.entries": "50",
        "hoodie.parquet.compression.codec": "uncompressed",
        "hoodie.write.auto.upgrade": "false",
        **(
            {
                "hoodie.bootstrap.mode.selector": selector + "BootstrapRegexModeSelector",
                "hoodie.bootstrap.mode.selector.regex": _REGEX_OF_METADATA,
                "hoodie.bootstrap.mode.selector.regex.mode": "METADATA_ONLY",
            }
            if mode is None
            else {
                "hoodie.bootstrap.mode.selector": selector
                + (
                    "MetadataOnlyBootstrapModeSelector"
                    if mode == "METADATA_ONLY"
                    else "FullRecordBootstrapModeSelector"
                )
            }
        ),
        **table.options,
    }


def _step(spark: SparkSession, kind: str, number: int, table: Path, options: Mapping[str, str]) -> None:
    rows = {
        "upsert": range(0, 45, 4),
        "update": range(0, 45, 4),
        "compact": range(0, 45, 6),
        "delete": range(0, 45, 5),
        "insert": range(45, 51),
    }[kind]
    more = {"hoodie.datasource.write.operation": "delete" if kind == "delete" else "upsert"}
    if kind == "compact":
        more |= {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    frame = _rows(spark, rows, number + 2)
    frame.write.format("hudi").options(**options).options(**more).mode("append").save(str(table))


def write_table(spark: SparkSession, folder: Path, name: str, table: Table) -> None:
    """Writes the source, bootstraps the table, writes to it, and asks Hudi for its rows."""
    shutil.rmtree(folder, ignore_errors=True)
    source, path = folder / "source", folder / "table"
    _write_source(spark, source, partitioned=table.partitioned)
    options = _options(name, table, source)
    empty = spark.createDataFrame([], StructType([]))
    begin = options | {"hoodie.datasource.write.operation": "bootstrap"}
    empty.write.format("hudi").options(**begin).mode("overwrite").save(str(path))
    for number, kind in enumerate(table.steps):
        _step(spark, kind, number, path, options)
    ask(spark, folder)


def unpack_table_of_hudi(spark: SparkSession, folder: Path) -> None:
    """Unpacks the table of Hudi's tests with its source, and asks Hudi for its rows."""
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(TESTS_OF_HUDI.fetched()) as jar:
        packed = io.BytesIO(jar.read("file-group-reader/bootstrap_data.zip"))
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(folder)
    source, path = folder / "source", folder / "table"
    (folder / "bootstrap_data").rename(path)
    (path / "bootstrap_table").rename(source)
    for path_of_crc in folder.rglob("*.crc"):
        path_of_crc.unlink()
    match = _BASE_PATH.search((path / ".hoodie" / "hoodie.properties").read_text())
    assert match is not None
    # Hudi looks for the source where it was: its whole path is in the bootstrap index.
    expected = Path(match[1])
    expected.parent.mkdir(parents=True, exist_ok=True)
    expected.symlink_to(source)
    try:
        ask(spark, folder)
    finally:
        expected.unlink()


def ask(spark: SparkSession, folder: Path) -> None:
    """Asks Hudi for the rows of a table, and keeps them."""
    path = folder / "table"
    (folder / "answers").mkdir()
    questions = Questions(time_travels=2, ranges=3).about(instants(path), table_version(path), has_changes=False)
    answers: list[dict[str, Any]] = []
    for question in questions:
        spark.catalog.clearCache()
        answer: dict[str, Any] = {"kind": question.kind, "options": dict(question.options)}
        try:
            rows = spark.read.format("hudi").options(**question.options).load(str(path))
            save_rows(spark, rows, folder / "answers" / f"{question.stem}.parquet")
            answer["rows"] = f"{question.stem}.parquet"
        except Exception as error:  # noqa: BLE001 - whatever Hudi and Spark raise
            answer["error"] = short_error(error)
        answers.append(answer)
    (folder / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
    for path in folder.rglob("*.crc"):
        path.unlink()


def main() -> None:
    """Writes the tables of a release, or those that are named."""
    version, folder, *names = sys.argv[1:]
    with spark_session(version, RELEASES[version].bundle.fetched()) as spark:
        for name, table in TABLES.items():
            if table.release == version and (not names or name in names):
                try:
                    write_table(spark, Path(folder).resolve() / name, name, table)
                except Exception as error:  # noqa: BLE001 - the other tables go on
                    print(f"{name}: FAILED: {short_error(error)}", flush=True)
                else:
                    print(f"{name}: written", flush=True)
        if version == NEWEST and (not names or "tests_of_hudi" in names):
            unpack_table_of_hudi(spark, Path(folder).resolve() / "tests_of_hudi")


if __name__ == "__main__":
    main()
