"""A few tables of ``make random``: two releases write them, and every answer is compared with Hudi's."""

from pathlib import Path

import pytest

from tests.random.drawing import draw
from tests.random.run import Run

TABLES = (("0.15.0", 296), ("1.2.0", 223), ("1.2.0", 310))
"""Releases and seeds: some of few steps with much that is drawn seldom."""


@pytest.mark.jvm
def test_random_tables_are_read_as_hudi_reads_them(tmp_path: Path) -> None:
    lines: list[str] = []
    run = Run(tmp_path, lines.append)
    run.tables([draw(release, seed) for release, seed in TABLES])
    assert (run.summary.tables, run.summary.with_faults) == (len(TABLES), []), "\n".join(lines)
    assert run.summary.statuses["equal"] > 10 * len(TABLES)
