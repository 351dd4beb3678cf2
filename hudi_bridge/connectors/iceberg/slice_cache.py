"""A cache of the files of slices in the scratch folder: slices that have not changed are not read again.

The slices that clients were given for planned scans, as notes that all services on a scratch folder read.

A note has the period in its name. Slices are given out again in that period and the next; their files stay until no
query can need them (``is_past``).
"""

import json
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Executor, Future

from hudi_bridge.connectors.iceberg.served_table import Counters
from hudi_bridge.connectors.iceberg.slice_builder import SliceBuilder
from hudi_bridge.connectors.iceberg.slice_files import SliceFiles, slice_from_json, slice_to_json
from hudi_bridge.connectors.scratch import (
    Scratch,
    current_period,
    is_past,
    marked_at,
    new_mark,
    period_of,
    period_seconds,
)
from hudi_bridge.splits.split import RealtimeFileSplit

SLICES = "slices"
_SUFFIX = ".json"


class SliceCache:
    """The files of each slice by key, in one version for each set of log blocks that counted.

    Other services may write to the folder, and remove from it. ``refresh`` says which entries are used until it is
    called again.
    """

    def __init__(self, scratch: Scratch, keep_seconds: float) -> None:
        self._scratch = scratch
        self._new_seconds = period_seconds(keep_seconds) / 2
        self._unread: dict[str, set[str]] = defaultdict(set)
        self._known: dict[str, dict[str, SliceFiles]] = defaultdict(dict)
        self._present: frozenset[str] = frozenset()

    def refresh(self, present: frozenset[str], needed: Collection[str]) -> None:
        """Find the entries that can be used: new ones, and those that are ``needed``, so that nobody removes them.

        ``needed`` are names of slices, and ``present`` are the data files that exist.
        """
        self._present = present
        now = time.time()
        names = {name.removesuffix(_SUFFIX) for name in self._scratch.names(SLICES)}
        usable = {one for one in names if one in needed or now - (marked_at(one) or 0) < self._new_seconds}
        for key, known in list(self._known.items()):
            left = {
                name: files for name, files in known.items() if name in usable and present.issuperset(files.own_files)
            }
            self._known[key] = left
            if not left:
                del self._known[key]
        self._unread = defaultdict(set)
        for name in usable:
            if name not in self._known.get(_key(name), {}):
                self._unread[_key(name)].add(name)

    def files_of(
        self, splits: Iterable[RealtimeFileSplit], builder: SliceBuilder, builders: Executor, counters: Counters
    ) -> Sequence[SliceFiles]:
        """The files of the slices, in the same order; those that have changed are built in parallel.

        Raises:
            HudiReadError: a slice cannot be read.
        """
        waiting: list[Future[SliceFiles]] = []
        try:
            waiting += (builders.submit(self._files, split, builder, counters) for split in splits)
            return [one.result() for one in waiting]
        except BaseException:
            _stop(waiting)
            raise

    def _files(self, split: RealtimeFileSplit, builder: SliceBuilder, counters: Counters) -> SliceFiles:
        key = builder.key(split)
        files = self._find(key, builder)
        if files is not None:
            counters.add("slices_reused_total")
            return files
        with counters.building():
            files = self._built(split, builder)
        counters.add("slices_built_total")
        return files

    def _built(self, split: RealtimeFileSplit, builder: SliceBuilder) -> SliceFiles:
        def copied(base: RealtimeFileSplit) -> SliceFiles:
            return self._find(builder.key(base), builder) or self._built(base, builder)

        files = builder.build(split, copied)
        self._scratch.write(f"{SLICES}/{files.name}{_SUFFIX}", slice_to_json(files))
        self._known[builder.key(split)][files.name] = files
        return files

    def _find(self, key: str, builder: SliceBuilder) -> SliceFiles | None:
        """The entry of a slice for which the same log blocks counted; None if there is none."""
        for name in self._unread.pop(key, ()):
            text = self._scratch.read(f"{SLICES}/{name}{_SUFFIX}")
            files = None if text is None else _slice_files(text)
            if files is not None and self._present.issuperset(files.own_files):
                self._known[key][files.name] = files
        if key not in self._known:
            return None
        return next((files for files in self._known[key].values() if files.holds(builder.context.counts)), None)


def _key(name: str) -> str:
    return name.partition("-")[0]


def _slice_files(text: bytes) -> SliceFiles | None:
    """The slice files of a cache entry; None if it is damaged, and the slice is built again."""
    try:
        return slice_from_json(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _stop(waiting: Sequence["Future[SliceFiles]"]) -> None:
    """Cancel the tasks that have not started, and wait for the others."""
    for one in waiting:
        one.cancel()
    for one in waiting:
        if not one.cancelled():
            one.exception()


GIVEN = "given"


class GivenSlices:
    """The notes of one table; not thread-safe."""

    def __init__(self, scratch: Scratch, keep_seconds: float) -> None:
        self._scratch = scratch
        self._keep_seconds = keep_seconds
        self._notes: dict[str, frozenset[str]] = {}

    def refresh(self) -> None:
        """Read new notes, and forget those that are gone."""
        names = set(self._scratch.names(GIVEN))
        for name in self._notes.keys() - names:
            del self._notes[name]
        for name in names - self._notes.keys():
            self._notes[name] = _slices(self._scratch.read(f"{GIVEN}/{name}"))

    def give(self, slices: Iterable[str]) -> None:
        """Note that a client gets these slices, unless that is known."""
        period = current_period(self._keep_seconds)
        new = set(slices) - self._of(period)
        if new:
            name = f"p{period}-{new_mark()}.json"
            self._scratch.write(f"{GIVEN}/{name}", json.dumps(sorted(new)).encode())
            self._notes[name] = frozenset(new)

    def usable(self) -> Collection[str]:
        """The slices that can be given again."""
        period = current_period(self._keep_seconds)
        return self._of(period) | self._of(period - 1)

    def needed(self) -> Collection[str]:
        """The slices that running queries may need."""
        return {one for slices in self._notes.values() for one in slices}

    def forget_past(self) -> None:
        """Remove the notes that nobody needs any more."""
        for name in [name for name in self._notes if is_past(name, self._keep_seconds)]:
            self._scratch.remove(f"{GIVEN}/{name}")
            del self._notes[name]

    def _of(self, period: int) -> set[str]:
        return {one for name, slices in self._notes.items() if period_of(name) == period for one in slices}


def _slices(text: bytes | None) -> frozenset[str]:
    """The slices of a note; none if it is damaged, and they are built again."""
    try:
        return frozenset(map(str, json.loads(text or b"[]")))
    except (ValueError, TypeError):
        return frozenset()
