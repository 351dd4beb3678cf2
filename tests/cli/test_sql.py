import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_bridge.cli.prompt import is_complete, iter_statements
from tests.cli.conftest import Outcome
from tests.golden_cases import golden_table

Call = Callable[..., Outcome]


def test_a_statement(hudi_bridge: Call, story: str) -> None:
    outcome = hudi_bridge("sql", story, "SELECT part, count(*) AS n FROM t GROUP BY 1 ORDER BY 1")
    assert outcome.text == '"part","n"\n"a",22\n"b",22\n"c",21\n'


def test_all_views_are_there_under_the_name_of_the_table(hudi_bridge: Call, story: str) -> None:
    name = "a_story_v9_120"
    counts = ", ".join(
        f"(SELECT count(*) FROM {view}) AS {column}"
        for column, view in (("a", name), ("b", f"{name}_ro"), ("c", f"{name}_timeline"), ("d", f"{name}_files"))
    )
    assert json.loads(hudi_bridge("sql", story, f"SELECT {counts}", "-f", "json").text) == {
        "a": 65,
        "b": 69,
        "c": 5,
        "d": 15,
    }


def test_times_are_in_utc(hudi_bridge: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    outcome = hudi_bridge("sql", str(golden_table("f_types_120")), "SELECT tm FROM t WHERE id = 'k0062'", "-f", "json")
    assert json.loads(outcome.text) == {"tm": "1900-01-01 00:00:00.000001Z"}


def test_statements_from_a_pipe_end_at_the_first_error(
    hudi_bridge: Call, story: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys, "stdin", io.StringIO("SELECT 1 AS a;\nSELECT 'x;\ny' AS b;\nSELECT nope;\nSELECT 3 AS c;\n")
    )
    outcome = hudi_bridge("sql", story)
    assert outcome.code == 1
    assert outcome.text == '"a"\n1\n"b"\n"x;\ny"\n'
    assert "nope" in outcome.err


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; \n", True),
        ("SELECT 1", False),
        ("SELECT 'a;", False),
        ("SELECT 'it''s;';", True),
        ('SELECT "a;', False),
        ("SELECT 1 -- done;", False),
        ("SELECT 1 -- it's\n;", True),
        ("SELECT /* ; ' */ 1;", True),
        ("SELECT /* 1;", False),
        ("SELECT $$a;", False),
        ("SELECT $x$a;$x$;", True),
    ],
)
def test_where_a_statement_ends(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_a_last_statement_needs_no_semicolon() -> None:
    assert list(iter_statements(["SELECT\n", "1;\n", "SELECT 2"])) == ["SELECT\n1;\n", "SELECT 2"]


def test_errors_do_not_end_the_prompt(in_terminal: Callable[..., str], story: str) -> None:
    typed = "SELECT nope;\nSELECT count(*)\n  AS rows FROM t;\n.tables\n.what\n.quit\n"
    seen = in_terminal("sql", story, typed=typed)
    assert "a_story_v9_120 as of 20261121133045879" in seen
    assert 'Referenced column "nope"' in seen
    assert "│   65 │" in seen
    assert "a_story_v9_120_timeline" in seen
    assert ".what is no command here; .help says what there is" in seen
    assert "Traceback" not in seen


@pytest.mark.parametrize("end", ["\\q", "exit;"])
def test_commands_of_other_prompts_are_answered(in_terminal: Callable[..., str], story: str, end: str) -> None:
    typed = f".help\nhelp\n\\d\n\\dt\n\\d+ t\n.mode csv\nSELECT 40 + 2\n AS n;\n{end}\nSELECT 'too late';\n"
    seen = in_terminal("sql", story, typed=typed, columns=120)
    assert seen.count(".tables       what can be queried") == 2
    assert "\\d is no command here. Instead: SHOW TABLES; or DESCRIBE t;" in seen
    assert "\\dt is no command here. Instead: SHOW TABLES;" in seen
    assert "\\d+ is no command here. Instead: DESCRIBE t;" in seen
    assert ".mode is no command here. Instead: the options --output and --format" in seen
    assert "│ 42 │" in seen
    assert "│ too late │" not in seen


def test_words_that_end_the_prompt_are_names_within_a_statement(in_terminal: Callable[..., str], story: str) -> None:
    seen = in_terminal("sql", story, typed="SELECT 1 AS\nexit\n;\n.quit\n")
    assert "│ exit │" in seen


def test_a_file_that_cannot_be_written_does_not_end_the_prompt(
    in_terminal: Callable[..., str], story: str, tmp_path: Path
) -> None:
    typed = "SELECT 1;\n.help\n.quit\n"
    seen = in_terminal("sql", story, "-o", str(tmp_path / "no" / "x.csv"), typed=typed, columns=200)
    assert f"{tmp_path}/no/x.csv cannot be written: No such file or directory" in seen
    assert "what can be queried" in seen
