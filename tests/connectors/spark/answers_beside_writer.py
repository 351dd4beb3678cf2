"""Asks the same question of an engine, beside a writer of Hudi, and of the table as of each of its instants."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pyarrow.compute as pc

from benchmarks.hudi_bundle import hudi_bundle
from hudi_bridge import HudiTable, InstantNotReadableError
from tests.connectors.spark.processes import HERE, PYTHON35, environment

Answer = tuple[int, int, int]
"""The number of rows, and the sums of ``ts`` and of ``fare`` in cents."""
PAUSE_SECONDS = 0.5
"""Between questions, for the writer to get on."""


@contextlib.contextmanager
def running_writer(table: Path | str, rounds: int) -> Iterator["subprocess.Popen[str]"]:
    """A writer of Hudi, which upserts, deletes, compacts, clusters, cleans and archives, a round at a time."""
    command = [str(PYTHON35), str(HERE / "hudi_writer.py"), str(hudi_bundle()), str(table), str(rounds)]
    with subprocess.Popen(
        command, env=environment(PYTHON35), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        try:
            yield writer
        finally:
            writer.kill()


def write_round(writer: "subprocess.Popen[str]") -> None:
    """Let a writer do its next round."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write("\n")
    writer.stdin.flush()
    # Hudi prints, too.
    assert "written\n" in writer.stdout, "the writer has failed"


def ask_while(thread: Thread, ask: Callable[[], None]) -> None:
    """Ask as long as a thread runs, and once after it has ended."""
    thread.start()
    while thread.is_alive():
        ask()
        thread.join(PAUSE_SECONDS)
    ask()


def write_and_note(
    writer: "subprocess.Popen[str]", table: Path | str, expected: dict[str, Answer], rounds: int
) -> None:
    """Let a writer do some more rounds, and note the answers as of each instant."""
    for _ in range(rounds):
        write_round(writer)
        expected |= answers_at_instants(table)


def answers_at_instants(folder: Path | str) -> dict[str, Answer]:
    """The answer as of each instant that can be read."""
    table = HudiTable.open(str(folder))
    answers = {}
    for commit in table.timeline.commits():
        with contextlib.suppress(InstantNotReadableError):
            answers[commit.requested_time] = answer_of_table(table, commit.requested_time)
    return answers


def answer_of_table(table: HudiTable, as_of: str | None = None) -> Answer:
    """The answer as of an instant, or as of the newest."""
    rows = table.snapshot(as_of).to_table(columns=["ts", "fare"])
    cents = pc.sum(pc.round(pc.multiply(rows["fare"], 100))).as_py()
    return rows.num_rows, pc.sum(rows["ts"]).as_py(), int(cents)
