"""Whether an Iceberg client that reads a base file where it lies sees the rows that Hudi shows.

A client finds columns by the table's name mapping, widens numbers as Iceberg allows, and fills in what the file does
not have with nulls. Hudi may do otherwise: a name may have meant another column when the file was written, a value may
change its type in a way that Iceberg does not know. Files for which the two differ are written anew.

Source: the Iceberg specification, "Schema Evolution" and "Column Projection".
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.connectors.iceberg.columns import Columns
from hudi_bridge.connectors.iceberg.name_mapping import Ids, names_to_ids
from hudi_bridge.engines import Outcome, StoredBaseFile, iter_fields
from hudi_bridge.splits.split import FloatWidening, RealtimeFileSplit

_READ = (Outcome.READ, Outcome.CAST, Outcome.CHANGED_INSIDE)
_FIELD_ID = b"PARQUET:field_id"
_NOT_IN_PATHS = "?#"
_LIST_OF_AVRO = "array"
# Trino reads no others.
_UNIT_OF_ICEBERG = "us"

ArrowType = Any


def reason_to_rewrite(
    split: RealtimeFileSplit, base: StoredBaseFile, columns: Columns, *, rewrites_lists: bool
) -> str | None:
    """Why the base file cannot be read where it lies, None if it can.

    ``rewrites_lists`` is whether clients are to find lists as Iceberg asks for them alone, in three levels. Whether
    columns that come from the partition path have the same values in the file is not looked at.
    """
    if any(sign in base.path for sign in _NOT_IN_PATHS):
        return "its path holds a sign that ends the path of a URI"
    if rewrites_lists and has_lists_of_two_levels(base.footer):
        return "it has lists of two levels"
    if (reason := base.why_unreadable()) is not None:
        return reason
    in_file = dict(base.fields())
    if any(field.metadata and _FIELD_ID in field.metadata for field in in_file.values()):
        return "its columns have ids of their own"
    by_hudi, reason = _read_by_hudi(split, base, in_file, columns)
    if reason is not None:
        return reason
    by_client = names_to_ids(columns.mapping, columns.schema)
    for path in _iter_reached(in_file, by_client):
        if by_client.get(path) != by_hudi.get(path):
            return f"the name {path} means another column"
    return None


def _read_by_hudi(
    split: RealtimeFileSplit, base: StoredBaseFile, in_file: "Mapping[str, pa.Field[Any]]", columns: Columns
) -> tuple[Ids, str | None]:
    """Which of the file's fields Hudi reads as which column, and why a client would not get their values, if so."""
    in_query = dict(iter_fields(split.context.schema))
    by_hudi: dict[str, int] = {}
    for one in base.columns:
        if one.outcome is Outcome.REFUSED:
            return by_hudi, str(one)
        if one.file_column is None or one.column is None or one.outcome not in _READ:
            continue
        by_hudi[one.file_column] = columns.ids[one.column]
        source, target = in_file[one.file_column].type, in_query[one.column].type
        if not _same_values(source, target, split.context.float_widening):
            return by_hudi, f"column {one.column} is stored as {source}, not as {target}"
    return by_hudi, None


def has_lists_of_two_levels(footer: pq.FileMetaData) -> bool:
    """Whether a file has lists as Avro's writer makes them by default, whose elements are the repeated field itself.

    A field that somebody has called ``array`` counts as well.

    Source: Parquet's ``LogicalTypes.md``, "Lists", for the rules of backward compatibility.
    """
    within = (footer.schema.column(position) for position in range(footer.num_columns))
    return any(_LIST_OF_AVRO in column.path.split(".")[1:] for column in within if column.max_repetition_level)


def _same_values(source: ArrowType, target: ArrowType, float_widening: FloatWidening) -> bool:
    """Whether a client that reads one type as the other gets the values that Hudi shows."""
    if pa.types.is_fixed_size_list(target):
        return False
    if pa.types.is_nested(target):
        return True
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        return source.unit == _UNIT_OF_ICEBERG and (source.tz is None) == (target.tz is None)
    if pa.types.is_decimal128(source) and pa.types.is_decimal128(target):
        return bool(source.scale == target.scale and source.precision <= target.precision)
    if pa.types.is_time32(source):
        return False
    if (source, target) == (pa.float32(), pa.float64()):
        return float_widening is FloatWidening.EXACT
    return bool(source == target) or (source, target) == (pa.int32(), pa.int64())


def _iter_reached(paths: Iterable[str], by_client: Ids) -> Iterator[str]:
    """The paths that a client or Hudi may read: not those inside fields that the client passes over."""
    for path in paths:
        parents = path.split(".")[:-1]
        if all(".".join(parents[: end + 1]) in by_client for end in range(len(parents))):
            yield path
