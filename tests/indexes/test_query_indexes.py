"""Each query type asks the indexes that serve it, and gives the same rows with them as without."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle, starmap

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiDataset, HudiTable
from hudi_bridge.config import QueryType
from hudi_bridge.errors import HudiReadError
from hudi_bridge.indexes.query_indexes import Describes, serves
from hudi_bridge.options import DATA_SKIPPING_KEY, METADATA_TABLE_KEY
from hudi_bridge.splits import table_files
from tests.support.compare import differences
from tests.support.golden_cases import golden_table, spread
from tests.support.strength import one_in

KEY = "_hoodie_record_key"
WITH_RECORD_INDEX = (
    "h_all_indexes_120",
    "h_expression_index_102",
    "h_partitioned_record_index_120",
    "h_record_index_0150",
    "h_record_index_120",
    "h_secondary_index_120",
    "h_secondary_index_updated_120",
    "h_sql_indexes_updated_102",
)
MODES: tuple[Mapping[str, str], ...] = ({}, {DATA_SKIPPING_KEY: "false"}, {METADATA_TABLE_KEY: "false"})
ALL = {QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED, QueryType.INCREMENTAL, QueryType.CHANGES}

Query = Callable[[HudiTable], HudiDataset]


@pytest.mark.parametrize(
    ("describes", "is_newest", "has_logs", "expected"),
    [
        (Describes.RECORDS, True, True, {QueryType.SNAPSHOT}),
        (Describes.RECORDS, True, False, {QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED}),
        (Describes.RECORDS, False, True, set()),
        (Describes.RECORDS, False, False, set()),
        (Describes.BASE_FILES, True, True, {QueryType.READ_OPTIMIZED}),
        (Describes.BASE_FILES, True, False, {QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED}),
        (Describes.BASE_FILES, False, True, set()),
        (Describes.BASE_FILES, False, False, set()),
        *(
            (Describes.FILES, newest, logs, ALL - {QueryType.CHANGES})
            for newest in (True, False)
            for logs in (True, False)
        ),
    ],
)
def test_what_serves_which_query(
    describes: Describes, is_newest: bool, has_logs: bool, expected: set[QueryType]
) -> None:
    assert {item for item in ALL if serves(describes, item, is_newest=is_newest, has_logs=has_logs)} == expected


def queries(table: HudiTable) -> Iterator[Query]:
    """Queries of every type that asks for rows, of the newest state and of earlier ones."""
    yield HudiTable.snapshot
    yield HudiTable.read_optimized
    yield partial(HudiTable.incremental, after="earliest")
    for commit in spread(table.timeline.commits(), 2):
        yield partial(HudiTable.snapshot, as_of=commit.requested_time)
        yield partial(HudiTable.read_optimized, as_of=commit.requested_time)
        yield partial(HudiTable.incremental, after=commit.requested_time)


def answered(query: Query, table: HudiTable) -> pa.Table | None:
    """All rows of a query; None if it is refused."""
    try:
        return query(table).to_table()
    except HudiReadError:
        return None


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("case", "few_folders"), one_in(5, starmap(pytest.param, tuple(zip(WITH_RECORD_INDEX, cycle((-1, 8))))))
)
def test_a_look_up_finds_the_rows_of_its_query(case: str, few_folders: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "_FEW_FOLDERS", few_folders)
    tables = [HudiTable.open(golden_table(case), options=options) for options in MODES]
    merged, bases = (
        set(map(str, query.to_table([KEY])[KEY].to_pylist()))
        for query in (tables[0].snapshot(), tables[0].read_optimized())
    )
    deleted = sorted(bases - merged)
    assert deleted, "the logs delete records that are in the base files"
    keys = [*deleted[:2], *spread(sorted(merged), 2), "nowhere"]
    for query in queries(tables[0]):
        everything = answered(query, tables[0])
        if everything is None:
            continue
        condition = pc.field(KEY).isin(keys)
        for table in tables:
            assert differences(everything.filter(condition), query(table).to_table(filter=condition)) == []
        condition = pc.field(KEY) == deleted[0]
        expected = everything.filter(condition)
        assert query(tables[0]).count_rows(filter=condition) == expected.num_rows
        assert differences(expected, query(tables[0]).get(deleted[0])) == []


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize("case", ["h_secondary_index_updated_120", "h_sql_indexes_updated_102"])
def test_values_of_an_indexed_column_are_those_of_the_query(case: str) -> None:
    tables = [HudiTable.open(golden_table(case), options=options) for options in MODES]
    cities = {
        city
        for query in (tables[0].snapshot(), tables[0].read_optimized())
        for city in query.to_table(["city"])["city"].to_pylist()
    }
    for query in queries(tables[0]):
        everything = answered(query, tables[0])
        if everything is None:
            continue
        for city in sorted(filter(None, cities)):
            condition = pc.field("city") == city
            for table in tables:
                assert differences(everything.filter(condition), query(table).to_table(filter=condition)) == []


def test_a_record_index_tells_of_the_newest_snapshot_alone() -> None:
    table = HudiTable.open(golden_table("h_record_index_120"))
    first = table.timeline.commits()[0].requested_time
    actual, same = table.snapshot().record_locations("k00001"), table.record_locations("k00001")
    assert actual is not None
    assert same is not None
    assert actual.equals(same)
    for other in (table.read_optimized(), table.snapshot(first), table.incremental("earliest")):
        assert other.record_locations("k00001") is None
