"""The suite for any reader: what it makes of what readers do, what it shows, and Hudi Bridge and others in it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.golden.conformance.__main__ import main
from tests.golden.conformance.processes import (
    ROOT,
    CommandReader,
    FunctionReader,
    Limits,
    NoRows,
    ReaderNotStartedError,
    Verdict,
)
from tests.golden.conformance.results import (
    Judgement,
    Result,
    cell,
    features_matrix,
    judge,
    kept_results,
    kinds_matrix,
    run,
)
from tests.golden.conformance.suite import SUITE, TOPICS, features_of, named
from tests.support.golden_cases import GoldenQuery
from tests.support.golden_queries import CASES, chosen_cases

STORY = "a_story_v9_120"
SNAPSHOT = SUITE[STORY, 0]
CLEANED = next(query for query in SUITE.values() if query.answer is None)
LIMITS = Limits(mebibytes=2048)
FAKE = "tests.golden.conformance.fake_reader:read"
SUBSET = chosen_cases(CASES, 1)
"""A table of each group."""


@pytest.fixture(scope="module")
def fake() -> Iterator[FunctionReader]:
    reader = FunctionReader(FAKE, LIMITS)
    yield reader
    reader.close()


def verdict_on(reader: FunctionReader, behaviour: str) -> Judgement:
    result = run(reader, [replace(SNAPSHOT, options={"do": behaviour})])
    assert result.reader == "fake 1.0"
    return result.judgements[STORY, 0]


@pytest.mark.parametrize(
    ("behaviour", "verdict", "reason"),
    [
        ("answer", "equal", ""),
        ("lose a row", "wrong", "expected 65 rows, found 64"),
        ("refuse", "refused", "ValueError: TABLE: no merge-on-read"),
        ("lack", "not offered", "NotImplementedError: no snapshots"),
        ("panic", "crashed", "PanicError: index out of bounds"),
        ("die", "crashed", "SIGSEGV: nothing was said"),
        ("exit", "crashed", "exit status 3: nothing was said"),
        ("take memory", "crashed", "MemoryError"),
        # The process that died has been replaced.
        ("print", "equal", ""),
    ],
)
def test_what_a_function_does_is_a_verdict(fake: FunctionReader, behaviour: str, verdict: str, reason: str) -> None:
    judgement = verdict_on(fake, behaviour)
    assert (judgement.verdict, "".join(judgement.lines[:1])) == (verdict, reason)


def test_a_function_that_takes_too_long_is_stopped() -> None:
    reader = FunctionReader(FAKE, Limits(seconds=0.3))
    try:
        assert verdict_on(reader, "hang") == Judgement(Verdict.TIMED_OUT, ("no answer after 0.3 s",))
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("function", "reason"),
    [("no_such_module:read", "No module named 'no_such_module'"), ("json:no_such_function", "no_such_function")],
)
def test_a_function_that_is_not_there_is_no_verdict(function: str, reason: str) -> None:
    with pytest.raises(ReaderNotStartedError, match=reason):
        FunctionReader(function, LIMITS)


@pytest.mark.extra
def test_an_extension_of_duckdb_that_cannot_be_had_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_DUCKDB_EXTENSION", "/no/such/hudi.duckdb_extension")
    with pytest.raises(ReaderNotStartedError, match="/no/such/hudi"):
        FunctionReader("tests.golden.readers.duckdb_extension:read", LIMITS)


@pytest.mark.parametrize(
    ("script", "verdict", "reason"),
    [
        ("echo first >&2; echo no merge-on-read: $1 >&2; exit 1", "refused", "no merge-on-read: TABLE"),
        ("echo no $2 >&2; exit 3", "not offered", "no snapshot"),
        ("kill -SEGV $$", "crashed", "SIGSEGV: nothing was said"),
        ("sh -c 'kill -ABRT $$'; exit $?", "crashed", "SIGABRT: "),
        ("echo index out of bounds >&2; exit 101", "crashed", "panic: index out of bounds"),
        ("echo rows", "crashed", "prints no Arrow IPC stream"),
        ("true", "crashed", "prints no Arrow IPC stream"),
        ("exec sleep 1000", "timed out", "no answer after 2 s"),
    ],
)
def test_what_a_program_does_is_a_verdict(tmp_path: Path, script: str, verdict: str, reason: str) -> None:
    path = tmp_path / "reader.sh"
    path.write_text(script)
    reader = CommandReader(f"sh {path}", Limits(seconds=2))
    judgement = judge(SNAPSHOT, reader.answer(SNAPSHOT.table, SNAPSHOT.kind, SNAPSHOT.options))
    assert judgement.verdict == verdict
    assert judgement.lines[0].startswith(reason)


def test_a_program_gets_table_kind_and_options_and_prints_a_stream(tmp_path: Path) -> None:
    rows = pq.read_table(str(SNAPSHOT.answer))
    with pa.ipc.new_stream(str(tmp_path / "rows.arrow"), rows.schema) as stream:
        stream.write_table(rows)
    script = tmp_path / "reader.sh"
    script.write_text(f'printf "%s\\n" "$@" > {tmp_path}/arguments; cat {tmp_path}/rows.arrow')
    reader = CommandReader(f"sh {script}", LIMITS, name="a program")
    query = replace(SNAPSHOT, options={"as.of.instant": "20260101000000000"})
    assert run(reader, [query]) == Result(reader="a program", judgements={(STORY, 0): Judgement(Verdict.EQUAL)})
    table, kind, options = (tmp_path / "arguments").read_text().splitlines()
    assert (table, kind, json.loads(options)) == (str(SNAPSHOT.table), "snapshot", query.options)


def test_a_program_that_is_not_there_is_no_verdict() -> None:
    with pytest.raises(ReaderNotStartedError, match="no-such-program"):
        CommandReader("no-such-program", LIMITS).answer(SNAPSHOT.table, "snapshot", {})


def test_what_hudi_refuses_is_to_be_refused() -> None:
    assert judge(CLEANED, NoRows(Verdict.REFUSED, "cleaned")).verdict == Verdict.EQUAL
    for verdict in (Verdict.CRASHED, Verdict.NOT_OFFERED):
        assert judge(CLEANED, NoRows(verdict, "panic")).verdict == verdict
    judgement = judge(CLEANED, pa.table({"id": [1, 2]}))
    assert judgement.verdict == Verdict.WRONG
    assert judgement.lines[0].startswith("2 rows, where Hudi says ")


def test_columns_can_be_left_out_and_types_must_be_comparable() -> None:
    rows = pq.read_table(str(SNAPSHOT.answer))
    renamed = rows.rename_columns(["other", *rows.column_names[1:]])
    assert judge(SNAPSHOT, renamed).verdict == Verdict.WRONG
    assert judge(SNAPSHOT, renamed, ["other", rows.column_names[0]]).verdict == Verdict.EQUAL
    other_type = rows.set_column(0, rows.column_names[0], pa.array([{"a": 1}] * len(rows)))
    assert judge(SNAPSHOT, other_type).verdict == Verdict.WRONG


def test_a_result_is_the_same_once_it_is_written(tmp_path: Path) -> None:
    result = Result(
        reader="a reader",
        judgements={
            (STORY, 0): Judgement(Verdict.EQUAL),
            (STORY, 1): Judgement(Verdict.WRONG, ("expected 2 rows, found 1",)),
            ("b_awsdms_120", 0): Judgement(Verdict.TIMED_OUT, ("no answer after 60 s",)),
        },
    )
    path = tmp_path / "result.json"
    result.save(path)
    assert Result.load(path) == result
    now_equal = {(STORY, 1): Judgement(Verdict.EQUAL)}
    Result(reader="a reader", judgements=now_equal).save(path)
    assert Result.load(path).judgements == {**result.judgements, **now_equal}
    Result(reader="a newer reader", judgements=now_equal).save(path)
    assert Result.load(path).judgements == now_equal


def test_the_matrix_counts_verdicts_by_kind_and_by_feature() -> None:
    crashes = "b_awsdms_120"
    results = [
        Result(reader="all", judgements={key: Judgement(Verdict.EQUAL) for key in SUITE if key[0] in (STORY, crashes)}),
        Result(
            reader="some",
            judgements={(STORY, 0): Judgement(Verdict.WRONG, ("",)), (crashes, 0): Judgement(Verdict.CRASHED, ("",))},
        ),
    ]
    kinds = {name: cells for name, *cells in kinds_matrix(results)}
    assert kinds["snapshot"] == ["2", "2", "0, 1 wrong, 1 crashed"]
    assert kinds["incremental"] == ["8", "8", "not asked"]
    assert "changes (CDC)" not in kinds
    features = {(topic, name): cells for topic, name, *cells in features_matrix(results, ["snapshot"])}
    assert features["table version", "9, Hudi 1.2.0"] == ["2", "2", "0, 1 wrong, 1 crashed"]
    assert features["payload", "AWSDmsAvroPayload"] == ["1", "1", "0, 1 crashed"]
    assert features["log blocks", "delete v3"] == ["2", "2", "0, 1 wrong, 1 crashed"]
    assert ("schema evolution", "by column id") not in features


def test_a_cell_shows_what_is_equal_first() -> None:
    assert cell({}, 3) == "not asked"
    assert cell({Verdict.EQUAL: 3}, 3) == "3"
    assert cell({Verdict.REFUSED: 2, Verdict.WRONG: 1, Verdict.TIMED_OUT: 0}, 3) == "0, 1 wrong, 2 refused"
    assert cell({Verdict.EQUAL: 3, Verdict.WRONG: 1}, 9) == "3 of 4, 1 wrong"


def test_every_table_has_a_feature_of_each_topic_that_all_have() -> None:
    everywhere = {"table version", "table type", "merge mode", "payload", "ordering", "log blocks", "key generator"}
    topics: set[str] = set()
    for case in CASES:
        features = {topic for topic, _ in features_of(case)}
        assert everywhere <= features
        topics |= features
    assert topics == set(TOPICS)


def test_queries_are_chosen_by_case_group_and_kind() -> None:
    assert {query.case for query in named(["a"])} == {case for case in CASES if case.startswith("a")}
    assert [query.index for query in named([STORY], ["snapshot", "read_optimized"])] == [0, 1]
    assert len(named([])) == len(SUITE)
    with pytest.raises(LookupError, match="no_such_case"):
        named(["no_such_case"])


@pytest.mark.long
@pytest.mark.heavy
def test_all_answers_of_hudi_bridge_are_equal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SUBSET, "--reader", "tests.golden.readers.bridge:read", "--verbose"]) == 0
    assert capsys.readouterr().err == ""


def test_the_command_shows_saves_and_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "base_files.json"
    asked = ("b_event_time_120", "d_archived_120", "--kinds", "snapshot,time_travel", "--save", str(path), "-v")
    assert main([*asked, "--reader", "tests.golden.readers.base_files:read"]) == 1
    shown = capsys.readouterr()
    assert "b_event_time_120-0-snapshot: wrong\n    expected 20 rows, found 26" in shown.err
    assert re.search(r"merge mode +EVENT_TIME_ORDERING +10 +", shown.out)
    saved = Result.load(path)
    assert {case for case, _ in saved.judgements} == {"b_event_time_120", "d_archived_120"}
    assert main(["b", "--show", str(path), str(path), "--kinds", "snapshot", "--format", "markdown"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"| query | queries | {saved.reader} | {saved.reader} |", "| --- | --- | --- | --- |"]
    assert "| merge mode | EVENT_TIME_ORDERING | 1 | 0, 1 wrong | 0, 1 wrong |" in lines
    assert main(["b", "--show", str(path), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["cases"].keys() == {"b_event_time_120"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("no_such_case", "--reader", FAKE), "no case, group or kind is named no_such_case"),
        (("--reader", "json:no_such_function"), "no_such_function"),
        (("--show", "no_such_file.json"), "no_such_file.json"),
    ],
)
def test_what_cannot_be_asked_is_said_in_a_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], reason: str
) -> None:
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("python -m tests.golden.conformance: ")
    assert reason in line


def test_a_process_of_another_reader_needs_pyarrow_alone() -> None:
    absent = "import sys; sys.modules['hudi_bridge'] = sys.modules['pytest'] = sys.modules['duckdb'] = None"
    code = f"{absent}; import tests.golden.conformance.worker, tests.golden.readers.base_files"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


@pytest.mark.parametrize("result", kept_results(), ids=lambda result: result.reader)
def test_results_that_are_kept_are_of_the_suite(result: Result) -> None:
    assert result.judgements.keys() <= SUITE.keys()
    texts = [line for judgement in result.judgements.values() for line in judgement.lines]
    assert [line for line in texts if str(ROOT) in line or "/.cache/" in line] == []


def test_tables_that_a_page_says_hudi_rs_reads_otherwise_are_so_read() -> None:
    section = (ROOT / "docs" / "coming-from.md").read_text().partition("### Where rows differ")[2].partition("\n## ")[0]
    cases = set(re.findall(r"\| `(\w+)` \|$", section, re.MULTILINE))
    (kept,) = kept_results("hudi_rs")
    wrong = {case for (case, _), judgement in kept.judgements.items() if judgement.verdict == Verdict.WRONG}
    assert len(cases) > 10
    assert cases - wrong == set()


def asked_again(kept: Result, function: str) -> list[tuple[GoldenQuery, Verdict, Verdict]]:
    """The queries to a table of each group on which the verdict is now another one, with both."""
    queries = [query for query in named(SUBSET) if (query.case, query.index) in kept.judgements]
    assert len(queries) > 40
    reader = FunctionReader(function, Limits())
    try:
        now = run(reader, queries)
    finally:
        reader.close()
    return [
        (query, kept.judgements[key].verdict, now.judgements[key].verdict)
        for query in queries
        if kept.judgements[key := (query.case, query.index)].verdict != now.judgements[key].verdict
    ]


@pytest.mark.long
@pytest.mark.parametrize("name", ["hudi_rs", "base_files"])
def test_verdicts_that_are_kept_are_still_true(name: str) -> None:
    (kept,) = (result for result in kept_results(name))
    assert asked_again(kept, f"tests.golden.readers.{name}:read") == []
