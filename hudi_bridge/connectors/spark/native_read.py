"""Reads a snapshot as a plan of Spark: a scan of the base files, without the rows that logs delete or replace, and the
rows that come instead.

One Spark job merges the logs of all slices; of base files with logs it reads keys and ordering values. Its result is
kept for all actions. Slices that Spark would misread are read as by ``spark.read.format("hudi_bridge")``.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, col, shiftright

from hudi_bridge.connectors.spark.delta_columns import (
    ADDED,
    BITS,
    BLOCK,
    BLOCK_ROWS,
    DELETED,
    FILE,
    LEFT,
    PLACE,
    POSITION,
    REASON,
    Piece,
    delta_schema,
    is_deleted,
    is_piece,
)
from hudi_bridge.connectors.spark.errors import cause_of
from hudi_bridge.connectors.spark.jobs import frame_of, map_one_per_task, quoted
from hudi_bridge.connectors.spark.kept_relation import kept_while_used, session_to_keep_from
from hudi_bridge.connectors.spark.native_choice import folder_if_native, reasons_by_place
from hudi_bridge.connectors.spark.native_files import NativeFiles, remember
from hudi_bridge.connectors.spark.native_location import NotNativeError, SparkFolder
from hudi_bridge.connectors.spark.native_scan import base_file_scan
from hudi_bridge.connectors.spark.plan import Listing, pack
from hudi_bridge.connectors.spark.routes import SliceRoutes
from hudi_bridge.connectors.spark.slice_deltas import DeltaTask, delta_task

_LOG = logging.getLogger(__name__)

# About what opening a base file costs, as bytes of a task.
_WEIGHT_OF_FOOTER = 1 << 18
# Blocks of deleted positions, of about 400 bytes each in the memory of each executor.
_MOST_BROADCAST = 100_000
_BLOCK_SHIFT = BLOCK_ROWS.bit_length() - 1


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
            merged = _merged(spark, listing, places)
            slices = merged.where(is_piece(Piece.SLICE)).select(PLACE, REASON, DELETED, LEFT, ADDED).collect()
            reasons = {**reasons, **{row[PLACE]: row[REASON] for row in slices if row[REASON] is not None}}
            remember(_native_files(listing, slices))
            try:
                parts += _native_parts(spark, listing, folder, merged, slices)
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


def _merged(spark: SparkSession, listing: Listing, places: Sequence[int]) -> DataFrame:
    """What the logs of the slices at some places do, with the columns of ``delta_columns``."""
    splits = [listing.splits[place] for place in places]
    weights = [split.weight if split.has_logs else _WEIGHT_OF_FOOTER for split in splits]
    groups = pack(weights, listing.options.partition_bytes, spark.sparkContext.defaultParallelism)
    tasks: list[DeltaTask] = [tuple((places[index], splits[index].pickled) for index in group) for group in groups]
    run = partial(delta_task, listing.reading)
    rows = map_one_per_task(session_to_keep_from(spark), tasks, run, delta_schema(listing.reading.schema))
    return kept_while_used(rows, spark)


def _native_files(listing: Listing, slices: Sequence[Any]) -> NativeFiles:
    splits = [listing.splits[row[PLACE]] for row in slices if row[LEFT]]
    by_name = {(split.base_path or "").rpartition("/")[2]: split.pickled for split in splits}
    return NativeFiles(contexts=listing.reading.contexts, slices=by_name)


def _native_parts(
    spark: SparkSession, listing: Listing, folder: SparkFolder, merged: DataFrame, slices: Sequence[Any]
) -> Iterator[DataFrame]:
    schema = listing.reading.schema
    names = [quoted(name) for name in schema.names]
    paths: dict[bool, list[str]] = {False: [], True: []}
    for row in slices:
        if row[LEFT]:
            paths[row[DELETED] > 0].append(f"{folder.path}/{listing.splits[row[PLACE]].base_path}")
    if paths[False]:
        yield base_file_scan(spark, paths[False], schema).select(names)
    if paths[True]:
        blocks = merged.where(is_piece(Piece.BLOCK)).select(FILE, BLOCK, BITS)
        most = sum(min(row[DELETED], (row[DELETED] + row[LEFT]) // BLOCK_ROWS + 1) for row in slices if row[LEFT])
        scan = base_file_scan(spark, paths[True], schema)
        yield _without(scan, broadcast(blocks) if most <= _MOST_BROADCAST else blocks).select(names)
    if any(row[ADDED] for row in slices):
        yield merged.where(is_piece(Piece.ROW)).select(names)


def _without(scan: DataFrame, blocks: DataFrame) -> DataFrame:
    """The rows of a scan without those whose bit in ``blocks`` is set."""
    numbered = scan.withColumn(BLOCK, shiftright(POSITION, _BLOCK_SHIFT))
    left, right = numbered.alias("base"), blocks.alias("deleted")
    same = (col(f"base.{FILE}") == col(f"deleted.{FILE}")) & (col(f"base.{BLOCK}") == col(f"deleted.{BLOCK}"))
    return left.join(right, same & is_deleted(POSITION), "left_anti")
