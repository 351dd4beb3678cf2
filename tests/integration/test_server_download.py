"""The download of the server, of a small one from a Maven repository on loopback."""

import hashlib
import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.integration import trino_download
from tests.integration.trino_download import PLUGINS, VERSION, DownloadError, trino_home

TOP = f"trino-server-{VERSION}"


def server_archive() -> bytes:
    """A server with a plugin that is not wanted, which holds a library that a wanted one links to."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name in (
            "lib/main.jar",
            "bin/launcher",
            "plugin/unwanted/shared.jar",
            *(f"plugin/{one}/own.jar" for one in PLUGINS),
        ):
            data = name.encode() * 1000
            member = tarfile.TarInfo(f"{TOP}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo(f"{TOP}/plugin/{PLUGINS[0]}/shared.jar")
        link.type, link.linkname = tarfile.LNKTYPE, f"{TOP}/plugin/unwanted/shared.jar"
        tar.addfile(link)
    return content.getvalue()


@dataclass
class Repository:
    """What is served; connections break after ``breaks_after`` bytes, as long as there are any."""

    content: bytes
    breaks_after: list[int] = field(default_factory=list)
    ranges: list[str | None] = field(default_factory=list)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        asked = request.headers.get("Range")
        self.ranges.append(asked)
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


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    repository = Repository(server_archive())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            repository.answer(self)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("MAVEN_CENTRAL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(trino_download, "CACHE", tmp_path / "cache")
        monkeypatch.setattr(trino_download, "SHA256", hashlib.sha256(repository.content).hexdigest())
        yield repository
        server.shutdown()
        thread.join()


def test_what_is_needed_is_kept_and_fetched_once(repository: Repository, tmp_path: Path) -> None:
    home = trino_home()
    assert trino_home() == home
    assert repository.ranges == [None]
    found = {str(path.relative_to(home)) for path in home.rglob("*.jar")}
    assert found == {"lib/main.jar", f"plugin/{PLUGINS[0]}/shared.jar", *(f"plugin/{one}/own.jar" for one in PLUGINS)}
    assert (home / "plugin" / PLUGINS[0] / "shared.jar").read_bytes().startswith(b"plugin/unwanted")
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {VERSION, "lock"}


def test_a_download_that_breaks_off_is_carried_on(repository: Repository) -> None:
    repository.breaks_after = [100, 50]
    assert (trino_home() / "lib" / "main.jar").exists()
    assert repository.ranges == [None, "bytes=100-", "bytes=150-"]


def test_a_download_of_another_process_is_carried_on(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f"{TOP}.tar.gz.part").write_bytes(repository.content)
    assert (trino_home() / "lib" / "main.jar").exists()
    assert repository.ranges == [f"bytes={len(repository.content)}-"]


def test_what_is_not_the_server_is_not_used(repository: Repository, tmp_path: Path) -> None:
    found = hashlib.sha256(repository.content[::-1]).hexdigest()
    repository.content = repository.content[::-1]
    with pytest.raises(DownloadError, match=f"SHA-256 {found}, expected"):
        trino_home()
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {"lock"}
