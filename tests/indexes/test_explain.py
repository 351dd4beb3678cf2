"""What ``explain`` says of a query is what the query does."""

import json
import shutil
from collections.abc import Mapping
from itertools import starmap
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import Explanation, HudiTable, QueryError
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.indexes.metadata_table import INDEX_DEFINITIONS
from hudi_bridge.splits import table_files
from tests.support.counting_files import CountingFileSystem
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

KEY = "_hoodie_record_key"
NO_METADATA = {"hoodie.metadata.enable": "false"}
NO_INDEXES = {"hoodie.enable.data.skipping": "false"}
CASES: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("h_all_indexes_120", {}),
    ("h_all_indexes_120", NO_INDEXES),
    ("h_bloom_footer_0150", {}),
    ("h_column_stats_120", {}),
    ("h_partitioned_record_index_120", NO_METADATA),
    ("n_merge_every_120", {}),
    ("q_nometa_mor_120", {}),
)


def filters(dataset: HudiDataset) -> list[pc.Expression | None]:
    """Of all rows, of keys, of a partition, of a range, of values, and of nothing."""
    rows, names = dataset.to_table(), dataset.schema.names
    actual: list[pc.Expression | None] = [None, pc.scalar(False)]
    actual += [pc.field(name) == rows[name][0] for name in (KEY, "part") if name in names]
    return [*actual, pc.field("id").isin(rows["id"][::97].combine_chunks()), pc.field("ts") <= pc.min(rows["ts"])]


def files_of(explanation: Explanation) -> set[str]:
    bases = [item.base_path for item in explanation.slices if item.base_path is not None and item.row_groups_read]
    logs = [path for item in explanation.slices for path in item.log_paths]
    return {Path(path).name for path in (*bases, *logs)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("case", "options"), one_in(4, starmap(pytest.param, CASES)))
def test_what_remains_is_what_is_opened(case: str, options: Mapping[str, str]) -> None:
    files = CountingFileSystem()
    table = HudiTable.open(str(golden_table(case)), files, options)
    # Without meta columns there are no incremental queries.
    others = [table.read_optimized(), table.incremental("earliest")] if table.config.populates_meta_fields else []
    expected = filters(table.snapshot())
    queries = [(table.snapshot(), item) for item in expected] + [
        (query, item) for query in others for item in expected[::2]
    ]
    for query, row_filter in queries:
        # This keeps what indexes read of the files that they rule out.
        explanation = query.explain(row_filter)
        requests = files.reset()
        rows = query.to_table(filter=row_filter)
        assert requests.opened == files_of(explanation), (query, row_filter)
        assert rows.num_rows == 0 or explanation.row_groups_read or explanation.log_files


def test_the_bytes_of_base_files_are_those_of_their_column_chunks(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    rows = [{"id": f"k{number:03d}", "ts": number, "value": "v" * 50} for number in range(40)]
    writer.base_file(at(1), rows, row_group_size=10)
    writer.commit(at(1))
    (path,) = tmp_path.glob("*.parquet")
    groups = [pq.read_metadata(path).row_group(number) for number in range(4)]

    def stored(numbers: list[int], columns: set[str]) -> int:
        chunks = [groups[number].column(position) for number in numbers for position in range(groups[0].num_columns)]
        return sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in columns)

    dataset = writer.open().snapshot()
    everything = dataset.explain()
    assert (everything.row_groups_read, everything.row_groups) == (4, 4)
    assert everything.base_bytes == stored([0, 1, 2, 3], set(dataset.schema.names))
    some = dataset.explain(pc.field("ts") > 25, ["value"])
    assert (some.row_groups_read, some.row_groups) == (2, 4)
    assert some.base_bytes == stored([2, 3], {"ts", "value"})
    # The record keys decide, and the row groups of statistics of keys are chosen.
    of_key = dataset.explain(pc.field(KEY) == "k011", ["value"])
    assert of_key.base_bytes == stored([1], {KEY, "value"})
    assert of_key.log_bytes == 0


def test_row_groups_whose_keys_are_matched_count_with_their_keys(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    rows = [{"id": f"k{number:03d}", "ts": 1, "value": str(number // 10)} for number in range(40)]
    writer.base_file(at(1), rows, row_group_size=10)
    writer.commit(at(1))
    writer.log_file(at(2), [writer.data_block(at(2), [{"id": "k001", "ts": 2, "value": "9"}])])
    writer.commit(at(2))
    dataset = writer.open().snapshot()
    explanation = dataset.explain(pc.field("value") > "2", ["value"])
    # A base row of another row group may win over the log record.
    assert (explanation.row_groups_read, explanation.row_groups) == (4, 4)
    of_all = dataset.explain(None, ["value"])
    assert explanation.base_bytes < of_all.base_bytes
    (path,) = tmp_path.glob(".*.log.*")
    assert explanation.log_bytes == path.stat().st_size
    assert dataset.to_table(filter=pc.field("value") > "2").num_rows == 11


def steps(explanation: Explanation) -> dict[str, tuple[int | None, int | None]]:
    return {step.name: (step.before, step.after) for step in explanation.steps}


def why_not(explanation: Explanation) -> dict[str, str]:
    return {step.name: step.why_not for step in explanation.steps if step.why_not is not None}


@pytest.mark.parametrize(
    ("options", "taken", "reasons"),
    [
        ({}, {"partition condition": (1, 1), "record index": (6, 1)}, {}),
        (
            NO_METADATA,
            {"partition condition": (3, 3), "key ranges, Bloom filters and keys of logs": (18, 1)},
            {
                "record index": "hoodie.metadata.enable is false",
                "bucket index": "the options do not name the number of buckets",
                "key index of the metadata table": "hoodie.metadata.enable is false",
            },
        ),
        (NO_INDEXES, {"partition condition": (3, 3)}, {"indexes": "hoodie.enable.data.skipping is false"}),
    ],
)
def test_steps_of_a_look_up(
    options: Mapping[str, str], taken: dict[str, tuple[int, int]], reasons: dict[str, str]
) -> None:
    table = HudiTable.open(str(golden_table("h_all_indexes_120")), options=options)
    explanation = table.snapshot().explain(pc.field(KEY) == "k00001")
    assert {name: counts for name, counts in steps(explanation).items() if counts != (None, None)} == taken
    assert why_not(explanation) == reasons
    # Only the partition that the record index names is listed.
    assert explanation.slices_listed == (18 if "record index" not in taken else 6)
    assert explanation.record_keys == 1


def test_an_earlier_state_has_no_record_index() -> None:
    table = HudiTable.open(str(golden_table("h_all_indexes_120")))
    first = table.timeline.commits()[0].requested_time
    explanation = table.snapshot(first).explain(pc.field(KEY) == "k00001")
    assert why_not(explanation)["record index"] == "it says where records are in the newest snapshot"


def test_steps_of_a_range_in_a_partition() -> None:
    dataset = HudiTable.open(str(golden_table("h_column_stats_120"))).snapshot()
    both = dataset.explain((pc.field("part") == "a") & (pc.field("ts") == 5))
    assert steps(both) == {"partition condition": (3, 1), "column stats": (6, 1)}
    assert (both.slices_listed, len(both.slices)) == (6, 1)
    assert why_not(dataset.explain(pc.field("part") == "a")) == {"column stats": "they do not tell of part"}


def test_buckets() -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    dataset = HudiTable.open(str(golden_table("d_bucket_index_120")), options=options).snapshot()
    key = dataset.to_table()[KEY][0].as_py()
    assert steps(dataset.explain(pc.field(KEY) == key))["bucket index"] == (6, 3)
    wrong = options | {"hoodie.bucket.index.num.buckets": "3"}
    dataset = HudiTable.open(str(golden_table("d_bucket_index_120")), options=wrong).snapshot()
    assert why_not(dataset.explain(pc.field(KEY) == key))["bucket index"] == "the base files do not show 3 buckets"


def test_how_files_were_found(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(golden_table("h_all_indexes_120"))
    few = HudiTable.open(folder).snapshot().explain()
    assert few.files_found_by == "listing of folders"
    assert few.why_not_metadata_table == "the table has at most 8 folders"
    monkeypatch.setattr(table_files, "_FEW_FOLDERS", 0)
    indexed = HudiTable.open(folder).snapshot().explain(pc.field("part") == "a")
    assert (indexed.files_found_by, indexed.why_not_metadata_table) == ("metadata table", None)
    assert steps(indexed)["partition condition"] == (3, 1)
    off = HudiTable.open(folder, options=NO_METADATA).snapshot().explain()
    assert off.why_not_metadata_table == "hoodie.metadata.enable is false"
    assert HudiTable.open(folder).incremental("earliest").explain().files_found_by == "commits of the range"


def test_a_damaged_metadata_table_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "_FEW_FOLDERS", 0)
    copy = shutil.copytree(golden_table("h_all_indexes_120"), tmp_path / "t")
    for path in (copy / ".hoodie/metadata").rglob("*.hfile"):
        path.write_bytes(b"")
    explanation = HudiTable.open(copy).snapshot().explain(pc.field(KEY) == "k00001")
    assert explanation.files_found_by == "listing of folders"
    assert "found 0 bytes" in str(explanation.why_not_metadata_table)
    assert "found 0 bytes" in why_not(explanation)["record index"]
    assert len(explanation.slices) == 1


def test_an_explanation_as_text_and_as_json() -> None:
    dataset = HudiTable.open(str(golden_table("h_all_indexes_120"))).snapshot()
    explanation = dataset.explain(pc.field("id") == "k00001", ["id", "ts"])
    assert str(explanation).splitlines()[1:8] == [
        '  where (id == "k00001")',
        "  looks up 2 spellings of record keys",
        "files found by listing of folders, not the metadata table: at most 8 partitions are needed",
        "  partition condition: 1 of 1 partitions",
        "file slices listed: 6",
        "  record index: 1 of 6 file slices",
        "read: 1 file slice",
    ]
    document = json.loads(explanation.to_json())
    assert (document["base_files"], document["log_files"]) == (1, explanation.log_files)
    assert document["slices"][0]["base_path"] == explanation.slices[0].base_path
    assert document["steps"][1]["name"] == "record index"


def test_an_explanation_of_nothing(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    writer.commit(at(1))
    explanation = writer.open().snapshot().explain()
    assert explanation.slices == ()
    assert str(explanation).endswith("0 log files: 0 B")


def test_changes_are_not_explained(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "v"}])
    writer.commit(at(1))
    with pytest.raises(QueryError, match="changes"):
        writer.open().changes("earliest").explain()


@pytest.mark.parametrize(
    ("table", "condition", "reason"),
    [
        ("h_bloom_mdt_120", None, "column_stats: the table has none that is complete"),
        ("h_column_stats_120", None, "bloom_filters: the table has none that is complete"),
        ("h_bloom_footer_120", None, "the table has none that is complete"),
        ("h_bloom_mdt_120", pc.field("part") == "a", "the footers of so few files (6) are read sooner"),
    ],
)
def test_why_keys_are_not_looked_up_in_the_metadata_table(
    table: str, condition: pc.Expression | None, reason: str
) -> None:
    query = HudiTable.open(str(golden_table(table))).snapshot()
    explanation = query.filter(pc.field(KEY) == "k00155").explain(condition)
    assert why_not(explanation)["key index of the metadata table"] == reason


def test_an_index_of_bloom_filters_of_results_is_named(tmp_path: Path) -> None:
    copy = tmp_path / "t"
    shutil.copytree(golden_table("h_sql_indexes_updated_102"), copy)
    definitions = copy / INDEX_DEFINITIONS
    stored = json.loads(definitions.read_text())
    stored["indexDefinitions"]["expr_index_idx_low"]["indexType"] = "bloom_filters"
    definitions.write_text(json.dumps(stored))
    query = HudiTable.open(copy).snapshot()
    lower = pc.utf8_lower(pc.field("city")) == "moved"
    assert why_not(query.explain(lower))["expression index"] == (
        "expr_index_idx_low: it is of type bloom_filters, with which Hudi fails to write logs"
    )
    assert why_not(HudiTable.open(copy).snapshot().explain(pc.field("ts") == 1)) == {}
    assert query.to_table(filter=lower).num_rows == HudiTable.open(copy, options=NO_INDEXES).snapshot().count_rows(
        lower
    )
