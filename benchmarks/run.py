"""Times reads beside other readers: ``python -m benchmarks.run --size standard``, or ``run standard`` for one table.

Every measurement runs in a process of its own, the readers in turns. Their answers are compared first; one that differs
or is refused is shown as such. A reader that cannot be built here is left out, which the results say. They go to
``results/``: JSON, a page and a plot.
"""

import argparse
import datetime as dt
import os
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from benchmarks import aims, machine, page, plot
from benchmarks.contenders import NAMES, Contender, running_contender
from benchmarks.make_tables import default_cache
from benchmarks.readings import BUNDLE, OURS, Line, Run
from benchmarks.results_folder import keep, today
from benchmarks.rust_programs import NotBuiltError
from benchmarks.scenarios import SCENARIOS
from benchmarks.store import Store, running_store
from benchmarks.suite import BYTES_PER_SECOND, LATENCY_SECONDS, SIZES, Case, cases, make_all, of_scenario
from benchmarks.turns import measure

NAMED = "named"
"""The size of a run of tables with a name."""


def run_cases(
    chosen: Sequence[Case],
    cache: Path,
    *,
    size: str,
    rounds: int,
    readers: Collection[str],
    only: Collection[tuple[str, str]] | None = None,
    store: AbstractContextManager[Store] | None = None,
) -> Run:
    """The run of some cases by some readers.

    ``only`` names the cases and reads to be measured, all unless given; cases that are far are read from ``store``, by
    default one with latency.
    """
    tables = make_all(chosen, cache)
    facts = machine.facts()
    lines: list[Line] = []
    contenders: list[Contender] = []
    with ExitStack() as stack:
        for name in NAMES:
            try:
                contenders += [stack.enter_context(running_contender(name))] if name in {OURS, *readers} else []
            except NotBuiltError as error:
                facts[name] = f"left out: {error}"
                print(f"{name} is left out: {error}", flush=True)
        far = stack.enter_context(store or running_store(cache, LATENCY_SECONDS, BYTES_PER_SECOND))
        for number, (case, table) in enumerate(zip(chosen, tables, strict=True), 1):
            reads = [read for read in case.reads if only is None or (case.name, read.name) in only]
            print(f"{dt.datetime.now(dt.UTC):%H:%M:%S} {number}/{len(chosen)} {case.name}: {case.about}", flush=True)
            lines += measure(case, table, contenders, rounds, far, reads)
    return Run(
        date=today(),
        size=size,
        rounds=rounds,
        machine=facts | {"load average after": f"{os.getloadavg()[0]:.2f}"},
        cases={case.name: case.about for case in chosen},
        lines=tuple(lines),
    )


def add_options(parser: argparse.ArgumentParser, size: str) -> None:
    """The options of all commands that run cases."""
    parser.add_argument("--size", choices=SIZES, default=size, help="scales all tables (default: %(default)s)")
    parser.add_argument("--rows", type=int, help="rows of a table of updates; those of other tables follow")
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="cases that begin with one of these")
    parser.add_argument("--rounds", type=int, help="runs of each read and reader; by the size unless given")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="default: %(default)s")


def chosen_cases(options: argparse.Namespace) -> list[Case]:
    """The cases that options name."""
    size = SIZES[options.size]
    found = cases(size.with_rows(options.rows) if options.rows else size)
    return [case for case in found if case.name.startswith(tuple(options.only))]


def size_of(options: argparse.Namespace) -> str:
    """What a run calls its size."""
    return f"{options.rows} rows" if options.rows else str(options.size)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time reads of hudi-bridge beside other readers on the same tables.")
    parser.add_argument(
        "scenarios", nargs="*", help=f"tables of one size ({', '.join(SCENARIOS)}) instead of the suite"
    )
    add_options(parser, "standard")
    parser.add_argument("--readers", nargs="+", choices=NAMES, default=NAMES, help="default: all")
    parser.add_argument("--no-spark", action="store_true", help="leave Hudi on Spark out")
    parser.add_argument("--record", action="store_true", help="record the ratios in aims.json as reached")
    parser.add_argument("--publish", action="store_true", help="show the results in docs/performance.md")
    options = parser.parse_args()
    if unknown := set(options.scenarios) - set(SCENARIOS):
        parser.error(f"no tables named {', '.join(sorted(unknown))}")
    named = [of_scenario(SCENARIOS[name]) for name in options.scenarios]
    readers = set(options.readers) - ({BUNDLE} if options.no_spark else set())
    found = run_cases(
        named or chosen_cases(options),
        options.cache.resolve(),
        size=NAMED if named else size_of(options),
        rounds=options.rounds or SIZES[options.size].rounds,
        readers=readers,
    )
    known = aims.load()
    if options.record:
        known = known.recording(found)
        known.save()
    text = page.markdown(found, known)
    path = keep(text, "-".join(options.scenarios) or f"suite-{found.size}".replace(" ", "-"))
    found.save(path.with_suffix(".json"))
    path.with_suffix(".svg").write_text(plot.dots(found))
    if options.publish:
        page.publish(found, known, path)
    print(f"{text}\n{path}", flush=True)


if __name__ == "__main__":
    main()
