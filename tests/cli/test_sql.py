import io
import json
import re
import shutil
import sys
from collections.abc import Callable
from itertools import starmap
from pathlib import Path

import pytest

from hudi_bridge.cli.prompt import Completion, is_complete, iter_statements
from hudi_bridge.cli.sql import open_lake_session
from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.connectors.lakes.tables import MergingByTable
from tests.cli.conftest import Counters, Outcome
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in

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


def test_views_of_what_is_in_the_table_are_made_when_they_are_named(hudi_bridge: Call, story: str) -> None:
    statement = "SELECT count(*) AS n FROM a_story_v9_120_log_blocks WHERE counts"
    assert hudi_bridge("sql", story, statement).text == '"n"\n10\n'
    assert "log_blocks" not in hudi_bridge("sql", story, "SHOW TABLES").text


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


@pytest.mark.parametrize("end", one_in(2, ["\\q", "exit;"]))
def test_commands_of_other_prompts_are_answered(in_terminal: Callable[..., str], story: str, end: str) -> None:
    typed = f".help\nhelp\n\\d\n\\dt\n\\d+ t\n.output csv\nSELECT 40 + 2\n AS n;\n{end}\nSELECT 'too late';\n"
    seen = in_terminal("sql", story, typed=typed, columns=120)
    assert seen.count(".tables       what can be queried") == 2
    assert "\\d is no command here. Instead: SHOW TABLES; or DESCRIBE t;" in seen
    assert "\\dt is no command here. Instead: SHOW TABLES;" in seen
    assert "\\d+ is no command here. Instead: DESCRIBE t;" in seen
    assert ".output is no command here. Instead: the options --output and --format" in seen
    assert "│ 42 │" in seen
    assert "│ too late │" not in seen


def test_each_statement_of_a_text_gives_its_result(hudi_bridge: Call, story: str) -> None:
    text = "SELECT 1 AS a; SELECT ';' AS b -- ;\n; FROM t SELECT count(*) AS c"
    assert hudi_bridge("sql", story, text).text == '"a"\n1\n"b"\n";"\n"c"\n65\n'
    assert hudi_bridge("sql", story, text, "-f", "json").text == '{"a": 1}\n{"b": ";"}\n{"c": 65}\n'


def test_each_statement_of_a_line_in_a_pipe_gives_its_result(
    hudi_bridge: Call, story: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1 AS a; SELECT 2 AS b;\nSELECT 3 AS c;\n"))
    assert hudi_bridge("sql", story).text == '"a"\n1\n"b"\n2\n"c"\n3\n'


def test_a_statement_that_fails_ends_those_after_it(hudi_bridge: Call, story: str) -> None:
    outcome = hudi_bridge("sql", story, "SELECT 1 AS a; SELECT nope; SELECT 3 AS c")
    assert (outcome.code, outcome.text) == (1, '"a"\n1\n')
    # What cannot be parsed is not begun.
    outcome = hudi_bridge("sql", story, "SELECT 1 AS a; SELEC 2")
    assert (outcome.code, outcome.text) == (1, "")
    assert "SELEC" in outcome.err


def test_statements_that_duckdb_takes_apart_are_one(hudi_bridge: Call, lake: str) -> None:
    text = "PIVOT (SELECT part FROM sales.orders) ON part USING count(*); PRAGMA table_info('sales.orders')"
    outcome = hudi_bridge("sql", lake, text, "-f", "json")
    assert (outcome.code, outcome.err) == (0, "")
    pivoted, *columns = map(json.loads, outcome.text.splitlines())
    assert sum(pivoted.values()) == 24
    assert "id" in {column["name"] for column in columns}


def test_a_schema_that_one_statement_enters_is_that_of_the_next(hudi_bridge: Call, lake: str) -> None:
    assert hudi_bridge("sql", lake, "USE sales; SELECT count(*) AS n FROM orders").text == '"n"\n24\n'


@pytest.mark.parametrize("file", ["x.csv", "x.parquet", "x.arrow"])
def test_a_file_holds_the_result_of_one_statement(hudi_bridge: Call, story: str, tmp_path: Path, file: str) -> None:
    path = str(tmp_path / file)
    outcome = hudi_bridge("sql", story, "CREATE TABLE a AS SELECT 1 AS n; SELECT 2 AS n; FROM a", "-o", path)
    assert outcome.code == 2
    assert f"more than one result for {path}" in outcome.err
    assert "created" not in outcome.err
    assert hudi_bridge("sql", story, "CREATE TABLE a AS SELECT 1 AS n; FROM a", "-o", path).code == 0
    assert Path(path).stat().st_size


def test_a_binary_format_in_a_pipe_holds_the_result_of_one_statement(
    hudi_bridge: Call, story: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1 AS a;\nSELECT 2 AS b;\n"))
    outcome = hudi_bridge("sql", story, "-f", "parquet")
    assert outcome.code == 2
    assert outcome.out[:4] == outcome.out[-4:] == b"PAR1"
    assert "more than one result for parquet" in outcome.err


@pytest.mark.parametrize(
    ("statement", "says"),
    one_in(
        4,
        starmap(
            pytest.param,
            [
                ("CREATE TABLE made AS FROM t", "created table made with 65 rows"),
                ("CREATE OR REPLACE TEMP TABLE made AS SELECT 1", "created table made with 1 row"),
                ("CREATE TABLE IF NOT EXISTS numbers AS SELECT 1 AS n", "table numbers is there"),
                ('CREATE TABLE "to be" (a INT)', 'created table "to be"'),
                ("CREATE VIEW seen AS SELECT 'from' AS a FROM t", "created view seen"),
                ("CREATE SCHEMA other", "created schema other"),
                ("INSERT INTO numbers SELECT 5 FROM t LIMIT 2", "inserted 2 rows into numbers"),
                ("WITH a AS (SELECT 7 AS n) INSERT INTO main.numbers FROM a", "inserted 1 row into main.numbers"),
                ("UPDATE numbers SET n = 0", "updated 3 rows of numbers"),
                ("DELETE FROM numbers WHERE n IN (SELECT 1 FROM t)", "deleted 1 row of numbers"),
                ("COPY t TO '{file}'", "copied 65 rows to {file}"),
                ("COPY (SELECT id FROM t /* to */ LIMIT 7) TO '{file}' (HEADER)", "copied 7 rows to {file}"),
                ("COPY numbers TO '{file}'; COPY numbers FROM '{file}'", "copied 3 rows from {file} into numbers"),
                (
                    "MERGE INTO numbers USING (SELECT 2 AS n) USING (n) WHEN MATCHED THEN DELETE",
                    "merged 1 row into numbers",
                ),
            ],
        ),
    ),
)
def test_statements_say_what_they_have_done(
    hudi_bridge: Call, story: str, tmp_path: Path, statement: str, says: str
) -> None:
    file = str(tmp_path / "it's.csv")
    statement, says = statement.replace("{file}", file.replace("'", "''")), says.replace("{file}", file)
    text = f"CREATE TABLE numbers AS SELECT unnest([1, 2, 3]) AS n; {statement}"
    outcome = hudi_bridge("sql", story, text)
    assert (outcome.code, outcome.out) == (0, b"")
    assert outcome.err.splitlines()[-1] == says


def test_rows_that_a_change_returns_are_rows(hudi_bridge: Call, story: str) -> None:
    text = 'CREATE TABLE n (a INT); INSERT INTO n VALUES (4), (5) RETURNING a AS "Count"'
    outcome = hudi_bridge("sql", story, text)
    assert (outcome.text, outcome.err) == ('"Count"\n4\n5\n', "created table n\n")


def test_plans_are_drawn(hudi_bridge: Call, story: str) -> None:
    outcome = hudi_bridge("sql", story, "EXPLAIN SELECT count(*) FROM t; EXPLAIN ANALYZE SELECT 1")
    assert "AGGREGATE" in outcome.text.upper()
    assert "│\n" in outcome.text
    assert "explain_key" not in outcome.text
    assert "\\n" not in outcome.text
    [plan] = map(json.loads, hudi_bridge("sql", story, "EXPLAIN SELECT 1", "-f", "json").text.splitlines())
    assert plan["explain_key"] == "physical_plan"


def test_words_that_end_the_prompt_are_names_within_a_statement(in_terminal: Callable[..., str], story: str) -> None:
    seen = in_terminal("sql", story, typed="SELECT 1 AS\nexit\n;\n.quit\n")
    assert "│ exit │" in seen


@pytest.mark.long
def test_a_file_that_cannot_be_written_does_not_end_the_prompt(
    in_terminal: Callable[..., str], story: str, tmp_path: Path
) -> None:
    typed = "SELECT 1;\n.help\n.quit\n"
    seen = in_terminal("sql", story, "-o", str(tmp_path / "no" / "x.csv"), typed=typed, columns=200)
    assert f"{tmp_path}/no/x.csv cannot be written: No such file or directory" in seen
    assert "what can be queried" in seen


def test_the_prompt_changes_how_rows_are_shown(in_terminal: Callable[..., str], story: str) -> None:
    typed = ".mode\n.mode json\nSELECT 1 AS a; SELECT 2 AS b;\n.mode csv\nSELECT 3 AS c;\n.mode parquet\n.mode table\n"
    seen = in_terminal("sql", story, typed=f"{typed}SELECT 4 AS d;\nEXPLAIN SELECT 5;\n.quit\n", columns=120)
    assert ".mode is table" in seen
    assert '{"a": 1}\n{"b": 2}\n' in seen
    assert '"c"\n3\n' in seen
    assert ".mode: found 'parquet', expected table, csv, spreadsheet or json" in seen
    assert "│ 4 │" in seen
    assert "explain_key" not in seen


@pytest.mark.long
def test_the_prompt_tells_how_long_statements_took(in_terminal: Callable[..., str], story: str) -> None:
    typed = ".timer\n.timer on\nSELECT 1;\nSELECT nope;\n.timer off\nSELECT 1;\n.timer maybe\n.quit\n"
    seen = in_terminal("sql", story, typed=typed)
    assert ".timer is off" in seen
    assert len(re.findall(r"^\d+\.\d{3} s$", seen, re.MULTILINE)) == 2
    assert ".timer: found 'maybe', expected on or off" in seen


@pytest.mark.long
def test_a_file_keeps_its_format_at_the_prompt(in_terminal: Callable[..., str], story: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    typed = "SELECT 1 AS a;\nSELECT 2 AS b;\n.mode json\n.quit\n"
    seen = in_terminal("sql", story, "-o", str(path), typed=typed, columns=200)
    assert path.read_text() == '"b"\n2\n'
    assert f".mode: found json for {path}, expected a prompt without --output" in seen


def test_tab_completes_names(in_terminal: Callable[..., str], story: str) -> None:
    typed = "SELECT count(*) AS n, min(_hoodie_rec\t) IS NULL AS m FRO\t a_story_v9_120_file_s\t, t;\n.tab\t\n.quit\n"
    seen = in_terminal("sql", story, typed=typed, columns=200, TERM="xterm")
    assert "min(_hoodie_record_key) IS NULL AS m FROM a_story_v9_120_file_slices, t;" in seen.replace("\r", "")
    assert "a_story_v9_120_timeline" in seen


@pytest.mark.parametrize(
    ("word", "before", "names"),
    one_in(
        3,
        starmap(
            pytest.param,
            [
                ("trip", "SELECT * FROM ", ["trips"]),
                ("TRIP", "", ["trips"]),
                ('"sales.eu".o', "FROM ", ['"sales.eu".orders']),
                ("sales.", "FROM ", ["sales.orders"]),
                ("_hoodie_rec", "SELECT ", []),
                ("_hoodie_rec", "FROM trips SELECT ", ["_hoodie_record_key"]),
                ("o._hoodie_rec", "FROM sales.orders o\nWHERE ", ["o._hoodie_record_key"]),
                ("trips_file_", "FROM trips JOIN ", ["trips_file_slices"]),
                ("descr", "", ["describe"]),
                (".t", "", [".tables", ".timer"]),
                (".t", "SELECT ", []),
                ("nothing_like_it", "", []),
            ],
        ),
    ),
)
def test_what_tab_completes(lake: str, word: str, before: str, names: list[str]) -> None:
    roots, merging = Roots.of([lake], []), MergingByTable.parse([], {}, lambda _: None)
    with open_lake_session(roots, merging, None) as session:
        completed = Completion(session).names_like(word, before)
    assert completed == names


def test_names_that_move_the_cursor_are_not_completed(lake: str) -> None:
    (Path(lake) / "trips").rename(Path(lake) / "tri\x1b[2Jps")
    roots, merging = Roots.of([lake], []), MergingByTable.parse([], {}, lambda _: None)
    with open_lake_session(roots, merging, None) as session:
        assert Completion(session).names_like('"tri', "") == []


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
    assert values == [*tables, *tables, "copied", 65]
    assert outcome.err == "created table copied with 65 rows\n"


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


@pytest.mark.long
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
