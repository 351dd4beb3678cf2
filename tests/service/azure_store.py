"""A store of blobs of Azure on loopback that lets nobody in without a shared access signature, which it checks itself.

Source: "Create a service SAS" of Microsoft, for the fields, the string to sign and what a signature opens.
"""

import base64
import hashlib
import hmac
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

KEYS = {account: base64.b64encode(f"the key of {account}".encode()).decode() for account in ("lake", "views")}
_SIGNED = ("sp", "st", "se", "", "si", "sip", "spr", "sv", "sr", "", "ses", "rscc", "rscd", "rsce", "rscl", "rsct")
"""The fields in the order of the string to sign; the first empty one is the resource, the other a snapshot."""
_WHEN = "Thu, 01 Jan 2026 00:00:00 GMT"
_TOLD = {
    "Content-Type": "application/octet-stream",
    "ETag": '"1"',
    "Last-Modified": _WHEN,
    "x-ms-blob-type": "BlockBlob",
    "x-ms-creation-time": _WHEN,
    "x-ms-server-encrypted": "true",
    "x-ms-lease-state": "available",
    "x-ms-lease-status": "unlocked",
}


def fields_of(sas: str) -> dict[str, str]:
    """The fields of a signature."""
    return {name: values[0] for name, values in parse_qs(sas, strict_parsing=True).items()}


def is_signed(sas: str, account: str, resource: str) -> bool:
    """Whether a signature is that of the account's key for a container, or for a directory of one."""
    fields = fields_of(sas)
    values = [fields.get(name, "") for name in _SIGNED]
    values[3] = f"/blob/{account}/{resource}"
    digest = hmac.digest(base64.b64decode(KEYS[account]), "\n".join(values).encode(), hashlib.sha256)
    return hmac.compare_digest(base64.b64encode(digest).decode(), fields["sig"])


def opens(sas: str, account: str, path: str) -> bool:
    """Whether a signature opens a blob, given with its container, for reading."""
    fields = fields_of(sas)
    # The directory is not told, but how deep it is: the depth says which of the blob's directories has been signed.
    depth = int(fields["sdd"]) if fields["sr"] == "d" else 0
    parts = path.split("/")
    if fields["sr"] not in ("c", "d") or len(parts) < depth + 2:
        return False
    holds = datetime.fromisoformat(fields["se"]) > datetime.now(UTC)
    return holds and "r" in fields["sp"] and is_signed(sas, account, "/".join(parts[: depth + 1]))


@dataclass(frozen=True, slots=True)
class AzureStore:
    """The store, which has the files below a folder, by account and container."""

    folder: Path
    address: str


@contextmanager
def azure_store(folder: Path) -> Iterator[AzureStore]:
    """A store, during the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"folder": folder}))
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield AzureStore(folder, f"127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    folder: Path
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_HEAD(self) -> None:
        self._answer(with_content=False)

    def do_GET(self) -> None:
        self._answer(with_content=True)

    def _answer(self, *, with_content: bool) -> None:
        parts = urlsplit(self.path)
        account, _, path = unquote(parts.path).removeprefix("/").partition("/")
        if "sig=" not in parts.query or not opens(parts.query, account, path):
            self._send(403, b"", {"x-ms-error-code": "AuthenticationFailed"}, with_content=False)
            return
        content = (self.folder / account / path).read_bytes()
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("x-ms-range", self.headers.get("Range", "")))
        first, last = (int(asked[1]), min(int(asked[2]), len(content) - 1)) if asked else (0, len(content) - 1)
        headers = dict(_TOLD)
        if asked:
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        self._send(206 if asked else 200, content[first : last + 1], headers, with_content=with_content)

    def _send(self, status: int, content: bytes, headers: dict[str, str], *, with_content: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_content:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class names it
        """Nothing: answers are looked at, not lines."""
