"""Random tables by Hudi on Spark, and Hudi Bridge's answers beside Hudi's.

    python -m tests.random --minutes 10 [--release 1.2.0] [--seed 1]     tables of seed after seed, of all releases
    python -m tests.random --release 1.2.0 --only 7,12                   tables of these seeds
    python -m tests.random --release 1.2.0 --only 7 --minimise           the table with as few steps as show a fault
    python -m tests.random --release 1.2.0 --only 7 --draw               what would be done

Needs what PySpark 3.5 needs (``make spark``). The exit status is 1 if an answer differs for no known reason; such
tables are kept. CONTRIBUTING.md says what to do with them.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.random.drawing import RELEASES
from tests.random.run import Run, drawn, minimise


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.random", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--release", action="append", choices=RELEASES, help="a release, all if none is named")
    parser.add_argument("--seed", type=int, default=1, help="the first seed of each release")
    parser.add_argument("--only", type=_numbers, metavar="SEEDS", help="these seeds, with commas between them")
    parser.add_argument("--steps", type=_numbers, help="these steps alone, of the one table that is named")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="where tables go; those without a fault are removed")
    parser.add_argument("--keep", action="store_true", help="keep tables without a fault, too")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--draw", action="store_true", help="print what would be done")
    action.add_argument("--minimise", action="store_true", help="leave out steps as long as a fault stays")
    given = parser.parse_args()
    releases = given.release or list(RELEASES)
    tables = drawn(releases, given.only or [given.seed])
    if given.steps:
        tables = [table.with_steps(given.steps) for table in tables]
    if given.draw:
        for table in tables:
            print(f"{table.name}: {'; '.join(table.features())}")
            print(f"    {' '.join(f'{step.number}:{step.name}' for step in table.steps)}")
        return 0
    folder = (given.to or Path(tempfile.mkdtemp(prefix="hudi-bridge-random-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if given.minimise:
        for table in tables:
            smallest = minimise(table, folder, _say)
            print(f"{folder / table.name}: {' '.join(f'{step.number}:{step.name}' for step in smallest.steps)}")
        return 0
    run = Run(folder, _say, keeps_all=given.keep)
    if given.only:
        run.tables(tables)
    else:
        run.over(releases, given.seed, given.minutes)
    print("\n".join(run.summary.lines()))
    if run.summary.with_faults:
        print(f"the tables are kept in {folder}")
    return 1 if run.summary.with_faults or run.summary.failed else 0


def _say(line: str) -> None:
    print(line, flush=True)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
