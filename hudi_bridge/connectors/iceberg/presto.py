"""What Presto makes of an Iceberg table, as seen with the Iceberg connector of Presto 0.287.

- It ignores the name mapping. In a file without field ids it finds columns by name, and fields of structs in any file.
  It does not tell upper from lower case.
- It fails on fields of structs whose names have other signs than letters of ASCII, digits and _, or begin with a digit.
  Blanks around a name are cut, so that the field is null.
- It reads all snapshots of a table with the newest schema.
- It does not read a table with a column of type ``timestamptz``.
- It cuts a timestamp in a file to milliseconds, also where the table has a ``long``. It takes a ``timestamp`` for an
  instant, and shows it in the time zone of the session unless ``legacy_timestamp`` is false.
- It takes a ``time`` in microseconds for one in milliseconds.
- In a file that has no partition, the columns by which the others are partitioned are null.
- A condition fails on a column all of whose values in a row group are null, if it has a dictionary. One on a double
  that is 0.0 passes over -0.0.
- It does not read decimals of up to 18 digits as longer ones.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from hudi_bridge.connectors.iceberg.columns import Columns, with_types
from hudi_bridge.connectors.iceberg.compatibility import READ_OUTCOMES
from hudi_bridge.engines import StoredBaseFile, iter_fields
from hudi_bridge.errors import UnsupportedTableError

_READ_FIELD = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_MOST_DIGITS_IN_64_BITS = 18
"""Presto holds longer decimals in another type."""

ArrowType: TypeAlias = Any


def schema_for_presto(schema: pa.Schema, *, cut_times: bool) -> pa.Schema:
    """The schema with the types that a table for Presto has.

    Times of day are numbers of microseconds; timestamps are of type ``timestamp``, in UTC, if they are stored in
    milliseconds, and otherwise numbers of microseconds since 1970. With ``cut_times``, all are of type ``timestamp``.

    Raises:
        UnsupportedTableError: names of columns differ in nothing but case, or fields of structs have names that Presto
            does not read.
    """
    within = [(path, field.type) for path, field in iter_fields(schema) if pa.types.is_struct(field.type)]
    fields = [(path, struct.field(position).name) for path, struct in within for position in range(struct.num_fields)]
    if unread := [f"{path}.{name}" for path, name in fields if not _READ_FIELD.fullmatch(name)]:
        raise UnsupportedTableError("fields for Presto", ", ".join(unread), "names of ASCII letters, digits and _")
    names = [path for path, _ in iter_fields(schema)]
    counts = Counter(name.lower() for name in names)
    if alike := [name for name in names if counts[name.lower()] > 1]:
        raise UnsupportedTableError("columns for Presto", ", ".join(alike), "names that differ in more than case")

    def in_presto(kind: ArrowType) -> ArrowType:
        if pa.types.is_time(kind) or (_has_microseconds(kind) and not cut_times):
            return pa.int64()
        return pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind

    return with_types(schema, in_presto)


def why_presto_misreads(base: StoredBaseFile, columns: Columns) -> str | None:
    """Why Presto gets other rows from a base file than clients that know the name mapping; None if it does not."""
    in_file = dict(base.fields())
    by_lower_case = {path.lower(): path for path in in_file}
    if len(by_lower_case) < len(in_file):
        return "the file has names that differ in nothing but case"
    by_hudi = {one.column: one.file_column for one in base.columns if one.outcome in READ_OUTCOMES}
    for path, field in iter_fields(columns.arrow):
        stored = by_lower_case.get(path.lower())
        if stored != by_hudi.get(path):
            return f"column {path} is {by_hudi.get(path) or 'not'} in the file"
        if stored is not None and (reason := _why_misread(path, in_file[stored].type, field.type)) is not None:
            return reason
    return None


def _why_misread(path: str, stored: ArrowType, shown: ArrowType) -> str | None:
    if pa.types.is_timestamp(stored) and not pa.types.is_timestamp(shown):
        return f"the file has timestamps in {path}"
    if pa.types.is_decimal128(stored) and stored.precision <= _MOST_DIGITS_IN_64_BITS < shown.precision:
        return f"column {path} has {stored.precision} digits in the file"
    return None


def misread_types(schema: pa.Schema) -> Iterator[str]:
    """What Presto makes of columns of a table that was not written for it."""
    if zoned := _paths(schema, lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None):
        yield f"reads no table with a timestamp with time zone ({zoned})"
    elif cut := _paths(schema, _has_microseconds):
        yield f"cuts timestamps to milliseconds ({cut})"
    if times := _paths(schema, pa.types.is_time):
        yield f"misreads times of day ({times})"


def types_for_presto(schema: pa.Schema, *, cut_times: bool) -> Iterator[str]:
    """What has become of columns in a table that was written for Presto; ``schema`` is that of Hudi."""
    if cut := _paths(schema, _has_microseconds):
        if cut_times:
            yield f"Presto cuts these timestamps to milliseconds: {cut}"
        else:
            yield f"for Presto, these timestamps are numbers of microseconds since 1970 (--cut-times): {cut}"
    if times := _paths(schema, pa.types.is_time):
        yield f"for Presto, these times of day are numbers of microseconds: {times}"


def _has_microseconds(kind: ArrowType) -> bool:
    return pa.types.is_timestamp(kind) and kind.unit == "us"


def _paths(schema: pa.Schema, is_meant: Callable[[ArrowType], bool]) -> str:
    return ", ".join(path for path, field in iter_fields(schema) if is_meant(field.type))
