"""What the service asks of clients before it reads what they want: that they say something, and whom they mean."""

import asyncio
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from hudi_bridge.connectors.iceberg.answers import error_answer

MOST_SILENT_SECONDS = 10.0
_LOOKING_SECONDS = 1.0


class ImpatientProtocol(H11Protocol):
    """HTTP that hangs up on a client from which no whole request has come for ``MOST_SILENT_SECONDS``."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._silent_since = self.loop.time()
        self._look()

    def _look(self) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._silent_since = self.loop.time()
        if self.loop.time() - self._silent_since >= MOST_SILENT_SECONDS:
            self.transport.abort()
        else:
            self.loop.call_later(_LOOKING_SECONDS, self._look)


class KnownHost:
    """Answers requests to this machine alone, if it is to listen to nothing else.

    A page of a browser can have its own name resolve to this machine (DNS rebinding), and would be told all that the
    service tells; the ``Host`` that the browser sends is still the page's.
    """

    def __init__(self, app: ASGIApp, *, loopback_only: bool) -> None:
        self._app = app
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if self._loopback_only and scope["type"] == "http":
            host = dict(scope["headers"]).get(b"host", b"localhost").decode("ascii", "replace")
            if not is_loopback(_without_port(host)):
                message = "without a token, this catalog answers to localhost alone"
                await error_answer(scope, 403, "ForbiddenException", message)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def is_loopback(host: str) -> bool:
    """Whether the name or address is one of this machine that no other can reach."""
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
