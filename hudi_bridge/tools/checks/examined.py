"""The state of a table that is examined: its timeline files, folders, slices, footers, log headers, and costs.

Each part is read once, when a check first asks for it. If a part cannot be read, its error is kept, so that checks of
other parts continue.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.common.caching import cached_property
from hudi_bridge.common.display import size_text
from hudi_bridge.common.threads import map_in_threads
from hudi_bridge.config import TableConfig, TableType
from hudi_bridge.errors import CorruptBaseFileError, CorruptTableError, DataFileGoneError, HudiReadError
from hudi_bridge.indexes.metadata_table import MetadataTable
from hudi_bridge.indexes.query_indexes import MetadataFileIndex
from hudi_bridge.indexes.record_kinds import FILES, LEAST_SIZE_LEFT_OUT
from hudi_bridge.logformat.parquet import END_BYTES, PARQUET_ERRORS, first_line, footer_mismatch, require_not_encrypted
from hudi_bridge.logformat.scan import ScanResult
from hudi_bridge.readers.base_formats.footers import text_range
from hudi_bridge.readers.base_formats.legacy_dates import LegacyDates
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN, FILE_NAME_COLUMN, PARTITION_PATH_COLUMN
from hudi_bridge.splits.committed_files import (
    are_shared_with_writers,
    commit_based_on,
    files_of_cleans,
    may_hold_external,
    registered_files,
    with_registered,
)
from hudi_bridge.splits.copy_on_write import CommandLogs
from hudi_bridge.splits.decryption import open_decrypted, properties_of
from hudi_bridge.splits.file_slice import (
    BaseFileName,
    FileSlice,
    LogFileName,
    file_id_of,
    is_external,
    parse_base_file_name,
    parse_log_file_name,
    stored_path,
)
from hudi_bridge.splits.file_system_view import TimelineView, build_file_groups, latest_snapshot_slice, view_timeline
from hudi_bridge.splits.partitions import list_partitions
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.query_schema import scan_heads
from hudi_bridge.splits.table_files import indexed_files
from hudi_bridge.storage.storage import FileInfo, Storage
from hudi_bridge.timeline.history import load_archived_instants
from hudi_bridge.timeline.instant import COMMIT_ACTIONS, Action, Instant, instant_file_name, parse_instant_file_name
from hudi_bridge.timeline.instant_files import (
    CommitMetadata,
    GroupId,
    commit_metadata_of_record,
    read_files_to_clean,
)
from hudi_bridge.timeline.records import Record, parse_record
from hudi_bridge.timeline.timeline import TableState, Timeline
from hudi_bridge.tools.checks.findings import Limits, SliceCost


def slice_costs(
    slices: Iterable[FileSlice], log_heads: Mapping[str, ScanResult | HudiReadError] | None, most_delta_commits: int
) -> tuple[SliceCost, ...]:
    """The costs of slices, the ones with most log bytes first.

    ``log_heads`` has the blocks of log files; it is None if the names of log files have their writes. From
    ``most_delta_commits`` on, a compaction is overdue.
    """
    costs = (_cost(file_slice, _writes(file_slice, log_heads), most_delta_commits) for file_slice in slices)
    return tuple(sorted(costs, key=lambda cost: (-cost.log_bytes, cost.partition_path, cost.file_id)))


def _cost(file_slice: FileSlice, writes: int, most_delta_commits: int) -> SliceCost:
    return SliceCost(
        partition_path=file_slice.partition_path,
        file_id=file_slice.file_id,
        base_bytes=file_slice.base_size_bytes,
        log_bytes=file_slice.log_size_bytes,
        log_files=len(file_slice.log_files),
        delta_commits=writes,
        log_ratio=file_slice.log_size_bytes / file_slice.base_size_bytes if file_slice.base_size_bytes else None,
        merge_bytes=file_slice.log_size_bytes,
        is_overdue=writes >= most_delta_commits,
    )


def _writes(file_slice: FileSlice, log_heads: Mapping[str, ScanResult | HudiReadError] | None) -> int:
    """The number of writes in the logs of a slice."""
    if log_heads is None:
        return len({log.name.instant_time for log in file_slice.log_files})
    times: set[str] = set()
    for log in file_slice.log_files:
        scan = log_heads.get(log.path)
        if scan is not None and not isinstance(scan, HudiReadError):
            times |= {block.instant_time for block in scan.blocks if block.instant_time and block.holds_records}
    return len(times)


_AT_ONCE = 16
_Read = TypeVar("_Read")
Range: TypeAlias = tuple[Any, Any]
"""The minimum and maximum of a column."""
Progress = Callable[[str, int, int], None]
"""Called with what is being read, how many parts are done, and the number of parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineFile:
    """A file on the active timeline with its record: None in an empty file, or the error if it cannot be read."""

    path: str
    size_bytes: int
    instant: Instant
    record: Record | HudiReadError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A base file or a log file in the table's folder; one of the two names is None."""

    partition_path: str
    path: str
    size_bytes: int
    base: BaseFileName | None
    log: LogFileName | None

    @property
    def file_id(self) -> str:
        """The file group."""
        name = self.base or self.log
        assert name is not None
        return name.file_id

    @property
    def instant_time(self) -> str:
        """The instant in the name."""
        name = self.base or self.log
        assert name is not None
        return name.instant_time

    @property
    def is_cdc(self) -> bool:
        """Whether it holds change data, which no snapshot reads."""
        return self.log is not None and self.log.is_cdc


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """The contents of a base file's footer.

    Attributes:
        rows: the number of rows.
        schema: the columns.
        entries: the key-value metadata.
        newest_commit: the greatest commit time in the statistics.
        origin: the partition path and the file name of the first rows, by column, if there are statistics.
        ranges: the ranges of columns; only for a deep examination.
        without_ranges: columns with values but without statistics in a row group; only for a deep examination.
    """

    rows: int
    schema: pa.Schema
    entries: Mapping[str, str]
    newest_commit: str | None
    origin: Mapping[str, str]
    ranges: Mapping[str, Range]
    without_ranges: Collection[str]


class Examined:
    """A table that is being examined, in one state."""

    def __init__(self, state: TableState, now: str, limits: Limits, progress: Progress, *, deep: bool) -> None:
        """Reads nothing yet; ``now`` is an instant."""
        self.state = state
        self.now = now
        self.limits = limits
        self.deep = deep
        self.progress = progress

    @property
    def storage(self) -> Storage:
        """The table's folder."""
        return self.state.storage

    @property
    def config(self) -> TableConfig:
        """The properties."""
        return self.state.config

    @property
    def timeline(self) -> Timeline:
        """The active timeline."""
        return self.state.timeline

    @property
    def logs_name_their_own_instant(self) -> bool:
        """Whether log files are named after the instant that wrote them."""
        return self.config.layout.logs_name_their_own_instant

    @property
    def is_merge_on_read(self) -> bool:
        """Whether the table may have log files."""
        return self.config.table_type is TableType.MERGE_ON_READ

    @cached_property
    def timeline_files(self) -> tuple[TimelineFile, ...]:
        """All files of instants on the active timeline, each state on its own."""
        folder, layout = self.config.timeline_path, self.config.timeline_layout
        entries = [
            (info, instant)
            for info in self.storage.list_directory(folder)
            if not info.is_dir and (instant := parse_instant_file_name(info.name, layout)) is not None
        ]
        return tuple(filter(None, self._each("timeline files", self._timeline_file, entries)))

    def _timeline_file(self, entry: tuple[FileInfo, Instant]) -> TimelineFile | None:
        info, instant = entry
        record: Record | HudiReadError | None
        try:
            data = self.storage.read_bytes(info.path)
            record = parse_record(data, info.path) if data else None
        except HudiReadError as error:
            record = error
        except FileNotFoundError:
            # The instant was archived after the folder was listed.
            return None
        return TimelineFile(path=info.path, size_bytes=info.size_bytes, instant=instant, record=record)

    def timeline_path(self, instant: Instant) -> str:
        """The path of an instant's file."""
        return f"{self.config.timeline_path}/{instant_file_name(instant)}"

    @cached_property
    def commits(self) -> Mapping[str, CommitMetadata]:
        """The metadata of the completed writes on the active timeline, oldest first, without damaged ones."""
        commits_by_path = {self.timeline_path(instant): instant for instant in self.timeline.commits()}
        metadata = {}
        for file in self.timeline_files:
            if file.path not in commits_by_path or isinstance(file.record, HudiReadError):
                continue
            try:
                metadata[file.instant.requested_time] = commit_metadata_of_record(file.record or {}, file.path)
            except CorruptTableError:
                # The check of timeline files reports the error.
                continue
        return {time: metadata[time] for time in sorted(metadata)}

    @cached_property
    def archived(self) -> tuple[Instant, ...]:
        """The archived instants; raises like ``load_archived_instants``."""
        return load_archived_instants(self.state)

    @cached_property
    def archived_commits(self) -> frozenset[str]:
        """The requested times of the archived writes; raises like ``load_archived_instants``."""
        return frozenset(instant.requested_time for instant in self.archived if instant.action in COMMIT_ACTIONS)

    @cached_property
    def folders(self) -> Mapping[str, tuple[FileInfo, ...]]:
        """The entries of the table's folders except ``.hoodie``, by path; raises like ``list_partitions``."""
        return self._listed[1]

    @cached_property
    def partitions(self) -> tuple[str, ...]:
        """The paths of the partitions; raises like ``list_partitions``."""
        return tuple(sorted({*self._listed[0], *self.external}))

    @cached_property
    def external(self) -> Mapping[str, Sequence[FileInfo]]:
        """The existing external files by partition, under their names in the metadata table or in commits.

        Raises like ``registered_files``.
        """
        if not any(may_hold_external(listing) for listing in self.folders.values()):
            return {}
        index = MetadataFileIndex(self.state, lambda: MetadataTable(self.state))
        paths = index.partitions() if FILES in self.config.metadata_partitions else None
        indexed = None if paths is None else index.files(paths)
        registered = registered_files(self.state) if indexed is None else indexed_files(indexed)
        existing = {info.path for listing in self.folders.values() for info in listing if not info.is_dir}
        return {
            path: [info for info in files if is_external(info.path) and stored_path(info.path) in existing]
            for path, files in registered.items()
        }

    def entries(self, partition: str) -> Sequence[FileInfo]:
        """The files of a partition; external files have their names in commits."""
        return with_registered(self.folders.get(partition, ()), self.external.get(partition, ()))

    @cached_property
    def read_files(self) -> Mapping[str, Sequence[FileInfo]]:
        """The files by partition, as planning sees them; raises like ``entries``."""
        return CommandLogs(self.state).left_out_of({path: self.entries(path) for path in self.partitions})

    def files_of(self, groups: Iterable[GroupId]) -> Mapping[GroupId, Sequence[FileInfo]]:
        """The files of file groups, as planning sees them; raises like ``entries``."""
        return {
            (path, file_id): [info for info in self.read_files.get(path, ()) if file_id_of(info.name) == file_id]
            for path, file_id in groups
        }

    @cached_property
    def files_being_cleaned(self) -> frozenset[str]:
        """The files that cleans under way delete, as far as their plans name them and can be read."""
        files: set[str] = set()
        for clean in self.timeline.pending(Action.CLEAN):
            with suppress(CorruptTableError, DataFileGoneError):
                files |= read_files_to_clean(self.state, clean) or frozenset()
        return frozenset(files)

    @cached_property
    def _listed(self) -> tuple[list[str], Mapping[str, tuple[FileInfo, ...]]]:
        entries: dict[str, tuple[FileInfo, ...]] = {}

        def listing_of(path: str) -> Sequence[FileInfo]:
            entries[path] = self.storage.list_directory(path, must_exist=True)
            self.progress("folders", len(entries), 0)
            return entries[path]

        # Readers of the metadata table list no folders, so they also find a partition within another one.
        partitions = list_partitions(self.state, pa.schema([]), (), None, listing_of, within_partitions=True)
        return partitions, entries

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        """All data files in partitions by path, including files of failed writes."""
        return tuple(file for path in self.partitions for file in data_files(path, self.entries(path)))

    @cached_property
    def view(self) -> TimelineView:
        """The timeline as planning sees it; raises like ``view_timeline``."""
        return view_timeline(self.state)

    @cached_property
    def slices(self) -> tuple[FileSlice, ...]:
        """The file slices that a snapshot reads, by listing; raises like ``build_file_groups``."""
        slices = []
        for path, files in self.read_files.items():
            for group in build_file_groups(path, files, self.view):
                file_slice = latest_snapshot_slice(group, self.view)
                if file_slice is not None:
                    slices.append(file_slice)
        return tuple(slices)

    def each_slice(self, what: str) -> Iterator[FileSlice]:
        """The file slices in turn; tells what is read of them, how many have been read, and how much."""
        done_bytes, size_bytes = 0, sum(map(_size_of, self.slices))
        for number, file_slice in enumerate(self.slices):
            self.progress(
                f"{what} of file slices, {size_text(done_bytes)} of {size_text(size_bytes)}:", number, len(self.slices)
            )
            yield file_slice
            done_bytes += _size_of(file_slice)

    @cached_property
    def shown_base_files(self) -> frozenset[str]:
        """The paths of the base files that snapshots show, including earlier ones; raises like ``slices``."""
        return frozenset(
            file_slice.base_file.path
            for path in self.partitions
            for group in build_file_groups(path, self.folders[path], self.view)
            for file_slice in group.slices
            if file_slice.base_file is not None
        )

    @cached_property
    def newest_first(self) -> tuple[FileSlice, ...]:
        """The slices, ordered by their newest file, newest first."""
        return tuple(sorted(self.slices, key=_newest_instant, reverse=True))

    @cached_property
    def footers(self) -> Mapping[str, Footer | HudiReadError]:
        """The footers of the base files of the newest slices by path, up to the limit."""
        files = (file_slice.base_file for file_slice in self.newest_first if file_slice.base_file is not None)
        # Other formats have no footer that can be read by itself.
        selected = [file for file in files if file.path.endswith(".parquet")][: self.limits.files]
        read_footer = partial(_read_footer, with_ranges=self.deep)
        read = self._each(
            "footers", lambda file: _guarded(read_footer, self.storage, file.path, file.size_bytes), selected
        )
        return {file.path: footer for file, footer in zip(selected, read, strict=True)}

    @cached_property
    def log_heads(self) -> Mapping[str, ScanResult | HudiReadError]:
        """The blocks of the log files of the newest slices by path, without their contents, up to the limit."""
        files = [log for file_slice in self.newest_first for log in file_slice.log_files]
        selected = files[: self.limits.files]
        read = self._each(
            "log headers", lambda log: _guarded(scan_heads, self.storage, log.path, log.size_bytes), selected
        )
        return {log.path: scan for log, scan in zip(selected, read, strict=True)}

    @cached_property
    def costs(self) -> tuple[SliceCost, ...]:
        """The costs of the newest slices, the ones with most log bytes first; raises like ``slices``."""
        heads = None if self.logs_name_their_own_instant else self.log_heads
        return slice_costs(self.slices, heads, self.limits.delta_commits)

    @cached_property
    def planner(self) -> SplitPlanner:
        """A planner that lists folders."""
        return SplitPlanner(self.state)

    @cached_property
    def metadata_table(self) -> MetadataTable | None:
        """The metadata table, or None; raises if its timeline cannot be listed."""
        config = self.config
        return MetadataTable(self.state) if config.metadata_partitions or config.metadata_partitions_inflight else None

    @cached_property
    def written(self) -> Mapping[str, frozenset[str]]:
        """The paths that each completed write on the active timeline names, including change data."""
        return {
            time: frozenset(
                path for stat in commit.write_stats for path in (stored_path(stat.path), *dict(stat.cdc_stats))
            )
            for time, commit in self.commits.items()
        }

    @cached_property
    def lost_completions(self) -> Mapping[Instant, str]:
        """The pending writes that must have completed, as completed ones are based on their files, each with why."""
        pending = self.timeline.pending_commits()
        if not pending:
            return {}
        files = [file.path for file in self.files]
        named = [(path, time) for time, paths in self.written.items() for path in paths]
        before = [
            (stat.prev_commit, time)
            for time, commit in self.commits.items()
            for stat in commit.write_stats
            if stat.prev_commit is not None
            and not commit.is_compaction
            and parse_base_file_name(stat.path.rpartition("/")[2]) is not None
        ]
        lost = {}
        for instant in pending:
            commit = commit_based_on(instant, files, named, before)
            if commit is not None and not are_shared_with_writers(self.state, instant):
                lost[instant] = f"the commit {commit} is based on its files"
            elif instant.requested_time in self.archived_commits:
                lost[instant] = "the archived timeline has it"
        return lost

    @cached_property
    def cleaned_files(self) -> Mapping[str, str]:
        """The files that cleans on the active timeline have deleted, with the instants of the cleans."""
        return files_of_cleans(self.state)

    @cached_property
    def base_instants(self) -> Mapping[GroupId, frozenset[str]]:
        """The instants of the base files of each file group, including failed writes."""
        instants: dict[GroupId, set[str]] = defaultdict(set)
        for file in self.files:
            if file.base is not None:
                instants[file.partition_path, file.file_id].add(file.instant_time)
        return {group: frozenset(times) for group, times in instants.items()}

    def _each(self, what: str, read: Callable[..., _Read], items: Iterable[object]) -> list[_Read]:
        """The results of reading each item, several at a time."""
        item_list = list(items)
        done = 0

        def counting(item: object) -> _Read:
            nonlocal done
            result = read(item)
            done += 1
            self.progress(what, done, len(item_list))
            return result

        return map_in_threads(counting, item_list, _AT_ONCE)


def data_files(partition: str, entries: Iterable[FileInfo]) -> Iterable[DataFile]:
    """The data files among the entries of a partition, by their paths in storage."""
    for info in entries:
        if info.is_dir or info.name.endswith(".crc"):
            continue
        base, log = parse_base_file_name(info.name), parse_log_file_name(info.name)
        if base is not None or log is not None:
            yield DataFile(
                partition_path=partition,
                path=stored_path(info.path),
                size_bytes=info.size_bytes,
                base=base,
                log=None if base else log,
            )


def _newest_instant(file_slice: FileSlice) -> str:
    return max((file_slice.base_instant_time, *(log.name.instant_time for log in file_slice.log_files)))


def _guarded(
    read: Callable[[Storage, str, int], _Read], storage: Storage, path: str, size_bytes: int
) -> "_Read | HudiReadError":
    try:
        return read(storage, path, size_bytes)
    except HudiReadError as error:
        return error
    except FileNotFoundError:
        return CorruptTableError(path, None, "no such file any more", "a file that was listed just before")


def _read_footer(storage: Storage, path: str, size_bytes: int, *, with_ranges: bool) -> Footer:
    try:
        with storage.open_input(path, size_bytes or None) as source:
            properties = properties_of(storage, path)
            if properties is not None:
                return _decrypted_footer(open_decrypted(storage, path, source, properties))
            opened: Any = source  # the stubs lack read_at's second argument
            end = opened.read_at(END_BYTES, max(0, opened.size() - END_BYTES))
            require_not_encrypted(end, path)
            file = pq.ParquetFile(opened)
            metadata = file.metadata
            require_not_encrypted(end, path, metadata)
            if mismatch := footer_mismatch(metadata):
                raise CorruptBaseFileError(path, None, *mismatch)
            schema = file.schema_arrow
            return Footer(
                rows=metadata.num_rows,
                schema=schema.remove_metadata(),
                entries=_entries(metadata),
                newest_commit=_newest_commit(metadata),
                origin=_origin(metadata),
                ranges=_ranges(metadata, LegacyDates.of(metadata, schema, path)) if with_ranges else {},
                without_ranges=_without_ranges(metadata) if with_ranges else (),
            )
    except FileNotFoundError:
        raise
    except PARQUET_ERRORS as error:
        raise CorruptBaseFileError(path, None, first_line(error), "a readable Parquet file") from error


def _decrypted_footer(file: pq.ParquetFile) -> Footer:
    """The footer of an encrypted file, without statistics, which are encrypted with the keys of columns."""
    return Footer(
        rows=file.metadata.num_rows,
        schema=file.schema_arrow.remove_metadata(),
        entries=_entries(file.metadata),
        newest_commit=None,
        origin={},
        ranges={},
        without_ranges=(),
    )


def _entries(metadata: pq.FileMetaData) -> Mapping[str, str]:
    return {
        key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
        for key, value in (metadata.metadata or {}).items()
    }


def _newest_commit(metadata: pq.FileMetaData) -> str | None:
    """The greatest commit time of the rows, by the statistics."""
    ranges = (text_range(metadata, number, COMMIT_TIME_COLUMN) for number in range(metadata.num_row_groups))
    return max((greatest for _, greatest in filter(None, ranges)), default=None)


def _origin(metadata: pq.FileMetaData) -> Mapping[str, str]:
    if not metadata.num_row_groups:
        return {}
    ranges = {name: text_range(metadata, 0, name) for name in (PARTITION_PATH_COLUMN, FILE_NAME_COLUMN)}
    return {
        name: text_range_of_column[0]
        for name, text_range_of_column in ranges.items()
        if text_range_of_column is not None
    }


def _ranges(metadata: pq.FileMetaData, legacy_dates: LegacyDates | None) -> Mapping[str, Range]:
    """The ranges of columns by their statistics, if these are of the returned values and Python can represent them."""
    ranges: dict[str, Range] = {}
    excluded = set() if legacy_dates is None else set(legacy_dates.columns)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for chunk in map(group.column, range(group.num_columns)):
            statistics, path = chunk.statistics, chunk.path_in_schema
            if (
                statistics is None
                or not statistics.has_min_max
                or excluded.intersection((path, path.partition(".")[0]))
            ):
                continue
            try:
                least, greatest = statistics.min, statistics.max
            except OverflowError:
                # Python cannot represent the date.
                excluded.add(path)
                ranges.pop(path, None)
                continue
            earlier = ranges.get(path, (least, greatest))
            ranges[path] = (min(least, earlier[0]), max(greatest, earlier[1]))
    return ranges


def _without_ranges(metadata: pq.FileMetaData) -> Collection[str]:
    """The columns without any statistics in a row group in which they are too large for nulls alone."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [chunk for group in groups for chunk in map(group.column, range(group.num_columns))]
    large = [chunk for chunk in chunks if chunk.total_uncompressed_size >= LEAST_SIZE_LEFT_OUT]
    return {chunk.path_in_schema for chunk in large if not _has_statistics(chunk.statistics)}


def _has_statistics(statistics: Any) -> bool:  # noqa: ANN401 - the stubs lack fields
    return statistics is not None and (statistics.has_min_max or statistics.has_null_count)


def _size_of(file_slice: FileSlice) -> int:
    return file_slice.base_size_bytes + file_slice.log_size_bytes
