"""A look-up returns what a filter over all rows of its query returns, for random histories of a table."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge import HudiDataset, HudiReadError, HudiTable, open_reader
from tests.properties.histories import FIELDS, STEPS, TABLES, History, Step
from tests.support.compare import differences
from tests.support.strength import examples, one_in
from tests.support.table_writer import TableWriter

KEYS = st.lists(st.sampled_from(["k0", "k1", "k2", "k3", "k4", "k9"]), max_size=3)


@pytest.mark.parametrize("kind", one_in(3, sorted(TABLES)))
@settings(max_examples=examples(8), deadline=None)
@given(steps=STEPS, keys=KEYS, value=st.sampled_from([None, "a", "base"]))
def test_a_look_up_is_a_filter(kind: str, steps: list[Step], keys: list[str], value: str | None) -> None:
    version, options = TABLES[kind]
    options = {**options, "hoodie.table.keygenerator.type": "SIMPLE"}
    with TemporaryDirectory() as folder:
        writer = TableWriter(
            folder=Path(folder) / "t", version=version, fields=FIELDS, partition_fields=("part",), options=options
        ).create()
        history = History(writer=writer)
        history.take(None)
        table = writer.open()
        for step in steps:
            history.take(step)
            table = table.refresh()
            _compare(table, keys, value)


def _compare(table: HudiTable, keys: list[str], value: str | None) -> None:
    everything = table.snapshot().to_table()
    listed = pa.array(keys, pa.string())
    expected = everything.filter(pc.field("_hoodie_record_key").isin(listed))
    assert differences(expected, table.get(keys)) == []
    assert differences(expected, table.snapshot().to_table(filter=pc.field("id").isin(listed))) == []
    both = pc.field("id").isin(listed) & (pc.field("value") == value if value else pc.field("value").is_null())
    assert differences(everything.filter(both), table.snapshot().to_table(filter=both)) == []
    if value:
        late = pc.field("value") == value
        assert differences(everything.filter(late), table.snapshot().to_table(filter=late)) == []


class PerfectIndex:
    """A record index that knows where the records of the newest snapshot are, and nothing else."""

    why_not: str | None = None

    def __init__(self, table: HudiTable) -> None:
        self._groups: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for split in table.splits():
            for batch in open_reader(split, columns=["_hoodie_record_key"]).batches():
                for key in batch.column(0).to_pylist():
                    self._groups[str(key)].add((split.partition_path, split.file_id))

    def file_groups(self, record_keys: Sequence[str]) -> AbstractSet[tuple[str, str]]:
        return {group for key in record_keys for group in self._groups.get(key, ())}


@pytest.mark.parametrize("kind", one_in(5, sorted(TABLES)))
@settings(max_examples=examples(20), deadline=None)
@given(steps=STEPS, moved=st.sampled_from(["k0", "k1", "k4"]), revived=st.sampled_from(["k0", "k2", "k3"]))
def test_every_type_of_query_finds_its_own_rows(kind: str, steps: list[Step], moved: str, revived: str) -> None:
    version, options = TABLES[kind]
    options = {**options, "hoodie.table.keygenerator.type": "SIMPLE"}
    with TemporaryDirectory() as folder:
        writer = TableWriter(
            folder=Path(folder) / "t", version=version, fields=FIELDS, partition_fields=("part",), options=options
        ).create()
        history = History(writer=writer)
        history.take(None)
        new = {"ts": 9, "value": "new"}
        for step in (
            *steps,
            Step(kind="delete", partition="a", rows=({"id": moved, "ts": 8}, {"id": revived, "ts": 8})),
            Step(kind="log", partition="b", rows=({"id": moved, **new},)),
            Step(kind="log", partition="a", rows=({"id": revived, **new},)),
        ):
            history.take(step)
        table = writer.open()
        table._indexes.record_index = PerfectIndex(table)  # type: ignore[assignment]
        commits = [commit.requested_time for commit in table.timeline.commits()]
        queries: list[Callable[[], HudiDataset]] = [table.snapshot, table.read_optimized]
        for commit in {commits[0], commits[len(commits) // 2]}:
            queries += [partial(query, commit) for query in (table.snapshot, table.read_optimized)]
        for query in queries:
            try:
                everything = query().to_table()
            except HudiReadError:
                continue
            for key in ("k0", "k1", "k2", "k3", "k4", "k9"):
                expected = everything.filter(pc.field("_hoodie_record_key") == key)
                assert differences(expected, query().to_table(filter=pc.field("id") == key)) == []
                assert differences(expected, query().get(key)) == []
