"""The golden tables as Arrow against the answers of Hudi itself, and replays of some changes, all with ``--matrix``."""

import datetime as dt
import re
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable, UnsupportedTableError
from hudi_bridge.config import OPERATION_FIELD_KEY
from hudi_bridge.options import HOLLOW_COMMITS_KEY, READ_AS_RELEASE_KEY
from hudi_bridge.splits import query_schema
from hudi_bridge.timeline.instant_range import ordering_time
from tests.support.change_replay import replay_differences
from tests.support.compare import differences
from tests.support.deviations import (
    ANSWERED,
    BEGIN_INCLUDED,
    BY_HAND,
    DEVIATING,
    FILTERED_LOGS,
    NOT_A_NUMBER,
    NULL_PARTITIONS,
    OTHER_JSON,
    REFUSED,
    REQUIRED_COLUMNS,
    TAKEN_OVER,
    TWINS,
    UNANSWERED,
)
from tests.support.golden_cases import ARCHIVES, golden_table, hand_written_rows
from tests.support.golden_queries import (
    CASES,
    QUERIES,
    Key,
    answer_of,
    chosen_cases,
    dataset_of,
    open_table,
    parsed,
    query_id,
    rows_through_arrow,
)
from tests.support.strength import one_in

CASES_PER_GROUP = 6
WRITE_COLUMNS = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name")
"""What differs between two tables written by the same operations."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
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
    actual = rows_through_arrow(dataset, query)
    assert differences(answer_of(query), actual) == []
    assert actual.schema == dataset.schema


@pytest.mark.parametrize("key", one_in(8, sorted(DEVIATING)), ids=query_id)
def test_deviations_are_deliberate(key: Key) -> None:
    query = QUERIES[key]
    assert differences(answer_of(query), rows_through_arrow(dataset_of(query), query))


@pytest.mark.parametrize(
    "key", one_in(4, [(case, index) for case, indices in BEGIN_INCLUDED.items() for index in indices]), ids=query_id
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
    expected, actual = (
        Counter((row["op"], row["ts_ms"], parsed(row["before"]), parsed(row["after"])) for row in rows.to_pylist())
        for rows in (answer_of(query), dataset_of(query).to_table())
    )
    assert actual == expected


@pytest.mark.parametrize("key", sorted(NOT_A_NUMBER), ids=query_id)
def test_arrow_compares_nan_as_it_does_elsewhere(key: Key) -> None:
    query = QUERIES[key]
    assert query.expression is not None
    dataset = dataset_of(query)
    assert differences(dataset.to_table().filter(query.expression), rows_through_arrow(dataset, query)) == []


@pytest.mark.parametrize("index", [0, 1, 4, 5])
def test_partition_columns_of_timestamps_are_all_that_differs(index: int) -> None:
    query = QUERIES["o_ptype_ts_120", index]
    expected, actual = answer_of(query), dataset_of(query).to_table()
    assert expected["p"].null_count == expected.num_rows > actual["p"].null_count
    assert differences(expected.drop_columns("p"), actual.drop_columns("p")) == []


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
    actual, twin = (dataset_of(QUERIES[case, index]).to_table() for case in ("w_operation_102", "w_operation_120"))
    assert differences(data_columns(twin), data_columns(actual)) == []


@pytest.mark.parametrize("case", one_in(3, sorted({case for case, _ in QUERIES if case.startswith("w_operation")})))
def test_operations_that_the_properties_do_not_tell_of_are_found_in_the_files(case: str, tmp_path: Path) -> None:
    copy = without_operations_in_properties(case, tmp_path)
    expected, actual = HudiTable.open(golden_table(case)), HudiTable.open(copy)
    assert actual.schema == expected.schema
    assert actual.schema.names[5] == "_hoodie_operation"
    for commit in expected.timeline.commits():
        instant = commit.requested_time
        rows = [table.snapshot(instant).to_table() for table in (expected, actual)]
        assert differences(*rows) == []


def test_operations_that_are_not_found_are_refused_without_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_schema, "_MOST_FILES", 0)
    copy = without_operations_in_properties("w_operation_120", tmp_path)
    with pytest.raises(UnsupportedTableError, match=f"_hoodie_operation in .*{OPERATION_FIELD_KEY}=true"):
        HudiTable.open(copy).snapshot().to_table()
    actual = HudiTable.open(copy, options={OPERATION_FIELD_KEY: "true"}).snapshot().to_table()
    assert differences(answer_of(QUERIES["w_operation_120", 0]), actual) == []


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


@pytest.mark.parametrize("key", one_in(4, sorted(TWINS)), ids=query_id)
def test_rows_that_hudi_cannot_read_are_those_of_the_same_operations_in_another_form(key: Key) -> None:
    query, twin = QUERIES[key], QUERIES[TWINS[key]]
    actual = rows_through_arrow(dataset_of(query), query)
    assert differences(data_columns(answer_of(twin)), data_columns(actual)) == []


@pytest.mark.parametrize("key", sorted(BY_HAND), ids=query_id)
def test_rows_that_hudi_cannot_read_follow_from_its_rules(key: Key) -> None:
    query = QUERIES[key]
    columns, rows = hand_written_rows(query.case)
    expected = [dict(zip(columns, row, strict=True)) for row in rows if row[0] not in BY_HAND[key]]
    actual = rows_through_arrow(dataset_of(query), query).select(columns)
    assert differences(pa.Table.from_pylist(expected, actual.schema), actual) == []


def data_columns(table: pa.Table) -> pa.Table:
    return table.drop_columns(list(WRITE_COLUMNS))
