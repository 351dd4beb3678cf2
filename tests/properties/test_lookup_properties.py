"""A look-up returns what a filter over the whole snapshot returns, for random histories of a table."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge.table import HudiTable
from tests.compare import differences
from tests.properties.histories import FIELDS, STEPS, TABLES, History, Step
from tests.table_writer import TableWriter

KEYS = st.lists(st.sampled_from(["k0", "k1", "k2", "k3", "k4", "k9"]), max_size=3)


@pytest.mark.parametrize("kind", sorted(TABLES))
@settings(max_examples=8, deadline=None)
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
