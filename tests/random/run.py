"""Runs: tables of many seeds with all releases, until the time is over; one table again; a table with fewer steps."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.random.checking import Case, Outcome, check, read_case
from tests.random.draw import Draw
from tests.random.drawing import RELEASES, draw
from tests.random.reasons import with_reasons
from tests.random.sessions import CONTINUED, FAILED, REFUSED, WRITTEN, Result, Session, WorkerError, session

SECONDS_A_ROUND = 2400
"""A process of Spark is given up after its share of this, before its memory is full of closed tables."""

_QUICKEST_TABLE = 5
"""Seconds; says how many tables of later releases to begin with an older one."""

Say = Callable[[str], None]


@dataclass(slots=True)
class Summary:
    """Counts of a run: tables, answers by how they came out, known differences by reason, features of tables."""

    tables: int = 0
    with_faults: list[str] = field(default_factory=list)
    refused: int = 0
    failed: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)

    def add(self, case: Case, outcomes: Sequence[Outcome]) -> None:
        """Counts a table."""
        self.tables += 1
        self.statuses.update(outcome.status for outcome in outcomes if outcome.reason is None)
        self.reasons.update(outcome.reason for outcome in outcomes if outcome.reason is not None)
        self.features.update(case.table.features())
        for entry in case.document.get("steps", ()):
            self.steps[f"{entry['name']}: {entry['result'].partition(':')[0]}"] += 1
        faults = [outcome for outcome in outcomes if outcome.is_fault]
        self.faults.update(f"{outcome.kind}, {outcome.way}: {outcome.status}" for outcome in faults)
        if faults:
            self.with_faults.append(case.table.name)

    def lines(self) -> Iterator[str]:
        """The counts as text."""
        answers = sum(self.statuses.values()) + sum(self.reasons.values())
        yield f"{self.tables} tables, {answers} answers; {self.refused} tables that Hudi refused, {self.failed} failed"
        yield from (f"    {number:6} {status}" for status, number in self.statuses.most_common())
        yield from (f"    {number:6} known: {reason}" for reason, number in self.reasons.most_common())
        yield from (f"    {number:6} FAULT {kind}" for kind, number in self.faults.most_common())
        yield "steps " + ", ".join(f"{name} {number}" for name, number in sorted(self.steps.items()))
        yield "drawn " + ", ".join(f"{name} {number}" for name, number in sorted(self.features.items()))
        if self.with_faults:
            yield f"tables with faults: {' '.join(self.with_faults)}"


@dataclass(slots=True)
class Run:
    """A run over releases and seeds; tables without faults are removed."""

    folder: Path
    say: Say
    keeps_all: bool = False
    summary: Summary = field(default_factory=Summary)

    def over(self, releases: Sequence[str], seed: int, minutes: float) -> None:
        """Takes seeds in turn for each release until the time is over."""
        end, seeds = time.monotonic() + 60 * minutes, {release: count(seed) for release in releases}
        while (left := end - time.monotonic()) > 0:
            share = min(left, SECONDS_A_ROUND) / len(releases)
            tables = {release: drawn([release], _some(seeds[release], share)) for release in releases}
            self._round(releases, tables, share)

    def tables(self, tables: Sequence[Draw]) -> None:
        """Writes and checks some tables, without a limit of time."""
        by_release = {release: [table for table in tables if table.release == release] for release in RELEASES}
        self._round(RELEASES, by_release, float("inf"))

    def _round(self, releases: Sequence[str], tables: dict[str, list[Draw]], seconds: float) -> None:
        """One session for each release in turn: first tables that begin in it, then its own, for so many seconds."""
        everything = [table for release in releases for table in tables[release]]
        begun: set[str] = set()
        for release in RELEASES:
            beginnings = [table for table in everything if table.begins_in == release]
            own = [table for table in tables.get(release, []) if table.begins_in is None or table.name in begun]
            if not beginnings and not own:
                continue
            end = time.monotonic() + seconds
            with session(release, self.folder) as worker:
                try:
                    begun |= self._begin(worker, beginnings, end - seconds / 2)
                    self._finish(worker, own, end)
                except WorkerError as error:
                    self.summary.failed += 1
                    self.say(f"the session of {release} has ended: {error}")

    def _begin(self, worker: Session, tables: Sequence[Draw], end: float) -> set[str]:
        """Writes the first steps of tables; returns the names of those that another release can continue."""
        begun = set()
        for table in tables:
            if time.monotonic() > end:
                break
            result = worker.run(table, self.folder / table.name)
            if result.state == CONTINUED:
                begun.add(table.name)
            else:
                self._note(table, result)
        return begun

    def _finish(self, worker: Session, tables: Sequence[Draw], end: float) -> None:
        for table in tables:
            if time.monotonic() > end:
                break
            self._write_and_check(worker, table)

    def _write_and_check(self, worker: Session, table: Draw) -> None:
        folder = self.folder / table.name
        result = worker.run(table, folder)
        if result.state != WRITTEN:
            self._note(table, result)
            return
        case = read_case(folder)
        outcomes = with_reasons(case, check(case))
        self.summary.add(case, outcomes)
        checked = [outcome.as_json() for outcome in outcomes]
        (folder / "checked.json").write_text(json.dumps(checked, indent=1) + "\n")
        faults = [outcome for outcome in outcomes if outcome.is_fault]
        self.say(
            f"{table.name}: {result.detail} ({result.seconds:.0f} s), {len(outcomes)} answers, {len(faults)} faults"
        )
        for outcome in faults:
            self.say(f"    {outcome.status} {outcome.kind} [{outcome.query}] {outcome.way}: {outcome.detail[:300]}")
        if not faults and not self.keeps_all:
            shutil.rmtree(folder)

    def _note(self, table: Draw, result: Result) -> None:
        self.summary.refused += result.state == REFUSED
        self.summary.failed += result.state == FAILED
        self.say(f"{table.name}: {result.state}: {result.detail[:300]}")
        shutil.rmtree(self.folder / table.name, ignore_errors=True)


def _some(seeds: Iterator[int], seconds: float) -> list[int]:
    return [next(seeds) for _ in range(max(1, int(seconds / _QUICKEST_TABLE)))]


def write(table: Draw, folder: Path, sessions: dict[str, Session]) -> list[Outcome] | None:
    """Writes a table in the sessions of its releases, and checks it; None if Hudi did not write it."""
    state = FAILED
    for release in dict.fromkeys((table.first_release, table.release)):
        state = sessions[release].run(table, folder).state
        if state not in (CONTINUED, WRITTEN):
            return None
    case = read_case(folder)
    return with_reasons(case, check(case))


def minimise(table: Draw, folder: Path, say: Say) -> Draw:
    """Leaves out steps as long as a fault stays; the smallest table is left in a folder of its name.

    Two releases of Hudi run at the same time if the table needs both.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        releases = dict.fromkeys((table.first_release, table.release))
        sessions = {release: stack.enter_context(session(release, folder)) for release in releases}
        attempt = folder / "attempt"
        target = _faults(write(table, attempt, sessions))
        if not target:
            raise LookupError(f"{table.name} has no fault")
        _move(attempt, folder / table.name)
        for number in [step.number for step in reversed(table.steps[1:])]:
            smaller = table.with_steps([step.number for step in table.steps if step.number != number])
            same = _faults(write(smaller, attempt, sessions)) & target
            say(f"without {number} {_name(table, number)}: {'the fault stays' if same else 'no fault'}")
            if same:
                table, target = smaller, same
                _move(attempt, folder / table.name)
        shutil.rmtree(attempt, ignore_errors=True)
    return table


def _name(table: Draw, number: int) -> str:
    return next(step.name for step in table.steps if step.number == number)


def _faults(outcomes: Sequence[Outcome] | None) -> set[tuple[str, str, str]]:
    return {outcome.signature for outcome in outcomes or () if outcome.is_fault}


def _move(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    source.rename(target)


def drawn(releases: Sequence[str], seeds: Sequence[int]) -> list[Draw]:
    """The tables of some seeds, of each release."""
    return [draw(release, seed) for release in releases for seed in seeds]
