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

from hudi_bridge import RealtimeFileSplit
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.tools.trace.record_trace import FileGroupHistory
from hudi_bridge.tools.trace.verdicts import RecordVersion
from tests.golden.generate.questions import AS_OF, BEGIN, COLUMNS, END
from tests.golden.generate.releases import number
from tests.golden.generate.timeline import timeline_folder
from tests.random.checking import (
    DUCKDB,
    Case,
    Outcome,
    behind_later_blocks,
    dataset_of,
    filtered,
    first_commit_of,
    history_of,
    may_hide_late_deletes,
    projected,
    rows_of,
    stored_rows_of,
    type_differences,
    versions_in,
    versions_of,
)
from tests.random.draw import MYSQL
from tests.random.known_changes import (
    Image,
    are_in_reused_rows,
    changes_of,
    differs_as_changes_of_0x_do,
    states_of,
    tells_other_versions,
    tells_what_changes_nothing,
)
from tests.support.compare import differences


@dataclass(frozen=True, slots=True)
class Difference:
    """Hudi's rows and ours, which differ."""

    case: Case
    outcome: Outcome
    expected: pa.Table
    ours: pa.Table

    @property
    def kind(self) -> str:
        """The kind of the question."""
        return self.outcome.kind

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the question; look-ups have those of the snapshot."""
        options: Mapping[str, Any] = self.case.document["queries"][self.outcome.query or 0]["options"]
        return options

    @property
    def end(self) -> str | None:
        """The instant of a time travel, or the end of a range."""
        return self.options.get(AS_OF) or self.options.get(END)

    @property
    def is_of_types(self) -> bool:
        """Whether columns have other types, whatever their values are; DuckDB has types of its own."""
        return self.outcome.way != DUCKDB and bool(type_differences(self.expected.schema, self.ours.schema))


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """Why a difference is no fault of Hudi Bridge, and whether that explains all of it."""

    reason: str
    explains: Callable[[Difference], bool]


def of_its_snapshot(it: Difference) -> Difference:
    """The difference from what a filter or a projection of Hudi's own snapshot would return; else the same."""
    if it.case.snapshot is None or it.kind not in ("snapshot_filtered", "snapshot_columns"):
        return it
    return dataclasses.replace(it, expected=_asked_of(it, it.case.snapshot))


def without_dropped_columns(it: Difference) -> Difference:
    """The difference of the other columns where a writer of 0.x dropped the partition columns; else the same.

    Hudi has nulls there in most rows, and other differences of these rows have reasons of their own.
    """
    names = it.case.table.partition_fields
    is_whole = it.kind not in ("snapshot_filtered", "snapshot_columns", "cdc")
    if not (is_whole and it.case.table.drops_partition_columns and _is_of(it.case, 0)):
        return it
    expected, ours = (
        rows.select([name for name in rows.column_names if name not in names]) for rows in (it.expected, it.ours)
    )
    return dataclasses.replace(it, expected=expected, ours=ours)


def _contradicts_its_snapshot(it: Difference) -> bool:
    """Whether Hudi's answer to a filter or a projection differs from its own snapshot, and ours does not."""
    expected = of_its_snapshot(it)
    return differences(expected.expected, it.ours) == [] and not expected.is_of_types


def _asked_of(it: Difference, rows: pa.Table) -> pa.Table:
    """What a filter or a projection leaves of a snapshot."""
    return (
        filtered(rows, it.options["duckdb"]) if it.kind == "snapshot_filtered" else projected(rows, it.options[COLUMNS])
    )


def _drops_partition_columns(it: Difference) -> bool:
    """Whether Hudi returns nulls for the partition columns, which the writer dropped."""
    case, table = it.case, it.case.table
    if it.kind == "read_optimized":
        is_nulled = _is_of(case, 0) and table.has_column_ids
    else:
        is_nulled = _is_read_as_by_0x(it) and it.kind == "incremental" and not table.is_merge_on_read
    return table.drops_partition_columns and is_nulled


def _is_read_as_by_0x(it: Difference) -> bool:
    is_range_of_6 = it.kind == "incremental" and it.case.document["table_version"] == 6
    return _is_of(it.case, 0) or (_is_of(it.case, 1, 0) and is_range_of_6)


def _has_partition_columns_of_files(it: Difference) -> bool:
    """Whether all that differs are partition columns, which Hudi's read-optimized rows have as the base files do.

    A row writer that drops them may have put the values of other columns there.
    """
    names, own = it.case.table.partition_fields, ["_hoodie_file_name", "_hoodie_record_key"]
    if not _drops_partition_columns(it) or it.kind != "read_optimized" or not {*own} <= {*it.ours.column_names}:
        return False
    rest = [name for name in it.ours.column_names if name not in names]
    paths = {Path(it.case.path, *place) for place in _places(it.expected)}
    stored = [pq.ParquetFile(path).read([*own, *names]) for path in sorted(paths)]
    return (
        differences(it.expected.select(rest), it.ours.select(rest)) == []
        and differences(it.expected.select([*own, *names]), pa.concat_tables(stored, promote_options="default")) == []
    )


def _places(rows: pa.Table) -> set[tuple[str, str]]:
    """The partitions and names of the files of rows."""
    names = ("_hoodie_partition_path", "_hoodie_file_name")
    return set(zip(*(rows[name].to_pylist() for name in names), strict=True))


def _has_nulls_in(it: Difference, names: Sequence[str], *, beside_logs: bool) -> bool:
    """Whether all that differs are some columns of rows, which are null in Hudi's answer alone.

    ``beside_logs`` limits that to records of slices with log files.
    """
    if it.kind == "cdc" or any(name not in it.expected.column_names for name in names):
        return False
    sides = [table.drop_columns(list(names)) for table in (it.expected, it.ours)]
    if differences(*sides):
        return False
    rows = [defaultdict[str, list[tuple[Any, ...]]](list), defaultdict[str, list[tuple[Any, ...]]](list)]
    for by_rest, rest, table in zip(rows, sides, (it.expected, it.ours), strict=True):
        values = zip(*(table[name].to_pylist() for name in names), strict=True)
        for text, row in zip(map(str, rest.to_pylist()), values, strict=True):
            by_rest[text].append(row)
    return all(_are_nulled(theirs, rows[1][text]) for text, theirs in rows[0].items()) and (
        not beside_logs or _all_differ(it, _is_beside_logs)
    )


def _are_nulled(theirs: Iterable[tuple[Any, ...]], ours: Iterable[tuple[Any, ...]]) -> bool:
    """Whether rows are equal but for nulls in theirs."""
    left = list(ours)
    # Rows with the fewest nulls first, as others match more rows.
    for row in sorted(theirs, key=lambda row: row.count(None)):
        match = next((other for other in left if all(a in (None, b) for a, b in zip(row, other, strict=True))), None)
        if match is None:
            return False
        left.remove(match)
    return not left


def _is_beside_logs(it: Difference, key: str, *_: pa.Table) -> bool:
    return any(group.log_files for group in history_of(it.case, key, it.end).file_groups)


def _has_columns_of_logs(it: Difference, key: str, theirs: pa.Table, ours: pa.Table) -> bool:
    """Whether Hudi's rows of a record have partition columns that the writer dropped as a log has them, or as the path.

    ``LogFileIterator`` of 0.15 and 1.0 takes them from log records, and from the path for base files alone. They are
    null where a record lacks them, and what an update has read as null, it writes as null. They are of another
    partition where the index told the writer not to move the record.
    """
    names = [name for name in it.case.table.partition_fields if name in theirs.column_names]
    is_of_logs = it.case.table.drops_partition_columns and _is_read_as_by_0x(it) and it.kind != "read_optimized"
    if not is_of_logs or all(version.is_base_row for version in versions_of(it.case, key, it.end)):
        return False
    stored = stored_rows_of(it.case.opened(), it.kind, it.options)
    told, by_path, by_log = (
        Counter(map(str, rows.select(theirs.column_names).to_pylist())) for rows in (theirs, ours, stored)
    )
    return not differences(theirs.drop_columns(names), ours.drop_columns(names)) and told <= by_path | by_log


def _reads_hfile_blocks_by_name(it: Difference, key: str, theirs: pa.Table, ours: pa.Table) -> bool:
    """Whether Hudi's rows of a record lack columns that an HFile block of it has under other names.

    ``HoodieLogFileReader`` of 0.15 reads HFile blocks with the query's schema, and others with that of the block.
    """
    stored: list[set[str]] = []
    for version in versions_of(it.case, key, it.end):
        if not version.is_base_row:
            blocks = scan_blocks(Path(it.case.path, version.path).read_bytes(), version.path).blocks
            block = next(block for block in blocks if block.offset == version.offset)
            if block.block_type is BlockType.HFILE_DATA and block.schema_text:
                stored.append({field["name"] for field in json.loads(block.schema_text)["fields"]})
    lacking = [name for name in theirs.column_names if any(name not in names for names in stored)]
    rows = dataclasses.replace(it, expected=theirs, ours=ours)
    return bool(lacking) and _has_nulls_in(rows, lacking, beside_logs=False)


def _has_rows_of_a_pending_resize(it: Difference) -> bool:
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
        logs = {group.file_id: _instants_of_logs(it.case, group) for group in groups}
        new = [file_id for file_id, instants in logs.items() if instants and plans.issuperset(instants)]
        rest = theirs.filter(pc.invert(pc.is_in(theirs["_hoodie_file_name"], pa.array(new, pa.string()))))
        return differences(rest, ours) == [] or _has_columns_of_logs(it, key, rest, ours)

    return bool(plans) and _all_differ(it, are_of_both)


def _stops_at_a_later_block(it: Difference) -> bool:
    """Whether all records that differ are in blocks that count behind one of an instant after the query's."""
    dataset = dataset_of(it.case.opened(), it.kind, it.options)
    splits = [split for split in dataset.splits() if isinstance(split, RealtimeFileSplit)]
    lost = {place for split in splits for place in behind_later_blocks(split)}

    def are_lost(it: Difference, key: str, *_: pa.Table) -> bool:
        return any((version.path, version.offset) in lost for version in versions_of(it.case, key, it.end))

    if it.kind != "cdc":
        return bool(lost) and _all_differ(it, are_lost)
    changes = [
        Counter((key, str(before), str(after)) for key, before, after in changes_of(rows)) for rows in _tables(it)
    ]
    keys = {key[3] for key, _, _ in (changes[0] - changes[1]) | (changes[1] - changes[0])}
    return bool(lost) and all(are_lost(it, key) for key in keys)


def _tables(it: Difference) -> tuple[pa.Table, pa.Table]:
    return it.expected, it.ours


def _takes_the_text_of_another_record(it: Difference) -> bool:
    """Whether text orders records, and all that differs is which version won of records in rows used again."""
    if not any(kind == "string" for _, kind in it.case.table.ordering):
        return False
    if it.kind == "cdc":
        begin, end = it.options[BEGIN], it.options[END]
        return tells_other_versions(*_tables(it), lambda *record: states_of(it.case, record, begin, end))
    return it.kind != "read_optimized" and _all_differ(it, _are_versions)


def _leaves_out_what_a_pending_write_began(it: Difference) -> bool:
    """Whether all that differs is rows that Hudi lacks, of file groups that begin with a log of a write without commit.

    It is pending, or was rolled back before the table was upgraded to version 8, which left its log file.
    """
    instants = it.case.document["instants"]
    done = {entry["requested"] for entry in instants if entry["state"] == "completed"}
    start = min(done, default="")

    def are_of_pending(it: Difference, key: str, theirs: pa.Table, ours: pa.Table) -> bool:
        groups = history_of(it.case, key, it.end).file_groups
        # Of log files without a base file, the first begins the file slice.
        return (
            not theirs.num_rows
            and ours.num_rows <= len(groups)
            and all(
                not any(Path(it.case.path, group.partition_path).glob(f"{group.file_id}_*"))
                and (first := min(_instants_of_logs(it.case, group), default="")) not in done
                and first > start
                for group in groups
            )
        )

    return it.kind != "cdc" and _all_differ(it, are_of_pending)


def _are_sequences_as_text(it: Difference, key: str, theirs: pa.Table, ours: pa.Table) -> bool:
    """Whether a delete is among the versions of a record, and another one whose sequence compares otherwise as text."""
    versions = [version for version in versions_of(it.case, key, it.end) if version.ordering]
    sequences = [(str(version.ordering[0]), version.delete is not None) for version in versions]
    return max(theirs.num_rows, ours.num_rows) <= 1 and any(
        (text < other) != (_numbers(text) < _numbers(other))
        for text, is_delete in sequences
        for other, _ in sequences
        if is_delete and text != other
    )


def _numbers(sequence: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall("[0-9]+", sequence)))


def _instants_of_logs(case: Case, group: FileGroupHistory) -> list[str]:
    """The instants in the names of all log files of a file group."""
    paths = Path(case.path, group.partition_path).glob(f".{group.file_id}_*.log.*")
    return [path.name.removeprefix(f".{group.file_id}_").partition(".")[0] for path in paths if path.suffix != ".crc"]


def _all_differ(it: Difference, explains: Callable[[Difference, str, pa.Table, pa.Table], bool]) -> bool:
    """Whether a reason explains each record of which rows differ: by its key, Hudi's rows of it, and ours.

    A filter or a projection is explained if both sides are those of snapshots, and the rows of these are explained.
    """
    if it.kind in ("snapshot_filtered", "snapshot_columns"):
        snapshot, ours = it.case.snapshot, rows_of(it.case.opened(), "snapshot", {})
        if (
            snapshot is None
            or differences(_asked_of(it, snapshot), it.expected)
            or differences(_asked_of(it, ours), it.ours)
        ):
            return False
        it = dataclasses.replace(it, expected=snapshot, ours=ours)
    name = "_hoodie_record_key" if it.case.table.has_meta_fields else it.case.table.key_fields[0]
    if any(name not in rows.column_names for rows in _tables(it)) or {*it.expected.column_names} != {
        *it.ours.column_names
    }:
        return False
    rows = [_by_key(table, name) for table in _tables(it)]
    pairs = {key: tuple(side.get(key, it.expected.slice(0, 0)) for side in rows) for key in {*rows[0], *rows[1]}}
    differing = {key: pair for key, pair in pairs.items() if differences(*pair)}
    return bool(differing) and all(explains(it, key, *pair) for key, pair in differing.items())


def _by_key(rows: pa.Table, name: str) -> dict[str, pa.Table]:
    positions = defaultdict[str, list[int]](list)
    for position, key in enumerate(rows[name].to_pylist()):
        positions[str(key)].append(position)
    return {key: rows.take(numbers) for key, numbers in positions.items()}


def _has_rows_of_log_compactions(it: Difference) -> bool:
    """Whether all that differs is rows of a range that only Hudi has, of the commit times of log compactions."""
    if it.kind != "incremental" or "_hoodie_commit_time" not in it.expected.column_names:
        return False
    plans = timeline_folder(Path(it.case.path)).glob("*.logcompaction.requested")
    times = pa.array([plan.name.partition(".")[0] for plan in plans], pa.string())
    is_rewritten = [pc.is_in(rows["_hoodie_commit_time"], times) for rows in _tables(it)]
    rewritten, ours_rewritten = (
        Counter(map(str, rows.filter(mask).to_pylist())) for rows, mask in zip(_tables(it), is_rewritten, strict=True)
    )
    others = [rows.filter(pc.invert(mask)) for rows, mask in zip(_tables(it), is_rewritten, strict=True)]
    return differences(*others) == [] and ours_rewritten < rewritten


def _are_versions(it: Difference, key: str, theirs: pa.Table, ours: pa.Table) -> bool:
    """Whether a record has several versions, some in rows that are used again, and all rows of it are some of them."""
    groups = history_of(it.case, key, it.end).file_groups
    versions = versions_in(groups)
    if len(versions) == 1 or not are_in_reused_rows(it.case, versions):
        return False
    if max(theirs.num_rows, ours.num_rows) > len(groups):
        return False
    if not (theirs.num_rows and ours.num_rows) and not any(version.delete for version in versions):
        return False
    return all(_is_of_versions(row, versions) for rows in (theirs, ours) for row in rows.to_pylist())


def _is_of_versions(row: Image, versions: Sequence[RecordVersion]) -> bool:
    """Whether a row is of the commit of a version, and has values of versions; partial updates merge those of several.

    Partition columns that the writer dropped are in no version.
    """
    images = [image for version in versions for image in version.row.to_pylist()]
    names = ("_hoodie_commit_time", "_hoodie_commit_seqno")
    is_committed = any(all(row.get(name) == image.get(name) for name in names) for image in images)
    return is_committed and all(
        value is None or any(str(value) == str(image.get(name, value)) for image in images)
        for name, value in row.items()
        if name != "_hoodie_file_name"
    )


def _leaves_out_archived_commits(it: Difference) -> bool:
    """Whether all that Hudi lacks in a range has been archived, and it has nothing but versions that lose to that."""

    def are_hidden(it: Difference, key: str, theirs: pa.Table, ours: pa.Table) -> bool:
        groups = history_of(it.case, key, it.end).file_groups
        logged = [version for version in versions_in(groups) if not version.is_base_row]
        return (
            theirs.num_rows <= ours.num_rows <= len(groups)
            and all(row[time] < first for row in ours.to_pylist())
            and all(_is_of_versions(row, logged) for row in theirs.to_pylist())
        )

    if it.kind not in ("incremental", "cdc"):
        return False
    first = first_commit_of(it.case)
    time = "ts_ms" if it.kind == "cdc" else "_hoodie_commit_time"
    if it.options[BEGIN] >= first:
        return False
    is_archived = [pc.less(rows[time], pa.scalar(first)) for rows in _tables(it)]
    active = [rows.filter(pc.invert(mask)) for rows, mask in zip(_tables(it), is_archived, strict=True)]
    archived = [
        Counter(map(str, rows.filter(mask).to_pylist())) for rows, mask in zip(_tables(it), is_archived, strict=True)
    ]
    is_all = differences(*active) == [] and archived[0] < archived[1]
    return is_all or (it.kind == "incremental" and _all_differ(it, are_hidden))


def _has_base_rows_alone(it: Difference) -> bool:
    """Whether files of a range may be archived or cleaned, and all that differs is what logs change in base files."""

    def is_changed_by_logs(it: Difference, key: str, theirs: pa.Table, ours: pa.Table) -> bool:
        versions = versions_of(it.case, key, it.end)
        # The newest base files are read, whatever the end of the range is.
        base_rows = [version for version in (*versions, *versions_of(it.case, key, None)) if version.is_base_row]
        # Ranges have partition columns as the path spells them, escapes and all.
        stored = [name for name in theirs.column_names if name not in it.case.table.partition_fields]
        return (
            any(not version.is_base_row for version in versions)
            and all(_is_of_versions(row, base_rows) for row in theirs.select(stored).to_pylist())
            and all(_is_of_versions(row, versions) for row in ours.select(stored).to_pylist())
        )

    if it.kind != "incremental":
        return False
    is_cleaned = any(entry["action"] == "clean" for entry in it.case.document["instants"])
    may_be_full_scan = is_cleaned or it.options[BEGIN] < first_commit_of(it.case)
    return may_be_full_scan and _all_differ(it, is_changed_by_logs)


def _lacks_groups_begun_beside_a_plan(it: Difference) -> bool:
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
                any(min(plans) < instant <= it.options[BEGIN] for instant in _instants_of_logs(it.case, group))
                for group in groups
            )
        )
        return is_hidden or _has_columns_of_logs(it, key, theirs, ours)

    is_of_range = it.kind == "incremental" and it.case.document["table_version"] == 6 and not _is_of(it.case, 0)
    return is_of_range and bool(plans) and _all_differ(it, are_of_hidden)


def _tells_what_changes_nothing(it: Difference) -> bool:
    def comes_late(key: str, commit: str) -> bool:
        """Whether the row of a commit has lost to an earlier delete."""
        return any(
            group.winner is not None
            and group.versions[group.winner - 1].delete is not None
            and any(version.instant_time == commit and not version.delete for version in group.versions[group.winner :])
            for group in history_of(it.case, key, it.end).file_groups
        )

    return tells_what_changes_nothing(it.case, *_tables(it), comes_late)


def _is_of(case: Case, *release: int) -> bool:
    return number(case.table.release)[: len(release)] == release


def _are_fewer(_: Difference, __: str, theirs: pa.Table, ours: pa.Table) -> bool:
    return ours.num_rows < theirs.num_rows


def _lacks_a_slow_writer(it: Difference) -> bool:
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

    return bool(slow) and it.kind in ("incremental", "time_travel") and _all_differ(it, are_of_slow)


def _is_a_partial_update(it: Difference, key: str, theirs: pa.Table, _: pa.Table) -> bool:
    """Whether only Hudi lacks a record that has a partial update (``RecordContext.isDeleteRecord`` of 1.x)."""
    return not theirs.num_rows and any(version.is_partial for version in versions_of(it.case, key, it.end))


CONTRADICTION = KnownDifference(
    "a filter or a projection of Hudi contradicts its own snapshot; ours is what the snapshot has",
    _contradicts_its_snapshot,
)
KNOWN = (
    KnownDifference(
        "Hudi 0.15 stops reading logs at a block of a later instant, such as the rollback of a failed write, and so"
        " loses what was committed after it",
        lambda it: _is_of(it.case, 0) and _stops_at_a_later_block(it),
    ),
    KnownDifference(
        "Hudi leaves archived commits out of ranges of tables of version 6",
        lambda it: it.case.document["table_version"] == 6 and _leaves_out_archived_commits(it),
    ),
    CONTRADICTION,
    KnownDifference(
        "Hudi 1.x has null partition columns in slices with logs of a timestamp-based key generator",
        lambda it: (
            not _is_of(it.case, 0)
            and it.case.table.partition in ("timestamp", "custom")
            and _has_nulls_in(it, it.case.table.partition_fields[-1:], beside_logs=True)
        ),
    ),
    KnownDifference(
        "Hudi 1.x gives records of a log block the text of the last as their ordering value where it uses a row again",
        lambda it: not _is_of(it.case, 0) and _takes_the_text_of_another_record(it),
    ),
    KnownDifference(
        "the changes of Hudi 1.x tell late deletes, and inserts after them, that its snapshot does not know, and"
        " updates that change nothing",
        lambda it: not _is_of(it.case, 0) and it.kind == "cdc" and _tells_what_changes_nothing(it),
    ),
    KnownDifference(
        "the changes of Hudi 0.15 have decimals and lists as objects of Java, tell late records as updates, also where"
        " they are the images before others, and one delete of a replaced file group in place of all",
        lambda it: _is_of(it.case, 0) and it.kind == "cdc" and differs_as_changes_of_0x_do(it.case, *_tables(it)),
    ),
    KnownDifference(
        "Hudi 1.0 compares the sequences of MySQL's Debezium payload as text where one of two versions is a delete",
        lambda it: (
            _is_of(it.case, 1, 0)
            and it.case.table.payload == MYSQL
            and it.kind not in ("read_optimized", "cdc")
            and _all_differ(it, _are_sequences_as_text)
        ),
    ),
    KnownDifference(
        "the full scan of Hudi 1.0 for a range of which commits are archived, or files cleaned, reads base files alone",
        lambda it: _is_of(it.case, 1, 0) and _has_base_rows_alone(it),
    ),
    KnownDifference(
        "ranges of Hudi 1.1 have the rows that a log compaction has rewritten, with its commit time",
        lambda it: _is_of(it.case, 1, 1) and _has_rows_of_log_compactions(it),
    ),
    KnownDifference(
        "partition columns that the writer dropped are null in Hudi's read-optimized queries of tables of 0.x with"
        " column ids, and in its ranges of copy-on-write tables of 0.x, and of version 6 by 1.0",
        lambda it: (
            _drops_partition_columns(it) and _has_nulls_in(it, it.case.table.partition_fields, beside_logs=False)
        ),
    ),
    KnownDifference(
        "partition columns that the writer dropped are as in the base files in Hudi's read-optimized queries of tables"
        " of 0.x with column ids",
        _has_partition_columns_of_files,
    ),
    KnownDifference(
        "partition columns that the writer dropped are as the log has them in Hudi's rows that log records are of: in"
        " tables of 0.x, and in ranges of version 6 by 1.0",
        lambda it: it.kind != "cdc" and _all_differ(it, _has_columns_of_logs),
    ),
    KnownDifference(
        "Hudi 1.x leaves out of ranges of tables of version 6 the file groups that begin between the plan of a pending"
        " compaction and the range",
        _lacks_groups_begun_beside_a_plan,
    ),
    KnownDifference(
        "Hudi 0.15 finds the columns of HFile blocks by name where columns have ids, and loses those of other names",
        lambda it: (
            _is_of(it.case, 0)
            and it.case.table.has_column_ids
            and it.kind not in ("cdc", "read_optimized")
            and _all_differ(it, _reads_hfile_blocks_by_name)
        ),
    ),
    KnownDifference(
        "ranges of Hudi 0.15 have rows twice that follow the plan of a pending resize of buckets: from the file groups"
        " of before, and from those of after",
        lambda it: _is_of(it.case, 0) and _has_rows_of_a_pending_resize(it),
    ),
    KnownDifference(
        "Hudi 1.x leaves out what has been written to a file group that a pending write began",
        lambda it: not _is_of(it.case, 0) and _leaves_out_what_a_pending_write_began(it),
    ),
    KnownDifference(
        "Hudi looks for `_hoodie_is_deleted` in partial updates where full records have it, and takes them for deletes",
        lambda it: it.case.table.has_deletes and _all_differ(it, _is_a_partial_update),
    ),
    KnownDifference(
        "look-ups by a record index lack the rows of which a delete came late: Hudi has taken their keys out of it",
        lambda it: it.kind == "look-up" and may_hide_late_deletes(it.case) and _all_differ(it, _are_fewer),
    ),
    KnownDifference(
        "Hudi leaves the rows of a slow writer out until the compaction that was planned beside it has run",
        _lacks_a_slow_writer,
    ),
)
"""What is documented or Hudi's own contradiction, the first that explains all of a difference is the reason."""
