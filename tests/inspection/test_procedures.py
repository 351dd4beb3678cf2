"""What is shown of golden tables, column by column beside what Hudi's own procedures show.

Each function of ``SHOWN`` makes rows with the columns of a procedure from what ``hudi_bridge.inspection`` shows.
``DIFFERENCES`` are the columns that are not the same, and why: "Where Hudi's procedures differ" in docs/inspecting.md.
"""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_bridge import HudiReadError, HudiTable
from hudi_bridge.inspection import (
    inspect_all_slices,
    inspect_bootstrap,
    inspect_commit,
    inspect_commit_files,
    inspect_commits,
    inspect_file_group,
    inspect_file_slices,
    inspect_files,
    inspect_log_blocks,
    inspect_log_records,
    inspect_metadata_records,
    inspect_properties,
    inspect_service_files,
    inspect_services,
    inspect_timeline,
    inspect_write_amplification,
)
from hudi_bridge.timeline.instant import Action
from tests.support.golden_cases import ProcedureAnswer, golden_procedures, names_of_procedures
from tests.support.strength import one_in

Row = dict[str, Any]
_PATHS = re.compile(r"pathStr='?([^',)]+)")


def rows_of(table: pa.Table) -> list[Row]:
    rows: list[Row] = table.to_pylist()
    return rows


def total(details: Iterable[Mapping[str, str]], name: str) -> int:
    return sum(int(of_file.get(name, 0)) for of_file in details)


def written(table: HudiTable, instant: str | None = None) -> list[Row]:
    """The files that commits wrote, apart from change data, with the details as a mapping."""
    files = rows_of(inspect_commit_files(table, instant))
    return [row | {"details": dict(row["details"])} for row in files if row["kind"] != "change data"]


def known_slices(table: HudiTable) -> Iterator[Row]:
    """The slices that the procedures know: those of completed writes, and not of a pending compaction."""
    pending = {instant.requested_time for instant in table.timeline.pending(Action.COMPACTION)}
    for row in rows_of(inspect_all_slices(table)):
        if row["state"] in ("current", "superseded", "replaced") and row["base_instant_time"] not in pending:
            yield row


def slices(table: HudiTable) -> Iterator[Row]:
    for row in known_slices(table):
        yield {
            "partition": row["partition_path"],
            "file_id": row["file_id"],
            "base_instant": row["base_instant_time"],
            "data_file": row["base_path"] or "",
            "data_file_size": row["base_size_bytes"] or 0,
            "num_delta_files": row["log_files"],
            "total_delta_file_size": row["log_size_bytes"],
            "delta_files": sorted(row["log_paths"]),
        }


def latest_slices(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    files: dict[tuple[str, str], list[Row]] = defaultdict(list)
    paths = {path for row in known_slices(table) for path in (row["base_path"], *row["log_paths"])}
    for row in rows_of(inspect_files(table)):
        if row["path"] in paths:
            files[row["partition_path"], row["file_id"]].append(row)
    for row in rows_of(inspect_file_slices(table)):
        if answer.arguments.get("partition_path") in (None, row["partition_path"]):
            of_slice = files[row["partition_path"], row["file_id"]]
            yield {
                "partition": row["partition_path"],
                "file_id": row["file_id"],
                "base_instant": row["base_instant_time"],
                "data_file": next((file["path"] for file in of_slice if file["kind"] == "base"), ""),
                "data_file_size": row["base_size_bytes"] or 0,
                "num_delta_files": sum(file["kind"] == "log" for file in of_slice),
                "total_delta_file_size": sum(file["size_bytes"] for file in of_slice if file["kind"] == "log"),
                "delta_files": sorted(file["path"] for file in of_slice if file["kind"] == "log"),
            }


def of_commits(table: HudiTable, *, archived: bool) -> Iterator[Row]:
    for row in rows_of(inspect_commits(table, archived=archived)):
        if row["rows_written"] is not None and row["archived"] is archived:
            files = written(table, row["requested_time"])
            yield {
                "commit_time": row["requested_time"],
                "state_transition_time": row["completion_time"],
                "action": row["action"],
                "total_bytes_written": row["bytes_written"],
                "total_files_added": row["files_added"],
                "total_files_updated": row["files_updated"],
                "total_partitions_written": len({file["partition_path"] for file in files}),
                "total_records_written": row["rows_written"],
                "total_update_records_written": row["rows_updated"],
                "total_errors": total((file["details"] for file in files), "totalWriteErrors"),
            }


def files_of_commits(table: HudiTable, *, archived: bool) -> Iterator[Row]:
    for commit in rows_of(inspect_commits(table, archived=archived)):
        if commit["rows_written"] is None or commit["archived"] is not archived:
            continue
        for row in written(table, commit["requested_time"]):
            details = row["details"]
            yield {
                "commit_time": commit["requested_time"],
                "state_transition_time": commit["completion_time"],
                "action": row["action"],
                "partition": row["partition_path"],
                "file_id": row["file_id"],
                "previous_commit": row["previous_instant"] or "null",
                "num_writes": row["rows_written"],
                "num_inserts": row["rows_inserted"],
                "num_deletes": row["rows_deleted"],
                "num_update_writes": row["rows_updated"],
                "total_errors": int(details.get("totalWriteErrors", 0)),
                "total_log_blocks": int(details.get("totalLogBlocks", 0)),
                "total_corrupt_log_blocks": int(details.get("totalCorruptLogBlock", 0)),
                "total_rollback_blocks": int(details.get("totalRollbackBlocks", 0)),
                "total_log_records": int(details.get("totalLogRecords", 0)),
                "total_updated_records_compacted": int(details.get("totalUpdatedRecordsCompacted", 0)),
                "total_bytes_written": int(details["totalWriteBytes"]),
            }


def commit_files(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    for row in written(table, answer.arguments["instant_time"]):
        yield {
            "action": row["action"],
            "partition_path": row["partition_path"],
            "file_id": row["file_id"],
            "previous_commit": row["previous_instant"] or "null",
            "total_records_updated": row["rows_updated"],
            "total_records_written": row["rows_written"],
            "total_bytes_written": row["bytes_written"],
            "total_errors": int(row["details"].get("totalWriteErrors", 0)),
            "file_size": row["file_size_bytes"],
        }


def commit_partitions(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    by_partition: dict[str, list[Row]] = defaultdict(list)
    for row in written(table, answer.arguments["instant_time"]):
        by_partition[row["partition_path"]].append(row)
    for partition, files in by_partition.items():
        updated = [row for row in files if row["previous_instant"] is not None]
        yield {
            "action": files[0]["action"],
            "partition_path": partition,
            "total_files_added": len(files) - len(updated),
            "total_files_updated": len(updated),
            "total_records_inserted": sum(row["rows_inserted"] for row in files),
            "total_records_updated": sum(row["rows_updated"] for row in updated),
            "total_bytes_written": sum(row["bytes_written"] for row in files),
            "total_errors": total((row["details"] for row in files), "totalWriteErrors"),
        }


def commit_sums(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    (row,) = rows_of(inspect_commit(table, answer.arguments["instant_time"]))
    size, records = row["bytes_written"], row["rows_written"]
    yield {
        "action": row["action"],
        "total_bytes_written": size,
        "total_records_written": records,
        "avg_record_size": math.ceil(size / records) if records else 0,
    }


def extra_metadata(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    (row,) = rows_of(inspect_commit(table, answer.arguments["instant_time"]))
    for key, value in row["extra_metadata"]:
        yield {
            "instant_time": row["requested_time"],
            "action": row["action"],
            "metadata_key": key,
            "metadata_value": value,
        }


def services(table: HudiTable, answer: ProcedureAnswer, kind: str) -> Iterator[Row]:
    archived = any(answer.arguments.get(name) for name in ("showArchived", "show_archived"))
    for row in rows_of(inspect_services(table, [kind], archived=archived)):
        yield row | {"details": dict(row["details"])}


def compactions(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    for row in services(table, answer, "compactions"):
        if row["service"] == "compaction":
            yield {
                "timestamp": row["requested_time"],
                "operation_size": row["file_groups"],
                "state": row["state"].upper(),
            }


def clusterings(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    for row in services(table, answer, "clusterings"):
        files = rows_of(inspect_service_files(table, row["requested_time"]))
        inputs = {(file["partition_path"], file["file_id"]) for file in files if file["what"] == "input"}
        yield {
            "timestamp": row["requested_time"],
            "input_group_size": int(row["details"]["input groups"]),
            "state": row["state"].upper(),
            "involved_partitions": ",".join(sorted(partition for partition, _ in inputs)),
        }


def cleans(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    for row in services(table, answer, "cleans"):
        if row["state"] == "completed":
            yield {
                "clean_time": row["requested_time"],
                "state_transition_time": row["completion_time"],
                "action": row["service"],
                "start_clean_time": row["details"]["started"],
                "time_taken_in_millis": int(row["details"]["milliseconds"]),
                "total_files_deleted": row["files_done"],
                "earliest_commit_to_retain": row["target"] or "",
                "last_completed_commit_timestamp": row["details"]["last completed"],
            }


def cleaned_partitions(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    for row in services(table, answer, "cleans"):
        if row["state"] != "completed":
            continue
        by_partition: dict[str, list[str]] = defaultdict(list)
        for file in rows_of(inspect_service_files(table, row["requested_time"])):
            by_partition[file["partition_path"]].append(file["state"])
        for partition, states in by_partition.items():
            yield {
                "clean_time": row["requested_time"],
                "state_transition_time": row["completion_time"],
                "action": row["service"],
                "start_clean_time": row["details"]["started"],
                "partition_path": partition,
                "policy": row["details"]["policy"],
                "success_delete_files": states.count("done"),
                "failed_delete_files": states.count("failed"),
                "is_partition_deleted": partition in row["details"].get("partitions deleted", "").split(", "),
                "time_taken_in_millis": int(row["details"]["milliseconds"]),
                "total_files_deleted": row["files_done"],
            }


def clean_plans(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    for row in services(table, answer, "cleans"):
        if row["archived"]:
            # Hudi looks for the plans of archived cleans on the active timeline, and shows none.
            continue
        yield {
            "plan_time": row["requested_time"],
            "state": row["state"].upper(),
            "action": row["service"],
            "earliest_instant_to_retain": row["target"],
            "last_completed_commit_timestamp": row["details"]["last completed"],
            "policy": row["details"]["policy"],
            "total_partitions_to_clean": row["partitions"],
            "total_partitions_to_delete": len(row["details"].get("partitions deleted", "").split(", ")) - 1,
        }


def rollbacks(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    for row in services(table, answer, "rollbacks"):
        if row["service"] == "rollback":
            files = rows_of(inspect_service_files(table, row["requested_time"]))
            yield {
                "instant": row["requested_time"],
                "rollback_instant": row["target"],
                "total_files_deleted": sum(file["what"] == "delete" and file["state"] == "done" for file in files),
                "time_taken_in_millis": int(row["details"]["milliseconds"]),
                "total_partitions": row["partitions"],
            }


def rollback_files(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    instant = answer.arguments["instant_time"]
    (row,) = [row for row in services(table, answer, "rollbacks") if row["requested_time"] == instant]
    for file in rows_of(inspect_service_files(table, instant)):
        if file["what"] == "delete":
            yield {
                "instant": instant,
                "rollback_instant": f"[{row['target']}]",
                "partition": file["partition_path"],
                "deleted_file": file["path"].rpartition("/")[2],
                "succeeded": file["state"] == "done",
            }


def savepoints(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    for row in services(table, answer, "savepoints"):
        yield {"savepoint_time": row["requested_time"]}


def timeline(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    archived = bool(answer.arguments.get("showArchived"))
    for row in rows_of(inspect_timeline(table, archived=archived)):
        yield {
            "instant_time": row["requested_time"],
            "action": row["action"],
            "state": row["state"].upper(),
            "timeline_type": "ARCHIVED" if row["archived"] else "ACTIVE",
        }


def properties(table: HudiTable, _: ProcedureAnswer) -> Iterator[Row]:
    for row in rows_of(inspect_properties(table)):
        if row["source"] == "hoodie.properties":
            yield {"key": row["name"], "value": row["value"]}


def amplification(table: HudiTable, _: ProcedureAnswer) -> Iterator[Row]:
    rows = [row for row in rows_of(inspect_write_amplification(table)) if row["action"] != "deltacommit"]
    for row in rows:
        yield {"commit_time": row["requested_time"], "total_written": row["rows_written"]}
    yield {"commit_time": "Total", "total_written": sum(row["rows_written"] for row in rows)}


def file_sizes(table: HudiTable, _: ProcedureAnswer) -> Iterator[Row]:
    sizes: dict[str, list[int]] = defaultdict(list)
    for row in rows_of(inspect_file_group(table)):
        name = row["path"].rpartition("/")[2]
        # Up to version 7, the name of a log file has the instant of its base file.
        instant = name.rpartition("_")[2].partition(".")[0] if row["kind"] == "base" else name.split("_")[1][:17]
        sizes[instant.partition(".")[0]].append(row["size_bytes"])
    every = [size for of_instant in sizes.values() for size in of_instant]
    for instant, of_instant in (*sizes.items(), ("ALL", every)):
        yield {
            "commit_time": instant,
            "min": min(of_instant),
            "avg": float(np.mean(of_instant)),
            "max": max(of_instant),
            "num_files": len(of_instant),
        }


_KINDS = {
    "rows (Avro)": "AVRO_DATA_BLOCK",
    "rows (HFile)": "HFILE_DATA_BLOCK",
    "rows (Parquet)": "PARQUET_DATA_BLOCK",
    "deletes": "DELETE_BLOCK",
    "rollback": "COMMAND_BLOCK",
    "damaged": "CORRUPT_BLOCK",
}


def log_blocks(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    for row in rows_of(inspect_log_blocks(table, answer.arguments["log_file_path_pattern"])):
        yield {
            "instant_time": row["instant_time"] or "corrupt_block_1",
            "record_count": row["rows"] or 0,
            "block_type": _KINDS[row["kind"]],
            "header_metadata": {
                "schema": row["schema"],
                "is partial": row["is_partial"] or False,
                "base instant": row["base_instant_of_positions"],
                "target": row["target_instant_time"],
                "compacted": ",".join(row["compacted_instants"] or ()) or None,
                "has positions": row["positions"] is not None,
            },
        }


def log_records(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    for row in rows_of(inspect_log_records(table, answer.arguments["log_file_path_pattern"]).read_all()):
        yield {"records": simple(row["row"])}


def simple(record: Mapping[str, Any] | None) -> str | None:
    """The fields of a record that JSON spells in one way, without nulls; None for a delete."""
    if record is None:
        return None
    shown = {name: value for name, value in record.items() if isinstance(value, str | int) and value is not None}
    return json.dumps(shown, sort_keys=True)


def metadata_files(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    partition = answer.arguments["partition"]
    records = inspect_metadata_records(table, "files", [partition or "."]).read_all()
    for row in rows_of(records):
        yield {"file_path": row["name"]}


def metadata_partitions(table: HudiTable, _: ProcedureAnswer) -> Iterator[Row]:
    for row in rows_of(inspect_metadata_records(table, "files", ["__all_partitions__"]).read_all()):
        yield {"partition": "" if row["name"] == "." else row["name"]}


def column_stats(table: HudiTable, answer: ProcedureAnswer) -> Iterator[Row]:
    # Hudi leaves out files whose statistics are in logs of the index.
    shown = {(row["file_name"], row["column_name"]) for row in answer.rows}
    for row in rows_of(inspect_metadata_records(table, "column_stats").read_all()):
        if (row["file_name"], row["column"]) in shown:
            yield {
                "file_name": row["file_name"],
                "column_name": row["column"],
                "min_value": value_of(row["min_value"]),
                "max_value": value_of(row["max_value"]),
                "null_number": row["null_count"],
            }


def value_of(text: str | None) -> str | float | None:
    """The value of a text: Java spells whole numbers and nulls in its own way."""
    try:
        return float(text or "")
    except ValueError:
        return None if text == "null" else text


def bootstrap(table: HudiTable, _: ProcedureAnswer) -> Iterator[Row]:
    for row in rows_of(inspect_bootstrap(table)):
        yield {
            "partition": row["partition_path"],
            "file_id": row["file_id"],
            "source_partition": row["source_path"].rpartition("/")[0],
            "source_file": row["source_path"].rpartition("/")[2],
        }


def bootstrap_partitions(table: HudiTable, _: ProcedureAnswer) -> Iterator[Row]:
    for partition in sorted({row["partition_path"] for row in rows_of(inspect_bootstrap(table))}):
        yield {"indexed_partitions": partition}


SHOWN: Mapping[str, Callable[[HudiTable, ProcedureAnswer], Iterable[Row]]] = {
    "show_fsview_all": lambda table, _: slices(table),
    "show_fsview_latest": latest_slices,
    "show_commits": lambda table, _: of_commits(table, archived=False),
    "show_commits_metadata": lambda table, _: files_of_commits(table, archived=False),
    "show_archived_commits": lambda table, _: of_commits(table, archived=True),
    "show_archived_commits_metadata": lambda table, _: files_of_commits(table, archived=True),
    "show_commit_files": commit_files,
    "show_commit_partitions": commit_partitions,
    "show_commit_write_stats": commit_sums,
    "show_commit_extra_metadata": extra_metadata,
    "show_compaction": compactions,
    "show_clustering": clusterings,
    "show_cleans": cleans,
    "show_cleans_metadata": cleaned_partitions,
    "show_clean_plans": clean_plans,
    "show_rollbacks": rollbacks,
    "show_rollback_detail": rollback_files,
    "show_savepoints": savepoints,
    "show_timeline": timeline,
    "show_table_properties": properties,
    "stats_wa": amplification,
    "stats_file_sizes": file_sizes,
    "show_logfile_metadata": log_blocks,
    "show_logfile_records": log_records,
    "show_metadata_table_files": metadata_files,
    "show_metadata_table_partitions": metadata_partitions,
    "show_metadata_table_column_stats": column_stats,
    "show_bootstrap_mapping": bootstrap,
    "show_bootstrap_partitions": bootstrap_partitions,
}
NOT_COMPARED = {
    "show_metadata_table_stats": "Hudi shows nothing without a registry of metrics, which its session has not",
    "show_metadata_column_stats_overlap": "Hudi shows nothing for any of these tables, or fails",
}
_OF_CLOCK = "the time of a file in the copy of the table"
_FORMAT = "the version of a file's format"
DIFFERENCES: Mapping[str, Mapping[str, str]] = {
    "show_fsview_latest": dict.fromkeys(
        (
            "delta_size_compaction_scheduled",
            "delta_size_compaction_unscheduled",
            "delta_to_base_radio_compaction_scheduled",
            "delta_to_base_radio_compaction_unscheduled",
            "delta_files_compaction_scheduled",
            "delta_files_compaction_unscheduled",
        ),
        "scheduled or not is told by the commit of a log file, and not by plans, which compactions show",
    ),
    "show_cleans": {"version": _FORMAT},
    "show_cleans_metadata": {"delete_path_patterns": "the same files as those that were deleted or failed"},
    "show_clean_plans": {"version": _FORMAT, "extra_metadata": "no writer of Hudi sets it"},
    "show_timeline": {
        "requested_time": _OF_CLOCK,
        "inflight_time": _OF_CLOCK,
        "completed_time": _OF_CLOCK,
        "rollback_info": "the target of rollbacks, in another row",
    },
    "stats_wa": dict.fromkeys(
        ("total_upserted", "write_amplification_factor"), "Hudi counts updates alone, and not inserts and deletes"
    ),
    "stats_file_sizes": dict.fromkeys(
        ("10th", "50th", "95th", "std_dev"), "Hudi interpolates between sizes, and takes files for a sample"
    ),
    "show_logfile_metadata": {"footer_metadata": "no writer of Hudi sets it"},
    "show_bootstrap_mapping": {"source_base_path": "hoodie.bootstrap.base.path, which the properties show"},
}
FAILURES: Mapping[str, str] = {
    "show_bootstrap_mapping": "not a bootstrapped Hudi table",
    "show_bootstrap_partitions": "not a bootstrapped Hudi table",
    "show_cleans": "Not an Avro data file",
    "show_cleans_metadata": "Not an Avro data file",
    "show_compaction": "Could not read commit details|Non Merge On Read table",
    "show_logfile_metadata": "MatchError",
    "show_logfile_records": "NullPointerException|MatchError",
    "show_metadata_table_column_stats": "Unsupported operation",
    "show_metadata_table_files": "not enabled",
    "show_metadata_table_partitions": "not enabled",
}
"""Of tables without a bootstrap, cleans of the archive, commits that are no compactions, deletes in logs, and tables
without a metadata table."""
OF_METADATA_TABLE = tuple(name for name in FAILURES if "metadata_table" in name)
_SCHEMAS = ("schema", "latest_schema")


def of_hudi(answer: ProcedureAnswer, table: HudiTable) -> Iterator[Row]:
    """The rows of Hudi, with texts of several values taken apart, and paths as names."""
    adapt = ADAPTED.get(answer.procedure)
    for row in answer.rows:
        adapted = dict(row) if adapt is None else adapt(dict(row), table)
        if adapted is not None:
            yield adapted


def with_paths(row: Row, _: HudiTable) -> Row:
    return row | {"delta_files": sorted(_PATHS.findall(row["delta_files"]))}


def with_completion(row: Row, table: HudiTable) -> Row:
    # Layout 1 records no completion time: Hudi takes that of the file.
    return row if table.config.timeline_layout > 1 else row | {"state_transition_time": None}


def without_schema(row: Row, _: HudiTable) -> Row | None:
    return None if row["metadata_key"] in _SCHEMAS else row


def with_average(row: Row, _: HudiTable) -> Row:
    # Hudi divides by zero.
    return row if row["total_records_written"] else row | {"avg_record_size": 0}


def with_plan(row: Row, _: HudiTable) -> Row | None:
    return None if row["policy"] is None else row


def with_names(row: Row, _: HudiTable) -> Row:
    paths = {"deleted_file", "source_file"}.intersection(row)
    return row | {column: row[column].rpartition("/")[2] for column in paths}


ADAPTED: Mapping[str, Callable[[Row, HudiTable], Row | None]] = {
    "show_fsview_all": with_paths,
    "show_commits": with_completion,
    "show_commits_metadata": with_completion,
    "show_commit_extra_metadata": without_schema,
    "show_commit_write_stats": with_average,
    "show_clean_plans": with_plan,
    "show_rollback_detail": with_names,
    "show_bootstrap_mapping": with_names,
    "show_metadata_table_column_stats": lambda row, _: (
        row | {name: value_of(row[name]) for name in ("min_value", "max_value")}
    ),
    "show_logfile_metadata": lambda row, _: row | {"header_metadata": header(json.loads(row["header_metadata"]))},
    "show_logfile_records": lambda row, _: {"records": simple(json.loads(row["records"]))},
}


def header(stored: Mapping[str, str]) -> Row:
    """The header of a block as ``log_blocks`` has it."""
    schema = json.loads(stored["SCHEMA"]) if "SCHEMA" in stored else {}
    return {
        "schema": ".".join(filter(None, (schema.get("namespace"), schema.get("name")))) or None,
        "is partial": stored.get("IS_PARTIAL") == "true",
        "base instant": stored.get("BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS"),
        "target": stored.get("TARGET_INSTANT_TIME"),
        "compacted": stored.get("COMPACTED_BLOCK_TIMES"),
        "has positions": "RECORD_POSITIONS" in stored,
    }


def compared() -> list[tuple[str, str]]:
    answers = {(answer.case, answer.procedure) for answer in golden_procedures()}
    return sorted((case, name) for case, name in answers if name in SHOWN)


@pytest.mark.parametrize(("case", "procedure"), one_in(8, starmap(pytest.param, compared())))
def test_what_procedures_show(case: str, procedure: str) -> None:
    for answer in golden_procedures():
        if (answer.case, answer.procedure) != (case, procedure) or answer.error is not None:
            continue
        table = table_of(answer.table)
        differing = DIFFERENCES.get(procedure, {})
        columns = [column for column in answer.columns if column not in differing]
        theirs, ours = list(of_hudi(answer, table)), list(SHOWN[procedure](table, answer))
        assert counted(ours, columns) == counted(theirs, columns), answer.arguments


@pytest.mark.parametrize(
    "case", one_in(3, sorted({answer.case for answer in golden_procedures() if answer.error is not None}))
)
def test_what_hudi_fails_to_show_is_shown(case: str) -> None:
    for answer in golden_procedures():
        if answer.case == case and answer.error is not None and answer.procedure in SHOWN:
            reason = FAILURES[answer.procedure]
            assert re.search(reason, answer.error), answer
            table = table_of(answer.table)
            if answer.procedure not in OF_METADATA_TABLE:
                assert isinstance(list(SHOWN[answer.procedure](table, answer)), list)
            else:
                with pytest.raises(HudiReadError):
                    list(SHOWN[answer.procedure](table, answer))


@cache
def table_of(folder: Path) -> HudiTable:
    return HudiTable.open(folder)


def counted(rows: Iterable[Row], columns: Iterable[str]) -> "Counter[str]":
    names = list(columns)
    return Counter(repr({name: row.get(name, "not shown") for name in names}) for row in rows)


def test_every_procedure_that_shows_something_is_compared() -> None:
    asked = {answer.procedure for answer in golden_procedures()}
    assert asked == SHOWN.keys() | NOT_COMPARED.keys()
    assert list(names_of_procedures()) == ["0.15.0", "1.0.2", "1.1.1", "1.2.0"]


def test_the_page_names_every_procedure_and_every_difference() -> None:
    page = (Path(__file__).parents[2] / "docs" / "inspecting.md").read_text()
    names, differences = page.split("## Where Hudi's procedures differ")
    for release in names_of_procedures().values():
        assert [name for name in release if f"`{name}`" not in names] == []
    differing = {*DIFFERENCES, *ADAPTED} - {"show_cleans_metadata", "show_rollback_detail", "show_bootstrap_mapping"}
    assert [name for name in sorted(differing) if f"`{name}`" not in differences] == []
