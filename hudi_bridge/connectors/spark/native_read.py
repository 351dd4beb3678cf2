"""Reads a snapshot as a plan of Spark: a scan of the base files, without the rows that logs delete or replace, and the
rows that come instead.

One Spark job merges the logs of all slices; of base files with logs it reads keys and ordering values. Its result is
kept for all actions. Slices that Spark would misread are read as by ``spark.read.format("hudi_bridge")``.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, col

from hudi_bridge.connectors.spark.deleted_bits import BITS_SCHEMA, are_few, bits_of, without_bits
from hudi_bridge.connectors.spark.delta_columns import (
    BLOCKS_SCHEMA,
    FILE,
    delta_schema,
    told_blocks,
    without_deleted,
)
from hudi_bridge.connectors.spark.errors import cause_of
from hudi_bridge.connectors.spark.jobs import frame_of
from hudi_bridge.connectors.spark.kept_rows import KeptBatches, run_and_keep
from hudi_bridge.connectors.spark.native_choice import folder_if_native, reasons_by_place
from hudi_bridge.connectors.spark.native_files import NativeFiles, remember
from hudi_bridge.connectors.spark.native_location import NotNativeError, SparkFolder
from hudi_bridge.connectors.spark.native_scan import BaseFileScans, with_values_of
from hudi_bridge.connectors.spark.plan import Listing, pack
from hudi_bridge.connectors.spark.routes import SliceRoutes
from hudi_bridge.connectors.spark.slice_deltas import DeltaJob, DeltaTask, MergedSlice

_LOG = logging.getLogger(__name__)

# About what opening a base file costs, as bytes of a task.
_WEIGHT_OF_FOOTER = 1 << 18
# Blocks of deleted positions: how many pass through the driver into the plan, and how many into each executor.
_MOST_TOLD = 10_000
_MOST_BROADCAST = 100_000
_BLOCK_BYTES = 400


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
    """What the logs of the slices at some places do; the rows have the columns of ``delta_columns``."""
    splits = [listing.splits[place] for place in places]
    weights = [split.weight if split.has_logs else _WEIGHT_OF_FOOTER for split in splits]
    cores = spark.sparkContext.defaultParallelism
    groups = pack(weights, listing.options.partition_bytes, cores)
    tasks: list[DeltaTask] = [tuple((places[index], splits[index].pickled) for index in group) for group in groups]
    # Cores without a task are free for the threads of others.
    job = DeltaJob(reading=listing.reading, most_blocks=_MOST_TOLD // len(tasks), use_threads=2 * len(tasks) <= cores)
    merged = run_and_keep(spark, tasks, job, meanwhile)
    if len(merged.reports) < len(places):
        # Spark goes on if the connection to the driver's Python breaks.
        raise PySparkException(f"found reports of {len(merged.reports)} file slices, expected {len(places)}")
    return merged


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
    slices = sorted(merged.reports.items())
    paths: dict[bool, list[str]] = {False: [], True: []}
    rows_by_file = {}
    for place, one in slices:
        if one.left:
            path = f"{folder.path}/{listing.splits[place].base_path}"
            paths[one.deleted > 0].append(path)
            if one.deleted:
                rows_by_file[path.rpartition("/")[2]] = one.deleted + one.left
    blocks_kept = sum(one.blocks_kept for _, one in slices)
    size = sum(one.added_bytes for _, one in slices) + blocks_kept * _BLOCK_BYTES
    kept = merged.rows(delta_schema(schema), size)
    if paths[False]:
        yield with_values_of(schema, scans.of(paths[False]))
    if paths[True]:
        told = told_blocks([batch for _, one in slices for batch in one.blocks])
        scan = scans.of(paths[True])
        if not blocks_kept and are_few(rows_by_file):
            bits = merged.rows_of_driver(bits_of(rows_by_file, told), BITS_SCHEMA)
            left = without_bits(spark, scan, rows_by_file, bits)
        else:
            blocks = merged.rows_of_driver(told, BLOCKS_SCHEMA)
            if blocks_kept:
                blocks = blocks.unionByName(kept.where(col(FILE).isNotNull()).select(blocks.columns))
            told_all = broadcast(blocks) if blocks_kept <= _MOST_BROADCAST else blocks
            left = without_deleted(scan, told_all)
        yield with_values_of(schema, left)
    if any(one.added for _, one in slices):
        yield (kept.where(col(FILE).isNull()) if blocks_kept else kept).drop(*BLOCKS_SCHEMA.names)
