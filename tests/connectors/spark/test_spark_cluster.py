"""Executors in processes of their own."""

import json
from pathlib import Path

import pytest

from hudi_bridge import HudiTable
from tests.connectors.spark.processes import output_of
from tests.support.golden_cases import golden_table

pytestmark = pytest.mark.jvm

STORY = "a_story_v9_120"


def test_rows_are_the_same_on_executors_of_their_own_though_one_is_killed(tmp_path: Path) -> None:
    table = str(golden_table(STORY))
    rows = HudiTable.open(table).snapshot().to_table(columns=["_hoodie_record_key"])
    expected = sorted(map(str, rows.column(0).to_pylist()))
    actual = json.loads(output_of("cluster_job.py", table, str(tmp_path)).splitlines()[-1])
    assert actual["format"] == actual["read"] == actual["located"] == expected
    assert actual["executors of format"] == 2
    assert (tmp_path / "died").exists()
