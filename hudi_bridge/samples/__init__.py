"""Small tables that Apache Hudi wrote, to try things on: ``trips``, which the pages of the documentation read.

They come with the package, as an archive. A table is read where it was unpacked: in a folder of yours, or in a cache.
"""

import hashlib
import io
import os
import tempfile
import zipfile
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath

from hudi_bridge.errors import QueryError

__all__ = ["trips", "unpack"]

_ANSWERS = "answers"
"""The folder, within the archive, of the rows that Hudi on Spark returned."""


def trips(folder: str | os.PathLike[str] | None = None) -> str:
    """The path of the sample table ``trips``: merge-on-read, partitioned by city, with updates and deletes in logs.

    It is unpacked into ``folder``, unless it is there already; by default into ``~/.cache/hudi-bridge``, or where
    ``XDG_CACHE_HOME`` says.

    Raises:
        QueryError: the folder has something else by the name of the table.
        OSError: the folder cannot be written.
    """
    folder = _cache_folder() if folder is None else Path(folder)
    _unpack_one("trips", folder)
    return str(folder / "trips")


def unpack(folder: str | os.PathLike[str]) -> list[str]:
    """Unpacks all sample tables, as ``hudi-bridge demo`` does, and returns the names of their folders.

    Raises:
        QueryError: the folder has something else by one of these names.
        OSError: the folder cannot be written.
    """
    names = sorted({PurePosixPath(name).parts[0] for name in _archive().namelist()} - {_ANSWERS})
    for name in names:
        _unpack_one(name, Path(folder))
    return names


def answer_of_hudi(table: str) -> bytes:
    """A Parquet file of the rows that Hudi on Spark returned for a snapshot of the table of that path."""
    return _archive().read(f"{_ANSWERS}/{table}.parquet")


@cache
def _archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(_stored()))


@cache
def _stored() -> bytes:
    return files("hudi_bridge.samples").joinpath("tables.zip").read_bytes()


def _cache_folder() -> Path:
    parent = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return parent / "hudi-bridge" / f"samples-{hashlib.sha256(_stored()).hexdigest()[:12]}"


def _unpack_one(name: str, folder: Path) -> None:
    members = [member for member in _archive().infolist() if PurePosixPath(member.filename).parts[0] == name]
    target = folder / name
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".hudi-bridge-") as part:
            for member in members:
                _archive().extract(member, part)
            try:
                # The complete table appears at once, also to a process that unpacks it at the same time.
                (Path(part) / name).rename(target)
            except OSError:
                if not target.exists():
                    raise
    for member in members:
        path = folder / member.filename
        if not path.is_file() or path.stat().st_size != member.file_size:
            raise QueryError("folder", f"something else than the sample at {target}", "a folder without that name")
