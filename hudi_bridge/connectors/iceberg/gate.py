"""The gate of the service: who asks, how often, and the tokens that clients get for their credentials.

Source: ``OAuthTokenRequest`` and ``OAuthError`` of the Iceberg REST catalog specification; RFC 6749.
"""

import asyncio
import base64
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hudi_bridge.connectors.iceberg.access import (
    TOKEN_SECONDS,
    Access,
    IssuerUnavailableError,
    Reader,
    TokenLacksScopeError,
    TokenRefusedError,
)
from hudi_bridge.connectors.iceberg.answers import error_answer, note_reason
from hudi_bridge.connectors.iceberg.http_limits import client_address
from hudi_bridge.connectors.iceberg.rates import RateLimit
from hudi_bridge.errors import QueryError

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
    """Who has sent a request."""
    reader = scope.get("state", {}).get("reader", _ANYBODY)
    return reader if isinstance(reader, Reader) else _ANYBODY


def _limited(scope: Scope) -> tuple[str, str]:
    """Whose requests are counted: a reader's, or those of an address that shows no token."""
    reader = reader_of(scope)
    return ("address", client_address(scope)) if reader is _ANYBODY else (reader.issuer, reader.name)


class Gate:
    """Refuses requests without a token that names a reader, and those that come too often.

    Without ``access``, anybody may read everything. ``per_second`` limits the requests of each reader. Refusals are
    limited by address, and do not keep out those who have a token.
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
