"""The help of each command, on a terminal of 80 columns, and the examples at its end."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hudi_bridge import samples
from hudi_bridge.cli.app import _COMMANDS, EXAMPLES
from tests.cli.conftest import Outcome
from tests.support.strength import one_in


def names() -> Iterator[str]:
    """The names of all commands; of groups, those of the commands in them."""
    for name, place in _COMMANDS.items():
        below: Any = getattr(place.load(name), "commands", {})
        yield from (f"{name} {single}" for single in below) if below else (name,)


NAMES = list(names())
BEFORE = {"trino sql": "publish log-records"}
"""Examples that need what another has made."""


@pytest.mark.parametrize("name", ["", *dict.fromkeys(name.split()[0] for name in NAMES if " " in name), *NAMES])
def test_nothing_of_the_help_is_cut(
    hudi_bridge: Callable[..., Outcome], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("COLUMNS", "TERMINAL_WIDTH"):
        monkeypatch.setenv(variable, "80")
    outcome = hudi_bridge(*name.split(), "--help")
    assert outcome.code == 0
    assert max(map(len, outcome.text.splitlines())) <= 80
    assert "…" not in outcome.text
    if name in EXAMPLES:
        assert f"Example: {EXAMPLES[name]}" in outcome.text


def test_each_command_has_an_example() -> None:
    assert set(EXAMPLES) == {"", *NAMES}


@pytest.mark.parametrize("name", one_in(4, ["", *(name for name in NAMES if not name.startswith("serve"))]))
def test_examples_run_on_the_sample_tables(
    hudi_bridge: Callable[..., Outcome], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    samples.unpack(tmp_path)
    for example in (EXAMPLES[other] for other in (BEFORE.get(name), name) if other is not None):
        program, *arguments = shlex.split(example)
        outcome = hudi_bridge(*arguments)
        assert program == "hudi-bridge"
        assert outcome.code == 0, outcome.err


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("serve")])
def test_examples_that_do_not_end_are_parsed(name: str) -> None:
    group, single, *arguments = shlex.split(EXAMPLES[name])[1:]
    command = _COMMANDS[group].load(group).commands[single]
    assert command.make_context(single, arguments).params["scratch"] == "served"
