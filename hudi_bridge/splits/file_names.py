"""Names of base files and log files.

Base file: ``{fileId}_{writeToken}_{instant}.{extension}``.
Log file: ``.{fileId}_{instant}.log.{version}[_{writeToken}[.cdc]]``. Its instant is the base instant of the slice up to
table version 7, the requested instant of its delta commit from version 8 on.

Native log file, from table version 10 on: ``{fileId}_{writeToken}_{instant}_{version}.{log|deletes|cdc}.{format}``.

Source: ``FSUtils`` and ``HoodieLogFile``.
"""

import re
from dataclasses import dataclass

from hudi_bridge.errors import UnsupportedTableError

_BASE_FILE = re.compile(r"(?P<file_id>[^._/][^_/]*)_(?P<token>[A-Za-z0-9-]+)_(?P<instant>\d+)\.(?P<extension>[a-z]+)")
ASCII_BASE_FILE = r"^(?P<file_id>[^._/][^_/]*)_(?P<token>[A-Za-z0-9-]+)_(?P<instant>[0-9]+)\.(?P<extension>[a-z]+)$"
"""For Arrow; it matches no name that ``parse_base_file_name`` does not."""
_LOG_FILE = re.compile(
    r"\.(?P<file_id>[^._]+)_(?P<instant>[^.]*)\.(?P<kind>log|archive)\.(?P<version>\d+)"
    r"(_(?P<token>(?P<partition>\d+)-(?P<stage>\d+)-(?P<attempt>\d+))(?P<cdc>\.cdc)?)?"
)
_NATIVE_LOG_FILE = re.compile(
    r"(?P<file_id>[^._/]+)_(?P<token>(?P<partition>\d+)-(?P<stage>\d+)-(?P<attempt>\d+))_(?P<instant>\d+)"
    r"_(?P<version>\d+)\.(log|deletes?|(?P<cdc>cdc))\.(?P<format>[a-z]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFileName:
    """The parts of a base file's name."""

    file_id: str
    write_token: str
    instant_time: str
    extension: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileName:
    """The parts of a log file's name.

    Part of a ``LogFile``.
    """

    file_id: str
    instant_time: str
    version: int
    write_token: tuple[int, int, int] | None
    is_cdc: bool

    @property
    def sort_key(self) -> tuple[str, int, tuple[int, ...], bool]:
        """The order in which the log files of a slice are merged (``HoodieLogFile.LogFileComparator``)."""
        return (self.instant_time, self.version, self.write_token or (), self.is_cdc)


def file_id_of(name: str) -> str:
    """The file id in the name of a base file or log file; other names have one that means nothing."""
    return name.removeprefix(".").partition("_")[0]


def parse_base_file_name(name: str) -> BaseFileName | None:
    """The parts of a base file's name, None for a name of another kind."""
    match = _BASE_FILE.fullmatch(name)
    if match is None:
        return None
    return BaseFileName(
        file_id=match["file_id"],
        write_token=match["token"],
        instant_time=match["instant"],
        extension=match["extension"],
    )


def parse_log_file_name(name: str, *, native: bool = False) -> LogFileName | None:
    """The parts of a log file's name, None for a name of another kind.

    Raises:
        UnsupportedTableError: it is a native log file, planned for releases after 1.2, and ``native`` is false or
            it is not Parquet.
    """
    match = _LOG_FILE.fullmatch(name)
    if match is None:
        match = _NATIVE_LOG_FILE.fullmatch(name)
        if match is not None and not (native and match["format"] == "parquet"):
            raise UnsupportedTableError(
                "log file", f"native log file {name}", "log files named .{fileId}_{instant}.log.N"
            )
    if match is None:
        return None
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


def is_data_file(path: str, *, native: bool = False) -> bool:
    """Whether a path ends with the name of a base file or a log file; raises like ``parse_log_file_name``."""
    name = path.rpartition("/")[2]
    return parse_base_file_name(name) is not None or parse_log_file_name(name, native=native) is not None
