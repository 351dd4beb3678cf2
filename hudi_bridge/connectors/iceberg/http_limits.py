"""Limits on HTTP clients: timeouts for requests and answers, a bound on connections, a check of the ``Host`` header."""

import asyncio
import resource
from ipaddress import ip_address, ip_network

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from hudi_bridge.connectors.iceberg.answers import error_answer
from hudi_bridge.errors import QueryError

REQUEST_TIMEOUT_SECONDS = 10
"""How long the service waits for a whole request, and for a client to take any more of an answer."""

ANSWER_TIMEOUT_SECONDS = 300
"""How long a client may take for an answer, however slowly it reads."""

REUSE_SECONDS = 5
"""How long clients are told to reuse a connection. The service waits longer, so that none sends as it closes."""

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
        """Start the timeouts; if there are too many connections, close the one that has waited longest."""
        super().connection_made(transport)
        self._waiting_since = self._writing_since = self._stalled_since = self.loop.time()
        self._unsent = 0
        self._latest = self.cycle
        self._is_ending = False
        if len(self.connections) > most_connections():
            waiting = [one for one in self.connections if isinstance(one, LimitedProtocol) and one._waits_for_client()]  # noqa: SLF001 - of this class
            oldest = min(waiting, key=lambda one: one._waiting_since)  # noqa: SLF001 - of this class
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
    """Raises QueryError unless each text is an IP address or a network such as ``10.0.0.0/8``.

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
    """The address of whoever asks; ``-`` for one that is no IP address, whatever a proxy has passed on."""
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
