"""Whether an Iceberg client reads the same rows from a base file as Hudi.

They differ if a name belonged to another column when the file was written, or if a type changed in a way that Iceberg
does not allow.

Source: the Iceberg specification, "Schema Evolution" and "Column Projection".
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.connectors.iceberg.columns import Columns
from hudi_bridge.connectors.iceberg.name_mapping import Ids, names_to_ids
from hudi_bridge.engines import Outcome, StoredBaseFile, has_two_levels, iter_fields
from hudi_bridge.splits.split import FloatWidening, RealtimeFileSplit

READ_OUTCOMES = (Outcome.READ, Outcome.CAST, Outcome.CHANGED_INSIDE)
"""A column with one of these has the values of a column of the file."""
_FIELD_ID = b"PARQUET:field_id"
_NOT_IN_PATHS = "?#"
_LIST_OF_AVRO = "array"
# The only unit that Trino reads.
_UNIT_OF_ICEBERG = "us"

ArrowType = Any


def reason_to_rewrite(
    split: RealtimeFileSplit, base: StoredBaseFile, columns: Columns, *, rewrites_lists: bool
) -> str | None:
    """Why the base file has to be rewritten for Iceberg clients; None if they can read it directly.

    With ``rewrites_lists``, a file with two-level lists has to be rewritten, because Iceberg asks for three levels. One
    with a two-level list of maps always has to be: Trino opens no file with it, whatever columns are asked for.
    Columns whose values come from the partition path are not compared with the values in the file.
    """
    if any(sign in base.path for sign in _NOT_IN_PATHS):
        return "its path holds a sign that ends the path of a URI"
    if (reason := base.reason_unreadable()) is not None:
        return reason
    if rewrites_lists and has_lists_of_two_levels(base.footer):
        return "it has lists of two levels"
    in_file = dict(base.fields())
    for path, field in in_file.items():
        if pa.types.is_list(field.type) and has_two_levels(field.type) and pa.types.is_map(field.type.value_type):
            return f"the list {path} has two levels, and its elements are maps"
    if any(field.metadata and _FIELD_ID in field.metadata for field in in_file.values()):
        return "its columns have ids of their own"
    by_hudi, reason = _read_by_hudi(split, base, in_file, columns)
    if reason is not None:
        return reason
    by_client = names_to_ids(columns.mapping, columns.schema)
    for path in _iter_mapped(in_file, by_client):
        if by_client.get(path) != by_hudi.get(path):
            return f"the name {path} means another column"
    return _why_cases_differ(in_file, by_client, by_hudi)


def _why_cases_differ(paths: Iterable[str], by_client: Ids, by_hudi: Ids) -> str | None:
    """Why a client that finds names ignoring case, as Trino does, would not read the file as Hudi; None if it would.

    Columns of the table that differ in nothing but case are left to clients that tell them apart.
    """
    ids_without_case: dict[str, set[int]] = {}
    for path, id_ in by_client.items():
        ids_without_case.setdefault(path.lower(), set()).add(id_)
    paths_without_case: dict[str, str] = {}
    for path in paths:
        other = paths_without_case.setdefault(path.lower(), path)
        if len(ids_without_case.get(path.lower(), ())) > 1:
            continue
        if other != path:
            return f"the names {other} and {path} differ in nothing but case"
        if not ids_without_case.get(path.lower(), set()) <= {by_hudi.get(path)}:
            return f"the name {path} means another column where case is ignored"
    return None


def _read_by_hudi(
    split: RealtimeFileSplit, base: StoredBaseFile, in_file: "Mapping[str, pa.Field[Any]]", columns: Columns
) -> tuple[Ids, str | None]:
    """The column id that Hudi reads each path of the file as, and why a client would read other values, if so."""
    in_query = dict(iter_fields(split.context.schema))
    by_hudi: dict[str, int] = {}
    for one in base.columns:
        if one.outcome in (Outcome.REFUSED, Outcome.MILLISECONDS, Outcome.NO_FIELD):
            return by_hudi, str(one)
        if one.file_column is None or one.column is None or one.outcome not in READ_OUTCOMES:
            continue
        by_hudi[one.file_column] = columns.ids[one.column]
        source, target = in_file[one.file_column].type, in_query[one.column].type
        if not _same_values(source, target, split.context.float_widening):
            return by_hudi, f"column {one.column} is stored as {source}, not as {target}"
    return by_hudi, None


def has_lists_of_two_levels(footer: pq.FileMetaData) -> bool:
    """Whether a file has two-level lists, as parquet-avro writes them by default.

    They are recognised by the name ``array`` of the repeated field; another field with that name counts, too.

    Source: Parquet's ``LogicalTypes.md``, "Lists", for the rules of backward compatibility.
    """
    within = (footer.schema.column(position) for position in range(footer.num_columns))
    return any(_LIST_OF_AVRO in column.path.split(".")[1:] for column in within if column.max_repetition_level)


def _same_values(source: ArrowType, target: ArrowType, float_widening: FloatWidening) -> bool:
    """Whether a client that reads ``source`` as ``target`` gets the same values as Hudi."""
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


def _iter_mapped(paths: Iterable[str], by_client: Ids) -> Iterator[str]:
    """The paths without those inside fields that are not in the name mapping: clients skip such fields whole."""
    for path in paths:
        parents = path.split(".")[:-1]
        if all(".".join(parents[: end + 1]) in by_client for end in range(len(parents))):
            yield path
