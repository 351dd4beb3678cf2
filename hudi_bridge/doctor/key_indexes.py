"""Compares indexes of the metadata table that lead to record keys with the files: Bloom filters, secondary indexes."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import QueryType
from hudi_bridge.dispatch import open_reader_in
from hudi_bridge.doctor.examined import Examined, Footer
from hudi_bridge.doctor.findings import Finding, Severity, listed, quoted
from hudi_bridge.errors import HudiReadError, UnsupportedTableError
from hudi_bridge.indexes.footer_index import filter_in_footer
from hudi_bridge.merge.arrays import Column
from hudi_bridge.metadata.key_statistics import stored_filters
from hudi_bridge.metadata.record_kinds import BLOOM_FILTERS, KEY, SECONDARY_INDEX
from hudi_bridge.metadata.secondary_index import stored_keys
from hudi_bridge.metadata.table import METADATA_FOLDER, MetadataTable
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN

_BLOOM, _SECONDARY = "bloom-filters", "secondary-index"
_AS_TEXT = (pa.string(), pa.int32(), pa.int64())
"""The types of columns whose values the index spells as Arrow does."""


def bloom_filters(examined: Examined) -> Iterator[Finding]:
    """The Bloom filter of a base file in the index is that of its footer: otherwise, look-ups may miss rows."""
    table = examined.metadata_table
    if table is None or BLOOM_FILTERS not in examined.config.metadata_partitions or table.why_not(BLOOM_FILTERS):
        return
    footers = {path: footer for path, footer in examined.footers.items() if isinstance(footer, Footer)}
    names = [path.rpartition("/")[::2] for path in footers]
    for (path, footer), stored in zip(footers.items(), stored_filters(table, names), strict=True):
        own = filter_in_footer(footer.entries)
        if own is not None and stored != own:
            yield Finding(
                severity=Severity.ERROR,
                check=_BLOOM,
                path=path,
                found=f"no filter of the file in {BLOOM_FILTERS}" if stored is None else f"another in {BLOOM_FILTERS}",
                expected="the Bloom filter in the footer of the file",
                remedy=f"DROP INDEX {BLOOM_FILTERS} and create it again; until then, look-ups may miss rows",
            )


def secondary_indexes(examined: Examined) -> Iterator[Finding]:
    """Each row is in the secondary indexes of its values: otherwise, filters leave it out.

    Rows without a value are not looked for: older releases do not enter them, and no filter asks for them.
    """
    table, config = examined.metadata_table, examined.config
    names = [name for name in config.metadata_partitions if name.startswith(SECONDARY_INDEX)]
    if table is None or not names or not config.populates_meta_fields:
        return
    for name in names:
        definition = table.definitions.get(name)
        schema = examined.planner.schema(QueryType.SNAPSHOT)
        if table.why_not(name) is not None or definition is None or len(definition.source_fields) != 1:
            continue
        column = definition.source_fields[0]
        if column in schema.names and schema.field(column).type in _AS_TEXT:
            yield from _of_column(examined, table, name, column)


def _of_column(examined: Examined, table: MetadataTable, name: str, column: str) -> Iterator[Finding]:
    known: Any = pa.concat_tables([part.select([KEY]) for part in table.all(name)]).column(KEY)
    missing: list[str] = []
    for all_values, all_keys in _rows(examined, column):
        values, keys = (one.filter(all_values.is_valid()) for one in (all_values, all_keys))
        expected = stored_keys(values.cast(pa.string()), keys)
        lacking = pc.invert(pc.is_in(expected, value_set=known.combine_chunks()))
        missing += [str(key) for key in keys.filter(lacking).to_pylist()]
    if missing:
        yield Finding(
            severity=Severity.ERROR,
            check=_SECONDARY,
            path=f"{METADATA_FOLDER}/{name}",
            found=f"{len(missing)} record keys that the index lacks for their values of {quoted(column)}: "
            f"{listed(sorted(missing))}",
            expected="the record keys of each value; filters of readers that use the index leave these rows out",
            remedy=f"DROP INDEX {name.removeprefix(SECONDARY_INDEX)} and create it again",
        )


def _rows(examined: Examined, column: str) -> Iterator[tuple[Column, Column]]:
    """The values of a column and the record keys of all rows; slices that cannot be read are told of elsewhere."""
    context = examined.planner.context(QueryType.SNAPSHOT)
    for number, piece in enumerate(examined.slices):
        examined.progress("values of indexes", number, len(examined.slices))
        try:
            split = examined.planner.split(piece, context)
            for batch in open_reader_in(examined.storage, split, [column, RECORD_KEY_COLUMN]).batches():
                yield batch.column(column), batch.column(RECORD_KEY_COLUMN)
        except UnsupportedTableError:
            raise
        except (HudiReadError, FileNotFoundError):
            continue
