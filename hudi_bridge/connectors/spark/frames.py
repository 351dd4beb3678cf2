"""Reads a table as a DataFrame (PySpark 3.5 or later).

Snapshots and read-optimized queries are planned by Spark. In other queries Spark does not tell which columns it uses,
so ``read`` takes them as an argument.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from hudi_bridge.connectors.spark.conditions import ParsedFilter, parse_filter
from hudi_bridge.connectors.spark.jobs import frame_of, quoted
from hudi_bridge.connectors.spark.native_read import snapshot_frame
from hudi_bridge.connectors.spark.options import STORAGE, SparkQuery, parse_options
from hudi_bridge.connectors.spark.plan import PinnedQuery, selected
from hudi_bridge.connectors.spark.routes import note_routes
from hudi_bridge.connectors.spark.types import spark_schema
from hudi_bridge.connectors.spark.worker_python import require_same_python
from hudi_bridge.engines import RecordPayload
from hudi_bridge.errors import QueryError
from hudi_bridge.options import QUERY_TYPE_KEY
from hudi_bridge.storage import PathLike, StorageOptions, path_text

_OF_SNAPSHOTS = (SparkQuery.SNAPSHOT, SparkQuery.READ_OPTIMIZED)
_NO_FILTER = ParsedFilter(columns=(), conditions=())


def read(
    spark: SparkSession,
    path: PathLike,
    columns: Sequence[str] | None = None,
    filter: str | None = None,  # noqa: A002 - as pyarrow and DataFrames call it
    query_type: str | None = None,
    options: Mapping[str, str] | None = None,
    storage_options: StorageOptions | None = None,
    *,
    filesystem: Any = None,  # noqa: ANN401 - of any library
    payloads: Mapping[str, RecordPayload] | None = None,
    log_memory_bytes: int | None = None,
) -> DataFrame:
    """A table as a DataFrame of ``columns`` (all by default) and of the rows that meet ``filter``, a SQL condition.

    The condition prunes partitions and row groups and filters rows on the executors; Spark checks it again. A snapshot
    is a scan of base files by Spark, with the rows that logs change: their merge is a Spark job that ends before this
    returns, and is kept as long as a DataFrame uses it. ``slice_routes`` tells which slices Spark reads.

    ``query_type`` is ``snapshot``, ``read_optimized``, ``incremental`` or ``splits``; ``options`` are those of
    ``spark.read.format("hudi_bridge")``. ``storage_options``, ``payloads`` and ``log_memory_bytes`` are those of
    ``HudiTable.open``; Spark's own reader does not know storage options, so that with them all slices are read by this
    package's. ``filesystem`` is refused: executors open the table by its path.

    Raises:
        QueryError: a column, an option or the query does not fit the table, or local workers run another version of
            Python.
        TableNotFoundError: there is no Hudi table.
        UnsupportedTableError: the table uses something that cannot be read correctly.
        DataFileGoneError: a base file has been removed.
        pyspark.errors.AnalysisException: the condition does not fit the table.
        pyspark.errors.PySparkException: the merge has failed; ``cause_of`` has the cause.
    """
    # On a cluster, the Python of this machine says nothing about that of the executors.
    if (spark.sparkContext.master or "").startswith("local"):
        require_same_python(spark)
    given = {**(options or {}), "path": path_text(path)} | ({} if query_type is None else {QUERY_TYPE_KEY: query_type})
    given |= {f"{STORAGE}{name}": value for name, value in (storage_options or {}).items()}
    if filesystem is not None:
        raise QueryError("filesystem", repr(filesystem), "a URI, with storage_options, which executors can open")
    parsed_options = parse_options(given)
    if log_memory_bytes is not None:
        parsed_options = replace(parsed_options, log_memory_bytes=log_memory_bytes)
    query = PinnedQuery.of(parsed_options, payloads)
    wanted = selected(query.full_schema, query.options.columns if columns is None else columns).names
    parsed = _NO_FILTER
    if filter is not None:
        parsed = parse_filter(spark, spark_schema(query.full_schema), filter)
    needed = list(dict.fromkeys((*wanted, *parsed.columns)))
    listing = query.listing(needed, parsed.conditions)
    if query.options.query not in _OF_SNAPSHOTS:
        rows = frame_of(spark, listing.plan(spark.sparkContext.defaultParallelism))
        return _narrowed(rows, filter, wanted)
    rows, routes = snapshot_frame(spark, listing)
    return note_routes(_narrowed(rows, filter, wanted), routes)


def _narrowed(rows: DataFrame, condition: str | None, columns: Sequence[str]) -> DataFrame:
    kept = rows if condition is None else rows.where(condition)
    return kept if kept.columns == columns else kept.select([col(quoted(name)) for name in columns])
