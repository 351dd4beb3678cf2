import csv
import io
import json
import re
from collections.abc import Callable
from itertools import starmap
from pathlib import Path

import pytest

from hudi_bridge.common.display import size_text
from hudi_bridge.table import HudiTable
from tests.cli.conftest import Outcome
from tests.support.golden_cases import golden_merger_table, golden_table, golden_trips
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

Call = Callable[..., Outcome]


def test_info_as_json(hudi_bridge: Call, story: str) -> None:
    facts = json.loads(hudi_bridge("info", story, "--format", "json").text)
    assert facts["name"] == "a_story_v9_120"
    assert facts["table_version"] == 9
    assert facts["merge_mode"] == "EVENT_TIME_ORDERING"
    assert facts["record_key_fields"] == ["id"]
    assert facts["latest_instant"] == "20261121133045879"
    assert (facts["file_slices"], facts["base_files"], facts["log_files"]) == (5, 5, 10)


@pytest.mark.parametrize("options", [[], ["-f", "table"]])
def test_info_in_a_pipe_is_aligned_text_with_sizes_in_bytes(hudi_bridge: Call, story: str, options: list[str]) -> None:
    lines = hudi_bridge("info", story, *options).text.splitlines()
    assert lines[4] == "merge mode         EVENT_TIME_ORDERING"
    assert lines[7] == "ordering fields    ts"
    assert lines[13] == "base size bytes    39303"
    assert len(lines) == 16


def test_info_on_a_terminal_has_sizes_for_people_and_cuts_nothing(in_terminal: Callable[..., str], story: str) -> None:
    shown = in_terminal("info", story, columns=50)
    assert "│ base size         │ 38.4 KiB" in shown
    path = "".join(line.split("│")[2].strip() for line in shown.splitlines()[2:] if line.count("│") == 3)
    assert path.startswith(story)
    assert max(map(len, shown.splitlines())) == 50


@pytest.mark.parametrize("command", one_in(2, ["slices", "splits"]))
def test_sizes_are_for_people_on_a_terminal_alone(
    in_terminal: Callable[..., str], hudi_bridge: Call, story: str, command: str
) -> None:
    shown = in_terminal(command, story, columns=200)
    assert "7.8 KiB" in shown
    assert "bytes" not in shown
    assert "7995" not in shown
    for form in ("csv", "json", "table"):
        piped = hudi_bridge(command, story, "-f", form).text
        assert "7995" in piped
        assert "base_size_bytes" in piped
        assert "KiB" not in piped


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (5 * 1024**3, "5.0 GiB"),
        (3 * 1024**4, "3.0 TiB"),
        (1234 * 1024**5, "1,234.0 PiB"),
    ],
)
def test_sizes_as_text(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


@pytest.mark.long
def test_ids_on_a_narrow_terminal_are_cut_in_the_middle(in_terminal: Callable[..., str], story: str) -> None:
    slices = HudiTable.open(story).file_slices()
    for columns in (50, 80):
        shown = in_terminal("slices", story, columns=columns)
        ids = [line.split("│")[2].strip() for line in shown.splitlines() if line.startswith(("│ a", "│ b", "│ c"))]
        for cut, one in zip(ids, slices, strict=True):
            head, _, tail = cut.partition("…")
            assert (len(head) >= 6, len(tail) >= 5) == (True, True)
            assert (one.file_id.startswith(head), one.file_id.endswith(tail)) == (True, True)
        assert len(set(zip(ids, [item.partition_path for item in slices], strict=True))) == len(slices)


@pytest.mark.parametrize(
    ("command", "rows", "first"),
    one_in(
        3,
        starmap(
            pytest.param,
            [
                ("timeline", 5, {"requested_time": "20261121133031439", "action": "commit", "state": "completed"}),
                ("slices", 5, {"partition_path": "a", "log_files": "0", "base_size_bytes": "7995"}),
                ("splits", 5, {"partition_path": "a", "log_paths": "[]", "log_size_bytes": "0"}),
                ("schema", 11, {"name": "_hoodie_commit_time", "type": "string", "nullable": "true"}),
            ],
        ),
    ),
)
def test_facts_in_a_pipe_are_csv(hudi_bridge: Call, story: str, command: str, rows: int, first: dict[str, str]) -> None:
    outcome = hudi_bridge(command, story)
    actual = list(csv.DictReader(io.StringIO(outcome.text)))
    assert outcome.code == 0
    assert len(actual) == rows
    assert actual[0] | first == actual[0]


def test_splits_of_a_read_optimized_query_have_no_logs(hudi_bridge: Call, story: str) -> None:
    lines = hudi_bridge("splits", story, "--read-optimized", "-f", "json").text.splitlines()
    assert [json.loads(line)["log_paths"] for line in lines] == [[]] * 5
    with_logs = hudi_bridge("splits", story, "-f", "json").text.splitlines()
    assert sum(len(json.loads(line)["log_paths"]) for line in with_logs) == 10


@pytest.mark.parametrize(
    "command", [("info",), ("schema",), ("slices",), ("splits",), ("read",), ("read", "--where", "true")]
)
def test_an_instant_before_the_first_commit_is_said(hudi_bridge: Call, story: str, command: tuple[str, ...]) -> None:
    said = "as of 2020-01-01 there is nothing yet: the first commit on the timeline is 20261121133031439"
    name, *options = command
    outcome = hudi_bridge(name, story, *options, "--as-of", "2020-01-01", "-f", "json")
    assert said in outcome.err
    assert "nothing yet" not in hudi_bridge(name, story, *options, "--as-of", "20261121133031439").err


def test_slices_as_of_an_instant(hudi_bridge: Call, story: str) -> None:
    rows = csv.DictReader(io.StringIO(hudi_bridge("slices", story, "--as-of", "20261121133031439").text))
    assert [(row["partition_path"], row["log_files"]) for row in rows] == [("a", "0"), ("b", "0"), ("c", "0")]


@pytest.mark.parametrize("case", ["i_empty_120", "i_only_inflight_120", "d_log_only_120", "i_cow_0150", "b_awsdms_120"])
@pytest.mark.parametrize("command", ["info", "timeline", "slices", "schema"])
def test_every_table_has_facts(hudi_bridge: Call, case: str, command: str) -> None:
    outcome = hudi_bridge(command, str(golden_table(case)), "-f", "table")
    assert (outcome.code, outcome.err) == (0, "")


@pytest.mark.parametrize("command", ["info", "schema", "timeline", "slices", "splits", "metadata", "show"])
def test_read_options_are_those_of_rows(hudi_bridge: Call, tmp_path: Path, command: str) -> None:
    writer = TableWriter(folder=tmp_path).create()
    writer.base_file(at(1), [{"id": "a", "value": "1", "ts": 1}])
    writer.commit(at(1))
    properties = tmp_path / ".hoodie" / "hoodie.properties"
    properties.write_text(re.sub(r"(?m)^(hoodie.table.version)=.*$", r"\1=10", properties.read_text()))
    arguments = [command, str(tmp_path), *([at(1)] if command == "show" else [])]
    assert (refused := hudi_bridge(*arguments)).code == 1
    assert "hudi_bridge.read.unreleased=true" in refused.err
    taken = hudi_bridge(*arguments, "--option", "hudi_bridge.read.unreleased=true")
    assert (taken.code, taken.err) == (0, "")
    unknown = hudi_bridge(*arguments, "--option", "hoodie.nothing=1")
    assert (unknown.code, "hoodie.nothing" in unknown.err) == (2, True)


def test_what_a_commit_has_done(hudi_bridge: Call) -> None:
    table, instant = str(golden_trips() / "trips"), "20261122081117834"
    lines = [line.split(maxsplit=2) for line in hudi_bridge("show", table, instant).text.splitlines()]
    assert ["operation", "UPSERT"] in lines
    assert ["rows", "inserted", "2"] in lines
    assert ["duration", "seconds", "0.801"] in lines
    files = hudi_bridge("show", table, instant, "--files", "-f", "json").text.splitlines()
    assert {json.loads(line)["kind"] for line in files} == {"base", "log"}
    (commit,) = hudi_bridge("show", table, instant, "-f", "json").text.splitlines()
    details = hudi_bridge("timeline", table, "--details", "-f", "json").text.splitlines()
    assert json.loads(details[-1]) == json.loads(commit)
    assert hudi_bridge("show", table, "1").code == 2


def rows_of(outcome: Outcome) -> list[dict[str, object]]:
    return [json.loads(line) for line in outcome.text.splitlines()]


def test_the_blocks_of_log_files_and_their_records(hudi_bridge: Call, story: str) -> None:
    blocks = rows_of(hudi_bridge("log", story, "-f", "json"))
    assert len(blocks) == 10
    path = str(blocks[0]["path"])
    assert rows_of(hudi_bridge("log", story, path, "-f", "json")) == blocks[:1]
    file_id = str(blocks[0]["file_id"])
    of_group = [block for block in blocks if block["file_id"] == file_id]
    assert rows_of(hudi_bridge("log", story, "--slice", file_id, "-f", "json")) == of_group
    records = rows_of(hudi_bridge("log", story, "--records", "-f", "json"))
    assert len(records) == sum(int(str(block["rows"] or block["deletes"])) for block in blocks)
    named = rows_of(hudi_bridge("log", story, "--records", "--columns", "ts", "--where", "ts > 2", "-f", "json"))
    expected = [record for record in records if (row := record["row"]) and row["ts"] > 2]  # type: ignore[index]
    assert [record["row"] for record in named] == [{"ts": record["row"]["ts"]} for record in expected]  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["log", "nothing.log.1"], "'nothing.log.1'"),
        (["log", "x", "--slice", "y"], "a file and --slice"),
        (["log", "--where", "ts > 2"], "--records"),
        (["slices", "--group", "nowhere"], "'nowhere'"),
        (["show", "20260101000000000", "--plan"], "'20260101000000000'"),
    ],
)
def test_what_is_not_there(hudi_bridge: Call, story: str, arguments: list[str], found: str) -> None:
    outcome = hudi_bridge(arguments[0], story, *arguments[1:])
    assert outcome.code == 2
    assert found in outcome.err


def test_slices_of_all_times_and_the_files_of_a_group(hudi_bridge: Call) -> None:
    table = str(golden_table("d_clustering_done_0150"))
    slices = rows_of(hudi_bridge("slices", table, "--all", "-f", "json"))
    replaced = next(row for row in slices if row["state"] == "replaced")
    files = rows_of(hudi_bridge("slices", table, "--group", str(replaced["file_id"]), "-f", "json"))
    assert {file["state"] for file in files} == {"replaced"}
    (clustering,) = rows_of(hudi_bridge("clusterings", table, "-f", "json"))
    assert replaced["ended_by"] == clustering["requested_time"]
    plan = rows_of(hudi_bridge("show", table, str(clustering["requested_time"]), "--plan", "-f", "json"))
    assert {file["path"] for file in files} <= {file["path"] for file in plan if file["what"] == "input"}
    shown = hudi_bridge("show", table, str(clustering["requested_time"])).text
    assert "operation             CLUSTER" in shown
    assert "service               clustering" in shown


@pytest.mark.parametrize("command", ["compactions", "clusterings", "cleans", "rollbacks", "savepoints", "indexings"])
def test_services_have_a_list_each(hudi_bridge: Call, story: str, command: str) -> None:
    assert hudi_bridge(command, story, "-f", "json").text == ""


def test_a_clean_is_shown_with_its_files(hudi_bridge: Call) -> None:
    table = str(golden_table("d_archived_0150"))
    clean = rows_of(hudi_bridge("cleans", table, "-f", "json"))[0]
    text = hudi_bridge("show", table, str(clean["requested_time"])).text
    assert re.search(r"^policy +KEEP_LATEST_COMMITS$", text, re.MULTILINE)
    files = rows_of(hudi_bridge("show", table, str(clean["requested_time"]), "--files", "-f", "json"))
    assert len(files) == clean["files_done"]


def test_what_is_archived_is_shown_when_asked_for(hudi_bridge: Call) -> None:
    table = str(golden_table("d_archived_120"))
    for command in (["timeline"], ["timeline", "--details"], ["cleans"], ["stats", "amplification"]):
        arguments = [command[0], table, *command[1:], "-f", "json"]
        active, every = rows_of(hudi_bridge(*arguments)), rows_of(hudi_bridge(*arguments, "--archived"))
        assert [row for row in every if not row["archived"]] == active
        assert len(every) > len(active)
    clean = next(row for row in rows_of(hudi_bridge("cleans", table, "--archived", "-f", "json")) if row["archived"])
    assert "policy            KEEP_LATEST_COMMITS" in hudi_bridge("show", table, str(clean["requested_time"])).text
    files = rows_of(hudi_bridge("show", table, str(clean["requested_time"]), "--plan", "-f", "json"))
    assert len(files) == clean["files_done"]
    assert rows_of(hudi_bridge("slices", table, "--all", "--archived", "-f", "json"))


@pytest.mark.parametrize("arguments", [("slices",), ("stats", "sizes")])
def test_what_no_archive_tells_of(hudi_bridge: Call, story: str, arguments: tuple[str, ...]) -> None:
    outcome = hudi_bridge(arguments[0], story, *arguments[1:], "--archived")
    assert outcome.code == 2
    assert "--archived" in outcome.err


def test_records_of_logs_need_no_payload(hudi_bridge: Call) -> None:
    table = str(golden_merger_table() / "table")
    every = rows_of(hudi_bridge("log", table, "--records", "-f", "json"))
    some = rows_of(hudi_bridge("log", table, "--records", "--where", "id = 'k0'", "--columns", "id", "-f", "json"))
    assert 0 < len(some) < len(every)
    assert all(row["row"] == {"id": "k0"} for row in some)


def test_partitions_and_figures(hudi_bridge: Call, story: str) -> None:
    partitions = rows_of(hudi_bridge("partitions", story, "-f", "json"))
    assert [row["partition_path"] for row in partitions] == ["a", "b", "c"]
    for figures in ("amplification", "sizes", "overlap", "keys", "properties"):
        assert rows_of(hudi_bridge("stats", story, figures, "-f", "json"))
    assert rows_of(hudi_bridge("stats", story, "bootstrap", "-f", "json")) == []


@pytest.mark.parametrize(
    "command",
    one_in(
        4,
        [
            ["trace", "k00001", "--format", "json"],
            ["trace", "--where", "ts > 2", "--limit", "1000", "--format", "json"],
            ["doctor", "--deep", "--now", "2026-12-01"],
            ["diff", "earliest"],
            ["log", "--records", "--format", "json"],
        ],
    ),
    ids=lambda command: "-".join(command[:2]),
)
def test_what_is_told_of_files_is_the_same_with_completion_times(
    hudi_bridge: Callable[..., Outcome], command: list[str]
) -> None:
    name, *arguments = command
    table = str(golden_table("a_story_v9_120"))
    plain = hudi_bridge(name, table, *arguments)
    assert plain.code == 0
    outcome = hudi_bridge(name, table, *arguments, "--option", "hudi_bridge.completion.times=true")
    # File groups are read at the same time.
    assert sorted(outcome.text.splitlines()) == sorted(plain.text.splitlines())
