"""Writes rust_writer.tar.xz: tables that hudi-rs 0.6 wrote, with the answers of Hudi on Spark.

    .venv-spark35/bin/python -m tests.golden.rust_writer work-folder [table ...]
    tar -C work-folder --sort=name -cf - . | xz -9e > tests/golden/rust_writer.tar.xz

Needs the PySpark 3.5 of ``make spark``, and cargo, which builds the writer (benchmarks/rust_programs.py). A table and
its answers are kept in the form of ``external.py``.
"""

import datetime as dt
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.rust_programs import WRITER, built
from tests.golden.external import ask, write_all

KEYS: dict[str, Any] = {"id": pa.string(), "part": pa.string(), "ts": pa.int64(), "label": pa.string()}
TYPES: dict[str, Any] = {
    "number": pa.int32(),
    "price": pa.float64(),
    "ratio": pa.float32(),
    "is_new": pa.bool_(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "at_millis": pa.timestamp("ms", "UTC"),
    "at_local": pa.timestamp("us"),
    "amount": pa.decimal128(10, 2),
    "amount_wide": pa.decimal128(25, 5),
    "raw": pa.binary(),
    "tags": pa.list_(pa.string()),
    "body": pa.struct([("x", pa.int64()), ("y", pa.string()), ("inner", pa.struct([("z", pa.float64())]))]),
    "bodies": pa.list_(pa.struct([("x", pa.int32())])),
}
"""All types that the writer has a type of Avro for."""
Step = tuple[Any, ...]
"""What is done, and its arguments: tables of Arrow are rows."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table, and what is done to it."""

    steps: Sequence[Step]
    version: int = 9
    is_merge_on_read: bool = True
    keys: Sequence[str] = ("id",)
    partitions: Sequence[str] = ()
    ordering: Sequence[str] = ()
    is_hive_style: bool = True
    has_metadata_table: bool = True
    has_meta_columns: bool = True
    options: Mapping[str, str] = field(default_factory=dict)

    def recipe(self, steps: Sequence[Sequence[Any]]) -> str:
        """What the writer reads."""
        about = {
            "type": "MERGE_ON_READ" if self.is_merge_on_read else "COPY_ON_WRITE",
            "version": self.version,
            "keys": self.keys,
            "partitions": self.partitions,
            "ordering": self.ordering,
            "hive_style": self.is_hive_style,
            "metadata_table": self.has_metadata_table,
            "meta_columns": self.has_meta_columns,
            "options": dict(self.options),
        }
        return json.dumps({"table": about, "steps": steps})


def _rows(numbers: Sequence[int], ts: int, *, types: bool = False) -> pa.Table:
    """Rows of some numbers, of a version."""
    rows: dict[str, list[Any]] = {
        "id": [f"k{number:02d}" for number in numbers],
        "part": [("a", "b", "c")[number % 3] for number in numbers],
        "ts": [ts for _ in numbers],
        "label": [None if number % 7 == 3 else f"n{number}, version {ts}" for number in numbers],
    }
    if not types:
        return pa.table(rows, schema=pa.schema(KEYS))
    day, instant = dt.date(1969, 12, 28), dt.datetime(1969, 12, 31, 23, 59, 58, 123000, tzinfo=dt.UTC)
    rows |= {
        "number": [number * ts for number in numbers],
        "price": [number / 8 for number in numbers],
        "ratio": [number / 4 for number in numbers],
        "is_new": [number % 2 == 0 for number in numbers],
        "day": [day + dt.timedelta(days=number) for number in numbers],
        "at": [instant + dt.timedelta(hours=number, microseconds=ts) for number in numbers],
        "at_millis": [instant + dt.timedelta(days=number) for number in numbers],
        "at_local": [instant.replace(tzinfo=None) + dt.timedelta(hours=number) for number in numbers],
        "amount": [Decimal(number - 5).scaleb(-2) for number in numbers],
        "amount_wide": [Decimal(number - 5).scaleb(15) for number in numbers],
        "raw": [bytes([number, 255, 0]) for number in numbers],
        "tags": [[f"t{tag}" for tag in range(number % 3)] + [None] for number in numbers],
        "body": [{"x": number, "y": None, "inner": {"z": number / 2}} for number in numbers],
        "bodies": [[{"x": number}, {"x": None}] for number in numbers],
    }
    for name in TYPES:
        rows[name] = [None if number % 11 == 5 else value for number, value in zip(numbers, rows[name], strict=True)]
    return pa.table(rows, schema=pa.schema({**KEYS, **TYPES}))


def _changes(*, types: bool = False) -> list[Step]:
    """Rows, newer ones, older ones, some that are gone, and one that has come back."""
    return [
        ("append", _rows(range(30), 10, types=types)),
        ("upsert", _rows([*range(8), 30, 31], 20, types=types)),
        ("upsert", _rows([6, 8, 9], 5, types=types)),
        ("delete", "id = 'k07'"),
        ("delete key", "k10", "part=b"),
        ("update", "label = 'n11, version 10'", pa.table({"label": ["set"]})),
        ("upsert", _rows([7, 40], 30, types=types)),
    ]


def _unpartitioned(steps: Sequence[Step]) -> list[Step]:
    return [(*step[:2], "") if step[0] == "delete key" else step for step in steps]


_FEW_CHANGES = [("append", _rows(range(12), 10)), ("upsert", _rows([0, 1, 15], 20)), ("delete", "id = 'k02'")]
TABLES = {
    "types_mor_v9": Table(steps=_changes(types=True), partitions=["part"], ordering=["ts"]),
    "types_cow_v9": Table(steps=_changes(types=True), is_merge_on_read=False, partitions=["part"], ordering=["ts"]),
    "commit_time_v8": Table(
        steps=[
            *_unpartitioned(_changes()),
            ("compact",),
            ("upsert", _rows([1, 12], 1)),
            ("delete", "ts > 20"),
        ],
        version=8,
    ),
    "event_time_v8": Table(
        steps=[*_changes()[:5], ("compact",), *_changes()[5:]], version=8, partitions=["part"], ordering=["ts"]
    ),
    "overwritten_v9": Table(
        steps=[
            ("append", _rows(range(12), 10)),
            ("overwrite partitions", _rows([1, 13], 20)),
            ("upsert", _rows([0, 1, 2], 30), ["label"]),
            ("overwrite", _rows(range(20, 26), 40)),
            ("upsert", _rows([20, 27], 50)),
        ],
        is_merge_on_read=False,
        partitions=["part"],
        is_hive_style=False,
    ),
    "composite_keys_v9": Table(
        steps=[
            ("append", _rows(range(12), 10)),
            ("upsert", _rows([3, 4, 15], 10)),
            ("delete", "label = 'n4, version 10'"),
        ],
        keys=["id", "ts"],
        partitions=["part", "ts"],
    ),
    "without_keys_v9": Table(
        steps=[("append", _rows(range(6), 10)), ("append", _rows(range(6), 20)), ("delete", "id = 'k02'")],
        is_merge_on_read=False,
        keys=[],
    ),
    "without_metadata_table_v9": Table(
        steps=_changes(), partitions=["part"], ordering=["ts"], has_metadata_table=False
    ),
    "unpartitioned_mor_v9": Table(steps=_FEW_CHANGES, ordering=["ts"], has_metadata_table=False),
    "unpartitioned_cow_v9": Table(
        steps=_FEW_CHANGES, is_merge_on_read=False, ordering=["ts"], has_metadata_table=False
    ),
    "without_meta_columns_v9": Table(
        steps=[("append", _rows(range(6), 10)), ("append", _rows(range(6, 9), 20))],
        is_merge_on_read=False,
        has_meta_columns=False,
    ),
    "archived_v9": Table(
        steps=[
            ("append", _rows(range(12), 1)),
            *(("upsert", _rows([number, 20 + number], 2 + number)) for number in range(12)),
        ],
        ordering=["ts"],
        options={
            "hoodie.keep.min.commits": "3",
            "hoodie.keep.max.commits": "5",
            "hoodie.compact.inline": "true",
            "hoodie.compact.inline.max.delta.commits": "4",
        },
    ),
}


def write_table(path: Path, table: Table) -> None:
    """Has the program write a table."""
    with tempfile.TemporaryDirectory(prefix="hudi-bridge-") as folder:
        steps = [_with_files(Path(folder), number, step) for number, step in enumerate(table.steps)]
        recipe = Path(folder) / "recipe.json"
        recipe.write_text(table.recipe(steps))
        subprocess.run([str(built(WRITER)), str(path), str(recipe)], check=True)


def _with_files(folder: Path, number: int, step: Step) -> list[Any]:
    """A step with the names of files in the place of rows."""
    arguments = list(step)
    for index, argument in enumerate(step):
        if isinstance(argument, pa.Table):
            arguments[index] = f"{number}-{index}.arrow"
            with pa.ipc.new_stream(str(folder / arguments[index]), argument.schema) as stream:
                stream.write_table(argument)
    return arguments


def _write(spark: SparkSession, folder: Path, table: Table) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_table(folder / "table", table)
    ask(spark, folder, has_metadata_table=table.has_metadata_table)


if __name__ == "__main__":
    write_all(sys.argv[1:], _write, TABLES)
