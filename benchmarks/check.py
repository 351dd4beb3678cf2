"""Fails where a ratio has become worse than recorded by more than a quarter: ``python -m benchmarks.check``.

All cases are measured at a small size, beside the readers that ratios are made of. What falls short is measured more
often: only what still falls short with the best of all rounds counts. The machine should have nothing else to do.
"""

import argparse
import os
import sys
from functools import partial

from benchmarks import aims
from benchmarks.readings import FLOOR, FLOOR_WITH_KEY, NEWEST_PEER, PEER
from benchmarks.run import add_options, chosen_cases, run_cases, size_of

READERS = (PEER, NEWEST_PEER, FLOOR, FLOOR_WITH_KEY)
ROUNDS, MORE_ROUNDS = 4, 12


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "small")
    parser.add_argument("--record", action="store_true", help="record the worst of two runs in aims.json instead")
    options = parser.parse_args()
    chosen, cache = chosen_cases(options), options.cache.resolve()
    known = aims.load()
    size = size_of(options)
    if size not in known.reached and not options.record:
        parser.error(f"nothing is recorded for the size {size}: --record does so")
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        print("the machine is busy with something else: ratios vary by more than a quarter")
    measured = partial(run_cases, chosen, cache, size=size, rounds=options.rounds or ROUNDS, readers=READERS)
    run = measured()
    if options.record:
        # What one run reaches by chance is nothing to compare with.
        known.recording(run, measured()).save()
        print(f"recorded in {aims.PATH}")
        return 0
    if first := aims.shortfalls(known, run):
        print(*first, "", "measured again:", sep="\n")
        only = {(one.case, one.read) for one in first}
        again = [case for case in chosen if any(case.name == name for name, _ in only)]
        more = run_cases(again, cache, size=size, rounds=MORE_ROUNDS, readers=READERS, only=only)
        run = run.with_readings(more.lines)
    found = aims.shortfalls(known, run)
    compared = sum(len(of_read) for of_case in aims.ratios(run).values() for of_read in of_case.values())
    print(*found, f"{compared} ratios, {len(found)} worse than recorded by more than a quarter", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
