"""Tables whose writes overlap, and the completion times of their rows."""

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from hudi_bridge import HudiTable
from hudi_bridge.options import COMPLETION_TIMES_KEY
from hudi_bridge.schema.meta_columns import COMPLETION_TIME_COLUMN
from tests.support.table_writer import TableWriter, at

ON = {COMPLETION_TIMES_KEY: "true"}
EVENT_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}


def opened(folder: Path, **options: str) -> HudiTable:
    return HudiTable.open(str(folder), options=ON | options)


def overlapping(folder: Path, version: int) -> TableWriter:
    """A table whose second write completes after the third: by requested time 1, 2, 3, by completion time 1, 3, 2."""
    table = TableWriter(folder=folder, version=version, options=EVENT_TIME).create()
    base = table.base_file(at(1), [{"id": key, "ts": 1, "value": "old"} for key in "abcd"])
    table.commit(at(1), action="commit", wrote=[base], completed=at(2))
    logs = {}
    for number, (instant, key) in enumerate(((at(10), "b"), (at(20), "c")), start=1):
        block = table.data_block(instant, [{"id": key, "ts": 2, "value": "new"}])
        logs[instant] = table.log_file(instant, [block], base_instant=at(1), number=number)
    table.commit(at(20), wrote=[logs[at(20)]], completed=at(30))
    table.commit(at(10), wrote=[logs[at(10)]], completed=at(40))
    if version < 8:
        for name, completed in (
            (f"{at(1)}.commit", at(2)),
            (f"{at(20)}.deltacommit", at(30)),
            (f"{at(10)}.deltacommit", at(40)),
        ):
            touch(table.timeline_folder / name, completed)
    return table


def touch(path: Path, instant: str) -> None:
    """Lets a file have been modified at an instant of a timeline in UTC."""
    moment = datetime.strptime(f"{instant}+0000", "%Y%m%d%H%M%S%f%z").timestamp()
    os.utime(path, (moment, moment))


def overlapping_in_utc(folder: Path, version: int) -> HudiTable:
    table = overlapping(folder, version)
    properties = folder / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text() + "hoodie.table.timeline.timezone=UTC\n")
    return opened(table.folder)


def times_by_key(rows: pa.Table) -> dict[str, str | None]:
    return {row["id"]: row[COMPLETION_TIME_COLUMN] for row in rows.select(["id", COMPLETION_TIME_COLUMN]).to_pylist()}


EXPECTED: Mapping[str, str] = {"a": at(2), "b": at(40), "c": at(30), "d": at(2)}
