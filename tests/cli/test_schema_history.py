import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hudi_bridge.schema.internal import parse_schema_history
from tests.cli.conftest import Outcome
from tests.support.golden_cases import golden_table

Call = Callable[..., Outcome]


@pytest.fixture
def mixed() -> str:
    return str(golden_table("g_sor_mixed_0150"))


def lines_of(outcome: Outcome) -> list[dict[str, str]]:
    assert outcome.code == 0, outcome.err
    return [*csv.DictReader(io.StringIO(outcome.text))]


def first_file(table: str, pattern: str) -> str:
    return str(min(Path(table).glob(pattern)).relative_to(table))


def test_a_history_has_a_line_for_each_change(hudi_bridge: Call, mixed: str) -> None:
    outcome = hudi_bridge("schema", mixed, "--history")
    assert [(line["instant"][-9:], line["column_id"], line["change"]) for line in lines_of(outcome)] == [
        ("142522812", "", "first version, 12 columns"),
        ("142528300", "7", "renamed a to aa"),
        ("142529225", "7", "promoted aa from int to long"),
        ("142533019", "9", "promoted f from float to double"),
        ("142534013", "8", "dropped b string"),
        ("142534911", "14", "added b long after ts"),
        ("142542480", "9", "renamed f to g"),
    ]
    assert outcome.err == ""


def test_a_version_that_changes_no_column_is_listed(hudi_bridge: Call) -> None:
    lines = lines_of(hudi_bridge("schema", str(golden_table("g_sor_collections_0150")), "--history"))
    assert [line["change"] for line in lines][-2:] == ["no column changed"] * 2


@pytest.mark.long
def test_a_history_on_a_screen(in_terminal: Callable[..., str], mixed: str) -> None:
    screen = in_terminal("schema", mixed, "--history")
    assert "│ 20261121142542480 │         9 │ renamed f to g                  │" in screen


def test_a_history_as_json_has_a_line_for_each_version(hudi_bridge: Call, mixed: str) -> None:
    versions = [json.loads(line) for line in hudi_bridge("schema", mixed, "--history", "-f", "json").text.splitlines()]
    assert len(versions) == 7
    assert versions[0]["changes"] == []
    assert versions[5]["has_ids"] is True
    assert versions[5]["changes"] == [
        {
            "kind": "added",
            "column": "b",
            "column_id": 14,
            "before": None,
            "after": "long",
            "place": "after ts",
            "text": "added b long after ts",
        }
    ]
    assert versions[5]["columns"][7] == {"id": 14, "name": "b", "type": "long", "optional": True}
    assert versions[5]["columns"][10]["type"] == "record<x int, y string>"


def test_a_history_in_a_file(hudi_bridge: Call, mixed: str, tmp_path: Path) -> None:
    assert hudi_bridge("schema", mixed, "--history", "-o", str(tmp_path / "h.parquet")).code == 0
    assert pq.read_table(tmp_path / "h.parquet").column("instant").to_pylist()[-1] == "20261121142542480"


def test_a_history_by_name_says_so(hudi_bridge: Call) -> None:
    outcome = hudi_bridge("schema", str(golden_table("g_drop_column_write_0150")), "--history", "-f", "json")
    versions = [json.loads(line) for line in outcome.text.splitlines()]
    assert [version["has_ids"] for version in versions] == [False, False]
    assert {column["id"] for version in versions for column in version["columns"]} == {None}
    assert [change["text"] for change in versions[1]["changes"]] == ["dropped qty int"]
    assert outcome.err == (
        "the table keeps no column ids: columns go by name, and a rename looks like a drop and an add\n"
    )


def test_the_columns_of_a_base_file(hudi_bridge: Call, mixed: str) -> None:
    path = first_file(mixed, "part=p/*_20261121142522812.parquet")
    lines = {
        line["column"] or line["file_column"]: line for line in lines_of(hudi_bridge("schema", mixed, "--file", path))
    }
    assert lines["g"] == {
        "block_offset": "",
        "instant": "20261121142522812",
        "column": "g",
        "id": "9",
        "file_column": "f",
        "file_type": "float",
        "query_type": "double",
        "what_happens": "renamed, cast float to double",
    }


def test_the_columns_of_a_log_file_as_of_an_instant(hudi_bridge: Call, mixed: str) -> None:
    path = first_file(mixed, "part=p/.*_20261121142522812.log.1_*")
    outcome = hudi_bridge("schema", mixed, "--file", path, "--as-of", "20261121142528300", "-f", "json")
    rows: list[dict[str, Any]] = [json.loads(line) for line in outcome.text.splitlines()]
    assert {row["block_offset"] for row in rows} == {0}
    assert [row["what_happens"] for row in rows if row["column"] == "aa"] == ["renamed"]


def test_a_proposal_has_a_line_for_each_change(hudi_bridge: Call) -> None:
    lines = lines_of(hudi_bridge("schema", str(golden_table("g_add_column_120")), "--infer"))
    assert [(line["column_id"], line["change"]) for line in lines] == [
        ("", "first version, 11 columns"),
        ("11", "added extra string"),
        ("12", "added st record<q int, n string>"),
        ("13", "added arr array<double>"),
    ]


def test_a_proposal_as_json_is_a_history_of_hudi(hudi_bridge: Call, tmp_path: Path) -> None:
    table = str(golden_table("g_widen_0150"))
    text = hudi_bridge("schema", table, "--infer", "--format", "json").text
    newest, first = parse_schema_history(text, "text")
    assert (first.version_id, len(newest.fields)) == (0, len(first.fields))
    assert hudi_bridge("schema", table, "--infer", "-o", str(tmp_path / "h.json")).code == 0
    assert (tmp_path / "h.json").read_text() == text


def test_a_proposal_says_what_it_cannot_know(hudi_bridge: Call) -> None:
    outcome = hudi_bridge("schema", str(golden_table("g_sor_rename_0150")), "--infer")
    assert outcome.code == 0
    notes = outcome.err.splitlines()
    assert len(notes) == 2
    assert "b went and bb came: could be a rename of b to bb, or a drop and an add (proposed)" in notes[0]


@pytest.mark.parametrize("case", ["i_empty_120", "d_archived_0150", "e_drop_part_cols_120", "i_cdc_120"])
@pytest.mark.parametrize("option", ["--history", "--infer"])
def test_other_tables_have_a_history_too(hudi_bridge: Call, case: str, option: str) -> None:
    lines = lines_of(hudi_bridge("schema", str(golden_table(case)), option))
    assert [line["change"].partition(",")[0] for line in lines] == ["first version"] * (case != "i_empty_120")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--history", "--infer"), "more than one of them"),
        (("--history", "--file", "x"), "more than one of them"),
        (("--history", "--as-of", "2026-01-01"), "--as-of"),
        (("--infer", "--as-of", "2026-01-01"), "--as-of"),
        (("--file", "nothing.parquet"), "expected a base file or log file"),
    ],
)
def test_what_does_not_go_together_is_said(hudi_bridge: Call, mixed: str, options: tuple[str, ...], said: str) -> None:
    outcome = hudi_bridge("schema", mixed, *options)
    assert (outcome.code, outcome.text) == (2, "")
    assert said in outcome.err
