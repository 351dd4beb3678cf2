"""Finds the file groups that hold record keys, as a Spark job (``locate_keys``).

1. Candidates, pairs of a key and the index of a file slice in the plan, come from the record index, if it can be used
   and there are not too many keys. Otherwise they come from the key ranges of base files, held in an interval tree on
   the driver, and from the keys in logs.
2. Each candidate slice is read once for all of its keys, with its logs merged: a key that a log deletes is not found.

Writers of Avro records compare keys by UTF-16 code units, the row writer of Spark by UTF-8 bytes. Where these orders
differ, a key is looked up in both.

Source: ``HoodieBloomIndex``, ``HoodieGlobalBloomIndex``, ``SparkHoodieBloomIndexHelper``,
``IntervalTreeBasedIndexFileFilter`` and ``KeyRangeLookupTree`` of Hudi.
"""

import os
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col

from hudi_bridge.connectors.spark.errors import noting_error_details
from hudi_bridge.connectors.spark.jobs import map_one_per_task, quoted
from hudi_bridge.connectors.spark.options import parse_options
from hudi_bridge.connectors.spark.plan import PinnedQuery, SplitPickles, load_split
from hudi_bridge.connectors.spark.sessions import context_of, on_workers
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.engines.log_blocks import base_key_range, existing_keys, log_record_keys
from hudi_bridge.errors import QueryError
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.storage import PathLike, path_text

# Below this character, both orders are the same.
_FIRST_THAT_DIFFERS = "\ue000"
_UTF8, _UTF16 = "utf-8", "utf-16-be"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The least and greatest key of a file, both inclusive, and the index of the file."""

    least: str
    greatest: str
    index: int


@dataclass(frozen=True, slots=True)
class _Interval:
    least: bytes
    greatest: bytes
    index: int


@dataclass(frozen=True, slots=True)
class _Node:
    """The ranges that contain ``middle``; those wholly below or above it are in the subtrees.

    ``starts`` and ``ends`` are ascending; ``indexes_by_start`` and ``indexes_by_end`` are parallel to them.
    """

    middle: bytes
    starts: tuple[bytes, ...]
    indexes_by_start: tuple[int, ...]
    ends: tuple[bytes, ...]
    indexes_by_end: tuple[int, ...]
    below: "_Node | None"
    above: "_Node | None"


@dataclass(frozen=True, slots=True)
class KeyRangeTree:
    """An interval tree that finds the files whose key range includes a key."""

    _trees: tuple[tuple[str, _Node | None], ...]

    @classmethod
    def of(cls, ranges: Sequence[KeyRange]) -> Self:
        """Builds the tree."""
        orders_differ = any(max(keys.least + keys.greatest, default="") >= _FIRST_THAT_DIFFERS for keys in ranges)
        orders = (_UTF8, _UTF16) if orders_differ else (_UTF8,)
        return cls(tuple((order, _build([_interval(keys, order) for keys in ranges])) for order in orders))

    def indexes(self, key: str) -> list[int]:
        """The indexes of the files whose range includes a key, ascending."""
        return sorted({index for order, root in self._trees for index in _stab(root, _encoded(key, order))})


def _encoded(text: str, order: str) -> bytes:
    return text.encode(order, "surrogatepass")


def _interval(keys: KeyRange, order: str) -> _Interval:
    return _Interval(_encoded(keys.least, order), _encoded(keys.greatest, order), keys.index)


def _build(intervals: Sequence[_Interval]) -> _Node | None:
    # An interval that ends before it begins holds no key in this order.
    intervals = [interval for interval in intervals if interval.least <= interval.greatest]
    if not intervals:
        return None
    ends = sorted(end for interval in intervals for end in (interval.least, interval.greatest))
    middle = ends[len(ends) // 2]
    here = [interval for interval in intervals if interval.least <= middle <= interval.greatest]
    by_start = sorted(here, key=lambda interval: interval.least)
    by_end = sorted(here, key=lambda interval: interval.greatest)
    return _Node(
        middle,
        tuple(interval.least for interval in by_start),
        tuple(interval.index for interval in by_start),
        tuple(interval.greatest for interval in by_end),
        tuple(interval.index for interval in by_end),
        _build([interval for interval in intervals if interval.greatest < middle]),
        _build([interval for interval in intervals if interval.least > middle]),
    )


def _stab(node: _Node | None, key: bytes) -> Iterator[int]:
    while node is not None:
        if key < node.middle:
            yield from node.indexes_by_start[: bisect_right(node.starts, key)]
            node = node.below
        else:
            yield from node.indexes_by_end[bisect_left(node.ends, key) :]
            node = node.above if key > node.middle else None


ANYWHERE = ""
"""Stands for all partitions, where keys are given without partition paths."""

RANGES = "slice_index int, least string, greatest string"
CANDIDATES = "record_key string, slice_index int"
LOG_KEYS = "matched_key string, partition_path string, slice_index int"
MATCHES = "matched_key string, partition_path string, file_id string, instant string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """The file slices of a plan, each pickled without the context that they share."""

    context: ReadContext
    pickled: tuple[bytes, ...]

    def split(self, index: int) -> RealtimeFileSplit:
        """The file slice at an index."""
        split = load_split(self.pickled[index], (self.context,))
        assert isinstance(split, RealtimeFileSplit)
        return split


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """The key ranges of base files by partition path; ``unknown`` are the slices whose base file stores no range."""

    trees: Mapping[str, KeyRangeTree]
    unknown: Mapping[str, tuple[int, ...]]

    def indexes(self, record_key: str, partition_path: str) -> Iterator[int]:
        """The indexes of the slices whose base file may hold a key."""
        yield from self.unknown.get(partition_path, ())
        if partition_path in self.trees:
            yield from self.trees[partition_path].indexes(record_key)


def key_ranges(slices: Slices, indexes: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """The key range of each base file; null for a base file that stores none."""
    storage = slices.context.open_storage()
    with noting_error_details():
        for index in indexes:
            split = slices.split(index)
            least, greatest = base_key_range(storage, split) or (None, None)
            yield _batch(slice_index=pa.array([index], pa.int32()), least=_texts([least]), greatest=_texts([greatest]))


def log_keys(slices: Slices, indexes: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """The keys of the records that the logs of each slice insert or update."""
    storage = slices.context.open_storage()
    with noting_error_details():
        for index in indexes:
            split = slices.split(index)
            for keys in log_record_keys(storage, split, at_once=os.cpu_count() or 1):
                yield _batch(
                    matched_key=keys,
                    partition_path=pa.repeat(split.partition_path, len(keys)),
                    slice_index=pa.repeat(pa.scalar(index, pa.int32()), len(keys)),
                )


def base_candidates(ranges: Ranges, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The slices whose base file may hold each key; an optional second column holds the partition path of the key."""
    for batch in batches:
        keys = batch.column(0).to_pylist()
        partitions = batch.column(1).to_pylist() if batch.num_columns > 1 else [ANYWHERE] * len(keys)
        candidate_keys: list[str] = []
        candidate_indexes: list[int] = []
        for key, partition_path in zip(keys, partitions, strict=True):
            if key is not None and partition_path is not None:
                indexes = list(ranges.indexes(key, partition_path))
                candidate_keys += [key] * len(indexes)
                candidate_indexes += indexes
        yield _batch(record_key=_texts(candidate_keys), slice_index=pa.array(candidate_indexes, pa.int32()))


def verified(slices: Slices, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The candidates whose slice holds the record; the input must be sorted by ``slice_index``."""
    storage = slices.context.open_storage()
    pairs: Iterator[tuple[Any, Any]] = (
        pair for batch in batches for pair in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
    )
    with noting_error_details():
        for index, group in groupby(pairs, key=itemgetter(1)):
            split = slices.split(index)
            key_arrays = existing_keys(storage, split, [key for key, _ in group], at_once=os.cpu_count() or 1)
            keys = pa.concat_arrays(list(key_arrays) or [_texts([])])
            yield _batch(
                matched_key=keys,
                partition_path=pa.repeat(split.partition_path, len(keys)),
                file_id=pa.repeat(split.file_id, len(keys)),
                instant=pa.repeat(split.base_instant_time, len(keys)),
            )


def _texts(values: Sequence[str | None]) -> "pa.Array[pa.StringScalar]":
    return pa.array(values, pa.string())


def _batch(**columns: "pa.Array[pa.Scalar]") -> pa.RecordBatch:  # type: ignore[type-arg]
    return pa.record_batch(list(columns.values()), names=list(columns))


_SLICES_PER_TASK = 64
_MAX_KEYS_BY_INDEX = 100_000
_LOCATION = ("partition_path", "file_id", "instant")


def locate_keys(
    spark: SparkSession,
    path: PathLike,
    keys: DataFrame,
    *,
    key_column: str | None = None,
    partition_column: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The file group that holds each record key in the newest snapshot.

    ``key_column`` (by default the first column of ``keys``) holds keys as in ``_hoodie_record_key``. With
    ``partition_column``, which holds partition paths, each key is looked up in its partition only. Without it, each key
    is looked up in all partitions and returned once for each partition that has it. ``options`` are those of ``read``;
    ``as.of.instant`` chooses another snapshot.

    The columns are ``record_key``, ``partition_path``, ``file_id`` and ``instant``, the base instant of the file slice.
    The last three are null for a key that no file group holds. Duplicate keys are looked up once. A global record index
    knows one place of a key, so only that one is found.

    Raises:
        QueryError: ``keys`` has no such column, or PySpark is too old for Spark Connect.
        TableNotFoundError: there is no Hudi table.
        UnsupportedTableError: the table uses something that cannot be read correctly.
    """
    context_of(spark)  # refuses sessions of Spark Connect of PySpark 3.5
    query = PinnedQuery.of(parse_options({**(options or {}), "path": path_text(path)}))
    distinct_keys = _distinct_keys(keys, key_column, partition_column)
    dataset = query.dataset
    splits = [file_slice for split in dataset.splits() for file_slice in split.slices]
    query.table.require_files_of(dataset.instant)
    if not splits:
        return distinct_keys.selectExpr("record_key", *(f"CAST(NULL AS STRING) AS {name}" for name in _LOCATION))
    pickles = SplitPickles()
    slices = Slices(context=splits[0].context, pickled=tuple(pickles.dump(split) for split in splits))
    by_partition = partition_column is not None
    indexed = _by_record_index(spark, dataset, splits, distinct_keys)
    if indexed is not None:
        distinct_keys, candidates = indexed
    else:
        ranges = _read_ranges(spark, slices, splits, by_partition=by_partition)
        candidates = distinct_keys.mapInArrow(on_workers(partial(base_candidates, ranges)), CANDIDATES)
        if any(split.log_paths for split in splits):
            candidates = candidates.union(
                _log_candidates(spark, slices, splits, distinct_keys, by_partition=by_partition)
            )
    # The shuffle brings all keys of a slice to one task, where the slice is read once.
    grouped = candidates.distinct().repartition("slice_index").sortWithinPartitions("slice_index")
    matches = grouped.mapInArrow(on_workers(partial(verified, slices)), MATCHES)
    is_same_key = _is_same_key(by_partition=by_partition)
    return distinct_keys.join(matches, is_same_key, "left").select("record_key", *_LOCATION)


def _distinct_keys(keys: DataFrame, key_column: str | None, partition_column: str | None) -> DataFrame:
    """The distinct keys as text, with their partition paths if ``partition_column`` is given."""
    names = {"record_key": key_column or keys.columns[0]}
    if partition_column is not None:
        names["given_partition"] = partition_column
    for name in names.values():
        if name not in keys.columns:
            raise QueryError("keys", f"no column {name!r}", f"a column among {', '.join(keys.columns)}")
    return keys.select([col(quoted(name)).cast("string").alias(alias) for alias, name in names.items()]).distinct()


def _by_record_index(
    spark: SparkSession, dataset: HudiDataset, splits: Sequence[RealtimeFileSplit], distinct_keys: DataFrame
) -> tuple[DataFrame, DataFrame] | None:
    """The keys and their candidate slices by the record index; None if it cannot tell, or there are too many keys.

    The keys are taken to the driver, and not computed again, as that might give others.
    """
    if dataset.record_locations([]) is None:
        return None
    rows = distinct_keys.limit(_MAX_KEYS_BY_INDEX + 1).collect()
    if len(rows) > _MAX_KEYS_BY_INDEX:
        return None
    locations = dataset.record_locations([row.record_key for row in rows if row.record_key is not None])
    if locations is None:
        return None
    indexes = {(split.partition_path, split.file_id): index for index, split in enumerate(splits)}
    located = ((row["key"], indexes.get((row["partition"], row["file_id"]))) for row in locations.to_pylist())
    pairs = [(key, index) for key, index in located if index is not None]
    return spark.createDataFrame(rows, distinct_keys.schema), spark.createDataFrame(pairs, CANDIDATES)


def _read_ranges(
    spark: SparkSession, slices: Slices, splits: Sequence[RealtimeFileSplit], *, by_partition: bool
) -> Ranges:
    """The key ranges of all base files; a Spark job reads the footers."""
    indexes = [index for index, split in enumerate(splits) if split.base_path is not None]
    ranges: dict[str, list[KeyRange]] = defaultdict(list)
    unknown: dict[str, list[int]] = defaultdict(list)
    for row in map_one_per_task(spark, _groups(indexes), partial(key_ranges, slices), RANGES).collect():
        partition_path = splits[row.slice_index].partition_path if by_partition else ANYWHERE
        if row.least is None:
            unknown[partition_path].append(row.slice_index)
        else:
            ranges[partition_path].append(KeyRange(least=row.least, greatest=row.greatest, index=row.slice_index))
    return Ranges(
        trees={partition_path: KeyRangeTree.of(keys) for partition_path, keys in ranges.items()},
        unknown={partition_path: tuple(indexes) for partition_path, indexes in unknown.items()},
    )


def _log_candidates(
    spark: SparkSession,
    slices: Slices,
    splits: Sequence[RealtimeFileSplit],
    distinct_keys: DataFrame,
    *,
    by_partition: bool,
) -> DataFrame:
    indexes = [index for index, split in enumerate(splits) if split.log_paths]
    in_logs = map_one_per_task(spark, _groups(indexes), partial(log_keys, slices), LOG_KEYS)
    return distinct_keys.join(in_logs, _is_same_key(by_partition=by_partition)).select("record_key", "slice_index")


def _is_same_key(*, by_partition: bool) -> Column:
    is_same = col("record_key") == col("matched_key")
    return is_same & (col("given_partition") == col("partition_path")) if by_partition else is_same


def _groups(indexes: Sequence[int]) -> Sequence[tuple[int, ...]]:
    return [tuple(indexes[start : start + _SLICES_PER_TASK]) for start in range(0, len(indexes), _SLICES_PER_TASK)]
