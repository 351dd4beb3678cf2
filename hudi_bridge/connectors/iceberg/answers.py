"""Answers that are errors, as Iceberg clients expect them."""

from starlette.responses import JSONResponse, Response
from starlette.types import Scope

_RETRY_SECONDS = 5
_UNAVAILABLE = 503
_NOT_AUTHORIZED = 401


def error_answer(scope: Scope, status: int, kind: str, message: str, *, logged: str = "") -> Response:
    """The answer to a request with a status of HTTP and the name of an exception of Iceberg's.

    ``reason_of`` the request is from now on the message, or what is to be ``logged`` in its place.
    Source: ``IcebergErrorResponse`` of the Iceberg REST catalog specification.
    """
    scope.setdefault("state", {})["reason"] = f"{kind}: {logged or message}"
    headers = {_UNAVAILABLE: {"Retry-After": str(_RETRY_SECONDS)}, _NOT_AUTHORIZED: {"WWW-Authenticate": "Bearer"}}
    error = {"message": message, "type": kind, "code": status}
    return JSONResponse({"error": error}, status, headers=headers.get(status))


def reason_of(scope: Scope) -> str:
    """Why a request was answered with an error, for the log."""
    return str(scope.get("state", {}).get("reason", "no reason known"))
