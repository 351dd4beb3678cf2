"""What is known of incremental queries, and how it is recognized: which rows Hudi leaves out of ranges, or adds."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tests.golden.generate.questions import BEGIN
from tests.golden.generate.timeline import timeline_folder
from tests.random.checking import (
    first_commit_of,
    history_of,
    versions_in,
    versions_of,
)
from tests.random.difference import (
    Difference,
    all_differ,
    has_columns_of_logs,
    instants_of_logs,
    is_of,
    is_of_versions,
    tables_of,
)
from tests.support.compare import differences


def has_rows_of_log_compactions(it: Difference) -> bool:
    """Whether all that differs is rows of a range that only Hudi has, of the commit times of log compactions."""
    if it.kind != "incremental" or "_hoodie_commit_time" not in it.expected.column_names:
        return False
    plans = timeline_folder(Path(it.case.path)).glob("*.logcompaction.requested")
    times = pa.array([plan.name.partition(".")[0] for plan in plans], pa.string())
    is_rewritten = [pc.is_in(rows["_hoodie_commit_time"], times) for rows in tables_of(it)]
    rewritten, ours_rewritten = (
        Counter(map(str, rows.filter(mask).to_pylist())) for rows, mask in zip(tables_of(it), is_rewritten, strict=True)
    )
    others = [rows.filter(pc.invert(mask)) for rows, mask in zip(tables_of(it), is_rewritten, strict=True)]
    return differences(*others) == [] and ours_rewritten < rewritten


def leaves_out_archived_commits(it: Difference) -> bool:
    """Whether all that Hudi lacks in a range has been archived, and it has nothing but versions that lose to that."""

    def are_hidden(it: Difference, key: str, theirs: pa.Table, ours: pa.Table) -> bool:
        groups = history_of(it.case, key, it.end).file_groups
        logged = [version for version in versions_in(groups) if not version.is_base_row]
        return (
            theirs.num_rows <= ours.num_rows <= len(groups)
            and all(row[time] < first for row in ours.to_pylist())
            and all(is_of_versions(row, logged) for row in theirs.to_pylist())
        )

    if it.kind not in ("incremental", "cdc"):
        return False
    first = first_commit_of(it.case)
    time = "ts_ms" if it.kind == "cdc" else "_hoodie_commit_time"
    if it.options[BEGIN] >= first:
        return False
    is_archived = [pc.less(rows[time], pa.scalar(first)) for rows in tables_of(it)]
    active = [rows.filter(pc.invert(mask)) for rows, mask in zip(tables_of(it), is_archived, strict=True)]
    archived = [
        Counter(map(str, rows.filter(mask).to_pylist())) for rows, mask in zip(tables_of(it), is_archived, strict=True)
    ]
    is_all = differences(*active) == [] and archived[0] < archived[1]
    return is_all or (it.kind == "incremental" and all_differ(it, are_hidden))


def has_base_rows_alone(it: Difference) -> bool:
    """Whether files of a range may be archived or cleaned, and all that differs is what logs change in base files."""

    def is_changed_by_logs(it: Difference, key: str, theirs: pa.Table, ours: pa.Table) -> bool:
        versions = versions_of(it.case, key, it.end)
        # The newest base files are read, whatever the end of the range is.
        base_rows = [version for version in (*versions, *versions_of(it.case, key, None)) if version.is_base_row]
        # Ranges have partition columns as the path spells them, escapes and all.
        stored = [name for name in theirs.column_names if name not in it.case.table.partition_fields]
        return (
            any(not version.is_base_row for version in versions)
            and all(is_of_versions(row, base_rows) for row in theirs.select(stored).to_pylist())
            and all(is_of_versions(row, versions) for row in ours.select(stored).to_pylist())
        )

    if it.kind != "incremental":
        return False
    is_cleaned = any(entry["action"] == "clean" for entry in it.case.document["instants"])
    may_be_full_scan = is_cleaned or it.options[BEGIN] < first_commit_of(it.case)
    return may_be_full_scan and all_differ(it, is_changed_by_logs)


def lacks_groups_begun_beside_a_plan(it: Difference) -> bool:
    """Whether all that differs is rows that Hudi lacks in a range, of file groups whose base file was written after a
    compaction was planned that is pending, and before the range.

    Source: ``MergeOnReadIncrementalRelationV1.timeline`` of 1.x, to whose start the plan is added; 0.15 adds none. Rows
    of other file groups may have columns as the log has them.
    """
    instants = it.case.document["instants"]
    plans = [entry["requested"] for entry in instants if entry["action"] == "compaction"]

    def are_of_hidden(it: Difference, key: str, theirs: pa.Table, ours: pa.Table) -> bool:
        groups = history_of(it.case, key, it.end).file_groups
        is_hidden = (
            not theirs.num_rows
            and ours.num_rows <= len(groups)
            and all(
                any(min(plans) < instant <= it.options[BEGIN] for instant in instants_of_logs(it.case, group))
                for group in groups
            )
        )
        return is_hidden or has_columns_of_logs(it, key, theirs, ours)

    is_of_range = it.kind == "incremental" and it.case.document["table_version"] == 6 and not is_of(it.case, 0)
    return is_of_range and bool(plans) and all_differ(it, are_of_hidden)


def lacks_a_slow_writer(it: Difference) -> bool:
    """Whether all records that differ have a version of a write beside which a compaction was planned, not in Hudi."""
    instants = it.case.document["instants"]
    plans = [entry["requested"] for entry in instants if entry["action"] == "compaction" and not entry["completed"]]
    slow = {
        entry["requested"]
        for entry in instants
        if entry["completed"] and any(entry["requested"] < plan < entry["completed"] for plan in plans)
    }

    def are_of_slow(it: Difference, key: str, theirs: pa.Table, ours: pa.Table) -> bool:
        is_left_out = not any(row.get("_hoodie_commit_time") in slow for row in theirs.to_pylist())
        groups = history_of(it.case, key, it.end).file_groups
        is_of_slow = any(version.instant_time in slow for version in versions_in(groups))
        return is_left_out and is_of_slow and ours.num_rows <= len(groups)

    return bool(slow) and it.kind in ("incremental", "time_travel") and all_differ(it, are_of_slow)


def has_rows_of_a_pending_resize(it: Difference) -> bool:
    """Whether all that differs is rows that a range of Hudi has from file groups of a pending clustering, too.

    The plan is older than the first commit of the range. Writers of resized buckets have log records in the old file
    groups and the new. To the timeline of a range, which ``MergeOnReadIncrementalRelation`` of 0.15 gives its file
    system view, instants from before its first one have completed.
    """
    if it.kind != "incremental" or "_hoodie_file_name" not in it.expected.column_names:
        return False
    writes = [e for e in it.case.document["instants"] if e["action"] in ("commit", "deltacommit", "replacecommit")]
    done = {entry["requested"] for entry in writes if entry["state"] == "completed"}
    first = min((instant for instant in done if instant > it.options[BEGIN]), default="")
    plans = {entry["requested"] for entry in writes if entry["requested"] < first} - done

    def are_of_both(it: Difference, key: str, theirs: pa.Table, ours: pa.Table) -> bool:
        groups = history_of(it.case, key, it.end).file_groups
        logs = {group.file_id: instants_of_logs(it.case, group) for group in groups}
        new = [file_id for file_id, instants in logs.items() if instants and plans.issuperset(instants)]
        rest = theirs.filter(pc.invert(pc.is_in(theirs["_hoodie_file_name"], pa.array(new, pa.string()))))
        return differences(rest, ours) == [] or has_columns_of_logs(it, key, rest, ours)

    return bool(plans) and all_differ(it, are_of_both)
