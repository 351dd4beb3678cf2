"""Checks of the metadata table: it can be read, and its files and indexes agree with storage.

Indexes that lead to record keys (Bloom filters, secondary indexes) are compared with the keys in the files, ranges of
columns and of functions with the footers of base files.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import QueryType
from hudi_bridge.errors import CorruptTableError, HudiReadError, UnsupportedTableError
from hudi_bridge.indexes.expression_index import FUNCTIONS
from hudi_bridge.indexes.footer_index import filter_in_footer
from hudi_bridge.indexes.key_index import stored_filters
from hudi_bridge.indexes.metadata_table import METADATA_FOLDER, MetadataTable
from hudi_bridge.indexes.query_indexes import NOTED_BYTES, nested_names
from hudi_bridge.indexes.record_kinds import (
    ALL_PARTITIONS,
    BLOOM_FILTERS,
    COLUMN_STATS,
    EXPRESSION_INDEX,
    FILES,
    KEY,
    PARTITION_STATS,
    SECONDARY_INDEX,
)
from hudi_bridge.indexes.secondary_index import stored_keys
from hudi_bridge.merge.arrays import Column
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.split_reader import open_reader_in
from hudi_bridge.splits.committed_files import CommittedFiles
from hudi_bridge.splits.file_slice import parse_base_file_name, parse_log_file_name, stored_path
from hudi_bridge.splits.query_schema import scan_heads
from hudi_bridge.timeline.instant import MILLIS_LENGTH, Action
from hudi_bridge.tools.checks.examined import DataFile, Examined, Footer, Range
from hudi_bridge.tools.checks.findings import Finding, Severity, age_text, hours_between, listed, of_error, quoted

_TABLE, _FILES, _RECORDS = "metadata-table", "metadata-files", "metadata-records"
_REBUILD = "CALL delete_metadata_table(table => …), then CALL create_metadata_table(table => …)"
_REBUILD_BY_WRITES = (
    "CALL delete_metadata_table(table => …); the next write finishes the rollback, and the first one that finds no "
    "other action pending creates the metadata table"
)
"""Before table version 8, none is created while an action is pending (``shouldInitializeFromFilesystem``)."""
_LOST = "no such file, although the metadata table has it"
_NO_PARTITION = "."
_BLOOM, _SECONDARY = "bloom-filters", "secondary-index"
_AS_TEXT = (pa.string(), pa.int32(), pa.int64())
"""The types of columns whose values the index spells as Arrow does."""
_CHECK, _OF_PARTITIONS, _OF_EXPRESSIONS = "column-stats", "partition-stats", "expression-stats"
_COMPARED = (bool, int, str)
"""The types whose values are equal in the index and in a footer; ranges of floating-point numbers leave NaN out."""


def metadata_table(examined: Examined) -> Iterator[Finding]:
    """Every index can be used, and its files can be opened; no action in it is under way for too long."""
    table = examined.metadata_table
    if table is None:
        return
    config = examined.config
    for name in (*config.metadata_partitions, *config.metadata_partitions_inflight):
        path = f"{METADATA_FOLDER}/{name}"
        if name in config.metadata_partitions_inflight:
            yield Finding(severity=Severity.INFO, check=_TABLE, path=path, found="an index that is being built")
            continue
        try:
            yield from _files_of(table, name)
        except (HudiReadError, FileNotFoundError) as error:
            yield _unreadable(error, path)
        reason = table.why_incomplete(name)
        if reason is not None:
            yield Finding(
                severity=Severity.WARNING,
                check=_TABLE,
                path=path,
                found=reason,
                expected="an index with all commits of the table; readers do without it",
                remedy=_REBUILD,
            )
    if table.validity.rewritten and examined.state.timeline.pending(Action.ROLLBACK):
        is_refused = config.layout.metadata_has_all_rollbacks
        yield Finding(
            severity=Severity.WARNING,
            check=_TABLE,
            path=METADATA_FOLDER,
            found=f"records of {listed(sorted(table.validity.rewritten))}, compacted with others before a rollback",
            expected="records that the rollback can take back; "
            + ("Hudi refuses it, and with it every write" if is_refused else "writers that go by them lose rows")
            + ", readers do without",
            remedy=_REBUILD_BY_WRITES if is_refused else _REBUILD,
        )
    limit = examined.limits.service_hours
    for instant in table.own.timeline.instants:
        hours = hours_between(instant.requested_time[:MILLIS_LENGTH], examined.now)
        if not instant.is_completed and hours is not None and hours > limit:
            yield Finding(
                severity=Severity.WARNING,
                check=_TABLE,
                path=METADATA_FOLDER,
                found=f"a {instant.action} of {instant.requested_time} that has been {instant.state.name.lower()} for "
                f"{age_text(hours)}",
                expected=f"an end within {age_text(limit)}",
                remedy="the next write to the table finishes it or rolls it back",
            )


def _files_of(table: MetadataTable, name: str) -> Iterator[Finding]:
    """Findings about the files of an index, by their ends and block headers."""
    for group in (group_of_shard for groups in table.file_groups(name).values() for group_of_shard in groups):
        if group.base is not None:
            try:
                group.base.open()
            except CorruptTableError as error:
                yield _unreadable(error, f"{METADATA_FOLDER}/{group.base.path}")
        for log in group.file_slice.log_files:
            path = f"{METADATA_FOLDER}/{log.path}"
            try:
                scan = scan_heads(table.own.storage, log.path, log.size_bytes)
                if not scan.corrupt:
                    group.require_committed(log.path, scan)
            except HudiReadError as error:
                yield _unreadable(error, path)
                continue
            for corrupt in scan.corrupt:
                yield Finding(
                    severity=Severity.ERROR,
                    check=_TABLE,
                    path=path,
                    offset=corrupt.offset,
                    found=f"a damaged block: {corrupt.reason}",
                    expected="whole blocks",
                    remedy=_REBUILD,
                )


def metadata_files(examined: Examined) -> Iterator[Finding]:
    """The list of files in the metadata table agrees with storage, as far as readers need it."""
    table = examined.metadata_table
    if table is None or FILES not in examined.config.metadata_partitions or table.why_not(FILES) is not None:
        return
    named = {str(name) for name in table.of_keys(FILES, [ALL_PARTITIONS]).column("name").to_pylist()}
    indexed = {"" if name == _NO_PARTITION else name for name in named}
    by_path = {file.path: file for file in examined.files}
    needed = set(_needed(examined))
    unknown = sorted({by_path[path].partition_path for path in needed} - indexed)
    if unknown:
        yield _wrong(METADATA_FOLDER, f"no partition {listed(unknown)}", "all partitions that have files")
    records = table.of_keys(FILES, [path or _NO_PARTITION for path in sorted(indexed)])
    nested = set(nested_names(records.column("name")))
    if nested:
        yield Finding(
            severity=Severity.WARNING,
            check=_FILES,
            path=f"{METADATA_FOLDER}/{FILES}",
            found=f"files named {listed(sorted(nested))}",
            expected="names without slashes; readers of Hudi miss these files, others list the table's folders",
            remedy=_REBUILD,
        )
    sizes: dict[str, int] = {}
    for key, name, size in zip(
        *(records.column(column).to_pylist() for column in ("key", "name", "size_bytes")), strict=True
    ):
        if name in nested:
            continue
        sizes[stored_path(name if key == _NO_PARTITION else f"{key}/{name}")] = size
    for path in sorted(needed - sizes.keys()):
        if by_path[path].partition_path in indexed:
            yield _wrong(
                path, "a file that the metadata table does not have", "an entry; its rows are missing in reads"
            )
    for path, size in sorted(sizes.items()):
        yield from _of_indexed(examined, path, size, by_path.get(path))


def _of_indexed(examined: Examined, path: str, size: int, file: DataFile | None) -> Iterator[Finding]:
    """What is wrong with a file that the metadata table lists with ``size``; ``file`` is None if storage lacks it.

    Nothing is said of files of a write that failed after it was written to the metadata table, and has not been rolled
    back completely.
    """
    log = parse_log_file_name(path.rpartition("/")[2])
    if file is None and log is not None and log.is_cdc:
        yield from _of_lost_changes(examined, path, log.instant_time)
    elif not _is_of_a_commit(examined, path):
        return
    elif file is None:
        yield from _of_lost(examined, path)
    elif size > max(file.size_bytes, NOTED_BYTES) or (file.base is not None and size != file.size_bytes):
        yield _wrong(path, f"{file.size_bytes} bytes", f"{size}, as the metadata table says")


def _of_lost(examined: Examined, path: str) -> Iterator[Finding]:
    """The finding for a lost file, none if a clean that is under way deletes it: the metadata table has that later."""
    if CommittedFiles.needs_any([path], examined.files_of, examined.view):
        yield _wrong(path, _LOST, "a file; reads of the table fail")
    elif path not in examined.files_being_cleaned:
        yield Finding(
            severity=Severity.WARNING,
            check=_FILES,
            path=path,
            found=_LOST,
            expected="a file; reads as of earlier instants that need it fail, those of the newest do not",
            remedy="restore it from a backup; until then, read as of later instants",
        )


def _of_lost_changes(examined: Examined, path: str, instant: str) -> Iterator[Finding]:
    """The finding for change data that are gone, which ``instant`` wrote.

    Queries of changes alone read them, and go by what commits name: those of a write that was rolled back are read by
    nothing, and those of a compaction by Flink (``HoodieCDCExtractor``).
    """
    commit = examined.commits.get(instant)
    if commit is not None and path in examined.written[instant]:
        severity, writer, readers = Severity.ERROR, f"commit {instant}", "queries of its changes"
        if commit.is_compaction:
            severity, writer, readers = Severity.WARNING, f"compaction {instant}", "Flink's queries of its changes"
    elif not examined.timeline.contains(instant) and instant in examined.archived_commits:
        severity, writer, readers = Severity.WARNING, f"archived commit {instant}", "queries of its changes"
    else:
        return
    yield Finding(
        severity=severity,
        check=_FILES,
        path=path,
        found=_LOST,
        expected=f"a file of the {writer}; without, {readers} may fail, and no other reads do",
        remedy="restore it from a backup; until then, let queries of changes begin after that commit",
    )


def _is_of_a_commit(examined: Examined, path: str) -> bool:
    """Whether readers take a file for committed.

    Up to version 7, names of log files do not show it, except those of change data, which are named after their write.
    """
    name = path.rpartition("/")[2]
    base = parse_base_file_name(name)
    if base is not None:
        return examined.timeline.is_committed(base.instant_time)
    log = parse_log_file_name(name)
    names_its_write = log is not None and (log.is_cdc or examined.logs_name_their_own_instant)
    return log is None or not names_its_write or examined.timeline.is_committed(log.instant_time)


def _needed(examined: Examined) -> Iterator[str]:
    """The files of the newest slices, without log files that have no block of a completed write."""
    for file_slice in examined.slices:
        if file_slice.base_file is not None:
            yield file_slice.base_file.path
        for log in file_slice.log_files:
            scan = examined.log_heads.get(log.path)
            blocks = () if scan is None or isinstance(scan, HudiReadError) else scan.blocks
            times = [block.instant_time for block in blocks if block.holds_records]
            if any(time is not None and examined.timeline.is_committed(time) for time in times):
                yield log.path


def _wrong(path: str, actual: str, expected: str) -> Finding:
    remedy = f"CALL validate_metadata_table_files(table => …) shows all; {_REBUILD}"
    return Finding(severity=Severity.ERROR, check=_FILES, path=path, found=actual, expected=expected, remedy=remedy)


def metadata_records(examined: Examined) -> Iterator[Finding]:
    """All records of all indexes can be decoded."""
    table = examined.metadata_table
    if table is None:
        return
    for name in examined.config.metadata_partitions:
        try:
            for _ in table.all(name):
                examined.progress(f"records of {name}", 0, 0)
        except (HudiReadError, FileNotFoundError) as error:
            yield _unreadable(error, f"{METADATA_FOLDER}/{name}", _RECORDS)


def _unreadable(error: Exception, path: str, check: str = _TABLE) -> Finding:
    own = getattr(error, "path", None)
    return of_error(
        error,
        severity=Severity.ERROR,
        check=check,
        path=f"{METADATA_FOLDER}/{own}" if own and not own.startswith(METADATA_FOLDER) and "://" not in own else path,
        remedy=_REBUILD,
    )


def bloom_filters(examined: Examined) -> Iterator[Finding]:
    """The Bloom filter of a base file in the index equals the one in its footer; otherwise, lookups may miss rows."""
    table = examined.metadata_table
    if table is None or BLOOM_FILTERS not in examined.config.metadata_partitions or table.why_not(BLOOM_FILTERS):
        return
    footers = {path: footer for path, footer in examined.footers.items() if isinstance(footer, Footer)}
    names = [path.rpartition("/")[::2] for path in footers]
    for (path, footer), stored in zip(footers.items(), stored_filters(table, names), strict=True):
        own = filter_in_footer(footer.entries)
        if own is not None and stored != own:
            yield Finding(
                severity=Severity.ERROR,
                check=_BLOOM,
                path=path,
                found=f"no filter of the file in {BLOOM_FILTERS}" if stored is None else f"another in {BLOOM_FILTERS}",
                expected="the Bloom filter in the footer of the file",
                remedy=f"DROP INDEX {BLOOM_FILTERS} and create it again; until then, look-ups may miss rows",
            )


def secondary_indexes(examined: Examined) -> Iterator[Finding]:
    """Each row is in the secondary indexes by its values; otherwise, filters leave it out.

    Rows without a value are not checked: older releases do not add them, and no filter asks for them.
    """
    table, config = examined.metadata_table, examined.config
    names = [name for name in config.metadata_partitions if name.startswith(SECONDARY_INDEX)]
    if table is None or not names or not config.populates_meta_fields:
        return
    for name in names:
        definition = table.definitions.get(name)
        schema = examined.planner.schema(QueryType.SNAPSHOT)
        if table.why_not(name) is not None or definition is None or len(definition.source_fields) != 1:
            continue
        column = definition.source_fields[0]
        if column in schema.names and schema.field(column).type in _AS_TEXT:
            yield from _of_column(examined, table, name, column)


def _of_column(examined: Examined, table: MetadataTable, name: str, column: str) -> Iterator[Finding]:
    index_keys: Any = pa.concat_tables([part.select([KEY]) for part in table.all(name)]).column(KEY)
    missing: list[str] = []
    for all_values, all_keys in _rows(examined, column):
        values, keys = (array.filter(all_values.is_valid()) for array in (all_values, all_keys))
        expected = stored_keys(values.cast(pa.string()), keys)
        lacking = pc.invert(pc.is_in(expected, value_set=index_keys.combine_chunks()))
        missing += [str(key) for key in keys.filter(lacking).to_pylist()]
    if missing:
        yield Finding(
            severity=Severity.ERROR,
            check=_SECONDARY,
            path=f"{METADATA_FOLDER}/{name}",
            found=f"{len(missing)} record keys that the index lacks for their values of {quoted(column)}: "
            f"{listed(sorted(missing))}",
            expected="the record keys of each value; filters of readers that use the index leave these rows out",
            remedy=f"DROP INDEX {name.removeprefix(SECONDARY_INDEX)} and create it again",
        )


def _rows(examined: Examined, column: str) -> Iterator[tuple[Column, Column]]:
    """Yields the values of a column and the record keys of all rows; other checks report slices that cannot be read."""
    context = examined.planner.context(QueryType.SNAPSHOT)
    for file_slice in examined.each_slice("values of indexes"):
        try:
            split = examined.planner.split(file_slice, context)
            for batch in open_reader_in(examined.storage, split, [column, RECORD_KEY_COLUMN]).batches():
                yield batch.column(column), batch.column(RECORD_KEY_COLUMN)
        except UnsupportedTableError:
            raise
        except (HudiReadError, FileNotFoundError):
            continue


def column_stats(examined: Examined) -> Iterator[Finding]:
    """The range of a column in the index includes all values of the file; otherwise, filters leave out rows."""
    table = _index(examined, COLUMN_STATS)
    if table is not None:
        ranges = _ranges_of_files(examined, table, COLUMN_STATS)
        for path, column, indexed, stored in _too_narrow(examined, ranges):
            yield _finding(_CHECK, COLUMN_STATS, path, f"values of {quoted(column)}", indexed, stored)
        yield from _of_too_few_values(examined, ranges, _CHECK, COLUMN_STATS)


def partition_stats(examined: Examined) -> Iterator[Finding]:
    """The range of a column in a partition includes all values of its base files; otherwise, filters leave out rows."""
    table = _index(examined, PARTITION_STATS)
    if table is None:
        return
    partition_ranges: dict[str, dict[str, Range]] = {}
    for part in table.all(PARTITION_STATS):
        _add_ranges(partition_ranges, part)
    bases = [
        (file_slice.base_file.path, file_slice.partition_path) for file_slice in examined.slices if file_slice.base_file
    ]
    ranges = {path: partition_ranges.get(partition, {}) for path, partition in bases}
    for path, column, indexed, stored in _too_narrow(examined, ranges):
        yield _finding(
            _OF_PARTITIONS, PARTITION_STATS, path, f"values of {quoted(column)} in its partition", indexed, stored
        )
    yield from _of_too_few_values(examined, ranges, _OF_PARTITIONS, PARTITION_STATS)


def expression_stats(examined: Examined) -> Iterator[Finding]:
    """The range of a function in an index includes its results for the minimum and maximum of the
    column in the file.
    """
    for name in examined.config.metadata_partitions:
        table = _index(examined, name) if name.startswith(EXPRESSION_INDEX) else None
        definition = None if table is None else table.definitions.get(name)
        function = None if definition is None else FUNCTIONS.get(definition.function)
        if table is None or definition is None or function is None or definition.kind != COLUMN_STATS:
            continue
        column = definition.source_fields[0]
        if column not in examined.planner.schema(QueryType.SNAPSHOT).names:
            continue
        if not function.takes(examined.planner.schema(QueryType.SNAPSHOT).field(column).type):
            continue
        for path, ranges in sorted(_ranges_of_files(examined, table, name).items()):
            ends = _ranges(examined, path).get(column)
            results = [] if ends is None else [function.of_value(end) for end in ends]
            indexed = ranges.get(column)
            if indexed is None or not results or None in results:
                continue
            stored = (min(results), max(results))
            if _leaves_out(indexed, stored):
                what = f"results of {definition.function}({quoted(column)})"
                yield _finding(_OF_EXPRESSIONS, name, path, what, indexed, stored)


def _index(examined: Examined, name: str) -> MetadataTable | None:
    """The metadata table if it has this index and it can be used."""
    table = examined.metadata_table
    usable = table is not None and name in examined.config.metadata_partitions and table.why_not(name) is None
    return table if usable else None


def _ranges_of_files(examined: Examined, table: MetadataTable, index: str) -> Mapping[str, Mapping[str, Range]]:
    """The ranges that an index has for the base files of the newest slices, by path and column."""
    bases = {
        file_slice.base_file.path.rpartition("/")[2]: file_slice.base_file
        for file_slice in examined.slices
        if file_slice.base_file
    }
    names = pa.array(sorted(bases), pa.string())
    indexed: dict[str, dict[str, Range]] = {}
    for part in table.all(index):
        _add_ranges(indexed, part.filter(pc.is_in(part.column("file_name"), names)))
    return {bases[name].path: ranges for name, ranges in indexed.items()}


def _add_ranges(ranges: dict[str, dict[str, Range]], rows: pa.Table) -> None:
    """Adds the known ranges of rows, by name and column; both ends are None if there are only nulls."""
    names = ("file_name", "column", "min_value", "max_value", "value_count", "null_count")
    columns = (rows.column(name).to_pylist() for name in names)
    for name, column, least, greatest, values, nulls in zip(*columns, strict=True):
        ends = _plain(least), _plain(greatest)
        if None not in ends or (values and values == nulls):
            ranges.setdefault(name, {})[column] = ends


def _too_narrow(
    examined: Examined, ranges: Mapping[str, Mapping[str, Range]]
) -> Iterator[tuple[str, str, Range, Range]]:
    """Yields the base files and columns whose footers have values outside of the given ranges, with both ranges."""
    for path, column_ranges in sorted(ranges.items()):
        examined.progress("ranges of columns", 0, 0)
        for column, stored in sorted(_ranges(examined, path).items()):
            indexed = column_ranges.get(column, (None, None))
            if _leaves_out(indexed, stored):
                yield path, column, indexed, stored


def _of_too_few_values(
    examined: Examined, ranges: Mapping[str, Mapping[str, Range]], check: str, index: str
) -> Iterator[Finding]:
    """Findings about columns without statistics for some of their values, which Hudi has counted as nulls."""
    for path, column_ranges in sorted(ranges.items()):
        footer = examined.footers.get(path)
        if footer is None or isinstance(footer, HudiReadError):
            continue
        for column in sorted(column_ranges.keys() & footer.without_ranges):
            least, greatest = column_ranges[column]
            indexed = "only nulls" if least is None else f"values from {quoted(least)} to {quoted(greatest)}"
            yield Finding(
                severity=Severity.WARNING,
                check=check,
                path=path,
                found=f"in {index} {indexed} of {quoted(column)}",
                expected="no range, as the footer of the file has no statistics for some of the values",
                remedy="filters on the column leave out rows in Hudi, unless hoodie.enable.data.skipping is false",
            )


def _finding(check: str, index: str, path: str, what: str, indexed: Range, stored: Range) -> Finding:
    return Finding(
        severity=Severity.ERROR,
        check=check,
        path=path,
        found=f"in {index} {what} from {quoted(indexed[0])} to {quoted(indexed[1])}",
        expected=f"at least {quoted(stored[0])} to {quoted(stored[1])}, as the footer of the file says",
        remedy=f"DROP INDEX {index} and create it again; until then, filters may leave out rows",
    )


def _plain(value: Mapping[str, Any] | None) -> Any:  # noqa: ANN401 - of any type
    """The member of a value that is not null, or None."""
    return next((member for member in (value or {}).values() if member is not None), None)


def _leaves_out(indexed: Range, stored: Range) -> bool:
    kinds = {type(end) for end in (*indexed, *stored)}
    if len(kinds) != 1 or kinds.pop() not in _COMPARED:
        return False
    return bool(indexed[0] > stored[0] or indexed[1] < stored[1])


def _ranges(examined: Examined, path: str) -> Mapping[str, Range]:
    """The ranges of columns in a footer; none if it cannot be read, which another check reports."""
    footer = examined.footers.get(path)
    return {} if footer is None or isinstance(footer, HudiReadError) else footer.ranges
