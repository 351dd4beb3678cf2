"""The golden tables against the answers of Hudi itself: all as Arrow; through DuckDB and Polars, and of replays of
changes, some, with ``--matrix`` all.
"""

import datetime as dt
import json
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiDataset, HudiTable, UnsupportedTableError
from hudi_bridge.config import OPERATION_FIELD_KEY
from hudi_bridge.connectors.duckdb import INCREMENTAL, READ_OPTIMIZED, attach
from hudi_bridge.connectors.polars import scan_dataset
from hudi_bridge.options import HOLLOW_COMMITS_KEY, READ_AS_RELEASE_KEY
from hudi_bridge.splits import stored_schema
from hudi_bridge.timeline.instant_range import ordering_time
from tests.support.change_replay import replay_differences
from tests.support.compare import differences
from tests.support.golden_cases import (
    ARCHIVES,
    CHANGE_KINDS,
    ROW_KINDS,
    GoldenQuery,
    golden_group,
    golden_queries,
    golden_table,
    hand_written_rows,
    spread,
)
from tests.support.hudi_failures import failures_of

CASES_PER_GROUP = 6
WRITE_COLUMNS = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name")
"""What differs between two tables written by the same operations."""

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


TAKEN_OVER = "m_v6_plain_120"
"""A table of Hudi 0.15 to which 1.2 writes without a trace in its properties."""

NULL_PARTITIONS = "e_ts_keygen_partial_102"
"""A table with a timestamp key generator and a payload, whose partition column Hudi 1.0 loses in slices with logs."""

FILTERED_LOGS = "e_composite_filtered_111"
"""A table with Parquet logs that Spark filtered by record."""

REQUIRED_COLUMNS = "g_required_column_120"
"""A table with columns of numbers that must not be null, and that a base file lacks."""

BEGIN_INCLUDED: Mapping[str, tuple[int, ...]] = {
    "a_story_v8_102": (9,),
    "a_story_v8_102_intts": (8, 9),
    "b_commit_time_102": (8, 9),
    "b_sql_partial_102": (9, 10),
    "d_compacted_only_102": (7, 8),
    "h_expression_index_102": (5, 6),
    "h_sql_indexes_updated_102": (7, 8),
    "i_cdc_102": (9, 11),
}
"""Incremental queries whose answers contain the rows of the begin."""

WRITTEN_BESIDE_A_PENDING_COMPACTION: Mapping[str, tuple[int, ...]] = {
    "k_min_nbcc_pending_120": (4, 5, 7),
    "k_nbcc_pending_120": (3,),
}
"""Queries that concern a commit that completed after a compaction was planned, and was requested before."""

OTHER_JSON: Mapping[str, tuple[int, ...]] = {"i_cdc_0150": (8, 10, 12), "q_cdc_key_0150": (10,)}
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
    *(
        Deviation(
            case=case, indices=indices, reason="Hudi leaves the rows of a slow writer out until a compaction has run"
        )
        for case, indices in WRITTEN_BESIDE_A_PENDING_COMPACTION.items()
    ),
    Deviation(
        case="w_operation_102",
        indices=(0, 4, 5, 6, 7, 8, 9),
        reason="Hudi 1.0 on Spark returns the deletes of a changelog as rows",
    ),
    Deviation(
        case="q_cdc_key_0150",
        indices=(6, 8),
        reason="Hudi 0.15 repeats one row for all of a replaced group, and tells late records that no snapshot has",
    ),
    Deviation(
        case=TAKEN_OVER,
        indices=(0, 3, 4, 5, 6),
        reason="the properties do not tell that 1.x has written to the table; an option does",
    ),
    Deviation(
        case="o_ptype_ts_120",
        indices=(0, 1, 2, 3, 4, 5),
        reason="Hudi 1.2 gives null for a partition column of type timestamp; the files have its values",
    ),
    Deviation(
        case="h_stats_of_nan_120",
        indices=(3,),
        reason="Hudi passes over a file whose numbers have a NaN, as its column stats have 0.0 for their range",
    ),
    Deviation(
        case=NULL_PARTITIONS,
        indices=(0, 2, 3, 4, 5),
        reason="Hudi 1.0 gives null for the partition column of a timestamp key generator where a payload merges",
    ),
    Deviation(
        case=FILTERED_LOGS,
        indices=(2, 3, 4),
        reason="Hudi 1.1 filters the records of a Parquet log block before it pairs them with their positions",
    ),
    Deviation(
        case=REQUIRED_COLUMNS,
        indices=(0, 2, 5, 6),
        reason="Hudi 1.2 gives zeros for numbers that must not be null, and that a base file lacks",
    ),
)
"""Mirrored for users in docs/compatibility.md."""

TWINS = {
    ("b_null_ordering_120", 0): ("b_null_ordering_int_120", 0),
    ("b_null_ordering_120", 3): ("b_null_ordering_int_120", 3),
    ("b_null_ordering_120", 4): ("b_null_ordering_int_120", 4),
    ("b_null_ordering_120", 5): ("b_null_ordering_int_120", 5),
    ("b_null_ordering_120", 6): ("b_null_ordering_int_120", 6),
    **{("c_hfile_blocks_120", index): ("c_avro_blocks_120", index) for index in (0, 3, 4, 5, 6, 7, 8, 9)},
    **{("v_vector_hfile_120", index): ("v_vector_avro_120", index) for index in (0, 3, 4, 5)},
}
"""Queries that Hudi failed to answer, with the same query to a table that the same operations wrote in another form."""

BY_HAND: Mapping[Key, tuple[str, ...]] = {
    ("b_null_ordering_120", 0): (),
    ("b_null_ordering_base_120", 0): (),
    ("b_null_ordering_base_120", 3): ("k9",),
    ("b_null_ordering_base_120", 4): (),
    ("b_null_ordering_base_120", 5): (),
    (REQUIRED_COLUMNS, 1): (),
}
"""Queries that Hudi failed to answer, where the rows were worked out by hand, with the keys not yet written by then."""

UNANSWERED: Mapping[Key, str] = {("m_call_pending_120", 7): "No value present"}
"""Queries that Hudi failed to answer, though nothing is missing from the table, with what it said."""

NOT_A_NUMBER = {("p_ext_avro_120", 2), ("p_ext_avro_120", 11)}
"""Conditions that depend on whether NaN is above all numbers, as in Spark and DuckDB, or not, as in Arrow and Trino."""

NOT_IN_SQL_OF_POLARS: Mapping[str, pl.Expr] = {
    "t < timestamptz '1901-01-01 00:00:00+00'": pl.col("t") < dt.datetime(1901, 1, 1, tzinfo=dt.UTC),
    "t < timestamptz '2020-01-01 05:00:00+00'": pl.col("t") < dt.datetime(2020, 1, 1, 5, tzinfo=dt.UTC),
    "bin = '\\x00'::blob": pl.col("bin") == b"\x00",
    "length(id) = 6 and len(arr) = 2": (pl.col("id").str.len_chars() == 6) & (pl.col("arr").list.len() == 2),
}
"""Conditions of DuckDB that the SQL of Polars lacks words for."""

QUERIES = {(query.case, query.index): query for query in golden_queries((*ROW_KINDS, *CHANGE_KINDS))}
DEVIATING = {(deviation.case, index) for deviation in DEVIATIONS for index in deviation.indices}
CASES = {case for case, _ in QUERIES}
ANSWERED = {key for key, query in QUERIES.items() if query.answer is not None} - DEVIATING
REFUSED = {
    key: failure.refused_as
    for key, query in QUERIES.items()
    for failure in failures_of(query)
    if query.answer is None and failure.refused_as is not None
}
"""Queries that Hudi refuses to answer, most of all where files are no longer, or not yet, all there."""
WITHOUT_COLUMNS = {key for key in ANSWERED if key[0].startswith("i_only_inflight")}
"""Tables without a completed commit have no columns yet, which no SQL engine can show."""


def chosen_cases(cases: Iterable[str], cases_per_group: int) -> set[str]:
    """Some cases of each group, spread over it."""
    groups: dict[str, list[str]] = defaultdict(list)
    for case in sorted(cases):
        groups[golden_group(case)].append(case)
    return {name for names in groups.values() for name in spread(names, cases_per_group)}


def representative(keys: Iterable[Key], cases_per_group: int) -> list[Key]:
    """Of some queries, the first of each kind to some cases of each group."""
    keys = sorted(keys)
    chosen = chosen_cases({case for case, _ in keys}, cases_per_group)
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
    if metafunc.function is test_polars_rows_are_those_of_hudi:
        parametrize_keys(metafunc, ANSWERED, CASES_PER_GROUP)
    if metafunc.function is test_replaying_changes_leads_from_snapshot_to_snapshot:
        is_matrix = metafunc.config.getoption("--matrix")
        metafunc.parametrize("case", sorted(CASES if is_matrix else chosen_cases(CASES, CASES_PER_GROUP)))


def test_the_catalogue_names_every_table() -> None:
    catalogue = (ARCHIVES / "README.md").read_text()
    listed = re.findall(r"^\| ([a-z]_\w+) \|", catalogue, re.MULTILINE)
    assert sorted(listed) == sorted(CASES)


def test_every_query_of_every_table_has_its_place() -> None:
    places = [ANSWERED, DEVIATING, set(REFUSED), set(TWINS), set(BY_HAND) - set(TWINS), set(UNANSWERED)]
    assert sum(map(len, places)) == len(QUERIES)
    assert set().union(*places) == set(QUERIES)


@pytest.mark.parametrize("key", sorted(ANSWERED - NOT_A_NUMBER), ids=query_id)
def test_arrow_rows_are_those_of_hudi(key: Key) -> None:
    query = QUERIES[key]
    dataset = dataset_of(query)
    found = rows_through_arrow(dataset, query)
    assert differences(answer_of(query), found) == []
    assert found.schema == dataset.schema


@pytest.mark.engine("duckdb")
def test_duckdb_rows_are_those_of_hudi(key: Key, connection: duckdb.DuckDBPyConnection) -> None:
    query = QUERIES[key]
    assert differences(answer_of(query), rows_through_duckdb(connection, query)) == []


@pytest.mark.engine("polars")
def test_polars_rows_are_those_of_hudi(key: Key) -> None:
    query = QUERIES[key]
    found = rows_through_polars(dataset_of(query), query)
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


@pytest.mark.parametrize("key", sorted(NOT_A_NUMBER), ids=query_id)
def test_arrow_compares_nan_as_it_does_elsewhere(key: Key) -> None:
    query = QUERIES[key]
    assert query.expression is not None
    dataset = dataset_of(query)
    assert differences(dataset.to_table().filter(query.expression), rows_through_arrow(dataset, query)) == []


@pytest.mark.parametrize("index", [0, 1, 4, 5])
def test_partition_columns_of_timestamps_are_all_that_differs(index: int) -> None:
    query = QUERIES["o_ptype_ts_120", index]
    expected, found = answer_of(query), dataset_of(query).to_table()
    assert expected["p"].null_count == expected.num_rows > found["p"].null_count
    assert differences(expected.drop_columns("p"), found.drop_columns("p")) == []


@pytest.mark.parametrize("key", [key for key in sorted(DEVIATING) if key[0] == NULL_PARTITIONS], ids=query_id)
def test_partition_columns_that_hudi_10_loses_are_those_of_the_files(key: Key) -> None:
    query = QUERIES[key]
    expected, rows = answer_of(query), dataset_of(query).to_table()
    assert expected["part"].null_count > rows["part"].null_count == 0
    assert differences(expected.drop_columns("part"), rows.drop_columns("part")) == []
    days = [dt.datetime.fromtimestamp(int(row["part"]) / 1000, dt.UTC) for row in rows.to_pylist()]
    assert [f"{day:%Y/%m/%d}" for day in days] == rows["_hoodie_partition_path"].to_pylist()


@pytest.mark.parametrize("key", [key for key in sorted(DEVIATING) if key[0] == FILTERED_LOGS], ids=query_id)
def test_filters_on_key_fields_give_rows_of_the_snapshot_where_hudi_11_repeats_keys(key: Key) -> None:
    query = QUERIES[key]
    assert query.expression is not None
    keys = answer_of(query)["_hoodie_record_key"]
    assert len(keys) > pc.count_distinct(keys).as_py()
    expected = answer_of(QUERIES[FILTERED_LOGS, 0]).filter(query.expression)
    assert differences(expected, rows_through_arrow(dataset_of(query), query)) == []


@pytest.mark.parametrize("key", [key for key in sorted(DEVIATING) if key[0] == REQUIRED_COLUMNS], ids=query_id)
def test_zeros_of_columns_that_a_file_lacks_are_nulls(key: Key) -> None:
    query = QUERIES[key]
    expected = answer_of(query)
    assert 0 in expected["num"].to_pylist()
    for name in ("must", "num"):
        values = pa.array([value or None for value in expected[name].to_pylist()], expected.schema.field(name).type)
        expected = expected.set_column(expected.column_names.index(name), name, values)
    if query.expression is not None:
        expected = expected.filter(query.expression)
    assert differences(expected, rows_through_arrow(dataset_of(query), query)) == []


@pytest.mark.parametrize("key", [key for key in sorted(QUERIES) if key[0] == TAKEN_OVER], ids=query_id)
def test_a_table_that_1x_has_taken_over_is_read_by_its_rules_if_asked(key: Key) -> None:
    query = QUERIES[key]
    table = HudiTable.open(str(query.table), options={READ_AS_RELEASE_KEY: "1.2"})
    assert differences(answer_of(query), rows_through_arrow(dataset_of(query, table), query)) == []


@pytest.mark.parametrize("key", sorted(UNANSWERED), ids=query_id)
def test_a_range_that_hudi_cannot_answer_has_the_rows_of_the_snapshot_that_were_written_in_it(key: Key) -> None:
    query = QUERIES[key]
    assert UNANSWERED[key] in (query.hudi_error or "")
    table = open_table(query.table)
    written = {
        commit.requested_time
        for commit in table.timeline.commits()
        if query.after < ordering_time(commit, table.config) <= (query.up_to or "9")
    }
    snapshot = table.snapshot(max(written)).to_table()
    expected = snapshot.filter(pc.is_in(snapshot["_hoodie_commit_time"], pa.array(sorted(written))))
    assert differences(expected, dataset_of(query).to_table()) == []


@pytest.mark.parametrize("index", [0, 1, 4, 5])
def test_deletes_of_a_changelog_that_10_wrote_are_those_of_the_same_changes_by_12(index: int) -> None:
    found, twin = (dataset_of(QUERIES[case, index]).to_table() for case in ("w_operation_102", "w_operation_120"))
    assert differences(data_columns(twin), data_columns(found)) == []


@pytest.mark.parametrize("case", sorted({case for case, _ in QUERIES if case.startswith("w_operation")}))
def test_operations_that_the_properties_do_not_tell_of_are_found_in_the_files(case: str, tmp_path: Path) -> None:
    copy = without_operations_in_properties(case, tmp_path)
    expected, found = HudiTable.open(golden_table(case)), HudiTable.open(copy)
    assert found.schema == expected.schema
    assert found.schema.names[5] == "_hoodie_operation"
    for one in expected.timeline.commits():
        instant = one.requested_time
        rows = [table.snapshot(instant).to_table() for table in (expected, found)]
        assert differences(*rows) == []


def test_operations_that_are_not_found_are_refused_without_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_schema, "_MOST_FILES", 0)
    copy = without_operations_in_properties("w_operation_120", tmp_path)
    with pytest.raises(UnsupportedTableError, match=f"_hoodie_operation in .*{OPERATION_FIELD_KEY}=true"):
        HudiTable.open(copy).snapshot().to_table()
    found = HudiTable.open(copy, options={OPERATION_FIELD_KEY: "true"}).snapshot().to_table()
    assert differences(answer_of(QUERIES["w_operation_120", 0]), found) == []


def without_operations_in_properties(case: str, folder: Path) -> Path:
    """A copy of a table, whose properties do not say that its rows have operations."""
    copy = Path(shutil.copytree(golden_table(case), folder / "table"))
    properties = copy / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace(f"{OPERATION_FIELD_KEY}=true\n", ""))
    assert OPERATION_FIELD_KEY not in properties.read_text()
    return copy


def test_hudi_10_returns_every_second_change() -> None:
    for index in (8, 10):
        query = QUERIES["i_cdc_102", index]
        assert 2 * answer_of(query).num_rows == dataset_of(query).count_rows()


@pytest.mark.long
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


def dataset_of(query: GoldenQuery, table: HudiTable | None = None) -> HudiDataset:
    table = table or open_table(query.table)
    if query.kind == "incremental":
        return table.incremental(query.after, query.up_to)
    if query.kind in CHANGE_KINDS:
        return table.changes(query.after, query.up_to, format="cdc")
    return table.read_optimized() if query.kind == "read_optimized" else table.snapshot(query.as_of)


def answer_of(query: GoldenQuery) -> pa.Table:
    assert query.answer is not None
    return pq.read_table(query.answer)


def rows_through_arrow(dataset: HudiDataset, query: GoldenQuery) -> pa.Table:
    return dataset.to_table(filter=query.expression)


def rows_through_duckdb(connection: duckdb.DuckDBPyConnection, query: GoldenQuery) -> pa.Table:
    table, name = open_table(query.table), "hudi_rows"
    if query.kind in CHANGE_KINDS:
        name = "hudi_changes"
        connection.register(name, dataset_of(query))
    elif query.kind == "incremental":
        name = attach(connection, table, name, after=query.after, up_to=query.up_to).name + INCREMENTAL
    else:
        name = attach(connection, table, name, as_of=query.as_of).name
        name += READ_OPTIMIZED if query.kind == "read_optimized" else ""
    rows: pa.Table = connection.sql(f"SELECT * FROM {name} WHERE {query.where_in_duckdb}").to_arrow_table()
    return rows


def rows_through_polars(dataset: HudiDataset, query: GoldenQuery) -> pa.Table:
    rows = scan_dataset(dataset)
    if (where := query.where_in_duckdb) != "true":
        rows = rows.filter(NOT_IN_SQL_OF_POLARS[where] if where in NOT_IN_SQL_OF_POLARS else pl.sql_expr(where))
    return rows.collect().to_arrow()


def parsed(image: str | None) -> str | None:
    """An image whatever the order of its fields, and whether or not it says which of them are null."""
    fields = json.loads(image or "null")
    return fields and json.dumps({name: value for name, value in fields.items() if value is not None}, sort_keys=True)


def data_columns(table: pa.Table) -> pa.Table:
    return table.drop_columns(list(WRITE_COLUMNS))
