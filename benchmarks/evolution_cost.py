"""Measures what schema evolution costs if the schema never changed: ``python -m benchmarks.evolution_cost standard``.

The result is its share of the CPU time of a full read.
"""

import argparse
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from benchmarks.make_tables import default_cache, make_table
from benchmarks.scenarios import SCENARIOS
from hudi_bridge import HudiTable
from hudi_bridge.readers import base_file, log_record_scanner
from hudi_bridge.schema.evolve import Evolution

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Stopwatch:
    """Adds up the CPU time of functions that do not call each other."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0

    def timed(self, function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        """The function, measured."""

        def measured(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
            start = time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds += time.thread_time() - start
                self.calls += 1

        return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    path = str(make_table(SCENARIOS[parser.parse_args().scenario], default_cache()))
    HudiTable.open(path).snapshot().count_rows()
    watch = Stopwatch()
    measured = ((Evolution, "apply"), (base_file, "plan_file_evolution"), (log_record_scanner, "plan_file_evolution"))
    for owner, name in measured:
        setattr(owner, name, watch.timed(getattr(owner, name)))
    start = time.process_time()
    rows = sum(batch.num_rows for batch in HudiTable.open(path).snapshot().to_batches())
    total = time.process_time() - start
    cost = f"{watch.calls} calls for evolution, {watch.seconds:.4f} s, {100 * watch.seconds / total:.2f} %"
    print(f"{rows:,} rows in {total:.2f} s of CPU; {cost}")


if __name__ == "__main__":
    main()
