"""Converts the rows of Trino's or Presto's client to Arrow, to compare them with Hudi's answers."""

from typing import Any

import pyarrow as pa

from tests.integration.server_process import Server


def arrow_rows(server: Server, sql: str, schema: pa.Schema) -> pa.Table:
    """The rows of a query whose columns have the types of ``schema``, in its order."""
    rows = server.query(sql)
    columns = [
        pa.array([as_arrow_has_it(row[position], field.type) for row in rows], field.type)
        for position, field in enumerate(schema)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def rows_like(server: Server, source: str, expected: pa.Table) -> pa.Table:
    """The columns of another table, from a table or view; ``source`` is what follows ``FROM``."""
    names = ", ".join(f'"{name}"' for name in expected.column_names)
    return arrow_rows(server, f"SELECT {names} FROM {source}", expected.schema)


def as_arrow_has_it(value: Any, kind: Any) -> Any:
    """A value of the client as Arrow takes it; it has tuples for rows."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        fields = [kind.field(position) for position in range(kind.num_fields)]
        return {field.name: as_arrow_has_it(inner, field.type) for field, inner in zip(fields, value, strict=True)}
    if pa.types.is_map(kind):
        return [
            (as_arrow_has_it(key, kind.key_type), as_arrow_has_it(item, kind.item_type)) for key, item in value.items()
        ]
    if pa.types.is_list(kind):
        return [as_arrow_has_it(item, kind.value_type) for item in value]
    return value
