"""Some golden tables through PySpark 3.5."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.compare import differences
from tests.connectors.spark.processes import PYTHON35, output_of
from tests.other_golden import OTHERS, OtherQuery, chosen
from tests.test_golden import ANSWERED, QUERIES, answer_of

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
    "w_operation_0150",
    "w_operation_120",
    "w_operation_parquet_120",
)
WITHOUT_PACKAGES = ("lance_mor",)
"""Tables whose package is not in the environment of PySpark 3.5."""


def test_rows_through_pyspark_3_5_are_those_of_hudi(tmp_path: Path) -> None:
    one_of_each_kind = {(key[0], QUERIES[key].kind): key for key in sorted(ANSWERED) if key[0] in CASES}
    asked = [OtherQuery(QUERIES[key], {}) for key in sorted(one_of_each_kind.values())]
    counted = len(asked)
    asked += [OTHERS[name] for name in chosen(everything=False) if OTHERS[name].query.case not in WITHOUT_PACKAGES]
    # The keys of the last table are looked up, too.
    asked.sort(key=lambda one: one.query.case == "i_cow_120")
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
    (tmp_path / "queries.json").write_text(json.dumps(queries))
    output = output_of("golden_rows.py", str(tmp_path), python=PYTHON35)
    different = {}
    for query, _ in asked:
        found = pq.read_table(tmp_path / query.name)
        if problems := differences(answer_of(query), found):
            different[query.name] = problems
    assert different == {}
    counts, refusal = output.splitlines()[-2:]
    native, rows, located = map(int, counts.split())
    assert rows == located > 0
    assert native > counted
    assert "PySpark 3.5" in refusal
