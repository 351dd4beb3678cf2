"""The errors that Hudi Bridge raises for a table or a query.

HudiReadError
├─ TableNotFoundError (also FileNotFoundError)
├─ QueryError (also ValueError)
│  └─ InstantNotReadableError
├─ UnsupportedTableError
├─ CorruptTableError
│  ├─ CorruptTimelineError
│  ├─ CorruptLogFileError
│  └─ CorruptBaseFileError
├─ DataFileGoneError (also FileNotFoundError)
├─ StorageError (also OSError)
├─ SchemaEvolutionError
└─ MergeError

Constructors take fields and ``__str__`` builds the message, so that pickled errors keep their fields.
"""

import errno
from typing import Self


class HudiReadError(Exception):
    """The base class of all errors of this package."""


class TableNotFoundError(HudiReadError, FileNotFoundError):
    """Raised when there is no Hudi table at a path."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.errno, self.filename = errno.ENOENT, path
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.path, self.reason)

    def __str__(self) -> str:
        return f"{self.path}: not a Hudi table: {self.reason}"


class QueryError(HudiReadError, ValueError):
    """Raised when an argument of a query is invalid for this table, such as an unknown column."""

    def __init__(self, argument: str, found: str, expected: str) -> None:
        super().__init__(argument, found, expected)
        self.argument = argument
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.argument}: found {self.found}, expected {self.expected}"


class InstantNotReadableError(QueryError):
    """Raised when files that an instant needs were removed, or have not been written yet.

    ``argument`` is the argument that the instant was given for, ``earliest`` the first instant that can be read.
    """

    def __init__(self, instant: str, reason: str, earliest: str | None, argument: str = "as_of") -> None:
        super().__init__(argument, instant, f"an instant from {earliest} on" if earliest else "a readable instant")
        self.args = (instant, reason, earliest, argument)
        self.instant = instant
        self.reason = reason
        self.earliest = earliest

    def __str__(self) -> str:
        hint = f"; the earliest instant still readable is {self.earliest}" if self.earliest else ""
        return f"{self.argument.replace('_', ' ')} {self.instant}: {self.reason}{hint}"


class UnsupportedTableError(HudiReadError):
    """Raised before the first row when a table uses an unsupported feature.

    What only a file tells of itself, such as its encryption, is raised before the first row of that file.
    """

    def __init__(self, feature: str, found: str, supported: str) -> None:
        super().__init__(feature, found, supported)
        self.feature = feature
        self.found = found
        self.supported = supported

    def __str__(self) -> str:
        return f"unsupported {self.feature}: found {self.found}, supported: {self.supported}"


class CorruptTableError(HudiReadError):
    """Raised when a file of the table is damaged; ``offset`` is in bytes, None if unknown."""

    def __init__(self, path: str, offset: int | None, found: str, expected: str) -> None:
        super().__init__(path, offset, found, expected)
        self.path = path
        self.offset = offset
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        location = self.path if self.offset is None else f"{self.path} at byte {self.offset}"
        return f"{location}: found {self.found}, expected {self.expected}"


class CorruptTimelineError(CorruptTableError):
    """Raised when the properties or a timeline file of a table cannot be read."""


class CorruptLogFileError(CorruptTableError):
    """Raised when a log file is damaged and Hudi would not skip the damage either."""


class CorruptBaseFileError(CorruptTableError):
    """Raised when a base file is not readable Parquet, or lacks a column that the table's properties name."""


class DataFileGoneError(HudiReadError, FileNotFoundError):
    """Raised when a file was removed after the query was planned, as by Hudi's cleaner, or was lost.

    ``newest_instant`` is the instant to read instead, None if unknown; if it is the ``query_instant``, the file was
    lost. ``query_instant`` is None for a timeline file, which is read during planning.
    """

    def __init__(self, path: str, query_instant: str | None, newest_instant: str | None) -> None:
        super().__init__(path, query_instant, newest_instant)
        self.errno, self.filename = errno.ENOENT, path
        self.path = path
        self.query_instant = query_instant
        self.newest_instant = newest_instant

    def __reduce__(self) -> tuple[type[Self], tuple[str, str | None, str | None]]:
        return type(self), (self.path, self.query_instant, self.newest_instant)

    def __str__(self) -> str:
        if self.query_instant is None:
            return (
                f"{self.path}: the file is gone; it was removed (archived, rolled back or cleaned) after the table was "
                "opened; open it again"
            )
        if self.query_instant == self.newest_instant:
            # No cleaner removes files of the newest commit.
            return (
                f"{self.path}: there is no such file, although it is one of the newest commit, {self.query_instant}: "
                "it was lost, or the metadata table names it wrongly; with the option hoodie.metadata.enable=false "
                "files are listed in storage, and doctor tells what is wrong"
            )
        instead = f"as of {self.newest_instant}" if self.newest_instant else "as it stands now"
        return (
            f"{self.path}: the file is gone; it was removed (cleaned) after the read as of {self.query_instant} was "
            f"planned; open the table again and read it {instead}"
        )


class StorageError(HudiReadError, OSError):
    """Raised when a file system refuses access, fails, times out or returns too few bytes.

    The table itself may be intact, and a retry may help. ``path`` is the full path of the file or folder, without
    secrets; ``operation`` is what failed; ``errno`` is set if the file system gave one.
    """

    def __init__(self, path: str, operation: str, reason: str, errno: int | None = None) -> None:
        super().__init__(path, operation, reason, errno)
        self.errno, self.filename = errno, path
        self.path = path
        self.operation = operation
        self.reason = reason

    def __reduce__(self) -> tuple[type[Self], tuple[str, str, str, int | None]]:
        return type(self), (self.path, self.operation, self.reason, self.errno)

    def __str__(self) -> str:
        return f"{self.path}: cannot {self.operation}: {self.reason}"


class SchemaEvolutionError(HudiReadError):
    """Raised when a column of the file ``path`` cannot be read as the type of the query."""

    def __init__(self, column: str, from_type: str, to_type: str, path: str) -> None:
        super().__init__(column, from_type, to_type, path)
        self.column = column
        self.from_type = from_type
        self.to_type = to_type
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: column {self.column}: {self.from_type} cannot be read as {self.to_type}"


class MergeError(HudiReadError):
    """Raised when two versions of a record cannot be merged."""

    def __init__(self, merge_mode: str, record_key: str, reason: str) -> None:
        super().__init__(merge_mode, record_key, reason)
        self.merge_mode = merge_mode
        self.record_key = record_key
        self.reason = reason

    def __str__(self) -> str:
        return f"record {self.record_key!r} under {self.merge_mode}: {self.reason}"
