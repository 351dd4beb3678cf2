import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome
from tests.support.golden_cases import golden_table, golden_trips
from tests.support.table_writer import TableWriter, at

Call = Callable[..., Outcome]

REVIVED = """\
k14 as of 20261121133535684
merged by event time, ordered by ts

partition q, file group f7e866b2-d9b8-4cdb-92c0-b49803331801-0
 1  base row        20261121133525945  ordering 10
    f7e866b2-d9b8-4cdb-92c0-b49803331801-0_0-2873-5243_20261121133525945.parquet
    values: ts 10, val base
 2  delete          20261121133533117  no ordering  by delete block
    .f7e866b2-d9b8-4cdb-92c0-b49803331801-0_20261121133533117.log.1_1-2955-5398
    block 1 at byte 0
"""


@pytest.fixture
def merges() -> str:
    return str(golden_table("b_event_time_120"))


def test_a_story_on_the_screen(hudi_bridge: Call, merges: str) -> None:
    outcome = hudi_bridge("trace", merges, "k14", "--format", "table")
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.text.startswith(REVIVED)
    assert "    replaces 2: a row after a delete without an ordering value\n    replaces 1: higher" in outcome.text
    assert "    ts                      15\n" in outcome.text
    assert max(map(len, outcome.text.splitlines())) <= 80


@pytest.mark.long
def test_a_story_in_a_terminal_fits_it(in_terminal: Callable[..., str], merges: str) -> None:
    seen = in_terminal("trace", merges, "k13", columns=60)
    assert seen.startswith("k13 as of 20261121133535684\n")
    assert max(map(len, seen.splitlines())) <= 60


def test_a_deleted_record_ends_without_a_row(hudi_bridge: Call, merges: str) -> None:
    outcome = hudi_bridge("trace", merges, "k07", "--format", "table")
    assert outcome.code == 0
    assert outcome.text.endswith("    replaces 1: delete without an ordering value\nno row: 2 deletes the record\n")


def test_what_does_not_count_is_told(hudi_bridge: Call) -> None:
    outcome = hudi_bridge("trace", str(golden_table("c_rollback_block_0150")), "k00001", "--format", "table")
    uncounted = outcome.text.partition("does not count:\n")[2]
    assert uncounted.startswith(" -  delete          20261121134930430  no ordering  by delete block\n")
    assert "    rolled back by 20261121134931917\nthe row:\n" in uncounted


def test_corrupt_blocks_are_told(hudi_bridge: Call) -> None:
    outcome = hudi_bridge("trace", str(golden_table("c_corrupt_garbage_0150")), "k00003", "--format", "table")
    assert "unreadable, may have held the record:\n" in outcome.text
    assert "at byte 1,837: neither" in " ".join(outcome.text.split())


def test_merged_fields_name_their_versions(hudi_bridge: Call) -> None:
    outcome = hudi_bridge("trace", str(golden_table("b_partial_update_payload_0150")), "k1", "--format", "table")
    assert "    loses to 2: lower ordering 9 than 11; but a, c from it\n" in outcome.text
    row = dict(line.split(maxsplit=1) for line in outcome.text.partition("the row:\n")[2].splitlines())
    assert row["a"].endswith("(from 3)")
    assert row["b"].endswith("(from 2)")
    assert row["d"].endswith("(from 1)")


def test_a_story_as_facts(hudi_bridge: Call, merges: str) -> None:
    lines = hudi_bridge("trace", merges, "k13", "--format", "json").text.splitlines()
    facts = [json.loads(line) for line in lines]
    assert [fact["kind"] for fact in facts] == ["base row", "delete", "log row"]
    assert [fact["wins"] for fact in facts] == [True, False, False]
    in_pipe = list(csv.DictReader(io.StringIO(hudi_bridge("trace", merges, "k13").text)))
    assert [row["instant_time"] for row in in_pipe] == [fact["instant_time"] for fact in facts]


def test_a_story_as_of_an_instant(hudi_bridge: Call, merges: str) -> None:
    outcome = hudi_bridge("trace", merges, "k13", "--as-of", "20261121133525945", "-f", "json")
    facts = [json.loads(line) for line in outcome.text.splitlines()]
    assert [fact["counts"] for fact in facts] == [True, False, False]
    assert {fact["verdict"] for fact in facts[1:]} == {"later than 20261121133525945"}


def test_a_key_that_is_nowhere_says_where_it_was_looked_for(hudi_bridge: Call) -> None:
    table = str(golden_table("h_bloom_footer_120"))
    outcome = hudi_bridge("trace", table, "k00610x", "--format", "table")
    assert outcome.code == 1
    assert outcome.text == ""
    lines = outcome.err.splitlines()
    assert lines[0].startswith("k00610x is not in the table as of 2026")
    assert lines[0].endswith("; searched 18 file groups:")
    assert "  3 base files ruled out by Bloom filter" in lines
    assert "  15 base files ruled out by key range" in lines
    assert sum("ruled out by" in line and "/" in line for line in lines) == 18


def test_a_key_that_is_nowhere_has_no_facts(hudi_bridge: Call, merges: str) -> None:
    outcome = hudi_bridge("trace", merges, "nowhere", "--format", "json")
    assert (outcome.code, outcome.text) == (1, "")
    assert "nowhere is not in the table" in outcome.err


def test_only_one_partition_is_asked(hudi_bridge: Call, merges: str) -> None:
    assert hudi_bridge("trace", merges, "k14", "--partition", "q").code == 0
    outcome = hudi_bridge("trace", merges, "k14", "--partition", "p")
    assert outcome.code == 1
    assert "; searched 1 file group:" in outcome.err


def test_many_file_groups_are_not_all_listed(hudi_bridge: Call, tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "table").create()
    table.commit(at(1))
    for number in range(25):
        table.base_file(at(1), [{"id": f"k{number}", "ts": 1, "value": "a"}], file_id=f"f{number}-0")
    lines = hudi_bridge("trace", str(table.folder), "nowhere").err.splitlines()
    assert lines[-1] == "  and 5 more"
    assert sum(line.startswith("  f") for line in lines) == 20


def test_control_characters_of_a_table_stay_harmless(hudi_bridge: Call, tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "table").create()
    table.commit(at(1))
    table.base_file(at(1), [{"id": "k\x1b[31m", "ts": 1, "value": "\x1b]0;title\x07"}])
    outcome = hudi_bridge("trace", str(table.folder), "k\x1b[31m", "--format", "table")
    assert outcome.code == 0
    assert "\x1b" not in outcome.text
    assert "\\x1b]0;title\\x07" in outcome.text


def test_several_rows_of_a_key_are_told(hudi_bridge: Call, tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "table").create()
    table.commit(at(1))
    table.base_file(at(1), [{"id": "k1", "ts": 1, "value": "a"}, {"id": "k1", "ts": 2, "value": "b"}])
    outcome = hudi_bridge("trace", str(table.folder), "k1", "--format", "table")
    assert "2 rows, the first:\n" in outcome.text
    assert "no log version meets this row" not in outcome.text


def test_before_the_first_commit_there_is_no_record_and_it_is_said(hudi_bridge: Call, story: str) -> None:
    outcome = hudi_bridge("trace", story, "k00067", "--as-of", "2020-01-01")
    assert outcome.code == 1
    assert "k00067 is not in the table as of 20200101000000000; searched 3 file groups" in outcome.err
    assert "the first commit on the timeline is 20261121133031439" in outcome.err


def test_a_record_is_found_by_a_value_that_has_lost(hudi_bridge: Call) -> None:
    trips = str(golden_trips() / "trips")
    outcome = hudi_bridge("trace", trips, "--where", "fare = 1 AND city = 'nyc'", "--format", "table")
    assert outcome.code == 0
    assert outcome.text.startswith("trip-7 as of ")
    assert "\n    values: fare 1.0, ts 15\n    loses to 2" in outcome.text
    assert hudi_bridge("trace", trips, "--where", "fare = 1", "--partition", "sf").code == 1
    facts = hudi_bridge("trace", trips, "--where", "fare = 1", "--format", "json").text.splitlines()
    assert [json.loads(line)["row"]["fare"] for line in facts] == [12.0, 27.0, 1.0]


def test_all_values_are_shown_on_demand(hudi_bridge: Call) -> None:
    outcome = hudi_bridge("trace", str(golden_trips() / "trips"), "trip-7", "--values", "--format", "table")
    assert "values: id trip-7, rider rider-2, fare 27.0, ts 20, city nyc" in outcome.text.replace("\n    ", " ")


def test_as_many_records_as_wanted(hudi_bridge: Call) -> None:
    trips = str(golden_trips() / "trips")
    outcome = hudi_bridge("trace", trips, "--where", "city = 'sf'", "--limit", "2", "--format", "table")
    assert sum(" as of " in line for line in outcome.text.splitlines()) == 2
    assert "--limit 2" in outcome.err
    whole = hudi_bridge("trace", trips, "--where", "city = 'sf'", "--format", "table")
    assert sum(" as of " in line for line in whole.text.splitlines()) > 2
    assert whole.err == ""


def test_no_record_meets_a_condition(hudi_bridge: Call) -> None:
    trips = str(golden_trips() / "trips")
    for condition in ("fare = 12345", "1 = 2"):
        outcome = hudi_bridge("trace", trips, "--where", condition, "--format", "table")
        assert (outcome.code, outcome.text) == (1, "")
        assert "no version of any record" in outcome.err
    outcome = hudi_bridge("trace", trips, "--where", "fare = 12345", "--format", "csv")
    assert (outcome.code, len(outcome.text.splitlines())) == (1, 1)


@pytest.mark.parametrize("arguments", [[], ["trip-7", "--where", "fare = 1"], ["--where", "none = 1"]])
def test_a_key_or_a_condition(hudi_bridge: Call, arguments: list[str]) -> None:
    outcome = hudi_bridge("trace", str(golden_trips() / "trips"), *arguments)
    assert (outcome.code in (1, 2), outcome.text) == (True, "")
    assert outcome.err
