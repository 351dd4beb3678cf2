"""A Trino server, fetched once from Maven Central: ``python -m tests.integration.trino_download`` prints its folder.

The folder is below ``~/.cache/hudi-bridge/trino``, without the plugins that no test uses. An interrupted download is
continued; the checksum of the whole is checked.
"""

import fcntl
import hashlib
import http.client
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.maven_jar import maven_central

VERSION = "476"
SHA256 = "cfd5accde17e8ebd251eeeb78aed1f490e77bb3a164d95a0f454bf8a7c1cbd3f"
PLUGINS = ("functions-python", "hive", "iceberg", "memory")
CACHE = Path.home() / ".cache" / "hudi-bridge" / "trino"
TIMEOUT_SECONDS = 120
ATTEMPTS = 10
NOTHING_LEFT = 416


class DownloadError(Exception):
    """Raised when the server cannot be fetched, or the download has another checksum."""


def trino_home() -> Path:
    """The folder with ``lib`` and ``plugin``; fetches the server first if necessary."""
    home = CACHE / VERSION
    if _is_complete(home):
        return home
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / "lock"):
        if not _is_complete(home):
            archive = CACHE / f"trino-server-{VERSION}.tar.gz.part"
            _fetch(archive)
            _unpack(archive, home)
            archive.unlink()
    return home


def _is_complete(home: Path) -> bool:
    return all((home / "plugin" / name).is_dir() for name in PLUGINS)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(archive: Path) -> None:
    url = f"{maven_central()}/io/trino/trino-server/{VERSION}/trino-server-{VERSION}.tar.gz"
    for attempt in range(ATTEMPTS):
        try:
            _fetch_rest(url, archive)
            break
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            if attempt == ATTEMPTS - 1:
                raise DownloadError(f"{url}: {error}; the next attempt carries on with {archive}") from error
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        archive.unlink()
        raise DownloadError(f"{url}: SHA-256 {found}, expected {SHA256}")


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


def _unpack(archive: Path, home: Path) -> None:
    """Unpack the libraries and the wanted plugins; a rename makes the complete folder appear at once."""
    part = Path(tempfile.mkdtemp(dir=CACHE, prefix="part-"))
    try:
        with tarfile.open(archive) as tar:
            members = tar.getmembers()
            kept = {member.name for member in members if _is_kept(member.name)}
            # A library of several plugins is stored with the first, wanted or not, and linked by the others.
            linked = {member.linkname for member in members if member.name in kept and member.islnk()}
            tar.extractall(part, [member for member in members if member.name in kept | linked], filter="data")
        top = part / f"trino-server-{VERSION}"
        for plugin in (top / "plugin").iterdir():
            if plugin.name not in PLUGINS:
                shutil.rmtree(plugin)
        shutil.rmtree(home, ignore_errors=True)
        top.rename(home)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _is_kept(name: str) -> bool:
    parts = name.split("/")
    return parts[1:2] in (["lib"], ["NOTICE"]) or (
        parts[1:2] == ["plugin"] and parts[2:3] != [] and parts[2] in PLUGINS
    )


if __name__ == "__main__":
    print(trino_home())  # noqa: T201 - what the command is for
