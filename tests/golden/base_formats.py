"""Writes base_formats.tar.xz: tables by real Hudi whose base files are ORC, Lance or HFiles, with Hudi's answers.

    .venv-spark35/bin/python -m tests.golden.base_formats work-folder [table ...]
    tar -C work-folder --sort=name -cf - . | xz -9e > tests/golden/base_formats.tar.xz

Needs the PySpark 3.5 of ``make spark``, and fetches Lance's jars with Spark's own client of Maven. Hudi 1.2.0 writes
HFiles as base files, but can neither update nor read them: ``rows.parquet`` holds what was inserted. The first columns
of the other tables are updated and deleted; a column is added on the way. ``orc_times`` has timestamps.

<table>/table         the table
<table>/answers.json  the queries: kind, options of Hudi's data source, and the name of the answer or Hudi's error
<table>/answers       the rows that Hudi returned
"""

import datetime as dt
import json
import shutil
import sys
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.golden.generate.answers import save_rows, short_error
from tests.golden.generate.questions import Question, Questions
from tests.golden.generate.releases import RELEASES
from tests.golden.generate.session import spark_session
from tests.golden.generate.timeline import instants, table_version

RELEASE = "1.2.0"
LANCE = {
    "spark.jars.packages": "org.lance:lance-spark-3.5_2.12:0.4.0",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC --add-opens=java.base/java.nio=ALL-UNNAMED",
}
SCHEMA = (
    "id string, ts bigint, name string, price double, ratio float, qty int, is_new boolean, amount decimal(12, 3), "
    "raw binary, day date, tags array<string>, marks map<string, int>, place struct<x: int, y: string>, part string"
)
_MERGER = "org.apache.hudi.DefaultSparkRecordMerger"
_SPARK_MERGER = {
    "hoodie.write.record.merge.custom.implementation.classes": _MERGER,
    "hoodie.datasource.write.record.merger.impls": _MERGER,
    "hoodie.logfile.data.block.format": "parquet",
}
TABLES = {
    "orc_mor": ("ORC", "MERGE_ON_READ", ("insert", "upsert", "delete")),
    "orc_cow": ("ORC", "COPY_ON_WRITE", ("insert", "upsert", "delete")),
    "orc_times": ("ORC", "MERGE_ON_READ", ("insert",)),
    "hfile_mor": ("HFILE", "MERGE_ON_READ", ("insert",)),
    "lance_mor": ("LANCE", "MERGE_ON_READ", ("insert", "upsert", "delete")),
}
"""The format of base files, the type of the table, and what is written."""


def _rows(spark: SparkSession, numbers: Iterable[int], ts: int) -> DataFrame:
    rows = [
        (
            f"k{number:03d}",
            ts,
            None if number % 7 == 3 else f"n{number}-{ts}",
            number / 8,
            None if number % 5 == 1 else number / 4,
            number * ts,
            number % 2 == 0,
            None if number % 6 == 5 else Decimal(number * 1001).scaleb(-3),
            bytes([number % 256, 0, 255]),
            dt.date(2026, 1, 1) + dt.timedelta(days=number),
            [f"t{number}", None] if number % 4 else [],
            {"a": number} if number % 3 else None,
            None if number % 5 == 4 else (number, f"y{number}"),
            "ab"[number % 2],
        )
        for number in numbers
    ]
    return spark.createDataFrame(rows, SCHEMA).coalesce(1)


def _options(name: str, base_format: str, table_type: str) -> dict[str, str]:
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.table.base.file.format": base_format,
        "hoodie.base.file.format": base_format,
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
        "hoodie.insert.shuffle.parallelism": "1",
        "hoodie.delete.shuffle.parallelism": "1",
        "hoodie.bloom.index.parallelism": "1",
        "hoodie.index.bloom.num_entries": "50",
        "hoodie.bloom.index.filter.dynamic.max.entries": "50",
        **(_SPARK_MERGER if base_format == "LANCE" else {}),
    }


def _write(spark: SparkSession, name: str, path: Path) -> None:
    base_format, table_type, steps = TABLES[name]
    options = _options(name, base_format, table_type)
    for number, kind in enumerate(steps):
        chosen = {"insert": range(40), "upsert": range(0, 44, 3), "delete": range(0, 40, 5)}
        frame = _rows(spark, chosen[kind], number + 1)
        if base_format == "ORC":
            # Hudi's writer of ORC fails for dates.
            frame = frame.drop("day")
        if base_format == "LANCE":
            # Lance has no maps.
            frame = frame.drop("marks")
        if name == "orc_times":
            frame = frame.selectExpr("*", "timestamp_micros(qty * 1000001L) as at")
        if kind == "upsert" and base_format == "ORC":
            frame = frame.selectExpr("*", "concat('added ', id) as later")
        writer = frame.write.format("hudi").options(**options).option("hoodie.datasource.write.operation", kind)
        writer.mode("append").save(str(path))


def answered(spark: SparkSession, question: Question, folder: Path) -> dict[str, Any]:
    """The entry of ``answers.json`` for a question about a table; the rows go into a file of their own."""
    spark.catalog.clearCache()
    answer: dict[str, Any] = {"kind": question.kind, "options": dict(question.options)}
    try:
        rows = spark.read.format("hudi").options(**question.options).load(str(folder / "table"))
        save_rows(spark, rows, folder / "answers" / f"{question.stem}.parquet")
        answer["rows"] = f"{question.stem}.parquet"
    except Exception as error:  # noqa: BLE001 - whatever Hudi and Spark raise
        answer["error"] = short_error(error)
    return answer


def write_table(spark: SparkSession, folder: Path, name: str) -> None:
    """Writes a table, and asks Hudi for its rows."""
    shutil.rmtree(folder, ignore_errors=True)
    _write(spark, name, folder / "table")
    (folder / "answers").mkdir()
    questions = Questions(time_travels=2, ranges=2)
    asked = questions.about(instants(folder / "table"), table_version(folder / "table"), has_changes=False)
    answers = [answered(spark, question, folder) for question in asked]
    (folder / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
    if name == "hfile_mor":
        save_rows(spark, _rows(spark, range(40), 1), folder / "rows.parquet")
    for path in folder.rglob("*.crc"):
        path.unlink()
    print(name, [(answer["kind"], "rows" in answer) for answer in answers], flush=True)


def main() -> None:
    """Writes the tables, or those that are named."""
    folder, *names = sys.argv[1:]
    settings = LANCE | {"spark.sql.orc.enableVectorizedReader": "false"}
    with spark_session(RELEASE, RELEASES[RELEASE].bundle.fetched(), settings) as spark:
        for name in names or TABLES:
            try:
                write_table(spark, Path(folder).resolve() / name, name)
            except Exception as error:  # noqa: BLE001 - the other tables go on
                print(f"{name}: FAILED: {short_error(error)}", flush=True)


if __name__ == "__main__":
    main()
