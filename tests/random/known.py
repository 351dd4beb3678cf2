"""Differences from Hudi that are no faults: each with the reason, and how it is recognized.

What users have to know of them is in docs/hudi-differences.md. A difference that is not in this list fails the run: it
becomes a golden table once it is mended, or an entry here if Hudi is wrong.
"""

import dataclasses
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge import InstantNotReadableError, RealtimeFileSplit, tools
from hudi_bridge.indexes.metadata_table import METADATA_FOLDER
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.tools import RecordHistory
from hudi_bridge.tools.trace.record_trace import FileGroupHistory
from hudi_bridge.tools.trace.verdicts import RecordVersion
from tests.golden.generate.log_blocks import labels_of
from tests.golden.generate.options import PAYLOADS
from tests.golden.generate.questions import AS_OF, BEGIN, COLUMNS, END
from tests.golden.generate.releases import number
from tests.golden.generate.timeline import table_version, timeline_folder
from tests.random.checking import DIFFERENT, ERROR, Case, Outcome, dataset_of, filtered, rows_of
from tests.support.compare import differences

_CLEANED = re.compile("InstantNotReadableError: .*: files of the commit ([0-9]+) have been cleaned")
_TORN = re.compile("CorruptBaseFileError: (.*): found a row group of")

Image = Mapping[str, Any]
"""A row of a change, empty for none."""


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """Why a difference is no fault of Hudi Bridge, and whether an outcome is one."""

    reason: str
    applies: Callable[[Case, Outcome], bool]


def _contradicts_its_snapshot(case: Case, outcome: Outcome) -> bool:
    """Whether Hudi's answer to a filter or a projection differs from its own snapshot, and ours does not."""
    if outcome.query is None or outcome.kind not in ("snapshot_filtered", "snapshot_columns"):
        return False
    snapshot, query = case.snapshot, case.document["queries"][outcome.query]
    if snapshot is None:
        return False
    if outcome.kind == "snapshot_filtered":
        expected = filtered(snapshot, query["options"]["duckdb"])
    else:
        expected = _projected(snapshot, query["options"][COLUMNS])
    return differences(expected, rows_of(case.opened(), outcome.kind, query["options"])) == []


def _projected(rows: pa.Table, paths: Iterable[list[str]]) -> pa.Table:
    columns = {}
    for index, (name, *fields) in enumerate(paths):
        column = rows[name].combine_chunks()
        for field in fields:
            column = pc.struct_field(column, [field])
        columns[f"x{index}"] = column
    return pa.table(columns)


def _differs_in_nulls_of_partitions(case: Case, outcome: Outcome) -> bool:
    """Whether all that differs are partition columns, which are null in Hudi's answer alone."""
    if outcome.status != DIFFERENT or outcome.kind == "cdc":
        return False
    # Look-ups are of rows of the snapshot.
    query = case.document["queries"][outcome.query or 0]
    expected = case.answer(outcome.query or 0)
    if expected is None:
        return False
    names = [name for name in case.table.partition_fields if name in expected.column_names]
    has_nulls = any(expected[name].null_count for name in names)
    rows = rows_of(case.opened(), query["kind"], query["options"])
    if not has_nulls or any(name not in rows.column_names for name in names):
        return False
    return differences(expected.drop_columns(names), rows.drop_columns(names)) == []


def _stops_at_a_later_block(case: Case, outcome: Outcome) -> bool:
    """Whether some logs have a block of an instant after the query's before one that counts."""
    if outcome.query is None:
        dataset = case.opened().snapshot()
    else:
        query = case.document["queries"][outcome.query]
        dataset = dataset_of(case.opened(), outcome.kind, query["options"])
    return any(_has_later_block_first(split) for split in dataset.splits() if isinstance(split, RealtimeFileSplit))


def _has_later_block_first(split: RealtimeFileSplit) -> bool:
    is_later = False
    for path, _ in split.log_files:
        for block in scan_blocks(Path(split.table_path, path).read_bytes(), path).blocks:
            is_later = is_later or (block.instant_time or "") > split.latest_instant
            if is_later and block.holds_records and (block.instant_time or "") <= split.latest_instant:
                return True
    return False


def _takes_the_text_of_another_record(case: Case, outcome: Outcome) -> bool:
    """Whether text orders records, and all that differs is which version won, of records in rows that are used again.

    Those are of Parquet log blocks; and of Avro ones that are brought into the columns of the query by their ids.
    """
    is_text = any(kind == "string" for _, kind in case.table.ordering)
    return is_text and outcome.kind not in ("read_optimized", "cdc") and _all_differ(case, outcome, _are_versions)


def _leaves_out_what_a_pending_write_began(case: Case, outcome: Outcome) -> bool:
    """Whether all that differs is rows that Hudi lacks, of file groups that begin with the log of a pending write."""
    pending = {entry["requested"] for entry in case.document["instants"] if entry["state"] != "completed"}

    def are_of_pending(case: Case, key: str, rows: Sequence[Image], as_of: str | None) -> bool:
        groups = _history(case, key, as_of).file_groups
        # Of log files without a base file, the first begins the file slice.
        return not rows and all(
            not any(Path(case.path, group.partition_path).glob(f"{group.file_id}_*"))
            and min(_instants_of_logs(case, group), default="") in pending
            for group in groups
        )

    return outcome.kind != "cdc" and bool(pending) and _all_differ(case, outcome, are_of_pending)


def _are_deleted(case: Case, key: str, rows: Sequence[Image], as_of: str | None) -> bool:
    """Whether a delete is among the versions of a record, of which Hudi has one row or none."""
    return len(rows) <= 1 and any(version.delete for version in _versions(case, key, as_of))


def _instants_of_logs(case: Case, group: FileGroupHistory) -> list[str]:
    """The instants in the names of all log files of a file group."""
    paths = Path(case.path, group.partition_path).glob(f".{group.file_id}_*.log.*")
    return [path.name.removeprefix(f".{group.file_id}_").partition(".")[0] for path in paths if path.suffix != ".crc"]


def _all_differ(
    case: Case, outcome: Outcome, explains: Callable[[Case, str, Sequence[Image], str | None], bool]
) -> bool:
    """Whether a reason explains each record of which rows differ: by its key, Hudi's rows of it, and a time.

    A projection, which need not have keys, is explained if it is one of Hudi's snapshot, and that is.
    """
    query = case.document["queries"][outcome.query or 0]
    expected, options = case.answer(outcome.query or 0), query["options"]
    if outcome.kind == "snapshot_columns":
        snapshot = case.snapshot
        if snapshot is None or expected is None or differences(_projected(snapshot, options[COLUMNS]), expected):
            return False
        expected, query = snapshot, case.document["queries"][0]
    if expected is None:
        return False
    actual = rows_of(case.opened(), query["kind"], query["options"])
    as_of = options.get(AS_OF) or options.get(END)
    return all(explains(case, key, rows, as_of) for key, rows in _differing(case, expected, actual).items())


def _has_rows_of_log_compactions(case: Case, outcome: Outcome) -> bool:
    """Whether all that differs is rows of a range that only Hudi has, of the commit times of log compactions."""
    if outcome.query is None or outcome.kind != "incremental":
        return False
    expected, query = case.answer(outcome.query), case.document["queries"][outcome.query]
    actual = rows_of(case.opened(), outcome.kind, query["options"])
    if expected is None or "_hoodie_commit_time" not in expected.column_names:
        return False
    plans = timeline_folder(Path(case.path)).glob("*.logcompaction.requested")
    times = pa.array([plan.name.partition(".")[0] for plan in plans], pa.string())
    is_rewritten = [pc.is_in(rows["_hoodie_commit_time"], times) for rows in (expected, actual)]
    rewritten, ours_rewritten = (
        Counter(map(str, rows.filter(mask).to_pylist()))
        for rows, mask in zip((expected, actual), is_rewritten, strict=True)
    )
    others = [rows.filter(pc.invert(mask)) for rows, mask in zip((expected, actual), is_rewritten, strict=True)]
    return differences(*others) == [] and ours_rewritten < rewritten


def _differing(case: Case, expected: pa.Table, ours: pa.Table) -> Mapping[str, list[Image]]:
    """Hudi's rows of the record keys of which a row differs."""
    name = "_hoodie_record_key" if case.table.has_meta_fields else case.table.key_fields[0]
    rows = [defaultdict[str, list[Image]](list), defaultdict[str, list[Image]](list)]
    for by_key, table in zip(rows, (expected, ours), strict=True):
        for row in table.to_pylist():
            by_key[str(row[name])].append(row)
    return {key: rows[0][key] for key in {*rows[0], *rows[1]} if not _are_equal(rows[0][key], rows[1][key])}


def _are_equal(expected: Sequence[Image], ours: Sequence[Image]) -> bool:
    """Whether rows have equal values; as text, since NaN differs from itself."""
    return sorted(map(str, expected)) == sorted(map(str, ours))


def _are_versions(case: Case, key: str, rows: Sequence[Image], as_of: str | None) -> bool:
    """Whether a record has several versions, some in rows that are used again, and Hudi's rows are some of them."""
    versions = _versions(case, key, as_of)
    blocks = {version.path: Path(case.path, version.path) for version in versions if not version.is_base_row}
    labels = {label for path in blocks.values() for label in labels_of(path)}
    has_parquet = any(label.startswith("parquet_data") for label in labels)
    if len(versions) == 1 or not (has_parquet or case.table.has_column_ids):
        return False
    names = ("_hoodie_commit_time", "_hoodie_commit_seqno")
    if not case.table.has_meta_fields:
        return True
    there = {tuple(row[name] for name in names) for version in versions for row in version.row.to_pylist()}
    return all(tuple(row[name] for name in names) in there for row in rows)


def _leaves_out_archived_commits(case: Case, outcome: Outcome) -> bool:
    """Whether all that Hudi lacks in a range has been archived, and there is nothing that only Hudi has."""
    if outcome.query is None or outcome.kind not in ("incremental", "cdc"):
        return False
    options = case.document["queries"][outcome.query]["options"]
    expected, ours = case.answer(outcome.query), rows_of(case.opened(), outcome.kind, options)
    first = min((instant["requested"] for instant in case.document["instants"]), default="")
    if expected is None or options[BEGIN] >= first:
        return False
    time = "ts_ms" if outcome.kind == "cdc" else "_hoodie_commit_time"
    if time not in ours.column_names:
        return not case.table.has_meta_fields
    tables = (expected, ours)
    is_archived = [pc.less(rows[time], pa.scalar(first)) for rows in tables]
    active = [rows.filter(pc.invert(mask)) for rows, mask in zip(tables, is_archived, strict=True)]
    archived = [
        Counter(map(str, rows.filter(mask).to_pylist())) for rows, mask in zip(tables, is_archived, strict=True)
    ]
    return differences(*active) == [] and archived[0] < archived[1]


def _differs_as_changes_of_0x_do(case: Case, outcome: Outcome) -> bool:
    """Whether the changes of Hudi 0.15 and ours are of the same keys, but for two faults of Hudi.

    It tells late records as updates, too, and of the rows of a replaced file group one again and again. Of images,
    texts and whole numbers are compared: other values may be objects of Java. Records that came late have other images.
    """
    expected = case.answer(outcome.query) if outcome.query is not None else None
    if expected is None or outcome.query is None or outcome.kind != "cdc":
        return False
    options = case.document["queries"][outcome.query]["options"]
    told, ours = _changes(expected), _changes(rows_of(case.opened(), "cdc", options))
    names = [name for name, _ in case.table.ordering]
    late = Counter(key for key, before, after in told if _is_late(names, before, after))
    more = Counter(key for key, _, _ in told) - Counter(key for key, _, _ in ours)
    less = Counter(key for key, _, _ in ours) - Counter(key for key, _, _ in told)
    replacing = {entry["requested"] for entry in case.document["instants"] if entry["action"] == "replacecommit"}
    repeated, lacking = (
        Counter({key: count for key, count in counts.items() if key[0] == "d" and key[1] in replacing})
        for counts in (more, less)
    )
    repeated_in, lacking_in = (Counter(key[1:3] for key in counts.elements()) for counts in (repeated, lacking))
    is_repeated = repeated_in == lacking_in and set(repeated) <= {key for key, _, _ in ours}
    if not is_repeated or less != lacking or not more - repeated <= late:
        return False
    differing = {key[2:] for key in (*more, *less, *late)}
    plain = [name for name, kind in case.table.columns if kind in ("string", "int", "bigint", "boolean")]
    images = [
        Counter(
            (key, *(image.get(name) for image in (before, after) for name in plain))
            for key, before, after in changes
            if key[2:] not in differing
        )
        for changes in (told, ours)
    ]
    return images[0] == images[1]


def _tells_what_changes_nothing(case: Case, outcome: Outcome) -> bool:
    """Whether Hudi's changes are ours, deletes or inserts of records that its own snapshot has, and equal images."""
    expected = case.answer(outcome.query) if outcome.query is not None else None
    snapshot = case.snapshot
    if expected is None or snapshot is None or outcome.query is None or outcome.kind != "cdc":
        return False
    options = case.document["queries"][outcome.query]["options"]
    # Images as text, as equal changes have the same ones.
    told, ours = (
        Counter((key, str(before), str(after)) for key, before, after in _changes(rows))
        for rows in (expected, rows_of(case.opened(), "cdc", options))
    )
    names = ("_hoodie_partition_path", "_hoodie_record_key")
    keys = set(zip(*(snapshot[name].to_pylist() for name in names), strict=True))
    return not ours - told and all(
        before == after if key[0] == "u" else key[2:] in keys for key, before, after in told - ours
    )


def _changes(rows: pa.Table) -> list[tuple[tuple[str, ...], Image, Image]]:
    """What and whom each change is of, with its images."""
    changes = []
    for row in rows.to_pylist():
        before, after = (json.loads(row[side] or "null") or {} for side in ("before", "after"))
        image = after or before
        names = ("_hoodie_partition_path", "_hoodie_record_key")
        changes.append(((row["op"], row["ts_ms"], *(str(image.get(name)) for name in names)), before, after))
    return changes


def _is_late(names: Sequence[str], before: Image, after: Image) -> bool:
    return any(name in before and name in after and after[name] <= before[name] for name in names)


def _is_of(case: Case, *release: int) -> bool:
    return number(case.table.release)[: len(release)] == release


def _lacks_a_slow_writer(case: Case, outcome: Outcome) -> bool:
    """Whether all records that differ have a version of a write beside which a pending compaction was planned."""
    if outcome.query is None or outcome.kind not in ("incremental", "time_travel"):
        return False
    instants = case.document["instants"]
    plans = [entry["requested"] for entry in instants if entry["action"] == "compaction" and not entry["completed"]]
    slow = {
        entry["requested"]
        for entry in instants
        if entry["completed"] and any(entry["requested"] < plan < entry["completed"] for plan in plans)
    }

    def are_of_slow(case: Case, key: str, _: Sequence[Image], as_of: str | None) -> bool:
        return any(version.instant_time in slow for version in _versions(case, key, as_of))

    return bool(slow) and _all_differ(case, outcome, are_of_slow)


def _versions(case: Case, key: str, as_of: str | None) -> list[RecordVersion]:
    """The versions of a record, also those that do not count."""
    groups = _history(case, key, as_of).file_groups
    uncounted = [entry.version for group in groups for entry in group.uncounted]
    return [version for group in groups for version in group.versions] + uncounted


def _history(case: Case, key: str, as_of: str | None) -> RecordHistory:
    """The history of a record up to the end of a query, or to the newest state if that end has been cleaned."""
    table = case.opened()
    try:
        return tools.history_of(table, key, as_of=as_of)
    except InstantNotReadableError:
        return tools.history_of(table, key)


KNOWN = (
    KnownDifference(
        "Hudi 0.15 stops reading logs at a block of a later instant, such as the rollback of a failed write, and so"
        " loses what was committed after it",
        lambda case, outcome: _is_of(case, 0) and _stops_at_a_later_block(case, outcome),
    ),
    KnownDifference(
        "Hudi leaves archived commits out of ranges of tables of version 6",
        lambda case, outcome: case.document["table_version"] == 6 and _leaves_out_archived_commits(case, outcome),
    ),
    KnownDifference(
        "a filter or a projection of Hudi contradicts its own snapshot; ours is what the snapshot has",
        _contradicts_its_snapshot,
    ),
    KnownDifference(
        "Hudi 1.x has null partition columns in slices with logs of a timestamp-based key generator",
        lambda case, outcome: (
            not _is_of(case, 0)
            and case.table.partition in ("timestamp", "custom")
            and _differs_in_nulls_of_partitions(case, outcome)
        ),
    ),
    KnownDifference(
        "Hudi 1.x gives records of a log block the text of the last as their ordering value where it uses a row again",
        lambda case, outcome: not _is_of(case, 0) and _takes_the_text_of_another_record(case, outcome),
    ),
    KnownDifference(
        "the changes of Hudi 1.x tell late deletes, and inserts after them, that its snapshot does not know, and"
        " updates that change nothing",
        lambda case, outcome: not _is_of(case, 0) and _tells_what_changes_nothing(case, outcome),
    ),
    KnownDifference(
        "the changes of Hudi 0.15 have decimals and lists as objects of Java, tell late records as updates, and one"
        " delete of a replaced file group in place of all",
        lambda case, outcome: _is_of(case, 0) and _differs_as_changes_of_0x_do(case, outcome),
    ),
    KnownDifference(
        "Hudi 1.0 compares the sequences of MySQL's Debezium payload as text where one of two versions is a delete",
        lambda case, outcome: (
            _is_of(case, 1, 0)
            and case.table.payload == "debezium.MySqlDebeziumAvroPayload"
            and outcome.kind not in ("read_optimized", "cdc")
            and _all_differ(case, outcome, _are_deleted)
        ),
    ),
    KnownDifference(
        "ranges of Hudi 1.1 have the rows that a log compaction has rewritten, with its commit time",
        lambda case, outcome: _is_of(case, 1, 1) and _has_rows_of_log_compactions(case, outcome),
    ),
    KnownDifference(
        "read-optimized queries of Hudi 0.15 with column ids have null in partition columns that the writer dropped",
        lambda case, outcome: (
            _is_of(case, 0)
            and outcome.kind == "read_optimized"
            and case.table.has_column_ids
            and case.table.drops_partition_columns
            and _differs_in_nulls_of_partitions(case, outcome)
        ),
    ),
    KnownDifference(
        "Hudi 1.x leaves out what has been written to a file group that a pending write began",
        lambda case, outcome: not _is_of(case, 0) and _leaves_out_what_a_pending_write_began(case, outcome),
    ),
    KnownDifference(
        "Hudi leaves the rows of a slow writer out until the compaction that was planned beside it has run",
        _lacks_a_slow_writer,
    ),
)
"""What is documented or Hudi's own contradiction, the first that applies is the reason."""


REFUSED_BY_NAME = (
    KnownDifference(
        "refused by name: first values",
        lambda _, outcome: f"unsupported payload: found {PAYLOADS}FirstValueAvroPayload" in outcome.detail,
    ),
    KnownDifference(
        "refused by name: the reverse order",
        lambda _, outcome: f"unsupported payload: found {PAYLOADS}ReverseOrderHoodieRecordPayload" in outcome.detail,
    ),
    KnownDifference(
        "refused by name: changes while an earlier write is running, which Hudi's would miss",
        lambda _, outcome: (
            outcome.kind == "cdc"
            and outcome.detail.startswith("InstantNotReadableError: ")
            and "is still running while later ones have completed" in outcome.detail
        ),
    ),
    KnownDifference(
        "refused by name: time travel beside a restore that has not completed",
        lambda case, outcome: (
            outcome.kind == "time_travel"
            and "files may have been removed by the restore" in outcome.detail
            and any(
                entry["action"] == "restore" and entry["state"] != "completed" for entry in case.document["instants"]
            )
        ),
    ),
    KnownDifference(
        "refused by name: a range whose archived commits have been cleaned, and which Hudi leaves out",
        lambda case, outcome: (
            case.document["table_version"] == 6
            and outcome.kind in ("incremental", "cdc")
            and (match := _CLEANED.search(outcome.detail)) is not None
            and match[1] < min(entry["requested"] for entry in case.document["instants"])
        ),
    ),
    KnownDifference(
        "late deletes take keys out of Hudi's indexes whose rows stay, which the doctor tells",
        lambda case, outcome: (
            outcome.kind == "doctor"
            and outcome.way in ("record-index", "secondary-index")
            and bool(keys := _lacking_keys(outcome.detail))
            and all(any(version.delete for version in _versions(case, key, None)) for key in keys)
        ),
    ),
    KnownDifference(
        "refused as damaged: a Parquet file that Hudi wrote with more values in some columns than it has rows",
        lambda case, outcome: (
            (match := _TORN.search(outcome.detail)) is not None and _has_more_values_than_rows(case, match[1])
        ),
    ),
    KnownDifference(
        "an upgrade that failed has upgraded the metadata table alone, which the doctor tells",
        lambda case, outcome: (
            (outcome.kind, outcome.way) == ("doctor", "metadata-table")
            and table_version(Path(case.path)) != table_version(Path(case.path, METADATA_FOLDER))
        ),
    ),
)
"""Why it is no fault that Hudi Bridge refuses what Hudi answers, or that the doctor tells an error."""


def _has_more_values_than_rows(case: Case, path: str) -> bool:
    """Whether the footer of a base file says so of its first column, which is flat."""
    groups = pq.read_metadata(Path(case.path, path))
    return any(
        groups.row_group(number).num_rows < groups.row_group(number).column(0).num_values
        for number in range(groups.num_row_groups)
    )


def _lacking_keys(detail: str) -> list[str]:
    """The record keys that an index lacks, as the doctor says; none if it says anything else, or leaves keys out."""
    match = re.search("found ([0-9]+) record keys that the (?:record )?index lacks.*?: (.*), expected", detail)
    keys = re.findall("'([^']*)'", match[2].rpartition("': ")[2]) if match else []
    return keys if match and len(keys) == int(match[1]) else []


def with_reasons(case: Case, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes, known differences with their reasons."""
    return [_with_reason(case, outcome) if outcome.is_fault else outcome for outcome in outcomes]


def _with_reason(case: Case, outcome: Outcome) -> Outcome:
    for known in REFUSED_BY_NAME if outcome.status == ERROR else KNOWN:
        if known.applies(case, outcome):
            return dataclasses.replace(outcome, reason=known.reason)
    return outcome
