"""Differences from Hudi that are no faults: each with the reason, and how it is recognized.

What users have to know of them is in docs/hudi-differences.md. A difference that is not in this list fails the run: it
becomes a golden table once it is mended, or an entry here if Hudi is wrong.
"""

import dataclasses
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge import RealtimeFileSplit
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.scan import scan_blocks
from tests.golden.generate.questions import BEGIN, END
from tests.random.checking import (
    dataset_of,
    history_of,
    may_hide_late_deletes,
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
    is_read_as_by_0x,
    of_its_snapshot,
    tables_of,
)
from tests.random.draw import MYSQL
from tests.random.known_changes import (
    are_in_reused_rows,
    changes_of,
    differs_as_changes_of_0x_do,
    states_of,
    tells_other_versions,
    tells_what_changes_nothing,
)
from tests.random.known_ranges import (
    has_base_rows_alone,
    has_rows_of_a_pending_resize,
    has_rows_of_log_compactions,
    lacks_a_slow_writer,
    lacks_groups_begun_beside_a_plan,
    leaves_out_archived_commits,
)
from tests.support.compare import differences


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """Why a difference is no fault of Hudi Bridge, and whether that explains all of it."""

    reason: str
    explains: Callable[[Difference], bool]


def _contradicts_its_snapshot(it: Difference) -> bool:
    """Whether Hudi's answer to a filter or a projection differs from its own snapshot, and ours does not."""
    expected = of_its_snapshot(it)
    return differences(expected.expected, it.ours) == [] and not expected.is_of_types


def _drops_partition_columns(it: Difference) -> bool:
    """Whether Hudi returns nulls for the partition columns, which the writer dropped."""
    case, table = it.case, it.case.table
    if it.kind == "read_optimized":
        is_nulled = is_of(case, 0) and table.has_column_ids
    else:
        is_nulled = is_read_as_by_0x(it) and it.kind == "incremental" and not table.is_merge_on_read
    return table.drops_partition_columns and is_nulled


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
        not beside_logs or all_differ(it, _is_beside_logs)
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


def _stops_at_a_later_block(it: Difference) -> bool:
    """Whether all records that differ are in blocks that count behind one of an instant after the query's."""
    dataset = dataset_of(it.case.opened(), it.kind, it.options)
    splits = [split for split in dataset.splits() if isinstance(split, RealtimeFileSplit)]
    lost = {place for split in splits for place in _behind_later_blocks(split)}

    def are_lost(it: Difference, key: str, *_: pa.Table) -> bool:
        return any((version.path, version.offset) in lost for version in versions_of(it.case, key, it.end))

    if it.kind != "cdc":
        return bool(lost) and all_differ(it, are_lost)
    changes = [
        Counter((key, str(before), str(after)) for key, before, after in changes_of(rows)) for rows in tables_of(it)
    ]
    keys = {key[3] for key, _, _ in (changes[0] - changes[1]) | (changes[1] - changes[0])}
    return bool(lost) and all(are_lost(it, key) for key in keys)


def _behind_later_blocks(split: RealtimeFileSplit) -> Iterator[tuple[str, int]]:
    """The files and offsets of the blocks of a split that count, behind one that is later than the query."""
    is_later = False
    for path, _ in split.log_files:
        for block in scan_blocks(Path(split.table_path, path).read_bytes(), path).blocks:
            is_later = is_later or (block.instant_time or "") > split.latest_instant
            if is_later and block.holds_records and (block.instant_time or "") <= split.latest_instant:
                yield path, block.offset


def _takes_the_text_of_another_record(it: Difference) -> bool:
    """Whether text orders records, and all that differs is which version won of records in rows used again."""
    if not any(kind == "string" for _, kind in it.case.table.ordering):
        return False
    if it.kind == "cdc":
        begin, end = it.options[BEGIN], it.options[END]
        return tells_other_versions(*tables_of(it), lambda *record: states_of(it.case, record, begin, end))
    return it.kind != "read_optimized" and all_differ(it, _are_versions)


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
                and (first := min(instants_of_logs(it.case, group), default="")) not in done
                and first > start
                for group in groups
            )
        )

    return it.kind != "cdc" and all_differ(it, are_of_pending)


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
    return all(is_of_versions(row, versions) for rows in (theirs, ours) for row in rows.to_pylist())


def _tells_what_changes_nothing(it: Difference) -> bool:
    def comes_late(key: str, commit: str) -> bool:
        """Whether the row of a commit has lost to an earlier delete."""
        return any(
            group.winner is not None
            and group.versions[group.winner - 1].delete is not None
            and any(version.instant_time == commit and not version.delete for version in group.versions[group.winner :])
            for group in history_of(it.case, key, it.end).file_groups
        )

    return tells_what_changes_nothing(it.case, *tables_of(it), comes_late)


def _are_fewer(_: Difference, __: str, theirs: pa.Table, ours: pa.Table) -> bool:
    return ours.num_rows < theirs.num_rows


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
        lambda it: is_of(it.case, 0) and _stops_at_a_later_block(it),
    ),
    KnownDifference(
        "Hudi leaves archived commits out of ranges of tables of version 6",
        lambda it: it.case.document["table_version"] == 6 and leaves_out_archived_commits(it),
    ),
    CONTRADICTION,
    KnownDifference(
        "Hudi 1.x has null partition columns in slices with logs of a timestamp-based key generator",
        lambda it: (
            not is_of(it.case, 0)
            and it.case.table.partition in ("timestamp", "custom")
            and _has_nulls_in(it, it.case.table.partition_fields[-1:], beside_logs=True)
        ),
    ),
    KnownDifference(
        "Hudi 1.x gives records of a log block the text of the last as their ordering value where it uses a row again",
        lambda it: not is_of(it.case, 0) and _takes_the_text_of_another_record(it),
    ),
    KnownDifference(
        "the changes of Hudi 1.x tell late deletes, and inserts after them, that its snapshot does not know, and"
        " updates that change nothing",
        lambda it: not is_of(it.case, 0) and it.kind == "cdc" and _tells_what_changes_nothing(it),
    ),
    KnownDifference(
        "the changes of Hudi 0.15 have decimals and lists as objects of Java, tell late records as updates, also where"
        " they are the images before others, and one delete of a replaced file group in place of all",
        lambda it: is_of(it.case, 0) and it.kind == "cdc" and differs_as_changes_of_0x_do(it.case, *tables_of(it)),
    ),
    KnownDifference(
        "Hudi 1.0 compares the sequences of MySQL's Debezium payload as text where one of two versions is a delete",
        lambda it: (
            is_of(it.case, 1, 0)
            and it.case.table.payload == MYSQL
            and it.kind not in ("read_optimized", "cdc")
            and all_differ(it, _are_sequences_as_text)
        ),
    ),
    KnownDifference(
        "the full scan of Hudi 1.0 for a range of which commits are archived, or files cleaned, reads base files alone",
        lambda it: is_of(it.case, 1, 0) and has_base_rows_alone(it),
    ),
    KnownDifference(
        "ranges of Hudi 1.1 have the rows that a log compaction has rewritten, with its commit time",
        lambda it: is_of(it.case, 1, 1) and has_rows_of_log_compactions(it),
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
        lambda it: it.kind != "cdc" and all_differ(it, has_columns_of_logs),
    ),
    KnownDifference(
        "Hudi 1.x leaves out of ranges of tables of version 6 the file groups that begin between the plan of a pending"
        " compaction and the range",
        lacks_groups_begun_beside_a_plan,
    ),
    KnownDifference(
        "Hudi 0.15 finds the columns of HFile blocks by name where columns have ids, and loses those of other names",
        lambda it: (
            is_of(it.case, 0)
            and it.case.table.has_column_ids
            and it.kind not in ("cdc", "read_optimized")
            and all_differ(it, _reads_hfile_blocks_by_name)
        ),
    ),
    KnownDifference(
        "ranges of Hudi 0.15 have rows twice that follow the plan of a pending resize of buckets: from the file groups"
        " of before, and from those of after",
        lambda it: is_of(it.case, 0) and has_rows_of_a_pending_resize(it),
    ),
    KnownDifference(
        "Hudi 1.x leaves out what has been written to a file group that a pending write began",
        lambda it: not is_of(it.case, 0) and _leaves_out_what_a_pending_write_began(it),
    ),
    KnownDifference(
        "Hudi looks for `_hoodie_is_deleted` in partial updates where full records have it, and takes them for deletes",
        lambda it: it.case.table.has_deletes and all_differ(it, _is_a_partial_update),
    ),
    KnownDifference(
        "look-ups by a record index lack the rows of which a delete came late: Hudi has taken their keys out of it",
        lambda it: it.kind == "look-up" and may_hide_late_deletes(it.case) and all_differ(it, _are_fewer),
    ),
    KnownDifference(
        "Hudi leaves the rows of a slow writer out until the compaction that was planned beside it has run",
        lacks_a_slow_writer,
    ),
)
"""What is documented or Hudi's own contradiction, the first that explains all of a difference is the reason."""
