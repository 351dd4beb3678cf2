"""Limits on HTTP clients: a timeout for requests, and a check of the ``Host`` header."""

import asyncio
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from hudi_bridge.connectors.iceberg.answers import error_answer

REQUEST_TIMEOUT_SECONDS = 10
"""How long the service waits for a whole request."""

REUSE_SECONDS = 5
"""How long clients are told to reuse a connection. The service waits longer, so that none sends as it closes."""

_POLL_SECONDS = 1.0


class RequestTimeoutProtocol(H11Protocol):
    """HTTP that closes a connection on which no whole request has arrived for ``REQUEST_TIMEOUT_SECONDS``."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout."""
        super().connection_made(transport)
        self._waiting_since = self.loop.time()
        self._latest = self.cycle
        self._check_timeout()

    def _check_timeout(self) -> None:
        if self.transport.is_closing():
            return
        # A whole request is being answered, or one has begun since the last look.
        if self.cycle is not self._latest or not self._waits_for_client():
            self._latest, self._waiting_since = self.cycle, self.loop.time()
        if self.loop.time() - self._waiting_since >= REQUEST_TIMEOUT_SECONDS:
            self.transport.abort()
        else:
            self.loop.call_later(_POLL_SECONDS, self._check_timeout)

    def _waits_for_client(self) -> bool:
        """Whether a request has to come, or the rest of a body that the service takes at once."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return True
        return cycle.more_body and not self.flow.read_paused and not cycle.waiting_for_100_continue


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
