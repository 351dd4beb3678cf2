"""The same tables through the ``hudi`` package (hudi-rs), for the kinds of merging that it supports.

Where the two differ, Hudi itself answers as we do: the golden tests compare with it.
"""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import hudi
import pyarrow as pa
import pytest
from hypothesis import given, settings

from hudi_bridge import HudiTable
from tests.properties.merge_reference import OF_MODES, Change, base_rows, changes, write
from tests.support.compare import differences
from tests.support.peer import PEER_DIFFERS, PEER_REFUSES, TABLES
from tests.support.strength import examples, one_in
from tests.support.table_writer import Row

COMPARED = sorted(TABLES.keys() - PEER_REFUSES.keys() - PEER_DIFFERS.keys())


def test_the_lists_name_tables() -> None:
    assert PEER_REFUSES.keys() | PEER_DIFFERS.keys() <= TABLES.keys()
    assert len(COMPARED) > 80


@pytest.mark.parametrize("case", one_in(8, COMPARED))
def test_both_give_the_same_rows(case: str) -> None:
    assert differences(through_peer(TABLES[case]), through_bridge(TABLES[case])) == []


@pytest.mark.parametrize("case", one_in(3, sorted(PEER_DIFFERS)))
def test_known_differences_are_differences(case: str) -> None:
    assert differences(through_peer(TABLES[case]), through_bridge(TABLES[case])) != []


@pytest.mark.parametrize("case", sorted(PEER_REFUSES))
def test_what_the_peer_refuses(case: str) -> None:
    with pytest.raises(Exception, match=re.escape(PEER_REFUSES[case])):
        through_peer(TABLES[case])


@pytest.mark.parametrize("name", ["commit time", "event time"])
def test_both_merge_random_writes_alike(name: str) -> None:
    table = OF_MODES[name]

    @settings(max_examples=examples(25), deadline=None)
    @given(base=base_rows(table), log=changes(table, "upsert", "upsert", "delete"))
    def check(base: Sequence[Row], log: Sequence[Change]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), table, base, log)
            actual, expected = through_bridge(Path(folder)), through_peer(Path(folder))
            assert differences(expected.select(table.names), actual.select(table.names)) == []

    check()


def through_bridge(table: Path) -> pa.Table:
    return HudiTable.open(str(table)).snapshot().to_table()


def through_peer(table: Path) -> pa.Table:
    opened = hudi.HudiTableBuilder.from_base_uri(str(table)).build()
    batches = opened.read(hudi.HudiReadOptions())
    return pa.Table.from_batches(batches, None if batches else opened.get_schema_with_meta_fields())
