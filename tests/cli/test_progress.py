"""How much of how much is done: on a terminal, and in no pipe."""

import json
import re
from collections.abc import Callable
from itertools import starmap
from pathlib import Path

import pytest

from hudi_bridge import HudiTable
from hudi_bridge.common.display import size_text
from tests.cli.conftest import Outcome
from tests.support.strength import one_in

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.mark.parametrize(
    ("arguments", "shows"),
    one_in(
        3,
        starmap(
            pytest.param,
            [
                (("read", "{table}", "-o", "{folder}/x.csv"), "65 rows, 5 of 5 file slices, {size} of {size}"),
                (
                    ("publish", "iceberg", "{table}", "--to", "{folder}/a"),
                    "snapshot: 5 of 5 file slices, {size} of {size}",
                ),
                (
                    ("publish", "log-records", "{table}", "--to", "{folder}/b"),
                    "log records: 5 of 5 file slices, {size} of {size}",
                ),
            ],
        ),
    ),
)
def test_a_terminal_shows_how_much_of_how_much_is_done(
    in_terminal: Callable[..., str], story: str, tmp_path: Path, arguments: tuple[str, ...], shows: str
) -> None:
    slices = [part for split in HudiTable.open(story).snapshot().splits() for part in split.slices]
    size = size_text(sum(part.base_size_bytes + part.log_size_bytes for part in slices))
    words = [word.format(table=story, folder=tmp_path) for word in arguments]
    seen = in_terminal(*words, columns=200, TERM="xterm")
    assert shows.format(size=size) in _CODES.sub("", seen)


@pytest.mark.long
def test_a_terminal_shows_which_query_is_compared(in_terminal: Callable[..., str], story: str) -> None:
    seen = _CODES.sub("", in_terminal("compare", story, "--with", "hudi", columns=300, TERM="xterm"))
    assert re.search(r"query \d of \d|\d queries to hudi", seen)


def test_a_pipe_shows_no_progress(hudi_bridge: Callable[..., Outcome], story: str, tmp_path: Path) -> None:
    assert hudi_bridge("read", story, "-o", str(tmp_path / "x.csv")).err == ""
    assert hudi_bridge("publish", "log-records", story, "--to", str(tmp_path / "a")).err.count("file slices") <= 1
    outcome = hudi_bridge("doctor", story, "--deep", "-f", "json")
    assert outcome.err == ""
    assert json.loads(outcome.text)["deep"] is True
