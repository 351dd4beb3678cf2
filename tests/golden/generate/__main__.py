"""Generates the golden tables in the archives, with real Hudi on Spark.

    python -m tests.golden.generate NAME...|GROUP... --to FOLDER
    python -m tests.golden.generate --list [NAME...|GROUP...]
    python -m tests.golden.generate --compare FOLDER

A group is the letter of an archive. Hudi's bundles are fetched once (see benchmarks/maven_jar.py). PySpark 3.5 is that
of ``make spark``; Hudi 0.12 needs a Python 3.10 with PySpark 3.3 and PyArrow, which ``PYTHON_SPARK33`` names. Java is
found through ``JAVA_HOME``; ``SPARK_DRIVER_MEMORY`` sets Spark's memory (2g). Keys and values are the same in each run;
instants and file ids are not. Hudi writes the paths of tables into some plans, so choose a short and neutral FOLDER.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.golden.generate.cases import CASES
from tests.golden.generate.comparison import compare
from tests.golden.generate.registry import Case
from tests.golden.generate.releases import NEWEST, RELEASES, ROOT, Release


def main() -> int:
    """Runs the command line; the exit status is 1 if something failed or differs."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.golden.generate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="cases, or letters of archives")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--to", type=Path, metavar="FOLDER", help="write the cases into this folder")
    action.add_argument("--list", action="store_true", help="list cases, all unless some are named")
    action.add_argument(
        "--compare", type=Path, metavar="FOLDER", help="compare the cases in this folder with those of the archives"
    )
    arguments = parser.parse_args()
    try:
        chosen = named(arguments.names)
    except LookupError as error:
        parser.error(str(error))
    if arguments.list:
        for case in chosen or golden():
            print(f"{case.name:32} {case.release:7} {case.covers}")
        return 0
    if arguments.compare is not None:
        return compare(arguments.compare)
    if not chosen:
        parser.error("name cases or letters of archives")
    return generate(chosen, arguments.to.resolve())


def golden() -> list[Case]:
    """The cases that are in archives."""
    return [case for case in CASES.values() if case.is_golden]


def named(names: Sequence[str]) -> list[Case]:
    """The cases of these names and groups.

    Raises:
        LookupError: a name is neither.
    """
    chosen: dict[str, Case] = {}
    for name in names:
        actual = [case for case in golden() if name in {case.name, case.group}]
        if not actual:
            raise LookupError(f"no case and no group is named {name}")
        chosen |= {case.name: case for case in actual}
    return list(chosen.values())


def generate(chosen: Sequence[Case], folder: Path) -> int:
    """Writes cases, from the oldest release on; then the newest release reads those of older ones."""
    folder.mkdir(parents=True, exist_ok=True)
    beginnings = {case.begins_as: CASES[case.begins_as] for case in chosen if case.begins_as is not None}
    status = 0
    for release in RELEASES.values():
        written = [case for case in [*beginnings.values(), *chosen] if case.release == release.version]
        status |= run("write", release, written, folder)
    older = [case for case in chosen if case.release != NEWEST and (folder / case.name / "case.json").exists()]
    status |= run("review", RELEASES[NEWEST], older, folder)
    for name in beginnings:
        shutil.rmtree(folder / name, ignore_errors=True)
    return status


def run(task: str, release: Release, cases: Iterable[Case], folder: Path) -> int:
    """Runs a task on cases, all in one process of the release, as Spark is slow to start."""
    names = [case.name for case in cases]
    if not names:
        return 0
    if not release.python.exists():
        raise SystemExit(f"Hudi {release.version} needs {release.python}; see python -m tests.golden.generate --help")
    command = [str(release.python), "-m", "tests.golden.generate.worker", task, release.version]
    command += [str(release.bundle.fetched()), str(folder), *names]
    kept = {name: value for name, value in os.environ.items() if name not in {"SPARK_HOME", "PYSPARK_GATEWAY_PORT"}}
    return subprocess.run(command, env=kept | {"TZ": "UTC", "PYTHONPATH": str(ROOT)}, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
