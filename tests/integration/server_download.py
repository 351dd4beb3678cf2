"""Fetches a server from Maven Central, once, and keeps what the tests use of it.

An interrupted download is continued; the checksum of the whole is checked.
"""

import fcntl
import filecmp
import hashlib
import http.client
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.maven_jar import maven_central

CACHE = Path.home() / ".cache" / "hudi-bridge"
TIMEOUT_SECONDS = 120
ATTEMPTS = 10
NOTHING_LEFT = 416


class DownloadError(Exception):
    """Raised when the server cannot be fetched, or the download has another checksum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerArchive:
    """A server in a Maven repository, and what is kept of it: its libraries and some plugins, in a folder of ``cache``.

    ``unused`` are beginnings of the names of jars that no test needs.
    """

    group: str
    artifact: str
    version: str
    sha256: str
    plugins: tuple[str, ...]
    unused: tuple[str, ...] = ()
    cache: Path

    @property
    def name(self) -> str:
        """The name of the archive's only folder."""
        return f"{self.artifact}-{self.version}"

    @property
    def url(self) -> str:
        """Where the archive is fetched from."""
        return f"{maven_central()}/{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}.tar.gz"

    def home(self) -> Path:
        """The folder with ``lib`` and ``plugin``; fetches the server first if necessary.

        Raises:
            DownloadError: it cannot be fetched, or is another.
        """
        home = self.cache / self.version
        if self._is_complete(home):
            return home
        self.cache.mkdir(parents=True, exist_ok=True)
        with _locked(self.cache / "lock"):
            if not self._is_complete(home):
                archive = self.cache / f"{self.name}.tar.gz.part"
                _fetch(self.url, archive, self.sha256)
                self._unpack(archive, home)
                archive.unlink()
        return home

    def _is_complete(self, home: Path) -> bool:
        return all((home / "plugin" / name).is_dir() for name in self.plugins)

    def _unpack(self, archive: Path, home: Path) -> None:
        """Unpack the libraries and the wanted plugins; a rename makes the complete folder appear at once."""
        part = Path(tempfile.mkdtemp(dir=self.cache, prefix="part-"))
        try:
            with tarfile.open(archive) as tar:
                members = tar.getmembers()
                kept = {member.name for member in members if self._is_kept(member.name)}
                # A library of several plugins may be stored with the first, wanted or not, and linked by the others.
                linked = {member.linkname for member in members if member.name in kept and member.islnk()}
                tar.extractall(part, [member for member in members if member.name in kept | linked], filter="data")
            top = part / self.name
            for plugin in (top / "plugin").iterdir():
                if plugin.name not in self.plugins:
                    shutil.rmtree(plugin)
            _link_equal_files(top)
            shutil.rmtree(home, ignore_errors=True)
            top.rename(home)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _is_kept(self, name: str) -> bool:
        parts = name.split("/")
        if parts[-1].startswith(self.unused):
            return False
        return parts[1:2] in (["lib"], ["NOTICE"]) or (
            parts[1:2] == ["plugin"] and parts[2:3] != [] and parts[2] in self.plugins
        )


def _link_equal_files(folder: Path) -> None:
    """Store a library of several plugins once, as some archives do not."""
    first_of: dict[tuple[str, int], Path] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        first = first_of.setdefault((path.name, path.stat().st_size), path)
        if not first.samefile(path) and filecmp.cmp(first, path, shallow=False):
            path.unlink()
            path.hardlink_to(first)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(url: str, archive: Path, sha256: str) -> None:
    for attempt in range(ATTEMPTS):
        try:
            _fetch_rest(url, archive)
            break
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            if attempt == ATTEMPTS - 1:
                raise DownloadError(f"{url}: {error}; the next attempt carries on with {archive}") from error
    with archive.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != sha256:
        archive.unlink()
        raise DownloadError(f"{url}: SHA-256 {actual}, expected {sha256}")


def _fetch_rest(url: str, archive: Path) -> None:
    """Download the rest of a partial file, or all of it if the HTTP server does not support ranges."""
    present = archive.stat().st_size if archive.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={present}-"} if present else {})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as source:
            resumed = source.status == http.client.PARTIAL_CONTENT
            with archive.open("ab" if resumed else "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            if source.length:
                raise http.client.IncompleteRead(b"", source.length)
    except urllib.error.HTTPError as error:
        if error.code != NOTHING_LEFT:
            raise
