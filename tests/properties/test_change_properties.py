"""Replaying the changes of any range over the rows at its start gives the rows at its end."""

import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge import HudiTable, InstantNotReadableError
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.history import load_archived_instants
from hudi_bridge.timeline.instant_range import ordering_time
from hudi_bridge.timeline.timeline import TableState
from tests.support.change_replay import State, replay_differences, replayed, state_of
from tests.support.golden_cases import golden_history
from tests.support.strength import examples, one_in
from tests.support.table_writer import Row, TableWriter, at

HISTORIES: Mapping[str, int] = {
    "cow_v9": 78,
    "cow_v9_logged": 78,
    "mor_v6": 78,
    "mor_v6_by_120": 78,
    "mor_v6_cleaned": 66,
    "mor_v6_logged": 78,
    "mor_v9": 78,
    "mor_v9_cleaned": 21,
    "mor_v9_global": 78,
    "mor_v9_logged": 78,
}
"""Of each history the number of ranges whose files are there, of 78."""

COMMIT_TIME = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}
EVENT_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
PARTIAL_PAYLOAD = {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload"}
TABLES = {"commit time": (9, COMMIT_TIME), "event time": (9, EVENT_TIME), "partial update": (6, PARTIAL_PAYLOAD)}


@pytest.mark.long
@pytest.mark.parametrize("name", HISTORIES)
def test_changes_lead_from_each_state_that_hudi_returned_to_each_later_one(name: str) -> None:
    folder = golden_history(name)
    steps = json.loads((folder / "steps.json").read_text())
    rows = pq.read_table(folder / "states.parquet").to_pylist()
    states = [state_of(_data(row) for row in rows if row["step"] == number) for number in range(len(steps))]
    table = HudiTable.open(str(folder / "table"))
    archived = load_archived_instants(TableState.load(Storage.open(table.path), table.config))
    commits = (*archived, *table.timeline.commits())
    places = {commit.requested_time: ordering_time(commit, table.config) for commit in commits}
    begins = [
        ("earliest", State()),
        *((places[one["commit"]], state) for one, state in zip(steps, states, strict=True)),
    ]
    ranges = [(begins[first], begins[last]) for last in range(1, len(begins)) for first in range(last)]
    outcomes = Counter(_leads(table, *begin, *end) for begin, end in ranges)
    assert outcomes[False] == 0
    assert outcomes[True] == HISTORIES[name]


def _leads(table: HudiTable, after: str, before: State, up_to: str, expected: State) -> bool | None:
    """Whether the changes of a range are right, None where it cannot be read."""
    try:
        return replayed(before, table.changes(after, up_to)) == expected
    except InstantNotReadableError:
        return None


def _data(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "step"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One write: what it does, and to which records."""

    kind: str
    rows: tuple[Row, ...]


ROWS = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["k0", "k1", "k2", "k3", "k4"]),
        "ts": st.integers(0, 3),
        "value": st.sampled_from([None, "a", "b"]),
    }
)
UNIQUE_ROWS = st.lists(ROWS, min_size=1, max_size=4, unique_by=lambda row: str(row["id"])).map(tuple)
KINDS = st.sampled_from(["log", "log", "delete", "compact", "cluster", "overwrite", "new group"])
STEPS = st.lists(st.builds(Step, kind=KINDS, rows=UNIQUE_ROWS), min_size=1, max_size=7)


@pytest.mark.parametrize("name", one_in(2, TABLES))
def test_changes_of_random_histories_lead_from_snapshot_to_snapshot(name: str) -> None:
    version, options = TABLES[name]

    @settings(max_examples=examples(12), deadline=None)
    @given(steps=STEPS)
    def check(steps: list[Step]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            writer = TableWriter(folder=Path(folder) / "t", version=version, options=options).create()
            write_history(writer, steps)
            assert replay_differences(writer.open()) == []

    check()


@pytest.mark.long
@pytest.mark.parametrize("memory", [600, 3000])
def test_states_that_outgrow_their_memory_are_compared_in_parts(memory: int) -> None:
    @settings(max_examples=examples(5), deadline=None)
    @given(steps=STEPS)
    def check(steps: list[Step]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            writer = TableWriter(folder=Path(folder) / "t", options=EVENT_TIME).create()
            write_history(writer, steps)
            table = HudiTable.open(str(writer.folder), log_memory_bytes=memory)
            assert replay_differences(table) == []

    check()


def write_history(writer: TableWriter, steps: list[Step]) -> None:
    """A table that begins with a base file, and then goes through the steps.

    Records are deleted and written again in whatever file group there is, as writers do that find no record to update.
    """
    group, base = "f0-0", at(1)
    rows = [{"id": f"k{number}", "ts": 0, "value": "base"} for number in range(3)]
    writer.commit(base, action="commit", wrote=[writer.base_file(base, rows, file_id=group)])
    others: list[str] = []
    for number, step in enumerate(steps, start=2):
        instant, new = at(number), f"f{number}-0"
        if step.kind in ("log", "delete"):
            block = (
                writer.data_block(instant, step.rows, file_id=group)
                if step.kind == "log"
                else writer.delete_block(instant, [(row["id"], row["ts"]) for row in step.rows])
            )
            log = writer.log_file(instant, [block], file_id=group, base_instant=base, number=number)
            writer.commit(instant, wrote=[log])
        elif step.kind == "new group":
            fresh = [dict(row) | {"id": f"{row['id']}-{number}"} for row in step.rows]
            writer.commit(instant, action="commit", wrote=[writer.base_file(instant, fresh, file_id=new)])
            others.append(new)
        elif step.kind == "overwrite":
            path = writer.base_file(instant, step.rows, file_id=new)
            writer.commit(instant, action="replacecommit", wrote=[path], replaced={"": [group, *others]})
            group, base, others = new, instant, []
        else:
            merged = merged_rows(writer, group)
            if step.kind == "compact":
                writer.pending_compaction(instant, [("", group)])
                path = writer.base_file(instant, merged, file_id=group)
                writer.commit(instant, action="commit", wrote=[path], operation="COMPACT")
            else:
                path = writer.base_file(instant, merged, file_id=new)
                replaced = {"": [group]}
                writer.commit(instant, action="replacecommit", wrote=[path], replaced=replaced, operation="CLUSTER")
                group = new
            base = instant


def merged_rows(writer: TableWriter, group: str) -> list[Row]:
    """The rows of a file group as a table service finds them; they keep their meta columns."""
    table = writer.open().snapshot().to_table()
    names = ("_hoodie_commit_time", "id", "ts", "value")
    file_names = table["_hoodie_file_name"].to_pylist()
    rows = table.select(list(names)).to_pylist()
    return [row for row, name in zip(rows, file_names, strict=True) if str(name).startswith(group)]
