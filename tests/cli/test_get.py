import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome
from tests.golden_cases import golden_table

Call = Callable[..., Outcome]


@pytest.fixture
def indexed() -> str:
    return str(golden_table("h_bloom_footer_120"))


def test_rows_of_keys(hudi_bridge: Call, indexed: str) -> None:
    outcome = hudi_bridge("get", indexed, "k00610", "k00001", "nowhere", "--columns", "id,part", "--format", "json")
    assert outcome.code == 0
    assert sorted(map(str, map(json.loads, outcome.text.splitlines()))) == [
        "{'id': 'k00001', 'part': 'a'}",
        "{'id': 'k00610', 'part': 'c'}",
    ]


def test_keys_from_a_file(hudi_bridge: Call, indexed: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("k00610\n\nk00001\n")
    outcome = hudi_bridge("get", indexed, "--keys-from", str(keys), "--columns", "id", "--format", "csv")
    assert sorted(outcome.text.split()) == ['"id"', '"k00001"', '"k00610"']


def test_no_row(hudi_bridge: Call, indexed: str) -> None:
    outcome = hudi_bridge("get", indexed, "k00610", "--partition", "a", "--format", "json")
    assert (outcome.code, outcome.text) == (1, "")
    assert "no row as of 2026" in outcome.err


@pytest.mark.parametrize("arguments", [[], ["--keys-from", "/nowhere/keys"], ["k00610", "--columns", "nope"]])
def test_wrong_calls(hudi_bridge: Call, indexed: str, arguments: list[str]) -> None:
    outcome = hudi_bridge("get", indexed, *arguments)
    assert outcome.code == 2
    assert outcome.text == ""
