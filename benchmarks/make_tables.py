"""Writes tables with Hudi on Spark: ``python -m benchmarks.make_tables standard``.

All that are missing are written in one session of PySpark 3.5 with Hudi's bundle (``make .venv-spark35/.installed``). A
table is in ``<cache>/<name>/table``, beside the SQL that wrote it, and is written again only when that SQL changes.
"""

import argparse
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.hudi_bundle import hudi_bundle
from benchmarks.recipes import Recipe, of_scenario
from benchmarks.scenarios import SCENARIOS, Scenario
from benchmarks.spark_environment import PYTHON35, environment

CACHE_VARIABLE = "HUDI_BRIDGE_BENCHMARKS"
ROOT = Path(__file__).parent.parent


def default_cache() -> Path:
    """The folder of the tables: ``$HUDI_BRIDGE_BENCHMARKS``, or one in the user's cache."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else Path.home() / ".cache" / "hudi-bridge" / "benchmarks"


def make_table(scenario: Scenario, cache: Path) -> Path:
    """The path of a scenario's table."""
    return make_tables([of_scenario(scenario)], cache)[0]


def make_tables(recipes: Sequence[Recipe], cache: Path) -> list[Path]:
    """The paths of tables; writes those that the same statements have not written before."""
    paths = [cache / recipe.name / "table" for recipe in recipes]
    drafts = []
    for recipe, path in zip(recipes, paths, strict=True):
        written, statements = path.with_name("table.sql"), recipe.statements(path)
        if written.exists() and written.read_text() == statements:
            continue
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir(parents=True)
        draft = path.with_name("draft.sql")
        draft.write_text(statements)
        drafts.append(str(draft))
    if drafts:
        command = [str(PYTHON35), "-m", "benchmarks.spark_writer", str(hudi_bundle()), *drafts]
        subprocess.run(command, check=True, cwd=ROOT, env=environment(PYTHON35))
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the benchmark tables with Hudi on Spark.")
    parser.add_argument("scenarios", nargs="+", choices=SCENARIOS)
    parser.add_argument("--cache", type=Path, default=default_cache(), help="default: %(default)s")
    options = parser.parse_args()
    for path in make_tables([of_scenario(SCENARIOS[name]) for name in options.scenarios], options.cache.resolve()):
        print(path, flush=True)


if __name__ == "__main__":
    main()
