"""Figures of a table: partitions, write amplification, sizes of files, overlap of ranges, key filters, properties.

Nothing but footers of base files is read, and only where a function says so.

Source: ``ShowTablePartitionsCommand``, ``StatsWriteAmplificationProcedure``, ``StatsFileSizeProcedure``,
``ShowColumnStatsOverlapProcedure``, ``ShowBootstrapMappingProcedure``, ``ShowTablePropertiesProcedure``.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_in_threads
from hudi_bridge.config import PROPERTIES_PATH, QueryType, parse_properties
from hudi_bridge.errors import CorruptBaseFileError, CorruptTableError, HudiReadError, QueryError, StorageError
from hudi_bridge.indexes.footer_index import parse_footer_index
from hudi_bridge.inspection.file_groups import FilesOfCommits
from hudi_bridge.inspection.rows import (
    Archive,
    ReadInstant,
    active_commits,
    arrow_schema,
    commits_of_archive,
    read_archive,
    rows_to_table,
)
from hudi_bridge.logformat.parquet import PARQUET_ERRORS, first_line
from hudi_bridge.readers.base_formats.footers import BaseFileFooter, value_range
from hudi_bridge.splits.file_slice import BaseFile, FileSlice
from hudi_bridge.splits.partitions import PartitionValues, partition_values
from hudi_bridge.splits.planner import BootstrapSources, SplitPlanner
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import COMMIT_ACTIONS, InstantLike

PARTITIONS_SCHEMA = arrow_schema(
    partition_path=pa.string(),
    values=pa.map_(pa.string(), pa.string()),
    file_slices=pa.int64(),
    base_files=pa.int64(),
    base_size_bytes=pa.int64(),
    base_rows=pa.int64(),
    log_files=pa.int64(),
    log_size_bytes=pa.int64(),
    log_share=pa.float64(),
    newest_commit=pa.string(),
    problem=pa.string(),
)
WRITE_AMPLIFICATION_SCHEMA = arrow_schema(
    requested_time=pa.string(),
    action=pa.string(),
    operation=pa.string(),
    rows_changed=pa.int64(),
    rows_written=pa.int64(),
    bytes_written=pa.int64(),
    write_amplification=pa.float64(),
    archived=pa.bool_(),
    problem=pa.string(),
)
FILE_SIZES_SCHEMA = arrow_schema(
    instant_time=pa.string(),
    kind=pa.string(),
    files=pa.int64(),
    total_bytes=pa.int64(),
    min_bytes=pa.int64(),
    p10_bytes=pa.int64(),
    p50_bytes=pa.int64(),
    mean_bytes=pa.float64(),
    p95_bytes=pa.int64(),
    max_bytes=pa.int64(),
    standard_deviation=pa.float64(),
)
OVERLAP_SCHEMA = arrow_schema(
    partition_path=pa.string(),
    column=pa.string(),
    files=pa.int64(),
    files_with_range=pa.int64(),
    mean_overlap=pa.float64(),
    p50_overlap=pa.int64(),
    p90_overlap=pa.int64(),
    max_overlap=pa.int64(),
    mean_depth=pa.float64(),
    max_depth=pa.int64(),
    problem=pa.string(),
)
KEY_FILTERS_SCHEMA = arrow_schema(
    partition_path=pa.string(),
    file_id=pa.string(),
    path=pa.string(),
    rows=pa.int64(),
    min_record_key=pa.string(),
    max_record_key=pa.string(),
    filter_rows=pa.int64(),
    filter_bytes=pa.int64(),
    hash_functions=pa.int64(),
    false_positive_rate=pa.float64(),
    problem=pa.string(),
)
BOOTSTRAP_SCHEMA = arrow_schema(
    partition_path=pa.string(),
    file_id=pa.string(),
    base_path=pa.string(),
    source_path=pa.string(),
    source_size_bytes=pa.int64(),
    problem=pa.string(),
)
PROPERTIES_SCHEMA = arrow_schema(name=pa.string(), value=pa.string(), default=pa.string(), source=pa.string())
_DEFAULTS = {
    "hoodie.allow.operation.metadata.field": "false",
    "hoodie.archivelog.folder": "archived",
    "hoodie.bootstrap.index.enable": "true",
    "hoodie.datasource.write.drop.partition.columns": "false",
    "hoodie.datasource.write.hive_style_partitioning": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "false",
    "hoodie.populate.meta.fields": "true",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.table.cdc.enabled": "false",
    "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER",
    "hoodie.table.format": "native",
    "hoodie.table.log.file.format": "HOODIE_LOG",
    "hoodie.table.multiple.base.file.formats.enable": "false",
    "hoodie.table.timeline.timezone": "LOCAL",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.timeline.history.path": "history",
    "hoodie.timeline.path": "timeline",
}
"""The defaults in ``HoodieTableConfig``; other properties have none, or one that depends on others."""


def inspect_partitions(table: HudiTable, as_of: InstantLike | None = None) -> pa.Table:
    """One row per partition with file slices, in ``PARTITIONS_SCHEMA``.

    ``values`` are those of the partition columns, as texts. ``base_rows`` are the rows of base files, null unless
    commits on the active timeline tell those of all files; logs may have updates of them, deletes and further rows.
    ``log_share`` is the share of log files in the bytes. ``newest_commit`` is the newest one that has written into the
    partition, by the active timeline or by the names of its files. Where values or a commit cannot be read, a row has
    the ``problem``.

    Raises:
        CorruptTableError: the columns of the table, a replace commit or a plan cannot be read.
        StorageError: a folder cannot be listed.
    """
    planner = table.planner(as_of)
    columns, config = planner.columns(QueryType.SNAPSHOT), table.config
    commits = FilesOfCommits(planner.state)
    by_path: dict[str, list[FileSlice]] = defaultdict(list)
    for part in planner.file_slices(QueryType.SNAPSHOT):
        by_path[part.partition_path].append(part)

    def row(partition: str, slices: Sequence[FileSlice]) -> Mapping[str, Any]:
        bases = [part.base_file for part in slices if part.base_file is not None]
        logs = [log for part in slices for log in part.log_files]
        base_size, log_size = sum(base.size_bytes for base in bases), sum(log.size_bytes for log in logs)
        paths = [*(base.path for base in bases), *(log.path for log in logs)]
        named = [commits.by_path[path] for path in paths if path in commits.by_path]
        times = [base.instant_time for base in bases] + [log.name.instant_time for log in logs]
        writes = [commits.by_path[base.path].stat.num_writes for base in bases if base.path in commits.by_path]
        values: PartitionValues = ()
        problem = commits.problem_of(times)
        try:
            values = partition_values(partition, config, columns.schema, columns.from_path) or ()
        except HudiReadError as error:
            problem = str(error)
        return {
            "partition_path": partition,
            "values": [(name, None if (value := scalar.as_py()) is None else str(value)) for name, scalar in values],
            "file_slices": len(slices),
            "base_files": len(bases),
            "base_size_bytes": base_size,
            "base_rows": sum(writes) if len(writes) == len(bases) else None,
            "log_files": len(logs),
            "log_size_bytes": log_size,
            "log_share": log_size / (base_size + log_size) if base_size + log_size else None,
            "newest_commit": max((*times, *(file.commit.requested_time for file in named))),
            "problem": problem,
        }

    return rows_to_table(PARTITIONS_SCHEMA, (row(path, by_path[path]) for path in sorted(by_path)))


def inspect_write_amplification(table: HudiTable, *, archived: bool = False) -> pa.Table:
    """One row per completed commit on the active timeline, in ``WRITE_AMPLIFICATION_SCHEMA``.

    ``rows_changed`` are inserts, updates and deletes, ``rows_written`` all rows in the files that were written, so also
    those that were copied; ``write_amplification`` is the second by the first, null if nothing was changed. With
    ``archived``, archived commits as well. A commit, or an archive, that cannot be read is a row with the ``problem``.

    Raises:
        StorageError: a file cannot be read.
    """
    state = table.planner().state
    archive = read_archive(state) if archived else Archive()
    older = [read for read in commits_of_archive(archive) if read.instant.action in COMMIT_ACTIONS]
    problem = [] if archive.problem is None else [{"archived": True, "problem": archive.problem}]

    def row(read: ReadInstant, *, is_archived: bool) -> Mapping[str, Any]:
        of_commit = {
            "requested_time": read.instant.requested_time,
            "action": str(read.instant.action),
            "archived": is_archived,
            "problem": read.problem,
        }
        if read.metadata is None:
            return of_commit
        stats = read.metadata.write_stats
        changed = sum(stat.num_inserts + stat.num_update_writes + stat.num_deletes for stat in stats)
        written = sum(stat.num_writes for stat in stats)
        return of_commit | {
            "operation": read.metadata.operation_type or None,
            "rows_changed": changed,
            "rows_written": written,
            "bytes_written": sum(stat.file_size_bytes - stat.log_offset for stat in stats),
            "write_amplification": written / changed if changed else None,
        }

    rows = [row(read, is_archived=True) for read in older]
    rows += [row(read, is_archived=False) for read in active_commits(state, state.timeline.commits())]
    return rows_to_table(WRITE_AMPLIFICATION_SCHEMA, (*problem, *rows))


def inspect_file_sizes(table: HudiTable, as_of: InstantLike | None = None) -> pa.Table:
    """The sizes of the files that a snapshot reads, by kind and instant, in ``FILE_SIZES_SCHEMA``.

    Rows without an instant are of all files of their kind.
    """
    sizes: dict[tuple[str | None, str], list[int]] = defaultdict(list)
    for part in table.file_slices(as_of):
        files = [("log", log.name.instant_time, log.size_bytes) for log in part.log_files]
        if part.base_file is not None:
            files.append(("base", part.base_file.instant_time, part.base_file.size_bytes))
        for kind, instant, size in files:
            sizes[instant, kind].append(size)
            sizes[None, kind].append(size)

    def row(instant: str | None, kind: str, of_files: Sequence[int]) -> Mapping[str, Any]:
        values = np.array(of_files, dtype=np.int64)
        p10, p50, p95 = (int(np.percentile(values, share, method="lower")) for share in (10, 50, 95))
        return {
            "instant_time": instant,
            "kind": kind,
            "files": len(values),
            "total_bytes": int(values.sum()),
            "min_bytes": int(values.min()),
            "p10_bytes": p10,
            "p50_bytes": p50,
            "mean_bytes": float(values.mean()),
            "p95_bytes": p95,
            "max_bytes": int(values.max()),
            "standard_deviation": float(values.std()),
        }

    ordered = sorted(sizes, key=lambda key: (key[0] is not None, key[0] or "", key[1]))
    return rows_to_table(FILE_SIZES_SCHEMA, (row(*key, sizes[key]) for key in ordered))


def inspect_overlap(
    table: HudiTable, columns: Sequence[str] | None = None, as_of: InstantLike | None = None
) -> pa.Table:
    """How well clustering works: how the ranges of columns in base files overlap, in ``OVERLAP_SCHEMA``.

    ``mean_overlap``, ``p50_overlap``, … are of the numbers of *other* base files of the partition with which the range
    of a file overlaps: 0 where each value is in one file, ``files - 1`` where each file must be read. ``mean_depth``
    and ``max_depth`` are of the numbers of files in whose range one value is, for the ends of all ranges. Statistics in
    the footers of base files are read, so one request for each file; updates in logs are not in them. A file of an
    older schema, in which the column has another name or another type, has no range. A file whose footer is damaged has
    none either, and the rows of its partition have the ``problem``.

    Args:
        table: the table.
        columns: the columns to compare, by default all top-level columns of the table that are not meta columns.
        as_of: as for ``HudiTable.snapshot``.

    Raises:
        QueryError: there is no such column.
        StorageError: a file cannot be read.
    """
    schema = table.planner(as_of).schema(QueryType.SNAPSHOT)
    for name in columns or ():
        if schema.get_field_index(name) < 0:
            raise QueryError("columns", repr(name), f"columns among {', '.join(schema.names)}")
    asked = tuple(columns) if columns is not None else tuple(n for n in schema.names if not n.startswith("_hoodie_"))
    by_path: dict[str, list[pq.FileMetaData | HudiReadError]] = defaultdict(list)
    for part, _, footer in _footers(table, as_of):
        by_path[part.partition_path].append(footer)

    def row(path: str, column: str, of_files: Sequence[pq.FileMetaData | HudiReadError]) -> Mapping[str, Any]:
        problems = [str(footer) for footer in of_files if isinstance(footer, HudiReadError)]
        footers = [footer for footer in of_files if not isinstance(footer, HudiReadError)]
        ranges = _of_one_type([_range(footer, column) for footer in footers])
        overlaps, depths = _overlaps(ranges), _depths(ranges)
        return {
            "partition_path": path,
            "column": column,
            "files": len(of_files),
            "files_with_range": len(ranges),
            "mean_overlap": float(np.mean(overlaps)) if overlaps else None,
            "p50_overlap": int(np.percentile(overlaps, 50, method="lower")) if overlaps else None,
            "p90_overlap": int(np.percentile(overlaps, 90, method="lower")) if overlaps else None,
            "max_overlap": max(overlaps) if overlaps else None,
            "mean_depth": float(np.mean(depths)) if depths else None,
            "max_depth": max(depths) if depths else None,
            "problem": problems[0] if problems else None,
        }

    return rows_to_table(
        OVERLAP_SCHEMA, (row(path, column, by_path[path]) for path in sorted(by_path) for column in asked)
    )


def inspect_key_filters(table: HudiTable, as_of: InstantLike | None = None) -> pa.Table:
    """One row per Parquet base file of a snapshot: the range and the Bloom filter of its record keys, in
    ``KEY_FILTERS_SCHEMA``.

    ``false_positive_rate`` is that of the filter as it is filled, ``filter_rows`` more than 1 in a dynamic filter that
    has grown. Footers are read, so one request for each file; a file whose footer is damaged has the ``problem``.

    Raises:
        StorageError: a file cannot be read.
    """

    def row(part: FileSlice, base: BaseFile, footer: pq.FileMetaData | HudiReadError) -> Mapping[str, Any]:
        facts = {"partition_path": part.partition_path, "file_id": part.file_id, "path": base.path}
        try:
            if isinstance(footer, HudiReadError):
                raise footer
            index = parse_footer_index(footer.metadata or {}, base.path)
        except HudiReadError as error:
            return facts | {"problem": str(error)}
        bloom = index.bloom_filter
        least, greatest = index.key_range or (None, None)
        return facts | {
            "rows": footer.num_rows,
            "min_record_key": least,
            "max_record_key": greatest,
            "filter_rows": None if bloom is None else len(bloom.rows),
            "filter_bytes": None if bloom is None else bloom.size_bytes,
            "hash_functions": None if bloom is None else bloom.rows[0].hashes,
            "false_positive_rate": None if bloom is None else bloom.false_positive_rate,
        }

    return rows_to_table(KEY_FILTERS_SCHEMA, (row(*of_slice) for of_slice in _footers(table, as_of)))


def inspect_bootstrap(table: HudiTable) -> pa.Table:
    """One row per base file without rows of its own: the file that the table was bootstrapped from, in
    ``BOOTSTRAP_SCHEMA``; none in other tables. A base file that the index does not have is a row with the ``problem``.

    Raises:
        CorruptTableError: the bootstrap index is damaged.
        UnsupportedTableError: the index is of another kind.
    """
    planner = table.planner()
    sources = BootstrapSources(planner.state, reads_rows=False)

    def rows() -> Iterator[Mapping[str, Any]]:
        for part in planner.file_slices(QueryType.SNAPSHOT):
            of_base = {
                "partition_path": part.partition_path,
                "file_id": part.file_id,
                "base_path": None if part.base_file is None else part.base_file.path,
            }
            try:
                source = sources.of(part)
            except CorruptTableError as error:
                yield of_base | {"problem": str(error)}
            else:
                if source is not None:
                    yield of_base | {"source_path": source.path, "source_size_bytes": source.size_bytes}

    return rows_to_table(BOOTSTRAP_SCHEMA, rows())


def inspect_properties(table: HudiTable) -> pa.Table:
    """One row per property of the table, in ``PROPERTIES_SCHEMA``: those in ``hoodie.properties``, and defaults.

    ``source`` is ``hoodie.properties`` or ``default``; the order is that of the names.

    Raises:
        CorruptTimelineError: the file is damaged.
    """
    stored = parse_properties(table.storage.read_bytes(PROPERTIES_PATH).decode("latin-1"))
    names = sorted(stored.keys() | _DEFAULTS.keys())
    return rows_to_table(
        PROPERTIES_SCHEMA,
        (
            {
                "name": name,
                "value": stored.get(name, _DEFAULTS.get(name)),
                "default": _DEFAULTS.get(name),
                "source": PROPERTIES_PATH.rpartition("/")[2] if name in stored else "default",
            }
            for name in names
        ),
    )


def _footers(
    table: HudiTable, as_of: InstantLike | None
) -> list[tuple[FileSlice, BaseFile, pq.FileMetaData | HudiReadError]]:
    """The slices with Parquet base files of a snapshot, and their footers, or the errors of damaged ones."""
    planner = table.planner(as_of)
    slices = [
        (part, part.base_file)
        for part in planner.file_slices(QueryType.SNAPSHOT)
        if part.base_file is not None and part.base_file.path.endswith(".parquet")
    ]
    footers = map_in_threads(partial(_footer, planner), slices, REQUESTS_AT_ONCE)
    return [(part, base, footer) for (part, base), footer in zip(slices, footers, strict=True)]


def _footer(planner: SplitPlanner, base_of_slice: tuple[FileSlice, BaseFile]) -> pq.FileMetaData | HudiReadError:
    part, base = base_of_slice
    try:
        # Nothing is merged, and no source of a bootstrap is read, so that neither payload nor option is needed.
        split = planner.split_without_files((part.partition_path, part.file_id), merges=False)
        split = replace(split, base_path=base.path, base_size_bytes=base.size_bytes)
        return BaseFileFooter(planner.state.storage, split, base.path).content
    except StorageError:
        raise
    except HudiReadError as error:
        return error
    except PARQUET_ERRORS as error:
        actual = f"no readable footer ({first_line(error)})"
        return CorruptBaseFileError(base.path, None, actual, "that of a Parquet file")


def _range(footer: pq.FileMetaData, column: str) -> tuple[Any, Any] | None:
    """The least and the greatest value of a top-level column in a file; None if a row group does not tell them."""
    ranges = [value_range(footer, number, column) for number in range(footer.num_row_groups)]
    present = [entry for entry in ranges if entry is not None]
    if not present or len(present) < len(ranges):
        return None
    return min(least for least, _ in present), max(greatest for _, greatest in present)


def _of_one_type(ranges: Sequence[tuple[Any, Any] | None]) -> list[tuple[Any, Any]]:
    """The ranges of the type that most of them have."""
    present = [entry for entry in ranges if entry is not None]
    types = Counter(type(least) for least, _ in present).most_common(1)
    return [(least, greatest) for least, greatest in present if type(least) is types[0][0]]


def _overlaps(ranges: Sequence[tuple[Any, Any]]) -> list[int]:
    """For each range, the number of other ranges that have a value in common with it."""
    starts, ends = sorted(least for least, _ in ranges), sorted(greatest for _, greatest in ranges)
    # All but those that end before it and those that begin after it, and itself.
    return [bisect_right(starts, greatest) - bisect_left(ends, least) - 1 for least, greatest in ranges]


def _depths(ranges: Sequence[tuple[Any, Any]]) -> list[int]:
    """For each value that is an end of a range, the number of ranges that have it."""
    starts, ends = sorted(least for least, _ in ranges), sorted(greatest for _, greatest in ranges)
    return [bisect_right(starts, value) - bisect_left(ends, value) for value in {*starts, *ends}]
