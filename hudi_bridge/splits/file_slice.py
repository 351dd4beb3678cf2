"""Base files, log files, file slices and file groups, and the names of files.

    base file        ``{fileId}_{writeToken}_{instant}.{extension}``
    log file         ``.{fileId}_{instant}.log.{version}[_{writeToken}[.cdc]]``
    native log file  ``{fileId}_{writeToken}_{instant}_{version}.{log|deletes|cdc}.{format}``
    external file    ``{name}_{instant}_hudiext`` or ``{name}_{instant}_fg%3D{folders}_hudiext``

The instant of a log file is the base instant of its slice up to table version 7, and the requested instant of its delta
commit from version 8 on. An external file was made by another writer and registered by a commit. Only commits and the
metadata table use the name above (the second one for files in folders of the partition). In storage it is ``{name}``,
and its file id is its path in the partition.

Source: ``FSUtils``, ``HoodieLogFile`` and ``ExternalFilePathUtil``.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from hudi_bridge.errors import CorruptTableError
from hudi_bridge.logformat.native import LogKind, parse_native_log_name

_BASE_FILE = re.compile(r"(?P<file_id>[^._/][^_/]*)_(?P<token>[A-Za-z0-9-]+)_(?P<instant>\d+)\.(?P<extension>[a-z]+)")
ASCII_BASE_FILE = r"^(?P<file_id>[^._/][^_/]*)_(?P<token>[A-Za-z0-9-]+)_(?P<instant>[0-9]+)\.(?P<extension>[a-z]+)$"
"""For Arrow; it matches no name that ``parse_base_file_name`` does not."""
_LOG_FILE = re.compile(
    r"\.(?P<file_id>[^._]+)_(?P<instant>[^.]*)\.(?P<kind>log|archive)\.(?P<version>\d+)"
    r"(_(?P<token>(?P<partition>\d+)-(?P<stage>\d+)-(?P<attempt>\d+))(?P<cdc>\.cdc)?)?"
)
_EXTERNAL = "_hudiext"
EXTERNAL_PATTERN = f"{_EXTERNAL}$"
"""For Arrow: what the names of external files match."""
_EXTERNAL_FILE = re.compile(r"(?P<stored>[^/]+?)_(?P<instant>[0-9]+)(_fg%3[Dd](?P<folders>[^/]+))?" + _EXTERNAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFileName:
    """The parts of a base file's name; an external file has no write token."""

    file_id: str
    write_token: str
    instant_time: str
    extension: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileName:
    """The parts of a log file's name; ``file_format`` is the extension of a native log file, "" of one of blocks.

    ``has_only_deletes`` is whether the name says so.

    Part of a ``LogFile``.
    """

    file_id: str
    instant_time: str
    version: int
    write_token: tuple[int, int, int] | None
    is_cdc: bool
    has_only_deletes: bool = False
    file_format: str = ""

    @property
    def sort_key(self) -> tuple[str, int, str, bool, bool]:
        """The order in which the log files of a slice are merged (``HoodieLogFile.LogFileComparator``).

        Hudi compares write tokens as texts: ``10-0-0`` comes before ``9-0-0``. That decides where several writes have
        files of one instant and version, as in the file groups of a resize of buckets.
        """
        token = "-".join(map(str, self.write_token or ()))
        return (self.instant_time, self.version, token, self.is_cdc, self.has_only_deletes)


def file_id_of(name: str) -> str:
    """The file id in the name of a base file or log file; meaningless for other names."""
    if is_external(name):
        return _external_name(name).file_id
    return name.removeprefix(".").partition("_")[0]


def parse_base_file_name(name: str) -> BaseFileName | None:
    """The parts of a base file's name, None for a name of another kind; raises like ``stored_path``."""
    if is_external(name):
        return _external_name(name)
    match = _BASE_FILE.fullmatch(name)
    if match is None:
        return None
    return BaseFileName(
        file_id=match["file_id"],
        write_token=match["token"],
        instant_time=match["instant"],
        extension=match["extension"],
    )


def parse_log_file_name(name: str) -> LogFileName | None:
    """The parts of a log file's name, None for a name of another kind."""
    match = _LOG_FILE.fullmatch(name)
    if match is None:
        return _native_log_name(name)
    token = None
    if match["token"]:
        token = (int(match["partition"]), int(match["stage"]), int(match["attempt"]))
    return LogFileName(
        file_id=match["file_id"],
        instant_time=match["instant"],
        version=int(match["version"]),
        write_token=token,
        is_cdc=match["cdc"] is not None,
    )


def _native_log_name(name: str) -> LogFileName | None:
    native = parse_native_log_name(name)
    if native is None:
        return None
    return LogFileName(
        file_id=native.file_id,
        instant_time=native.instant_time,
        version=native.version,
        write_token=native.write_token,
        is_cdc=native.kind is LogKind.CHANGES,
        has_only_deletes=native.kind is LogKind.DELETES,
        file_format=native.file_format,
    )


def is_external(path: str) -> bool:
    """Whether a path in a commit or in the metadata table names an external file."""
    return path.endswith(_EXTERNAL)


def stored_path(path: str) -> str:
    """The path in storage of a file with this path in commits and in the metadata table.

    Raises:
        CorruptTableError: an external file has no instant, or is not in the folders in its name.
    """
    if not is_external(path):
        return path
    folder, _, name = path.rpartition("/")
    match = _external_match(name)
    folders = unquote(match["folders"] or "")
    if folders and not f"/{folder}".endswith(f"/{folders}"):
        raise CorruptTableError(path, None, f"an external file in the folder {folder!r}", f"one in {folders!r}")
    return f"{folder}/{match['stored']}".removeprefix("/")


def _external_name(name: str) -> BaseFileName:
    match = _external_match(name)
    folders = match["folders"]
    stored = match["stored"]
    return BaseFileName(
        file_id=stored if folders is None else f"{unquote(folders)}/{stored}",
        write_token="",
        instant_time=match["instant"],
        extension=stored.rpartition(".")[2] if "." in stored else "",
    )


def _external_match(name: str) -> re.Match[str]:
    match = _EXTERNAL_FILE.fullmatch(name.rpartition("/")[2])
    if match is None:
        raise CorruptTableError(
            name, None, "an external file without an instant in its name", f"name_instant{_EXTERNAL}"
        )
    return match


def is_data_file(path: str) -> bool:
    """Whether a path ends with the name of a base file or a log file; raises like ``parse_base_file_name``."""
    name = path.rpartition("/")[2]
    return parse_base_file_name(name) is not None or parse_log_file_name(name) is not None


def instant_of(path: str) -> str | None:
    """The instant in the name of a base file or log file, None for other names; raises like ``stored_path``."""
    name = path.rpartition("/")[2]
    parts = parse_base_file_name(name) or parse_log_file_name(name)
    return None if parts is None else parts.instant_time


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

    Without a base file, all records of the slice are in its logs. Source: ``FileSlice`` of Hudi.

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
