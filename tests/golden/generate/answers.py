"""Gets Hudi's answers: runs each question through Spark, and writes its rows to one Parquet file."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.golden.generate.questions import COLUMNS, NOT_OF_THE_READER, Question

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VECTORIZED = "spark.sql.parquet.enableVectorizedReader"

_MOST_OF_A_MESSAGE = 300
_FAILURE_OF_VECTORS = re.compile("ArrayIndexOutOfBounds|vectorized")
_PLACES = re.compile(r"file:/\S*/| ?\(\d+\.\d+\.\d+\.\d+ executor driver\)")


@dataclass(slots=True, kw_only=True)
class Reader:
    """Reads a table with the Hudi of the session."""

    spark: "SparkSession"
    table: Path
    reader_options: Mapping[str, str]
    many_filters: bool = False
    """Filters run on one cached snapshot if there are many: they test what a filter means, not how Hudi prunes."""
    _snapshot: "DataFrame | None" = field(default=None, init=False)

    def save(self, kind: str, options: Mapping[str, Any], path: Path) -> int:
        """Writes the answer to one Parquet file, and returns its number of rows; raises Spark's errors."""
        if kind == "snapshot_filtered" and self.many_filters:
            self._snapshot = self._snapshot or self._rows({}).coalesce(1).cache()
            rows = self._snapshot
        else:
            self.spark.catalog.clearCache()
            rows = self._rows(options)
        if kind == "snapshot_filtered":
            rows = rows.where(_condition(options))
        if kind == "snapshot_columns":
            names = (".".join(f"`{name}`" for name in path) for path in options[COLUMNS])
            rows = rows.selectExpr(*(f"{name} as x{index}" for index, name in enumerate(names)))
        if not rows.columns:
            # A table without a commit has no columns, and Spark writes no file without any.
            assert rows.count() == 0
            pq.write_table(pa.table({}), path)
            return 0
        save_rows(self.spark, rows, path)
        return pq.read_metadata(path).num_rows

    def answer(self, question: Question, folder: Path) -> dict[str, Any]:
        """The entry of ``case.json`` for a question; the answer goes into ``folder``/expected.

        A query that fails is repeated without Spark's vectorized reader, which fails for some evolved schemas in Hudi
        0.15.
        """
        entry: dict[str, Any] = {
            "kind": question.kind,
            "options": dict(question.options),
            "expected": None,
            "rows": None,
        }
        name = f"expected/{question.stem}.parquet"
        error: Exception | None = None
        for vectorized in ("true", "false"):
            self.spark.conf.set(VECTORIZED, vectorized)
            try:
                rows = self.save(question.kind, question.options, folder / name)
            except Exception as failure:  # noqa: BLE001 - whatever Hudi and Spark raise
                error = error or failure
                if question.kind != "snapshot" and not _FAILURE_OF_VECTORS.search(str(failure)):
                    break
            else:
                entry |= {"expected": name, "rows": rows}
                if error is not None:
                    entry |= {
                        "oracle_settings": {VECTORIZED: vectorized},
                        "oracle_error_by_default": short_error(error),
                    }
                error = None
                break
            finally:
                self.spark.conf.unset(VECTORIZED)
        return entry if error is None else entry | {"oracle_error": short_error(error)}

    def _rows(self, options: Mapping[str, Any]) -> "DataFrame":
        chosen = {name: value for name, value in options.items() if name not in NOT_OF_THE_READER}
        return self.spark.read.format("hudi").options(**self.reader_options, **chosen).load(str(self.table))


def save_rows(spark: "SparkSession", rows: "DataFrame", path: Path) -> None:
    """Writes rows, or none, to one Parquet file, as Spark does."""
    parts = path.with_suffix(".parts")
    try:
        rows.coalesce(1).write.parquet(str(parts))
        if not list(parts.glob("*.parquet")):
            spark.createDataFrame([], rows.schema).coalesce(1).write.mode("overwrite").parquet(str(parts))
        (part,) = parts.glob("*.parquet")
        shutil.copy(part, path)
    finally:
        shutil.rmtree(parts, ignore_errors=True)


def short_error(error: Exception) -> str:
    """The first line of Spark's message and the last causes, without paths and addresses of the machine."""
    lines = [line.strip() for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.startswith(("at ", "..."))]
    causes = [line[:_MOST_OF_A_MESSAGE] for line in lines if line.startswith("Caused by")][-2:]
    message = next((line for line in lines if not line.startswith("An error occurred")), "")
    return _PLACES.sub("", " | ".join([f"{type(error).__name__}: {message[:_MOST_OF_A_MESSAGE]}", *causes]))


def _condition(options: Mapping[str, Any]) -> str:
    if "where" in options:
        where: str = options["where"]
        return where
    return " and ".join(f"`{column}` {operator} {_literal(value)}" for column, operator, value in options["filter"])


def _literal(value: Any) -> str:
    return "'" + value.replace("'", "\\'") + "'" if isinstance(value, str) else str(value)
