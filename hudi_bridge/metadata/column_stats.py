"""The ranges of a column's values in files, as the column stats of the metadata table give them.

A minimum is in the one of several columns that has its type, as is a maximum. There is one record for each column of a
file. The parts of a log file that commits have appended have versions of one record, which are joined.

Source: ``HoodieMetadataColumnStats`` and ``HoodieTableMetadataUtil.mergeColumnStatsRecords``.
"""

from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.merge.arrays import Booleans, Column, as_booleans

FILE, COLUMN, VALUES, NULLS = "file", "column", "values", "nulls"
"""The columns of a record besides minima and maxima; ``values`` counts nulls, too."""

BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES = "boolean", "int", "long", "float", "double", "bytes"
STRING, DATE, DECIMAL, TIME = "string", "date", "decimal", "time"
TIMESTAMP, LOCAL_DATE = "timestamp", "local_date"

# In the order of the union in Hudi's schema.
WRAPPED: dict[str, pa.DataType] = {
    BOOLEAN: pa.bool_(),
    INT: pa.int32(),
    LONG: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    BYTES: pa.binary(),
    STRING: pa.string(),
    DATE: pa.int32(),
    DECIMAL: pa.decimal128(30, 15),
    TIME: pa.int64(),
    TIMESTAMP: pa.int64(),
    LOCAL_DATE: pa.int32(),
}
"""The wrappers of a value, and the types of what they wrap."""
MINIMA = {wrapper: f"min_{wrapper}" for wrapper in WRAPPED}
MAXIMA = {wrapper: f"max_{wrapper}" for wrapper in WRAPPED}


def bounds(values: "Column | None", rows: int) -> list[Column]:
    """One array for each wrapper of a union of wrappers; ``values`` are None if the writer did not have the union."""
    found: list[Column] = []
    for number, kind in enumerate(WRAPPED.values()):
        member = f"member{number}"
        if values is None or values.type.get_field_index(member) < 0:
            nulls: Any = pa.nulls(rows, kind)  # type: ignore[call-overload]
            found.append(nulls)
        else:
            found.append(pc.struct_field(values, [member, "value"]).cast(kind))
    return found


def joined_ranges(versions: pa.Table, key: str) -> pa.Table:
    """One row for each key: the range of all its versions, unknown if that of one is."""
    if len(pc.unique(versions.column(key))) == len(versions):
        return versions
    kinds: dict[str, Any] = {**dict.fromkeys(MINIMA.values(), "min"), **dict.fromkeys(MAXIMA.values(), "max")}
    numbers: dict[str, Any] = {VALUES: "sum", NULLS: "sum", "known": "min"}
    others: dict[str, Any] = {name: "first" for name in versions.schema.names if name not in (key, *kinds, *numbers)}
    known = pa.array(is_known(versions))
    grouped = versions.append_column("known", known).group_by(key, use_threads=False)
    found = grouped.aggregate([(name, how) for name, how in (kinds | numbers | others).items()])
    found = found.rename_columns([name.rpartition("_")[0] if name != key else key for name in found.schema.names])
    unknown = pc.invert(found.column("known"))
    for name in kinds:
        column = found.column(name)
        nothing = pa.scalar(None, column.type)
        found = found.set_column(found.schema.get_field_index(name), name, pc.if_else(unknown, nothing, column))
    return found.select(versions.schema.names).cast(versions.schema)


def is_known(ranges: pa.Table) -> Booleans:
    """Whether a row has a minimum and a maximum, or only nulls are counted."""
    only_nulls: Any = pc.equal(ranges.column(VALUES), ranges.column(NULLS)).fill_null(fill_value=False)
    return as_booleans(pc.or_(pc.and_(_any(ranges, MINIMA), _any(ranges, MAXIMA)), only_nulls))


def _any(ranges: pa.Table, names: dict[str, str]) -> Any:  # noqa: ANN401 - a column of booleans
    valid: list[Any] = [ranges.column(name).is_valid() for name in names.values()]
    return reduce(pc.or_, valid)
