"""Random tables whose reads are filtered."""

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN
from tests.support.table_writer import Row, TableWriter, at

FIELDS: tuple[tuple[str, Any], ...] = (
    ("id", "string"),
    ("ts", "long"),
    ("part", "string"),
    ("text", "string"),
    ("number", "int"),
    ("x", "double"),
    ("flag", "boolean"),
    ("day", {"type": "int", "logicalType": "date"}),
    (
        "inner",
        {"type": "record", "name": "inner", "fields": [{"name": "n", "type": ["null", "long"], "default": None}]},
    ),
)

PARTITIONS = ("p", "q/r", "10")
DAY = dt.date(2026, 1, 1)
PAYLOAD = "hoodie.compaction.payload.class"
PACKAGE = "org.apache.hudi.common.model."
EVENT_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
TABLES: dict[str, tuple[int, Mapping[str, str]]] = {
    "event time": (9, EVENT_TIME),
    "commit time": (9, {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}),
    "default payload": (6, {PAYLOAD: PACKAGE + "DefaultHoodieRecordPayload"}),
    "event time, defaults ignored": (9, EVENT_TIME | {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}),
    "partial update": (6, {PAYLOAD: PACKAGE + "PartialUpdateAvroPayload"}),
}

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": st.sampled_from(["k0", "k1", "k2", "k3", "k4", "k5"]),
    "ts": st.integers(0, 3),
    "part": st.sampled_from(PARTITIONS),
    "text": st.sampled_from(["", "a", "ab", "b", "\u00e9"]),
    "number": st.integers(-2, 2),
    "x": st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan]),
    "flag": st.booleans(),
    "day": st.integers(0, 3).map(lambda days: DAY + dt.timedelta(days)),
    "inner": st.fixed_dictionaries({"n": st.one_of(st.none(), st.integers(0, 2))}),
}

NEVER_NULL = ("id", "ts", "part")
ROWS = st.fixed_dictionaries(
    {name: values if name in NEVER_NULL else st.one_of(st.none(), values) for name, values in VALUES.items()}
)


def placed(partition: str, row: Row) -> Row:
    return {**row, "part": partition}


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[str, list[Row], list[list[Row]], list[tuple[str, int | None]]]]:
    """For each partition its path, base rows, log rows of two writes, and deletes."""
    pieces = []
    for partition in draw(st.sets(st.sampled_from(PARTITIONS), min_size=1, max_size=2)):
        rows = st.lists(ROWS.map(partial(placed, partition)), max_size=7)
        deletes = st.lists(st.tuples(VALUES["id"], st.one_of(st.none(), VALUES["ts"])), max_size=2)
        pieces.append((partition, draw(rows), [draw(rows), draw(rows)], draw(deletes)))
    return pieces


def write(folder: Path, name: str, pieces: Sequence[tuple[str, list[Row], list[list[Row]], Any]]) -> TableWriter:
    version, options = TABLES[name]
    table = TableWriter(
        folder=folder,
        version=version,
        fields=FIELDS,
        partition_fields=("part",),
        options=options,
        defaults={"text": ""},
    ).create()
    wrote: dict[str, list[Path]] = {at(number): [] for number in range(4)}
    for number, (partition, base, logs, deletes) in enumerate(pieces):
        where: dict[str, Any] = {"file_id": f"f{number}-0", "partition": partition}
        if base:
            # As after a compaction, some rows are older than their file.
            older: list[Row] = [{**row, COMMIT_TIME_COLUMN: at(place % 2)} for place, row in enumerate(base)]
            wrote[at(1)].append(table.base_file(at(1), older, row_group_size=3, **where))
        for later, rows in enumerate(logs, start=2):
            blocks = [table.data_block(at(later), rows, **where)] if rows else []
            if deletes and later == 3:
                blocks.insert(0, table.delete_block(at(later), deletes, partition=partition))
            if blocks:
                path = table.log_file(at(later), blocks, base_instant=at(1), number=later, **where)
                wrote[at(later)].append(path)
    for instant, files in wrote.items():
        table.commit(instant, wrote=files)
    return table
