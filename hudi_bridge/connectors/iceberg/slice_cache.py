"""A cache of the files of slices in the scratch folder: slices that have not changed are not read again."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Executor, Future

from hudi_bridge.connectors.iceberg.counters import Counters
from hudi_bridge.connectors.iceberg.slice_builder import SliceBuilder
from hudi_bridge.connectors.iceberg.slice_files import SliceFiles, slice_from_json, slice_to_json
from hudi_bridge.connectors.publishing.scratch import Scratch
from hudi_bridge.connectors.publishing.unique_names import marked_at, period_seconds
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
