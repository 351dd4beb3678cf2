"""A difference from Hudi, and what rules ask of it: its release, its rows by record key, the versions of records."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_bridge.tools.trace.record_trace import FileGroupHistory
from hudi_bridge.tools.trace.verdicts import RecordVersion
from tests.golden.generate.questions import AS_OF, COLUMNS, END
from tests.golden.generate.releases import number
from tests.random.checking import (
    DUCKDB,
    Case,
    Outcome,
    filtered,
    projected,
    rows_of,
    stored_rows_of,
    type_differences,
    versions_of,
)
from tests.random.known_changes import Image
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


def of_its_snapshot(it: Difference) -> Difference:
    """The difference from what a filter or a projection of Hudi's own snapshot would return; else the same."""
    if it.case.snapshot is None or it.kind not in ("snapshot_filtered", "snapshot_columns"):
        return it
    return dataclasses.replace(it, expected=asked_of(it, it.case.snapshot))


def without_dropped_columns(it: Difference) -> Difference:
    """The difference of the other columns where a writer of 0.x dropped the partition columns; else the same.

    Hudi has nulls there in most rows, and other differences of these rows have reasons of their own.
    """
    names = it.case.table.partition_fields
    is_whole = it.kind not in ("snapshot_filtered", "snapshot_columns", "cdc")
    if not (is_whole and it.case.table.drops_partition_columns and is_of(it.case, 0)):
        return it
    expected, ours = (
        rows.select([name for name in rows.column_names if name not in names]) for rows in (it.expected, it.ours)
    )
    return dataclasses.replace(it, expected=expected, ours=ours)


def asked_of(it: Difference, rows: pa.Table) -> pa.Table:
    """What a filter or a projection leaves of a snapshot."""
    return (
        filtered(rows, it.options["duckdb"]) if it.kind == "snapshot_filtered" else projected(rows, it.options[COLUMNS])
    )


def tables_of(it: Difference) -> tuple[pa.Table, pa.Table]:
    """Hudi's rows and ours."""
    return it.expected, it.ours


def instants_of_logs(case: Case, group: FileGroupHistory) -> list[str]:
    """The instants in the names of all log files of a file group."""
    paths = Path(case.path, group.partition_path).glob(f".{group.file_id}_*.log.*")
    return [path.name.removeprefix(f".{group.file_id}_").partition(".")[0] for path in paths if path.suffix != ".crc"]


def all_differ(it: Difference, explains: Callable[[Difference, str, pa.Table, pa.Table], bool]) -> bool:
    """Whether a reason explains each record of which rows differ: by its key, Hudi's rows of it, and ours.

    A filter or a projection is explained if both sides are those of snapshots, and the rows of these are explained.
    """
    if it.kind in ("snapshot_filtered", "snapshot_columns"):
        snapshot, ours = it.case.snapshot, rows_of(it.case.opened(), "snapshot", {})
        if (
            snapshot is None
            or differences(asked_of(it, snapshot), it.expected)
            or differences(asked_of(it, ours), it.ours)
        ):
            return False
        it = dataclasses.replace(it, expected=snapshot, ours=ours)
    name = "_hoodie_record_key" if it.case.table.has_meta_fields else it.case.table.key_fields[0]
    if any(name not in rows.column_names for rows in tables_of(it)) or {*it.expected.column_names} != {
        *it.ours.column_names
    }:
        return False
    rows = [_by_key(table, name) for table in tables_of(it)]
    pairs = {key: tuple(side.get(key, it.expected.slice(0, 0)) for side in rows) for key in {*rows[0], *rows[1]}}
    differing = {key: pair for key, pair in pairs.items() if differences(*pair)}
    return bool(differing) and all(explains(it, key, *pair) for key, pair in differing.items())


def _by_key(rows: pa.Table, name: str) -> dict[str, pa.Table]:
    positions = defaultdict[str, list[int]](list)
    for position, key in enumerate(rows[name].to_pylist()):
        positions[str(key)].append(position)
    return {key: rows.take(numbers) for key, numbers in positions.items()}


def is_of_versions(row: Image, versions: Sequence[RecordVersion]) -> bool:
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


def is_of(case: Case, *release: int) -> bool:
    """Whether a release wrote the table, by its first numbers."""
    return number(case.table.release)[: len(release)] == release


def is_read_as_by_0x(it: Difference) -> bool:
    """Whether Hudi's answer comes from the classes of 0.x, which 1.0 has for ranges of tables of version 6."""
    is_range_of_6 = it.kind == "incremental" and it.case.document["table_version"] == 6
    return is_of(it.case, 0) or (is_of(it.case, 1, 0) and is_range_of_6)


def has_columns_of_logs(it: Difference, key: str, theirs: pa.Table, ours: pa.Table) -> bool:
    """Whether Hudi's rows of a record have partition columns that the writer dropped as a log has them, or as the path.

    ``LogFileIterator`` of 0.15 and 1.0 takes them from log records, and from the path for base files alone. They are
    null where a record lacks them, and what an update has read as null, it writes as null. They are of another
    partition where the index told the writer not to move the record.
    """
    names = [name for name in it.case.table.partition_fields if name in theirs.column_names]
    is_of_logs = it.case.table.drops_partition_columns and is_read_as_by_0x(it) and it.kind != "read_optimized"
    if not is_of_logs or all(version.is_base_row for version in versions_of(it.case, key, it.end)):
        return False
    stored = stored_rows_of(it.case.opened(), it.kind, it.options)
    told, by_path, by_log = (
        Counter(map(str, rows.select(theirs.column_names).to_pylist())) for rows in (theirs, ours, stored)
    )
    return not differences(theirs.drop_columns(names), ours.drop_columns(names)) and told <= by_path | by_log
