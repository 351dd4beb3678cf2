import csv
import io
import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Outcome
from tests.golden_cases import golden_table

Call = Callable[..., Outcome]


def test_info_as_json(hudi_bridge: Call, story: str) -> None:
    facts = json.loads(hudi_bridge("info", story, "--format", "json").text)
    assert facts["name"] == "a_story_v9_120"
    assert facts["table_version"] == 9
    assert facts["merge_mode"] == "EVENT_TIME_ORDERING"
    assert facts["record_key_fields"] == ["id"]
    assert facts["latest_instant"] == "20261121133045879"
    assert (facts["file_slices"], facts["base_files"], facts["log_files"]) == (5, 5, 10)


def test_info_as_a_table_has_a_line_for_each_fact(hudi_bridge: Call, story: str) -> None:
    lines = hudi_bridge("info", story, "--format", "table").text.splitlines()
    assert any("merge mode" in line and "EVENT_TIME_ORDERING" in line for line in lines)
    assert any("ordering fields" in line and " ts " in line for line in lines)


@pytest.mark.parametrize(
    ("command", "rows", "first"),
    [
        ("timeline", 5, {"requested_time": "20261121133031439", "action": "commit", "state": "completed"}),
        ("slices", 5, {"partition_path": "a", "log_files": "0", "base_size_bytes": "7995"}),
        ("splits", 5, {"partition_path": "a", "log_paths": "[]", "log_size_bytes": "0"}),
        ("schema", 11, {"name": "_hoodie_commit_time", "type": "string", "nullable": "true"}),
    ],
)
def test_facts_in_a_pipe_are_csv(hudi_bridge: Call, story: str, command: str, rows: int, first: dict[str, str]) -> None:
    outcome = hudi_bridge(command, story)
    found = list(csv.DictReader(io.StringIO(outcome.text)))
    assert outcome.code == 0
    assert len(found) == rows
    assert found[0] | first == found[0]


def test_splits_of_a_read_optimized_query_have_no_logs(hudi_bridge: Call, story: str) -> None:
    lines = hudi_bridge("splits", story, "--read-optimized", "-f", "json").text.splitlines()
    assert [json.loads(line)["log_paths"] for line in lines] == [[]] * 5
    with_logs = hudi_bridge("splits", story, "-f", "json").text.splitlines()
    assert sum(len(json.loads(line)["log_paths"]) for line in with_logs) == 10


def test_slices_as_of_an_instant(hudi_bridge: Call, story: str) -> None:
    rows = csv.DictReader(io.StringIO(hudi_bridge("slices", story, "--as-of", "20261121133031439").text))
    assert [(row["partition_path"], row["log_files"]) for row in rows] == [("a", "0"), ("b", "0"), ("c", "0")]


@pytest.mark.parametrize("case", ["i_empty_120", "i_only_inflight_120", "d_log_only_120", "i_cow_0150", "b_awsdms_120"])
@pytest.mark.parametrize("command", ["info", "timeline", "slices", "schema"])
def test_every_table_has_facts(hudi_bridge: Call, case: str, command: str) -> None:
    outcome = hudi_bridge(command, str(golden_table(case)), "-f", "table")
    assert (outcome.code, outcome.err) == (0, "")
