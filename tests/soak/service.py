"""The catalog service under mixed load: ``python -m tests.soak.service --minutes 60``.

Two hundred clients load and scan tables that get commits all the time; the service is killed and started again, and its
scratch folder is lost. Each scan has to be that of an instant, each error one that such an event explains, and what the
service holds has to stay level. Prints what it holds in each minute; the exit status is 1 if anything was wrong.
"""

import argparse
import json
import math
import random
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread

from pyiceberg.catalog.rest import RestCatalog

from tests.soak.committed_tables import CommittedTable, content_of_table
from tests.soak.service_process import Level, ServiceProcess

TABLES = 4
SAMPLE_SECONDS = 10
TIMEOUT_SECONDS = 120
AFTER_EVENT_SECONDS = 30
"""How long after the service is back, or its scratch folder is lost, a client may still meet an error."""
KILLS, LOSSES = (0.1, 0.2, 0.3), (0.15, 0.25, 0.45, 0.6, 0.75)
"""When the service is killed, and when its folder is lost: shares of the whole time."""
SETTLED = 0.4
"""From when on levels are compared: the share of the whole time."""
MOST_GROWTH = {"resident_mib": (1.15, 24), "files": (1.2, 40), "threads": (1.2, 40), "scratch_mib": (1.5, 2)}
"""How much higher the last third may be than the first: a factor, and an amount."""


@dataclass(slots=True)
class Outcomes:
    """What clients have met; shared by threads."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def add(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def add_wrong(self, text: str) -> None:
        with self._lock:
            self.counts["wrong"] += 1
            self.wrong.append(text)


class Disturbances:
    """The times during which clients may meet errors, from the clock of ``time.monotonic``."""

    def __init__(self) -> None:
        self._times: list[tuple[float, float]] = []

    @contextmanager
    def during(self) -> Iterator[None]:
        """The block and some time after it."""
        place, begin = len(self._times), time.monotonic()
        self._times.append((begin, math.inf))
        yield
        self._times[place] = (begin, time.monotonic() + AFTER_EVENT_SECONDS)

    def explain(self, begin: float) -> bool:
        """Whether an error of a request that began at this time and ends now is explained."""
        now = time.monotonic()
        return any(begin <= end and start <= now for start, end in self._times)


@dataclass(frozen=True, slots=True)
class Load:
    """The clients of a service."""

    service: ServiceProcess
    tables: dict[str, CommittedTable]
    outcomes: Outcomes
    disturbances: Disturbances
    ended: Event
    pause_seconds: float

    def run(self, seed: int, ask: Callable[["Load", str], str]) -> None:
        """One client: asks, and waits, until all has ended."""
        chance = random.Random(seed)
        while not self.ended.wait(chance.uniform(0, 2 * self.pause_seconds)):
            name, begin = chance.choice(sorted(self.tables)), time.monotonic()
            try:
                self.outcomes.add(ask(self, name))
            except Exception as error:  # noqa: BLE001 - libraries raise their own
                text = f"{name}: {type(error).__name__}: {str(error)[:300]}"
                if "are being loaded already" in text:
                    self.outcomes.add("told to come back")
                elif self.disturbances.explain(begin):
                    self.outcomes.add("errors explained")
                else:
                    self.outcomes.add_wrong(text)

    def expected(self, name: str, instant: str) -> str:
        """The content of a table as of an instant."""
        return self.tables[name].contents[instant]


def load_metadata(load: Load, name: str) -> str:
    """Load a table, as engines do before each query."""
    url = f"{load.service.url}/v1/namespaces/default/tables/{name}"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
            metadata = json.load(answer)["metadata"]
    except urllib.error.HTTPError as error:
        with error:
            raise OSError(f"{error.code}: {error.read().decode()}") from error
    current = next(item for item in metadata["snapshots"] if item["snapshot-id"] == metadata["current-snapshot-id"])
    load.expected(name, current["summary"]["hudi.instant"])
    return "loads"


def scan(load: Load, name: str) -> str:
    """Read all rows by PyIceberg, and compare them."""
    table = RestCatalog("soak", uri=load.service.url).load_table(("default", name))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    expected = load.expected(name, str(snapshot.summary["hudi.instant"]))
    if content_of_table(table.scan().to_arrow()) != expected:
        load.outcomes.add_wrong(f"{name}: the rows are not those as of {snapshot.summary['hudi.instant']}")
    return "scans"


def commit_until(ended: Event, tables: Sequence[CommittedTable], seconds: float) -> None:
    """Commit to one table after the other."""
    number = 0
    while not ended.wait(seconds):
        tables[number % len(tables)].commit()
        number += 1


def disturb(service: ServiceProcess, *, kill: bool) -> None:
    """Kill the service and start it again, or remove its folder."""
    if kill:
        service.kill()
        service.start()
    else:
        shutil.rmtree(service.scratch, ignore_errors=True)


def growth(levels: Sequence[Level]) -> list[str]:
    """What has grown: the highest values of the first third of some levels and those of the last."""
    third = len(levels) // 3
    if not third:
        return ["too few samples to compare"]
    grown = []
    for name, (factor, amount) in MOST_GROWTH.items():
        first = max(getattr(level, name) for level in levels[:third])
        last = max(getattr(level, name) for level in levels[-third:])
        if last > max(first * factor, first + amount):
            grown.append(f"{name} has grown from {first:.0f} to {last:.0f}")
    return grown


def line(level: Level, counts: Counter[str]) -> str:
    """A line of the table."""
    held = (
        f"{level.resident_mib:8.0f} {level.files:6} {level.threads:8} {level.scratch_mib:8.1f} {level.scratch_files:8}"
    )
    asked = " ".join(
        f"{counts[name]:9}" for name in ("loads", "scans", "errors explained", "told to come back", "wrong")
    )
    return f"{level.seconds / 60:7.1f} {level.process:8} {held} {asked}"


HEAD = " minute  process  RSS MiB  files  threads  scratch    files     loads     scans explained   come back     wrong"


def watch_levels(load: Load, minutes: float) -> list[Level]:
    """Watch the service, and disturb it, for so long."""
    start, whole = time.monotonic(), 60 * minutes
    events = sorted([(share, True) for share in KILLS] + [(share, False) for share in LOSSES])
    levels: list[Level] = []
    printed = 0.0
    while (seconds := time.monotonic() - start) < whole:
        if events and seconds >= events[0][0] * whole:
            _, kill = events.pop(0)
            print("   killed and started again" if kill else "   scratch folder lost", flush=True)
            with load.disturbances.during():
                disturb(load.service, kill=kill)
        levels.append(load.service.level(seconds))
        if seconds >= printed:
            print(line(levels[-1], load.outcomes.counts), flush=True)
            printed += 60
        time.sleep(SAMPLE_SECONDS)
    return levels


def main() -> int:
    parser = argparse.ArgumentParser(description="The catalog service under mixed load.")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--scanners", type=int, default=20, help="how many of the clients read rows")
    parser.add_argument("--pause", type=float, default=15, help="seconds between the questions of a client")
    parser.add_argument("--commit-seconds", type=float, default=2, help="seconds between commits")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where tables and logs are kept; by default a temporary folder")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="hudi-bridge-soak-"))
    names = [f"t{number}" for number in range(TABLES)]
    tables = {name: CommittedTable(folder / "root" / name, given.seed) for name in names}
    service = ServiceProcess(folder / "root", folder / "scratch", folder / "service.log")
    service.start()
    load = Load(service, tables, Outcomes(), Disturbances(), Event(), given.pause)
    threads = [Thread(target=commit_until, args=(load.ended, list(tables.values()), given.commit_seconds))]
    asks = [scan] * given.scanners + [load_metadata] * (given.clients - given.scanners)
    threads += [Thread(target=load.run, args=(given.seed + number, ask)) for number, ask in enumerate(asks)]
    print(HEAD, flush=True)
    for thread in threads:
        thread.start()
    try:
        levels = watch_levels(load, given.minutes)
    finally:
        load.ended.set()
        for thread in threads:
            thread.join()
        service.kill()
    settled = [level for level in levels if level.seconds >= SETTLED * 60 * given.minutes]
    failures = [*load.outcomes.wrong, *growth(settled)]
    if not load.outcomes.counts["scans"] or not load.outcomes.counts["loads"]:
        failures.append("nothing was answered")
    for failure in failures[:20]:
        print(failure)
    print(f"{dict(load.outcomes.counts)}; {'FAILED, see ' + str(folder) if failures else 'level and right'}")
    if not failures and given.folder is None:
        shutil.rmtree(folder)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
