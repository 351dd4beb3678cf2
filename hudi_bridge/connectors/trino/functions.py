"""A user's payload, and the decoders of log blocks, as Trino functions in Python.

A function consists of the source text of a ``*_udf`` module, that of the payload and constants for the table, and a
handler of a few lines. It imports the standard library alone.

Source: "User-defined functions, Python language" of Trino's documentation.
"""

import inspect
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pyarrow as pa

from hudi_bridge.connectors.trino import decode_udf, payload_udf, rows_udf
from hudi_bridge.connectors.trino.payload_columns import INSTANCE, payload_text, touched_columns, without_imports
from hudi_bridge.connectors.trino.sql_types import (
    ObjectNames,
    body,
    decoded_type,
    identifier,
    passed_type,
    python_literal,
    shown_type,
    to_passed,
    types_within,
)
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.splits.split import ReadContext

MERGE, ROWS = "merge", "rows"
_HANDLER = "handler"
_FUTURE = "from __future__ import annotations\n\n"
_MOST_BYTES = 1 << 19


def create_payload_function(names: ObjectNames, context: ReadContext, payload: RecordPayload) -> str:
    """The statement for the function that merges contested records: base rows with their log records -> merged rows.

    It gets and gives the columns of ``passed_schema``. Of the others, it gives the sides, as a text with a mark for
    each: b for the base row, l for the log record, n for null. Deleted records are null in the answer.

    Raises:
        UnsupportedTableError: the payload cannot run in Trino.
    """
    passed = passed_schema(context.schema, payload)
    shapes = tuple((field.name, _shape(field.type)) for field in passed)
    handler = (
        f"NAMES = {python_literal(tuple(context.schema.names))}\nPASSED = {python_literal(shapes)}\n\n\n"
        f"{make_rows_text(shapes)}\n\n\n"
        f"def {_HANDLER}(pairs):\n    return merged_rows(SPACE[{INSTANCE!r}], pairs, NAMES, PASSED, make_rows)"
    )
    # The names of the user's module are its own.
    space = f"SPACE = {{'__name__': 'payload'}}\nexec({python_literal(_FUTURE + payload_text(payload))}, SPACE)"
    text = "\n\n\n".join((_text_of(payload_udf), space, handler))
    parameter = f"pairs array({passed_pair_type(passed)})"
    merged = ", ".join(f"c{position} {passed_type(field.type, field.name)}" for position, field in enumerate(passed))
    returns = f"array(row(sides varchar, merged row({merged})))"
    return _create(names.of_part(MERGE), [parameter], returns, text)


def make_rows_text(shapes: Iterable[tuple[str, Any]]) -> str:
    """The text of a function that adds the values of columns to a dictionary, once for each row."""
    values, entries = "", []
    for position, (name, shape) in enumerate(shapes):
        value = f"v{position}"
        values += f"{value}, "
        converted = value if shape is None else f"to_payload({value}, {python_literal(shape)})"
        entries.append(f"{python_literal(name)}: {converted}")
    return f"def make_rows(rows, marks):\n    return [{{**marks, {', '.join(entries)}}} for {values}in rows]"


def passed_schema(schema: pa.Schema, payload: RecordPayload) -> pa.Schema:
    """The columns whose values are passed to a payload in Trino; at least one, as rows must not be empty."""
    touched = touched_columns(payload)
    fields = [field for field in schema if touched is None or field.name in touched]
    return pa.schema(fields or [schema.field(0)])


def create_decode_function(names: ObjectNames) -> str:
    """The statement for ``hudi_decode``: a chunk of log records and the writer's schema -> JSON texts."""
    handler = f"def {_HANDLER}(chunk, writer_schema):\n    return decode_chunk(chunk, writer_schema)"
    text = "\n\n\n".join((_text_of(decode_udf), handler))
    name = f"{names.of_schema}.{identifier('hudi_decode')}"
    return _create(name, ["chunk varbinary", "writer_schema varchar"], "array(varchar)", text)


def create_rows_function(names: ObjectNames, schema: pa.Schema) -> str:
    """The statement for the function that decodes log records: a chunk of them and its layout -> rows of ``schema``.

    Raises:
        UnsupportedTableError: Trino has no type for a column.
    """
    handler = f"def {_HANDLER}(chunk, layout):\n    return decode_rows(chunk, layout)"
    text = "\n\n\n".join((_text_of(rows_udf), handler))
    fields = (f"c{position} {decoded_type(field.type, field.name)}" for position, field in enumerate(schema))
    returns = f"array(row({', '.join(fields)}))"
    return _create(names.of_part(ROWS), ["chunk varbinary", "layout varchar"], returns, text)


def row_type(schema: pa.Schema) -> str:
    """The SQL row type of a table's columns, with the fields ``c0``, ``c1`` and so on."""
    fields = (f"c{position} {shown_type(field.type, field.name)}" for position, field in enumerate(schema))
    return f"row({', '.join(fields)})"


def passed_pair_type(passed: pa.Schema) -> str:
    """The SQL row type of a base row and its log record as they are passed."""
    fields = (
        f"c{position} {'varchar' if _moment(field.type) else passed_type(field.type, field.name)}"
        for position, field in enumerate(passed)
    )
    kind = f"row({', '.join(fields)})"
    return f"row(base {kind}, log {kind})"


def passed_value(expression: str, kind: Any) -> str:  # noqa: ANN401 - an Arrow type
    """The SQL expression for a value of a view's column as it is passed."""
    moment = _moment(kind)
    if moment is None:
        return to_passed(expression, kind)
    if moment == "instant":
        return f"CAST(CAST({expression} AS timestamp(6)) AS varchar) || '+00:00'"
    return f"CAST({expression} AS varchar)"


def why_not_passed(schema: pa.Schema, payload: RecordPayload) -> str | None:
    """Why Trino cannot pass rows to a payload; None if it can."""
    for field in passed_schema(schema, payload):
        if pa.types.is_nested(field.type) and any(map(_moment, types_within(field.type))):
            return f"Trino would pass other dates and timestamps within column {field.name} to the payload"
    return None


def _moment(kind: Any) -> str | None:  # noqa: ANN401 - an Arrow type
    """The name in ``payload_udf.MOMENTS`` for a type whose values are passed as text; None for others."""
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "instant"
    return None


def _create(name: str, parameters: list[str], returns: str, text: str) -> str:
    text = f"{_FUTURE}{text}"
    if len(text.encode()) > _MOST_BYTES:
        size = f"{len(text.encode())} bytes"
        raise UnsupportedTableError("text of a Python function", size, f"texts of up to {_MOST_BYTES} bytes")
    return (
        f"CREATE OR REPLACE FUNCTION {name}({', '.join(parameters)})\n"
        f"RETURNS {returns}\nLANGUAGE PYTHON\nRETURNS NULL ON NULL INPUT\n"
        f"WITH (handler = '{_HANDLER}')\nAS {body(text)}"
    )


def _text_of(module: ModuleType) -> str:
    # Annotations are not evaluated there, and each import costs time in each query and thread.
    return without_imports(inspect.getsource(module), "hudi_bridge", "typing", "collections")


def _shape(kind: Any) -> Any:  # noqa: ANN401 - an Arrow type; a shape of ``payload_udf``
    if pa.types.is_struct(kind):
        fields = (kind.field(position) for position in range(kind.num_fields))
        return "row", tuple((field.name, _shape(field.type)) for field in fields)
    if pa.types.is_map(kind):
        return "map", _shape(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return "array", _shape(kind.value_type)
    moment = _moment(kind)
    return None if moment is None else (moment, None)
