"""Reads a snapshot as a plan of Spark: a scan of the base files, without the rows that logs delete or replace, and the
rows that come instead.

One Spark job merges the logs of all slices; of base files with logs it reads keys and ordering values. Its result is
kept for all actions. Slices that Spark would misread are read as by ``spark.read.format("hudi_bridge")``.

Which base files of a query Spark may read, as far as that is known before they are opened.

Which file slices of a DataFrame Spark reads itself, and why it does not read the others.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import reduce
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast

from hudi_bridge.connectors.spark.jobs import frame_of
from hudi_bridge.connectors.spark.kept_rows import KeptBatches, run_and_keep
from hudi_bridge.connectors.spark.native_columns import why_none_is_native
from hudi_bridge.connectors.spark.native_files import NativeFiles, cause_of, remember
from hudi_bridge.connectors.spark.native_scan import BaseFileScans, NotNativeError, SparkFolder, with_values_of
from hudi_bridge.connectors.spark.plan import ListedSplit, Listing, pack
from hudi_bridge.connectors.spark.slice_deltas import (
    BLOCKS,
    BLOCKS_SCHEMA,
    MOST_FILES,
    PREFIX,
    ROWS,
    DeltaJob,
    DeltaTask,
    MergedSlice,
    without_bits,
    without_deleted,
)
from hudi_bridge.connectors.spark.types import spark_schema
from hudi_bridge.errors import QueryError

_SOURCES_OF_FIRST_VERSION = "spark.sql.sources.useV1SourceList"


def folder_if_native(spark: SparkSession, listing: Listing) -> SparkFolder:
    """The folder of the table for Spark.

    Raises:
        NotNativeError: Spark can read no file of the query.
    """
    files, most = sum(split.base_path is not None for split in listing.splits), listing.options.native_files
    if files > most:
        raise NotNativeError(f"the query has more than {most} base files (maxNativeFiles)")
    if (reason := why_none_is_native(listing.reading.schema)) is not None:
        raise NotNativeError(reason)
    if any(name.lower().startswith(PREFIX) for name in listing.reading.schema.names):
        raise NotNativeError(f"names of columns begin with {PREFIX}")
    if listing.options.storage_options:
        # They may say where a bucket is, not only who may read it.
        raise NotNativeError("Spark's own reader does not know the storage options")
    if "parquet" not in str(spark.conf.get(_SOURCES_OF_FIRST_VERSION)).lower().split(","):
        raise NotNativeError(f"{_SOURCES_OF_FIRST_VERSION} leaves out parquet")
    return SparkFolder.of(spark, listing.options.path)


def reasons_by_place(folder: SparkFolder, listing: Listing) -> Mapping[int, str]:
    """The slices whose base files Spark cannot be told of, by their places, with the reasons."""
    times = Counter(_name(split) for split in listing.splits if split.base_path is not None)
    reasons = {}
    for place, split in enumerate(listing.splits):
        if split.base_path is None:
            continue
        reason = folder.why_not(split.base_path)
        if reason is None and times[_name(split)] > 1:
            reason = "another base file has the same name"
        if reason is not None:
            reasons[place] = reason
    return reasons


def _name(split: ListedSplit) -> str:
    return (split.base_path or "").rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRoutes:
    """How the file slices of a DataFrame are read.

    ``native`` is the number of those whose base file Spark reads itself, or that have none. All rows of the others pass
    through this package's reader: ``others`` has their number by reason.
    """

    native: int
    others: Mapping[str, int]


_ROUTES: "WeakKeyDictionary[DataFrame, SliceRoutes]" = WeakKeyDictionary()


def note_routes(frame: DataFrame, routes: SliceRoutes) -> DataFrame:
    """The DataFrame, of which ``slice_routes`` knows from now on."""
    _ROUTES[frame] = routes
    return frame


def slice_routes(frame: DataFrame) -> SliceRoutes:
    """How the file slices of a DataFrame that ``read`` has returned are read.

    Raises:
        QueryError: ``read`` has not returned this DataFrame, or it is not a snapshot.
    """
    try:
        return _ROUTES[frame]
    except KeyError:
        raise QueryError("frame", "another DataFrame", "what read() has returned for a snapshot") from None


_LOG = logging.getLogger(__name__)

# About what opening a base file costs, as bytes of a task.
_WEIGHT_OF_FOOTER = 1 << 18
# Blocks of deleted positions: how many pass through the driver into the plan, and how many into each executor.
_MOST_TOLD = 10_000
_MOST_BROADCAST = 100_000
_BLOCK_BYTES = 400


class _Deletes(Enum):
    """How the rows of a base file that logs delete are told."""

    NONE = auto()
    BITS = auto()
    BLOCKS = auto()


def snapshot_frame(spark: SparkSession, listing: Listing) -> tuple[DataFrame, SliceRoutes]:
    """The rows of a snapshot or a read-optimized query, and how they are read; logs are merged before this returns.

    Raises:
        pyspark.errors.PySparkException: the job has failed; ``cause_of`` has the cause.
        DataFileGoneError: a base file has been removed.
    """
    parts: list[DataFrame] = []
    try:
        folder = folder_if_native(spark, listing)
    except NotNativeError as reason:
        reasons: Mapping[int, str] = dict.fromkeys(range(len(listing.splits)), str(reason))
    else:
        reasons = reasons_by_place(folder, listing)
        places = [place for place in range(len(listing.splits)) if place not in reasons]
        if places:
            scans = BaseFileScans(spark, listing.reading.schema)
            merged = _merged(spark, listing, places, lambda: _expect_scans(scans, listing, folder, places))
            slices = merged.reports
            reasons = {**reasons, **{place: one.reason for place, one in slices.items() if one.reason is not None}}
            remember(_native_files(listing, slices))
            try:
                parts += _native_parts(spark, listing, folder, merged, scans)
            except AnalysisException as error:
                # Spark looks for the files at once.
                raise cause_of(error) or error from error
    if reasons or not parts:
        others = replace(listing, splits=tuple(listing.splits[place] for place in sorted(reasons)))
        parts.append(frame_of(spark, others.plan(spark.sparkContext.defaultParallelism)))
    routes = SliceRoutes(native=len(listing.splits) - len(reasons), others=Counter(reasons.values()))
    if reasons:
        _LOG.info("%d slices are read by Spark itself, others not: %s", routes.native, dict(routes.others))
    return reduce(DataFrame.unionByName, parts), routes


def _merged(
    spark: SparkSession, listing: Listing, places: Sequence[int], meanwhile: Callable[[], object]
) -> KeptBatches[MergedSlice]:
    """What the logs of the slices at some places do."""
    splits = [listing.splits[place] for place in places]
    weights = [split.weight if split.has_logs else _WEIGHT_OF_FOOTER for split in splits]
    cores = spark.sparkContext.defaultParallelism
    groups = pack(weights, listing.options.partition_bytes, cores)
    tasks: list[DeltaTask] = [tuple((places[index], splits[index].pickled) for index in group) for group in groups]
    job = DeltaJob(
        reading=listing.reading,
        most_blocks=_MOST_TOLD // len(tasks),
        few_files=sum(split.has_logs and split.base_path is not None for split in splits) <= MOST_FILES,
        # Cores without a task are free for the threads of others.
        use_threads=2 * len(tasks) <= cores,
    )
    return run_and_keep(spark, tasks, job, meanwhile)


def _expect_scans(scans: BaseFileScans, listing: Listing, folder: SparkFolder, places: Sequence[int]) -> None:
    """Makes the scans that are needed if Spark can read all base files, and logs delete or replace rows of theirs."""
    for has_logs in (False, True):
        splits = [listing.splits[place] for place in places if listing.splits[place].has_logs == has_logs]
        scans.expect([f"{folder.path}/{split.base_path}" for split in splits if split.base_path is not None])


def _native_files(listing: Listing, slices: Mapping[int, MergedSlice]) -> NativeFiles:
    splits = [listing.splits[place] for place, one in slices.items() if one.left]
    by_name = {(split.base_path or "").rpartition("/")[2]: split.pickled for split in splits}
    return NativeFiles(contexts=listing.reading.contexts, slices=by_name)


def _native_parts(
    spark: SparkSession, listing: Listing, folder: SparkFolder, merged: KeptBatches[MergedSlice], scans: BaseFileScans
) -> Iterator[DataFrame]:
    schema = listing.reading.schema
    paths: dict[_Deletes, list[str]] = {}
    for place, one in sorted(merged.reports.items()):
        if one.left:
            deletes = _Deletes.NONE if not one.deleted else _Deletes.BITS if one.in_bits else _Deletes.BLOCKS
            paths.setdefault(deletes, []).append(f"{folder.path}/{listing.splits[place].base_path}")
    for deletes, of_scan in paths.items():
        scan = scans.of(of_scan)
        if deletes is _Deletes.BITS:
            files = [path.rpartition("/")[2] for path in of_scan]
            scan = without_bits(spark, scan, files, merged.told_rows(BLOCKS_SCHEMA))
        elif deletes is _Deletes.BLOCKS:
            blocks, kept = merged.told(BLOCKS_SCHEMA), sum(one.blocks_kept for one in merged.reports.values())
            if kept:
                blocks = blocks.unionByName(merged.rows(BLOCKS, BLOCKS_SCHEMA, kept * _BLOCK_BYTES))
            scan = without_deleted(scan, broadcast(blocks) if kept <= _MOST_BROADCAST else blocks)
        yield with_values_of(schema, scan)
    if any(one.added for one in merged.reports.values()):
        yield merged.rows(ROWS, spark_schema(schema), sum(one.added_bytes for one in merged.reports.values()))
