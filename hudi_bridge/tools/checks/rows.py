"""Deep checks, which read all rows: data that cannot be decoded, duplicate record keys, and the record index."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import QueryType
from hudi_bridge.errors import HudiReadError, QueryError, UnsupportedTableError
from hudi_bridge.indexes.metadata_table import METADATA_FOLDER, MetadataTable
from hudi_bridge.indexes.record_index import LOCATIONS, locations_of
from hudi_bridge.indexes.record_kinds import RECORD_INDEX
from hudi_bridge.readers.base_formats.footers import is_foreign
from hudi_bridge.schema.meta_columns import FILE_NAME_COLUMN, PARTITION_PATH_COLUMN
from hudi_bridge.split_reader import open_reader_in
from hudi_bridge.splits.file_slice import FileSlice
from hudi_bridge.tools.checks.examined import Examined
from hudi_bridge.tools.checks.files import foreign_rows
from hudi_bridge.tools.checks.findings import Finding, Severity, listed, of_error, remedy_of

_ROWS, _TWICE, _ACROSS, _INDEX = "rows", "keys-twice", "keys-across-partitions", "record-index"
_KEY = "_hoodie_record_key"
_KEYS = pa.schema({"key": pa.string(), "partition": pa.string(), "file_id": pa.string()})


def rows(examined: Examined) -> Iterator[Finding]:
    """Every row can be read, no key occurs twice, and the record index has the location of each.

    Holds the record keys of the table in memory.
    """
    context = examined.planner.context(QueryType.SNAPSHOT)
    key_tables: list[pa.Table] = []
    for file_slice in examined.each_slice("rows"):
        try:
            split = examined.planner.split(file_slice, context)
            foreign: dict[str, Finding] = {}
            for batch in open_reader_in(examined.storage, split).batches():
                key_tables.append(_keys(batch, file_slice))
                foreign |= {finding.found: finding for finding in _foreign(batch, file_slice)}
            if examined.config.populates_meta_fields:
                yield from foreign.values()
        except (HudiReadError, FileNotFoundError) as error:
            yield _unreadable(error, file_slice)
    if not examined.config.populates_meta_fields:
        yield Finding(severity=Severity.INFO, check=_TWICE, found="rows without record keys, which are not compared")
        return
    keys = pa.concat_tables([_KEYS.empty_table(), *key_tables])
    yield from _twice(keys)
    table = examined.metadata_table
    if (
        table is not None
        and RECORD_INDEX in examined.config.metadata_partitions
        and table.why_not(RECORD_INDEX) is None
    ):
        yield from _against_index(table, keys)


def _keys(batch: pa.RecordBatch, file_slice: FileSlice) -> pa.Table:
    count = batch.num_rows if _KEY in batch.schema.names else 0
    if not count:
        return _KEYS.empty_table()
    columns = [
        batch.column(_KEY),
        *(pa.repeat(text, count) for text in (file_slice.partition_path, file_slice.file_id)),
    ]
    return pa.table(columns, schema=_KEYS)


def _foreign(batch: pa.RecordBatch, file_slice: FileSlice) -> Iterator[Finding]:
    """Findings about rows that were written into another partition or file group, by their meta columns."""
    path = file_slice.log_files[-1].path if file_slice.base_file is None else file_slice.base_file.path
    for column, own in ((PARTITION_PATH_COLUMN, file_slice.partition_path), (FILE_NAME_COLUMN, file_slice.file_id)):
        if column in batch.schema.names:
            for text in pc.unique(batch.column(column)).to_pylist():
                if text is not None and is_foreign(column, text, own):
                    yield foreign_rows(path, column, text, own)


def _unreadable(error: Exception, file_slice: FileSlice) -> Finding:
    is_no_damage = isinstance(error, (UnsupportedTableError, QueryError))
    return of_error(
        error,
        severity=Severity.INFO if is_no_damage else Severity.ERROR,
        check=_ROWS,
        path=getattr(error, "path", None) or f"{file_slice.partition_path}/{file_slice.file_id}",
        remedy=remedy_of(error, "restore the file from a backup"),
    )


def _twice(keys: pa.Table) -> Iterator[Finding]:
    counted = keys.group_by(["partition", "key"]).aggregate([("file_id", "min"), ("key", "count")])
    twice = counted.filter(pc.greater(counted.column("key_count"), pa.scalar(1)))
    if len(twice):
        yield Finding(
            severity=Severity.WARNING,
            check=_TWICE,
            path=_group(twice, "file_id_min"),
            found=f"{len(twice)} record keys more than once in a partition: {listed(_texts(twice, 'key'))}",
            expected="each once, unless the table is written with insert or bulk_insert alone",
            remedy="compare the rows of each key, all of which readers show; once it is clear which are right, CALL "
            "repair_deduplicate(table => …, duplicated_partition_path => …, repaired_output_path => …)",
        )


def _against_index(table: MetadataTable, keys: pa.Table) -> Iterator[Finding]:
    is_global = set(table.file_groups(RECORD_INDEX)) == {""}
    if is_global:
        groups_of_key = keys.group_by("key").aggregate([("partition", "count_distinct"), ("file_id", "min")])
        across = groups_of_key.filter(pc.greater(groups_of_key.column("partition_count_distinct"), pa.scalar(1)))
        if len(across):
            yield Finding(
                severity=Severity.WARNING,
                check=_ACROSS,
                found=f"{len(across)} record keys in several partitions: {listed(_texts(across, 'key'))}",
                expected="each in one partition, since the record index is global",
                remedy="find out at the source which of the rows is right: readers show all, an upsert changes one, "
                "and look-ups by the index find one",
            )
    parts = (locations_of(part) for part in table.all(RECORD_INDEX))
    located = pa.concat_tables([LOCATIONS.empty_table(), *parts])
    on = ["key"] if is_global else ["key", "partition"]
    index = located.select(on).append_column("indexed_id", located.column("file_id"))
    both = keys.join(index, keys=on, join_type="left outer")
    missing = both.filter(pc.is_null(both.column("indexed_id")))
    is_right = pc.equal(both.column("indexed_id"), both.column("file_id"))
    # If a key has several rows, which is reported above, the index has the location of only one of them.
    elsewhere = both.filter(pc.invert(is_right))
    wrong = elsewhere.join(both.filter(is_right).select(on).group_by(on).aggregate([]), keys=on, join_type="left anti")
    for wrong_rows, what in ((missing, "that the record index lacks"), (wrong, "that the record index has elsewhere")):
        if len(wrong_rows):
            yield Finding(
                severity=Severity.ERROR,
                check=_INDEX,
                path=f"{METADATA_FOLDER}/{RECORD_INDEX}",
                found=f"{len(wrong_rows)} record keys {what}: {listed(_texts(wrong_rows, 'key'))}",
                expected="the file group of each row; look-ups miss these rows, and upserts insert them again",
                remedy="DROP INDEX record_index, and create it again",
            )


def _texts(table: pa.Table, name: str) -> list[str]:
    return sorted(str(text) for text in table.column(name).to_pylist())


def _group(table: pa.Table, file_id: str) -> str:
    partition, group = (str(table.column(name)[0].as_py()) for name in ("partition", file_id))
    return f"{partition}/{group}" if partition else group
