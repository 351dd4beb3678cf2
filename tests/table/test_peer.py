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
from hypothesis import assume, given, settings

from hudi_bridge import HudiTable
from tests.properties.merge_reference import OF_MODES, Change, base_rows, changes, write
from tests.support.compare import differences
from tests.support.golden_cases import golden_queries
from tests.support.strength import examples
from tests.support.table_writer import Row

GROUPS = "abcdei"
"""All but types and schemas, which are no matter of merging, and indexes."""

PEER_REFUSES = {
    "a_story_v5_0122": "table version 6, 8, and 9",
    "b_awsdms_0150": "merger of its own",
    "b_multi_ordering_120": "Multiple ordering fields",
    "b_mysql_debezium_0150": "merger of its own",
    "b_mysql_debezium_120": "Multiple ordering fields",
    "b_nondefaults_payload_v8_by120": "CUSTOM record merge mode",
    "b_partial_update_payload_0150": "merger of its own",
    "b_stored_binary_0150": "unsupported type Binary",
    "b_stored_decimal_partial_0150": "merger of its own",
    "c_data_and_delete_block_0122": "table version 6, 8, and 9",
    "e_drop_part_cols_0150": "drop.partition.columns",
    "e_drop_part_cols_120": "drop.partition.columns",
    "e_ts_keygen_partial_102": "CUSTOM record merge mode",
}
"""Tables that the peer does not read, with what it says."""

MERGED_BY_ORDERING = "a table of Hudi 0.x: log records are folded by their ordering value, whatever the payload"
DELETES_UNORDERED = "a table of Hudi 0.x: deletes, and rows after deletes, win whatever their ordering value"
LOG_ONLY = "log files of a file slice without a base file are not read"
PENDING_COMPACTION = "log files written after a compaction was planned are not read"
PEER_DIFFERS = {
    "b_default_mode_0150": MERGED_BY_ORDERING,
    "b_default_payload_0150": DELETES_UNORDERED,
    "b_default_payload_string_0150": DELETES_UNORDERED,
    "b_delete_marker_0150": DELETES_UNORDERED,
    "b_null_ordering_0150": "a null ordering value counts as 0 in tables of Hudi 0.x",
    "b_overwrite_latest_0150": MERGED_BY_ORDERING,
    "b_postgres_debezium_120": "the marker of an unavailable value stands for the value of the base row",
    "b_spark_merger_0150": MERGED_BY_ORDERING,
    "b_stored_date_0150": DELETES_UNORDERED,
    "b_stored_decimal_0150": DELETES_UNORDERED,
    "d_log_only_120": LOG_ONLY,
    "d_log_only_pending_0150": PENDING_COMPACTION,
    "d_log_only_pending_120": LOG_ONLY,
    "d_pending_compaction_0150": PENDING_COMPACTION,
    "d_pending_compaction_v6_by120": PENDING_COMPACTION,
    "e_null_part_120": "the null partition has the partition value null",
    "e_slash_dates_120": "hyphens stand for the slashes of a partition path, whatever the files have",
    "e_ts_keygen_120": "the partition column of a timestamp key generator is the text of the path",
}
"""Tables of which the peer gives other rows, with what Hudi does and the peer does not."""

TABLES = {
    query.case: query.table
    for query in golden_queries(("snapshot",))
    if query.case[0] in GROUPS and query.answer is not None and not query.case.startswith("i_only_inflight")
}
COMPARED = sorted(TABLES.keys() - PEER_REFUSES.keys() - PEER_DIFFERS.keys())


def test_the_lists_name_tables() -> None:
    assert PEER_REFUSES.keys() | PEER_DIFFERS.keys() <= TABLES.keys()
    assert len(COMPARED) > 80


@pytest.mark.parametrize("case", COMPARED)
def test_both_give_the_same_rows(case: str) -> None:
    assert differences(through_peer(TABLES[case]), through_bridge(TABLES[case])) == []


@pytest.mark.parametrize("case", sorted(PEER_DIFFERS))
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
        # The peer lets one that is below 0 win over a delete without an ordering value, which counts as 0.
        assume(not any(one.row.get("_hoodie_is_deleted") and (one.row.get("ts") or 0) < 0 for one in log))
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), table, base, log)
            found, expected = through_bridge(Path(folder)), through_peer(Path(folder))
            assert differences(expected.select(table.names), found.select(table.names)) == []

    check()


def through_bridge(table: Path) -> pa.Table:
    return HudiTable.open(str(table)).snapshot().to_table()


def through_peer(table: Path) -> pa.Table:
    opened = hudi.HudiTableBuilder.from_base_uri(str(table)).build()
    batches = opened.read(hudi.HudiReadOptions())
    return pa.Table.from_batches(batches, None if batches else opened.get_schema_with_meta_fields())
