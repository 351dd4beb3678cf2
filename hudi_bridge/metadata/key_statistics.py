"""What the metadata table knows of the record keys of base files: their ranges, and their Bloom filters.

Source: ``HoodieTableMetadata.getBloomFilters`` and ``getColumnStats`` of Hudi.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.metadata.data_skipping import stats_of_files
from hudi_bridge.metadata.index_ids import column_id, file_id, partition_id
from hudi_bridge.metadata.record_kinds import BLOOM_FILTERS, KEY
from hudi_bridge.metadata.table import MetadataTable
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN

FileName: TypeAlias = tuple[str, str]
"""The path of a partition, and the name of a base file in it."""

KEY_RANGES = pa.schema([pa.field("low", pa.string()), pa.field("high", pa.string())])
"""The least and the greatest record key of a file, null where they are not known."""
# Below this character, all orders that writers compare texts by are the same.
_FIRST_THAT_DIFFERS = r"[\x{E000}-\x{10FFFF}]"


def key_ranges(table: MetadataTable, files: Sequence[FileName]) -> pa.Table:
    """The ranges of the record keys of base files, in their order, as ``KEY_RANGES``.

    Whatever order the writer compared keys by, they are also ranges in the order of UTF-8 bytes. No key is null.
    So what is counted as nulls are the keys of row groups without statistics (``counted_nulls``): the range is unknown.

    Raises:
        CorruptTableError: the column stats are damaged.
        StorageError: they cannot be read.
    """
    column = column_id(RECORD_KEY_COLUMN)
    keys = [f"{column}{key}" for key in _keys(files)]
    stats = stats_of_files(table, RECORD_KEY_COLUMN, keys)
    ends: list[Any] = [pc.struct_field(stats.column(f"{end}_value"), "string") for end in ("min", "max")]
    other_orders = pc.or_(*(pc.match_substring_regex(end, _FIRST_THAT_DIFFERS) for end in ends))
    is_whole: Any = pc.equal(stats.column("null_count"), pa.scalar(0, pa.int64()))
    is_known: Any = pc.and_(pc.invert(other_orders), is_whole).fill_null(fill_value=False)
    known = pa.table([pc.if_else(is_known, end, None) for end in ends], schema=KEY_RANGES)
    return known.take(pc.index_in(pa.array(keys, pa.string()), stats.column(KEY).combine_chunks()))


def stored_filters(table: MetadataTable, files: Sequence[FileName]) -> list[tuple[str, bytes] | None]:
    """The type and text of the Bloom filters of base files, as footers have them; None where there is none.

    Raises:
        CorruptTableError: the Bloom filters are damaged.
        StorageError: they cannot be read.
    """
    found = table.of_keys(BLOOM_FILTERS, keys := list(_keys(files)))
    columns = (found.column(name).to_pylist() for name in (KEY, "type", "filter"))
    # A file without a filter has an empty one.
    by_key = {key: (kind, text) for key, kind, text in zip(*columns, strict=True) if kind and text}
    return [by_key.get(key) for key in keys]


def _keys(files: Iterable[FileName]) -> Iterable[str]:
    return (f"{partition_id(path)}{file_id(name)}" for path, name in files)
