"""The golden tables against the answers of Hudi itself: all as Arrow; through DuckDB some, with ``--matrix`` all."""

import json
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiDataset, HudiReadError, HudiTable, InstantNotReadableError, UnsupportedTableError
from hudi_bridge.config import HOLLOW_COMMITS_KEY
from tests.change_replay import replay_differences
from tests.compare import differences
from tests.golden_cases import (
    ARCHIVES,
    CHANGE_KINDS,
    ROW_KINDS,
    GoldenQuery,
    golden_queries,
    golden_table,
    hand_written_rows,
)

CASES_PER_GROUP = 10
WRITE_COLUMNS = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name")
"""What differs between two tables written by the same operations."""

OPERATORS = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


Key = tuple[str, int]
"""A case and the place of a query in it."""


def query_id(key: Key) -> str:
    return QUERIES[key].name


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """Queries to a case for which other rows than Hudi's are returned, deliberately."""

    case: str
    indices: tuple[int, ...]
    reason: str


BEGIN_INCLUDED: Mapping[str, tuple[int, ...]] = {
    "a_story_v8_102": (9,),
    "a_story_v8_102_intts": (8, 9),
    "b_commit_time_102": (8, 9),
    "b_sql_partial_102": (9, 10),
    "d_compacted_only_102": (7, 8),
    "h_expression_index_102": (5, 6),
    "i_cdc_102": (9, 11),
}
"""Incremental queries whose answers contain the rows of the begin."""

OTHER_JSON: Mapping[str, tuple[int, ...]] = {"i_cdc_0150": (8, 10, 12)}
"""Queries for changes whose answers have the same images in other JSON."""

DEVIATIONS = (
    Deviation(
        case="b_spark_merger_0150",
        indices=(0, 3, 4, 5, 6, 7),
        reason="the merger was an option of the session that wrote; what the table stores calls for another rule",
    ),
    *(
        Deviation(
            case=case,
            indices=indices,
            reason="Hudi 1.0 includes the begin of a range, all other releases leave it out, so that ranges join",
        )
        for case, indices in BEGIN_INCLUDED.items()
    ),
    *(
        Deviation(case=case, indices=indices, reason="the JSON of images is that of Hudi 1.1 and later in all tables")
        for case, indices in OTHER_JSON.items()
    ),
    Deviation(case="i_cdc_102", indices=(8, 10), reason="Hudi 1.0 returns every second change only"),
)
"""Mirrored for users in docs/compatibility.md."""

TWINS = {
    ("b_null_ordering_120", 0): ("b_null_ordering_int_120", 0),
    ("b_null_ordering_120", 3): ("b_null_ordering_int_120", 3),
    ("b_null_ordering_120", 4): ("b_null_ordering_int_120", 4),
    ("b_null_ordering_120", 5): ("b_null_ordering_int_120", 5),
    ("b_null_ordering_120", 6): ("b_null_ordering_int_120", 6),
    **{("c_hfile_blocks_120", index): ("c_avro_blocks_120", index) for index in (0, 3, 4, 5, 6, 7, 8, 9)},
}
"""Queries that Hudi failed to answer, with the same query to a table that the same operations wrote in another form."""

BY_HAND: Mapping[Key, tuple[str, ...]] = {
    ("b_null_ordering_120", 0): (),
    ("b_null_ordering_base_120", 0): (),
    ("b_null_ordering_base_120", 3): ("k9",),
    ("b_null_ordering_base_120", 4): (),
    ("b_null_ordering_base_120", 5): (),
}
"""Queries that Hudi failed to answer, where the rows were worked out by hand, with the keys not yet written by then."""

REFUSALS: Mapping[str, type[HudiReadError]] = {
    "Cleaner cleaned up": InstantNotReadableError,
    "must be earlier than the first incomplete commit": InstantNotReadableError,
    "Found hollow commit": InstantNotReadableError,
    "java.io.FileNotFoundException": InstantNotReadableError,
    "not supported when meta fields are disabled": UnsupportedTableError,
}
"""What Hudi says where it refuses to answer, most of all where files are no longer, or not yet, all there."""

QUERIES = {(query.case, query.index): query for query in golden_queries((*ROW_KINDS, *CHANGE_KINDS))}
DEVIATING = {(deviation.case, index) for deviation in DEVIATIONS for index in deviation.indices}
ANSWERED = {key for key, query in QUERIES.items() if query.answer is not None} - DEVIATING
REFUSED = {
    key: error
    for key, query in QUERIES.items()
    for text, error in REFUSALS.items()
    if query.answer is None and text in (query.hudi_error or "")
}
WITHOUT_COLUMNS = {key for key in ANSWERED if key[0].startswith("i_only_inflight")}
"""Tables without a completed commit have no columns yet, which no SQL engine can show."""


def representative(keys: Iterable[Key], cases_per_group: int) -> list[Key]:
    """Of some queries, the first of each kind to some cases of each group."""
    keys = sorted(keys)
    cases: dict[str, list[str]] = defaultdict(list)
    for case in sorted({case for case, _ in keys}):
        cases[case[0]].append(case)
    chosen = {name for names in cases.values() for name in names[:: max(1, len(names) // cases_per_group)]}
    first: dict[tuple[str, str], Key] = {}
    for key in keys:
        if key[0] in chosen:
            first.setdefault((key[0], QUERIES[key].kind), key)
    return sorted(first.values())


def parametrize_keys(metafunc: pytest.Metafunc, keys: Iterable[Key], cases_per_group: int) -> None:
    """Ask all queries with ``--matrix``, otherwise ``representative`` ones."""
    is_matrix = metafunc.config.getoption("--matrix")
    metafunc.parametrize("key", sorted(keys) if is_matrix else representative(keys, cases_per_group), ids=query_id)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.function is test_duckdb_rows_are_those_of_hudi:
        parametrize_keys(metafunc, ANSWERED - WITHOUT_COLUMNS, CASES_PER_GROUP)


def test_the_catalogue_names_every_table() -> None:
    catalogue = (ARCHIVES / "README.md").read_text()
    listed = re.findall(r"^\| ([a-i]_\w+) \|", catalogue, re.MULTILINE)
    assert sorted(listed) == sorted({case for case, _ in QUERIES})


def test_every_query_of_every_table_has_its_place() -> None:
    places = [ANSWERED, DEVIATING, set(REFUSED), set(TWINS), set(BY_HAND) - set(TWINS)]
    assert sum(map(len, places)) == len(QUERIES)
    assert set().union(*places) == set(QUERIES)


@pytest.mark.parametrize("key", sorted(ANSWERED), ids=query_id)
def test_arrow_rows_are_those_of_hudi(key: Key) -> None:
    query = QUERIES[key]
    dataset = dataset_of(query)
    found = rows_through_arrow(dataset, query)
    assert differences(answer_of(query), found) == []
    assert found.schema == dataset.schema


@pytest.mark.engine("duckdb")
def test_duckdb_rows_are_those_of_hudi(key: Key, connection: duckdb.DuckDBPyConnection) -> None:
    query = QUERIES[key]
    found = rows_through_duckdb(connection, dataset_of(query), query)
    assert differences(answer_of(query), found) == []


@pytest.mark.parametrize("key", sorted(DEVIATING), ids=query_id)
def test_deviations_are_deliberate(key: Key) -> None:
    query = QUERIES[key]
    assert differences(answer_of(query), rows_through_arrow(dataset_of(query), query))


@pytest.mark.parametrize(
    "key", [(case, index) for case, indices in BEGIN_INCLUDED.items() for index in indices], ids=query_id
)
def test_hudi_10_includes_the_begin_of_a_range(key: Key) -> None:
    query = QUERIES[key]
    a_millisecond_before = str(int(query.after) - 1)
    included = open_table(query.table).incremental(a_millisecond_before, query.up_to)
    assert differences(answer_of(query), included.to_table()) == []


@pytest.mark.parametrize(
    "key", [(case, index) for case, indices in OTHER_JSON.items() for index in indices], ids=query_id
)
def test_images_in_other_json_are_the_same(key: Key) -> None:
    query = QUERIES[key]
    expected, found = (
        Counter((row["op"], row["ts_ms"], parsed(row["before"]), parsed(row["after"])) for row in rows.to_pylist())
        for rows in (answer_of(query), dataset_of(query).to_table())
    )
    assert found == expected


def test_hudi_10_returns_every_second_change() -> None:
    for index in (8, 10):
        query = QUERIES["i_cdc_102", index]
        assert 2 * answer_of(query).num_rows == dataset_of(query).count_rows()


@pytest.mark.parametrize("case", sorted({case for case, _ in QUERIES}))
def test_replaying_changes_leads_from_snapshot_to_snapshot(case: str) -> None:
    assert replay_differences(HudiTable.open(str(golden_table(case)), options={HOLLOW_COMMITS_KEY: "BLOCK"})) == []


@pytest.mark.parametrize("key", sorted(REFUSED), ids=query_id)
def test_what_hudi_refuses_is_refused(key: Key) -> None:
    query = QUERIES[key]
    with pytest.raises(REFUSED[key], match=query.as_of):
        dataset_of(query)


@pytest.mark.parametrize("key", sorted(TWINS), ids=query_id)
def test_rows_that_hudi_cannot_read_are_those_of_the_same_operations_in_another_form(key: Key) -> None:
    query, twin = QUERIES[key], QUERIES[TWINS[key]]
    found = rows_through_arrow(dataset_of(query), query)
    assert differences(data_columns(answer_of(twin)), data_columns(found)) == []


@pytest.mark.parametrize("key", sorted(BY_HAND), ids=query_id)
def test_rows_that_hudi_cannot_read_follow_from_its_rules(key: Key) -> None:
    query = QUERIES[key]
    columns, rows = hand_written_rows(query.case)
    expected = [dict(zip(columns, row, strict=True)) for row in rows if row[0] not in BY_HAND[key]]
    found = rows_through_arrow(dataset_of(query), query).select(columns)
    assert differences(pa.Table.from_pylist(expected, found.schema), found) == []


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@lru_cache(maxsize=2)
def open_table(path: Path) -> HudiTable:
    return HudiTable.open(str(path))


def dataset_of(query: GoldenQuery) -> HudiDataset:
    table = open_table(query.table)
    if query.kind == "incremental":
        return table.incremental(query.after, query.up_to)
    if query.kind in CHANGE_KINDS:
        return table.changes(query.after, query.up_to, format="cdc")
    return table.read_optimized() if query.kind == "read_optimized" else table.snapshot(query.as_of)


def answer_of(query: GoldenQuery) -> pa.Table:
    assert query.answer is not None
    return pq.read_table(query.answer)


def rows_through_arrow(dataset: HudiDataset, query: GoldenQuery) -> pa.Table:
    conditions = [OPERATORS[name](pc.field(column), value) for column, name, value in query.comparisons]
    return dataset.to_table(filter=reduce(operator.and_, conditions) if conditions else None)


def rows_through_duckdb(connection: duckdb.DuckDBPyConnection, dataset: HudiDataset, query: GoldenQuery) -> pa.Table:
    connection.register("hudi_rows", dataset)
    conditions = " AND ".join(f'"{column}" {name} ?' for column, name, _ in query.comparisons) or "true"
    values = [value for _, _, value in query.comparisons]
    rows: pa.Table = connection.sql(f"SELECT * FROM hudi_rows WHERE {conditions}", params=values).to_arrow_table()
    return rows


def parsed(image: str | None) -> str | None:
    """An image whatever the order of its fields, and whether or not it says which of them are null."""
    fields = json.loads(image or "null")
    return fields and json.dumps({name: value for name, value in fields.items() if value is not None}, sort_keys=True)


def data_columns(table: pa.Table) -> pa.Table:
    return table.drop_columns(list(WRITE_COLUMNS))
