"""Reads a snapshot as a plan of Spark: a scan of the base files, without the rows that logs delete or replace, and the
rows that logs add.

``snapshot_frame`` selects the slices whose base files Spark may read, merges the logs of those slices in one Spark job
(of base files with logs, it reads keys and ordering values), and builds the plan. The merge also opens the base files,
and refuses those that Spark would misread. All other slices are read as by ``spark.read.format("hudi_bridge")``.

A reason why Spark must not read something is a text for users, or None; ``slice_routes`` returns them to users.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from hudi_bridge.connectors.spark.deleted_rows import PREFIX
from hudi_bridge.connectors.spark.errors import NativeFiles, cause_of, remember
from hudi_bridge.connectors.spark.jobs import frame_of
from hudi_bridge.connectors.spark.merged_logs import Deletes, MergedLogs, MergedSlice, merge_logs
from hudi_bridge.connectors.spark.native_columns import reason_columns_not_native
from hudi_bridge.connectors.spark.native_scan import BaseFileScans, SparkFolder, safe_to_filter, spark_folders
from hudi_bridge.connectors.spark.plan import ListedSplit, Listing
from hudi_bridge.connectors.spark.sessions import parallelism_of, runs_locally
from hudi_bridge.errors import QueryError

_LOG = logging.getLogger(__name__)

_V1_SOURCES = "spark.sql.sources.useV1SourceList"
_LOCALITY_WAIT = "spark.locality.wait"
_HDFS = ("hdfs://", "viewfs://")


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRoutes:
    """How the file slices of a DataFrame are read.

    Of ``native`` slices, Spark reads the base file itself, or there is none. All rows of the others pass through this
    package's reader: ``others`` has their number by reason.
    """

    native: int
    others: Mapping[str, int]


_ROUTES: "WeakKeyDictionary[DataFrame, SliceRoutes]" = WeakKeyDictionary()


def note_routes(frame: DataFrame, routes: SliceRoutes) -> DataFrame:
    """Records the routes of a DataFrame for ``slice_routes``, and returns the DataFrame."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSlices:
    """Which slices of a listing Spark may read, as far as that is known before base files are opened.

    ``reasons`` has why not for each other slice, by its index in the listing. Without a ``folder``, that is all slices.
    """

    folder: SparkFolder | None
    reasons: Mapping[int, str]


def select_native(spark: SparkSession, listing: Listing) -> NativeSlices:
    """Selects the slices of a listing whose base files Spark can be given."""
    if (reason := _reason_query_not_native(spark, listing)) is not None:
        return _none_native(listing, reason)
    unreachable = "the URI of the table has escaped signs, or says more than where the table is"
    for folder in spark_folders(spark, listing.options.path):
        reason = folder.reason_unreachable(spark)
        if reason is None:
            return NativeSlices(folder=folder, reasons=_reasons_by_index(folder, listing))
        unreachable = reason
    return _none_native(listing, unreachable)


def _none_native(listing: Listing, reason: str) -> NativeSlices:
    return NativeSlices(folder=None, reasons=dict.fromkeys(range(len(listing.splits)), reason))


def _reason_query_not_native(spark: SparkSession, listing: Listing) -> str | None:
    files, max_files = sum(split.base_path is not None for split in listing.splits), listing.options.native_files
    if files > max_files:
        return f"the query has more than {max_files} base files (maxNativeFiles)"
    if (reason := reason_columns_not_native(listing.reading.schema)) is not None:
        return reason
    if any(name.lower().startswith(PREFIX) for name in listing.reading.schema.names):
        return f"names of columns begin with {PREFIX}"
    if any(context.completion_times is not None for context in listing.reading.contexts):
        return "rows have completion times, which no file has"
    if listing.options.storage_options:
        # They may say where a bucket is, not only who may read it.
        return "Spark's own reader does not know the storage options"
    if _waits_for_hosts(spark, listing.options.path):
        return f"in local mode, Spark would wait for the hosts of HDFS without end: set {_LOCALITY_WAIT} to 0"
    if "parquet" not in str(spark.conf.get(_V1_SOURCES)).lower().split(","):
        return f"{_V1_SOURCES} leaves out parquet"
    return None


def _waits_for_hosts(spark: SparkSession, path: str) -> bool:
    """Whether some tasks of a scan would never begin.

    The merged rows prefer this machine, and the files of HDFS the hosts of their blocks. Spark first gives tasks of the
    one kind to its only executor, and looks for a place for the others later, by a timer that local mode does not have.
    Source: ``TaskSetManager.getAllowedLocalityLevel`` and ``LocalEndpoint``.
    """
    if not path.lower().startswith(_HDFS) or not runs_locally(spark):
        return False
    return not str(spark.conf.get(_LOCALITY_WAIT, "3s")).startswith("0")


def _reasons_by_index(folder: SparkFolder, listing: Listing) -> Mapping[int, str]:
    counts = Counter(_file_name(split) for split in listing.splits if split.base_path is not None)
    reasons = {}
    for index, split in enumerate(listing.splits):
        if split.base_path is None:
            continue
        reason = folder.reason_file_not_native(split.base_path)
        if reason is None and counts[_file_name(split)] > 1:
            reason = "another base file has the same name"
        if reason is not None:
            reasons[index] = reason
    return reasons


def _file_name(split: ListedSplit) -> str:
    return (split.base_path or "").rpartition("/")[2]


def snapshot_frame(spark: SparkSession, listing: Listing) -> tuple[DataFrame, SliceRoutes]:
    """The rows of a snapshot or a read-optimized query, and how they are read; logs are merged before this returns.

    Raises:
        pyspark.errors.PySparkException: the job has failed; ``cause_of`` has the cause.
        DataFileGoneError: a base file has been removed.
    """
    frames: list[DataFrame] = []
    selection = select_native(spark, listing)
    reasons = dict(selection.reasons)
    indexes = [index for index in range(len(listing.splits)) if index not in reasons]
    if selection.folder is not None and indexes:
        frames, misread = _native_frames(spark, listing, selection.folder, indexes)
        reasons |= misread
    if reasons or not frames:
        others = replace(listing, splits=tuple(listing.splits[index] for index in sorted(reasons)))
        frames.append(frame_of(spark, others.plan(parallelism_of(spark))))
    routes = SliceRoutes(native=len(listing.splits) - len(reasons), others=Counter(reasons.values()))
    if reasons:
        _LOG.info("%d slices are read by Spark itself, others not: %s", routes.native, dict(routes.others))
    return reduce(DataFrame.unionByName, frames), routes


def _native_frames(
    spark: SparkSession, listing: Listing, folder: SparkFolder, indexes: Sequence[int]
) -> tuple[list[DataFrame], Mapping[int, str]]:
    """The rows of the slices at some indexes, and the reasons for those whose base files Spark must not read."""
    scans = BaseFileScans(spark, listing.reading.schema)
    merged = merge_logs(spark, listing, indexes, lambda: _prepare_scans(scans, listing, folder, indexes))
    remember(_native_files(listing, merged.slices))
    try:
        frames = list(_iter_frames(listing, folder, merged, scans))
    except AnalysisException as error:
        # Spark looks for the files at once.
        raise cause_of(error) or error from error
    return frames, {index: part.reason for index, part in merged.slices.items() if part.reason is not None}


def _prepare_scans(scans: BaseFileScans, listing: Listing, folder: SparkFolder, indexes: Sequence[int]) -> None:
    """Makes the scans that are needed if Spark can read all base files, and if all logs delete or replace rows."""
    for has_logs in (False, True):
        splits = [listing.splits[index] for index in indexes if listing.splits[index].has_logs == has_logs]
        scans.prepare([f"{folder.path}/{split.base_path}" for split in splits if split.base_path is not None])


def _native_files(listing: Listing, slices: Mapping[int, MergedSlice]) -> NativeFiles:
    splits = [listing.splits[index] for index, merged in slices.items() if merged.remaining]
    return NativeFiles(contexts=listing.reading.contexts, slices={_file_name(split): split.pickled for split in splits})


def _iter_frames(
    listing: Listing, folder: SparkFolder, merged: MergedLogs, scans: BaseFileScans
) -> Iterator[DataFrame]:
    paths: dict[Deletes, list[str]] = {}
    for index, merged_slice in sorted(merged.slices.items()):
        # Spark does not scan a file without remaining rows.
        if merged_slice.remaining:
            path = f"{folder.path}/{listing.splits[index].base_path}"
            paths.setdefault(Deletes.of(merged_slice), []).append(path)
    for deletes, scanned in paths.items():
        for scan, part in scans.of(scanned):
            files = [path.rpartition("/")[2] for path in part]
            yield safe_to_filter(listing.reading.schema, merged.remaining_rows(scan, files, deletes))
    if any(merged_slice.added for merged_slice in merged.slices.values()):
        yield merged.added_rows()
