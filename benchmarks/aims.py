"""The ratios that are aimed at, and those that were reached: ``aims.json``, by case, read and measure.

Aims of the case or read ``*`` hold for all that have none of their own. What was reached is kept for each size, and is
what ``benchmarks.check`` compares with: a ratio must not be worse than the recorded one by more than a quarter. The
kernel counts resident pages in portions: peaks below a megabyte vary by half and may be none, and count as one. What a
run says nothing of, as a reader was left out, is not compared.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from benchmarks.readings import FLOOR, FLOOR_WITH_KEY, NEWEST_PEER, OURS, PEER, Run

PATH = Path(__file__).parent / "aims.json"
SLACK = 0.75
ANY = "*"

Ratios = dict[str, dict[str, dict[str, float]]]
"""By case, read and measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A ratio of hudi-bridge and another reader, by the best of their readings."""

    about: str
    other: str
    what: str = "seconds"
    is_more_better: bool = False
    least: float = 0.0
    """What cannot be told from less: smaller readings count as this."""

    def of(self, run: Run, case: str, read: str) -> float | None:
        """The ratio in a run; None where one of the two has no answer that counts."""
        ours, other = run.line(case, read, OURS), run.line(case, read, self.other)
        if ours is None or other is None or not ours.is_timed or not other.is_timed:
            return None
        mine, theirs = (max(one.best(self.what), self.least) for one in (ours, other))
        if mine <= 0 or theirs <= 0:
            return None
        return theirs / mine if self.is_more_better else mine / theirs

    def is_met(self, ratio: float, aim: float, part: float = 1.0) -> bool:
        """Whether a ratio is as good as a part of an aim."""
        return ratio >= aim * part if self.is_more_better else ratio * part <= aim


MEASURES = {
    "speed": Measure(about="time of `hudi` / ours", other=PEER, is_more_better=True),
    "speed 0.6": Measure(about="time of `hudi` 0.6 / ours", other=NEWEST_PEER, is_more_better=True),
    "floor": Measure(about="our time / pyarrow on base files", other=FLOOR),
    "floor with key": Measure(about="our time / pyarrow on base files with the key column", other=FLOOR_WITH_KEY),
    "memory": Measure(about="our memory / `hudi`", other=PEER, what="peak_bytes", least=1 << 20),
    "memory 0.6": Measure(about="our memory / `hudi` 0.6", other=NEWEST_PEER, what="peak_bytes", least=1 << 20),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aims:
    """What ``aims.json`` holds: ``reached`` has ratios for each size."""

    aims: Ratios
    reached: dict[str, Ratios]

    def aim(self, case: str, read: str, measure: str) -> float | None:
        """The aim of a ratio, if it has one."""
        for of_case in (case, ANY):
            for of_read in (read, ANY):
                found = self.aims.get(of_case, {}).get(of_read, {}).get(measure)
                if found is not None:
                    return found
        return None

    def recording(self, *runs: Run) -> "Aims":
        """The aims with the worst ratios of some runs of a size as those that were reached at it."""
        size = runs[0].size
        found = worst([ratios(run) for run in runs])
        known = self.reached.get(size, {})
        cases = {case: {**known.get(case, {}), **reads} for case, reads in found.items()}
        return Aims(aims=self.aims, reached={**self.reached, size: {**known, **cases}})

    def save(self, path: Path = PATH) -> None:
        """Write them into a file."""
        document = {"aims": self.aims, "reached": self.reached}
        path.write_text(json.dumps(document, indent=1) + "\n")


def load(path: Path = PATH) -> Aims:
    """The aims of a file.

    Raises:
        KeyError: a part is missing.
        ValueError: a measure is unknown.
    """
    document = json.loads(path.read_text())
    loaded = Aims(aims=document["aims"], reached=document["reached"])
    for by_case in (loaded.aims, *loaded.reached.values()):
        for reads in by_case.values():
            for measures in reads.values():
                if unknown := measures.keys() - MEASURES.keys():
                    raise ValueError(f"unknown measures: {sorted(unknown)}")
    return loaded


def ratios(run: Run) -> Ratios:
    """All ratios of a run, rounded to two places."""
    found: Ratios = {}
    for case, read in run.reads():
        for name, measure in MEASURES.items():
            ratio = measure.of(run, case, read)
            if ratio is not None:
                found.setdefault(case, {}).setdefault(read, {})[name] = round(ratio, 2)
    return found


def worst(of_runs: Sequence[Ratios]) -> Ratios:
    """Of each ratio, the worst."""
    found: Ratios = {}
    for case, reads in chain.from_iterable(one.items() for one in of_runs):
        for read, measures in reads.items():
            into = found.setdefault(case, {}).setdefault(read, {})
            for name, ratio in measures.items():
                if name not in into or MEASURES[name].is_met(into[name], ratio):
                    into[name] = ratio
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A ratio that is worse than the recorded one by more than a quarter, or is not there any more."""

    case: str
    read: str
    measure: str
    reached: float
    found: float | None

    def __str__(self) -> str:
        """A line for a report."""
        found = "no answer" if self.found is None else f"{self.found:.2f}"
        return f"{self.case}, {self.read}: {MEASURES[self.measure].about} is {found}, was {self.reached:.2f}"


def shortfalls(aims: Aims, run: Run) -> list[Shortfall]:
    """What has become worse than recorded for the size of a run, in the cases and beside the readers that it has."""
    found = []
    cases, readers = {case for case, _ in run.reads()}, {line.reader for line in run.lines}
    recorded: Mapping[str, Mapping[str, Mapping[str, float]]] = aims.reached.get(run.size, {})
    for case, reads in recorded.items():
        for read, measures in reads.items() if case in cases else ():
            for name, reached in measures.items():
                measure, ratio = MEASURES[name], MEASURES[name].of(run, case, read)
                is_worse = ratio is None or not measure.is_met(ratio, reached, SLACK)
                if is_worse and measure.other in readers:
                    found.append(Shortfall(case=case, read=read, measure=name, reached=reached, found=ratio))
    return found
