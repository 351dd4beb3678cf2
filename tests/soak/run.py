"""Runs writers and readers beside each other, and compares what was read with what was written."""

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread

from pyspark.sql import SparkSession

from tests.service.iceberg_service import running, service_options
from tests.soak.kinds import Kind, kinds_of
from tests.soak.model import Ledger, Plan
from tests.soak.readers import (
    GONE,
    Answer,
    ArrowReader,
    DuckDBReader,
    FollowingReader,
    HoldingReader,
    IcebergReader,
    Reader,
    SparkReader,
)
from tests.soak.writer_process import WriterProcess

PAUSE_SECONDS = 0.2
"""Between the questions of a reader, for the writer to get on."""
MOST_FAILURES = 20
RIGHT, WRONG, TOLD, REPLANNED = "right", "wrong", "clear errors", "planned again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """What is run: tables of which versions, for how long; ``kill_seconds`` is how often a writer is killed."""

    folder: Path
    versions: tuple[int, ...]
    minutes: float
    seed: int
    kill_seconds: float


@dataclass(slots=True)
class Met:
    """What readers have met, by reader; shared by threads."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    answers: SimpleQueue[Answer] = field(default_factory=SimpleQueue)
    _lock: Lock = field(default_factory=Lock)

    def add(self, reader: str, what: str, failure: str | None = None) -> None:
        with self._lock:
            self.counts.setdefault(reader, Counter())[what] += 1
            if failure is not None:
                self.failures.append(failure)


class Writers:
    """The tables with their ledgers, and the process that writes to them in turn."""

    def __init__(self, settings: Soak) -> None:
        self._settings = settings
        self._process = WriterProcess(settings.folder)
        self._chance = random.Random(settings.seed)
        root = settings.folder / "root"
        root.mkdir()
        self._kinds = kinds_of(settings.versions)
        self._plans = {kind: Plan(kind, settings.seed) for kind in self._kinds}
        self.ledgers = {kind.name: Ledger(root / kind.name, kind, self._plans[kind]) for kind in self._kinds}
        self.failed: Counter[str] = Counter()
        self.kills = self.overlaps = 0

    def write(self, kind: Kind, *, kill: bool = False) -> None:
        """Do the next writes of a table; with ``kill``, only begin them."""
        ledger = self.ledgers[kind.name]
        writes = self._plans[kind].next_writes(ledger.last if ledger.commits else ())
        self._process.send(
            {
                "table": str(ledger.folder),
                "name": kind.name,
                "options": kind.options,
                "writes": [asdict(delta) for delta in writes],
            }
        )
        if kill:
            time.sleep(self._chance.uniform(0.3, 3))
            self._process.kill()
            self.kills += 1
        else:
            failures = self._process.answer()
            self.failed.update(_reason(failure) for failure in failures if failure is not None)
            self.overlaps += len(writes) > 1 and failures == [None] * len(writes)
        ledger.note()

    def begin(self) -> None:
        """Create all tables."""
        for kind in self._kinds:
            self.write(kind)
            assert self.ledgers[kind.name].commits, f"{kind.name} has not been written: {dict(self.failed)}"

    def run(self, end: float, after_each: Callable[[], None]) -> None:
        """Write to the tables in turn until a time of ``time.monotonic``."""
        killed = time.monotonic()
        while time.monotonic() < end:
            for kind in self._kinds:
                kill = time.monotonic() - killed > self._settings.kill_seconds
                self.write(kind, kill=kill)
                killed = time.monotonic() if kill else killed
                after_each()

    def close(self) -> None:
        self._process.kill()


def _reason(failure: str) -> str:
    """What a write failed with, without the instants and files that it names."""
    causes = re.findall(r"(?:Caused by: )?[\w.]*\.(\w+(?:Exception|Error))\b", failure)
    return ", ".join(dict.fromkeys(causes)) or failure[:100]


def readers_of(settings: Soak, spark: SparkSession, url: str) -> list[Reader]:
    """All readers."""
    return [
        ArrowReader(),
        HoldingReader("Arrow, later", "error", random.Random(settings.seed)),
        HoldingReader("Arrow, later, planned again", "replan", random.Random(settings.seed + 1)),
        DuckDBReader(),
        SparkReader(spark),
        IcebergReader(url),
        FollowingReader("incremental", of_changes=False),
        FollowingReader("changes", of_changes=True),
    ]


def ask_once(reader: Reader, folder: Path, met: Met, newest: str | None = None) -> None:
    """One question, and what came of it; ``newest`` is the instant that has to be read, if nothing is written."""
    try:
        answer = reader.ask(folder)
    except GONE:
        met.add(reader.name, TOLD)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is not what a reader may meet
        met.add(reader.name, WRONG, f"{reader.name}: {folder.name}: {type(error).__name__}: {str(error)[:500]}")
    else:
        if newest not in (None, answer.instant):
            met.add(reader.name, WRONG, f"{reader.name}: {folder.name}: read {answer.instant} instead of {newest}")
        met.answers.put(answer)
        if answer.replanned:
            met.add(reader.name, REPLANNED)


def ask_until(ended: Event, reader: Reader, folders: Sequence[Path], met: Met) -> None:
    """Ask of one table after the other."""
    number = 0
    while not ended.wait(PAUSE_SECONDS):
        ask_once(reader, folders[number % len(folders)], met)
        number += 1


class Verifier:
    """Compares answers with the states of their instants, as far as these are known."""

    def __init__(self, ledgers: dict[str, Ledger], met: Met) -> None:
        self._ledgers = ledgers
        self._met = met
        self._waiting: list[Answer] = []

    def verify(self) -> None:
        """Compare what has been answered; no write must be under way."""
        waiting, self._waiting = self._waiting, []
        while True:
            try:
                waiting.append(self._met.answers.get_nowait())
            except Empty:
                break
        for answer in waiting:
            try:
                states = self._ledgers[answer.table].states_between(answer.since, answer.instant)
            except KeyError:
                # It was read after the last note.
                self._waiting.append(answer)
                continue
            self._note(answer, any(answer.equals(state) for state in states))

    def end(self) -> None:
        """Count as wrong what names an instant that never was."""
        self.verify()
        for answer in self._waiting:
            self._note(answer, is_right=False)

    def _note(self, answer: Answer, is_right: bool) -> None:
        failure = f"{answer.reader}: {answer.table}: the rows are not those as of {answer.instant}: {answer.rows}"
        self._met.add(answer.reader, RIGHT if is_right else WRONG, None if is_right else failure)


@contextmanager
def asking(readers: Sequence[Reader], folders: Sequence[Path], met: Met) -> Iterator[None]:
    """Readers that ask without pause during the block, each in a thread."""
    ended = Event()
    threads = [Thread(target=ask_until, args=(ended, reader, folders, met)) for reader in readers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def soak(settings: Soak, spark: SparkSession) -> list[str]:
    """Run all for some minutes, and print what was met; returns what was wrong."""
    writers, met = Writers(settings), Met()
    verifier = Verifier(writers.ledgers, met)
    folders = [ledger.folder for ledger in writers.ledgers.values()]
    options = service_options(settings.folder / "scratch", [settings.folder / "root"], keep=2, keep_seconds=5.0)
    try:
        writers.begin()
        with running(options) as service:
            readers = readers_of(settings, spark, service.url)
            with asking(readers, folders, met):
                writers.run(time.monotonic() + 60 * settings.minutes, verifier.verify)
            # Nothing is written any more: now all have to see the last state.
            for reader in readers:
                for ledger in writers.ledgers.values():
                    ask_once(reader, ledger.folder, met, None if isinstance(reader, HoldingReader) else ledger.newest)
            verifier.end()
    finally:
        writers.close()
    print_summary(writers, met, readers)
    return failures_of(met, readers)


def failures_of(met: Met, readers: Sequence[Reader]) -> list[str]:
    """What was wrong, and who had no right answer."""
    idle = [reader.name for reader in readers if not met.counts.get(reader.name, Counter())[RIGHT]]
    return met.failures[:MOST_FAILURES] + [f"{name}: no right answer" for name in idle]


def print_summary(writers: Writers, met: Met, readers: Sequence[Reader]) -> None:
    """A line for each table and for each reader."""
    for name, ledger in writers.ledgers.items():
        actions = ", ".join(sorted(action[1:] for action in ledger.actions - {".requested", ".inflight"}))
        print(f"{name}: {ledger.commits} commits; {actions}")
    print(f"{writers.overlaps} pairs of writes at the same time; {writers.kills} writes killed; failed:")
    for reason, count in writers.failed.most_common():
        print(f"{count:5} {reason}")
    kinds = (RIGHT, TOLD, REPLANNED, WRONG)
    print(f"{'':30}" + "".join(f"{kind:>15}" for kind in kinds))
    for reader in readers:
        counts = met.counts.get(reader.name, Counter())
        print(f"{reader.name:30}" + "".join(f"{counts[kind]:15,}" for kind in kinds), flush=True)
