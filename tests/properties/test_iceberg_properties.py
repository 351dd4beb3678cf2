"""Random histories: the Iceberg snapshot of every commit has the rows of Hudi's, whatever was reused to build it."""

import contextlib
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyiceberg.table import StaticTable

from hudi_bridge import HudiTable, InstantNotReadableError
from hudi_bridge.config import QueryType
from hudi_bridge.connectors.iceberg.served_table import SnapshotSettings
from hudi_bridge.connectors.iceberg.slice_cache import Counters
from hudi_bridge.connectors.iceberg.table_snapshots import TableSnapshots
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.storage.storage import Storage
from tests.properties.histories import FIELDS, STEPS, TABLES, History, Step
from tests.support.compare import differences
from tests.support.strength import examples, one_in
from tests.support.table_writer import TableWriter


@pytest.mark.parametrize("name", one_in(5, TABLES))
def test_snapshots_built_on_the_way_have_the_rows_of_those_built_from_nothing(name: str) -> None:
    version, options = TABLES[name]

    @settings(max_examples=examples(6), deadline=None)
    @given(steps=STEPS)
    def check(steps: list[Step]) -> None:
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as builders:
            writer = TableWriter(
                folder=Path(folder) / "t",
                version=version,
                fields=FIELDS,
                partition_fields=("part",),
                options=options,
            ).create()
            history = History(writer=writer)
            scratch = Path(folder) / "on the way"
            snapshots = snapshots_of(writer.folder, scratch, builders)
            for step in (None, *steps):
                if step is not None and step.kind == "forget":
                    snapshots = snapshots_of(writer.folder, scratch, builders)
                    continue
                history.take(step)
                assert rows_of(snapshots) == snapshot_of(writer.folder)
            again = snapshots_of(writer.folder, Path(folder) / "from nothing", builders)
            for instant in readable_instants(writer.folder):
                expected = snapshot_of(writer.folder, instant)
                assert rows_of(snapshots, instant) == expected
                assert rows_of(again, instant) == expected

    check()


def snapshots_of(table: Path, scratch: Path, builders: ThreadPoolExecutor) -> TableSnapshots:
    made = SnapshotSettings(locations=Locations(), builders=builders, at_once=2, counters=Counters())
    return TableSnapshots(Storage.open(str(table)), QueryType.SNAPSHOT, Scratch.open(str(scratch)), made)


class Rows:
    """Rows that are equal to others whatever their order."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and differences(self.table, other.table) == []

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(sorted(self.table.to_pylist(), key=repr))


def rows_of(snapshots: TableSnapshots, as_of: str | None = None) -> Rows:
    return Rows(StaticTable.from_metadata(snapshots.load(as_of).location).scan().to_arrow())


def snapshot_of(table: Path, as_of: str | None = None) -> Rows:
    return Rows(HudiTable.open(str(table)).snapshot(as_of).to_table())


def readable_instants(folder: Path) -> Iterator[str]:
    table = HudiTable.open(str(folder))
    for commit in table.timeline.commits():
        with contextlib.suppress(InstantNotReadableError):
            table.snapshot(commit.requested_time)
            yield commit.requested_time
