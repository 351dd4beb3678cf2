"""``read`` returns a table as a DataFrame (PySpark 3.5 or later); ``register`` enables the data source.

Spark plans snapshots and read-optimized queries. Of other queries it does not tell which columns they use, so ``read``
takes the columns as an argument.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from hudi_bridge.connectors.spark.conditions import ParsedFilter, parse_filter
from hudi_bridge.connectors.spark.errors import cause_of
from hudi_bridge.connectors.spark.jobs import frame_of, quoted
from hudi_bridge.connectors.spark.native_read import note_routes, snapshot_frame
from hudi_bridge.connectors.spark.options import STORAGE, WITH_META_COLUMNS, SparkQuery, parse_options, require_batch
from hudi_bridge.connectors.spark.plan import PinnedQuery, selected
from hudi_bridge.connectors.spark.sessions import context_of, parallelism_of, require_same_python, runs_locally
from hudi_bridge.connectors.spark.types import spark_schema
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.options import QUERY_TYPE_KEY
from hudi_bridge.storage.storage import PathLike, StorageOptions, path_text

try:
    from hudi_bridge.connectors.spark.data_source import HudiBridgeDataSource
except ModuleNotFoundError as missing:  # PySpark 3.5 has no data sources in Python.
    if missing.name != "pyspark.sql.datasource":
        raise
    HudiBridgeDataSource = None  # type: ignore[assignment, misc]

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_FIRST_WITH_PUSHDOWN = (4, 1)

_SNAPSHOT_QUERIES = (SparkQuery.SNAPSHOT, SparkQuery.READ_OPTIMIZED)
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
    meta_columns: bool = True,
) -> DataFrame:
    """Returns a DataFrame of ``columns``, with the rows that meet ``filter``, a SQL condition.

    By default it has all columns, without Hudi's own unless ``meta_columns``.

    The condition prunes partitions and row groups and filters rows on the executors; Spark checks it again. A snapshot
    is a scan of base files by Spark, with the rows that logs change: their merge is a Spark job that ends before this
    returns; the result stays in Spark as long as a DataFrame uses it. ``slice_routes`` tells which slices Spark reads.

    ``query_type`` is ``snapshot``, ``read_optimized``, ``incremental`` or ``splits``; ``options`` are those of
    ``spark.read.format("hudi_bridge")``. ``storage_options``, ``payloads`` and ``log_memory_bytes`` are those of
    ``HudiTable.open``. Spark's own reader does not know storage options: with them, this package reads all slices.
    ``filesystem`` is refused, since executors open the table by its path.

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
    if runs_locally(spark):
        require_same_python(spark)
    given = {**(options or {}), "path": path_text(path)} | ({} if query_type is None else {QUERY_TYPE_KEY: query_type})
    given |= {} if meta_columns else {WITH_META_COLUMNS: "false"}
    given |= {f"{STORAGE}{name}": value for name, value in (storage_options or {}).items()}
    if filesystem is not None:
        raise QueryError("filesystem", repr(filesystem), "a URI, with storage_options, which executors can open")
    require_batch(given)
    parsed_options = parse_options(given)
    if log_memory_bytes is not None:
        parsed_options = replace(parsed_options, log_memory_bytes=log_memory_bytes)
    query = PinnedQuery.of(parsed_options, payloads)
    names = query.schema.names if columns is None else selected(query.full_schema, columns).names
    parsed = _NO_FILTER
    if filter is not None:
        parsed = parse_filter(spark, spark_schema(query.full_schema), filter)
    needed = list(dict.fromkeys((*names, *parsed.columns)))
    listing = query.listing(needed, parsed.conditions)
    if query.options.query not in _SNAPSHOT_QUERIES:
        rows = frame_of(spark, listing.plan(parallelism_of(spark)))
        return _analyzed(spark, _narrowed(rows, filter, names))
    rows, routes = snapshot_frame(spark, listing)
    return note_routes(_analyzed(spark, _narrowed(rows, filter, names)), routes)


def _narrowed(rows: DataFrame, condition: str | None, columns: Sequence[str]) -> DataFrame:
    filtered = rows if condition is None else rows.where(condition)
    return filtered if filtered.columns == columns else filtered.select([col(quoted(name)) for name in columns])


def _analyzed(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """The DataFrame, after the errors that a classic session raises when a DataFrame is made."""
    if context_of(spark) is None:
        try:
            # The server keeps the analyzed plan for later uses of the DataFrame.
            _ = frame.schema
        except AnalysisException as error:
            raise cause_of(error) or error from error
    return frame


def register(spark: SparkSession) -> None:
    """Enables ``spark.read.format("hudi_bridge")`` and ``spark.readStream.format("hudi_bridge")`` for a session.

    With PySpark 4.1 or later, this also turns on filter pushdown to data sources in Python.

    Raises:
        QueryError: this release of PySpark has no data sources in Python, or its workers run another version of Python.
    """
    if HudiBridgeDataSource is None:
        instead = "read() instead, and in place of a stream one read() of the query type incremental after another"
        raise QueryError("register", f"PySpark {pyspark.__version__}", f"PySpark 4.0 or later; before it, {instead}")
    # Data sources plan in processes on the driver's machine, on a cluster too.
    require_same_python(spark)
    # The processes of the driver that plan queries have no access to the session.
    attributes = {"parallelism": parallelism_of(spark)}
    spark.dataSource.register(type("HudiBridge", (HudiBridgeDataSource,), attributes))
    if tuple(map(int, pyspark.__version__.split(".")[:2])) >= _FIRST_WITH_PUSHDOWN:
        spark.conf.set(_PUSHDOWN, "true")
