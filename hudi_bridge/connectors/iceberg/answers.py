"""Answers that are errors, as Iceberg clients expect them."""

from starlette.responses import JSONResponse, Response

_RETRY_SECONDS = 5
_UNAVAILABLE = 503
_NOT_AUTHORIZED = 401


def error_answer(status: int, kind: str, message: str) -> Response:
    """The answer with a status of HTTP and the name of an exception of Iceberg's.

    Source: ``IcebergErrorResponse`` of the Iceberg REST catalog specification.
    """
    headers = {_UNAVAILABLE: {"Retry-After": str(_RETRY_SECONDS)}, _NOT_AUTHORIZED: {"WWW-Authenticate": "Bearer"}}
    error = {"message": message, "type": kind, "code": status}
    return JSONResponse({"error": error}, status, headers=headers.get(status))
