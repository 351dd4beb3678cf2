"""Finds the file groups that hold record keys, as a Spark job.

The record index gives candidate slices, if it can be used and there are not too many keys; otherwise key ranges of base
files and keys in logs do. Each is read once for all of its keys, with its logs
merged: a key that a log deletes is not found.

Source: ``HoodieBloomIndex``, ``HoodieGlobalBloomIndex`` and ``SparkHoodieBloomIndexHelper`` of Hudi.

An interval tree that finds the base files whose key range includes a key.

Writers of Avro records compare keys by UTF-16 code units, the row writer of Spark by UTF-8 bytes. Where these orders
differ, a key is looked up in both.

Source: ``IntervalTreeBasedIndexFileFilter`` and ``KeyRangeLookupTree`` of Hudi.

The steps of a key look-up that run on executors.

A candidate is a record key and the place (index) of a file slice in the plan.
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

from hudi_bridge.connectors.spark.jobs import map_one_per_task, quoted
from hudi_bridge.connectors.spark.native_files import noting_error_details
from hudi_bridge.connectors.spark.options import parse_options
from hudi_bridge.connectors.spark.plan import PinnedQuery, SplitPickles, load_split
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.engines.log_blocks import base_key_range, held_keys, log_record_keys
from hudi_bridge.errors import QueryError
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.storage import PathLike, path_text

# Below this character, both orders are the same.
_FIRST_THAT_DIFFERS = "\ue000"
_UTF8, _UTF16 = "utf-8", "utf-16-be"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The least and greatest key of a file, both inclusive; ``place`` is the index of the file."""

    least: str
    greatest: str
    place: int


@dataclass(frozen=True, slots=True)
class _Interval:
    least: bytes
    greatest: bytes
    place: int


@dataclass(frozen=True, slots=True)
class _Node:
    """The ranges that contain ``middle``; those wholly below or above it are in the subtrees.

    ``starts`` and ``ends`` are ascending; ``places_by_start`` and ``places_by_end`` are parallel to them.
    """

    middle: bytes
    starts: tuple[bytes, ...]
    places_by_start: tuple[int, ...]
    ends: tuple[bytes, ...]
    places_by_end: tuple[int, ...]
    below: "_Node | None"
    above: "_Node | None"


@dataclass(frozen=True, slots=True)
class KeyRangeTree:
    """Finds the ranges that include a key."""

    _trees: tuple[tuple[str, _Node | None], ...]

    @classmethod
    def of(cls, ranges: Sequence[KeyRange]) -> Self:
        """Builds the tree."""
        orders_differ = any(max(one.least + one.greatest, default="") >= _FIRST_THAT_DIFFERS for one in ranges)
        orders = (_UTF8, _UTF16) if orders_differ else (_UTF8,)
        return cls(tuple((order, _build([_interval(one, order) for one in ranges])) for order in orders))

    def places(self, key: str) -> list[int]:
        """The places of the ranges that include a key, ascending."""
        found = {place for order, root in self._trees for place in _stab(root, _encoded(key, order))}
        return sorted(found)


def _encoded(text: str, order: str) -> bytes:
    return text.encode(order, "surrogatepass")


def _interval(one: KeyRange, order: str) -> _Interval:
    return _Interval(_encoded(one.least, order), _encoded(one.greatest, order), one.place)


def _build(intervals: Sequence[_Interval]) -> _Node | None:
    # An interval that ends before it begins holds no key in this order.
    intervals = [one for one in intervals if one.least <= one.greatest]
    if not intervals:
        return None
    ends = sorted(end for one in intervals for end in (one.least, one.greatest))
    middle = ends[len(ends) // 2]
    here = [one for one in intervals if one.least <= middle <= one.greatest]
    by_start = sorted(here, key=lambda one: one.least)
    by_end = sorted(here, key=lambda one: one.greatest)
    return _Node(
        middle,
        tuple(one.least for one in by_start),
        tuple(one.place for one in by_start),
        tuple(one.greatest for one in by_end),
        tuple(one.place for one in by_end),
        _build([one for one in intervals if one.greatest < middle]),
        _build([one for one in intervals if one.least > middle]),
    )


def _stab(node: _Node | None, key: bytes) -> Iterator[int]:
    while node is not None:
        if key < node.middle:
            yield from node.places_by_start[: bisect_right(node.starts, key)]
            node = node.below
        else:
            yield from node.places_by_end[bisect_left(node.ends, key) :]
            node = node.above if key > node.middle else None


ANYWHERE = ""
"""Stands for all partitions, where keys are given without partition paths."""

RANGES = "place int, least string, greatest string"
CANDIDATES = "record_key string, place int"
LOG_KEYS = "found_key string, partition_path string, place int"
FOUND = "found_key string, partition_path string, file_id string, instant string"

_KEYS_PER_BATCH = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """The file slices of a plan, each pickled without their common context."""

    context: ReadContext
    pickled: tuple[bytes, ...]

    def split(self, place: int) -> RealtimeFileSplit:
        """The file slice at a place."""
        found = load_split(self.pickled[place], (self.context,))
        assert isinstance(found, RealtimeFileSplit)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """The key ranges of base files by partition path; ``unknown`` are the slices whose base file stores no range."""

    trees: Mapping[str, KeyRangeTree]
    unknown: Mapping[str, tuple[int, ...]]

    def places(self, record_key: str, partition_path: str) -> Iterator[int]:
        """The places of the slices whose base file may hold a key."""
        yield from self.unknown.get(partition_path, ())
        if partition_path in self.trees:
            yield from self.trees[partition_path].places(record_key)


def key_ranges(slices: Slices, places: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """The key range of each base file; null for a base file that stores none."""
    storage = slices.context.open_storage()
    with noting_error_details():
        for place in places:
            split = slices.split(place)
            least, greatest = base_key_range(storage, split) or (None, None)
            yield _batch(place=pa.array([place], pa.int32()), least=_texts([least]), greatest=_texts([greatest]))


def log_keys(slices: Slices, places: Iterable[int]) -> Iterator[pa.RecordBatch]:
    """The keys of the records that the logs of each slice insert or update."""
    storage = slices.context.open_storage()
    with noting_error_details():
        for place in places:
            split = slices.split(place)
            for keys in log_record_keys(storage, split, at_once=os.cpu_count() or 1):
                yield _batch(
                    found_key=keys,
                    partition_path=pa.repeat(split.partition_path, len(keys)),
                    place=pa.repeat(pa.scalar(place, pa.int32()), len(keys)),
                )


def base_candidates(ranges: Ranges, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The slices whose base file may hold each key; an optional second column holds the partition path of the key."""
    for batch in batches:
        keys = batch.column(0).to_pylist()
        partitions = batch.column(1).to_pylist() if batch.num_columns > 1 else [ANYWHERE] * len(keys)
        found_keys, found_places = [], []
        for key, partition_path in zip(keys, partitions, strict=True):
            if key is not None and partition_path is not None:
                places = list(ranges.places(key, partition_path))
                found_keys += [key] * len(places)
                found_places += places
        yield _batch(record_key=_texts(found_keys), place=pa.array(found_places, pa.int32()))


def verified(slices: Slices, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The candidates whose slice holds the record; the input must be sorted by place."""
    storage = slices.context.open_storage()
    pairs: Iterator[tuple[Any, Any]] = (
        pair for batch in batches for pair in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
    )
    with noting_error_details():
        for place, group in groupby(pairs, key=itemgetter(1)):
            split = slices.split(place)
            held = held_keys(storage, split, [key for key, _ in group], at_once=os.cpu_count() or 1)
            keys = pa.concat_arrays(list(held) or [_texts([])])
            yield _batch(
                found_key=keys,
                partition_path=pa.repeat(split.partition_path, len(keys)),
                file_id=pa.repeat(split.file_id, len(keys)),
                instant=pa.repeat(split.base_instant_time, len(keys)),
            )


def _texts(values: Sequence[str | None]) -> "pa.Array[pa.StringScalar]":
    return pa.array(values, pa.string())


def _batch(**columns: "pa.Array[pa.Scalar]") -> pa.RecordBatch:  # type: ignore[type-arg]
    return pa.record_batch(list(columns.values()), names=list(columns))


_SLICES_PER_TASK = 64
_MOST_KEYS_BY_INDEX = 100_000
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
        QueryError: ``keys`` has no such column.
        TableNotFoundError: there is no Hudi table.
        UnsupportedTableError: the table uses something that cannot be read correctly.
    """
    query = PinnedQuery.of(parse_options({**(options or {}), "path": path_text(path)}))
    wanted = _wanted(keys, key_column, partition_column)
    dataset = query.dataset
    splits = [piece for split in dataset.splits() for piece in split.slices]
    query.table.require_files_of(dataset.instant)
    if not splits:
        return wanted.selectExpr("record_key", *(f"CAST(NULL AS STRING) AS {name}" for name in _LOCATION))
    pickles = SplitPickles()
    slices = Slices(context=splits[0].context, pickled=tuple(pickles.dump(split) for split in splits))
    by_partition = partition_column is not None
    indexed = _by_record_index(spark, dataset, splits, wanted)
    if indexed is not None:
        wanted, candidates = indexed
    else:
        ranges = _read_ranges(spark, slices, splits, by_partition=by_partition)
        candidates = wanted.mapInArrow(partial(base_candidates, ranges), CANDIDATES)
        if any(split.log_paths for split in splits):
            candidates = candidates.union(_log_candidates(spark, slices, splits, wanted, by_partition=by_partition))
    # The shuffle brings all keys of a slice to one task, where the slice is read once.
    grouped = candidates.distinct().repartition("place").sortWithinPartitions("place")
    found = grouped.mapInArrow(partial(verified, slices), FOUND)
    same = _same_key(by_partition=by_partition)
    return wanted.join(found, same, "left").select("record_key", *_LOCATION)


def _wanted(keys: DataFrame, key_column: str | None, partition_column: str | None) -> DataFrame:
    """The distinct keys as text, with their partition paths if ``partition_column`` is given."""
    names = {"record_key": key_column or keys.columns[0]}
    if partition_column is not None:
        names["given_partition"] = partition_column
    for name in names.values():
        if name not in keys.columns:
            raise QueryError("keys", f"no column {name!r}", f"a column among {', '.join(keys.columns)}")
    return keys.select([col(quoted(name)).cast("string").alias(alias) for alias, name in names.items()]).distinct()


def _by_record_index(
    spark: SparkSession, dataset: HudiDataset, splits: Sequence[RealtimeFileSplit], wanted: DataFrame
) -> tuple[DataFrame, DataFrame] | None:
    """The keys and their candidate slices by the record index; None if it cannot tell, or there are too many keys.

    The keys are taken to the driver, and not computed again, as that might give others.
    """
    if dataset.record_locations([]) is None:
        return None
    rows = wanted.limit(_MOST_KEYS_BY_INDEX + 1).collect()
    if len(rows) > _MOST_KEYS_BY_INDEX:
        return None
    found = dataset.record_locations([row.record_key for row in rows if row.record_key is not None])
    if found is None:
        return None
    places = {(split.partition_path, split.file_id): place for place, split in enumerate(splits)}
    located = ((row["key"], places.get((row["partition"], row["file_id"]))) for row in found.to_pylist())
    pairs = [(key, place) for key, place in located if place is not None]
    return spark.createDataFrame(rows, wanted.schema), spark.createDataFrame(pairs, CANDIDATES)


def _read_ranges(
    spark: SparkSession, slices: Slices, splits: Sequence[RealtimeFileSplit], *, by_partition: bool
) -> Ranges:
    """The key ranges of all base files; a Spark job reads the footers."""
    places = [place for place, split in enumerate(splits) if split.base_path is not None]
    known: dict[str, list[KeyRange]] = defaultdict(list)
    unknown: dict[str, list[int]] = defaultdict(list)
    for row in map_one_per_task(spark, _groups(places), partial(key_ranges, slices), RANGES).collect():
        partition_path = splits[row.place].partition_path if by_partition else ANYWHERE
        if row.least is None:
            unknown[partition_path].append(row.place)
        else:
            known[partition_path].append(KeyRange(least=row.least, greatest=row.greatest, place=row.place))
    return Ranges(
        trees={partition_path: KeyRangeTree.of(found) for partition_path, found in known.items()},
        unknown={partition_path: tuple(found) for partition_path, found in unknown.items()},
    )


def _log_candidates(
    spark: SparkSession,
    slices: Slices,
    splits: Sequence[RealtimeFileSplit],
    wanted: DataFrame,
    *,
    by_partition: bool,
) -> DataFrame:
    places = [place for place, split in enumerate(splits) if split.log_paths]
    in_logs = map_one_per_task(spark, _groups(places), partial(log_keys, slices), LOG_KEYS)
    return wanted.join(in_logs, _same_key(by_partition=by_partition)).select("record_key", "place")


def _same_key(*, by_partition: bool) -> Column:
    same = col("record_key") == col("found_key")
    return same & (col("given_partition") == col("partition_path")) if by_partition else same


def _groups(places: Sequence[int]) -> Sequence[tuple[int, ...]]:
    return [tuple(places[start : start + _SLICES_PER_TASK]) for start in range(0, len(places), _SLICES_PER_TASK)]
