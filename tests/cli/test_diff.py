import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.cli.conftest import Outcome
from tests.support.golden_cases import golden_trips

Call = Callable[..., Outcome]

FIRST, LAST = "20261122081106231", "20261122081117834"


@pytest.fixture
def trips() -> str:
    return str(golden_trips() / "trips")


def test_records_that_differ_with_their_values(hudi_bridge: Call, trips: str) -> None:
    outcome = hudi_bridge("diff", trips, FIRST, LAST, "--format", "table")
    assert outcome.code == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in outcome.text.splitlines()[3:-1]]
    assert len(rows) == 9
    assert rows[:3] == [
        ["delete", "nyc", "trip-1", "id trip-1, rider rider-1, fare 6.0, ts 10, city nyc"],
        ["insert", "nyc", "trip-13", "id trip-13, rider rider-3, fare 9.5, ts 40, city nyc"],
        ["update", "nyc", "trip-4", "fare 9.0 → 24.0, ts 10 → 20"],
    ]
    assert "2 inserted, 5 updated, 2 deleted" in outcome.err
    assert f"from {FIRST} to {LAST}" in outcome.err
    assert "4 file groups compared, 1 without changes" in outcome.err


def test_the_first_records_alone(hudi_bridge: Call, trips: str) -> None:
    outcome = hudi_bridge("diff", trips, FIRST, "--limit", "2", "--format", "table")
    assert len(outcome.text.splitlines()) == 2 + 4 + 1
    assert "the first 2 rows" in outcome.text
    assert "inserted" not in outcome.err
    assert hudi_bridge("diff", trips, FIRST, "--limit", "0", "--format", "table").code == 0
    assert len(hudi_bridge("diff", trips, FIRST, "--limit", "2", "--format", "json").text.splitlines()) == 2


@pytest.mark.parametrize(
    "condition", ["fare > 30", "fare = 11 -- before", "city = 'sf' AND fare::int BETWEEN 30 AND 50"]
)
def test_a_condition_holds_before_or_after(hudi_bridge: Call, trips: str, condition: str) -> None:
    outcome = hudi_bridge("diff", trips, FIRST, "--columns", "fare", "--where", condition, "--format", "json")
    (actual,) = map(json.loads, outcome.text.splitlines())
    assert actual == {
        "op": "update",
        "key": "trip-6",
        "partition": "sf",
        "moved_from": None,
        "changed": ["fare"],
        "before": {"fare": 11.0},
        "after": {"fare": 40.5},
    }


def test_keys_on_the_way_back(hudi_bridge: Call, trips: str) -> None:
    outcome = hudi_bridge("diff", trips, LAST, FIRST, "--key", "trip-7", "--key", "trip-1", "--format", "json")
    actual = {item["key"]: item for item in map(json.loads, outcome.text.splitlines())}
    assert {key: one["op"] for key, one in actual.items()} == {"trip-7": "update", "trip-1": "insert"}
    assert actual["trip-7"]["after"]["fare"] == 12.0


def test_counts_and_arrow(hudi_bridge: Call, trips: str, tmp_path: Path) -> None:
    outcome = hudi_bridge("diff", trips, FIRST, "--summary", "--format", "csv")
    assert outcome.text.splitlines()[1:] == ['"nyc",1,2,1,0', '"sf",1,3,1,0']
    path = tmp_path / "differences.arrow"
    assert hudi_bridge("diff", trips, FIRST, "--output", str(path)).code == 0
    assert pa.ipc.open_file(str(path)).read_all().num_rows == 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["yesterday"], "found 'yesterday'"),
        ([FIRST, "--columns", "none"], "--columns: found 'none'"),
        ([FIRST, "--where", "none = 1"], "none"),
        ([FIRST, "--where", "fare > (SELECT max(fare) FROM t)"], "without subqueries"),
    ],
)
def test_wrong_calls(hudi_bridge: Call, trips: str, arguments: list[str], message: str) -> None:
    outcome = hudi_bridge("diff", trips, *arguments)
    assert (outcome.code != 0, outcome.text) == (True, "")
    assert message in outcome.err
