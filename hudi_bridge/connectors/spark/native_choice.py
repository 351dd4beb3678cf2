"""Which base files of a query Spark may read, as far as that is known before they are opened."""

from collections import Counter
from collections.abc import Mapping

from pyspark.sql import SparkSession

from hudi_bridge.connectors.spark.delta_columns import PREFIX
from hudi_bridge.connectors.spark.native_columns import why_none_is_native
from hudi_bridge.connectors.spark.native_location import NotNativeError, SparkFolder
from hudi_bridge.connectors.spark.plan import ListedSplit, Listing

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
