"""Every error that Hudi Bridge raises for a table or a query.

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

Each class takes facts and builds its sentence in ``__str__``, so that errors survive pickling from an executor
to a driver with every field intact.
"""

import errno
from typing import Self


class HudiReadError(Exception):
    """Base of everything that reading a Hudi table can raise on purpose."""


class TableNotFoundError(HudiReadError, FileNotFoundError):
    """Raised when a path holds no Hudi table."""

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
    """Raised when the question cannot be answered for this table: an unknown column, an instant that cannot be read."""

    def __init__(self, argument: str, found: str, expected: str) -> None:
        super().__init__(argument, found, expected)
        self.argument = argument
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        return f"{self.argument}: found {self.found}, expected {self.expected}"


class InstantNotReadableError(QueryError):
    """Raised for an instant whose files are no longer, or not yet, all there; ``argument`` is what it was given for."""

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
    """Raised before the first row when a table uses something that cannot be read correctly."""

    def __init__(self, feature: str, found: str, supported: str) -> None:
        super().__init__(feature, found, supported)
        self.feature = feature
        self.found = found
        self.supported = supported

    def __str__(self) -> str:
        return f"unsupported {self.feature}: found {self.found}, supported: {self.supported}"


class CorruptTableError(HudiReadError):
    """Raised when a file of the table does not hold what the format says; ``offset`` is in bytes, or None."""

    def __init__(self, path: str, offset: int | None, found: str, expected: str) -> None:
        super().__init__(path, offset, found, expected)
        self.path = path
        self.offset = offset
        self.found = found
        self.expected = expected

    def __str__(self) -> str:
        place = self.path if self.offset is None else f"{self.path} at byte {self.offset}"
        return f"{place}: found {self.found}, expected {self.expected}"


class CorruptTimelineError(CorruptTableError):
    """Raised when the table's properties, or a file of its timeline, cannot be read."""


class CorruptLogFileError(CorruptTableError):
    """Raised when a log file is damaged in a way that Hudi does not skip."""


class CorruptBaseFileError(CorruptTableError):
    """Raised when a base file is not readable Parquet, or lacks what its table says it has."""


class DataFileGoneError(HudiReadError, FileNotFoundError):
    """Raised when a file of the plan no longer exists: the cleaner removed it after the plan was made.

    ``newest_instant`` is the instant to read instead, None if it cannot be told. ``query_instant`` is None for a file
    of the timeline, which is read before there is a plan.
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
        instead = f"as of {self.newest_instant}" if self.newest_instant else "as it stands now"
        return (
            f"{self.path}: the file is gone; it was removed (cleaned) after the read as of {self.query_instant} was "
            f"planned; open the table again and read it {instead}"
        )


class StorageError(HudiReadError, OSError):
    """Raised when a file system does not do its part: it refuses, fails, does not answer or hands over too little.

    It says nothing of the table, which may be whole: trying again may help. ``path`` is the whole path of the file or
    folder, without secrets, ``operation`` what was to be done with it, and ``errno`` the kind of failure where the file
    system tells it.
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
    """Raised when a column of a file cannot become the column of the query; ``path`` names the file."""

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
