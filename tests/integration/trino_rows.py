"""What Trino's client returns -> Arrow, to be compared with the answers of Hudi."""

from typing import Any

import pyarrow as pa

from tests.integration.trino_server import Trino


def arrow_rows(trino: Trino, sql: str, schema: pa.Schema) -> pa.Table:
    """The rows of a query that returns columns of these types, in this order."""
    rows = trino.query(sql)
    columns = [
        pa.array([_value(row[position], field.type) for row in rows], field.type)
        for position, field in enumerate(schema)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _value(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        fields = [kind.field(position) for position in range(kind.num_fields)]
        return {field.name: _value(inner, field.type) for field, inner in zip(fields, value, strict=True)}
    if pa.types.is_map(kind):
        return [(key, _value(item, kind.item_type)) for key, item in value.items()]
    if pa.types.is_list(kind):
        return [_value(item, kind.value_type) for item in value]
    return value
