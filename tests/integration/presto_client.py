"""A client of Presto, whose protocol is Trino's but for names of headers, structured types and their values."""

import json
import urllib.request
from typing import Any

from trino.mapper import RowMapperFactory

HEADERS = {"X-Presto-User": "test", "X-Presto-Time-Zone": "UTC"}
STRUCTURED = {"array", "map", "row"}
TIMEOUT_SECONDS = 120


class PrestoQueryError(Exception):
    """Raised when Presto refuses a statement, or fails.

    ``error_name`` is such as ``SYNTAX_ERROR``, ``java_class`` the class of the exception in the server.
    """

    def __init__(self, error_name: str, message: str, java_class: str) -> None:
        super().__init__(f"{error_name}: {message}")
        self.error_name = error_name
        self.message = message
        self.java_class = java_class


def presto_rows(url: str, sql: str) -> list[Any]:
    """The rows of one statement, with values as Trino's client gives them; timestamps have milliseconds.

    Raises:
        PrestoQueryError: it is refused, or fails.
    """
    answer = _answer(urllib.request.Request(f"{url}/v1/statement", sql.encode(), HEADERS))
    columns: list[Any] = []
    rows: list[list[Any]] = []
    while True:
        if error := answer.get("error"):
            raise PrestoQueryError(error["errorName"], error["message"], error["failureInfo"]["type"])
        columns = answer.get("columns", columns)
        rows += answer.get("data", [])
        if "nextUri" not in answer:
            break
        answer = _answer(urllib.request.Request(answer["nextUri"]))
    types = [_as_trino_has_it(column["typeSignature"]) for column in columns]
    mapper = RowMapperFactory().create([{"typeSignature": item} for item in types], legacy_primitive_types=False)
    return mapper.map([[_parsed(value, one) for value, one in zip(row, types, strict=True)] for row in rows])


def _answer(request: urllib.request.Request) -> dict[str, Any]:
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as source:
        answer: dict[str, Any] = json.load(source)
        return answer


def _as_trino_has_it(type_signature: dict[str, Any]) -> dict[str, Any]:
    """The type, with the types within it in full; Presto writes those of fields as text in the ``arguments``."""
    kind = type_signature["rawType"]
    if kind not in STRUCTURED:
        return type_signature
    inner = [_as_trino_has_it(item) for item in type_signature["typeArguments"]]
    if kind != "row":
        return {"rawType": kind, "arguments": [{"kind": "TYPE", "value": item} for item in inner]}
    names = type_signature["literalArguments"] or [None] * len(inner)
    fields = [{"fieldName": {"name": name}, "typeSignature": one} for name, one in zip(names, inner, strict=True)]
    return {"rawType": kind, "arguments": [{"kind": "NAMED_TYPE", "value": field} for field in fields]}


def _parsed(value: Any, type_signature: dict[str, Any]) -> Any:
    kind = type_signature["rawType"]
    if value is None or kind not in STRUCTURED:
        return value
    # A structured value is JSON in a text, and so is each within it. Numbers stay text: decimals may not become floats.
    content = json.loads(value, parse_float=str, parse_constant=str)
    inner = [argument["value"] for argument in type_signature["arguments"]]
    if kind == "array":
        return [_parsed(item, inner[0]) for item in content]
    if kind == "map":
        return {key: _parsed(item, inner[1]) for key, item in content.items()}
    return [_parsed(item, field["typeSignature"]) for item, field in zip(content, inner, strict=True)]
