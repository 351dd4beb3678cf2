"""Writes procedures.json.xz: what Hudi's own procedures show of golden tables.

    .venv-spark35/bin/python -m tests.golden.procedures work-folder RELEASE [table ...]
    .venv-spark35/bin/python -m tests.golden.procedures work-folder pack

Needs the PySpark 3.5 of ``make spark``. Each release is asked about tables that it wrote, or that an older one did;
each procedure that shows something is called with the arguments that the release has. The first command writes
``RELEASE.json`` into the folder, the second puts these files together.

{"names": {release: the procedures that show something},
 "answers": [{"table", "release", "procedure", "arguments", "columns", "rows" or "error"}]}

Paths are relative to the table: that of its copy is taken out of all texts.
"""

import json
import lzma
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.golden.generate.answers import short_error
from tests.golden.generate.releases import RELEASES
from tests.golden.generate.session import spark_session
from tests.golden.generate.timeline import WRITES, instants
from tests.support.golden_cases import ARCHIVES, golden_bootstrapped, golden_table

ARCHIVE = ARCHIVES / "procedures.json.xz"
TABLES: Mapping[str, tuple[str, ...]] = {
    "0.15.0": (
        "a_story_v5_0122", "a_story_v6_0150", "c_rollback_block_0150", "d_archived_0150", "d_cleaned_0150",
        "d_clustering_done_0150", "d_pending_compaction_0150", "d_restore_0150", "h_column_stats_0150",
    ),
    "1.0.2": ("a_story_v8_102_intts", "d_compacted_only_102"),
    "1.1.1": ("a_story_v9_111", "d_clustering_pending_111"),
    "1.2.0": (
        "a_story_v9_120", "a_story_v6_by120", "c_corrupt_middle_0150", "c_many_blocks_120", "c_rollback_120",
        "d_archived_120", "d_insert_overwrite_120", "d_log_compaction_120", "d_pending_compaction_inflight_120",
        "d_restore_120", "d_savepoint_120", "h_all_indexes_120", "i_cow_120", "l_storm_120", "flat_v9",
    ),
}  # fmt: skip
_PROPERTIES, _CHECKSUM = ".hoodie/hoodie.properties", ".hoodie/.hoodie.properties.crc"
_ALL = 100_000
_GROUPS = 3
"""The file groups whose histories are asked for."""
_SHOWS = ("show_", "stats_")
_OF_FILES = ("show_fs_path_detail", "show_file_status", "show_audit_lock_status", "show_invalid_parquet")
"""Procedures about files as such, locks and damage, which are not called."""


class _Procedures:
    """The procedures of the release that a session has, with their parameters."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._registry = jvm.org.apache.spark.sql.hudi.command.procedures.HoodieProcedures
        names = self._registry.procedures().keys().mkString(" ").split()
        self.names = sorted(name for name in names if name.startswith(_SHOWS))

    def parameters(self, name: str) -> dict[str, bool]:
        """The parameters of a procedure, and whether each is required."""
        actual = self._registry.newBuilder(name).build().parameters()
        return {parameter.name(): parameter.required() for parameter in actual}


def _folder(name: str) -> Path:
    if name.endswith(("_v8", "_v9")):
        return next(query.table for query in golden_bootstrapped() if query.case == name)
    return golden_table(name)


def _calls(
    procedures: _Procedures, table: Path, columns: Sequence[str], rows: Any
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The procedures with the arguments that tell what they are asked for; ``rows`` answers a call."""
    data = [path for path in sorted(table.rglob("*")) if path.is_file() and ".hoodie" not in path.parts]
    logs = [path for path in data if ".log." in path.name and not path.name.endswith(".crc")]
    partitions = sorted({path.parent.relative_to(table).as_posix() for path in data})
    partitions = [path if path != "." else "" for path in partitions]
    commits = [
        instant.requested for instant in instants(table) if instant.state == "completed" and instant.action in WRITES
    ]
    regex = {"path_regex": "*" if partitions != [""] else ""}
    files = [row for row in rows("show_fsview_all", regex) if row["data_file"]]
    groups = list(dict.fromkeys((row["partition"], row["file_id"]) for row in files))[:_GROUPS]
    asked: Mapping[str, Sequence[dict[str, Any]]] = {
        "show_commit_files": [{"instant_time": time} for time in commits],
        "show_commit_partitions": [{"instant_time": time} for time in commits],
        "show_commit_write_stats": [{"instant_time": time} for time in commits],
        "show_commit_extra_metadata": [{"instant_time": time} for time in commits],
        "show_rollback_detail": [
            {"instant_time": instant.requested} for instant in instants(table) if instant.action == "rollback"
        ],
        "show_logfile_metadata": [{"log_file_path_pattern": path.as_posix()} for path in logs],
        "show_logfile_records": [{"log_file_path_pattern": path.as_posix()} for path in logs],
        "show_file_group_history": [
            {"partition": partition, "file_group_id": file_id} for partition, file_id in groups
        ],
        "show_file_slice_history": [
            {"partition": row["partition"], "file_name": row["data_file"].rpartition("/")[2]}
            for row in files
            if (row["partition"], row["file_id"]) in groups
        ],
        "show_metadata_table_column_stats": [{"targetColumns": ",".join(columns)}],
        "show_metadata_column_stats_overlap": [{"targetColumns": ",".join(columns)}],
        "stats_file_sizes": [{"partition_path": "/*" if partitions != [""] else ""}],
        "show_metadata_table_files": [{"partition": path} for path in partitions],
        "show_fsview_all": [regex],
        "show_fsview_latest": [{"partition_path": path} for path in partitions],
    }  # fmt: skip
    for name in procedures.names:
        if name not in _OF_FILES:
            for arguments in asked.get(name, [{}]):
                yield name, arguments


def _complete(procedure: str, parameters: Mapping[str, bool], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with those that make an answer whole, as far as the release has them."""
    usual = {
        "limit": _ALL,
        "path_regex": "*",
        "start_ts": "0",
        "end_ts": "99999999999999999",
        "show_involved_partition": True,
    }
    if procedure == "show_fsview_latest" and not parameters["partition_path"]:
        # Newer releases take one of the two, and the view of all partitions by default.
        arguments, usual = {}, {"limit": _ALL}
    return {name: value for name, value in (usual | dict(arguments)).items() if name in parameters}


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


def ask(spark: SparkSession, procedures: _Procedures, release: str, name: str, work: Path) -> list[dict[str, Any]]:
    """What the procedures show of a copy of a table."""
    table = work / name
    shutil.rmtree(table, ignore_errors=True)
    shutil.copytree(_folder(name), table)
    spark.sql(f"create table {name} using hudi location '{table}'")
    # The statement adds properties of its own.
    shutil.copy(_folder(name) / _PROPERTIES, table / _PROPERTIES)
    (table / _CHECKSUM).unlink(missing_ok=True)

    def answer(procedure: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        given = ", ".join(f"{key} => {_literal(value)}" for key, value in {"table": name, **arguments}.items())
        entry: dict[str, Any] = {
            "table": name,
            "release": release,
            "procedure": procedure,
            "arguments": {key: value for key, value in arguments.items() if value != _ALL},
        }
        try:
            shown = spark.sql(f"CALL {procedure}({given})")
            entry |= {"columns": shown.columns, "rows": [list(row) for row in shown.collect()]}
        except Exception as error:  # noqa: BLE001 - whatever Hudi and Spark raise
            entry["error"] = short_error(error)
        return entry

    def rows(procedure: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        entry = answer(procedure, _complete(procedure, procedures.parameters(procedure), arguments))
        return [dict(zip(entry["columns"], row, strict=True)) for row in entry.get("rows", ())]

    answers: dict[str, dict[str, Any]] = {}
    columns = [column for column in spark.table(name).columns if not column.startswith("_hoodie_")]
    for procedure, arguments in _calls(procedures, table, columns, rows):
        parameters = procedures.parameters(procedure)
        given = _complete(procedure, parameters, arguments)
        archived = [key for key in ("showArchived", "show_archived") if key in parameters]
        for more in ({}, *({key: True} for key in archived)):
            entry = answer(procedure, given | more)
            answers[json.dumps([procedure, given | more], sort_keys=True)] = entry
    text = json.dumps(list(answers.values()), default=str)
    text = re.sub(r"@[0-9a-f]{6,8}\b", "", text)
    for spelling in (f"file://{table}/", f"file:{table}/", f"{table}/", f"file:{table}", f"{table}"):
        text = text.replace(spelling, "")
    failed = {entry["procedure"]: entry["error"][:120] for entry in answers.values() if "error" in entry}
    print(name, len(answers), failed, flush=True)
    shown: list[dict[str, Any]] = json.loads(text)
    return shown


def pack(folder: Path) -> None:
    """Puts the answers of all releases together."""
    parts = [json.loads((folder / f"{release}.json").read_text()) for release in TABLES]
    names = {part["release"]: part["names"] for part in parts}
    answers = [entry for part in parts for entry in part["answers"]]
    document = json.dumps({"names": names, "answers": answers}, separators=(",", ":"))
    ARCHIVE.write_bytes(lzma.compress(document.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(answers)} answers, {ARCHIVE.stat().st_size} bytes")


def main() -> None:
    """Asks about the tables of a release, or those that are named."""
    folder, release, *names = sys.argv[1:]
    work = Path(folder).resolve()
    if release == "pack":
        pack(work)
        return
    work.mkdir(parents=True, exist_ok=True)
    with spark_session(release, RELEASES[release].bundle.fetched()) as spark:
        procedures = _Procedures(spark)
        answers = [entry for name in names or TABLES[release] for entry in ask(spark, procedures, release, name, work)]
        document = {"release": release, "names": procedures.names, "answers": answers}
    (work / f"{release}.json").write_text(json.dumps(document))


if __name__ == "__main__":
    main()
