"""The download of a server, of a small one from a Maven repository on loopback."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.integration import presto_download, trino_download
from tests.integration.server_download import DownloadError, ServerArchive

ARCHIVES = (trino_download.ARCHIVE, presto_download.ARCHIVE)
PATHS = {
    "trino-server": "/io/trino/trino-server/476/trino-server-476.tar.gz",
    "presto-server": "/com/facebook/presto/presto-server/0.287/presto-server-0.287.tar.gz",
}


def server_archive(archive: ServerArchive) -> bytes:
    """A server whose first plugin links to a library of a plugin that is not wanted; the others have copies of one."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name in (
            "lib/main.jar",
            "bin/launcher",
            "plugin/unwanted/shared.jar",
            *(f"plugin/{plugin}/own.jar" for plugin in archive.plugins),
            *(f"plugin/{plugin}/same.jar" for plugin in archive.plugins),
            *(f"plugin/{archive.plugins[0]}/{beginning}1.jar" for beginning in archive.unused),
        ):
            data = (Path(name).name if "same" in name else name).encode() * 1000
            member = tarfile.TarInfo(f"{archive.name}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo(f"{archive.name}/plugin/{archive.plugins[0]}/shared.jar")
        link.type, link.linkname = tarfile.LNKTYPE, f"{archive.name}/plugin/unwanted/shared.jar"
        tar.addfile(link)
    return content.getvalue()


@dataclass
class Repository:
    """What is served; connections break after ``breaks_after`` bytes, as long as there are any."""

    content: bytes
    breaks_after: list[int] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        asked = request.headers.get("Range")
        self.ranges.append(asked)
        self.paths.append(request.path)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        if asked and start >= len(self.content):
            request.send_error(416)
            return
        rest = self.content[start:]
        request.send_response(206 if asked else 200)
        request.send_header("Content-Length", str(len(rest)))
        request.end_headers()
        request.wfile.write(rest[: self.breaks_after.pop(0)] if self.breaks_after else rest)
        request.close_connection = True


@pytest.fixture(params=ARCHIVES, ids=lambda archive: archive.name)
def wanted(request: pytest.FixtureRequest) -> ServerArchive:
    expected: ServerArchive = request.param
    return expected


@pytest.fixture
def repository(wanted: ServerArchive, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    repository = Repository(server_archive(wanted))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            repository.answer(self)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("MAVEN_CENTRAL", f"http://127.0.0.1:{server.server_port}")
        yield repository
        server.shutdown()
        thread.join()


@pytest.fixture
def archive(wanted: ServerArchive, repository: Repository, tmp_path: Path) -> ServerArchive:
    return replace(wanted, cache=tmp_path / "cache", sha256=hashlib.sha256(repository.content).hexdigest())


def test_what_is_needed_is_kept_and_fetched_once(archive: ServerArchive, repository: Repository) -> None:
    home = archive.home()
    assert archive.home() == home
    assert repository.ranges == [None]
    assert repository.paths == [PATHS[archive.artifact]]
    plugin = home / "plugin" / archive.plugins[0]
    assert {str(path.relative_to(home)) for path in home.rglob("*.jar")} == {
        "lib/main.jar",
        f"plugin/{plugin.name}/shared.jar",
        *(f"plugin/{item}/{name}.jar" for item in archive.plugins for name in ("own", "same")),
    }
    assert (plugin / "shared.jar").read_bytes().startswith(b"plugin/unwanted")
    assert (plugin / "same.jar").stat().st_nlink == len(archive.plugins)
    assert (plugin / "own.jar").stat().st_nlink == 1
    assert {path.name for path in archive.cache.iterdir()} == {archive.version, "lock"}


def test_a_download_that_breaks_off_is_carried_on(archive: ServerArchive, repository: Repository) -> None:
    repository.breaks_after = [100, 50]
    assert (archive.home() / "lib" / "main.jar").exists()
    assert repository.ranges == [None, "bytes=100-", "bytes=150-"]


def test_a_download_of_another_process_is_carried_on(archive: ServerArchive, repository: Repository) -> None:
    archive.cache.mkdir()
    (archive.cache / f"{archive.name}.tar.gz.part").write_bytes(repository.content)
    assert (archive.home() / "lib" / "main.jar").exists()
    assert repository.ranges == [f"bytes={len(repository.content)}-"]


def test_what_is_not_the_server_is_not_used(archive: ServerArchive, repository: Repository) -> None:
    actual = hashlib.sha256(repository.content[::-1]).hexdigest()
    repository.content = repository.content[::-1]
    with pytest.raises(DownloadError, match=f"SHA-256 {actual}, expected"):
        archive.home()
    assert {path.name for path in archive.cache.iterdir()} == {"lock"}
