"""The files of slices in the scratch folder, so that slices that have not changed are not read again.

``SliceCache`` builds and finds the files of slices, for any number of threads. ``GivenSlices`` notes which slices
clients were given for planned scans; all services on a scratch folder read these notes. ``Counters`` count the work.

A note has its period in its name. Slices are given out again in that period and the next; their files stay until no
query can need them (``is_past``).
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from functools import partial
from threading import Lock

from hudi_bridge.common.operations import Work, watched_work
from hudi_bridge.common.threads import KeyedLocks
from hudi_bridge.connectors.iceberg.slice_builder import SliceBuilder
from hudi_bridge.connectors.iceberg.slice_files import Folder, SliceFiles, slice_from_json, slice_to_json
from hudi_bridge.connectors.scratch import (
    Scratch,
    current_period,
    is_past,
    marked_at,
    new_mark,
    period_of,
    period_seconds,
)
from hudi_bridge.splits.split import RealtimeFileSplit, sizes_of

_PREFIX = "hudi_bridge_iceberg_"
_HELP: Mapping[str, tuple[str, str]] = {
    "requests_total": ("counter", "Requests by operation and status."),
    "request_seconds_total": ("counter", "Time spent on requests by operation."),
    "snapshots_built_total": ("counter", "Snapshots of tables that were built."),
    "snapshots_reused_total": ("counter", "Loads of tables that had not changed."),
    "scans_planned_total": ("counter", "Scans that were planned for clients."),
    "slices_built_total": ("counter", "File slices of which data files were read."),
    "slices_reused_total": ("counter", "File slices that had not changed when a snapshot was built."),
    "build_seconds_total": ("counter", "Time spent on file slices."),
    "builds_in_progress": ("gauge", "File slices that are being worked on."),
    "files_removed_total": ("counter", "Files that nothing referred to any more."),
    "errors_total": ("counter", "Errors of tables by class."),
}
_SUFFIX = ".json"
_SUBMITTED_PER_BUILDER = 2
"""One slice is built while the next is waiting. More would let a large request keep small ones waiting."""


class Counters:
    """Thread-safe counters by name and label."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: Counter[tuple[str, str]] = Counter()

    def add(self, name: str, amount: float = 1, *, labels: str = "") -> None:
        """Add to a counter; ``labels`` have Prometheus's form, such as ``operation="loadTable"``."""
        with self._lock:
            self._values[name, labels] += amount  # type: ignore[assignment]  # counters hold any number

    def value(self, name: str, labels: str = "") -> float:
        """The current value of a counter."""
        with self._lock:
            return self._values[name, labels]

    @contextmanager
    def building(self) -> Iterator[None]:
        """Count and time the block as work on one file slice."""
        start = time.perf_counter()
        self.add("builds_in_progress")
        try:
            yield
        finally:
            self.add("builds_in_progress", -1)
            self.add("build_seconds_total", time.perf_counter() - start)

    def prometheus(self) -> str:
        """All counters in Prometheus's text format."""
        with self._lock:
            values = dict(self._values)
        lines = []
        for name, (kind, text) in _HELP.items():
            lines += [f"# HELP {_PREFIX}{name} {text}", f"# TYPE {_PREFIX}{name} {kind}"]
            by_labels = {labels: value for (counter, labels), value in values.items() if counter == name} or {"": 0}
            lines += [
                f"{_PREFIX}{name}{{{labels}}} {value}" if labels else f"{_PREFIX}{name} {value}"
                for labels, value in sorted(by_labels.items())
            ]
        return "\n".join(lines) + "\n"


class SliceCache:
    """The files of each slice by key, in one version for each set of log blocks that counted. Thread-safe.

    Requests do not wait for one another, but a slice that several of them need is built once. Other services may write
    to the folder, and remove from it: ``refresh`` says which entries are used until it is called again.
    """

    def __init__(self, scratch: Scratch, keep_seconds: float) -> None:
        self._scratch = scratch
        self._new_seconds = period_seconds(keep_seconds) / 2
        self._locks = KeyedLocks()
        # Guards what follows; never held while a slice is read or built.
        self._lock = Lock()
        self._in_progress: dict[str, Future[SliceFiles]] = {}
        self._unread: dict[str, set[str]] = defaultdict(set)
        self._cached: dict[str, dict[str, SliceFiles]] = defaultdict(dict)
        self._present: frozenset[str] = frozenset()

    def refresh(self, needed: Collection[str]) -> None:
        """Finds the entries that can be used: new ones, and those of ``needed`` slices, which nobody removes."""
        now = time.time()
        with self._lock:
            # In this order, since an entry is written after its data files.
            names = {name.removesuffix(_SUFFIX) for name in self._scratch.names(Folder.SLICES)}
            self._present = frozenset(self._scratch.names(Folder.DATA))
            usable = {name for name in names if name in needed or now - (marked_at(name) or 0) < self._new_seconds}
            for key, versions in list(self._cached.items()):
                self._cached[key] = {
                    name: files
                    for name, files in versions.items()
                    if name in usable and self._present.issuperset(files.own_files)
                }
                if not self._cached[key]:
                    del self._cached[key]
            self._unread = defaultdict(set)
            for name in usable:
                if name not in self._cached.get(_key(name), {}):
                    self._unread[_key(name)].add(name)

    def files_of(
        self, splits: Sequence[RealtimeFileSplit], builder: SliceBuilder, builders: Executor, counters: Counters
    ) -> Sequence[SliceFiles]:
        """The files of the slices, in the same order; those that have changed are built in parallel.

        Raises:
            HudiReadError: a slice cannot be read.
        """
        futures: list[Future[SliceFiles]] = []
        unfinished: set[Future[SliceFiles]] = set()
        work = watched_work()
        if work is not None:
            work.begin(sizes_of(splits))
        try:
            for split in splits:
                if len(unfinished) >= _SUBMITTED_PER_BUILDER * builder.at_once:
                    finished, unfinished = wait(unfinished, return_when=FIRST_COMPLETED)
                    for future in finished:
                        future.result()
                futures.append(self._submit(split, builder, builders, counters))
                if work is not None:
                    futures[-1].add_done_callback(partial(_finish, work, split))
                unfinished.add(futures[-1])
            slices = [future.result() for future in futures]
        except BaseException:
            # Others may need the same slices: none is cancelled.
            wait(unfinished)
            raise
        for number, split in enumerate(splits):
            while not slices[number].holds(builder.context.counts):
                # Another request has built it, for a state in which other log blocks count.
                slices[number] = self._submit(split, builder, builders, counters).result()
        return slices

    def _submit(
        self, split: RealtimeFileSplit, builder: SliceBuilder, builders: Executor, counters: Counters
    ) -> "Future[SliceFiles]":
        """The files of a slice, perhaps as another request is building them: no builder is kept waiting for that."""
        key = builder.key(split)

        def forget(_: object) -> None:
            with self._lock:
                self._in_progress.pop(key, None)

        with self._lock:
            if key in self._in_progress:
                counters.add("slices_reused_total")
                return self._in_progress[key]
            future = self._in_progress[key] = builders.submit(self._files, key, split, builder, counters)
        future.add_done_callback(forget)
        return future

    def _files(self, key: str, split: RealtimeFileSplit, builder: SliceBuilder, counters: Counters) -> SliceFiles:
        with self._locks.locked(key):
            files = self._find(key, builder)
            if files is not None:
                counters.add("slices_reused_total")
                return files
            with counters.building():
                files = self._build(key, split, builder)
        counters.add("slices_built_total")
        return files

    def _build(self, key: str, split: RealtimeFileSplit, builder: SliceBuilder) -> SliceFiles:
        """Builds a slice, whose key must be locked. A copy of its base file is a slice of its own, without logs."""

        def copied(base: RealtimeFileSplit) -> SliceFiles:
            base_key = builder.key(base)
            with self._locks.locked(base_key):
                return self._find(base_key, builder) or self._build(base_key, base, builder)

        files = builder.build(split, copied)
        self._scratch.write(f"{Folder.SLICES}/{files.name}{_SUFFIX}", slice_to_json(files))
        with self._lock:
            self._cached[key][files.name] = files
        return files

    def _find(self, key: str, builder: SliceBuilder) -> SliceFiles | None:
        """The entry of a slice for which the same log blocks counted; None if there is none."""
        with self._lock:
            unread = self._unread.pop(key, set())
        for name in unread:
            text = self._scratch.read(f"{Folder.SLICES}/{name}{_SUFFIX}")
            files = None if text is None else _slice_files(text)
            with self._lock:
                if files is not None and self._present.issuperset(files.own_files):
                    self._cached[key][files.name] = files
        with self._lock:
            versions = list(self._cached.get(key, {}).values())
        return next((files for files in versions if files.holds(builder.context.counts)), None)


def _finish(work: Work, split: RealtimeFileSplit, _: object) -> None:
    work.finish(sizes_of([split]))


def _key(name: str) -> str:
    return name.partition("-")[0]


def _slice_files(text: bytes) -> SliceFiles | None:
    """The slice files of a cache entry; None if it is damaged, and the slice is built again."""
    try:
        return slice_from_json(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class GivenSlices:
    """The notes of one table; not thread-safe."""

    def __init__(self, scratch: Scratch, keep_seconds: float) -> None:
        self._scratch = scratch
        self._keep_seconds = keep_seconds
        self._notes: dict[str, frozenset[str]] = {}

    def refresh(self) -> None:
        """Reads new notes, and forgets removed ones."""
        names = set(self._scratch.names(Folder.GIVEN))
        for name in self._notes.keys() - names:
            del self._notes[name]
        for name in names - self._notes.keys():
            self._notes[name] = _slices(self._scratch.read(f"{Folder.GIVEN}/{name}"))

    def give(self, slices: Iterable[str]) -> None:
        """Notes that a client gets these slices, unless that is known."""
        period = current_period(self._keep_seconds)
        new = set(slices) - self._given_in(period)
        if new:
            name = f"p{period}-{new_mark()}.json"
            self._scratch.write(f"{Folder.GIVEN}/{name}", json.dumps(sorted(new)).encode())
            self._notes[name] = frozenset(new)

    def usable(self) -> Collection[str]:
        """The slices that can be given again."""
        period = current_period(self._keep_seconds)
        return self._given_in(period) | self._given_in(period - 1)

    def needed(self) -> Collection[str]:
        """The slices that running queries may need."""
        return {name for slices in self._notes.values() for name in slices}

    def forget_past(self) -> None:
        """Removes the notes that nobody needs any more."""
        for name in [name for name in self._notes if is_past(name, self._keep_seconds)]:
            self._scratch.remove(f"{Folder.GIVEN}/{name}")
            del self._notes[name]

    def _given_in(self, period: int) -> set[str]:
        return {name for note, slices in self._notes.items() if period_of(note) == period for name in slices}


def _slices(text: bytes | None) -> frozenset[str]:
    """The slices of a note; none if it is damaged, and they are built again."""
    try:
        return frozenset(map(str, json.loads(text or b"[]")))
    except (ValueError, TypeError):
        return frozenset()
