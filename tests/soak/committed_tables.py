"""Small tables that get commits without end, and the rows that they have as of each instant.

Each commit writes a log file for some file groups; every tenth writes new base files, as a compaction does, and removes
what is much older, together with its part of the timeline, as cleaning and archiving do.
"""

import datetime as dt
import hashlib
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.table_writer import Row, TableWriter

GROUPS, ROWS_OF_A_GROUP = 4, 300
COMMITS_OF_A_SLICE = 10
SLICES_KEPT = 4
"""Slices of a file group that stay: readers have more time than any of them takes."""


def instant_now() -> str:
    """The current time as an instant."""
    return dt.datetime.now(dt.UTC).strftime("%Y%m%d%H%M%S%f")[:17]


def content_of(rows: Iterable[Mapping[str, Any]]) -> str:
    """A hash of rows of the table, in any order."""
    texts = sorted(f"{row['id']} {row['ts']} {row['value']}" for row in rows)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def content_of_table(rows: pa.Table) -> str:
    """As ``content_of``, of an Arrow table that has more columns."""
    return content_of(rows.select(["id", "ts", "value"]).to_pylist())


class CommittedTable:
    """One table; ``contents`` has the hash of its rows as of each instant."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._writer = TableWriter(folder=folder).create()
        self._random = random.Random(seed)
        self._groups: dict[str, dict[str, Row]] = defaultdict(dict)
        self._commits = 0
        self._last = ""
        self._slice_begins: list[str] = []
        self.contents: dict[str, str] = {}
        self.commit()

    def commit(self) -> str:
        """Make one more commit; its instant."""
        instant = self._next_instant()
        begins_slice = self._commits % COMMITS_OF_A_SLICE == 0
        wrote = self._base_files(instant) if begins_slice else self._log_files(instant)
        rows = [row for group in self._groups.values() for row in group.values()]
        # Known before it is visible.
        self.contents[instant] = content_of(rows)
        self._writer.commit(
            instant,
            action="commit" if begins_slice else "deltacommit",
            completed=self._next_instant(),
            wrote=wrote,
        )
        self._commits += 1
        if begins_slice:
            self._slice_begins.append(instant)
            self._remove_old()
        return instant

    def _next_instant(self) -> str:
        instant = instant_now()
        while instant <= self._last:
            instant = instant_now()
        self._last = instant
        return instant

    def _base_files(self, instant: str) -> list[Path]:
        files = []
        for number in range(GROUPS):
            file_id = f"f{number}-0"
            group = self._groups[file_id]
            for row in range(0 if group else ROWS_OF_A_GROUP):
                key = f"{number}-{row:05d}"
                group[key] = {"id": key, "ts": 0, "value": "first"}
            files.append(self._writer.base_file(instant, list(group.values()), file_id=file_id))
        return files

    def _log_files(self, instant: str) -> list[Path]:
        files = []
        for file_id in self._random.sample(sorted(self._groups), 2):
            group = self._groups[file_id]
            keys = self._random.sample(sorted(group), min(20, len(group)))
            deleted = keys[:2] if len(group) > ROWS_OF_A_GROUP // 2 else []
            new = f"{file_id[1]}-new-{self._commits}"
            updates = [
                {"id": key, "ts": self._commits, "value": f"{instant}-{key}"} for key in (*keys[len(deleted) :], new)
            ]
            blocks = [
                self._writer.data_block(instant, updates, file_id=file_id),
                self._writer.delete_block(instant, [(key, None) for key in deleted]),
            ]
            files.append(self._writer.log_file(instant, blocks, file_id=file_id))
            group |= {str(row["id"]): row for row in updates}
            for key in deleted:
                del group[key]
        return files

    def _remove_old(self) -> None:
        if len(self._slice_begins) <= SLICES_KEPT:
            return
        oldest = self._slice_begins[-SLICES_KEPT]
        folder = self._writer.folder
        for file in [*folder.glob("f*.parquet"), *folder.glob(".f*.log.*")]:
            instant = file.name.partition(".log.")[0].rpartition("_")[2].removesuffix(".parquet")
            if instant < oldest:
                file.unlink()
        for file in self._writer.timeline_folder.glob("2*"):
            if file.name < oldest:
                file.unlink()
        for instant in [content for content in self.contents if content < self._slice_begins[-2 * SLICES_KEPT :][0]]:
            del self.contents[instant]
