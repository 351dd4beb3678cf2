"""Why differences from Hudi, errors and what the doctor tells are no faults, for those that are known.

What users have to know of them is in docs/hudi-differences.md.
"""

import ast
import dataclasses
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from hudi_bridge.indexes.metadata_table import METADATA_FOLDER
from tests.golden.generate.options import PAYLOADS
from tests.golden.generate.timeline import table_version, timeline_folder
from tests.random.checking import Case, Outcome, first_commit_of, history_of, may_hide_late_deletes
from tests.random.difference import Difference, of_its_snapshot, without_dropped_columns
from tests.random.known import CONTRADICTION, KNOWN

_CLEANED = re.compile("InstantNotReadableError: .*: files of the commit ([0-9]+) have been cleaned")
_GONE = re.compile("(?:CorruptTableError|missing-files): ([^:]+): found no such file")
_TORN = re.compile("CorruptBaseFileError: (.*): found a row group of")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


@dataclass(frozen=True, slots=True)
class KnownError:
    """Why an error is no fault of Hudi Bridge, and whether an outcome is one."""

    reason: str
    applies: Callable[[Case, Outcome], bool]


REFUSED_BY_NAME = (
    KnownError(
        "refused by name: first values",
        lambda case, outcome: _is_refused_payload(case, outcome, "FirstValueAvroPayload"),
    ),
    KnownError(
        "refused by name: the reverse order",
        lambda case, outcome: _is_refused_payload(case, outcome, "ReverseOrderHoodieRecordPayload"),
    ),
    KnownError(
        "refused by name: changes while an earlier write is running, which Hudi's would miss",
        lambda case, outcome: (
            outcome.kind == "cdc"
            and outcome.detail.startswith("InstantNotReadableError: ")
            and "is still running while later ones have completed" in outcome.detail
            and any(entry["state"] != "completed" for entry in case.document["instants"])
        ),
    ),
    KnownError(
        "refused by name: time travel beside a restore that has not completed",
        lambda case, outcome: (
            outcome.kind == "time_travel"
            and "files may have been removed by the restore" in outcome.detail
            and any(
                entry["action"] == "restore" and entry["state"] != "completed" for entry in case.document["instants"]
            )
        ),
    ),
    KnownError(
        "refused by name: a range whose archived commits have been cleaned, and which Hudi leaves out",
        lambda case, outcome: (
            case.document["table_version"] == 6
            and outcome.kind in ("incremental", "cdc")
            and (match := _CLEANED.search(outcome.detail)) is not None
            and match[1] < first_commit_of(case)
        ),
    ),
    KnownError(
        "late deletes take keys out of Hudi's indexes whose rows stay, which the doctor tells",
        lambda case, outcome: (
            outcome.kind == "doctor"
            and outcome.way in ("record-index", "secondary-index")
            and bool(keys := lacking_keys(outcome.detail))
            and all(_has_a_late_delete(case, key) for key in keys)
        ),
    ),
    KnownError(
        "late deletes in copy-on-write tables, which their files do not show, take keys out of Hudi's indexes as well",
        lambda case, outcome: (
            outcome.kind == "doctor"
            and outcome.way in ("record-index", "secondary-index")
            and bool(_named_keys(outcome.detail)[0])
            and may_hide_late_deletes(case)
        ),
    ),
    KnownError(
        "overwrites by Hudi 1.0 take keys of the file groups that they replace out of its record index, also of those"
        " records that have moved to other partitions, which the doctor tells",
        lambda case, outcome: (
            case.table.release.startswith("1.0.")
            and (outcome.kind, outcome.way) == ("doctor", "record-index")
            and bool(keys := lacking_keys(outcome.detail))
            and all(_is_older_than_an_overwrite(case, key) for key in keys)
        ),
    ),
    KnownError(
        "a bulk insert of Hudi has not entered its rows into a secondary index, which the doctor tells",
        lambda case, outcome: (
            (outcome.kind, outcome.way) == ("doctor", "secondary-index")
            and bool(keys := _named_keys(outcome.detail)[0])
            and all(_is_of_a_bulk_insert(case, key) for key in keys)
        ),
    ),
    KnownError(
        "log compactions of Hudi 1.2 take the keys of records that have moved out of its record index, which the doctor"
        " tells",
        lambda case, outcome: (
            (outcome.kind, outcome.way) == ("doctor", "record-index")
            and bool(lacking_keys(outcome.detail))
            and any(timeline_folder(Path(case.path)).glob("*.logcompaction.requested"))
        ),
    ),
    KnownError(
        "a clean of Hudi has deleted a file of a newest slice, which the doctor tells",
        lambda _, outcome: (
            (outcome.kind, outcome.way) == ("doctor", "missing-files")
            and re.search("no such file, which the clean [0-9]+ has deleted", outcome.detail) is not None
        ),
    ),
    KnownError(
        "refused as damaged: a rollback by another writer has deleted files of a commit that completed nevertheless",
        lambda case, outcome: (
            (match := _GONE.search(outcome.detail)) is not None and _was_deleted_by_a_rollback(case, match[1])
        ),
    ),
    KnownError(
        "refused as damaged: a Parquet file that Hudi wrote with more values in some columns than it has rows",
        lambda case, outcome: (
            (match := _TORN.search(outcome.detail)) is not None and _has_more_values_than_rows(case, match[1])
        ),
    ),
    KnownError(
        "Hudi 1.1 has put column stats into file groups of an expression index, refuses to write to them from then on,"
        " and the doctor tells",
        lambda case, outcome: (
            (outcome.kind, outcome.way) == ("doctor", "metadata-table")
            and "column_stats: found the file group expr-index-" in outcome.detail
            and (
                any("mismatched partition path" in step["result"] for step in case.document["steps"])
                or _is_misplaced_by_the_last_step(case)
            )
        ),
    ),
    KnownError(
        "an upgrade of Hudi loses what was written after the plan of a compaction that it did not run, which the doctor"
        " tells",
        lambda case, outcome: (
            (outcome.kind, outcome.way) == ("doctor", "logs-of-compactions")
            and any(step["name"] == "upgrade" for step in case.document["steps"])
            and any(entry["action"] == "compaction" and not entry["completed"] for entry in case.document["instants"])
        ),
    ),
    KnownError(
        "an upgrade that failed has upgraded the metadata table alone, which the doctor tells",
        lambda case, outcome: (
            (outcome.kind, outcome.way) == ("doctor", "metadata-table")
            and table_version(Path(case.path)) != table_version(Path(case.path, METADATA_FOLDER))
        ),
    ),
)
"""Why it is no fault that Hudi Bridge refuses what Hudi answers, or that the doctor tells an error."""


def _is_refused_payload(case: Case, outcome: Outcome, payload: str) -> bool:
    return case.table.payload == payload and f"unsupported payload: found {PAYLOADS}{payload}" in outcome.detail


def _has_a_late_delete(case: Case, key: str) -> bool:
    """Whether a delete of a record lost to an earlier version of it."""
    return any(
        group.winner is not None
        and not group.versions[group.winner - 1].delete
        and any(version.delete for version in group.versions[group.winner :])
        for group in history_of(case, key, None).file_groups
    )


def _is_of_a_bulk_insert(case: Case, key: str) -> bool:
    """Whether a bulk insert wrote the newest version of a record."""
    steps = [step for step in case.document["steps"] if step["name"] == "bulk_insert"]
    instants = {name.partition(".")[0] for step in steps for name in step["instants"]}
    newest = [group.versions[group.winner - 1] for group in history_of(case, key, None).file_groups if group.winner]
    times = [time for version in newest for time in version.row["_hoodie_commit_time"].to_pylist()]
    return bool(times) and all(time in instants for time in times)


def _is_older_than_an_overwrite(case: Case, key: str) -> bool:
    overwrites = [entry["requested"] for entry in case.document["instants"] if entry["action"] == "replacecommit"]
    groups = history_of(case, key, None).file_groups
    return bool(groups) and all(
        version.instant_time < max(overwrites, default="") for group in groups for version in group.versions
    )


def _is_misplaced_by_the_last_step(case: Case) -> bool:
    """Whether only the last step has put files of an expression index among the column stats: none could fail since."""
    files = Path(case.path, METADATA_FOLDER, "column_stats").glob(".expr-index-*")
    instants = {name.partition(".")[0] for name in case.document["steps"][-1]["instants"]}
    return {file.name.partition("-0_")[2].partition(".")[0] for file in files} <= instants


def _was_deleted_by_a_rollback(case: Case, path: str) -> bool:
    """Whether a completed rollback names a file."""
    name = path.rpartition("/")[2].encode()
    return any(name in file.read_bytes() for file in timeline_folder(Path(case.path)).glob("*.rollback"))


def _has_more_values_than_rows(case: Case, path: str) -> bool:
    """Whether the footer of a base file says so of its first column, which is flat."""
    groups = pq.read_metadata(Path(case.path, path))
    return any(
        groups.row_group(number).num_rows < groups.row_group(number).column(0).num_values
        for number in range(groups.num_row_groups)
    )


def lacking_keys(detail: str) -> list[str]:
    """The record keys that an index lacks, as the doctor says; none if it says anything else, or leaves keys out."""
    keys, count = _named_keys(detail)
    return keys if len(keys) == count else []


def _named_keys(detail: str) -> tuple[list[str], int]:
    """The record keys that the doctor names of those that an index lacks, and how many there are."""
    match = re.search("found ([0-9]+) record keys that the (?:record )?index lacks.*?: (.*), expected", detail)
    if match is None:
        return [], 0
    return [ast.literal_eval(key[0]) for key in _QUOTED.finditer(match[2].rpartition("': ")[2])], int(match[1])


def with_reasons(case: Case, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes, known differences with their reasons."""
    return [_with_reason(case, outcome) if outcome.is_fault else outcome for outcome in outcomes]


def _with_reason(case: Case, outcome: Outcome) -> Outcome:
    reasons: Iterable[str]
    if outcome.tables is None:
        reasons = (item.reason for item in REFUSED_BY_NAME if item.applies(case, outcome))
    else:
        it = Difference(case, outcome, *outcome.tables)
        # A column alone that has another type is none of what is known.
        known = (CONTRADICTION,) if it.is_of_types else KNOWN
        # A filter that contradicts Hudi's snapshot may be of one that differs from ours for a reason of its own.
        reasons = (
            item.reason
            for difference in (it, of_its_snapshot(it), without_dropped_columns(it))
            for item in known
            if item.explains(difference)
        )
    return dataclasses.replace(outcome, reason=next(iter(reasons), None))
