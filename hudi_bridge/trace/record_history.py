"""The history of one record key: its versions, which of them win and why, and the resulting row."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hudi_bridge.display import counted, html_of_properties, html_of_rows
from hudi_bridge.trace.base_search import BaseCheck
from hudi_bridge.trace.verdicts import Verdict
from hudi_bridge.trace.versions import RecordVersion, UncountedVersion, UnreadablePlace, ordering_text

_HISTORY_COLUMNS: Mapping[str, Any] = {
    "record_key": pa.string(),
    "partition_path": pa.string(),
    "file_id": pa.string(),
    "number": pa.int32(),
    "kind": pa.string(),
    "instant_time": pa.string(),
    "commit_time": pa.string(),
    "ordering": pa.string(),
    "delete": pa.string(),
    "counts": pa.bool_(),
    "wins": pa.bool_(),
    "verdict": pa.string(),
    "path": pa.string(),
    "block_number": pa.int32(),
    "offset": pa.int64(),
    "absent": pa.list_(pa.string()),
}
_ROW = "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroupHistory:
    """The history of a record key in one file group.

    ``versions`` are those that count, numbered from 1: rows of the base file, then log versions in merge order.
    ``verdicts`` are the comparisons of two of them, in merge order. ``winner`` is the number of the version that
    remains, which may be a delete; None without versions. ``sources`` holds for each column of the resulting row the
    number of the version from which its value comes. ``result`` has the rows of the key that a snapshot returns: at
    most one, unless the base file has several. Of these only one is merged with the log, or, where log blocks tell
    positions, each with the log versions of its own; ``winner`` and ``sources`` are those of the first.

    ``uncounted`` are versions that a snapshot does not see. ``unreadable`` are damaged places in log files that may
    have had the key. ``base_check`` is how far the base file was read, ``log_files`` the number of log files that were
    read.

    Part of a ``RecordHistory``.
    """

    partition_path: str
    file_id: str
    base_check: BaseCheck
    log_files: int
    versions: tuple[RecordVersion, ...]
    verdicts: tuple[Verdict, ...]
    winner: int | None
    sources: tuple[tuple[str, int], ...]
    result: pa.Table
    uncounted: tuple[UncountedVersion, ...]
    unreadable: tuple[UnreadablePlace, ...]

    @property
    def holds_key(self) -> bool:
        """Whether any version was found, including versions that do not count."""
        return bool(self.versions or self.uncounted)

    def verdict_texts(self, number: int) -> tuple[str, ...]:
        """The results of comparing a version, by number, with earlier ones; empty for the first version."""
        numbers = {one for verdict in self.verdicts for one in (verdict.winner, verdict.loser)}
        if self.versions[number - 1].is_base_row:
            is_left_out = bool(self.verdicts) and number not in numbers
            return ("no log version meets this row",) if is_left_out else ()
        own = (verdict for verdict in self.verdicts if max(verdict.winner, verdict.loser) == number)
        return tuple(_verdict_text(number, verdict) for verdict in own)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RecordHistory:
    """The history of a record key as of an instant.

    ``searched_file_groups`` are ordered by partition and file id. ``rule`` names the table's merge rule.

    Made by ``HudiTable.history_of``.
    """

    record_key: str
    instant: str
    rule: str
    schema: pa.Schema
    searched_file_groups: tuple[FileGroupHistory, ...]

    def __repr__(self) -> str:
        groups = self.file_groups
        versions = sum(len(group.versions) + len(group.uncounted) for group in groups)
        found = f"{counted(versions, 'version')} in {counted(len(groups), 'file group')}"
        left = counted(self.result.num_rows, "row")
        return f"<RecordHistory {self.record_key!r} as of {self.instant}: {found}, {left} left>"

    def _repr_html_(self) -> str:
        properties = (("record key", self.record_key), ("instant", self.instant), ("rule", self.rule))
        shown = ("partition_path", "number", "kind", "instant_time", "ordering", "delete", "wins", "verdict", "path")
        rows = [[row[name] for name in shown] for row in self.to_table().to_pylist()]
        return html_of_properties("RecordHistory", properties) + html_of_rows("Versions", shown, rows)

    @property
    def file_groups(self) -> tuple[FileGroupHistory, ...]:
        """The file groups that have the key; several if it is in several partitions."""
        return tuple(group for group in self.searched_file_groups if group.holds_key)

    @property
    def result(self) -> pa.Table:
        """The rows of the key that a snapshot returns."""
        return pa.concat_tables([self.schema.empty_table(), *(group.result for group in self.searched_file_groups)])

    def to_table(self) -> pa.Table:
        """One row per version; in each file group, versions that do not count come last.

        ``number`` is null for versions that do not count. ``verdict`` is the result of comparing a version with earlier
        ones, or the reason why it does not count. ``wins`` marks the version that remains. ``row`` has the values of a
        version, null in a delete block; ``absent`` names the columns that it does not carry, which are null there.
        """
        found = [row for group in self.file_groups for row in _version_rows(group)]
        facts = pa.Table.from_pylist([{"record_key": self.record_key, **row} for row, _ in found], history_schema(None))
        rows: Any = [_image(version, self.schema) for _, version in found]
        kind: Any = pa.struct(list(self.schema))
        images = pa.chunked_array(rows, kind)
        return facts.append_column(history_schema(self.schema).field(_ROW), images)


def history_schema(columns: pa.Schema | None) -> pa.Schema:
    """The columns of a history as a table; with ``columns``, those of the record, also ``row``."""
    facts = [pa.field(name, kind) for name, kind in _HISTORY_COLUMNS.items()]
    return pa.schema(facts if columns is None else [*facts, pa.field(_ROW, pa.struct(list(columns)))])


def _image(version: RecordVersion, schema: pa.Schema) -> "pa.StructArray":
    """The values of a version as a struct of a record's columns."""
    fields = list(schema)
    if not version.row.num_rows:
        return pa.nulls(1, pa.struct(fields))
    carried: Any = {name: version.row.column(name).combine_chunks() for name in version.carried}
    columns = [carried[field.name] if field.name in carried else pa.nulls(1, field.type) for field in fields]
    columns = [one.chunk(0) if isinstance(one, pa.ChunkedArray) else one for one in columns]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _verdict_text(number: int, verdict: Verdict) -> str:
    wins = verdict.winner == number
    other = verdict.loser if wins else verdict.winner
    filled = ""
    if verdict.filled:
        # The filled columns of the winner come from the loser, or from versions that filled the loser.
        columns = ", ".join(verdict.filled)
        filled = f"; {columns} from {other}" if wins else f"; but {columns} from it"
    return f"{'replaces' if wins else 'loses to'} {other}: {verdict.reason}{filled}"


def _version_rows(group: FileGroupHistory) -> Iterator[tuple[Mapping[str, Any], RecordVersion]]:
    for number, version in enumerate(group.versions, start=1):
        wins = number == group.winner
        verdict = "; ".join(group.verdict_texts(number))
        columns = {"number": number, "counts": True, "wins": wins, "verdict": verdict}
        yield _version_row(group, version) | columns, version
    for uncounted in group.uncounted:
        columns = _version_row(group, uncounted.version)
        columns |= {"number": None, "counts": False, "wins": False, "verdict": uncounted.reason}
        yield columns, uncounted.version


def _version_row(group: FileGroupHistory, version: RecordVersion) -> dict[str, Any]:
    return {
        "partition_path": group.partition_path,
        "file_id": group.file_id,
        "kind": version.kind,
        "instant_time": version.instant_time,
        "commit_time": version.commit_time,
        "ordering": ordering_text(version.ordering) if version.ordering else None,
        "delete": version.delete,
        "path": version.path,
        "block_number": version.block_number,
        "offset": version.offset,
        "absent": _absent(group, version) if version.row.num_rows else None,
    }


def _absent(group: FileGroupHistory, version: RecordVersion) -> list[str]:
    carried = frozenset(version.carried)
    return [name for name in group.result.schema.names if name not in carried]
