"""Uses the key ranges and Bloom filters of base files in the metadata table, rather than those in each file's footer.

They describe base files, which do not change, so they serve queries of earlier states too. Of log files they say
nothing.

What the metadata table knows of the record keys of base files: their ranges, and their Bloom filters.

Source: ``HoodieTableMetadata.getBloomFilters`` and ``getColumnStats`` of Hudi.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import HudiReadError
from hudi_bridge.indexes.bloom_filter import BloomFilter, parse_bloom_filter
from hudi_bridge.indexes.data_skipping import stats_of_files
from hudi_bridge.indexes.footer_index import FooterIndex, WantedKeys
from hudi_bridge.indexes.metadata_table import MetadataTable, why_not_there
from hudi_bridge.indexes.record_kinds import BLOOM_FILTERS, COLUMN_STATS, KEY, column_id, file_id, partition_id
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.timeline import TableState

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


_LOG = logging.getLogger(__name__)
_FEW_FILES = 8
"""The footers of so many files are read sooner than the metadata table, which has a timeline and some files."""
_RANGES = "key ranges of base files"
_PATH = pa.field("path", pa.string())
_BYTES_OF_ANY = 512

_Answer = TypeVar("_Answer")


class KeyIndexOfTable:
    """The key ranges and Bloom filters that the metadata table of a table has.

    An index that cannot be used is reported once; ``why_not`` says why, by the partition of the metadata table.
    """

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable]) -> None:
        """The indexes of a state, whose metadata table is opened when it is first needed."""
        self.why_not: dict[str, str] = {}
        self._metadata = metadata
        self._not_there = {name: _why_not_there(state, name) for name in (COLUMN_STATS, BLOOM_FILTERS)}
        self._usable = {name for name, reason in self._not_there.items() if reason is None}

    def may_hold(
        self, storage: Storage, splits: Sequence[RealtimeFileSplit], wanted: WantedKeys
    ) -> Sequence[bool | None]:
        """Whether the base file of each split, which has one, may hold one of the keys; None if it is not known."""
        verdicts: list[bool | None] = [None] * len(splits)
        ranges = self._ranges(storage, splits)
        is_outside = _are_outside(ranges, wanted)
        for place in np.flatnonzero(is_outside).tolist():
            verdicts[place] = False
        inside = np.flatnonzero(~is_outside).tolist()
        filters = self._filters(storage, [splits[place] for place in inside])
        for place, bloom_filter in zip(inside, filters, strict=True):
            if bloom_filter is not None:
                low, high = ranges.slice(place, 1).to_pylist()[0].values()
                key_range = None if low is None else (low, high)
                may_hold = FooterIndex(key_range=key_range, bloom_filter=bloom_filter).may_hold_any(wanted)
                # Where the range is not known, the footer may have it.
                verdicts[place] = None if may_hold and key_range is None else may_hold
        return verdicts

    def why_not_of(self, files: int) -> str | None:
        """Why the index, or a part of it, does not tell of this number of base files."""
        reasons = {name: self.why_not.get(name, reason) for name, reason in self._not_there.items()}
        if self._usable and files <= _FEW_FILES:
            return f"the footers of so few files ({files}) are read sooner"
        if len(set(reasons.values())) == 1:
            return reasons[COLUMN_STATS]
        return "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason is not None)

    def _ranges(self, storage: Storage, splits: Sequence[RealtimeFileSplit]) -> pa.Table:
        """The key ranges of base files, null where they are not known."""
        paths = pa.array([split.base_path for split in splits], pa.string())
        known: pa.Table = storage.cache.get(_RANGES) or KEY_RANGES.append(_PATH).empty_table()
        missing = [splits[place] for place in np.flatnonzero(_places(paths, known).is_null()).tolist()]
        found = self._ask(COLUMN_STATS, missing, key_ranges)
        if found is not None:
            found = found.append_column(_PATH, pa.array([split.base_path for split in missing], pa.string()))
            known = pa.concat_tables([known, found]).combine_chunks()
            storage.cache.put(_RANGES, known, known.nbytes + _BYTES_OF_ANY)
        return known.select(KEY_RANGES.names).take(_places(paths, known))

    def _filters(self, storage: Storage, splits: Sequence[RealtimeFileSplit]) -> list[BloomFilter | None]:
        """The Bloom filters of base files, None where there is none or a full one."""
        filters: list[BloomFilter | None] = [storage.cache.get(_filter_key(split)) for split in splits]
        missing = [place for place, one in enumerate(filters) if one is None]
        found = self._ask(BLOOM_FILTERS, [splits[place] for place in missing], _filters)
        for place, one in zip(missing, found or (), strict=found is not None):
            if one is not None and not one.is_saturated:
                filters[place] = one
                storage.cache.put(_filter_key(splits[place]), one, one.size_bytes + _BYTES_OF_ANY)
        return filters

    def _ask(
        self,
        partition: str,
        splits: Sequence[RealtimeFileSplit],
        question: Callable[[MetadataTable, Sequence[FileName]], _Answer],
    ) -> _Answer | None:
        """What an index knows of the base files; None if there are few, or if it cannot be used."""
        if len(splits) <= _FEW_FILES or partition not in self._usable:
            return None
        try:
            table = self._metadata()
            table.require(partition)
            return question(table, [_file_name(split) for split in splits])
        except HudiReadError as error:
            self._usable.discard(partition)
            self.why_not[partition] = str(error)
            _LOG.warning("%s of the metadata table are not used to look up keys: %s", partition, error)
            return None


def _why_not_there(state: TableState, partition: str) -> str | None:
    if not state.config.populates_meta_fields:
        return "the table has no meta columns, without which keys may be spelled differently"
    return why_not_there(state, partition)


def _filters(table: MetadataTable, files: Sequence[FileName]) -> list[BloomFilter | None]:
    found = zip(files, stored_filters(table, files), strict=True)
    return [None if one is None else parse_bloom_filter(one[1], one[0], name) for (_, name), one in found]


def _are_outside(ranges: pa.Table, wanted: WantedKeys) -> npt.NDArray[np.bool_]:
    """Whether no wanted key is in a range; a range that is not known has all of them."""
    texts = np.array(wanted.texts, dtype=np.object_)
    low, high = (column.to_numpy() for column in ranges.columns)
    known = np.flatnonzero(ranges.column(0).is_valid())
    is_outside = np.zeros(len(ranges), np.bool_)
    is_outside[known] = np.searchsorted(texts, low[known]) == np.searchsorted(texts, high[known], side="right")
    return is_outside


def _places(paths: pa.StringArray, known: pa.Table) -> pa.Int32Array:
    places: pa.Int32Array = pc.index_in(paths, known.column(_PATH.name).combine_chunks())
    return places


def _file_name(split: RealtimeFileSplit) -> FileName:
    return split.partition_path, str(split.base_path).rpartition("/")[2]


def _filter_key(split: RealtimeFileSplit) -> tuple[object, ...]:
    return ("key filter", split.base_path, split.base_size_bytes)
