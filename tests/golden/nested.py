"""Writes nested.tar.xz: tables of nested types, and of names of fields, by real Hudi with Hudi's answers.

    .venv-spark35/bin/python -m tests.golden.nested work-folder [table ...]
    tar -C work-folder --sort=name -cf - . | xz -9e > tests/golden/nested.tar.xz

Needs the PySpark 3.5 of ``make spark``. Columns are named after their types, ``c_lms`` is a list of maps of structs.
Lists of base files have two levels, as Hudi's writer of Avro has them by default, or three. Those of maps in two levels
have a table of their own: Trino with Iceberg opens no file with them. Each table has an upsert and a delete in logs.

<table>/table         the table
<table>/answers.json  the queries: kind, options of Hudi's data source, and the name of the answer or Hudi's error
<table>/answers       the rows that Hudi returned
"""

import json
import random
import shutil
import sys
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.golden.base_formats import answered
from tests.golden.generate.answers import short_error
from tests.golden.generate.questions import Questions
from tests.golden.generate.releases import RELEASES
from tests.golden.generate.session import spark_session
from tests.golden.generate.timeline import instants, table_version

RELEASE = "1.2.0"
KINDS = tuple("".join(letters) for depth in (1, 2, 3) for letters in product("lms", repeat=depth))
"""Lists, maps and structs within one another."""
OLD_LISTS = "parquet.avro.write-old-list-structure"
LEGACY = "hoodie.parquet.writelegacyformat.enabled"
TABLES: Mapping[str, tuple[tuple[str, ...], str, Mapping[str, str]]] = {
    "two_levels": (tuple(kind for kind in KINDS if "lm" not in kind), "upsert", {OLD_LISTS: "true"}),
    "two_levels_of_maps": (tuple(kind for kind in KINDS if "lm" in kind), "upsert", {OLD_LISTS: "true"}),
    "three_levels": (KINDS, "upsert", {OLD_LISTS: "false"}),
    "of_spark": (KINDS, "bulk_insert", {LEGACY: "false"}),
    "of_spark_legacy": (KINDS, "bulk_insert", {LEGACY: "true"}),
    "names": (("n",), "upsert", {}),
    "names_not_ascii": (("u",), "upsert", {}),
}
"""The types of the columns, the operation that writes base files, and its settings."""
FIELD_NAMES: Mapping[str, tuple[str, ...]] = {
    "n": ("A", "aB", "select", "row", "array", "a1", "_x", "element"),
    "u": ("ünï", "Ü", "日本", "x_ß"),
}
"""Those of the innermost structs of a column, which are in a struct, in a list, and in a struct in a map."""


def _type(kind: str) -> str:
    if not kind:
        return "int"
    if kind in FIELD_NAMES:
        innermost = f"struct<{', '.join(f'`{name}`: int' for name in FIELD_NAMES[kind])}>"
        return f"struct<S: {innermost}, L: array<{innermost}>, M: map<string, struct<Inner: {innermost}, y: int>>>"
    inner = _type(kind[1:])
    return {"l": f"array<{inner}>", "m": f"map<string, {inner}>", "s": f"struct<x: {inner}, y: string>"}[kind[0]]


def _value(kind: str, chance: random.Random, *, has_null_elements: bool) -> Any:
    def inner() -> Any:
        return _value(kind[1:], chance, has_null_elements=has_null_elements)

    if not kind:
        return chance.randrange(100)
    if kind in FIELD_NAMES:
        innermost = [tuple(chance.randrange(100) for _ in FIELD_NAMES[kind]) for _ in range(3)]
        return innermost[0], innermost[:2], {"k": (innermost[2], 1)}
    if kind[0] == "s":
        return inner() if chance.random() < 0.8 else None, f"y{chance.randrange(10)}"
    if kind[0] == "m":
        return {f"k{number}": inner() if chance.random() < 0.8 else None for number in range(chance.randrange(4))}
    has_nulls = has_null_elements and chance.random() < 0.3
    return [*(inner() for _ in range(chance.randrange(4))), *([None] * has_nulls)]


def _write(spark: SparkSession, name: str, path: Path) -> None:
    kinds, operation, settings = TABLES[name]
    options = {
        "hoodie.table.name": name,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
        "hoodie.bulkinsert.shuffle.parallelism": "1",
        "hoodie.delete.shuffle.parallelism": "1",
        "hoodie.index.bloom.num_entries": "50",
        "hoodie.bloom.index.filter.dynamic.max.entries": "50",
    }
    schema = f"id string, ts bigint, {', '.join(f'c_{kind} {_type(kind)}' for kind in kinds)}"
    context: Any = spark.sparkContext._jsc
    context.hadoopConfiguration().set(OLD_LISTS, settings.get(OLD_LISTS, "true"))

    def write(keys: Iterable[int], ts: int, of: str) -> None:
        rows = []
        for key in keys:
            chance = random.Random(f"{name}/{key}/{ts}")
            values = [_value(kind, chance, has_null_elements=operation == "bulk_insert") for kind in kinds]
            rows.append((f"k{key:02d}", ts, *(None if chance.random() < 0.1 else value for value in values)))
        frame = spark.createDataFrame(rows, schema).coalesce(1)
        chosen = {**options, **settings, "hoodie.datasource.write.operation": of}
        frame.write.format("hudi").options(**chosen).mode("append").save(str(path))

    write(range(12), 1, operation)
    write(range(0, 12, 4), 2, "upsert")
    write([1], 3, "delete")


def write_table(spark: SparkSession, folder: Path, name: str) -> None:
    """Writes a table, and asks Hudi for its rows."""
    shutil.rmtree(folder, ignore_errors=True)
    _write(spark, name, folder / "table")
    (folder / "answers").mkdir()
    questions = Questions(time_travels=0, ranges=0, incremental=False)
    asked = questions.about(instants(folder / "table"), table_version(folder / "table"), has_changes=False)
    answers = [answered(spark, question, folder) for question in asked]
    (folder / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
    for path in folder.rglob("*.crc"):
        path.unlink()
    print(name, [(answer["kind"], "rows" in answer) for answer in answers], flush=True)


def main() -> None:
    """Writes the tables, or those that are named."""
    folder, *names = sys.argv[1:]
    with spark_session(RELEASE, RELEASES[RELEASE].bundle.fetched()) as spark:
        for name in names or TABLES:
            try:
                write_table(spark, Path(folder).resolve() / name, name)
            except Exception as error:  # noqa: BLE001 - the other tables go on
                print(f"{name}: FAILED: {short_error(error)}", flush=True)


if __name__ == "__main__":
    main()
