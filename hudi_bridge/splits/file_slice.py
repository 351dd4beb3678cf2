"""Base files, log files, file slices and file groups."""

from dataclasses import dataclass

from hudi_bridge.splits.file_names import LogFileName


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFile:
    """A base file; ``path`` is relative to the table.

    Part of a ``FileSlice``.
    """

    path: str
    instant_time: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A log file; ``path`` is relative to the table.

    Part of a ``FileSlice``.
    """

    path: str
    name: LogFileName
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSlice:
    """One version of a file group: at most one base file, and the log files of later changes, oldest first.

    Without a base file, all records of the slice are in its logs.

    Made by ``HudiTable.file_slices``.
    """

    partition_path: str
    file_id: str
    base_instant_time: str
    base_file: BaseFile | None
    log_files: tuple[LogFile, ...]

    @property
    def is_external(self) -> bool:
        """Whether the base file is one of another writer's, which a commit registered."""
        base = self.base_file
        return base is not None and base.path == f"{self.partition_path}/{self.file_id}".removeprefix("/")

    @property
    def base_size_bytes(self) -> int:
        """The size of the base file, 0 without one."""
        return self.base_file.size_bytes if self.base_file else 0

    @property
    def log_size_bytes(self) -> int:
        """The total size of the log files."""
        return sum(log.size_bytes for log in self.log_files) if self.log_files else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """All slices of one file id, oldest first."""

    partition_path: str
    file_id: str
    slices: tuple[FileSlice, ...]
