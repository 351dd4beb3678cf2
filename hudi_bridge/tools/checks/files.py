"""Checks of data files: by name, against the commits, and by the footers of the newest base files."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from hudi_bridge.common.display import size_text
from hudi_bridge.config import parse_properties
from hudi_bridge.errors import HudiReadError, QueryError, UnsupportedTableError
from hudi_bridge.readers.base_formats.footers import is_foreign
from hudi_bridge.schema.meta_columns import FILE_NAME_COLUMN, META_COLUMNS, PARTITION_PATH_COLUMN
from hudi_bridge.splits.file_slice import BaseFile, is_data_file, parse_base_file_name, parse_log_file_name, stored_path
from hudi_bridge.splits.partitions import PARTITION_METADATA
from hudi_bridge.splits.query_schema import scan_heads
from hudi_bridge.timeline.instant import Action
from hudi_bridge.timeline.instant_files import CommitMetadata, GroupId, WriteStat
from hudi_bridge.tools.checks.examined import DataFile, Examined, Footer, data_files
from hudi_bridge.tools.checks.findings import Finding, Severity, listed, of_error, quoted, remedy_of

_PARTITIONS, _FAILED, _UNNAMED, _MISSING, _TWICE, _OF_COMPACTION = (
    "partition-metadata",
    "files-of-failed-writes",
    "files-no-commit-names",
    "missing-files",
    "base-file-twice",
    "logs-of-compactions",
)
_REPAIR = "CALL repair_add_partition_meta(table => …, dry_run => false)"


def partition_metadata(examined: Examined) -> Iterator[Finding]:
    """Folders with data files are partitions, and their partition metadata can be read."""
    partitions = set(examined.partitions)
    external = {stored_path(info.path) for files in examined.external.values() for info in files}
    for path, entries in sorted(examined.folders.items()):
        if path in partitions:
            for info in entries:
                if info.name == PARTITION_METADATA:
                    yield from _metafile(examined, path, info.path)
            continue
        files = [file for file in data_files(path, entries) if file.path not in external]
        if files:
            yield Finding(
                severity=Severity.ERROR,
                check=_PARTITIONS,
                path=path or ".",
                found=f"{len(files)} data files ({listed(file.path for file in files)}) in a folder that is not one",
                expected=f"a file {PARTITION_METADATA} in it; without, no reader lists the folder",
                remedy=_REPAIR,
            )


def _metafile(examined: Examined, partition: str, path: str) -> Iterator[Finding]:
    try:
        properties = parse_properties(examined.storage.read_bytes(path).decode("latin-1"))
    except (FileNotFoundError, ValueError) as error:
        yield _metafile_finding(path, f"no properties ({error})")
        return
    depth = properties.get("partitionDepth", "").strip()
    expected = len(partition.split("/")) if partition else 0
    if "commitTime" not in properties:
        yield _metafile_finding(path, f"the properties {listed(sorted(properties)) or 'none'}")
    elif not depth.isdecimal() or (int(depth) != expected and bool(partition)):
        yield _metafile_finding(path, f"partitionDepth={quoted(depth)}, in a partition {expected} levels deep")


def _metafile_finding(path: str, actual: str) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        check=_PARTITIONS,
        path=path,
        found=actual,
        expected="commitTime and partitionDepth; Hudi finds the table's folder by the latter",
        # Without the file, no reader would list the partition.
        remedy="write these properties into it, as other partitions have them",
    )


def files_of_failed_writes(examined: Examined) -> Iterator[Finding]:
    """There are no data files of writes that have neither completed nor are under way."""
    pending = examined.timeline.pending_times()
    by_instant: dict[str, list[DataFile]] = defaultdict(list)
    for file in examined.files:
        is_own = file.base is not None or examined.logs_name_their_own_instant
        if is_own and not file.is_cdc and not examined.timeline.is_committed(file.instant_time):
            by_instant[file.instant_time].append(file)
    for instant, files in sorted(by_instant.items()):
        is_pending = instant in pending
        total = size_text(sum(file.size_bytes for file in files))
        yield Finding(
            severity=Severity.INFO if is_pending else Severity.WARNING,
            check=_FAILED,
            path=files[0].path,
            found=f"{len(files)} data files ({total}) of the instant {quoted(instant)}, "
            + ("which has not completed" if is_pending else "which the timeline does not know"),
            expected=None if is_pending else "files of completed writes",
            remedy=None
            if is_pending
            else "readers leave them out; unless a backup of the timeline knows the instant, "
            "delete them, when no writer is running",
        )


def files_no_commit_names(examined: Examined) -> Iterator[Finding]:
    """All files of a completed write are named by its commit. Others, of failed tasks, would be read as well."""
    rolled_back = {
        instant.requested_time for instant in examined.timeline.instants if instant.action is Action.ROLLBACK
    }
    # While a bucket index is resized, later writes add log files to the file groups that the clustering will create.
    named_by_any_commit: frozenset[str] = frozenset().union(*examined.written.values())
    files_of_empty_commits: dict[str, list[DataFile]] = defaultdict(list)
    for file in examined.files:
        if file.base is None and not examined.logs_name_their_own_instant:
            continue
        named = examined.written.get(file.instant_time)
        # A rollback writes its own log files, and so does a commit whose metadata cannot be read.
        if named is None or file.path in named_by_any_commit or file.is_cdc or file.instant_time in rolled_back:
            continue
        if file.base is None and _is_of_another_write(examined, file):
            continue
        if not named:
            files_of_empty_commits[file.instant_time].append(file)
            continue
        yield Finding(
            severity=Severity.ERROR,
            check=_UNNAMED,
            path=file.path,
            found=f"a file of the instant {file.instant_time}, which does not name it",
            expected=f"the {len(named)} files that the commit names",
            remedy="readers show its rows, and some may be there twice: compare them with those of the named files",
        )
    for time, files in sorted(files_of_empty_commits.items()):
        yield Finding(
            severity=Severity.ERROR,
            check=_UNNAMED,
            path=files[0].path,
            found=f"{len(files)} files of the instant {time}, which names no file at all",
            expected="the files that the commit has written",
            remedy="readers show their rows, as Hudi does, and incremental queries do not: restore the commit's file "
            "from a backup",
        )


def _is_of_another_write(examined: Examined, log: DataFile) -> bool:
    """Whether the blocks of a log file are none of the instant in its name.

    Before an upgrade, log files were named after the first file of their slice, also those of writes that were rolled
    back.
    """
    try:
        blocks = scan_heads(examined.storage, log.path, log.size_bytes).blocks
    except HudiReadError:
        return False
    return bool(blocks) and all(block.instant_time != log.instant_time for block in blocks)


def logs_of_compactions(examined: Examined) -> Iterator[Finding]:
    """No log file is named after a pending compaction, as in tables before an upgrade."""
    if not examined.logs_name_their_own_instant:
        return
    pending = examined.view.pending_compactions
    for file in examined.files:
        is_of_pending = pending.get((file.partition_path, file.file_id)) == file.instant_time
        # The compaction may have failed after it wrote changes of its own.
        if file.log is not None and is_of_pending and not file.is_cdc:
            yield Finding(
                severity=Severity.ERROR,
                check=_OF_COMPACTION,
                path=file.path,
                found=f"a log file named after the pending compaction {file.instant_time}",
                expected="one named after the write, as from table version 8 on",
                remedy="Hudi passes it over: go back to table version 6, run the compaction there, and upgrade again",
            )


def base_file_twice(examined: Examined) -> Iterator[Finding]:
    """No file group has two base files of one instant."""
    files_by_slice: dict[tuple[GroupId, str], list[DataFile]] = defaultdict(list)
    for file in examined.files:
        if file.base is not None:
            files_by_slice[(file.partition_path, file.file_id), file.instant_time].append(file)
    for (_, instant), files in sorted(files_by_slice.items()):
        if len(files) > 1:
            yield Finding(
                severity=Severity.ERROR,
                check=_TWICE,
                path=files[-1].path,
                found=f"{len(files)} base files of the instant {instant}: {listed(file.path for file in files)}",
                expected="one; which of them a reader takes depends on their names",
                remedy=_remedy_of_twins(examined, instant, [file.path for file in files]),
            )


def _remedy_of_twins(examined: Examined, instant: str, paths: list[str]) -> str:
    """The remedy for several base files of a slice; only files that no reader shows may be deleted."""
    named = examined.written.get(instant, frozenset()).intersection(paths)
    shown = examined.shown_base_files.intersection(paths)
    if len(named) == 1 and named == shown:
        others = [path for path in paths if path not in named]
        return f"keep the file that the commit names, and delete the others: {listed(others, len(others))}"
    return f"readers show {listed(sorted(shown)) or 'none'}: compare the rows with those of the others"


def missing_files(examined: Examined) -> Iterator[Finding]:
    """The files of the newest slices that commits name exist."""
    existing = {file.path for file in examined.files}
    for group, stats in sorted(_newest_stats(examined).items()):
        for time, stat in stats:
            if not is_data_file(stat.path) or stored_path(stat.path) in existing:
                continue
            clean = examined.cleaned_files.get(stored_path(stat.path))
            yield Finding(
                severity=Severity.ERROR,
                check=_MISSING,
                path=stored_path(stat.path),
                found="no such file" if clean is None else f"no such file, which the clean {clean} has deleted",
                expected=f"a file of the newest slice of {quoted(group[1])}, which the commit {time} names",
                remedy="restore it from a backup; reads lack its rows",
            )


def _newest_stats(examined: Examined) -> Mapping[GroupId, list[tuple[str, WriteStat]]]:
    """For each file group, the files that commits on the active timeline wrote to its newest slice."""
    view = examined.view
    newest: dict[GroupId, list[tuple[str, WriteStat]]] = defaultdict(list)
    bases: dict[GroupId, str] = {}
    for time, commit in examined.commits.items():
        for stat in commit.write_stats:
            if parse_base_file_name(stat.path.rpartition("/")[2]) is not None:
                group = (stat.partition_path, stat.file_id)
                bases[group] = max(bases.get(group, ""), time)
    for time, commit in examined.commits.items():
        for stat in commit.write_stats:
            group = (stat.partition_path, stat.file_id)
            if group not in view.replaced and _is_of_newest(examined, time, commit, stat, bases.get(group, "")):
                newest[group].append((time, stat))
    return newest


def _is_of_newest(examined: Examined, time: str, commit: CommitMetadata, stat: WriteStat, base: str) -> bool:
    """Whether a file is in the newest slice of its group; ``base`` is the newest base instant in the commits, or ""."""
    log = parse_log_file_name(stat.path.rpartition("/")[2])
    if log is None:
        return time == base
    newest: str = max((base, *examined.base_instants.get((stat.partition_path, stat.file_id), ())))
    if log.is_cdc or commit.operation_type == "LOG_COMPACT":
        return False
    if not examined.logs_name_their_own_instant:
        return log.instant_time >= newest
    return (examined.timeline.completion_time_of(time) or time) > newest


_FOOTERS, _STATS, _COLUMNS = "base-footers", "base-file-sizes", "meta-columns"
_BACKUP = "restore the file from a backup; CALL show_invalid_parquet(path => …) lists all"
_ENCRYPTED = "the file is whole; with its keys as decryption_properties, HudiTable.open reads it"
_KEYS = "find the keys of the file; if these are the ones, " + _BACKUP
_MIN_KEY, _MAX_KEY = "hoodie_min_record_key", "hoodie_max_record_key"


def foreign_rows(path: str, column: str, text: str, own: str) -> Finding:
    """The finding that rows of a file or slice were written elsewhere, by their meta columns."""
    return Finding(
        severity=Severity.WARNING,
        check=_COLUMNS,
        path=path,
        found=f"rows with {column} {quoted(text)}",
        expected=f"rows of {quoted(own)}, where they are",
        remedy="find out if the file was put in the place of another one; readers return its rows all the same",
    )


def base_footers(examined: Examined) -> Iterator[Finding]:
    """The footer of every base file can be read, and its parts agree."""
    for path, footer in examined.footers.items():
        if isinstance(footer, UnsupportedTableError):
            yield of_error(footer, severity=Severity.WARNING, check=_FOOTERS, path=path, remedy=_ENCRYPTED)
        elif isinstance(footer, QueryError):
            yield of_error(footer, severity=Severity.WARNING, check=_FOOTERS, path=path, remedy=_KEYS)
        elif isinstance(footer, HudiReadError):
            yield of_error(
                footer,
                severity=Severity.ERROR,
                check=_FOOTERS,
                path=path,
                remedy=remedy_of(footer, _BACKUP),
            )
        elif _MIN_KEY in footer.entries and footer.entries[_MIN_KEY] > footer.entries.get(_MAX_KEY, ""):
            yield Finding(
                severity=Severity.ERROR,
                check=_FOOTERS,
                path=path,
                found=f"keys from {quoted(footer.entries[_MIN_KEY])} to {quoted(footer.entries.get(_MAX_KEY, ''))}",
                expected="a range of record keys; Hudi's look-ups skip the file",
                remedy="write the file group again: CALL run_clustering(table => …)",
            )


def base_file_sizes(examined: Examined) -> Iterator[Finding]:
    """Sizes and numbers of rows agree with the commit that wrote the file."""
    stats = {
        stored_path(stat.path): (time, stat) for time, commit in examined.commits.items() for stat in commit.write_stats
    }
    for file_slice in examined.slices:
        base = file_slice.base_file
        if base is None or base.path not in stats:
            continue
        yield from _against(base, examined.footers.get(base.path), *stats[base.path])


def _against(base: BaseFile, footer: Footer | HudiReadError | None, time: str, stat: WriteStat) -> Iterator[Finding]:
    if stat.file_size_bytes and stat.file_size_bytes != base.size_bytes:
        yield _stat_finding(base, f"{base.size_bytes} bytes", f"{stat.file_size_bytes}, as the commit {time} says")
    # Commits of some writers count no rows.
    if isinstance(footer, Footer) and stat.num_writes and stat.num_writes != footer.rows:
        yield _stat_finding(base, f"{footer.rows} rows", f"{stat.num_writes}, as the commit {time} says")


def _stat_finding(base: BaseFile, actual: str, expected: str) -> Finding:
    return Finding(
        severity=Severity.ERROR, check=_STATS, path=base.path, found=actual, expected=expected, remedy=_BACKUP
    )


def meta_columns(examined: Examined) -> Iterator[Finding]:
    """Files have Hudi's meta columns if the table has them; no row is newer than its file, or from another file."""
    for file_slice in examined.slices:
        base = file_slice.base_file
        footer = None if base is None else examined.footers.get(base.path)
        if base is None or not isinstance(footer, Footer):
            continue
        missing = [name for name in META_COLUMNS if name not in footer.schema.names]
        if examined.config.populates_meta_fields and missing and not file_slice.is_external:
            yield Finding(
                severity=Severity.ERROR,
                check=_COLUMNS,
                path=base.path,
                found=f"a file without {listed(missing, 5)}",
                expected="the meta columns, as hoodie.populate.meta.fields is true",
                remedy="set hoodie.populate.meta.fields as the writer does",
            )
        for column, own in ((PARTITION_PATH_COLUMN, file_slice.partition_path), (FILE_NAME_COLUMN, file_slice.file_id)):
            text = footer.origin.get(column)
            if examined.config.populates_meta_fields and text is not None and is_foreign(column, text, own):
                yield foreign_rows(base.path, column, text, own)
        newest = footer.newest_commit
        if newest is not None and newest > base.instant_time and len(newest) == len(base.instant_time):
            yield Finding(
                severity=Severity.ERROR,
                check=_COLUMNS,
                path=base.path,
                found=f"a row of the commit {quoted(newest)}",
                expected=f"rows up to {base.instant_time}, when the file was written",
                remedy="incremental reads go by these times; write the file group again, with CALL run_clustering",
            )
