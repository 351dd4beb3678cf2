"""Table version 10 through each entrance: the rows of Arrow with the option that reads it, and otherwise refused.

``tests/table/test_version_10.py`` compares the rows of Arrow with Hudi's answers; Spark is in
``tests/connectors/spark/test_spark_entrances.py``.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from hudi_bridge import HudiTable, UnsupportedTableError
from hudi_bridge.cli.main import run
from hudi_bridge.connectors import polars
from hudi_bridge.connectors.duckdb import attach, attach_all
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.lakes.tables import MergeSettings
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.connectors.trino.publish import publish_log_records
from hudi_bridge.storage.storage import Storage
from hudi_bridge.tools import Severity, diff, examine, history_of
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in
from tests.support.version_10 import UNRELEASED, Version10

CASES = ["a_story_v9_120-hfile", "d_log_compaction_120-orc", "i_cdc_120-parquet", "b_sql_partial_120-parquet"]
_OF_FILES = ("path", "block_number", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A golden table, and the same of version 10 in another folder."""

    before: HudiTable
    table: HudiTable
    folder: Path

    @property
    def first(self) -> str:
        return self.before.timeline.commits()[0].requested_time


@pytest.fixture(params=one_in(4, CASES))
def changed(request: pytest.FixtureRequest, tmp_path: Path) -> Changed:
    case, file_format = request.param.split("-")
    folder = tmp_path / "lake" / "trips"
    shutil.copytree(golden_table(case), folder)
    version_10 = Version10(folder, file_format).change()
    assert version_10.renamed
    return Changed(before=HudiTable.open(golden_table(case)), table=version_10.open(), folder=folder)


def through_duckdb(changed: Changed) -> Iterator[tuple[str, pa.Table]]:
    with duckdb.connect() as connection:
        lake = attach_all(connection, changed.folder.parent, options=UNRELEASED)
        for name, view in {"snapshot": "trips", "base files": "trips_ro", "past": f'"trips@{changed.first}"'}.items():
            rows = lake.sql(f"FROM lake.{view}")
            assert rows is not None
            yield name, rows.to_arrow_table()


def through_polars(changed: Changed) -> Iterator[tuple[str, pa.Table]]:
    queries: Mapping[str, Any] = {
        "snapshot": {},
        "base files": {"read_optimized": True},
        "past": {"as_of": changed.first},
    }
    for name, arguments in queries.items():
        yield name, polars.scan(changed.folder, options=UNRELEASED, **arguments).collect().to_arrow()


def through_iceberg(changed: Changed) -> Iterator[tuple[str, pa.Table]]:
    published = publish_table(
        Storage.open(changed.folder),
        Scratch.open(str(changed.folder.parent.parent / "iceberg")),
        locations=Locations(),
        builds=1,
        merging=MergeSettings(options=UNRELEASED),
    )
    yield "snapshot", StaticTable.from_metadata(published.metadata_location).scan().to_arrow()


@pytest.mark.parametrize("entrance", [through_duckdb, through_polars, through_iceberg])
def test_rows_are_those_of_arrow(changed: Changed, entrance: Any) -> None:
    table = changed.table
    datasets = {
        "snapshot": table.snapshot(),
        "base files": table.read_optimized(),
        "past": table.snapshot(changed.first),
    }
    for name, rows in entrance(changed):
        assert differences(datasets[name].to_table(), rows) == [], name


def test_tools_say_the_same_as_of_version_9(changed: Changed) -> None:
    tables = changed.before, changed.table
    compared = [diff(table, changed.first).to_table().to_pylist() for table in tables]
    assert sorted(map(str, compared[1])) == sorted(map(str, compared[0]))
    keys = changed.before.incremental("earliest").to_table(["_hoodie_record_key"])["_hoodie_record_key"].to_pylist()
    for key in sorted(set(map(str, keys)))[:3]:
        histories = [history_of(table, key).to_table().drop_columns(list(_OF_FILES)).to_pylist() for table in tables]
        assert sorted(map(str, histories[1])) == sorted(map(str, histories[0]))
    assert examine(changed.folder, deep=True, options=UNRELEASED).worst < Severity.WARNING


def test_without_the_option_each_entrance_refuses_it(changed: Changed, capfd: pytest.CaptureFixture[str]) -> None:
    folder, scratch = str(changed.folder), changed.folder.parent.parent / "other"
    with duckdb.connect() as connection:
        lake = attach_all(connection, changed.folder.parent)
        for act in (
            lambda: attach(connection, folder, "t"),
            lambda: lake.sql("FROM lake.trips"),
            lambda: polars.scan(folder),
            lambda: publish_log_records(HudiTable.open(folder), scratch),
            lambda: publish_table(Storage.open(folder), Scratch.open(str(scratch)), locations=Locations(), builds=1),
        ):
            with pytest.raises(
                UnsupportedTableError, match=r"table version: found 10, .*hudi_bridge\.read\.unreleased"
            ):
                act()
    commands = (["read"], ["report"], ["explain"], ["changes", "--after", "earliest"], ["diff"], ["trace"], ["doctor"])
    for name, *after in commands:
        more = {"diff": [changed.first], "trace": ["k"]}.get(name, after)
        # The doctor says what could not be examined, as a warning.
        assert run([name, folder, *more]) == (3 if name == "doctor" else 1)
        assert "hudi_bridge.read.unreleased" in "".join(capfd.readouterr()).replace("\n", " ")
