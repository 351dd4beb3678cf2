"""A small object store: the part of the S3 protocol that readers use, with latency, bandwidth, faults and counts.

It serves the folders below its root as buckets. One thread runs it, so that it leaves the cores to what is tested.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_PIECE = 1 << 18
_DATE = "Thu, 01 Jan 2026 00:00:00 GMT"


@dataclass(slots=True)
class Traffic:
    """What was asked for: requests by kind (``LIST``, ``HEAD``, ``GET``), those by file name, and bytes sent.

    ``rounds`` is the length of the longest chain of requests, each of which came when the one before it was answered.
    ``request_seconds`` are those of all requests together, ``busy_seconds`` those in which there was at least one.
    """

    requests: Counter[str] = field(default_factory=Counter)
    by_file: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0
    most_at_once: int = 0
    rounds: int = 0
    request_seconds: float = 0.0
    busy_seconds: float = 0.0

    @property
    def mean_at_once(self) -> float:
        """The number of requests at the same time, as long as there are any."""
        return self.request_seconds / self.busy_seconds


class S3Server:
    """Serves buckets on a loopback port; ``latency`` is in seconds a request, ``bandwidth`` in bytes a second."""

    def __init__(self, root: Path, latency: float = 0.0, bandwidth: float | None = None) -> None:
        """A server that does not run yet."""
        self.root = root
        self.latency = latency
        self.bandwidth = bandwidth
        self.traffic = Traffic()
        self.faults: list[str] = []
        """What happens to the next GETs of files, as ``spoil`` says it."""
        self.spoil: Callable[[str, str], str | None] = lambda *_: None
        """What happens to a request (``LIST``, ``HEAD``, ``GET``) for a path, if anything:

        a status (``403``, ``404``, ``500``, ``503``); ``reset``; ``cut`` half way; ``short``, with half of the bytes
        and a length that says so; ``stale``, a listing without its last entry. The path of a listing is
        that of the folder.
        """
        self.port = 0
        self._free_at = 0.0
        self._at_once = 0
        self._busy_since = 0.0
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()

    def reset(self) -> Traffic:
        """Begin to count anew; returns what is counted from now on."""
        self.traffic = Traffic()
        return self.traffic

    def uri(self, path: str) -> str:
        """The URI of a folder, given with its bucket, as Arrow takes it."""
        return f"s3://key:secret@{path}?scheme=http&region=us-east-1&endpoint_override=127.0.0.1:{self.port}"

    def run(self) -> None:
        """Serve until ``stop`` is called."""
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", self.port))
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    @contextmanager
    def running(self) -> Iterator[Self]:
        """The server, run by a thread within the context."""
        thread = threading.Thread(target=self.run, name="s3-server")
        thread.start()
        self._started.wait(10)
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                first, *rest = head.split("\r\n")
                method, target, _ = first.split(" ")
                headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in rest)}
                with self._counting():
                    await asyncio.sleep(self.latency)
                    if not await self._answer(writer, method, target, headers):
                        break
        writer.close()

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """A context for one request, which counts among those at the same time."""
        begun, number = self._loop.time(), self.traffic.rounds + 1
        if not self._at_once:
            self._busy_since = begun
        self._at_once += 1
        self.traffic.most_at_once = max(self.traffic.most_at_once, self._at_once)
        try:
            yield
        finally:
            self._at_once -= 1
            self.traffic.rounds = max(self.traffic.rounds, number)
            ended = self._loop.time()
            self.traffic.request_seconds += ended - begun
            if not self._at_once:
                self.traffic.busy_seconds += ended - self._busy_since

    async def _answer(self, writer: asyncio.StreamWriter, method: str, target: str, headers: dict[str, str]) -> bool:
        """Answer one request; False if the connection is to be cut."""
        parts = urlsplit(target)
        path, query = unquote(parts.path).strip("/"), parse_qs(parts.query, keep_blank_values=True)
        kind = "LIST" if "list-type" in query else method
        prefix = query.get("prefix", [""])[0]
        self.traffic.requests[kind] += 1
        fault = (
            self.faults.pop(0) if kind == "GET" and self.faults else self.spoil(kind, f"{path}/{prefix}".rstrip("/"))
        )
        if fault == "reset":
            writer.transport.abort()
            return False
        if fault is not None and fault.isdigit():
            code = {"403": "AccessDenied", "404": "NoSuchKey", "500": "InternalError", "503": "SlowDown"}[fault]
            body = b"" if kind == "HEAD" else f"<Error><Code>{code}</Code></Error>".encode()
            return await self._send(writer, f"{fault} Fault", body, kind="application/xml")
        if kind == "LIST":
            listing = self._listing(path, query, is_stale=fault == "stale")
            return await self._send(writer, "200 OK", listing, kind="application/xml")
        file = self.root / path
        self.traffic.by_file[file.name] += 1
        if fault in ("cut", "short") and kind == "GET":
            content = file.read_bytes()
            half = content[: len(content) // 2]
            length = len(content) if fault == "cut" else len(half)
            writer.write(self._head("200 OK", length, "application/octet-stream") + half)
            await writer.drain()
            return fault == "short"
        if not file.is_file():
            body = b"" if method == "HEAD" else b"<Error><Code>NoSuchKey</Code></Error>"
            return await self._send(writer, "404 Not Found", body, kind="application/xml")
        size = file.stat().st_size
        if method == "HEAD":
            writer.write(self._head("200 OK", size, "application/octet-stream"))
            await writer.drain()
            return True
        return await self._send_file(writer, file, size, headers.get("range"))

    async def _send_file(self, writer: asyncio.StreamWriter, file: Path, size: int, given: str | None) -> bool:
        start, end, status = 0, size, "200 OK"
        if given is not None:
            first, _, last = given.removeprefix("bytes=").partition("-")
            start, end, status = int(first), min(size, int(last) + 1), "206 Partial Content"
        extra = f"Content-Range: bytes {start}-{end - 1}/{size}\r\n" if given else ""
        writer.write(self._head(status, end - start, "application/octet-stream", extra))
        with file.open("rb") as opened:
            opened.seek(start)
            for begin in range(start, end, _PIECE):
                await self._take_turn(min(_PIECE, end - begin))
                writer.write(opened.read(min(_PIECE, end - begin)))
                await writer.drain()
        return True

    async def _take_turn(self, size: int) -> None:
        """Wait until the line, which all connections share, has room for some bytes."""
        self.traffic.sent_bytes += size
        if self.bandwidth is None:
            return
        now = self._loop.time()
        self._free_at = max(self._free_at, now) + size / self.bandwidth
        await asyncio.sleep(self._free_at - now)

    async def _send(self, writer: asyncio.StreamWriter, status: str, body: bytes, *, kind: str) -> bool:
        writer.write(self._head(status, len(body), kind) + body)
        await writer.drain()
        return True

    @staticmethod
    def _head(status: str, size: int, kind: str, extra: str = "") -> bytes:
        common = f'Content-Length: {size}\r\nContent-Type: {kind}\r\nLast-Modified: {_DATE}\r\nETag: "x"\r\n'
        return f"HTTP/1.1 {status}\r\n{common}{extra}\r\n".encode()

    def _listing(self, bucket: str, query: dict[str, list[str]], *, is_stale: bool) -> bytes:
        prefix = query.get("prefix", [""])[0]
        folder = self.root / bucket / prefix.rpartition("/")[0]
        items = []
        within = folder.iterdir() if "delimiter" in query else (path for path in folder.rglob("*") if path.is_file())
        for entry in sorted(within) if folder.is_dir() else ():
            key = entry.relative_to(self.root / bucket).as_posix()
            if not key.startswith(prefix):
                continue
            if entry.is_dir():
                items.append(f"<CommonPrefixes><Prefix>{escape(key)}/</Prefix></CommonPrefixes>")
            else:
                size = entry.stat().st_size
                times = "<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                items.append(f"<Contents><Key>{escape(key)}</Key>{times}<Size>{size}</Size></Contents>")
        if is_stale:
            del items[-1:]
        count = f"<KeyCount>{len(items)}</KeyCount><IsTruncated>false</IsTruncated>"
        return f"<ListBucketResult>{count}{''.join(items)}</ListBucketResult>".encode()
