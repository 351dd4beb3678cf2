"""Reads a snapshot as a plan of Spark: a scan of the base files, without the rows that logs delete or replace, and the
rows that come instead.

One Spark job merges the logs of all slices; of base files with logs it reads keys and ordering values. Its result is
kept for all actions. Slices that Spark would misread are read as by ``spark.read.format("hudi_bridge")``.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast

from hudi_bridge.connectors.spark.deleted_bits import MOST_FILES, without_bits
from hudi_bridge.connectors.spark.delta_columns import BLOCKS_SCHEMA, without_deleted
from hudi_bridge.connectors.spark.errors import cause_of
from hudi_bridge.connectors.spark.jobs import frame_of
from hudi_bridge.connectors.spark.kept_rows import KeptBatches, run_and_keep
from hudi_bridge.connectors.spark.native_choice import folder_if_native, reasons_by_place
from hudi_bridge.connectors.spark.native_files import NativeFiles, remember
from hudi_bridge.connectors.spark.native_location import NotNativeError, SparkFolder
from hudi_bridge.connectors.spark.native_scan import BaseFileScans, with_values_of
from hudi_bridge.connectors.spark.plan import Listing, pack
from hudi_bridge.connectors.spark.routes import SliceRoutes
from hudi_bridge.connectors.spark.slice_deltas import BLOCKS, ROWS, DeltaJob, DeltaTask, MergedSlice
from hudi_bridge.connectors.spark.types import spark_schema

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
