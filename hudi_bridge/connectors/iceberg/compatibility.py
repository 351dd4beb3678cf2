"""Whether an Iceberg client reads the same rows from a base file as Hudi.

They differ if a name belonged to another column when the file was written, or if a type changed in a way that Iceberg
does not allow.

Source: the Iceberg specification, "Schema Evolution" and "Column Projection".
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from hudi_bridge.connectors.iceberg.columns import Columns
from hudi_bridge.connectors.iceberg.name_mapping import Ids, names_to_ids
from hudi_bridge.engines import Outcome, StoredBaseFile, has_two_levels, iter_fields
from hudi_bridge.splits.split import FloatWidening, RealtimeFileSplit

READ_OUTCOMES = (Outcome.READ, Outcome.CAST, Outcome.CHANGED_INSIDE)
"""A column with one of these has the values of a column of the file."""
_FIELD_ID = b"PARQUET:field_id"
_NOT_IN_PATHS = "?#"
# The only unit that Trino reads.
_UNIT_OF_ICEBERG = "us"

ArrowType = Any


def reason_to_rewrite(split: RealtimeFileSplit, base: StoredBaseFile, columns: Columns) -> str | None:
    """Why the base file has to be rewritten for all Iceberg clients; None if some can read it directly.

    Columns whose values come from the partition path are not compared with the values in the file. Lists and maps are
    judged by ``reason_unopened`` and ``reason_nested_misread``.
    """
    if any(sign in base.path for sign in _NOT_IN_PATHS):
        return "its path holds a sign that ends the path of a URI"
    if (reason := base.reason_unreadable()) is not None:
        return reason
    in_file = dict(base.fields())
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


def reason_unopened(base: StoredBaseFile) -> str | None:
    """Why Trino opens the base file for no query, whatever columns are asked for; None if it does."""
    for path, field in base.fields():
        if pa.types.is_list(field.type) and has_two_levels(field.type) and pa.types.is_map(field.type.value_type):
            return f"the list {path} has two levels, and its elements are maps"
    return None


def reason_nested_misread(base: StoredBaseFile) -> str | None:
    """Why some clients misread lists or maps of the base file; None if all read them.

    Spark with Iceberg fails on lists of two levels, which parquet-avro writes by default. DuckDB finds elements, keys
    and values by the names that Iceberg gives to the groups: elsewhere (``bag`` in Spark's legacy format, ``array`` in
    two levels, ``map`` before Parquet 1.12) they are null.

    Source: the Iceberg specification, "Parquet"; Parquet's ``LogicalTypes.md``, "Lists" and "Maps".
    """
    leaves = [base.footer.schema.column(position).path.split(".") for position in range(base.footer.num_columns)]
    stored = {".".join(leaf[:end]) for leaf in leaves for end in range(1, len(leaf) + 1)}
    return next((reason for field in base.schema for reason in _iter_misnamed(field.name, field.type, stored)), None)


def _iter_misnamed(path: str, kind: ArrowType, stored: set[str]) -> Iterator[str]:
    """What is not named as in Iceberg at a path of a file and within it; ``stored`` has all paths of the file."""
    within: Sequence[tuple[str, ArrowType]] = ()
    if pa.types.is_struct(kind):
        within = [(f"{path}.{child.name}", child.type) for child in kind]
    elif pa.types.is_map(kind):
        within = [(f"{path}.key_value.key", kind.key_type), (f"{path}.key_value.value", kind.item_type)]
        if any(one not in stored for one, _ in within):
            yield "maps without key_value, key and value"
            return
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        within = [(f"{path}.list.{kind.value_field.name}", kind.value_type)]
        if within[0][0] not in stored:
            yield "lists of two levels" if has_two_levels(kind) else "lists without the group list"
            return
    for inner, inner_kind in within:
        yield from _iter_misnamed(inner, inner_kind, stored)


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
