"""Whether Spark's own Parquet reader returns the same rows of a base file as Hudi.

Spark finds columns by name, so a file whose columns were renamed or have changed types since is read by this package.
Each function returns the reason why Spark must not read, in words for users, or None.

Source: ``ParquetReadSupport`` and ``ParquetFilters`` of Spark.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from hudi_bridge.engines import StoredBaseFile
from hudi_bridge.engines.stored_base_file import in_path_and_file
from hudi_bridge.schema.avro_types import is_variant
from hudi_bridge.schema.file_columns import Outcome
from hudi_bridge.splits.split import RealtimeFileSplit

_FLAT_TYPES = (
    pa.bool_(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
)
_MILLISECONDS = (pa.timestamp("ms"), pa.timestamp("ms", "UTC"))
# Spark's own columns in a scan of files.
_SPARK_COLUMNS = ("_metadata", "_tmp_metadata_row_index")
_NULL_IN_BOTH = (Outcome.ADDED_LATER, Outcome.MISSING)
_WRITTEN_BY_JAVA = "parquet-mr"


def reason_columns_not_native(needed: pa.Schema) -> str | None:
    """The reason why Spark cannot read these columns from any file; None if it can."""
    names = [field.name for field in needed]
    if _differ_in_case_only(needed) or len({name.lower() for name in names}) < len(names):
        return "names of columns differ in nothing but case"
    for field in needed:
        if field.name.lower() in _SPARK_COLUMNS:
            return f"Spark has a column named {field.name} of its own"
        if is_variant(field) or not (field.type in _MILLISECONDS or _is_native(field.type)):
            return f"column {field.name} is of type {'variant' if is_variant(field) else field.type}"
    return None


def reason_file_not_native(split: RealtimeFileSplit, base: StoredBaseFile, needed: pa.Schema) -> str | None:
    """The reason why Spark does not return the rows of Hudi for an open base file; None if it does."""
    return (
        base.reason_unreadable(ignores_case=True)
        or _reason_misread(base, needed)
        or _reason_columns_differ(base, needed)
        or _reason_value_in_path(split, base, needed)
    )


def has_floats(kind: Any) -> bool:  # noqa: ANN401 - a type of Arrow
    """Whether a type is, or contains, one of floating-point numbers."""
    return any(pa.types.is_floating(inner) for inner in _types_within(kind))


def _is_native(kind: Any) -> bool:  # noqa: ANN401
    if pa.types.is_fixed_size_list(kind):
        return False
    if pa.types.is_nested(kind):
        return all(_is_native(child.type) for child in _children(kind))
    return kind in _FLAT_TYPES or pa.types.is_decimal128(kind)


def _reason_misread(base: StoredBaseFile, needed: pa.Schema) -> str | None:
    """The reason why Spark misreads values whatever the names and types of columns; None if it does not."""
    stored = [field for field in base.schema if field.name in needed.names]
    if _differ_in_case_only(stored):
        return "names of its columns differ in nothing but case"
    if any(has_floats(field.type) for field in stored) and not _is_by_java(base):
        # Spark skips row groups by bounds that leave NaN out, although NaN is above all numbers.
        return "bounds of its floating-point columns may leave NaN out"
    return None


def _reason_columns_differ(base: StoredBaseFile, needed: pa.Schema) -> str | None:
    stored_names, needed_names = {name.lower() for name in base.schema.names}, set(needed.names)
    for mapping in base.columns:
        if mapping.column is None:
            continue
        top = mapping.column if mapping.column in needed_names else mapping.column.partition(".")[0]
        if top not in needed_names:
            continue
        is_read = mapping.outcome is Outcome.READ and mapping.column == mapping.file_column
        is_null = mapping.outcome in _NULL_IN_BOTH and mapping.column == top and top.lower() not in stored_names
        if not (is_read or is_null):
            return f"column {mapping.column}: {mapping}"
    for field in needed:
        if field.name in base.schema.names:
            stored = base.schema.field(field.name).type
            if not _same(stored, field.type):
                return f"column {field.name}: stored as {stored}"
    return None


def _reason_value_in_path(split: RealtimeFileSplit, base: StoredBaseFile, needed: pa.Schema) -> str | None:
    if not split.path_values or not base.rows:
        return None
    is_stored_as_in_path = in_path_and_file(split, base.schema, base.footer)
    for name in split.path_values:
        if name in needed.names and not (is_stored_as_in_path[name] and name in base.schema.names):
            return f"column {name}: its value is only in the path"
    return None


def _is_by_java(base: StoredBaseFile) -> bool:
    return (base.footer.created_by or "").startswith(_WRITTEN_BY_JAVA)


def _same(stored: Any, needed: Any) -> bool:  # noqa: ANN401
    """Whether types are the same, except for the names of the elements of lists and maps."""
    if pa.types.is_struct(stored) and pa.types.is_struct(needed):
        pairs = list(zip(stored, needed, strict=False))
        return stored.num_fields == needed.num_fields and all(
            left.name == right.name and _same(left.type, right.type) for left, right in pairs
        )
    for is_kind in (pa.types.is_list, pa.types.is_map):
        if is_kind(stored) and is_kind(needed):
            pairs = list(zip(_children(stored), _children(needed), strict=True))
            return all(_same(left.type, right.type) for left, right in pairs)
    return bool(stored == needed)


def _children(kind: Any) -> "list[pa.Field[Any]]":  # noqa: ANN401
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pa.types.is_list(kind):
        return [kind.value_field]
    return list(kind) if pa.types.is_struct(kind) else []


def _types_within(kind: Any) -> Iterator[Any]:  # noqa: ANN401
    yield kind
    for child in _children(kind):
        yield from _types_within(child.type)


def _differ_in_case_only(fields: "Iterable[pa.Field[Any]]") -> bool:
    """Whether any of the fields contains a struct with two names that differ in case only."""
    for field in fields:
        for kind in _types_within(field.type):
            names = [child.name.lower() for child in kind] if pa.types.is_struct(kind) else []
            if len(set(names)) < len(names):
                return True
    return False
