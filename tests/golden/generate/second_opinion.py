"""The newest release's answers for tables of older ones: as a check, or instead of a failed one."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from tests.golden.generate.answers import Reader, short_error
from tests.golden.generate.document import load, save
from tests.golden.generate.options import SCHEMA_ON_READ
from tests.support.compare import differences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKED = ("snapshot", "read_optimized")
"""The kinds of query whose answers are checked; other queries are run only if the writing release has failed."""


def add_second_opinion(spark: "SparkSession", version: str, folder: Path) -> None:
    """Adds ``cross_check``, ``alt_expected`` or ``alt_error`` to the queries of a case."""
    document = load(folder)
    options = document["reader_options"]
    reader = Reader(spark=spark, table=folder / document["table"], reader_options=options)
    if SCHEMA_ON_READ in options:
        spark.conf.set(SCHEMA_ON_READ, options[SCHEMA_ON_READ])
    for index, query in enumerate(document["queries"]):
        if query["expected"] is None:
            query.update(_alternative(reader, version, query, folder, index))
        elif query["kind"] in CHECKED:
            query["cross_check"] = {version: _agreement(reader, query, folder)}
    spark.conf.unset(SCHEMA_ON_READ)
    save(document, folder)


def _alternative(reader: Reader, version: str, query: dict[str, Any], folder: Path, index: int) -> dict[str, Any]:
    name = f"expected/alt_{index}_{query['kind']}.parquet"
    try:
        rows = reader.save(query["kind"], query["options"], folder / name)
    except Exception as error:  # noqa: BLE001 - whatever Hudi and Spark raise
        return {"alt_error": f"{version}: {short_error(error)}"}
    return {"alt_oracle": version, "alt_expected": name, "alt_rows": rows}


def _agreement(reader: Reader, query: dict[str, Any], folder: Path) -> str:
    other = folder / "second.parquet"
    try:
        reader.save(query["kind"], query["options"], other)
        actual = differences(pq.read_table(folder / query["expected"]), pq.read_table(other))
    except Exception as error:  # noqa: BLE001 - whatever Hudi and Spark raise
        return f"error: {short_error(error)}"
    finally:
        other.unlink(missing_ok=True)
    return "differs" if actual else "same"
