"""The key ranges and Bloom filters of base files in the metadata table, which save reading the footer of each file.

They describe base files, which do not change, so they serve queries of earlier states too. They say nothing of log
files.

Source: ``HoodieTableMetadata.getBloomFilters`` and ``getColumnStats`` of Hudi.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.indexes.bloom_filter import BloomFilter, parse_bloom_filter
from hudi_bridge.indexes.data_skipping import stats_of_files
from hudi_bridge.indexes.footer_index import FooterIndex, LookupKeys
from hudi_bridge.indexes.metadata_table import Answer, IndexPartition, MetadataTable, why_not_there
from hudi_bridge.indexes.record_kinds import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FIRST_REORDERED,
    KEY,
    column_id,
    file_id,
    partition_id,
)
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.timeline import TableState

FileName: TypeAlias = tuple[str, str]
"""The path of a partition, and the name of a base file in it."""

KEY_RANGES = pa.schema([pa.field("low", pa.string()), pa.field("high", pa.string())])
"""The least and the greatest record key of a file, null where unknown."""
_REORDERED = rf"[\x{{{ord(FIRST_REORDERED):X}}}-\x{{10FFFF}}]"
"""A text without such a character has one order, whichever way its writer compares texts."""
_LOG = logging.getLogger(__name__)
_FEW_FILES = 8
"""Reading so few footers is faster than reading the metadata table, which has a timeline and some files."""
_RANGES = "key ranges of base files"
_PATH = pa.field("path", pa.string())
_BYTES_OF_ANY = 512
"""What an entry counts in the cache besides its filter: about its key and its objects."""


def key_ranges(table: MetadataTable, files: Sequence[FileName]) -> pa.Table:
    """The ranges of the record keys of base files, in their order, as ``KEY_RANGES``.

    Whatever order the writer compared keys by, they are also ranges in the order of UTF-8 bytes. No key is null, so
    counted nulls are the keys of row groups without statistics (``counted_nulls``): the range is unknown.

    Raises:
        CorruptTableError: the column stats are damaged.
        StorageError: they cannot be read.
    """
    column = column_id(RECORD_KEY_COLUMN)
    keys = [f"{column}{key}" for key in _keys(files)]
    stats = stats_of_files(table, RECORD_KEY_COLUMN, keys)
    ends: list[Any] = [pc.struct_field(stats.column(f"{end}_value"), "string") for end in ("min", "max")]
    other_orders = pc.or_(*(pc.match_substring_regex(end, _REORDERED) for end in ends))
    is_whole: Any = pc.equal(stats.column("null_count"), pa.scalar(0, pa.int64()))
    is_known: Any = pc.and_(pc.invert(other_orders), is_whole).fill_null(fill_value=False)
    by_row = pa.table([pc.if_else(is_known, end, None) for end in ends], schema=KEY_RANGES)
    return by_row.take(pc.index_in(pa.array(keys, pa.string()), stats.column(KEY).combine_chunks()))


def stored_filters(table: MetadataTable, files: Sequence[FileName]) -> list[tuple[str, bytes] | None]:
    """The type and text of the Bloom filters of base files, as footers have them; None where there is none.

    Raises:
        CorruptTableError: the Bloom filters are damaged.
        StorageError: they cannot be read.
    """
    records = table.of_keys(BLOOM_FILTERS, keys := list(_keys(files)))
    columns = (records.column(name).to_pylist() for name in (KEY, "type", "filter"))
    # A file without a filter has an empty one.
    by_key = {key: (kind, text) for key, kind, text in zip(*columns, strict=True) if kind and text}
    return [by_key.get(key) for key in keys]


def _keys(files: Iterable[FileName]) -> Iterable[str]:
    return (f"{partition_id(path)}{file_id(name)}" for path, name in files)


class KeyIndexOfTable:
    """The key ranges and Bloom filters in the metadata table of a table.

    The footers of base files have both too, so the metadata table is used only for more than a few files.
    """

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable]) -> None:
        """The indexes of a state, whose metadata table is opened when it is first needed."""
        self._partitions: dict[str, IndexPartition] = {}
        for name in (COLUMN_STATS, BLOOM_FILTERS):
            report = partial(_LOG.warning, "%s of the metadata table are not used to look up keys: %s", name)
            self._partitions[name] = IndexPartition(metadata, name, _why_not_there(state, name), report)
        self._missing = {name for name, index in self._partitions.items() if index.why_not is not None}

    @property
    def why_not(self) -> Mapping[str, str]:
        """Why existing partitions of the metadata table cannot be used, by partition."""
        reasons = ((name, index.why_not) for name, index in self._partitions.items() if name not in self._missing)
        return {name: reason for name, reason in reasons if reason is not None}

    def may_hold(
        self, storage: Storage, splits: Sequence[RealtimeFileSplit], keys: LookupKeys
    ) -> Sequence[bool | None]:
        """Whether the base file of each split, which has one, may hold one of the keys; None if it is not known."""
        verdicts: list[bool | None] = [None] * len(splits)
        ranges = self._ranges(storage, splits)
        is_outside = _are_outside(ranges, keys)
        for position in np.flatnonzero(is_outside).tolist():
            verdicts[position] = False
        inside = np.flatnonzero(~is_outside).tolist()
        filters = self._filters(storage, [splits[position] for position in inside])
        for position, bloom_filter in zip(inside, filters, strict=True):
            if bloom_filter is not None:
                low, high = ranges.slice(position, 1).to_pylist()[0].values()
                key_range = None if low is None else (low, high)
                may_hold = FooterIndex(key_range=key_range, bloom_filter=bloom_filter).may_hold_any(keys)
                # Where the range is not known, the footer may have it.
                verdicts[position] = None if may_hold and key_range is None else may_hold
        return verdicts

    def why_not_of(self, files: int) -> str | None:
        """Why the index, or a part of it, does not answer for this number of base files."""
        reasons = {name: index.why_not for name, index in self._partitions.items()}
        if None in reasons.values() and files <= _FEW_FILES:
            return f"the footers of so few files ({files}) are read sooner"
        if len(set(reasons.values())) == 1:
            return reasons[COLUMN_STATS]
        return "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason is not None)

    def _ranges(self, storage: Storage, splits: Sequence[RealtimeFileSplit]) -> pa.Table:
        """The key ranges of base files, null where unknown."""
        paths = pa.array([split.base_path for split in splits], pa.string())
        cached: pa.Table = storage.cache.get(_RANGES) or KEY_RANGES.append(_PATH).empty_table()
        missing = [splits[position] for position in np.flatnonzero(_positions(paths, cached).is_null()).tolist()]
        ranges = self._ask(COLUMN_STATS, missing, key_ranges)
        if ranges is not None:
            ranges = ranges.append_column(_PATH, pa.array([split.base_path for split in missing], pa.string()))
            cached = pa.concat_tables([cached, ranges]).combine_chunks()
            storage.cache.put(_RANGES, cached, cached.nbytes + _BYTES_OF_ANY)
        return cached.select(KEY_RANGES.names).take(_positions(paths, cached))

    def _filters(self, storage: Storage, splits: Sequence[RealtimeFileSplit]) -> list[BloomFilter | None]:
        """The Bloom filters of base files, None where there is none or a full one."""
        filters: list[BloomFilter | None] = [storage.cache.get(_filter_key(split)) for split in splits]
        missing = [position for position, bloom_filter in enumerate(filters) if bloom_filter is None]
        read = self._ask(BLOOM_FILTERS, [splits[position] for position in missing], _filters)
        for position, bloom_filter in zip(missing, read or (), strict=read is not None):
            if bloom_filter is not None and not bloom_filter.is_saturated:
                filters[position] = bloom_filter
                storage.cache.put(_filter_key(splits[position]), bloom_filter, bloom_filter.size_bytes + _BYTES_OF_ANY)
        return filters

    def _ask(
        self,
        partition: str,
        splits: Sequence[RealtimeFileSplit],
        question: Callable[[MetadataTable, Sequence[FileName]], Answer],
    ) -> Answer | None:
        """The answer of an index for the base files; None if there are few, or if it cannot be used."""
        if len(splits) <= _FEW_FILES:
            return None
        names = [_file_name(split) for split in splits]
        return self._partitions[partition].ask(lambda table: question(table, names))


def _why_not_there(state: TableState, partition: str) -> str | None:
    if not state.config.populates_meta_fields:
        return "the table has no meta columns, without which keys may be spelled differently"
    return why_not_there(state, partition)


def _filters(table: MetadataTable, files: Sequence[FileName]) -> list[BloomFilter | None]:
    stored = zip(files, stored_filters(table, files), strict=True)
    return [None if entry is None else parse_bloom_filter(entry[1], entry[0], name) for (_, name), entry in stored]


def _are_outside(ranges: pa.Table, keys: LookupKeys) -> npt.NDArray[np.bool_]:
    """Whether none of the keys is in a range; an unknown range may hold all of them."""
    texts = np.array(keys.texts, dtype=np.object_)
    low, high = (column.to_numpy() for column in ranges.columns)
    bounded = np.flatnonzero(ranges.column(0).is_valid())
    is_outside = np.zeros(len(ranges), np.bool_)
    is_outside[bounded] = np.searchsorted(texts, low[bounded]) == np.searchsorted(texts, high[bounded], side="right")
    return is_outside


def _positions(paths: pa.StringArray, ranges: pa.Table) -> pa.Int32Array:
    positions: pa.Int32Array = pc.index_in(paths, ranges.column(_PATH.name).combine_chunks())
    return positions


def _file_name(split: RealtimeFileSplit) -> FileName:
    return split.partition_path, str(split.base_path).rpartition("/")[2]


def _filter_key(split: RealtimeFileSplit) -> tuple[object, ...]:
    return ("key filter", split.base_path, split.base_size_bytes)
