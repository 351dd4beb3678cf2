"""How many requests queries take of an object store, with each index and without: a table of upper bounds.

``cold`` is the first query after the table was opened, ``warm`` the same once more in the same process. Data are
requests for base and log files, meta those for the metadata table, the timeline and folders. The bounds of the latter
leave out the commits, each of which is read once at most: they name the files that have to be there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import starmap

import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable
from hudi_bridge.indexes import data_skipping
from hudi_bridge.splits import table_files
from tests.support.counting_files import CountingFileSystem, Requests
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in

ON: Mapping[str, str] = {}
NO_METADATA = {"hoodie.metadata.enable": "false"}
NO_INDEXES = {"hoodie.enable.data.skipping": "false"}
TIMES = {"hudi_bridge.completion.times": "true"}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
MOST_WARM_LOOK_UP, MOST_OF_A_FILE = 5, 3
"""What a warm look-up of one key may take, and any query of one data file."""


def look_up(table: HudiTable) -> int:
    return table.get("k00001").num_rows


def missing(table: HudiTable) -> int:
    return table.get("nowhere").num_rows


def selective(table: HudiTable) -> int:
    return table.snapshot().to_table(filter=pc.field("ts") == 5).num_rows


def partition(table: HudiTable) -> int:
    return table.snapshot().to_table(["ts"], pc.field("part") == "a").num_rows


def plan(table: HudiTable) -> int:
    return len(table.splits())


def of_city(table: HudiTable) -> int:
    return table.snapshot().to_table(filter=pc.field("city") == "Moved").num_rows


def of_lower(table: HudiTable) -> int:
    return table.snapshot().to_table(filter=pc.utf8_lower(pc.field("city")) == "new").num_rows


def of_price(table: HudiTable) -> int:
    return table.snapshot().to_table(filter=pc.field("price") > 200).num_rows


def above(table: HudiTable) -> int:
    return table.read_optimized().to_table(filter=pc.field("ts") > 5000).num_rows


def late(table: HudiTable) -> int:
    time = table.timeline.commits()[-2].completion_time
    return table.snapshot().to_table(["ts"], pc.field("_hoodie_commit_completion_time") > time).num_rows


def since(table: HudiTable) -> int:
    return table.incremental(table.timeline.commits()[5].completion_time or "").to_table().num_rows


def changed(table: HudiTable) -> int:
    return table.changes(table.timeline.commits()[5].completion_time or "").to_table().num_rows


@dataclass(frozen=True, slots=True)
class Count:
    """The most requests, the most bytes of data of the warm query, and its rows or splits."""

    cold_data: int
    cold_meta: int
    warm_data: int
    warm_bytes: int
    found: int
    warm_meta: int = 0


Case = tuple[str, Mapping[str, str], Callable[[HudiTable], int], Count]
# fmt: off
CASES: tuple[Case, ...] = (
    # table                             options      query      cold: data, meta; warm: data, bytes; found
    ("h_all_indexes_120",               ON,          look_up,   Count(6,  10, 4,  6_000,  1)),
    ("h_all_indexes_120",               NO_METADATA, look_up,   Count(56, 5,  4,  6_000,  1)),
    ("h_all_indexes_120",               NO_INDEXES,  look_up,   Count(56, 6,  37, 50_000, 1)),
    ("h_all_indexes_120",               ON,          missing,   Count(1,  10, 0,  0,      0)),
    ("h_all_indexes_120",               NO_METADATA, missing,   Count(55, 5,  0,  0,      0)),
    ("h_all_indexes_120",               NO_INDEXES,  missing,   Count(55, 6,  36, 48_500, 0)),
    ("h_all_indexes_120",               ON,          selective, Count(15, 18, 11, 17_000, 1)),
    ("h_all_indexes_120",               NO_METADATA, selective, Count(73, 5,  54, 66_500, 1)),
    ("h_all_indexes_120",               NO_INDEXES,  selective, Count(73, 6,  54, 66_500, 1)),
    ("h_all_indexes_120",               ON,          partition, Count(33, 6,  26, 24_000, 290)),
    ("h_all_indexes_120",               NO_METADATA, partition, Count(33, 5,  26, 24_000, 290)),
    ("h_all_indexes_120",               ON,          plan,      Count(1,  6,  0,  0,      18)),
    ("h_record_index_0150",             ON,          look_up,   Count(6,  9,  4,  6_000,  1)),
    ("h_record_index_0150",             NO_METADATA, look_up,   Count(56, 5,  4,  6_000,  1)),
    ("h_partitioned_record_index_120",  ON,          look_up,   Count(6,  12, 4,  6_000,  1)),
    ("h_partitioned_record_index_120",  ON,          missing,   Count(1,  12, 0,  0,      0)),
    ("h_bloom_footer_120",              ON,          look_up,   Count(56, 6,  4,  6_000,  1)),
    ("h_bloom_footer_120",              NO_INDEXES,  look_up,   Count(56, 6,  37, 53_000, 1)),
    ("h_bloom_footer_120",              ON,          missing,   Count(55, 6,  0,  0,      0)),
    ("h_column_stats_0150",             ON,          selective, Count(15, 12, 11, 17_000, 1)),
    ("h_column_stats_0150",             NO_METADATA, selective, Count(58, 5,  39, 54_500, 1)),
    ("d_bucket_index_120",              BUCKETS,     look_up,   Count(15, 6,  4,  5_000,  1)),
    ("d_bucket_index_120",              ON,          look_up,   Count(20, 6,  4,  5_000,  1)),
    ("h_bloom_mdt_120",                 ON,          look_up,   Count(40, 12, 4,  6_000,  1)),
    ("h_bloom_mdt_120",                 NO_METADATA, look_up,   Count(56, 5,  4,  6_000,  1)),
    ("h_secondary_index_updated_120",   ON,          of_city,   Count(10,  23, 9,  9_000,  4)),
    ("h_secondary_index_updated_120",   NO_METADATA, of_city,   Count(20, 4,  11, 10_500, 4)),
    ("h_secondary_index_updated_120",   NO_INDEXES,  of_city,   Count(20, 5,  17, 16_000, 4)),
    ("h_sql_indexes_updated_102",       ON,          of_lower,  Count(6,  44, 5,  5_500,  2)),
    ("h_sql_indexes_updated_102",       NO_METADATA, of_lower,  Count(10,  4,  9,  10_000, 2)),
    ("h_stats_of_nan_120",              ON,          of_price,  Count(14, 6,  10, 9_000,  2)),
    ("h_stats_of_nan_120",              NO_INDEXES,  of_price,  Count(14, 6,  11, 9_500,  2)),
    ("h_all_indexes_120",               TIMES,       look_up,   Count(5,  11, 4,  6_000,  1)),
    ("h_all_indexes_120",               TIMES,       partition, Count(33, 6,  26, 24_000, 290)),
    ("d_archived_120",                  TIMES,       late,      Count(7,  3,  6,  4_500,  7)),
    ("d_archived_0150",                 TIMES,       plan,      Count(1,  8,  0,  0,      3)),
    ("n_merge_every_120",               ON,          missing,   Count(10,  5,  0,  0,      0)),
    ("n_merge_every_120",               NO_INDEXES,  missing,   Count(10,  5,  5,  8_000,  0)),
    ("n_merge_every_120",               ON,          plan,      Count(1,  5,  0,  0,      2)),
)
OF_MANY_FOLDERS: tuple[Case, ...] = (
    # table                             options      query      cold: data, meta; warm: data, bytes; found; meta
    ("h_all_indexes_120",               ON,          plan,      Count(1,   10,  0,   0,       18)),
    ("h_all_indexes_120",               NO_METADATA, plan,      Count(1,   5,  0,   0,       18)),
    ("h_all_indexes_120",               ON,          since,     Count(37,  12, 36,  49_000,  98,  4)),
    ("h_all_indexes_120",               NO_METADATA, since,     Count(37,  8,  36,  49_000,  98,  7)),
    ("h_all_indexes_120",               ON,          changed,   Count(109, 15, 108, 275_000, 118, 7)),
    ("h_all_indexes_120",               NO_METADATA, changed,   Count(109, 11,  108, 275_000, 118, 10)),
    ("h_column_stats_120",              ON,          above,     Count(1,   13, 0,   0,       0)),
    ("h_column_stats_120",              NO_METADATA, above,     Count(19,  5,  0,   0,       0)),
)
"""As if the tables had more folders than are listed sooner than the metadata table is read."""
# fmt: on


def name_of(part: object) -> str:
    if callable(part):
        return str(getattr(part, "__name__", part))
    return "-".join(f"{name}={value}" for name, value in part.items()) if isinstance(part, Mapping) else str(part)


@pytest.mark.parametrize(
    ("table", "options", "query", "most"), one_in(3, starmap(pytest.param, OF_MANY_FOLDERS)), ids=name_of
)
def test_requests_of_tables_with_many_folders(
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    options: Mapping[str, str],
    query: Callable[[HudiTable], int],
    most: Count,
) -> None:
    monkeypatch.setattr(table_files, "_FEW_FOLDERS", 0)
    monkeypatch.setattr(data_skipping, "_FEW_PARTITIONS", 0)
    test_requests(table, options, query, most)


@pytest.mark.parametrize(("table", "options", "query", "most"), one_in(5, starmap(pytest.param, CASES)), ids=name_of)
def test_requests(table: str, options: Mapping[str, str], query: Callable[[HudiTable], int], most: Count) -> None:
    files = CountingFileSystem()
    opened = HudiTable.open(str(golden_table(table)), files, options)
    cold = files.reset()
    assert query(opened) == most.found
    commits = len(opened.timeline.commits())
    if options is not NO_METADATA and opened.config.metadata_partitions:
        commits += len(opened._metadata_table.own.timeline.commits())
    warm = files.reset()
    assert query(opened) == most.found
    assert (cold.reads <= most.cold_data, meta(cold) <= most.cold_meta + commits) == (True, True), cold
    assert (warm.reads <= most.warm_data, warm.read_bytes <= most.warm_bytes) == (True, True), warm
    assert meta(warm) <= most.warm_meta
    assert max(warm.by_file.values(), default=0) <= MOST_OF_A_FILE
    assert max(cold.by_file.values(), default=0) <= MOST_OF_A_FILE
    if query in (look_up, missing) and options is not NO_INDEXES:
        assert warm.all <= MOST_WARM_LOOK_UP


def meta(requests: Requests) -> int:
    return requests.all - requests.reads
