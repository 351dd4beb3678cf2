import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Counters, Outcome
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at

Call = Callable[..., Outcome]


def published(hudi_bridge: Call, table: str, folder: Path, *options: str) -> Outcome:
    outcome = hudi_bridge("publish", "log-records", table, "--to", str(folder), *options)
    assert outcome.code == 0, outcome.err
    return outcome


def test_a_publication_and_the_sql_that_shows_it(hudi_bridge: Call, story: str, tmp_path: Path) -> None:
    first = published(hudi_bridge, story, tmp_path, "--locate", "/=local:///", "--blocks")
    assert "5 file slices read, 0 unchanged" in first.err
    again = published(hudi_bridge, story, tmp_path, "--locate", "/=local:///", "--blocks")
    assert "0 file slices read, 5 unchanged" in again.err
    assert again.text == first.text
    outcome = hudi_bridge("trino", "sql", story, "--published", str(tmp_path), "--schema", "lake", "--name", "trips")
    assert outcome.code == 0
    assert f"WHERE publication = '{first.text.strip()}'" in outcome.text
    assert f"external_location = 'local://{story}'" in outcome.text
    assert 'CREATE OR REPLACE VIEW "hive"."lake"."trips" AS' in outcome.text
    assert 'CREATE OR REPLACE VIEW "hive"."lake"."trips_blocks" AS' in outcome.text
    assert 'CREATE OR REPLACE FUNCTION "hive"."lake"."hudi_decode"(' in outcome.text


def test_blocks_are_published_for_trino_to_merge(hudi_bridge: Call, story: str, tmp_path: Path) -> None:
    published(hudi_bridge, story, tmp_path, "--unmerged")
    outcome = hudi_bridge("trino", "sql", story, "--published", str(tmp_path), "--schema", "lake", "--name", "trips")
    assert 'CREATE OR REPLACE FUNCTION "hive"."lake"."trips__rows_' in outcome.text
    assert "trips__log_" not in outcome.text
    for_presto = hudi_bridge(
        "publish", "log-records", story, "--to", str(tmp_path / "presto"), "--unmerged", "--for", "presto"
    )
    assert (for_presto.code, "--for trino" in for_presto.err) == (2, True)


def test_other_dialects_have_no_functions(hudi_bridge: Call, story: str, tmp_path: Path) -> None:
    published(hudi_bridge, story, tmp_path)
    published(hudi_bridge, story, tmp_path / "presto", "--for", "presto")
    presto = [
        hudi_bridge("trino", "sql", story, "--published", str(tmp_path / "presto"), *dialect).text
        for dialect in ((), ("--dialect", "presto"))
    ]
    assert presto[0] == presto[1]
    assert "CREATE TABLE" in presto[0]
    assert "FUNCTION" not in presto[0]
    arguments = ("--dialect", "ansi", "--base-table", "ro.trips")
    ansi = hudi_bridge("trino", "sql", story, "--published", str(tmp_path), *arguments)
    assert "FROM ro.trips b" in ansi.text
    assert "CREATE TABLE" not in ansi.text


@pytest.mark.long
def test_a_reader_may_close_the_pipe(hudi_bridge: Call, story: str, tmp_path: Path) -> None:
    published(hudi_bridge, story, tmp_path)
    command = [
        sys.executable,
        "-c",
        "from hudi_bridge.cli.main import main; main()",
        "trino",
        "sql",
        story,
        "--published",
        str(tmp_path),
    ]
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_what_does_not_fit_is_told(hudi_bridge: Call, story: str, tmp_path: Path) -> None:
    nothing = hudi_bridge("trino", "sql", story, "--published", str(tmp_path / "nothing"))
    assert (nothing.code, "publish log-records wrote" in nothing.err) == (2, True)
    published(hudi_bridge, story, tmp_path / "own")
    other = hudi_bridge("trino", "sql", str(golden_table("b_event_time_120")), "--published", str(tmp_path / "own"))
    assert (other.code, "a_story_v9_120" in other.err) == (2, True)
    hostile = hudi_bridge("trino", "sql", story, "--published", str(tmp_path / "own"), "--name", 'x"; DROP TABLE y')
    assert (hostile.code, "letters, digits" in hostile.err) == (2, True)
    inside = hudi_bridge("publish", "log-records", story, "--to", f"{story}/own")
    assert (inside.code, "lies in the table" in inside.err) == (2, True)


@pytest.mark.parametrize(
    ("case", "dialect", "expected"),
    [
        (
            "b_event_time_120",
            "trino",
            {
                "iceberg": (True, "merged"),
                "sql (trino)": (True, "SQL compares"),
                "sql (trino), log blocks": (True, "a function decodes all log records in each query"),
            },
        ),
        ("b_event_time_120", "ansi", {"sql (ansi)": (True, "SQL compares")}),
        (
            "b_partial_update_payload_120",
            "trino",
            {
                "iceberg": (True, "merged"),
                "sql (trino)": (True, "no function is called: merging of fields"),
                "sql (trino), log blocks": (
                    False,
                    "merging of fields, identical defaults taken from the row that loses",
                ),
            },
        ),
        (
            "c_parquet_blocks_120",
            "trino",
            {
                "iceberg": (True, "merged"),
                "sql (trino)": (True, "SQL compares"),
                "sql (trino), log blocks": (False, "a block of type parquet_data"),
            },
        ),
        ("b_partial_update_payload_120", "ansi", {"sql (ansi)": (False, "no functions for merging of fields")}),
        ("g_widen_120", "ansi", {"sql (ansi)": (False, "1 file slices would be published whole")}),
        (
            "b_partial_update_payload_120",
            "presto",
            {
                "iceberg": (True, "files that Presto would misread are written anew"),
                "sql (presto)": (True, "no function is called: merging of fields"),
                "hive connector": (False, "reads table versions up to 6, this is version 9"),
                "hudi connector": (False, "reads table versions up to 6, this is version 9"),
            },
        ),
        (
            "a_story_v6_0150",
            "presto",
            {
                "iceberg": (True, "merged"),
                "sql (presto)": (True, "SQL compares"),
                "hive connector": (True, "HoodieParquetRealtimeInputFormat"),
                "hudi connector": (False, "newest first, and 3 file slices have several"),
            },
        ),
    ],
)
def test_explain_says_which_route_fits(
    hudi_bridge: Call, case: str, dialect: str, expected: dict[str, tuple[bool, str]]
) -> None:
    outcome = hudi_bridge("trino", "explain", str(golden_table(case)), "--dialect", dialect, "--format", "json")
    routes = {item["route"]: item for item in map(json.loads, outcome.text.splitlines())}
    assert list(routes) == list(expected)
    for route, (fits, reason) in expected.items():
        assert routes[route]["fits"] == fits
        assert reason in routes[route]["reason"]
    if of_functions := routes.get("sql (trino)"):
        assert (of_functions["function_seconds"] > 0) == of_functions["reason"].startswith("a function")


def test_explain_counts_the_records_that_trino_decodes(hudi_bridge: Call, tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t").create()
    writer.base_file(at(1), [{"id": key, "ts": 1, "value": "v"} for key in "abc"])
    writer.log_file(
        at(2),
        [
            writer.data_block(at(2), [{"id": key, "ts": 2, "value": "w"} for key in "ab"]),
            # Not complete: it does not count.
            writer.data_block(at(9), [{"id": "c", "ts": 3, "value": "x"}]),
            writer.delete_block(at(2), [("c", 3)]),
        ],
        base_instant=at(1),
    )
    writer.commit(at(1))
    writer.commit(at(2))
    outcome = hudi_bridge("trino", "explain", str(writer.folder), "--format", "json")
    routes = {item["route"]: item for item in map(json.loads, outcome.text.splitlines())}
    assert routes["sql (trino), log blocks"]["function_seconds"] == pytest.approx(2 * 0.0004)


def test_explain_counts_what_presto_would_misread(hudi_bridge: Call) -> None:
    table = str(golden_table("f_types_120"))
    outcome = hudi_bridge("trino", "explain", table, "--dialect", "presto", "--format", "json")
    (actual,) = (item for item in map(json.loads, outcome.text.splitlines()) if item["route"] == "sql (presto)")
    assert actual["whole_slices"] > 0
    assert "to milliseconds" in actual["why_whole"]
    assert any("as bigint, in microseconds since 1970" in item for item in actual["other_types"])


@pytest.mark.long
def test_explain_on_a_screen_is_short(in_terminal: Callable[..., str]) -> None:
    shown = in_terminal("trino", "explain", str(golden_table("f_types_120")), columns=200)
    assert "contested_rows" in shown
    assert "sql (trino)" in shown


def test_a_payload_of_ones_own_is_named_by_file_and_class(
    hudi_bridge: Call, counters: Counters, tmp_path: Path
) -> None:
    table, named, own = counters.table, counters.payload, tmp_path / "own"
    published(hudi_bridge, table, own, *named)
    shown = hudi_bridge("trino", "sql", table, "--published", str(own), *named)
    assert 'return {**incoming, "ts": current["ts"] + incoming["ts"]}' in shown.text
    explained = hudi_bridge("trino", "explain", table, *named, "-f", "json")
    assert "a function for the payload com.acme.Adding" in explained.text
    for wrong in ("com.acme.Adding", f"x={tmp_path}/mine.py:NOTHING", f"x={tmp_path}/mine.py:Other", "x=no.py:Adding"):
        outcome = hudi_bridge("publish", "log-records", table, "--to", str(own), "--payload", wrong)
        assert (outcome.code, "--payload" in outcome.err) == (2, True)
