"""What was measured, as values that go to JSON and back."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

OURS, PEER, NEWEST_PEER, BUNDLE = "hudi-bridge", "hudi", "hudi 0.6", "Hudi on Spark"
FLOOR, FLOOR_WITH_KEY, DUCKDB = "pyarrow, base files", "pyarrow, base files with key", "DuckDB, base files"

SAME, STALE = "same", "stale"
"""What is said of answers: equal to that of hudi-bridge, or of base files alone. Others begin with one of these:"""
WRONG, REFUSED = "wrong", "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One read in one process.

    Attributes:
        seconds: from opening the table to the last row, or the first batch.
        cpu_seconds: of all threads.
        peak_bytes: resident memory above that of the process before the read; of Spark, all that its processes hold.
        read_bytes: from files by system calls, or sent by the store.
        requests: answered by the store; near, calls that read files.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    read_bytes: int
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One read of one case by one reader; ``answer`` says what it is worth, and why there are no readings."""

    case: str
    read: str
    reader: str
    answer: str
    rows: int | None = None
    readings: tuple[Reading, ...] = ()

    @property
    def name(self) -> tuple[str, str, str]:
        """What no other line of a run has."""
        return self.case, self.read, self.reader

    @property
    def is_timed(self) -> bool:
        """Whether its times may be compared."""
        return bool(self.readings) and self.answer in (SAME, STALE)

    def best(self, what: str) -> float:
        """The least of its readings."""
        return float(min(getattr(reading, what) for reading in self.readings))

    def median(self, what: str) -> float:
        """The median of its readings."""
        return float(median(getattr(reading, what) for reading in self.readings))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of the suite: ``machine`` has the facts that figures depend on, ``cases`` what each table is."""

    date: str
    size: str
    rounds: int
    machine: Mapping[str, str]
    cases: Mapping[str, str]
    lines: tuple[Line, ...] = field(default=())

    def line(self, case: str, read: str, reader: str) -> Line | None:
        """The line of a reader, if it is in this run."""
        found = (line for line in self.lines if line.name == (case, read, reader))
        return next(found, None)

    def reads(self) -> list[tuple[str, str]]:
        """Cases with their reads, in the order of the run."""
        return list(dict.fromkeys((line.case, line.read) for line in self.lines))

    def with_lines(self, lines: Iterable[Line]) -> "Run":
        """The run with these lines in the place of those of the same name."""
        found = {line.name: line for line in (*self.lines, *lines)}
        return dataclasses.replace(self, lines=tuple(found.values()))

    def with_readings(self, lines: Iterable[Line]) -> "Run":
        """The run with the readings of these lines, beside its own of the same name, and their answers."""
        known = {line.name: line.readings for line in self.lines}
        added = [dataclasses.replace(line, readings=(*known.get(line.name, ()), *line.readings)) for line in lines]
        return self.with_lines(added)

    def to_json(self) -> str:
        """The run as JSON, which ``from_json`` reads."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @staticmethod
    def from_json(text: str) -> "Run":
        """The run that ``to_json`` wrote.

        Raises:
            TypeError: a field is unknown or missing.
        """
        document: dict[str, Any] = json.loads(text)
        lines = [
            Line(**{**line, "readings": tuple(Reading(**reading) for reading in line["readings"])})
            for line in document.pop("lines")
        ]
        return Run(**document, lines=tuple(lines))

    def save(self, path: Path) -> None:
        """Write the run into a file."""
        path.write_text(self.to_json())
