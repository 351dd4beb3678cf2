"""Replays the changes of a table: applied to an earlier state, they have to give the later one."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hudi_bridge import HudiDataset, HudiTable, InstantNotReadableError, QueryType, RealtimeFileSplit, open_reader
from hudi_bridge.schema.meta_columns import META_COLUMNS, OPERATION_COLUMN
from hudi_bridge.splits.planner import Split
from hudi_bridge.splits.split import ReadContext
from hudi_bridge.timeline.instant_range import ordering_time

State = Counter[str]
"""How often each row occurs; rows are text, without the meta columns."""


def replay_differences(table: HudiTable) -> list[str]:
    """The differences after replaying the changes of each commit, and all changes up to each commit.

    A commit whose state cannot be read is replayed together with the next one whose state can be. So is a commit that
    overlaps others: changes are ordered by completion time, states by requested time.
    """
    actual, compared = [], 0
    commits = sorted(table.timeline.commits(), key=lambda commit: ordering_time(commit, table.config))
    newest = next((split.context for split in table.splits()), None)
    before, begin = State(), "earliest"
    for count, commit in enumerate(commits, start=1):
        position = ordering_time(commit, table.config)
        if any(item.requested_time < position for item in commits[count:]):
            continue
        try:
            after = state_as_of(table, newest, max(item.requested_time for item in commits[:count]))
        except InstantNotReadableError:
            continue
        for start, rows in {begin: before, "earliest": State()}.items():
            changed = changes_or_none(table, start, position)
            compared += changed is not None
            if changed is not None and replayed(rows, changed) != after:
                actual.append(f"the changes after {start} up to {position} do not lead to the rows as of then")
        before, begin = after, position
    return actual if compared or not commits else ["no changes could be read"]


def changes_or_none(table: HudiTable, after: str, up_to: str) -> HudiDataset | None:
    """The changes of a range, None if their files were removed."""
    try:
        return table.changes(after, up_to)
    except InstantNotReadableError:
        return None


def replayed(state: State, changes: HudiDataset) -> State:
    """The state after some changes; removing a row that does not occur gives it a count of -1."""
    rows = Counter(state)
    for change in changes.to_table().to_pylist():
        assert (change["before"] is None, change["after"] is None) == (change["op"] == "i", change["op"] == "d")
        if change["before"] is not None:
            rows[row_text(change["before"])] -= 1
        if change["after"] is not None:
            rows[row_text(change["after"])] += 1
    return Counter({row: count for row, count in rows.items() if count})


def state_as_of(table: HudiTable, newest: ReadContext | None, instant: str) -> State:
    """The rows as of an instant, with the columns that the newest commit has, as images have them."""
    rows: list[Mapping[str, Any]] = []
    for split in table.snapshot(instant).splits():
        context = split.context
        if newest is not None:
            visible = {
                name: getattr(context, name)
                for name in ("latest_instant", "committed_instants", "pending_instants", "timeline_start")
            }
            context = replace(newest, **visible)
        assert context.query_type is QueryType.SNAPSHOT
        for batch in open_reader(replace(slice_of(split), context=context)).batches():
            rows += batch.to_pylist()
    return state_of(rows)


def slice_of(split: Split) -> RealtimeFileSplit:
    """The one file slice that a split of a snapshot is."""
    assert isinstance(split, RealtimeFileSplit)
    return split


def state_of(rows: Iterable[Mapping[str, Any]]) -> State:
    """The state of some rows."""
    return Counter(map(row_text, rows))


def row_text(row: Mapping[str, Any]) -> str:
    """A row as text, the same for equal rows, whatever the order of entries in maps."""
    values = {name: _comparable(value) for name, value in row.items() if name not in (*META_COLUMNS, OPERATION_COLUMN)}
    return json.dumps(values, sort_keys=True)


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _comparable(one) for name, one in value.items()}
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return sorted([str(key), json.dumps(_comparable(one), sort_keys=True)] for key, one in value)
    return [_comparable(item) for item in value] if isinstance(value, list) else repr(value)
