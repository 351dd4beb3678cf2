"""Looks up keys in tables of Hudi, with and without indexes, and compares the rows with those of Hudi's answers."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable, QueryError, QueryType
from tests.support.compare import differences
from tests.support.deviations import DEVIATING, TAKEN_OVER
from tests.support.golden_cases import GoldenQuery, golden_group, golden_queries, golden_table, spread
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

KEY = "_hoodie_record_key"
MOST_ANSWERS = 2
"""Of a table."""
SWITCHES: tuple[Mapping[str, str], ...] = (
    {},
    {"hoodie.metadata.enable": "false"},
    {"hoodie.enable.data.skipping": "false"},
)


def answered_by_case() -> dict[str, Sequence[GoldenQuery]]:
    actual = defaultdict(list)
    for query in golden_queries(("snapshot", "time_travel")):
        is_answered = query.answer is not None and (query.case, query.index) not in DEVIATING
        if is_answered and golden_group(query.case) in "hk" and query.case != TAKEN_OVER:
            actual[query.case].append(query)
    # The first of them is the newest snapshot.
    return {case: spread(queries, MOST_ANSWERS) for case, queries in actual.items()}


QUERIES = answered_by_case()


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", one_in(8, sorted(QUERIES)))
def test_keys_in_tables_of_hudi(case: str) -> None:
    answers = [(query.as_of, pq.read_table(str(query.answer))) for query in QUERIES[case]]
    # Keys that a later answer has, or no longer has, are absent from the others.
    keys = sorted({str(key) for _, rows in answers if KEY in rows.schema.names for key in rows[KEY].to_pylist()})
    asked = [*keys[::7], "nowhere", ""]
    for options in SWITCHES:
        table = HudiTable.open(str(golden_table(case)), options=options)
        for as_of, rows in answers:
            if KEY not in rows.schema.names:
                continue
            expected = rows.filter(pc.field(KEY).isin(asked))
            assert differences(expected, table.get(asked, as_of=as_of)) == []
            filtered = table.snapshot(as_of).to_table(filter=pc.field(KEY).isin(asked))
            assert differences(expected, filtered) == []
            assert table.get("nowhere", as_of=as_of).num_rows == 0


@pytest.fixture
def numbered(tmp_path: Path) -> HudiTable:
    fields = (("id", "int"), ("ts", "long"), ("value", "string"))
    options = {"hoodie.table.keygenerator.type": "SIMPLE"}
    writer = TableWriter(folder=tmp_path, fields=fields, options=options).create()
    files = []
    for number in range(3):
        rows = [{"id": 10 * number + item, "ts": 1, "value": "base"} for item in range(3)]
        files.append(writer.base_file(at(1), rows, file_id=f"f{number}-0", with_key_index=True))
    writer.commit(at(1), wrote=files)
    blocks = [
        writer.data_block(at(2), [{"id": 11, "ts": 2, "value": "log"}, {"id": 99, "ts": 2, "value": "log"}]),
        writer.delete_block(at(2), [("12", 2)]),
    ]
    log = writer.log_file(at(2), blocks, base_instant=at(1), file_id="f1-0")
    writer.commit(at(2), wrote=[log])
    return writer.open()


def test_keys_are_given_as_texts_numbers_and_fields(numbered: HudiTable) -> None:
    forms: tuple[Any, ...] = ("11", 11, {"id": 11}, ["11"], [11, "11", {"id": 11}])
    for key in forms:
        assert numbered.get(key, ["id", "value"]).to_pylist() == [{"id": 11, "value": "log"}]
    assert numbered.get([]).num_rows == 0
    assert numbered.get("12").num_rows == 0
    assert numbered.get(12, as_of=at(1)).num_rows == 1
    assert numbered.read_optimized().get([11, 12, 99], ["value"]).to_pylist() == [{"value": "base"}] * 2
    assert numbered.get([11, 99], partition_path="elsewhere").num_rows == 0
    assert numbered.get(99, []).num_rows == 1


@pytest.mark.parametrize("key", [None, 1.5, True, b"11", {"other": 1}, {"id": 1.5}, {}, "\ud800"])
def test_keys_that_do_not_fit(numbered: HudiTable, key: object) -> None:
    with pytest.raises(QueryError, match="keys"):
        numbered.get([key])  # type: ignore[list-item]


def test_a_filter_on_the_key_field_reads_the_same_slices(numbered: HudiTable) -> None:
    for row_filter in (pc.field("id") == 11, pc.field("id").isin([11, 12]) & (pc.field("value") != "x")):
        (split,) = numbered.splits(filter=row_filter)
        assert split.file_id == "f1-0"
        assert split.base_path is not None
        rows = numbered.snapshot().to_table(filter=row_filter)
        assert rows["value"].to_pylist() == ["log"]
    assert len(numbered.splits(filter=pc.field("id") > 11)) == 3
    assert numbered.splits(query_type=QueryType.READ_OPTIMIZED, filter=pc.field("id") == 99) == []


def test_a_key_generator_of_the_users_own_may_make_other_keys(tmp_path: Path) -> None:
    options = {"hoodie.table.keygenerator.class": "com.acme.Reversing"}
    table = TableWriter(folder=tmp_path, options=options).create()
    for number in range(2):
        table.base_file(at(1), [{"id": f"k{number}", "ts": 1}], file_id=f"f{number}-0", with_key_index=True)
    table.commit(at(1))
    assert len(table.open().splits(filter=pc.field("id") == "k1")) == 2
    assert len(table.open().splits(filter=pc.field(KEY) == "k1")) == 1


def test_keys_of_several_fields() -> None:
    table = HudiTable.open(str(golden_table("e_composite_keys_120")))
    everything = table.snapshot().to_table()
    key = everything[KEY][3].as_py()
    expected = everything.filter(pc.field(KEY) == key)
    assert expected.num_rows == 1
    row = expected.to_pylist()[0]
    fields = {name: row[name] for name in table.config.record_key_fields}
    assert len(fields) > 1
    assert differences(expected, table.get(key)) == []
    assert differences(expected, table.get(fields)) == []


def test_changes_have_no_keys(numbered: HudiTable) -> None:
    with pytest.raises(QueryError, match="changes"):
        numbered.changes("earliest").get("11")


def test_incremental_rows_have_keys(numbered: HudiTable) -> None:
    dataset = numbered.incremental("earliest")
    expected = dataset.to_table().filter(pc.field("id").isin([11, 12, 0]))
    assert expected.num_rows == 2
    assert differences(expected, dataset.get([11, 12, 0])) == []


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.enable.data.skipping": "perhaps"},
        {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "many"},
        {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "0"},
    ],
)
def test_options_of_indexes_are_checked(options: Mapping[str, str]) -> None:
    with pytest.raises(QueryError, match="options"):
        HudiTable.open(str(golden_table("d_bucket_index_120")), options=options)


def test_keys_in_buckets_by_consistent_hashing_are_looked_for_everywhere(numbered: HudiTable) -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    consistent = {**options, "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
    assert HudiTable.open(numbered.path, options=consistent).read_context().bucket_count is None
    # File ids that do not begin with a bucket show that the table has none.
    assert HudiTable.open(numbered.path, options=options).get([0, 10, 11, 99]).num_rows == 4


def test_the_first_of_equal_base_rows_is_merged_however_they_are_found(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    rows = [{"id": key, "ts": 1, "value": f"base {number}"} for number, key in enumerate("abacaa")]
    writer.base_file(at(1), rows, row_group_size=2)
    writer.commit(at(1))
    block = writer.data_block(at(2), [{"id": "a", "ts": 2, "value": "log"}, {"id": "c", "ts": 0, "value": "late"}])
    writer.log_file(at(2), [block])
    writer.commit(at(2))
    table = writer.open()
    everything = table.snapshot().to_table()
    for key in "abc":
        expected = everything.filter(pc.field("id") == key)
        assert expected.num_rows == {"a": 4, "b": 1, "c": 1}[key]
        assert differences(expected, table.get(key)) == []
    for value in ("log", "base 2", "base 3", "late"):
        row_filter = pc.field("value") == value
        assert differences(everything.filter(row_filter), table.snapshot().to_table(filter=row_filter)) == []
