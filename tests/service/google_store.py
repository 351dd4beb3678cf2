"""Google's token services and a store of objects on loopback, which hold tokens to what they are for.

The key of a service account signs requests for the service's own tokens, which open all; the Security Token Service
narrows them by access boundaries. The store speaks the part of the JSON protocol that Google's client in Arrow uses.
It is a process of its own: that client waits for answers with Python's lock in hand.
"""

import ast
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

EMAIL = "reader@lake.iam.gserviceaccount.com"
_AUDIENCE = "https://oauth2.googleapis.com/token"
_READER = "inRole:roles/storage.legacyObjectReader"
_STARTS_WITH = re.compile(r"resource\.name\.startsWith\(('(?:[^'\\]|\\.)*')\)")


@dataclass(slots=True)
class Token:
    """A token that has been given; ``boundary`` is None for one that opens all."""

    text: str
    expires_at: float
    boundary: list[dict[str, Any]] | None = None

    def opens(self, bucket: str, name: str) -> bool:
        """Whether an object may be read, by the rules of the boundary."""
        return self.boundary is None or any(_allows(rule, bucket, name) for rule in self.boundary)


def _allows(rule: dict[str, Any], bucket: str, name: str) -> bool:
    expression = rule["availabilityCondition"]["expression"]
    parts = [_STARTS_WITH.fullmatch(part) for part in expression.split(" || ")]
    assert all(parts), expression
    # Texts of the expression language are written as in Python.
    starts = [ast.literal_eval(part[1]) for part in parts if part is not None]
    return (
        rule["availableResource"] == f"//storage.googleapis.com/projects/_/buckets/{bucket}"
        and rule["availablePermissions"] == [_READER]
        and f"projects/_/buckets/{bucket}/objects/{name}".startswith(tuple(starts))
    )


class Services:
    """The services, which run in a process of their own."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], bytes] = {}
        self._uploads: dict[tuple[str, str], bytes] = {}
        self._tokens: list[Token] = []
        self._faults: dict[str, tuple[int, bytes]] = {}
        self._lifetime = 3600.0
        self._tells_time = True
        self._key = rsa.generate_private_key(65537, 2048)
        server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"services": self}))
        self._address = f"127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def address(self) -> str:
        return self._address

    def private_key(self) -> str:
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def fail(self, path: str, status: int | None, content: bytes = b"") -> None:
        """Answer a path with an error from now on; without a status, as usual."""
        self._faults.pop(path, None)
        if status is not None:
            self._faults[path] = status, content

    def hold_for(self, seconds: float, *, told: bool = True) -> None:
        """How long tokens hold from now on, and whether those that are narrowed say so."""
        self._lifetime, self._tells_time = seconds, told

    def fault(self, path: str) -> tuple[int, bytes] | None:
        return self._faults.get(path)

    def own_token(self) -> Token:
        """A new token that opens all."""
        return self._given(Token(f"own-{len(self._tokens)}", time.time() + self._lifetime))

    def tokens(self) -> list[Token]:
        """All tokens that have been given."""
        return self._tokens

    def begin(self, bucket: str, name: str) -> None:
        """An upload begins."""
        self._uploads[bucket, name] = b""

    def piece(self, bucket: str, name: str, content: bytes) -> bytes:
        """What has been uploaded with the next piece."""
        self._uploads[bucket, name] += content
        return self._uploads[bucket, name]

    def put(self, bucket: str, name: str, content: bytes) -> None:
        self._objects[bucket, name] = content

    def remove(self, bucket: str, name: str) -> bool:
        return self._objects.pop((bucket, name), None) is not None

    def objects(self) -> dict[tuple[str, str], bytes]:
        return self._objects

    def token_of(self, header: str) -> Token | None:
        text = header.removeprefix("Bearer ")
        return next((item for item in self._tokens if item.text == text and item.expires_at > time.time()), None)

    def _given(self, token: Token) -> Token:
        self._tokens.append(token)
        return token

    def granted(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """The answer to a request that the service account has signed."""
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        try:
            claims = jwt.decode(form["assertion"], self._key.public_key(), algorithms=["RS256"], audience=_AUDIENCE)
        except jwt.InvalidTokenError:
            return 400, {"error": "invalid_grant", "error_description": f"not signed: {form['assertion']}"}
        assert (claims["iss"], claims["scope"]) == (EMAIL, "https://www.googleapis.com/auth/cloud-platform")
        token = self.own_token()
        return 200, {"access_token": token.text, "expires_in": int(self._lifetime), "token_type": "Bearer"}

    def exchanged(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """The answer to a request for a token within a boundary."""
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
        assert form["subject_token_type"] == "urn:ietf:params:oauth:token-type:access_token"
        assert form["requested_token_type"] == "urn:ietf:params:oauth:token-type:access_token"
        own = self.token_of(form["subject_token"])
        if own is None or own.boundary is not None:
            return 400, {"error": "invalid_grant", "error_description": f"no token: {form['subject_token']}"}
        rules = json.loads(unquote(form["options"]))["accessBoundary"]["accessBoundaryRules"]
        token = self._given(Token(f"narrowed-{len(self._tokens)}", own.expires_at, rules))
        expiry = {"expires_in": int(own.expires_at - time.time())} if self._tells_time else {}
        return 200, {"access_token": token.text, "token_type": "Bearer"} | expiry


@dataclass(frozen=True, slots=True)
class GoogleStore:
    """The services as tests see them."""

    services: Any
    """A proxy of ``Services``."""

    @property
    def endpoint(self) -> str:
        return f"http://{self.services.address()}"

    @property
    def options(self) -> dict[str, str]:
        """The storage options by which the service itself opens the store."""
        return {"access_token": self.services.own_token().text, "endpoint": self.endpoint}

    def key_file(self, folder: Path, **changes: str) -> Path:
        """The file of the service account's key."""
        content = {
            "type": "service_account",
            "client_email": EMAIL,
            "private_key_id": "1",
            "private_key": self.services.private_key(),
            "token_uri": f"{self.endpoint}/token",
            "project_id": "lake",
        }
        path = folder / "service-account.json"
        path.write_text(json.dumps(content | changes))
        return path

    def own(self) -> list[Token]:
        """The tokens that open all."""
        return [item for item in self.services.tokens() if item.boundary is None]

    def narrowed(self) -> list[Token]:
        """The tokens that have a boundary."""
        return [item for item in self.services.tokens() if item.boundary is not None]

    def upload(self, folder: Path, to: str) -> None:
        """Copy the files of a folder below a place of the store, with the objects that stand for folders."""
        bucket, _, key = to.partition("/")
        parents = ["/".join(key.split("/")[:depth]) for depth in range(1, key.count("/") + 2)]
        folders = [f"{key}/{path.relative_to(folder)}" for path in folder.rglob("*") if path.is_dir()]
        for item in parents + folders:
            self.services.put(bucket, f"{item}/", b"")
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.services.put(bucket, f"{key}/{path.relative_to(folder)}", path.read_bytes())


class _Manager(BaseManager):
    """Runs the services in a process."""


_Manager.register("Services", Services)


@contextmanager
def google_store() -> Iterator[GoogleStore]:
    """A store with empty buckets, during the block."""
    with _Manager(ctx=get_context("spawn")) as manager:
        services: Any = manager
        yield GoogleStore(services.Services())


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says what went wrong, unless a client has gone, as they do with what they do not want to read."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    services: Services
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one piece, or the client waits for the second

    def do_GET(self) -> None:
        parts, query = urlsplit(self.path), self._query()
        bucket, sign, name = self._object(parts.path)
        if not self._may(self.command, bucket, name):
            return
        if not sign or not name:
            self._answer(200, self._listing(bucket, query) if sign else {"kind": "storage#bucket", "name": bucket})
            return
        content = self.services.objects().get((bucket, name))
        if content is None:
            self._answer(404, {"error": {"code": 404, "message": "no such object"}})
        elif query.get("alt") == "media":
            self._send_content(content)
        else:
            self._answer(200, self._told(bucket, name))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        fault = self.services.fault(path)
        if fault is not None:
            self._send(*fault)
        elif path in ("/token", "/sts"):
            form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
            self._answer(*(self.services.granted(form) if path == "/token" else self.services.exchanged(form)))
        else:
            bucket, _, _ = self._object(path)
            name = self._query().get("name") or json.loads(body)["name"]
            if self._may(self.command, bucket, name):
                self.services.begin(bucket, name)
                position = f"http://{self.services.address()}/upload/storage/v1/b/{bucket}/o?upload_id={name}"
                self._answer(200, {}, Location=position)

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        (bucket, _, _), name = self._object(urlsplit(self.path).path), self._query()["upload_id"]
        if not self._may(self.command, bucket, name):
            return
        whole = self.services.piece(bucket, name, content)
        if self.headers["Content-Range"].endswith("/*"):
            self._send(308, b"", Range=f"bytes=0-{len(whole) - 1}")
            return
        self.services.put(bucket, name, whole)
        self._answer(200, self._told(bucket, name))

    def do_DELETE(self) -> None:
        bucket, _, name = self._object(urlsplit(self.path).path)
        if self._may(self.command, bucket, name):
            self._answer(204 if self.services.remove(bucket, name) else 404, {})

    def _may(self, method: str, bucket: str, name: str) -> bool:
        """Whether the token of a request opens an object; answers otherwise."""
        token = self.services.token_of(self.headers.get("Authorization", ""))
        if token is None:
            self._answer(401, {"error": {"code": 401, "message": "no token that holds"}})
            return False
        if token.boundary is not None and (method != "GET" or not name or not token.opens(bucket, name)):
            self._answer(403, {"error": {"code": 403, "message": "outside of the access boundary"}})
            return False
        return True

    def _object(self, path: str) -> tuple[str, str, str]:
        """The bucket, ``o`` if it is about objects, and the name of one."""
        within = path.partition("/storage/v1/b/")[2]
        bucket, _, rest = within.partition("/")
        sign, _, name = rest.partition("/")
        return bucket, sign, unquote(name)

    def _query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}

    def _listing(self, bucket: str, query: dict[str, str]) -> dict[str, Any]:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        # With this, objects that stand for folders are told, as well as that there is something in them.
        with_folders = query.get("includeTrailingDelimiter") == "true"
        names = sorted(name for of, name in self.services.objects() if of == bucket and name.startswith(prefix))
        items, prefixes = [], set()
        for name in names:
            inside, sign, rest = name.removeprefix(prefix).partition(delimiter) if delimiter else (name, "", "")
            if sign:
                prefixes.add(f"{prefix}{inside}{delimiter}")
            if not sign or (with_folders and not rest):
                items.append(self._told(bucket, name))
        return {"kind": "storage#objects", "items": items, "prefixes": sorted(prefixes)}

    def _told(self, bucket: str, name: str) -> dict[str, Any]:
        content, when = self.services.objects()[bucket, name], "2026-01-01T00:00:00Z"
        return {
            "kind": "storage#object",
            "bucket": bucket,
            "name": name,
            "size": str(len(content)),
            "generation": "1",
            "timeCreated": when,
            "updated": when,
        }

    def _send_content(self, content: bytes) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked is None:
            self._send(200, content, **{"Content-Type": "application/octet-stream"})
            return
        first, last = int(asked[1]), min(int(asked[2] or len(content)), len(content) - 1)
        whole = f"bytes {first}-{last}/{len(content)}"
        self._send(206, content[first : last + 1], **{"Content-Range": whole})

    def _answer(self, status: int, content: dict[str, Any], **headers: str) -> None:
        self._send(status, json.dumps(content).encode(), **{"Content-Type": "application/json"}, **headers)

    def _send(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(0 if status == 204 else len(content)))
        self.end_headers()
        if status != 204:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class names it
        """Nothing: answers are looked at, not lines."""
