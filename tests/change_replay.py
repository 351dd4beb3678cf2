"""Replays the changes of a table: those between two of its states have to lead from the one to the other."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hudi_bridge import HudiDataset, HudiTable, InstantNotReadableError, QueryType, RealtimeFileSplit, open_reader
from hudi_bridge.schema.meta_columns import META_COLUMNS, OPERATION_COLUMN
from hudi_bridge.splits.query_plan import Split
from hudi_bridge.timeline.instant_range import ordering_time

State = Counter[str]
"""How often there is each row, as text, without the meta columns."""


def replay_differences(table: HudiTable) -> list[str]:
    """What differs after replaying the changes of each commit, and those from the beginning up to each.

    Commits without a readable state count as a part of the range that ends with the next one that has one. So do those
    that overlap others: changes are in the order in which commits completed, states in that of their requests.
    """
    found, compared = [], 0
    commits = sorted(table.timeline.commits(), key=lambda commit: ordering_time(commit, table.config))
    before, begin = State(), "earliest"
    for count, commit in enumerate(commits, start=1):
        place = ordering_time(commit, table.config)
        if any(one.requested_time < place for one in commits[count:]):
            continue
        try:
            after = state_as_of(table, max(one.requested_time for one in commits[:count]))
        except InstantNotReadableError:
            continue
        for start, rows in ((begin, before), ("earliest", State())):
            changed = changes_or_none(table, start, place)
            compared += changed is not None
            if changed is not None and replayed(rows, changed) != after:
                found.append(f"the changes after {start} up to {place} do not lead to the rows as of then")
        before, begin = after, place
    return found if compared or not commits else ["no changes could be read"]


def changes_or_none(table: HudiTable, after: str, up_to: str) -> HudiDataset | None:
    """The changes of a range, None where its files are gone."""
    try:
        return table.changes(after, up_to)
    except InstantNotReadableError:
        return None


def replayed(state: State, changes: HudiDataset) -> State:
    """The rows after some changes; a row that was not there is there minus one time."""
    rows = Counter(state)
    for change in changes.to_table().to_pylist():
        assert (change["before"] is None, change["after"] is None) == (change["op"] == "i", change["op"] == "d")
        if change["before"] is not None:
            rows[row_text(change["before"])] -= 1
        if change["after"] is not None:
            rows[row_text(change["after"])] += 1
    return Counter({row: count for row, count in rows.items() if count})


def state_as_of(table: HudiTable, instant: str) -> State:
    """The rows as of an instant, with the columns that the newest commit has, as images have them."""
    newest = table.splits()
    rows: list[Mapping[str, Any]] = []
    for split in table.snapshot(instant).splits():
        context = split.context
        if newest:
            visible = {
                name: getattr(context, name)
                for name in ("latest_instant", "committed_instants", "pending_instants", "timeline_start")
            }
            context = replace(newest[0].context, **visible)
        assert context.query_type is QueryType.SNAPSHOT
        for batch in open_reader(replace(slice_of(split), context=context)).batches():
            rows += batch.to_pylist()
    return state_of(rows)


def slice_of(split: Split) -> RealtimeFileSplit:
    """The one file slice that a split of a snapshot is."""
    assert isinstance(split, RealtimeFileSplit)
    return split


def state_of(rows: Iterable[Mapping[str, Any]]) -> State:
    """Rows as a state."""
    return Counter(map(row_text, rows))


def row_text(row: Mapping[str, Any]) -> str:
    """A row in a form in which equal values are equal text, whatever the order of the entries of maps."""
    values = {name: _comparable(value) for name, value in row.items() if name not in (*META_COLUMNS, OPERATION_COLUMN)}
    return json.dumps(values, sort_keys=True)


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _comparable(one) for name, one in value.items()}
    if isinstance(value, list) and value and all(isinstance(one, tuple) for one in value):
        return sorted([str(key), json.dumps(_comparable(one), sort_keys=True)] for key, one in value)
    return [_comparable(one) for one in value] if isinstance(value, list) else repr(value)
