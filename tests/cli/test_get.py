import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge import HudiDataset
from tests.cli.conftest import Outcome
from tests.support.compacted_table import Compacted
from tests.support.golden_cases import golden_table
from tests.support.table_writer import Row, TableWriter, at

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


def test_keys_are_lines_whatever_program_wrote_them(hudi_bridge: Call, tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "t").create()
    keys = ["k1", "k\u2028 2", "k\x0b3"]
    rows: list[Row] = [{"id": key, "ts": 1, "value": key} for key in keys]
    table.commit(at(1), wrote=[table.base_file(at(1), rows)])
    lines = tmp_path / "keys.txt"
    lines.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(keys).encode())
    outcome = hudi_bridge("get", str(table.folder), "--keys-from", str(lines), "--columns", "id", "--format", "json")
    assert sorted(json.loads(line)["id"] for line in outcome.text.strip().split("\n")) == sorted(keys)


def test_no_row(hudi_bridge: Call, indexed: str) -> None:
    outcome = hudi_bridge("get", indexed, "k00610", "--partition", "a", "--format", "json")
    assert (outcome.code, outcome.text) == (1, "")
    assert "no row as of 2026" in outcome.err


@pytest.mark.parametrize("arguments", [[], ["--keys-from", "/nowhere/keys"], ["k00610", "--columns", "nope"]])
def test_wrong_calls(hudi_bridge: Call, indexed: str, arguments: list[str]) -> None:
    outcome = hudi_bridge("get", indexed, *arguments)
    assert outcome.code == 2
    assert outcome.text == ""


def test_files_that_go_before_the_rows_are_read(
    hudi_bridge: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, read = Compacted(tmp_path / "t"), HudiDataset.get

    def go_then(dataset: HudiDataset, *arguments: Any, **options: Any) -> pa.Table:
        list(dataset.splits())
        table.compact()
        return read(dataset, *arguments, **options)

    monkeypatch.setattr(HudiDataset, "get", go_then)
    command = ["get", str(tmp_path / "t"), "a", "--format", "csv", "--columns", "value"]
    failed = hudi_bridge(*command)
    assert (failed.code, "the file is gone" in failed.err) == (1, True)
    outcome = hudi_bridge(*command, "--on-files-gone", "replan")
    assert outcome.text.splitlines()[1:] == ['"3"']
    assert f"read as of {at(9)} instead of {at(6)}" in outcome.err


def test_the_rows_of_an_instant_are_not_planned_again(hudi_bridge: Call, indexed: str) -> None:
    outcome = hudi_bridge("get", indexed, "k00610", "--on-files-gone", "replan", "--as-of", "2026-11-21")
    assert (outcome.code, outcome.text) == (2, "")
    assert "expected it without --as-of, which says what to read" in outcome.err
