"""Checks of the base files of the newest slices, by their footers."""

from collections.abc import Iterator

from hudi_bridge.doctor.examined import Examined, Footer
from hudi_bridge.doctor.findings import Finding, Severity, listed, of_error, quoted, remedy_of
from hudi_bridge.errors import HudiReadError, QueryError, UnsupportedTableError
from hudi_bridge.readers.footers import is_foreign
from hudi_bridge.schema.meta_columns import FILE_NAME_COLUMN, META_COLUMNS, PARTITION_PATH_COLUMN
from hudi_bridge.splits.file_names import stored_path
from hudi_bridge.splits.file_slice import BaseFile
from hudi_bridge.timeline.commit_metadata import WriteStat

_FOOTERS, _STATS, _COLUMNS = "base-footers", "base-file-sizes", "meta-columns"
_BACKUP = "restore the file from a backup; CALL show_invalid_parquet(path => …) lists all"
_ENCRYPTED = "the file is whole; with its keys as decryption_properties, HudiTable.open reads it"
_KEYS = "find the keys of the file; if these are the ones, " + _BACKUP
_MIN_KEY, _MAX_KEY = "hoodie_min_record_key", "hoodie_max_record_key"


def foreign_rows(path: str, column: str, text: str, own: str) -> Finding:
    """The finding that the rows of a file, or of a slice, say that they were written elsewhere."""
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
    """Sizes and numbers of rows are those of the commit that wrote the file."""
    stats = {
        stored_path(stat.path): (time, stat) for time, commit in examined.commits.items() for stat in commit.write_stats
    }
    for piece in examined.slices:
        base = piece.base_file
        if base is None or base.path not in stats:
            continue
        yield from _against(base, examined.footers.get(base.path), *stats[base.path])


def _against(base: BaseFile, footer: Footer | HudiReadError | None, time: str, stat: WriteStat) -> Iterator[Finding]:
    if stat.file_size_bytes and stat.file_size_bytes != base.size_bytes:
        yield _stat_finding(base, f"{base.size_bytes} bytes", f"{stat.file_size_bytes}, as the commit {time} says")
    # Commits of some writers count no rows.
    if isinstance(footer, Footer) and stat.num_writes and stat.num_writes != footer.rows:
        yield _stat_finding(base, f"{footer.rows} rows", f"{stat.num_writes}, as the commit {time} says")


def _stat_finding(base: BaseFile, found: str, expected: str) -> Finding:
    return Finding(
        severity=Severity.ERROR, check=_STATS, path=base.path, found=found, expected=expected, remedy=_BACKUP
    )


def meta_columns(examined: Examined) -> Iterator[Finding]:
    """Files have Hudi's meta columns if the table says so; no row is newer than its file, or of another file."""
    for piece in examined.slices:
        base = piece.base_file
        footer = None if base is None else examined.footers.get(base.path)
        if base is None or not isinstance(footer, Footer):
            continue
        missing = [name for name in META_COLUMNS if name not in footer.schema.names]
        if examined.config.populates_meta_fields and missing and not piece.is_external:
            yield Finding(
                severity=Severity.ERROR,
                check=_COLUMNS,
                path=base.path,
                found=f"a file without {listed(missing, 5)}",
                expected="the meta columns, as hoodie.populate.meta.fields is true",
                remedy="set hoodie.populate.meta.fields as the writer does",
            )
        for column, own in ((PARTITION_PATH_COLUMN, piece.partition_path), (FILE_NAME_COLUMN, piece.file_id)):
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
