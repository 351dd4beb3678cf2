"""Makes Arrow tables of rows, for the modules of this package."""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa


def arrow_schema(**types: Any) -> pa.Schema:  # noqa: ANN401 - pyarrow has no common class in its stubs
    """A schema of columns with these types."""
    return pa.schema(types)


def rows_to_table(schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The rows as a table; columns that a row lacks are null."""
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
