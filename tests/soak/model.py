"""What a table has to hold: the deltas of its writes, and the states after each completed instant."""

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro

from tests.soak.kinds import CITIES, KEYS, NBCC, Kind

Row = tuple[str, str, int, float, str]
"""Id, city, ts, fare and note."""
State = Mapping[str, Row]
"""The rows of a table by id."""
COLUMNS = ("id", "city", "ts", "fare", "note")
WRITES = (".deltacommit", ".commit", ".replacecommit")
UPSERT, DELETE, PARTIAL, FAIL = "upsert", "delete", "partial", "fail"
_TURNS = (UPSERT, PARTIAL, "pair", DELETE, UPSERT, "pair", PARTIAL, "pair", UPSERT, "pair", FAIL)
_OVERLAP_SECONDS = 1.5


@dataclass(frozen=True, slots=True)
class Delta:
    """One write; a later one has a higher number, which is the ordering value of its rows."""

    number: int
    operation: str
    rows: tuple[Row, ...]
    delay: float = 0
    seconds: float = 0

    def applied(self, state: State) -> dict[str, Row]:
        """The state after it."""
        after = dict(state)
        for row in self.rows:
            known = after.get(row[0])
            if self.operation == DELETE:
                after.pop(row[0], None)
            elif self.operation == PARTIAL:
                if known is not None:
                    after[row[0]] = (known[0], known[1], row[2], row[3], known[4])
            # Writes that overlap are ordered by their ordering value, not by when they completed.
            elif known is None or known[2] <= row[2]:
                after[row[0]] = row
        return after


class Plan:
    """The writes of one table, the same for the same seed."""

    def __init__(self, kind: Kind, seed: int) -> None:
        self._random = random.Random(f"{seed}/{kind.name}")
        self._kind = kind
        self._turn = -1
        self.deltas: list[Delta] = []

    def next_writes(self, present: Iterable[str]) -> tuple[Delta, ...]:
        """What is written next: one delta, or two at the same time; ``present`` are the ids of rows that are there.

        With a bucket index, Hudi 1.2 also writes those updates of a ``MERGE INTO`` that match no row.
        """
        self._turn += 1
        if self._turn == 0:
            return (self._delta(UPSERT, range(KEYS - 20)),)
        operation = _TURNS[self._turn % len(_TURNS)]
        if operation == PARTIAL and self._kind.version < 8:
            # There, Hudi's ``MERGE INTO`` sets the columns that it does not name to null.
            operation = UPSERT
        if operation != "pair":
            keys = sorted(int(item[1:]) for item in present) if operation == PARTIAL else range(KEYS)
            return (self._delta(operation, self._random.sample(keys, 5 if operation == DELETE else 15)),)
        first, second = self._random.sample(range(KEYS), 20), self._random.sample(range(KEYS), 12)
        if self._kind.concurrency != NBCC and self._random.random() < 0.7:
            # Without a conflict: of different partitions.
            first = [key for key in first if key % CITIES == 0] or [0]
            second = [key for key in second if key % CITIES] or [1]
        return (
            self._delta(UPSERT, first, seconds=_OVERLAP_SECONDS),
            self._delta(UPSERT, second, delay=_OVERLAP_SECONDS / 3),
        )

    def _delta(self, operation: str, keys: Any, *, delay: float = 0, seconds: float = 0) -> Delta:
        number = len(self.deltas)
        rows = [
            (f"k{key:03d}", f"c{key % CITIES}", number, self._random.randrange(10_000) / 100, f"{operation}-{number}")
            for key in keys
        ]
        self.deltas.append(Delta(number, operation, tuple(rows), delay, seconds))
        return self.deltas[-1]


@dataclass(frozen=True, slots=True)
class Commit:
    """A completed write or table service, with the delta that it says it has written."""

    instant: str
    action: str
    delta: int | None


class Ledger:
    """The commits of one table in the order in which they completed, and the states to which they lead."""

    def __init__(self, folder: Path, kind: Kind, plan: Plan) -> None:
        self.folder = folder
        self._kind = kind
        self._plan = plan
        self._commits: list[Commit] = []
        self._known: set[str] = set()
        self._states: dict[tuple[str, int], list[State]] = {}
        self.actions: set[str] = set()

    @property
    def commits(self) -> int:
        """How many commits there have been."""
        return len(self._commits)

    def note(self) -> None:
        """Note what has completed since; no write must be under way."""
        folder = self.folder / ".hoodie" / ("timeline" if self._kind.version >= 8 else "")
        if not folder.is_dir():
            return
        files = [file for file in folder.iterdir() if file.suffix and file.name[0].isdigit()]
        self.actions |= {file.suffix for file in files}
        new = [file for file in files if file.suffix in WRITES and file.name not in self._known]
        for file in sorted(new, key=lambda one: (one.stat().st_mtime_ns, one.name)):
            self._known.add(file.name)
            self._commits.append(Commit(file.stem.partition("_")[0], file.suffix, self._delta_of(file)))

    def states(self, instant: str) -> list[State]:
        """The states that a read as of an instant may see; more than one only if an earlier write completed later.

        Raises:
            KeyError: there is no such instant yet.
        """
        key = (instant, len(self._commits))
        if key not in self._states:
            self._states[key] = self._folded(instant)
        return self._states[key]

    def states_between(self, since: str | None, instant: str) -> list[State]:
        """As ``states``, of all instants from ``since`` on if it is given."""
        begin = instant if since is None else min(since, instant)
        instants = {commit.instant for commit in self._commits if begin <= commit.instant <= instant}
        return [state for item in sorted(instants | {instant}) for state in self.states(item)]

    @property
    def last(self) -> State:
        """The state in the end."""
        return self.states(self.newest)[-1]

    @property
    def newest(self) -> str:
        """The newest instant."""
        return max(commit.instant for commit in self._commits)

    def _folded(self, instant: str) -> list[State]:
        places = [place for place, commit in enumerate(self._commits) if commit.instant == instant]
        if not places:
            raise KeyError(instant)
        done: set[int] = set()
        states: list[State] = [{}]
        for place, commit in enumerate(self._commits):
            if commit.instant > instant or commit.delta is None or commit.delta in done:
                continue
            # A table service keeps what the write that ran it has said.
            done.add(commit.delta)
            state = self._plan.deltas[commit.delta].applied(states[-1])
            if place <= places[0]:
                states = [state]
            else:
                states.append(state)
        return states

    def _delta_of(self, file: Path) -> int | None:
        if self._kind.version < 8:
            document = json.loads(file.read_bytes() or b"{}")
        else:
            with file.open("rb") as content:
                (document,) = fastavro.reader(content)
        text = (document.get("extraMetadata") or {}).get("hoodie.soak.delta")
        return None if text is None else int(text)
