"""The metadata table of a table as Arrow tables: its partitions, and the records of one of them."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from hudi_bridge.errors import HudiReadError, QueryError
from hudi_bridge.metadata.column_statistics import VALUE, values_as_text
from hudi_bridge.metadata.record_index import locations_of
from hudi_bridge.metadata.record_kinds import RECORD_INDEX
from hudi_bridge.metadata.table import MetadataTable
from hudi_bridge.table import HudiTable


def _schema(**types: Any) -> pa.Schema:  # noqa: ANN401 - pyarrow has no common class in its stubs
    return pa.schema(types)


METADATA_PARTITIONS_SCHEMA = _schema(
    partition=pa.string(),
    file_groups=pa.int64(),
    base_records=pa.int64(),
    log_records=pa.int64(),
    latest_instant=pa.string(),
    usable=pa.bool_(),
    why_not=pa.string(),
)


def inspect_metadata_table(table: HudiTable) -> pa.Table:
    """The partitions of the metadata table, complete or being built; none if the table has no metadata table.

    ``base_records`` and ``log_records`` count what is stored, before they are merged; a record of files has a row for
    each file in logs. Both are null where a partition cannot be read, and ``why_not`` says why.

    Raises:
        StorageError: the timeline of the metadata table cannot be listed.
    """
    config = table.config
    names = (*config.metadata_partitions, *config.metadata_partitions_inflight)
    if not names:
        return METADATA_PARTITIONS_SCHEMA.empty_table()
    metadata = table._metadata_table  # noqa: SLF001 - users get its records alone
    return pa.Table.from_pylist([_partition(metadata, name) for name in sorted(names)], METADATA_PARTITIONS_SCHEMA)


def _partition(metadata: MetadataTable, name: str) -> dict[str, object]:
    commit = metadata.own.timeline.latest_commit()
    row: dict[str, object] = {"partition": name, "latest_instant": None if commit is None else commit.requested_time}
    try:
        groups = [group for scope in metadata.file_groups(name).values() for group in scope]
        row |= {
            "file_groups": len(groups),
            "base_records": sum(group.base.entries for group in groups if group.base is not None),
            "log_records": sum(len(group.logs) for group in groups),
        }
        why_not = metadata.why_not(name)
    except HudiReadError as error:
        why_not = str(error)
    return row | {"usable": why_not is None, "why_not": why_not}


def inspect_metadata_records(
    table: HudiTable, partition: str, keys: Sequence[str] | None = None
) -> pa.RecordBatchReader:
    """The records in a partition of the metadata table, all or those of some keys, by file group and key.

    A record of files has a row for each file, one of the record index is shown as a location. Values of statistics are
    text.

    Raises:
        QueryError: there is no such partition.
        UnsupportedTableError: the partition is incomplete, or lacks a commit.
    """
    known = (*table.config.metadata_partitions, *table.config.metadata_partitions_inflight)
    if partition not in known:
        raise QueryError("partition", repr(partition), ", ".join(known) or "none: the table has no metadata table")
    metadata = table._metadata_table  # noqa: SLF001 - users get its records alone
    metadata.require(partition)
    kind = metadata.kind(partition)
    parts = metadata.all(partition) if keys is None else iter([metadata.of_keys(partition, keys)])
    empty = _shown(partition, kind.schema.empty_table().drop_columns("is_deleted"))
    return pa.RecordBatchReader.from_batches(empty.schema, _batches(partition, parts))


def _batches(partition: str, parts: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from _shown(partition, part).to_batches()


def _shown(partition: str, records: pa.Table) -> pa.Table:
    if partition == RECORD_INDEX:
        return locations_of(records)
    for number, field in enumerate(records.schema):
        if field.type == VALUE:
            text = values_as_text(records.column(number))
            records = records.set_column(number, pa.field(field.name, pa.string()), text)
    return records
