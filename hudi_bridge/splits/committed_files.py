"""The data files that completed commits name: listings are checked against them, and external files get their names.

A file that was lost, or that a copy or a power failure left empty or cut off, would lack its rows without an error. The
commits on the active timeline name what they wrote, with sizes. Files of older slices, and files of replaced file
groups, may have been cleaned. So the file slices of a query are built once more with the missing files: what they would
read is lost. Hudi itself lists and does not compare. What a clean of Hudi has deleted is left out with a warning: those
who write by consistent hashing go on to write to file groups that an overwrite has replaced.

External files are Parquet files of another writer than Hudi. No listing shows that they belong to the table: the
metadata table does, or the replace commit that registered them. Hudi asks only the metadata table, and finds no rows in
a table without one.

Source: ``HoodieWriteStat``; ``HudiConversionTarget`` of Apache XTable, ``RegisterOnlyBootstrapStatBuilder`` of Hudi.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import NamedTuple

from hudi_bridge.common.caching import cached_property
from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_in_threads
from hudi_bridge.errors import (
    CorruptTableError,
    CorruptTimelineError,
    DataFileGoneError,
    InstantNotReadableError,
    UnsupportedTableError,
)
from hudi_bridge.splits.file_slice import (
    FileSlice,
    file_id_of,
    instant_of,
    is_data_file,
    is_external,
    parse_base_file_name,
    parse_log_file_name,
    stored_path,
)
from hudi_bridge.splits.file_system_view import (
    TimelineView,
    build_file_groups,
    latest_read_optimized_slice,
    latest_snapshot_slice,
)
from hudi_bridge.splits.notes import (
    warn_of_cleaned_file,
    warn_of_lost_completion,
    warn_of_short_log,
    warn_of_unread_commit,
)
from hudi_bridge.splits.partitions import is_partition
from hudi_bridge.storage.storage import FileInfo
from hudi_bridge.timeline.history import load_archived_instants, read_archived_commits
from hudi_bridge.timeline.instant import Action, Instant, instant_file_name
from hudi_bridge.timeline.instant_files import (
    CommitMetadata,
    GroupId,
    WriteStat,
    commit_metadata_of_record,
    read_all_commit_metadata,
    read_cleaned_files,
    read_commit_metadata,
)
from hudi_bridge.timeline.timeline import TableState

_MOST_COMMITS = 200
"""Of a timeline that is not archived, the newest commits are read: Hudi keeps 30 or so."""
# How the instants begin by which the partitions of a metadata table are made.
_FIRST_INSTANT = "00000000000000"
_HIDDEN = (".", "_")
BUCKET_FOLDER = ".hoodie/.bucket_index"
"""Where tables describe buckets whose number is not the same everywhere: consistent hashing, numbers by partition."""
_DIGITS_OF_BUCKET = 8
_OF_ALL_WRITERS = "-0000-0000-0000-000000000000"
"""What follows the bucket in file ids of writers that do not wait for each other (``BucketIdentifier``)."""
_NOTHING = commit_metadata_of_record({}, "")
"""What Hudi archives of a replace commit in layout 1, unless it is of an operation that it knows."""


class NamedFile(NamedTuple):
    """A file that commits name, with the last of these commits and the greatest size in them; the file may have grown
    since.
    """

    size_bytes: int
    commit: str


class CommittedFiles:
    """The data files that the commits of a state name, read when they are first needed."""

    def __init__(self, state: TableState, *, is_strict: bool = False) -> None:
        """Takes the commits up to the state's instant.

        ``is_strict`` is for a table that queries can do without, such as a metadata table: all its commits must be
        readable, its base files must have the sizes in them, and no log file may end early.
        """
        self._state = state
        self._is_strict = is_strict

    @cached_property
    def by_folder(self) -> Mapping[str, Mapping[str, NamedFile]]:
        """The files by folder and path.

        Raises:
            CorruptTableError: a commit is damaged, and the table is read strictly.
        """
        state = self._state
        commits = [
            commit
            for commit in state.timeline.commits()
            # What a savepoint keeps on the timeline may have been replaced by a commit that is archived.
            if state.timeline_start <= commit.requested_time <= state.instant
        ][-_MOST_COMMITS:]
        files: dict[str, dict[str, NamedFile]] = defaultdict(dict)
        is_local = state.storage.is_local
        writes = map(self._written, commits) if is_local else map_in_threads(self._written, commits, REQUESTS_AT_ONCE)
        for commit, stats in sorted(zip(commits, writes, strict=True), key=lambda pair: _completion_time(pair[0])):
            time = commit.requested_time
            by_folder = _named_files(stats, time)
            for name, named in by_folder.items():
                folder = files[name]
                if time.startswith(_FIRST_INSTANT):
                    # An index that was dropped and made anew has nothing of what it was before.
                    folder.clear()
                # Hardly ever is a file named by two commits.
                for path in folder.keys() & named.keys():
                    named[path] = NamedFile(max(named[path].size_bytes, folder[path].size_bytes), time)
                folder.update(named)
        return dict(files)

    @cached_property
    def _cleaned(self) -> Mapping[str, str]:
        return files_of_cleans(self._state)

    def _written(self, commit: Instant) -> Sequence[WriteStat]:
        state = self._state
        try:
            metadata = read_commit_metadata(state, commit)
            if self._is_strict and not (metadata.operation_type or metadata.extra or metadata.write_stats):
                path = f"{state.config.timeline_path}/{instant_file_name(commit)}"
                raise CorruptTimelineError(path, 0, "nothing of a commit", "what the commit has written")
        except (CorruptTableError, DataFileGoneError) as error:
            # It may have been archived meanwhile.
            if isinstance(error, DataFileGoneError):
                return ()
            # Reading the rows does not need it.
            if self._is_strict:
                raise
            warn_of_unread_commit(state.config.table_path, str(error))
            return ()
        return metadata.write_stats

    def require(
        self,
        folder: str,
        files: Iterable[FileInfo],
        view: TimelineView,
        *,
        of_base_files: bool = False,
        file_ids: Collection[str] | None = None,
    ) -> None:
        """Requires that ``files`` have what the slices of a query in a folder need.

        ``of_base_files`` is for a read-optimized query; ``file_ids`` are the file groups that are read, None for all.

        Raises:
            CorruptTableError: a file is missing, or has another size than in the commit that wrote it, or the table is
                read strictly and a commit is damaged.
            InstantNotReadableError: it is a file of an earlier state, and may have been cleaned.
        """
        named = self.by_folder.get(folder)
        if not named:
            return
        files = list(files)
        self._warn_of_lost_completions(files, named)
        there = {info.path: info for info in files if not info.is_dir}
        lacking = {path: file for path, file in named.items() if self._is_lacking(path, file, there.get(path))}
        if not lacking:
            return
        groups = {file_id_of(path.rpartition("/")[2]) for path in lacking}
        expected = {path: info for path, info in there.items() if file_id_of(info.name) in groups}
        for path, file in lacking.items():
            expected[path] = FileInfo(path=path, size_bytes=file.size_bytes, is_dir=False)
        latest = latest_read_optimized_slice if of_base_files else latest_snapshot_slice
        for group in build_file_groups(folder, expected.values(), view):
            if file_ids is not None and group.file_id not in file_ids:
                continue
            file_slice = latest(group, view)
            for path in () if file_slice is None else paths_in(file_slice, of_base_files=of_base_files):
                if path in lacking:
                    info = there.get(path)
                    clean = self._cleaned.get(path) if info is None and not self._is_strict else None
                    refuse_lacking(self._state, path, lacking[path], info, clean=clean, is_strict=self._is_strict)

    @staticmethod
    def needs_any(
        paths: Collection[str],
        files_of: Callable[[Iterable[GroupId]], Mapping[GroupId, Sequence[FileInfo]]],
        view: TimelineView,
    ) -> bool:
        """Whether a snapshot or a read-optimized query needs any of these files, which may no longer exist.

        ``files_of`` returns the existing files of file groups. Files that Hudi did not name count as needed. Raises
        like ``files_of`` and ``build_file_groups``.
        """
        by_group: dict[GroupId, list[FileInfo]] = defaultdict(list)
        for path in paths:
            name = path.rpartition("/")[2]
            if is_external(name) or not is_data_file(name):
                return True
            by_group[_group_of(path)].append(FileInfo(path=path, size_bytes=0, is_dir=False))
        for (folder, file_id), existing in files_of(by_group).items():
            others = [info for info in existing if info.path not in paths]
            for group in build_file_groups(folder, [*others, *by_group[folder, file_id]], view):
                slices = (latest_snapshot_slice(group, view), latest_read_optimized_slice(group, view))
                needed = {path for file_slice in slices if file_slice is not None for path in paths_in(file_slice)}
                if not needed.isdisjoint(paths):
                    return True
        return False

    def _warn_of_lost_completions(self, files: Sequence[FileInfo], named: Mapping[str, NamedFile]) -> None:
        for pending in self._state.timeline.pending_commits():
            paths = (info.path for info in files if not info.is_dir)
            commit = commit_based_on(pending, paths, ((path, file.commit) for path, file in named.items()))
            if commit is not None and not are_shared_with_writers(self._state, pending):
                warn_of_lost_completion(
                    self._state.config.table_path, str(pending.action), pending.requested_time, commit
                )

    def _is_lacking(self, path: str, named: NamedFile, info: FileInfo | None) -> bool:
        if info is None:
            return True
        if is_log(path):
            return info.size_bytes < named.size_bytes
        # A base file that ends early cannot be read, which its reader says; a longer one is another.
        return self._is_strict and info.size_bytes != named.size_bytes


def _named_files(stats: Iterable[WriteStat], time: str) -> dict[str, dict[str, NamedFile]]:
    """The files of a commit by folder and path."""
    files: dict[str, dict[str, NamedFile]] = defaultdict(dict)
    for stat in stats:
        path = stat.path
        # Commits have other paths of external files than listings; each is opened by the path in its commit.
        if not path or is_external(path):
            continue
        path = _normalized(path)
        folder = files[path.rpartition("/")[0]]
        size = stat.file_size_bytes
        if path in folder:
            size = max(size, folder[path].size_bytes)
        folder[path] = NamedFile(size, time)
    return files


def _completion_time(commit: Instant) -> str:
    return commit.completion_time or commit.requested_time


def refuse_lacking(
    state: TableState,
    path: str,
    named: NamedFile,
    info: FileInfo | None,
    *,
    clean: str | None = None,
    is_strict: bool = False,
) -> None:
    """Raises for a needed file that is missing, or smaller than in a commit, by ``info``.

    Hudi reads a log file that ends early up to its end: unless it ``is_strict``, only a warning is logged for it. So it
    is for a file that a clean of Hudi has deleted, whose instant is ``clean``: Hudi does without it.

    Raises:
        CorruptTableError: its rows are lost.
        InstantNotReadableError: the state is an earlier one, whose files may have been cleaned.
    """
    if info is not None and info.size_bytes and not is_strict:
        warn_of_short_log(path, info.size_bytes, named.size_bytes, named.commit)
        return
    may_be_cleaned = _may_be_cleaned(state)
    if clean is not None and (clean < state.instant or not may_be_cleaned):
        warn_of_cleaned_file(path, named.commit, clean)
        return
    if info is None and may_be_cleaned:
        if state.is_time_travel:
            later = _next_commit_of(state, path)
            raise InstantNotReadableError(state.instant, f"files of that time have been cleaned, such as {path}", later)
        # Whoever compares states looks for what was cleaned.
        return
    size = "no such file" if info is None else f"{info.size_bytes:,} bytes"
    if info is None and state.storage.exists(path):
        size = "a file in a folder without .hoodie_partition_metadata, which readers do not list"
    expected = f"the file of {named.size_bytes:,} bytes that the commit {named.commit} names"
    raise CorruptTableError(path, None, size, expected)


def files_of_cleans(state: TableState) -> Mapping[str, str]:
    """The files that cleans on the active timeline say they have deleted, each with the instant of its clean.

    A clean that cannot be read, or has been archived meanwhile, names none: reading rows does not need it.
    """
    files = {}
    for clean in (instant for instant in state.timeline.completed() if instant.action is Action.CLEAN):
        with suppress(CorruptTableError, DataFileGoneError):
            files.update(dict.fromkeys(read_cleaned_files(state, clean), clean.requested_time))
    return files


def _may_be_cleaned(state: TableState) -> bool:
    newest = state.timeline.latest_commit()
    is_earlier = state.timeline.is_earlier or (newest is not None and state.instant < newest.requested_time)
    return is_earlier and state.timeline.latest_completed(Action.CLEAN) is not None


def _next_commit_of(state: TableState, path: str) -> str | None:
    """The first commit after a state that has written to the file group of a file."""
    folder, _, name = path.rpartition("/")
    group = (folder, file_id_of(name))
    later = (commit for commit in state.timeline.commits() if commit.requested_time > state.instant)
    for commit in later:
        stats = read_commit_metadata(state, commit).write_stats
        if any((stat.partition_path, stat.file_id) == group for stat in stats):
            return commit.requested_time
    return None


def commit_based_on(
    pending: Instant,
    files: Iterable[str],
    named: Iterable[tuple[str, str]],
    prev_commits: Iterable[tuple[str, str]] = (),
) -> str | None:
    """A completed commit that is based on what a pending write has written; None if none is.

    So that write has completed, too, and the file that says so is gone. ``files`` are paths of data files, ``named``
    those that completed commits have written, with the commits; ``prev_commits`` are, of base files that commits have
    written, the commits before them with these.
    """
    time = pending.requested_time
    begun = _groups_begun_by(time, list(files))
    for path, commit in named:
        if commit <= time or (time not in path and _group_of(path) not in begun):
            continue
        parts = parse_log_file_name(path.rpartition("/")[2])
        # Up to table version 7, a log file is named after its base file.
        if parts is not None and (parts.instant_time == time or _group_of(path) in begun):
            return commit
    return next((commit for earlier, commit in prev_commits if earlier == time), None)


def are_shared_with_writers(state: TableState, pending: Instant) -> bool:
    """Whether other writes go on in the file groups of a pending clustering, as in buckets of consistent hashing: they
    have log records in the buckets of before and of after.

    Source: ``ConsistentBucketUpdateStrategy``.
    """
    return pending.action is Action.REPLACE_COMMIT and state.storage.exists(BUCKET_FOLDER)


def _groups_begun_by(time: str, paths: Sequence[str]) -> AbstractSet[GroupId]:
    """The file groups whose first file is a base file of an instant: other writers know them once that is committed."""
    named = [path for path in paths if time in path]
    groups = {_group_of(path) for path in named if parse_base_file_name(path.rpartition("/")[2]) is not None}
    groups = {group for group in groups if not group[1].startswith(_OF_ALL_WRITERS, _DIGITS_OF_BUCKET)}
    if not groups:
        return groups
    return groups.difference(_group_of(path) for path in paths if (instant_of(path) or time) < time)


def _group_of(path: str) -> GroupId:
    folder, _, name = path.rpartition("/")
    return folder, file_id_of(name)


def is_log(path: str) -> bool:
    """Whether a path names a log file of blocks. Native log files are written as a whole, as base files are."""
    return path.rpartition("/")[2].startswith(".")


def paths_in(file_slice: FileSlice, *, of_base_files: bool = False) -> Iterator[str]:
    """The paths of a slice's files; ``of_base_files`` for a query that reads no logs."""
    if file_slice.base_file is not None:
        yield file_slice.base_file.path
    for log in () if of_base_files else file_slice.log_files:
        yield log.path


def _normalized(path: str) -> str:
    """A path as in listings: writers join some partitions with two slashes."""
    return "/".join(filter(None, path.split("/"))) if "//" in path or path.startswith("/") else path


def may_hold_external(listing: Iterable[FileInfo]) -> bool:
    """Whether a folder has files that are not Hudi's, or folders in a partition: external files may be among them."""
    entries = list(listing)
    in_partition = is_partition(entries)
    for info in entries:
        if info.name.startswith(_HIDDEN):
            continue
        if info.is_dir:
            # The folder of a table may be one of its partitions, with others in it.
            if in_partition and "/" in info.path:
                return True
        elif not in_partition or not (info.name.endswith(".crc") or is_data_file(info.name)):
            return True
    return False


def registered_files(state: TableState) -> Mapping[str, Sequence[FileInfo]]:
    """The external files that replace commits have registered, including archived ones, by partition.

    They have the names in commits. Files that an archived commit has replaced are left out.

    Raises:
        UnsupportedTableError: an archived commit may have registered some, but does not name them.
        CorruptTableError: a commit is damaged, or the name of an external file is invalid.
    """
    active = [commit for commit in state.timeline.commits() if commit.action is Action.REPLACE_COMMIT]
    newer = read_all_commit_metadata(state, active)
    registers = any(is_external(stat.path) for metadata in newer for stat in metadata.write_stats)
    if not registers and state.config.populates_meta_fields:
        # Nothing registered the other files in the folders.
        return {}
    files: dict[tuple[str, str], FileInfo] = {}
    older = _archived_commits(state, {commit.requested_time for commit in active})
    for time, metadata in older.items():
        if metadata == _NOTHING:
            actual = f"the archived commit {time}, which does not tell what it registered, and no metadata table"
            raise UnsupportedTableError("external files", actual, "those that the metadata table or commits name")
        for partition, file_ids in metadata.replaced_file_ids:
            for file_id in file_ids:
                files.pop((partition, file_id), None)
        _register(files, metadata)
    for metadata in newer:
        _register(files, metadata)
    by_partition: dict[str, list[FileInfo]] = defaultdict(list)
    for (partition, _), info in files.items():
        by_partition[partition].append(info)
    return by_partition


def _register(files: dict[tuple[str, str], FileInfo], metadata: CommitMetadata) -> None:
    for stat in metadata.write_stats:
        if is_external(stat.path):
            stored_path(stat.path)
            info = FileInfo(path=stat.path, size_bytes=stat.file_size_bytes, is_dir=False)
            files[stat.partition_path, stat.file_id] = info


def _archived_commits(state: TableState, active: AbstractSet[str]) -> Mapping[str, CommitMetadata]:
    """The metadata of archived replace commits by requested time, oldest first."""
    instants = (instant for instant in load_archived_instants(state) if instant.action is Action.REPLACE_COMMIT)
    commits = read_archived_commits(state, {instant.requested_time for instant in instants}.difference(active))
    return {time: commits[time] for time in sorted(commits)}


def with_registered(listing: Iterable[FileInfo], registered: Sequence[FileInfo]) -> tuple[FileInfo, ...]:
    """The files of a partition, by its listing; external files have the names that commits give them."""
    stored = {stored_path(info.path) for info in registered}
    return (*(info for info in listing if not info.is_dir and info.path not in stored), *registered)
