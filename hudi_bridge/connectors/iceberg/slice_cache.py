"""A cache of the files of slices in the scratch folder: slices that have not changed are not read again."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, Future

from hudi_bridge.connectors.iceberg.counters import Counters
from hudi_bridge.connectors.iceberg.slice_builder import SliceBuilder
from hudi_bridge.connectors.iceberg.slice_files import SliceFiles, slice_from_json, slice_to_json
from hudi_bridge.connectors.publishing.scratch import Scratch
from hudi_bridge.splits.split import RealtimeFileSplit

SLICES = "slices"
_SUFFIX = ".json"


class SliceCache:
    """The files of each slice by key, in one version for each set of log blocks that counted.

    Cached files on disk are used only after ``forget_without`` has listed the data files that exist.
    """

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._unread: dict[str, set[str]] = defaultdict(set)
        self._known: dict[str, dict[str, SliceFiles]] = defaultdict(dict)
        self._present: frozenset[str] = frozenset()
        for name in scratch.names(SLICES):
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

    def forget_but(self, names: set[str]) -> None:
        """Drop all entries but those with these names."""
        for key in list(self._known):
            self._known[key] = {name: files for name, files in self._known[key].items() if name in names}
            if not self._known[key]:
                del self._known[key]

    def own_files(self) -> set[str]:
        """The names of the files in the scratch folder that the entries in memory have."""
        return {name for known in self._known.values() for files in known.values() for name in files.own_files}

    def forget_without(self, present: frozenset[str]) -> None:
        """Drop entries with data files that are not ``present``, also those that are read from disk later."""
        self._present = present
        for key, known in list(self._known.items()):
            self._known[key] = {name: files for name, files in known.items() if present.issuperset(files.own_files)}

    def _files(self, split: RealtimeFileSplit, builder: SliceBuilder, counters: Counters) -> SliceFiles:
        key = builder.key(split)
        files = self._find(key, builder)
        if files is not None:
            counters.add("slices_reused_total")
            return files
        with counters.building():
            files = builder.build(split)
        self._scratch.write(f"{SLICES}/{files.name}{_SUFFIX}", slice_to_json(files))
        self._known[key][files.name] = files
        counters.add("slices_built_total")
        return files

    def _find(self, key: str, builder: SliceBuilder) -> SliceFiles | None:
        """The entry of a slice for which the same log blocks counted; None if there is none."""
        for name in self._unread.pop(key, ()):
            text = self._scratch.read(f"{SLICES}/{name}")
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
