"""Asks the same question of an engine, beside a writer of Hudi, and of the table as of each of its instants."""

import contextlib
import subprocess
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pyarrow.compute as pc

from hudi_bridge import HudiTable, InstantNotReadableError
from tests.connectors.spark.test_spark_writer import write_round

Answer = tuple[int, int, int]
"""The number of rows, and the sums of ``ts`` and of ``fare`` in cents."""
PAUSE_SECONDS = 0.5
"""Between questions, for the writer to get on."""


def ask_while(thread: Thread, ask: Callable[[], None]) -> None:
    """Ask as long as a thread runs, and once after it has ended."""
    thread.start()
    while thread.is_alive():
        ask()
        thread.join(PAUSE_SECONDS)
    ask()


def write_and_note(writer: "subprocess.Popen[str]", table: Path, expected: dict[str, Answer], rounds: int) -> None:
    """Let a writer do the rounds after its first, and note the answers as of each instant."""
    for _ in range(rounds - 1):
        write_round(writer)
        expected |= answers_at_instants(table)


def answers_at_instants(folder: Path) -> dict[str, Answer]:
    """The answer as of each instant that can be read."""
    table = HudiTable.open(str(folder))
    answers = {}
    for commit in table.timeline.commits():
        with contextlib.suppress(InstantNotReadableError):
            rows = table.snapshot(commit.requested_time).to_table(columns=["ts", "fare"])
            cents = pc.sum(pc.round(pc.multiply(rows["fare"], 100))).as_py()
            answers[commit.requested_time] = (rows.num_rows, pc.sum(rows["ts"]).as_py(), int(cents))
    return answers
