"""A dozen golden tables through PySpark 3.5."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.compare import differences
from tests.connectors.spark.processes import PYTHON35, output_of
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
)


def test_rows_through_pyspark_3_5_are_those_of_hudi(tmp_path: Path) -> None:
    one_of_each_kind = {(key[0], QUERIES[key].kind): key for key in sorted(ANSWERED) if key[0] in CASES}
    keys = sorted(one_of_each_kind.values())
    queries = []
    for key in keys:
        query = QUERIES[key]
        queries.append(
            {
                "name": query.name,
                "path": str(query.table),
                "options": dict(query.reader_options),
                "filter": query.where_in_spark,
                "is_snapshot": query.kind != "incremental",
            }
        )
    (tmp_path / "queries.json").write_text(json.dumps(queries))
    output = output_of("golden_rows.py", str(tmp_path), python=PYTHON35)
    different = {}
    for key in keys:
        found = pq.read_table(tmp_path / QUERIES[key].name)
        if problems := differences(answer_of(QUERIES[key]), found):
            different[QUERIES[key].name] = problems
    assert different == {}
    counts, refusal = output.splitlines()[-2:]
    native, rows, located = map(int, counts.split())
    assert rows == located > 0
    assert native > len(keys)
    assert "PySpark 3.5" in refusal
