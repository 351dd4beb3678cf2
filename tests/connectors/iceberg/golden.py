"""Golden queries to the tables that an Iceberg service shows."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg import expressions
from pyiceberg.catalog.rest import RestCatalog

from hudi_bridge.service.server import IcebergService
from tests.service.iceberg_service import rows, running, service_options
from tests.support.compare import differences
from tests.support.deviations import ANSWERED, WITHOUT_COLUMNS
from tests.support.golden_cases import GoldenQuery
from tests.support.golden_queries import QUERIES, answer_of

KINDS = ("snapshot", "read_optimized", "time_travel", "snapshot_filtered")
KEYS = [key for key in sorted(ANSWERED - WITHOUT_COLUMNS) if QUERIES[key].kind in KINDS]
OPERATORS: dict[str, Any] = {
    "=": expressions.EqualTo,
    "<": expressions.LessThan,
    ">": expressions.GreaterThan,
    "<=": expressions.LessThanOrEqual,
    ">=": expressions.GreaterThanOrEqual,
}


@contextmanager
def golden_service(scratch: Path) -> Iterator[IcebergService]:
    """A service with the golden tables."""
    roots = sorted({query.table.parent.parent for query in QUERIES.values()})
    with running(service_options(scratch, roots)) as service:
        yield service


def differences_of_rows(query: GoldenQuery, catalog: RestCatalog) -> list[str]:
    """How the rows of a query through PyIceberg differ from those of Hudi."""
    conditions = [OPERATORS[sign](column, value) for column, sign, value in query.comparisons]
    row_filter = reduce(expressions.And, conditions) if conditions else expressions.AlwaysTrue()
    actual = rows(catalog.load_table((query.case, name_of(query))), row_filter=row_filter)
    return differences(as_pyiceberg_has_it(answer_of(query)), as_pyiceberg_has_it(actual))


def name_of(query: GoldenQuery) -> str:
    """The name under which the table is found as the query asks for it."""
    name = "table__ro" if query.kind == "read_optimized" else "table"
    return name if query.as_of is None else f"{name}__at_{query.as_of}"


def as_pyiceberg_has_it(table: pa.Table) -> pa.Table:
    """The rows with empty lists and maps of structs in place of nulls: PyIceberg 0.12 does not tell them apart."""
    for position, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            values = [_with_empty(value, field.type) for value in table.column(position).to_pylist()]
            table = table.set_column(position, field, pa.array(values, field.type))
    return table


def _with_empty(value: Any, kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return value and {field.name: _with_empty(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        if value is None:
            return [] if pa.types.is_struct(kind.item_type) else None
        return [(key, _with_empty(item, kind.item_type)) for key, item in value]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        if value is None:
            return [] if pa.types.is_struct(kind.value_type) else None
        return [_with_empty(item, kind.value_type) for item in value]
    return value
