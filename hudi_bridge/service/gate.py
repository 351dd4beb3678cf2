"""The gate before the catalog: authentication, limits on clients, and error responses.

A client comes with a token, or gets one for its credentials. The rate of requests is limited, and so are the time for
requests and answers and the number of connections. The ``Host`` header is checked.

Source: ``OAuthTokenRequest`` and ``OAuthError`` of the Iceberg REST catalog specification; RFC 6749.
"""

import asyncio
import base64
import resource
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from ipaddress import ip_address, ip_network
from threading import Lock
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from hudi_bridge.errors import QueryError
from hudi_bridge.service.access import (
    TOKEN_SECONDS,
    Access,
    IssuerUnavailableError,
    Reader,
    TokenLacksScopeError,
    TokenRefusedError,
)

_RETRY_SECONDS = 5
_UNAVAILABLE = 503
_NOT_AUTHORIZED = 401
_TOO_MANY = 429


def error_answer(scope: Scope, status: int, kind: str, message: str, *, logged: str = "") -> Response:
    """An error response with an HTTP status and the name of an Iceberg exception (``kind``).

    The log, through ``reason_of``, gets ``logged`` instead of ``message`` if it is given.

    Source: ``IcebergErrorResponse`` of the Iceberg REST catalog specification.
    """
    note_reason(scope, f"{kind}: {logged or message}")
    later = {"Retry-After": str(_RETRY_SECONDS)}
    headers = {_UNAVAILABLE: later, _TOO_MANY: later, _NOT_AUTHORIZED: {"WWW-Authenticate": "Bearer"}}
    error = {"message": message, "type": kind, "code": status}
    return JSONResponse({"error": error}, status, headers=headers.get(status))


def note_reason(scope: Scope, reason: str) -> None:
    """Record the reason for an error response, for the log."""
    scope.setdefault("state", {})["reason"] = reason


def reason_of(scope: Scope) -> str:
    """The reason for an error response, for the log."""
    return str(scope.get("state", {}).get("reason", "no reason known"))


REQUEST_TIMEOUT_SECONDS = 10
"""How long the service waits for a whole request, and for a client to read more of an answer."""

ANSWER_TIMEOUT_SECONDS = 300
"""How long a client may take for an answer, however slowly it reads."""

REUSE_SECONDS = 5
"""How long clients may reuse a connection. The service waits longer, so that no request is sent while it closes."""

_POLL_SECONDS = 1.0
_MOST_CONNECTIONS = 1000
# A table that is read has files open as well; connections of a backlog are taken before the first is closed.
_SHARE_OF_DESCRIPTORS, _SHARE_IN_BACKLOG = 2, 8


def _descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else _MOST_CONNECTIONS * _SHARE_OF_DESCRIPTORS


def most_connections() -> int:
    """How many connections are open at once, so that descriptors are left for the files of tables."""
    return max(1, min(_MOST_CONNECTIONS, _descriptors() // _SHARE_OF_DESCRIPTORS))


def backlog() -> int:
    """How many connections are taken at once before any of them can be closed."""
    return max(1, min(128, _descriptors() // _SHARE_IN_BACKLOG))


class LimitedProtocol(H11Protocol):
    """HTTP that closes connections of clients that do not send, or do not read, and keeps their number bounded."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the timeouts; if there are too many connections, closes the one that has waited longest."""
        super().connection_made(transport)
        self._waiting_since = self._writing_since = self._stalled_since = self.loop.time()
        self._unsent = 0
        self._latest = self.cycle
        self._is_ending = False
        if len(self.connections) > most_connections():
            waiting = [
                connection
                for connection in self.connections
                if isinstance(connection, LimitedProtocol) and connection._waits_for_client()  # noqa: SLF001 - of this class
            ]
            oldest = min(waiting, key=lambda connection: connection._waiting_since)  # noqa: SLF001 - of this class
            # It is forgotten at once: the next connection may come before the loop has closed this one.
            self.connections.discard(oldest)
            oldest.transport.abort()
        self._check_timeouts()

    def shutdown(self) -> None:
        """Let the request that is being answered end, unless its client has stopped reading."""
        self._is_ending = True
        super().shutdown()

    def _check_timeouts(self) -> None:
        if self.transport.is_closing():
            return
        now = self.loop.time()
        # A whole request is being answered, or one has begun since the last look.
        if self.cycle is not self._latest or not self._waits_for_client():
            self._latest, self._waiting_since = self.cycle, now
        unsent = self.transport.get_write_buffer_size()
        if unsent == 0:
            self._writing_since = now
        if unsent == 0 or unsent != self._unsent:
            self._unsent, self._stalled_since = unsent, now
        stall_seconds = 2 * _POLL_SECONDS if self._is_ending else REQUEST_TIMEOUT_SECONDS
        if (
            now - self._waiting_since >= REQUEST_TIMEOUT_SECONDS
            or now - self._stalled_since >= stall_seconds
            or now - self._writing_since >= ANSWER_TIMEOUT_SECONDS
        ):
            self.transport.abort()
        else:
            self.loop.call_later(_POLL_SECONDS, self._check_timeouts)

    def _waits_for_client(self) -> bool:
        """Whether a request has to come, or the rest of a body that the service takes at once."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return True
        return cycle.more_body and not self.flow.read_paused and not cycle.waiting_for_100_continue


def require_proxies(addresses: tuple[str, ...]) -> None:
    """Requires that each text is an IP address or a network such as ``10.0.0.0/8``.

    Raises:
        QueryError: a text is neither.
    """
    for address in addresses:
        try:
            ip_network(address)
        except ValueError:
            expected = "the address of a proxy, or a network such as 10.0.0.0/8"
            raise QueryError("--proxy", repr(address), expected) from None


def client_address(scope: Scope) -> str:
    """The address of the client; ``-`` if a proxy has passed on something else than an IP address."""
    address = (scope.get("client") or ("-",))[0]
    try:
        return str(ip_address(address))
    except ValueError:
        return "-"


class KnownHost:
    """With ``loopback_only``, refuses requests whose ``Host`` header does not name this machine.

    This stops DNS rebinding: a web page whose host name resolves to this machine could read from the service, but the
    browser still sends the page's host name.
    """

    def __init__(self, app: ASGIApp, *, loopback_only: bool) -> None:
        self._app = app
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or answers with 403."""
        if self._loopback_only and scope["type"] == "http":
            host = dict(scope["headers"]).get(b"host", b"localhost").decode("ascii", "replace")
            if not is_loopback(_without_port(host)):
                message = "without a token, this catalog answers to localhost alone"
                await error_answer(scope, 403, "ForbiddenException", message)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def is_loopback(host: str) -> bool:
    """Whether a host name or address is a loopback address."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


_MOST_CLIENTS = 10_000


class RateLimit:
    """At most ``per_second`` requests of each client in the long run, and ``burst`` at once. Thread-safe."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._lock = Lock()
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, client: Hashable) -> bool:
        """Whether the client may ask now; if so, this counts."""
        with self._lock:
            now = time.monotonic()
            left, since = self._left.get(client, (self._burst, now))
            left = min(self._burst, left + (now - since) * self._per_second)
            allowed = left >= 1
            self._left[client] = (left - 1 if allowed else left), now
            self._left.move_to_end(client)
            if len(self._left) > _MOST_CLIENTS:
                self._left.popitem(last=False)
            return allowed


TOKENS = "/v1/oauth/tokens"
_OPEN = ("/health", TOKENS)
_FAILURES_PER_SECOND, _FAILURES_AT_ONCE = 0.2, 20.0
_BURST_SECONDS = 5.0
_MOST_BYTES = 64 << 10
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a kind of token
_ANYBODY = Reader(name="-")
_OAUTH_ERRORS = {
    "invalid_request": (400, "a form is needed"),
    "unsupported_grant_type": (400, "tokens are given for client credentials, or to renew one that was issued here"),
    "invalid_grant": (400, "only valid tokens that were issued here are renewed"),
    "invalid_client": (401, "there is no client with this id and secret"),
}


def reader_of(scope: Scope) -> Reader:
    """The reader who has sent a request."""
    reader = scope.get("state", {}).get("reader", _ANYBODY)
    return reader if isinstance(reader, Reader) else _ANYBODY


def _limited(scope: Scope) -> tuple[str, str]:
    """The key under which requests are counted: the reader, or the address of a client without a token."""
    reader = reader_of(scope)
    return ("address", client_address(scope)) if reader is _ANYBODY else (reader.issuer, reader.name)


class Gate:
    """Refuses requests without a reader's token, and clients that send too many requests.

    Without ``access``, anybody may read everything. ``per_second`` limits the requests of each reader. Refusals are
    limited by address, and do not affect clients with a token.
    """

    def __init__(self, app: ASGIApp, *, access: Access | None, per_second: float | None) -> None:
        self._app = app
        self._access = access
        self._requests = None if per_second is None else RateLimit(per_second, max(1.0, _BURST_SECONDS * per_second))
        self._failures = RateLimit(_FAILURES_PER_SECOND, _FAILURES_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or refuses it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = await self._refused(scope, receive)
        await (self._app if refused is None else refused)(scope, receive, send)

    async def _refused(self, scope: Scope, receive: Receive) -> Response | None:
        address = client_address(scope)
        if self._access is not None and scope["path"] not in _OPEN:
            try:
                reader = await self._reader(scope, self._access)
            except TokenLacksScopeError as error:
                return error_answer(scope, 403, "ForbiddenException", "this token is not for here", logged=str(error))
            except TokenRefusedError as error:
                if not self._failures.take(address):
                    return _too_often(scope)
                message = "a bearer token is needed"
                return error_answer(scope, 401, "NotAuthorizedException", message, logged=str(error))
            except IssuerUnavailableError as error:
                message = "tokens cannot be checked at the moment"
                return error_answer(scope, 503, "ServiceUnavailableException", message, logged=str(error))
            scope.setdefault("state", {})["reader"] = reader
        if self._requests is not None and scope["path"] != _OPEN[0] and not self._requests.take(_limited(scope)):
            return _too_often(scope)
        if scope["path"] == TOKENS and scope["method"] == "POST" and self._access is not None:
            answer = await self._token(Request(scope, receive), self._access)
            is_refused = answer.status_code != 200  # noqa: PLR2004 - an HTTP status
            return _too_often(scope) if is_refused and not self._failures.take(address) else answer
        return None

    async def _reader(self, scope: Scope, access: Access) -> Reader:
        scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer":
            raise TokenRefusedError("no bearer token")
        token = given.strip().decode("utf-8", "surrogateescape")
        own = access.own_reader_of(token)
        if own is not None:
            return own
        if access.issuer is None:
            raise TokenRefusedError("an unknown token")
        # The issuer may not answer. No thread waits for it, since the other readers need them.
        coming = access.issuer.keys_coming(token)
        if coming is not None:
            await asyncio.shield(asyncio.wrap_future(coming))
        return await run_in_threadpool(access.issuer.reader_of, token)

    async def _token(self, request: Request, access: Access) -> Response:
        """The answer to a request for a token."""
        try:
            form = _form(await limited_body(request, _MOST_BYTES))
        except QueryError:
            return _oauth_error(request, "invalid_request", "no form")
        grant = form.get("grant_type", "")
        if grant not in (_EXCHANGE, "client_credentials"):
            return _oauth_error(request, "unsupported_grant_type", ascii(grant))
        client_id, secret = _credentials(request, form)
        if grant == _EXCHANGE:
            token = access.renew(form.get("subject_token", ""), client_id, secret)
            kind, logged = "invalid_grant", "a token that was not issued here, or has expired"
        else:
            token = access.issue(client_id, secret)
            kind, logged = "invalid_client", f"no client {client_id!a} with this secret"
        return _oauth_error(request, kind, logged) if token is None else _issued(token)


async def limited_body(request: Request, most: int) -> bytes:
    """The body of a request.

    Raises:
        QueryError: it is longer than ``most`` bytes, or the connection ends before it.
    """
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise QueryError("body of the request", "a longer one", f"at most {most:,} bytes")
            parts.append(part)
    except ClientDisconnect as error:
        raise QueryError("body of the request", "the end of the connection", "a whole one") from error
    return b"".join(parts)


def _form(body: bytes) -> Mapping[str, str]:
    try:
        return dict(parse_qsl(body.decode("utf-8"), max_num_fields=20))
    except ValueError as error:
        raise QueryError("body of the request", "no form", "a form") from error


def _credentials(request: Request, form: Mapping[str, str]) -> tuple[str, str]:
    """The client id and secret of a request: in the form, or in a header of basic authentication."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic" and "client_secret" not in form:
        try:
            client_id, _, secret = base64.b64decode(given, validate=True).decode().partition(":")
        except ValueError:
            return "", ""
        return client_id, secret
    return form.get("client_id", ""), form.get("client_secret", "")


def _issued(token: str) -> Response:
    document = {
        "access_token": token,
        "token_type": "bearer",
        "expires_in": TOKEN_SECONDS,
        "issued_token_type": _ACCESS_TOKEN,
    }
    return JSONResponse(document, headers={"Cache-Control": "no-store"})


def _oauth_error(request: Request, kind: str, logged: str) -> Response:
    note_reason(request.scope, f"{kind}: {logged}")
    status, description = _OAUTH_ERRORS[kind]
    return JSONResponse({"error": kind, "error_description": description}, status)


def _too_often(scope: Scope) -> Response:
    return error_answer(scope, 429, "TooManyRequestsException", "too many requests: ask again later")
