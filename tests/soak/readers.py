"""The readers of a soak: each reads a table again and again, in its own way."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyiceberg.catalog.rest import RestCatalog
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hudi_bridge import DataFileGoneError, HudiDataset, HudiTable, InstantNotReadableError
from hudi_bridge.connectors.duckdb import Attached, attach
from hudi_bridge.connectors.spark import cause_of, read
from tests.soak.model import COLUMNS, Row, State

GONE = (DataFileGoneError, InstantNotReadableError)
"""What a reader may be told if files are removed while it reads."""
MOST_HELD_COMMITS = 12
"""How many commits later a query is read at most; the cleaner keeps the files of fewer."""
_STILL_RUNNING = "still running"


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a table as of the ``instant`` that the reader has named, or as of one from ``since`` on up to it.

    With ``of_present``, rows that were deleted meanwhile may be among them.
    """

    reader: str
    table: str
    instant: str
    rows: Sequence[Row]
    of_present: bool = False
    replanned: bool = False
    since: str | None = None

    def equals(self, state: State) -> bool:
        """Whether these are the rows of a state."""
        actual = {row[0]: row for row in self.rows}
        if len(actual) != len(self.rows):
            return False
        if self.of_present:
            return all(actual.get(key) == row for key, row in state.items())
        return actual == state


class Reader(Protocol):
    """One way of reading."""

    @property
    def name(self) -> str:
        """How the reader is called in the summary."""

    def ask(self, folder: Path) -> Answer:
        """Read a table; raises one of ``GONE`` if its files were removed meanwhile."""


def rows_of(rows: pa.Table, key: str = "id") -> list[Row]:
    """The rows of an Arrow table, which may have more columns; ``key`` is the column of ids."""
    columns: list[list[Any]] = [rows.column(name).to_pylist() for name in (key, *COLUMNS[1:])]
    return list(zip(*columns, strict=True))


@dataclass(frozen=True, slots=True)
class ArrowReader:
    """Reads the newest snapshot at once."""

    name: str = "Arrow"

    def ask(self, folder: Path) -> Answer:
        dataset = HudiTable.open(folder).snapshot()
        return Answer(self.name, folder.name, dataset.instant, rows_of(dataset.to_table()))


@dataclass(frozen=True, slots=True)
class _Held:
    """A query that is read when so many more commits have been seen."""

    dataset: HudiDataset
    seen: str
    commits: int


@dataclass(slots=True)
class HoldingReader:
    """Opens tables, plans half of the reads, and reads some commits later, when files may be gone."""

    name: str
    on_files_gone: str
    chance: random.Random
    _held: dict[str, _Held] = field(default_factory=dict)

    def ask(self, folder: Path) -> Answer:
        newest = self._opened(folder)
        held = self._held.get(folder.name)
        if held is None:
            commits = self.chance.randrange(MOST_HELD_COMMITS)
            self._held[folder.name] = _Held(newest, newest.instant, commits)
            newest = self._opened(folder)
        elif held.seen != newest.instant:
            self._held[folder.name] = replace(held, seen=newest.instant, commits=held.commits - 1)
        elif held.commits <= 0:
            del self._held[folder.name]
            return self._read(folder, held.dataset)
        return self._read(folder, newest)

    def _opened(self, folder: Path) -> HudiDataset:
        dataset = HudiTable.open(folder).snapshot(on_files_gone=self.on_files_gone)
        if self.chance.random() < 0.5:
            list(dataset.splits())
        return dataset

    def _read(self, folder: Path, dataset: HudiDataset) -> Answer:
        planned = dataset.instant
        rows = rows_of(dataset.to_table())
        return Answer(self.name, folder.name, dataset.instant, rows, replanned=dataset.instant != planned)


class DuckDBReader:
    """Reads views that are attached once."""

    name = "DuckDB views"

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        self._attached: dict[str, Attached] = {}

    def ask(self, folder: Path) -> Answer:
        attached = self._attached.get(folder.name)
        if attached is None:
            attached = self._attached[folder.name] = attach(self._connection, folder, folder.name)
        else:
            attached.refresh()
        try:
            rows = self._connection.execute(f"SELECT {', '.join(COLUMNS)} FROM {folder.name}").fetchall()
        except duckdb.Error as error:
            cause = attached.cause_of(error)
            raise cause if isinstance(cause, GONE) else error from error
        return Answer(self.name, folder.name, attached.instant, rows)


@dataclass(frozen=True, slots=True)
class SparkReader:
    """Reads by PySpark the newest instant, which it does not name."""

    spark: SparkSession
    name: str = "PySpark"

    def ask(self, folder: Path) -> Answer:
        since = HudiTable.open(folder).latest_instant
        try:
            rows = rows_of(read(self.spark, str(folder)).toArrow())
        except (PySparkException, Py4JJavaError) as error:
            cause = cause_of(error)
            raise cause if isinstance(cause, GONE) else error from error
        instant = HudiTable.open(folder).latest_instant
        assert instant is not None
        return Answer(self.name, folder.name, instant, rows, since=since)


@dataclass(frozen=True, slots=True)
class IcebergReader:
    """Reads by PyIceberg what the catalog service shows."""

    url: str
    name: str = "Iceberg service"

    def ask(self, folder: Path) -> Answer:
        table = RestCatalog("soak", uri=self.url).load_table(("default", folder.name))
        snapshot = table.current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        instant = str(snapshot.summary["hudi.instant"])
        try:
            rows = rows_of(table.scan(selected_fields=COLUMNS).to_arrow())
        except FileNotFoundError as error:
            # The client's own error, which names the file.
            raise DataFileGoneError(str(error), instant, None) from error
        return Answer(self.name, folder.name, instant, rows)


@dataclass(slots=True)
class _Followed:
    """The state to which what was read so far leads, and the ``after`` of what comes next."""

    rows: dict[str, Row]
    after: str


@dataclass(slots=True)
class FollowingReader:
    """Begins with a snapshot, and applies to it what changes; begins again if it has fallen behind the cleaner."""

    name: str
    of_changes: bool
    _followed: dict[str, _Followed] = field(default_factory=dict)

    def ask(self, folder: Path) -> Answer:
        table = HudiTable.open(folder)
        instant = table.latest_instant
        assert instant is not None
        try:
            followed = self._next(table, self._followed.get(folder.name))
        except GONE as error:
            if _STILL_RUNNING not in str(error):
                self._followed.pop(folder.name, None)
            raise
        self._followed[folder.name] = followed
        return Answer(self.name, folder.name, instant, list(followed.rows.values()), of_present=not self.of_changes)

    def _next(self, table: HudiTable, followed: _Followed | None) -> _Followed:
        if followed is None:
            snapshot = table.snapshot()
            assert snapshot.next_after is not None
            return _Followed({row[0]: row for row in rows_of(snapshot.to_table())}, snapshot.next_after)
        dataset = table.changes(followed.after) if self.of_changes else table.incremental(followed.after)
        rows = dict(followed.rows)
        if self.of_changes:
            apply_changes(rows, dataset.to_table().to_pylist())
        else:
            # Partial updates lack the id, too.
            apply_rows(rows, rows_of(dataset.to_table(), "_hoodie_record_key"))
        assert dataset.next_after is not None
        return _Followed(rows, dataset.next_after)


def apply_changes(rows: dict[str, Row], changes: Iterable[dict[str, Any]]) -> None:
    """Apply changes to rows; those of a range that repeats some of the snapshot change nothing."""
    for change in changes:
        image = change["before"] if change["after"] is None else change["after"]
        if change["op"] == "d":
            rows.pop(image["id"], None)
        else:
            rows[image["id"]] = tuple(image[name] for name in COLUMNS)


def apply_rows(rows: dict[str, Row], latest: Iterable[Row]) -> None:
    """Apply the rows that a range has written; of partial updates, they lack what these left out."""
    for row in latest:
        key, city, ts, fare, note = row
        known = rows.get(key, row)
        if known[2] <= ts:
            rows[key] = (key, city or known[1], ts, known[3] if fare is None else fare, note or known[4])
