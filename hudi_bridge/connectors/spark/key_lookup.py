"""Finds the file groups that hold record keys, as a Spark job.

The record index gives candidate slices, if it can be used and there are not too many keys; otherwise key ranges of base
files and keys in logs do. Each is read once for all of its keys, with its logs
merged: a key that a log deletes is not found.

Source: ``HoodieBloomIndex``, ``HoodieGlobalBloomIndex`` and ``SparkHoodieBloomIndexHelper`` of Hudi.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col

from hudi_bridge.connectors.spark.jobs import map_one_per_task, quoted
from hudi_bridge.connectors.spark.key_ranges import KeyRange, KeyRangeTree
from hudi_bridge.connectors.spark.key_tasks import (
    ANYWHERE,
    CANDIDATES,
    FOUND,
    LOG_KEYS,
    RANGES,
    Ranges,
    Slices,
    base_candidates,
    key_ranges,
    log_keys,
    verified,
)
from hudi_bridge.connectors.spark.options import parse_options
from hudi_bridge.connectors.spark.plan import PinnedQuery, SplitPickles
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.errors import QueryError
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import PathLike, path_text

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
