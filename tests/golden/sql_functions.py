"""Writes sql_functions.json.xz: what Hudi's table-valued functions of Spark SQL answer for golden tables.

    .venv-spark35/bin/python -m tests.golden.sql_functions [table ...]

Needs the PySpark 3.5 of ``make spark``. The tables are those of the other archives. For each, by statement: the columns
with their types and the rows, as Spark's ``to_json`` writes them, or what Hudi's error says. ``{table}`` is the path.

Hudi 1.2.0 fails to read some metadata tables, among them all of other releases. Whether it does depends on what it has
read before: in this order it reads seven.
"""

import json
import lzma
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.golden.generate.answers import short_error
from tests.golden.generate.releases import NEWEST, RELEASES
from tests.golden.generate.session import spark_session
from tests.golden.generate.timeline import WRITES, instants
from tests.support.golden_cases import golden_table

ARCHIVE = Path(__file__).with_suffix(".json.xz")
AS_JSON = (
    "to_json(struct(*), map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')) AS row"
)
TABLES = (
    "a_story_v6_0150",
    "a_story_v8_102",
    "a_story_v9_120",
    "d_archived_0150",
    "d_archived_120",
    "h_all_indexes_120",
    "c_rollback_120",
    "d_pending_compaction_120",
    "i_cdc_120",
    "d_cleaned_120",
    "i_only_inflight_120",
    "c_inflight_leftover_120",
    "d_insert_overwrite_120",
    "d_restore_120",
    "d_clustering_pending_0150",
    "e_multilevel_hive_120",
    "e_nonpart_120",
    "f_types_120",
    "f_types_ntz_120",
    "i_cow_0150",
    "k_occ_conflict_left_0150",
)
CHANGES = (
    "a_story_v6_0150",
    "a_story_v8_102",
    "a_story_v9_120",
    "i_cdc_120",
    "f_types_120",
    "f_types_ntz_120",
    "i_cow_0150",
)
PATTERNS = ("", "*", "*/*", "*/*/*", "[ac]", "?", "{a,c}", "region=eu/{year=2020,year=2021}/*", "/b/")


def _calls(name: str) -> Iterator[str]:
    yield "hudi_query_timeline('{table}')"
    yield "hudi_query_timeline('{table}', 'true')"
    yield "hudi_query_timeline('{table}', TRUE)"
    yield "hudi_filesystem_view('{table}')"
    yield from (f"hudi_filesystem_view('{{table}}', '{pattern}')" for pattern in PATTERNS)
    yield "hudi_metadata('{table}')"
    if name in CHANGES:
        done = [
            instant
            for instant in instants(golden_table(name))
            if instant.state == "completed" and instant.action in WRITES
        ]
        times = [item.completed or item.requested for item in done]
        for kind in ("latest_state", "cdc"):
            call = f"hudi_table_changes('{{table}}', '{kind}'"
            yield f"{call}, 'earliest')"
            yield f"{call}, '{times[0]}')"
            yield f"{call}, {times[0]}, {times[-2]})"
            yield f"{call}, 'earliest', '{times[1]}')"


def _answer(spark: SparkSession, call: str, table: Path) -> dict[str, Any]:
    try:
        frame = spark.sql(f"SELECT * FROM {call.replace('{table}', str(table))}")
        rows = [row["row"].replace(str(table), "{table}") for row in frame.selectExpr(AS_JSON).collect()]
        return {
            "columns": [[field.name, field.dataType.simpleString()] for field in frame.schema],
            "rows": sorted((json.loads(row) for row in rows), key=lambda row: json.dumps(row, sort_keys=True)),
        }
    except Exception as error:  # noqa: BLE001 - whatever Hudi and Spark raise
        return {"error": short_error(error)}


def main() -> None:
    """Asks about all tables, or those that are named."""
    answers: dict[str, dict[str, Any]] = {}
    with (
        tempfile.TemporaryDirectory() as work,
        spark_session(NEWEST, RELEASES[NEWEST].bundle.fetched()) as spark,
    ):
        for name in sys.argv[1:] or TABLES:
            table = Path(work) / name
            shutil.copytree(golden_table(name), table)
            answers[name] = {call: _answer(spark, call, table) for call in _calls(name)}
            failed = [call for call, answer in answers[name].items() if "error" in answer]
            print(name, len(answers[name]), "failed:", failed, flush=True)
    with lzma.open(ARCHIVE, "wt", preset=9) as file:
        json.dump(answers, file, separators=(",", ":"))


if __name__ == "__main__":
    main()
