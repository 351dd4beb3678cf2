"""Reads the values of partition columns from partition paths.

Source: ``HoodieSparkUtils.parsePartitionColumnValues``, ``PartitionPathEncodeUtils`` and Spark's partition discovery;
``DefaultSource.createRelation`` and ``BaseFileOnlyRelation`` for the queries that read them.
"""

import re
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from hudi_bridge.config import PartitionFieldKind, QueryType, TableConfig, TableType

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")

PartitionValues: TypeAlias = "tuple[tuple[str, pa.Scalar[Any]], ...]"
"""Names and values of partition columns, in the order of the partition fields."""


class QueryColumns(NamedTuple):
    """The columns of a query with their types, and the names of those that are read from the partition path."""

    schema: pa.Schema
    from_path: tuple[str, ...]


def columns_from_path(
    config: TableConfig, query_type: QueryType, schema: pa.Schema, *, has_ids: bool
) -> tuple[str, ...]:
    """The partition columns in ``schema`` that are read from the partition path instead of the files.

    A partition field within a struct (``o.a``) is no column; its struct is read from the files.

    Hudi 1.x reads them from the path, but from the files a field that may be a formatted time, and an ordering field.
    Before 1.0, queries that read base files alone, read-optimized ones and snapshots of COPY_ON_WRITE, read them from
    the path as well, and a formatted time too, unless columns have ids (``has_ids``). If the files need not have them,
    all queries read them from the path.

    Source: ``partitionColumnsToRead`` of ``HoodieBaseHadoopFsRelationFactory``.
    """
    columns = tuple(name for name in config.partition_fields if schema.get_all_field_indices(name))
    of_base_files = query_type is QueryType.READ_OPTIMIZED or (
        query_type is QueryType.SNAPSHOT and config.table_type is TableType.COPY_ON_WRITE
    )
    if of_base_files and not has_ids and not config.written_by_1x:
        return columns
    # The files that a table was bootstrapped from need not have partition columns.
    if config.drops_partition_columns or config.bootstrap_base_path is not None:
        return columns
    if not config.written_by_1x:
        return ()
    in_files = _fields_in_files(config)
    return tuple(name for name in columns if name not in in_files)


def _fields_in_files(config: TableConfig) -> frozenset[str]:
    """The partition fields that Hudi 1.x reads from the files."""
    fields = zip(config.partition_fields, config.partition_field_kinds, strict=True)
    formatted = frozenset(name for name, kind in fields if kind is not PartitionFieldKind.SIMPLE)
    # Hudi leaves out the ordering fields if one of them is among the others.
    return formatted if formatted.intersection(config.ordering_fields) else formatted.union(config.ordering_fields)


def partition_values(
    path: str, config: TableConfig, schema: pa.Schema, path_columns: tuple[str, ...], *, encoded: bool = False
) -> "PartitionValues | None":
    """The values in a path of the partition columns in ``schema``; None if the path does not determine them.

    Columns in files that may be formatted in the path are left out.
    Rows may have others in columns that are read from the files: ``certain_values`` are those that rule out partitions.
    If there is a single partition column, a path of several levels is its value as a whole, and is not decoded; in a
    table with slash-separated dates, hyphens stand for its slashes. For ``path_columns``, a level may be ``name=value``
    whatever the table's property for it says, as in Hudi; ``encoded`` leaves their values undecoded.
    """
    fields = config.partition_fields
    if not fields:
        return ()
    levels = path.split("/")
    is_whole = len(levels) != len(fields)
    if is_whole:
        if len(fields) > 1:
            return None
        levels = [path]
    values = []
    for name, kind, level in zip(fields, config.partition_field_kinds, levels, strict=True):
        if not schema.get_all_field_indices(name):
            continue
        to_type = schema.field(name).type
        if name in path_columns:
            if is_whole:
                text = value_of_levels(level, name, config)
            else:
                bare = level.partition("=")[2] if "=" in level else level
                text = bare if encoded else _decoded(bare)
            value = _typed(text, to_type)
        elif kind is PartitionFieldKind.SIMPLE:
            bare = level.removeprefix(f"{name}=") if config.hive_style_partitioning else level
            value = _value_in_files(bare, to_type, config)
        else:
            continue
        if value is None:
            return None
        values.append((name, value))
    return tuple(values)


def certain_values(
    path: str, config: TableConfig, schema: pa.Schema, path_columns: tuple[str, ...], *, encoded: bool = False
) -> PartitionValues:
    """The values that every row of a partition has: those that are read from the path, none if it does not tell them.

    A column that is read from the files may have others, unless the reader's options promise that it has not: an index
    over all partitions leaves an updated record where it was, and file systems drop the slash of ``a/``.
    """
    values = partition_values(path, config, schema, path_columns, encoded=encoded) or ()
    return tuple((name, value) for name, value in values if config.paths_tell_values or name in path_columns)


def value_of_levels(path: str, name: str, config: TableConfig) -> str:
    """The text of the only partition column in a path of several levels, or in its first ones.

    Hudi 1.2 takes hyphens for the slashes of a table with slash-separated dates, of whatever type the column is, but
    not after ``name=``.
    """
    bare = path.removeprefix(f"{name}=")
    return bare.replace("/", "-") if config.slash_separated_dates and bare == path else bare


def _decoded(text: str) -> str:
    """The text with each escape ``%XX`` as the one character of that number, which is not UTF-8 above 7F."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def _typed(text: str, to_type: pa.DataType) -> "pa.Scalar[Any] | None":
    if text == _NULL_PARTITION:
        return pa.scalar(None, to_type)
    if pa.types.is_string(to_type):
        return pa.scalar(text, to_type)
    try:
        return pa.scalar(text, pa.string()).cast(to_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _value_in_files(text: str, to_type: pa.DataType, config: TableConfig) -> "pa.Scalar[Any] | None":
    # The null partition also holds empty strings, and other types may not be formatted as Arrow formats them. A slash
    # of slash-separated dates may be a slash or a hyphen in the files.
    exact = pa.types.is_string(to_type) or pa.types.is_integer(to_type) or pa.types.is_date32(to_type)
    if text == _NULL_PARTITION or not exact or config.slash_separated_dates:
        return None
    return _typed(_decoded(text) if config.url_encode_partitions else text, to_type)
