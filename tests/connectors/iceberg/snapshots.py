"""A table of several slices as an Iceberg client sees it, and what is done to it between reads."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from hudi_bridge.config import QueryType
from hudi_bridge.connectors.iceberg.served_table import Published, SnapshotSettings
from hudi_bridge.connectors.iceberg.slice_cache import Counters
from hudi_bridge.connectors.iceberg.table_snapshots import TableSnapshots
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.storage.storage import Storage
from tests.connectors.iceberg.publishing import rename_in_footer
from tests.support.table_writer import TableWriter, at

SLICES = 6


@pytest.fixture
def table(tmp_path: Path) -> TableWriter:
    """Six slices with a log each, which updates one row, deletes one and inserts one."""
    table = TableWriter(folder=tmp_path / "table").create()
    for number in range(SLICES):
        rows = [{"id": f"{number}-{key}", "ts": 1, "value": "old"} for key in "abc"]
        table.base_file(at(1), rows, file_id=f"f{number}-0")
    table.commit(at(1))
    for number in range(SLICES):
        update(table, 2, number)
    table.commit(at(2))
    return table


def update(table: TableWriter, commit: int, number: int) -> None:
    """A log in a slice: an update of a, a delete of b, and a new row."""
    rows = [{"id": f"{number}-{key}", "ts": commit, "value": f"by {commit}"} for key in ("a", f"new{commit}")]
    blocks = [table.data_block(at(commit), rows), table.delete_block(at(commit), [(f"{number}-b", commit)])]
    table.log_file(at(commit), blocks, file_id=f"f{number}-0", number=commit)


class Client:
    """One process's snapshots of a table."""

    def __init__(
        self, table: TableWriter, scratch: Path | Scratch, builders: ThreadPoolExecutor, **settings: Any
    ) -> None:
        self.counters = Counters()
        opened = scratch if isinstance(scratch, Scratch) else Scratch.open(str(scratch))
        self.scratch = Path(opened.storage.root)
        made = SnapshotSettings(locations=Locations(), builders=builders, at_once=2, counters=self.counters, **settings)
        self.snapshots = TableSnapshots(Storage.open(str(table.folder)), QueryType.SNAPSHOT, opened, made)

    def load(self, as_of: str | None = None) -> Published:
        return self.snapshots.load(as_of)

    @property
    def built(self) -> int:
        return int(self.counters.value("slices_built_total"))

    def names(self, folder: str) -> set[str]:
        return {path.name for path in (self.scratch / folder).iterdir()}


@pytest.fixture
def builders() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def iceberg_rows(published: Published, **scan: Any) -> pa.Table:
    return StaticTable.from_metadata(published.location).scan(**scan).to_arrow()


LISTS = (("id", "string"), ("ts", "long"), ("tags", {"type": "array", "items": ["null", "string"]}))


def update_lists(table: TableWriter, commit: int, number: int) -> None:
    """A log in a slice of ``lists``, with an update and a new row."""
    rows = [{"id": f"{number}-{key}", "ts": commit, "tags": [f"by {commit}"]} for key in ("a", f"new{commit}")]
    table.log_file(at(commit), [table.data_block(at(commit), rows)], file_id=f"f{number}-0", number=commit)


@pytest.fixture
def lists(tmp_path: Path) -> TableWriter:
    """Two slices with lists that DuckDB misreads; one has a log."""
    table = TableWriter(folder=tmp_path / "lists", fields=LISTS).create()
    for number in range(2):
        rows = [{"id": f"{number}-{key}", "ts": 1, "tags": ["old", None]} for key in "abc"]
        rename_in_footer(table.base_file(at(1), rows, file_id=f"f{number}-0"), {b"list": b"bags"})
    table.commit(at(1))
    update_lists(table, 2, 0)
    table.commit(at(2))
    return table
