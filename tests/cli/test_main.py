import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import starmap
from pathlib import Path

import pytest

from hudi_bridge import __version__
from hudi_bridge.common import threads
from hudi_bridge.common.imports import how_to_install
from tests.cli.conftest import COMMAND, ROOT, Outcome
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in

Call = Callable[..., Outcome]

WRONG_CALLS = {
    "no command": [],
    "no command of a group": ["trino"],
    "no argument": ["info"],
    "unknown option": ["read", "{table}", "--colums", "id"],
    "unknown command": ["reed", "{table}"],
    "unknown column": ["read", "{table}", "--columns", "id,nope"],
    "unknown format": ["read", "{table}", "-f", "xml"],
    "negative limit": ["read", "{table}", "--limit", "-1"],
    "time that is none": ["read", "{table}", "--as-of", "yesterday"],
    "file without format": ["read", "{table}", "-o", "rows"],
    "table into a file": ["read", "{table}", "-f", "table", "-o", "rows.txt"],
}
FAILURES = {
    "no table": ["info", "/nowhere"],
    "wrong SQL": ["sql", "{table}", "SELEC 1"],
    "wrong condition": ["read", "{table}", "--where", "nope = 1"],
    "SQL that fails": ["sql", "{table}", "SELECT 'x'::INT"],
    "cannot be written": ["read", "{table}", "-o", "/nowhere/rows.csv"],
    "no columns": ["sql", "{empty}", "FROM t"],
    "instant that is gone": ["read", "{cleaned}", "--as-of", "20261121143237093"],
}


@pytest.mark.parametrize("arguments", WRONG_CALLS.values(), ids=WRONG_CALLS.keys())
def test_a_wrong_call_ends_with_2(hudi_bridge: Call, story: str, arguments: list[str]) -> None:
    outcome = hudi_bridge(*(argument.format(table=story) for argument in arguments))
    assert outcome.code == 2
    assert (outcome.out + outcome.err.encode()).strip()
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("arguments", one_in(2, FAILURES.values()), ids=FAILURES.keys())
def test_what_cannot_be_done_ends_with_1(hudi_bridge: Call, story: str, arguments: list[str]) -> None:
    tables = {"table": story, "empty": golden_table("i_only_inflight_120"), "cleaned": golden_table("d_cleaned_0150")}
    outcome = hudi_bridge(*(argument.format(**tables) for argument in arguments))
    assert outcome.code == 1
    assert outcome.out == b""
    assert outcome.err.startswith("hudi-bridge: ")
    assert "Traceback" not in outcome.err


INSTANTS = "yyyy-MM-dd, yyyy-MM-dd HH:mm:ss[.SSS], yyyyMMddHHmmss, yyyyMMddHHmmssSSS"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["info", "{table}", "--option", "a=b"],
            "--option: found a, expected a read option; docs/options.md lists them",
        ),
        (
            ["info", "{table}", "--option", "hoodie.metadata.enable=no"],
            "--option: hoodie.metadata.enable: found 'no', expected true or false\n",
        ),
        (["info", "{table}", "--storage-option", "a=b"], "--storage-option: found 'a', expected none for a path"),
        (["read", "{table}", "--as-of", "nope"], f"--as-of: found 'nope', expected {INSTANTS}\n"),
        (["diff", "{table}", "nope"], f"A: found 'nope', expected {INSTANTS}\n"),
        (["diff", "{table}", "2026-01-01", "nope"], f"B: found 'nope', expected {INSTANTS}\n"),
        (["doctor", "{table}", "--now", "nope"], f"--now: found 'nope', expected {INSTANTS}\n"),
        (["show", "{table}", "nope"], "INSTANT: found 'nope', expected the requested time of a completed commit"),
        (["metadata", "{table}", "nope"], "INDEX: found 'nope', expected "),
        (["metadata", "{table}", "--key", "k"], "--key: found a key without INDEX, expected the index to look in\n"),
    ],
)
def test_errors_name_arguments_as_the_command_line_does(
    hudi_bridge: Call, story: str, arguments: list[str], expected: str
) -> None:
    outcome = hudi_bridge(*(argument.format(table=story) for argument in arguments))
    assert outcome.code == 2
    assert outcome.err.startswith(f"hudi-bridge: {expected}")


def test_without_arguments_there_is_help(hudi_bridge: Call) -> None:
    for arguments in ((), ("trino",), ("publish",)):
        assert hudi_bridge(*arguments).text.strip() == hudi_bridge(*arguments, "--help").text.strip()


@pytest.mark.parametrize(
    "arguments",
    [["read", "{table}"], ["read", "{table}", "--where", "name > ''"], ["sql", "{table}", "SELECT max(name) FROM t"]],
    ids=["read", "where", "sql"],
)
def test_a_damaged_table_ends_with_1(hudi_bridge: Call, damaged_table: Path, arguments: list[str]) -> None:
    outcome = hudi_bridge(*(argument.format(table=damaged_table) for argument in arguments))
    assert outcome.code == 1
    assert outcome.err.startswith("hudi-bridge: ")
    assert ".log.1_" in outcome.err
    assert " at byte " in outcome.err
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["read", "{table}"], ["sql", "{table}", "FROM t"]], ids=["read", "sql"])
def test_an_interrupt_ends_with_130(
    hudi_bridge: Call, story: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        # A shell has its background jobs ignore the signal.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(threads.Workers, "items", interrupted)
    before = signal.getsignal(signal.SIGINT)
    try:
        assert hudi_bridge(*(argument.format(table=story) for argument in arguments)).code == 130
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("extra", "environment"),
    one_in(2, [pytest.param(["--debug"], {}), pytest.param([], {"HUDI_BRIDGE_DEBUG": "1"})]),
)
def test_debug_shows_where(damaged_table: Path, extra: list[str], environment: dict[str, str]) -> None:
    command = [sys.executable, "-c", "from hudi_bridge.cli.main import main; main()", "read", str(damaged_table)]
    done = subprocess.run([*command, *extra], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" in done.stderr
    assert "CorruptLogFileError" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    one_in(
        2,
        starmap(
            pytest.param,
            [
                (["hudi-bridge", "publish", ""], "iceberg log-records"),
                (["hudi-bridge", "read", "T", "--format", ""], "table csv spreadsheet json parquet arrow"),
            ],
        ),
    ),
)
def test_the_shell_completes_commands_options_and_values(words: list[str], expected: str) -> None:
    """As the function that --show-completion prints asks for it."""
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    environment = {**os.environ, **asked, "_HUDI_BRIDGE_COMPLETE": "complete_bash"}
    done = subprocess.run(COMMAND, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == expected.split()


def test_completion_is_installed_for_a_shell(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = f"{' '.join(map(shlex.quote, COMMAND))} --install-completion; true"
    subprocess.run(["bash", "-c", command], env=environment, capture_output=True, check=True)
    installed = tmp_path / ".bash_completions" / "hudi-bridge.sh"
    assert "complete -o default -F _hudi_bridge_completion hudi-bridge" in installed.read_text()
    assert str(installed) in (tmp_path / ".bashrc").read_text()


@pytest.mark.long
def test_colours_are_for_terminals_that_want_them(in_terminal: Callable[..., str], story: str) -> None:
    coloured = "\x1b[1;31m"
    assert coloured in in_terminal("info", "/nowhere", TERM="xterm-256color")
    assert coloured not in in_terminal("info", "/nowhere", TERM="xterm-256color", NO_COLOR="1")
    for extra, expected in (({}, False), ({"FORCE_COLOR": "1"}, True)):
        done = subprocess.run(
            [*COMMAND, "slices", story, "-f", "table"], env={**os.environ, **extra}, capture_output=True, check=True
        )
        assert (b"\x1b[" in done.stdout) == expected


def test_a_missing_extra_is_named(story: str) -> None:
    for module, arguments in (("typer", ("info",)), ("rich", ("info",)), ("duckdb", ("sql", "SELECT 1"))):
        program = f"import sys; sys.modules['{module}'] = None; from hudi_bridge.cli.main import main; main()"
        command = [sys.executable, "-W", "error", "-c", program, arguments[0], story, *arguments[1:]]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr == (
            f"hudi-bridge: {module} is not installed; the command line needs: {how_to_install('cli')}\n"
        )


def test_help_names_every_command(hudi_bridge: Call) -> None:
    outcome = hudi_bridge("--help")
    assert outcome.code == 0
    for command in ("info", "schema", "timeline", "slices", "splits", "read", "sql"):
        assert f" {command} " in outcome.text
        assert hudi_bridge(command, "-h").code == 0


def test_names_from_outside_do_not_reach_the_terminal_as_they_are(hudi_bridge: Call, story: str) -> None:
    outcome = hudi_bridge("info", "/no\x1b]0;title\x07where/[bold]x[/bold]")
    assert "\x1b]" not in outcome.err
    assert "/no\\x1b]0;title\\x07where/[bold]x[/bold]" in outcome.err
    shown = hudi_bridge("sql", story, "SELECT 'a' || chr(27) || '[2Jb' AS \"c[red]d\"", "-f", "table").text
    assert "\x1b" not in shown
    assert "a\\x1b[2Jb" in shown
    assert "c[red]d" in shown


@pytest.mark.parametrize("form", one_in(3, ["table", "csv", "json"]))
def test_rows_on_a_terminal_cannot_steer_it(in_terminal: Callable[..., str], story: str, form: str) -> None:
    seen = in_terminal("sql", story, "SELECT 'a' || chr(27) || '[2J' || chr(155) || 'é' AS x", "-f", form)
    assert "\x1b[2J" not in seen
    assert "\x9b" not in seen
    assert "é" in seen


def test_nothing_binary_on_a_terminal(in_terminal: Callable[..., str], story: str) -> None:
    for form in ("parquet", "arrow"):
        assert "which is binary, for a terminal" in in_terminal("read", story, "-f", form)


@pytest.mark.parametrize("columns", one_in(3, [20, 80, 200]))
@pytest.mark.parametrize("case", ["f_types_120", "i_empty_120"])
def test_tables_keep_to_the_width_of_the_terminal(in_terminal: Callable[..., str], case: str, columns: int) -> None:
    seen = in_terminal("read", str(golden_table(case)), columns=columns)
    grid = [line for line in seen.splitlines() if line.startswith(("╭", "│", "╰"))]
    assert len(grid) > 2
    assert {len(line) for line in grid if line.isascii() or "╭" in line} == {len(grid[0])}
    assert len(grid[0]) <= columns
    assert "--format json" in " ".join(seen.split()) or columns == 200


def test_the_version_is_that_of_the_package(hudi_bridge: Call) -> None:
    outcome = hudi_bridge("--version")
    assert (outcome.code, outcome.text) == (0, f"hudi-bridge {__version__}\n")
