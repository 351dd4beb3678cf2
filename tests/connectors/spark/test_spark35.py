"""Some golden tables through PySpark 3.5."""

import json
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable
from hudi_bridge.inspection import inspect_files
from tests.connectors.spark.processes import PYTHON35, output_of
from tests.support.compare import differences
from tests.support.deviations import ANSWERED
from tests.support.golden_queries import QUERIES, answer_of
from tests.support.other_golden import OTHERS, OtherQuery, chosen

pytestmark = pytest.mark.jvm

CASES = (
    "a_story_v5_0122",
    "a_story_v6_0150",
    "a_story_v8_by120",
    "a_story_v9_120",
    "b_partial_update_payload_120",
    "c_parquet_blocks_120",
    "d_clustering_done_120",
    "e_null_part_120",
    "f_types_120",
    "f_types_ntz_120",
    "g_sor_rename_120",
    "h_column_stats_120",
    "i_cow_120",
)
OPERATIONS = ("w_operation_0150", "w_operation_120", "w_operation_parquet_120")
WITHOUT_PACKAGES = ("lance_mor",)
"""Tables whose package is not in the environment of PySpark 3.5."""
KINDS_OF_OTHERS = ("snapshot", "incremental")


def one_of_each_kind(cases: Container[str]) -> list[OtherQuery]:
    keys = {(key[0], QUERIES[key].kind): key for key in sorted(ANSWERED) if key[0] in cases}
    return [OtherQuery(QUERIES[key], {}) for key in sorted(keys.values())]


def answered_by_spark(asked: Sequence[OtherQuery], folder: Path) -> tuple[str, Mapping[str, list[str]]]:
    """What the script prints, and how the rows of queries, read in both ways, differ from those of Hudi."""
    queries = [
        {
            "name": query.name,
            "path": str(query.table),
            "options": {**query.reader_options, **options},
            "filter": query.where_in_spark,
            "is_snapshot": query.kind != "incremental",
        }
        for query, options in asked
    ]
    (folder / "queries.json").write_text(json.dumps(queries))
    output = output_of("golden_rows.py", str(folder), python=PYTHON35)
    answers = {query.name: (query, folder / query.name) for query, _ in asked} | {
        f"{query.name} by the public API": (query, folder / "public" / query.name)
        for query, _ in asked
        if query.kind != "incremental"
    }
    actual = {name: differences(answer_of(query), pq.read_table(rows)) for name, (query, rows) in answers.items()}
    return output, {name: problems for name, problems in actual.items() if problems}


def test_rows_through_pyspark_3_5_are_those_of_hudi(tmp_path: Path) -> None:
    asked = one_of_each_kind(CASES)
    output, different = answered_by_spark(asked, tmp_path)
    assert different == {}
    in_views, counts, refusal = output.splitlines()[-3:]
    native, rows, located = map(int, counts.split())
    assert rows == located > 0
    in_view, at_first, files = map(int, in_views.split())
    table = HudiTable.open(str(asked[-1].query.table))
    assert rows == in_view
    assert at_first == table.snapshot(table.timeline.completed()[0].requested_time).count_rows() > 0
    assert files == inspect_files(table).num_rows
    assert native > len(asked)
    assert "PySpark 3.5" in refusal
    assert "in place of a stream" in refusal
    assert "register_functions: found PySpark 3.5" in refusal
    assert "read() with the query type incremental, and attach_all()" in refusal


def test_operations_bootstrapped_tables_and_orc_through_pyspark_3_5(tmp_path: Path) -> None:
    others = [OTHERS[name] for name in chosen(everything=False)]
    asked = [
        item
        for item in (*one_of_each_kind(OPERATIONS), *others)
        if item.query.kind in KINDS_OF_OTHERS and item.query.case not in WITHOUT_PACKAGES
    ]
    # The script looks up the keys of the last table.
    asked += [item for item in one_of_each_kind(["i_cow_120"]) if item.query.kind == "snapshot"]
    assert answered_by_spark(asked, tmp_path)[1] == {}
