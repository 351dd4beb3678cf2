import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hudi_bridge.cli.sql import is_complete, iter_statements
from tests.cli.conftest import Counters, Outcome
from tests.support.golden_cases import golden_table

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
    typed = "SELECT nope;\nSELECT union_value(k := 1);\nSELECT count(*)\n  AS rows FROM t;\n.tables\n.what\n.quit\n"
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


@pytest.fixture
def lake(tmp_path: Path, story: str) -> str:
    """A folder of tables: ``trips``, ``sales.orders`` and ``sales.eu.orders``."""
    folder = tmp_path / "lake"
    shutil.copytree(story, folder / "trips")
    for name in ("sales/orders", "sales/eu/orders"):
        shutil.copytree(golden_table("i_cdc_120"), folder / name)
    return str(folder)


def test_tables_of_a_folder_are_joined_by_their_names(hudi_bridge: Call, lake: str) -> None:
    query = 'SELECT count(*) AS n FROM trips JOIN sales.orders USING (id) JOIN lake."sales.eu".orders USING (id)'
    assert hudi_bridge("sql", lake, query).text == '"n"\n22\n'


def test_a_folder_of_tables_as_of_an_instant(hudi_bridge: Call, lake: str) -> None:
    query = 'SELECT count(*) AS then, (SELECT count(*) FROM "trips@20261121133045879") AS later FROM trips'
    assert hudi_bridge("sql", lake, query, "--as-of", "20261121133031439").text == '"then","later"\n60,65\n'


def test_the_tables_of_a_folder_are_listed(hudi_bridge: Call, lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = "SHOW TABLES;\nCREATE TABLE copied AS FROM trips;\nshow tables ;\nSELECT count(*) AS n FROM copied;\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(statements))
    outcome = hudi_bridge("sql", lake, "-f", "json")
    values = [value for line in outcome.text.splitlines() for value in json.loads(line).values()]
    tables = ['"sales.eu".orders', "sales.orders", "trips"]
    assert values == [*tables, 65, *tables, "copied", 65]


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("FROM tripz", "table: found 'tripz', expected a table such as trips"),
        ("FROM sales.eu.orders", """expected a table such as "sales.eu".orders"""),
        ("SELECT nope FROM trips", 'Referenced column "nope"'),
        ("FROM trips__at_x", "--as-of: found 'x'"),
    ],
)
def test_statements_over_a_folder_that_fail(hudi_bridge: Call, lake: str, query: str, error: str) -> None:
    outcome = hudi_bridge("sql", lake, query)
    assert outcome.code in {1, 2}
    assert outcome.out == b""
    assert error in outcome.err


def test_an_unreadable_table_of_a_folder_is_an_error_where_it_is_named(
    hudi_bridge: Call, lake: str, damaged_table: Path
) -> None:
    shutil.copytree(damaged_table, Path(lake) / "damaged")
    assert hudi_bridge("sql", lake, "SELECT count(*) AS n FROM trips").text == '"n"\n65\n'
    outcome = hudi_bridge("sql", lake, "SELECT max(name) FROM damaged")
    assert outcome.code == 1
    assert "log" in outcome.err
    assert "Traceback" not in outcome.err


def test_options_and_payloads_of_one_table_of_a_folder(hudi_bridge: Call, counters: Counters) -> None:
    folder = str(Path(counters.table).parent)
    query = "SELECT ts FROM t"
    assert hudi_bridge("sql", folder, query).code == 1
    assert hudi_bridge("sql", folder, query, "--payload", counters.payload[1]).text == '"ts"\n3\n'
    outcome = hudi_bridge("sql", folder, query, "--option", "u:hoodie.payload.delete.field=op")
    assert outcome.code == 2
    assert "a table that there is, not u" in outcome.err


def test_the_prompt_over_a_folder(in_terminal: Callable[..., str], lake: str) -> None:
    typed = ".tables\nSELECT count(*) AS rows\nFROM trips;\nFROM tripz;\n\\d\n.help\n.quit\n"
    seen = in_terminal("sql", lake, typed=typed, columns=120)
    assert f"the tables of {lake}, which .tables lists" in seen
    assert '│ "sales.eu".orders │' in seen
    assert "│   65 │" in seen
    assert "found 'tripz', expected a table such as trips" in seen
    assert "\\d is no command here. Instead: SHOW TABLES; or DESCRIBE NAME;" in seen
    assert "DESCRIBE NAME; the columns of a table or view" in seen
    assert "Traceback" not in seen


def test_a_folder_without_tables_is_no_table(hudi_bridge: Call, tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        outcome = hudi_bridge("sql", str(path), "SELECT 1")
        assert outcome.code == 1
        assert "not a Hudi table" in outcome.err
