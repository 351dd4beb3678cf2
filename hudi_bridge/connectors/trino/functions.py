"""The merge rules of a table as Trino functions in Python.

A function consists of the source text of ``merge.ordering`` and of a ``*_udf`` module, constants for the table, and a
handler of a few lines. It imports the standard library alone.

Source: "User-defined functions, Python language" of Trino's documentation.
"""

import inspect
from types import ModuleType
from typing import Any

import pyarrow as pa

from hudi_bridge.connectors.trino import decode_udf, merge_udf, payload_udf
from hudi_bridge.connectors.trino.log_columns import LogColumns
from hudi_bridge.connectors.trino.payload_text import INSTANCE, payload_text, without_imports
from hudi_bridge.connectors.trino.sql_text import Dialect, ObjectNames, body, identifier, python_literal
from hudi_bridge.connectors.trino.sql_types import shown_type, stored_type
from hudi_bridge.engines import META_FIELDS, MergeRule, RecordPayload, is_number
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge import ordering
from hudi_bridge.splits.split import ReadContext

MERGE = "merge"
_HANDLER = "handler"
_MOST_BYTES = 1 << 19


def create_fields_function(names: ObjectNames, context: ReadContext, rule: MergeRule, columns: LogColumns) -> str:
    """The statement for the function that returns which fields of a contested record come from the log.

    Its parameters are the three flags and the two lists of unset fields of ``contested_fields``, then the ordering
    values of the base row and of the log record.
    """
    as_zero = rule.precedence.nulls_as_zero
    zeros = tuple(as_zero and is_number(columns.schema.field(name).type) for name in columns.ordering)
    newest = tuple(rule.newest_meta and name in META_FIELDS for name in context.schema.names)
    handler = (
        f"OVER_BASE_ROW = {python_literal(rule.precedence.over_base_row)}\n"
        f"ZEROS = {python_literal(zeros)}\n"
        f"NEWEST = {python_literal(newest)}\n\n\n"
        f"def {_HANDLER}(is_delete, is_explicit, always_deletes, base_unset, log_unset, *ordering):\n"
        "    return contested_fields(\n"
        f"        OVER_BASE_ROW, ZEROS, NEWEST, sequences={bool(rule.sequences_against_base)},\n"
        "        flags=(is_delete, is_explicit, always_deletes), unset=(base_unset, log_unset), ordering=ordering,\n"
        "    )"
    )
    kinds = [stored_type(columns.schema.field(name).type, Dialect.TRINO, name) for name in columns.ordering]
    sides = [f"{side}_{position} {kind}" for side in ("base", "log") for position, kind in enumerate(kinds)]
    parameters = ["is_delete boolean", "is_explicit boolean", "always_deletes boolean"]
    parameters += ["base_unset array(boolean)", "log_unset array(boolean)", *sides]
    text = "\n\n\n".join((_text_of(ordering), _text_of(merge_udf), handler))
    return _create(names.of_part(MERGE), parameters, "array(boolean)", text)


def create_payload_function(names: ObjectNames, context: ReadContext, payload: RecordPayload) -> str:
    """The statement for the function that merges the base row and the log record of a contested record.

    Raises:
        UnsupportedTableError: the payload cannot run in Trino.
    """
    shape = ("row", tuple((field.name, _shape(field.type)) for field in context.schema))
    handler = (
        f"SHAPE = {python_literal(shape)}\n\n\n"
        f"def {_HANDLER}(base, log):\n"
        f"    return combined({INSTANCE}, base, log, SHAPE)"
    )
    text = "\n\n\n".join((payload_text(payload), _text_of(payload_udf), handler))
    kind = row_type(context.schema)
    return _create(names.of_part(MERGE), [f"base {kind}", f"log {kind}"], kind, text)


def create_decode_function(names: ObjectNames) -> str:
    """The statement for ``hudi_decode``: a chunk of log records and the writer's schema -> JSON texts."""
    handler = f"def {_HANDLER}(chunk, writer_schema):\n    return decode_chunk(chunk, writer_schema)"
    text = "\n\n\n".join((_text_of(decode_udf), handler))
    name = f"{names.of_schema}.{identifier('hudi_decode')}"
    return _create(name, ["chunk varbinary", "writer_schema varchar"], "array(varchar)", text)


def row_type(schema: pa.Schema) -> str:
    """The SQL row type of a table's columns, with the fields ``c0``, ``c1`` and so on."""
    fields = (f"c{position} {shown_type(field.type, field.name)}" for position, field in enumerate(schema))
    return f"row({', '.join(fields)})"


def _create(name: str, parameters: list[str], returns: str, text: str) -> str:
    text = f"from __future__ import annotations\n\n{text}"
    if len(text.encode()) > _MOST_BYTES:
        found = f"{len(text.encode())} bytes"
        raise UnsupportedTableError("text of a Python function", found, f"texts of up to {_MOST_BYTES} bytes")
    return (
        f"CREATE OR REPLACE FUNCTION {name}({', '.join(parameters)})\n"
        f"RETURNS {returns}\nLANGUAGE PYTHON\nWITH (handler = '{_HANDLER}')\nAS {body(text)}"
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
    return None
