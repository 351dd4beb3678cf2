import pickle

import pytest

from hudi_bridge import HudiTable
from hudi_bridge.connectors.spark.options import parse_options
from hudi_bridge.connectors.spark.plan import PinnedQuery, SplitPickles, load_split
from hudi_bridge.connectors.split_tasks import pack
from tests.support.golden_cases import golden_table

MB = 1 << 20


@pytest.mark.parametrize(
    ("weights", "task_bytes", "parallelism", "loads"),
    [
        ([], MB, 4, []),
        ([0, 0], 128 * MB, 1, [0]),
        ([100 * MB] * 4, 200 * MB, 1, [133, 133, 134]),
        ([300 * MB, 10, 10], 128 * MB, 1, [0, 0, 300]),
        ([16 * MB] * 4, 128 * MB, 4, [16, 16, 16, 16]),
        ([1 * MB] * 4, 128 * MB, 4, [2, 2]),
        ([1, 1, 1], 1, 1, [0, 0, 0]),
    ],
)
def test_tasks_are_of_about_one_size(weights: list[int], task_bytes: int, parallelism: int, loads: list[int]) -> None:
    groups = pack(weights, task_bytes, parallelism)
    assert sorted(location for group in groups for location in group) == list(range(len(weights)))
    actual = sorted(sum(weights[location] for location in group) // MB for group in groups)
    assert len(actual) == len(loads)
    assert sum(actual) == pytest.approx(sum(loads), abs=len(loads))


def test_a_context_travels_once_beside_the_splits() -> None:
    splits = HudiTable.open(str(golden_table("a_story_v9_120"))).splits()
    pickles = SplitPickles()
    pickled = [pickles.dump(split) for split in splits]
    assert pickles.contexts == [splits[0].context]
    assert [load_split(item, pickles.contexts) for item in pickled] == splits
    assert max(map(len, pickled)) < 1500


def test_a_pinned_query_is_small_and_stays_where_it_is() -> None:
    path = str(golden_table("a_story_v9_120"))
    query = PinnedQuery.of(parse_options({"path": path}))
    before = len(pickle.dumps(query))
    plan = query.plan()
    assert len(pickle.dumps(query)) == before
    again = pickle.loads(pickle.dumps(query))
    assert again.plan() == plan
    assert again.table.latest_instant == query.table.latest_instant


def test_hudis_own_columns_are_left_out_unless_columns_are_named() -> None:
    path = str(golden_table("a_story_v9_120"))
    query = PinnedQuery.of(parse_options({"path": path, "metaColumns": "false"}))
    own = [name for name in query.full_schema.names if not name.startswith("_hoodie_")]
    assert query.schema.names == query.plan().reading.schema.names == own
    named = PinnedQuery.of(parse_options({"path": path, "metaColumns": "false", "columns": "_hoodie_record_key"}))
    assert named.schema.names == ["_hoodie_record_key"]
