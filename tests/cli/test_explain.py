import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Outcome
from tests.support.golden_cases import golden_table

Call = Callable[..., Outcome]


@pytest.fixture
def indexed() -> str:
    return str(golden_table("h_all_indexes_120"))


def explained(hudi_bridge: Call, *arguments: str) -> dict[str, object]:
    outcome = hudi_bridge("explain", *arguments, "--format", "json")
    assert outcome.code == 0, outcome.err
    document: dict[str, object] = json.loads(outcome.text)
    return document


def test_a_condition_on_the_key(hudi_bridge: Call, indexed: str) -> None:
    actual = explained(hudi_bridge, indexed, "--where", "id = 'k00001' AND length(id) > 2", "--columns", "ts")
    assert (actual["columns"], actual["filter"]) == (["id", "ts"], '(id == "k00001")')
    assert (actual["slices_listed"], actual["base_files"]) == (6, 1)
    outcome = hudi_bridge("explain", indexed, "--where", "id = 'k00001'")
    assert "  record index: 1 of 6 file slices" in outcome.text.splitlines()


def test_lists_of_values_rule_out_as_much_as_single_ones(hudi_bridge: Call, indexed: str) -> None:
    keys = explained(hudi_bridge, indexed, "--where", "id IN ('k00001', 'nowhere')")
    assert (keys["record_keys"], keys["base_files"]) == (4, 1)
    assert explained(hudi_bridge, indexed, "--where", "ts IN (5, 5000000)")["base_files"] == 3


def test_conditions_that_no_row_meets(hudi_bridge: Call, indexed: str) -> None:
    assert explained(hudi_bridge, indexed, "--where", "1 = 0")["base_files"] == 0


def test_other_queries(hudi_bridge: Call, indexed: str) -> None:
    everything = explained(hudi_bridge, indexed)
    assert (everything["filter"], everything["base_files"], everything["log_files"]) == (None, 18, 36)
    assert explained(hudi_bridge, indexed, "--read-optimized")["log_files"] == 0
    first = str(everything["instant"])
    assert explained(hudi_bridge, indexed, "--after", first)["base_files"] == 0
    assert explained(hudi_bridge, indexed, "--as-of", first)["instant"] == first


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--where", "id = (SELECT max(id) FROM t)"], 2, "without subqueries"),
        (["--where", "nope = 1"], 1, "nope"),
        (["--columns", "nope"], 2, "nope"),
        (["--up-to", "2026"], 2, "--after as well"),
        (["--format", "csv"], 2, "csv"),
    ],
)
def test_wrong_calls(hudi_bridge: Call, indexed: str, arguments: list[str], code: int, told: str) -> None:
    outcome = hudi_bridge("explain", indexed, *arguments)
    assert (outcome.code, outcome.text) == (code, "")
    assert told in outcome.err


def test_read_takes_the_same_indexes(hudi_bridge: Call, indexed: str) -> None:
    where = "id = 'k00001' OR id = (SELECT max(id) FROM t)"
    outcome = hudi_bridge("read", indexed, "--where", where, "--columns", "id", "--format", "csv")
    assert outcome.text.split() == ['"id"', '"k00001"', '"k00899"']
