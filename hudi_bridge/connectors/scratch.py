"""The scratch folder: files that connectors write for engines, and the URIs by which engines know them.

Nothing is ever written into the Hudi table. A file appears whole or not at all. Its name has a mark, which is the time
of writing and what no other process has, so that a name that was removed never comes back. So any number of processes
may write to one folder, and each may remove files that no process needs.

Files to which nothing refers are removed when running queries no longer need them. The folder itself records when a
file was first seen without a reference, for later processes.
"""

import contextlib
import errno
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import BinaryIO, Self
from uuid import uuid4

from hudi_bridge.errors import QueryError, TableNotFoundError
from hudi_bridge.storage.masking import masked, without_secrets
from hudi_bridge.storage.storage import PathLike, Storage

_COPY_BYTES = 1 << 22
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
UNFINISHED = ".part"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """A folder for files; names are relative to it, with slashes. ``private_folder`` is made for this user alone."""

    storage: Storage
    private_folder: str | None = None

    @classmethod
    def open(cls, path: PathLike, *, is_private: bool = False) -> Self:
        """The folder at a local path or URI; it need not exist yet.

        If it ``is_private``, nobody else may read a local folder that is made; one that is there keeps its mode.

        Raises:
            QueryError: no file system can be opened for the path.
        """
        try:
            storage = Storage.open(path)
            return cls(storage=storage, private_folder=storage.root if is_private else None)
        except TableNotFoundError as error:
            raise QueryError("folder for published files", error.path, f"a path or URI ({error.reason})") from error

    def require_outside(self, table: Storage) -> None:
        """Raises unless rows of a table may be written to the folder.

        Raises:
            QueryError: the folder lies within the table, or the table was opened with keys.
        """
        table.require_no_keys("published files")
        own, other = (_real_path(storage) for storage in (self.storage, table))
        if f"{own}/".startswith(f"{other}/"):
            description = f"{self.storage.shown_path}, which lies in the table {table.shown_path}"
            raise QueryError(
                "folder for published files", description, "a folder elsewhere: nothing is written into a table"
            )

    def child(self, name: str) -> "Scratch":
        """A subfolder."""
        return replace(self, storage=self.storage.child(name))

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        try:
            return self.storage.read_bytes(name)
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> tuple[str, ...]:
        """The names of the complete files in a folder."""
        return tuple(name for name in self.all_names(folder) if not name.endswith(UNFINISHED))

    def all_names(self, folder: str) -> tuple[str, ...]:
        """The names of all files in a folder, including incomplete ones of a crash."""
        return tuple(info.name for info in self.storage.list_directory(folder) if not info.is_dir)

    def write(self, name: str, content: bytes) -> None:
        """Write a file, which appears when it is complete."""
        with self.appearing(name) as file:
            file.write(content)

    @contextmanager
    def appearing(self, name: str) -> Iterator[BinaryIO]:
        """Open a file for writing; it appears under its name if the block succeeds, and is discarded otherwise."""
        target = self.storage.resolve(name)
        self._make_folder(target)
        if not self.storage.is_local:
            # An object appears when its upload ends, so the upload begins when the content is complete.
            with tempfile.TemporaryFile(prefix="hudi-bridge-") as file:
                yield file
                file.seek(0)
                self._upload(file, target)
            return
        folder, _, last = target.rpartition("/")
        # Engines that read all files of a folder skip names that begin with a dot.
        part = f"{folder}/.{last}.{os.getpid()}-{uuid4().hex}{UNFINISHED}"
        try:
            with open(part, "x+b") as file:  # noqa: PTH123 - a path of the storage's file system
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, target)  # noqa: PTH105
        except OSError as error:
            if error.filename is None and error.errno in _NO_ROOM:
                error.filename = target
            raise
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)  # noqa: PTH108

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self.storage.filesystem.delete_file(self.storage.resolve(name))

    def _make_folder(self, target: str) -> None:
        if self.storage.is_local:
            if self.private_folder is not None:
                os.makedirs(self.private_folder, mode=0o700, exist_ok=True)  # noqa: PTH103
            os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120

    def _upload(self, file: BinaryIO, target: str) -> None:
        with self.storage.filesystem.open_output_stream(target) as upload:
            shutil.copyfileobj(file, upload, _COPY_BYTES)


def _real_path(storage: Storage) -> str:
    return os.path.realpath(storage.root) if storage.is_local else storage.location()


_MARK = re.compile(r"(?:^|-)t([0-9a-f]{8})[0-9a-f]{8}(?=[-.]|$)")
_PERIOD = re.compile(r"(?:^|-)p([0-9]{1,12})(?=[-.]|$)")
_SHORTEST_PERIOD = 3600.0


def new_mark() -> str:
    """A part of a name, to be put between hyphens: the time in seconds, and what no other process has."""
    return f"t{int(time.time()):08x}{uuid4().hex[:8]}"


def marked_at(name: str) -> int | None:
    """The time of the last mark in a name, in seconds since the epoch; None if there is none."""
    times = _MARK.findall(name)
    return int(times[-1], 16) if times else None


def period_seconds(keep_seconds: float) -> float:
    """The length of the periods into which time is divided: at least as long as running queries need files."""
    return max(keep_seconds, _SHORTEST_PERIOD)


def current_period(keep_seconds: float) -> int:
    """The number of the period that it is now; ``p`` and this number are part of the names of its files."""
    return int(time.time() // period_seconds(keep_seconds))


def period_of(name: str) -> int | None:
    """The period in a name; None if there is none."""
    match = _PERIOD.search(name)
    return int(match[1]) if match else None


def is_past(name: str, keep_seconds: float) -> bool:
    """Whether a name has a period in which nobody begins to use it, nor does a query run that has used it.

    A file of a period is given out in that period. One more is for queries, and one for clocks that differ.
    """
    period = period_of(name)
    return period is not None and period < current_period(keep_seconds) - 2


_NOTES = "orphan_files.json"


def remove_orphan_files(scratch: Scratch, needed: Mapping[str, tuple[set[str], tuple[str, ...]]], after: float) -> int:
    """Removes files that have been orphans for ``after`` seconds; returns their number.

    ``needed`` has for each folder the names that are needed, and the suffixes of the files that may be removed.
    """
    notes, now = _read(scratch), time.time()
    orphans = {
        f"{folder}/{name}": notes.get(f"{folder}/{name}", now)
        for folder, (names, suffixes) in needed.items()
        for name in scratch.all_names(folder)
        if name not in names and name.endswith(suffixes)
    }
    due = [name for name, since in orphans.items() if now - since >= after]
    for name in due:
        scratch.remove(name)
        del orphans[name]
    if orphans != notes:
        scratch.write(_NOTES, json.dumps(orphans).encode())
    return len(due)


def _read(scratch: Scratch) -> dict[str, float]:
    """The times, in seconds since the epoch, by file; none if they are damaged, and files then stay longer."""
    try:
        notes = json.loads(scratch.read(_NOTES) or b"{}")
    except ValueError:
        return {}
    return notes if isinstance(notes, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Locations:
    """Rules that replace a prefix of our path or URI with the engine's prefix, longest first.

    Without a matching rule, a local path becomes a file URI, and a URI is not changed.
    """

    rules: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, texts: tuple[str, ...]) -> Self:
        """Parses rules such as ``/data=local:///`` and ``/data=file:/data``.

        Raises:
            QueryError: a text is not a rule.
        """
        rules = []
        for text in texts:
            source, sign, target = text.partition("=")
            if not (source and sign and ("://" in target or target.startswith("file:/"))):
                raise QueryError("--locate", repr(masked(text)), "OURS=THEIRS, such as /data=local:///")
            rules.append((without_secrets(source.rstrip("/")), target))
        return cls(rules=tuple(sorted(rules, key=lambda rule: -len(rule[0]))))

    def uri(self, storage: Storage, path: str = "") -> str:
        """The engine's URI of a file or folder; ``path`` is relative to the storage."""
        whole = storage.location(path)
        whole = whole.removeprefix("file://") if storage.is_local else whole
        for source, target in self.rules:
            if whole == source or whole.startswith(f"{source}/"):
                inside = whole[len(source) :].lstrip("/")
                return f"{target.rstrip('/')}/{inside}" if not target.endswith("///") else f"{target}{inside}"
        return whole if "://" in whole else f"file://{whole}"
