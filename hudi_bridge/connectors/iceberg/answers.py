"""Error responses of the Iceberg REST catalog."""

from starlette.responses import JSONResponse, Response
from starlette.types import Scope

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
