"""The Spark data source ``hudi_bridge`` for queries and streams (PySpark 4.0 or later).

A query pins the table when its DataFrame is created. Another process lists the files when Spark plans the query, once
for all actions of the DataFrame.

A stream of Structured Streaming makes each micro-batch an incremental query. An offset is a completion time (a
requested time in table versions up to 6): all commits up to it have been delivered. A batch holds the latest state of
each row at its end, and no deleted rows, as with Hudi's own source. After a full table scan for cleaned files, a row
that a later commit changed arrives with that commit only.

Source: ``PythonDataSourceV2``, ``plan_data_source_read`` and ``python_streaming_source_runner`` of Spark,
``HoodieStreamSourceV2`` of Hudi.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from hudi_bridge.common.caching import cached_property
from hudi_bridge.connectors.spark.conditions import Condition, condition_of, expression_of
from hudi_bridge.connectors.spark.errors import noting_error_details
from hudi_bridge.connectors.spark.jobs import read_task
from hudi_bridge.connectors.spark.options import SparkOptions, SparkQuery, parse_options, require_batch, require_stream
from hudi_bridge.connectors.spark.plan import PinnedQuery, Plan, selected
from hudi_bridge.connectors.spark.sessions import on_workers
from hudi_bridge.connectors.spark.types import spark_schema
from hudi_bridge.errors import HudiReadError, QueryError
from hudi_bridge.options import (
    END_SCHEMA_KEY,
    FULL_SCAN_FALLBACK_KEY,
    HOLLOW_COMMITS_KEY,
    RANGE_VERSION_KEY,
    HollowCommitPolicy,
)
from hudi_bridge.readers.filters import MOST_PARTS
from hudi_bridge.timeline.instant import EARLIEST

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.0 and 4.1 ask for the latest offset once, which has the same effect.
    SupportsTriggerAvailableNow = object  # type: ignore[assignment, misc]

Offset = Mapping[str, str]

_BATCH_ONLY = (RANGE_VERSION_KEY, END_SCHEMA_KEY)
"""Options that Hudi follows in batch queries but not in streams."""
_AFTER = "after"
_LATEST = "latest"


def stream_options(options: SparkOptions) -> SparkOptions:
    """The options of a stream, with defaults that let it continue after cleaning and wait for pending commits."""
    defaults = {FULL_SCAN_FALLBACK_KEY: "true", HOLLOW_COMMITS_KEY: HollowCommitPolicy.BLOCK}
    given = {name: value for name, value in options.table_options if name not in _BATCH_ONLY}
    return replace(
        options,
        query=SparkQuery.INCREMENTAL,
        as_of=None,
        table_options=tuple((defaults | given).items()),
    )


def for_executors(reader: object, state: dict[str, Any]) -> Any:  # noqa: ANN401 - as ``object.__reduce__`` has it
    """What a reader is pickled as, whose state on executors this is; without this package, they say so."""
    return on_workers(partial(_on_executor, type(reader), state)), (None,)


def _on_executor(kind: type[object], state: dict[str, Any], _: object) -> object:
    reader = object.__new__(kind)
    reader.__dict__.update(state)
    return reader


class HudiBridgeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Finds and plans new commits on the driver; reads them on executors.

    Without a query there is an error, which the first call raises: Spark hides errors of ``streamReader``.
    """

    def __init__(self, query: PinnedQuery | HudiReadError, columns: Sequence[str], parallelism: int | None) -> None:
        self._pinned = query
        self._columns = columns
        self._parallelism = parallelism
        self._position: str | None = None
        self._target: str | None = None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        """The offset at which a new stream begins."""
        with noting_error_details():
            start = self._query.options.start_offset
            if start == _LATEST:
                self._position = self._refreshed().table.instant_range(EARLIEST).next_after
            else:
                self._position = self._query.table.instant_range(start, None).after
        return {_AFTER: self._position}

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> dict[str, str]:  # noqa: ARG002, N802 - of Spark
        """The end of the next batch, at most ``maxInstantsPerTrigger`` commits away.

        Spark 4.2 and later pass the start of the batch. For earlier releases the end of the last batch is kept; after a
        restart it is unknown until a batch has been read.
        """
        with noting_error_details():
            after = start[_AFTER] if start is not None else self._position
            table = self._refreshed().table
            times = table.instant_range(EARLIEST if after is None else after, self._target).ordering_times
            max_instants = self._query.options.max_instants_per_trigger
            if max_instants is not None and after is not None:
                times = times[:max_instants]
            return {_AFTER: times[-1] if times else after or self.initialOffset()[_AFTER]}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Makes the newest commit the end of the stream."""
        with noting_error_details():
            self._target = self._refreshed().table.instant_range(EARLIEST).next_after

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        self._position = end[_AFTER]
        if start == end:
            return []
        with noting_error_details():
            query = self._refreshed()
            options = replace(query.options, begin=start[_AFTER], end=end[_AFTER])
            plan = replace(query, options=options).plan(self._columns, (), self._parallelism)
        return [InputPartition((plan.reading, task)) for task in plan.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        return read_task(*partition.value)

    def __reduce__(self) -> Any:  # noqa: ANN401 - as ``object`` has it
        return for_executors(self, self.__dict__)

    def commit(self, end: Offset) -> None:
        """Remembers the end of the batch. Spark's checkpoint holds all other state."""
        self._position = end[_AFTER]

    @property
    def _query(self) -> PinnedQuery:
        if isinstance(self._pinned, HudiReadError):
            raise self._pinned
        return self._pinned

    def _refreshed(self) -> PinnedQuery:
        return replace(self._query, table=self._query.table.refresh())


FORMAT = "hudi_bridge"

# Up to Spark 4.3, filters passed to ``pushFilters`` for one query also apply to later queries over the same DataFrame,
# and to its other uses in the same query: in ``df.where(...).count(); df.count()`` both counts are filtered.
# The release that fixes this also adds ``pushLimit``.
KEEPS_FILTERS_APART = hasattr(DataSourceReader, "pushLimit")


class HudiBridgeDataSource(DataSource):
    """A table, pinned when Spark first asks for its schema.

    ``parallelism`` is the number of tasks that run at the same time; None for the cores of the driver's machine.
    """

    parallelism: ClassVar[int | None] = None

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._pinned: PinnedQuery | None = None

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of the rows."""
        with noting_error_details():
            return spark_schema(self._query.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a query."""
        with noting_error_details():
            require_batch(dict(self.options))
            query = self._query
            _require_types(schema, query.full_schema)
            pushes = KEEPS_FILTERS_APART or query.options.pushes_filters
            kind = FilteringReader if pushes else HudiBridgeReader
            return kind(query, schema.names, self.parallelism)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """The reader of a stream."""
        query: PinnedQuery | HudiReadError
        try:
            require_stream(self._query.options)
            query = PinnedQuery.of(stream_options(self._query.options))
            _require_types(schema, query.full_schema)
        except HudiReadError as error:
            query = error
        return HudiBridgeStreamReader(query, schema.names, self.parallelism)

    @property
    def _query(self) -> PinnedQuery:
        if self._pinned is None:
            self._pinned = PinnedQuery.of(parse_options(dict(self.options)))
        return self._pinned


class HudiBridgeReader(DataSourceReader):
    """Plans on the driver, reads on executors."""

    def __init__(self, query: PinnedQuery, columns: Sequence[str], parallelism: int | None) -> None:
        self._query = query
        self._columns = columns
        self._parallelism = parallelism
        self._conditions: list[Condition] = []

    @cached_property
    def _plan(self) -> Plan | HudiReadError:
        """The plan, or why there is none: Spark would call an error of ``__reduce__`` one of pickling."""
        try:
            return self._query.plan(self._columns, self._conditions, self._parallelism)
        except HudiReadError as error:
            return error

    def __reduce__(self) -> Any:  # noqa: ANN401 - as ``object`` has it
        # Spark pickles a reader for its executors before it asks for the partitions. They do not need the plan.
        return for_executors(self, {"_reading": None if isinstance(self._plan, HudiReadError) else self._plan.reading})

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
        with noting_error_details():
            if isinstance(self._plan, HudiReadError):
                raise self._plan
            return [InputPartition(task) for task in self._plan.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        # Without tasks, Spark runs one of its own with no value.
        return iter(()) if partition.value is None else read_task(self._reading, partition.value)

    _reading: Any


class FilteringReader(HudiBridgeReader):
    """Also takes the filters that mean the same in Spark and in Arrow."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """The filters that Spark must apply itself."""
        for pushed in filters:
            condition = condition_of(pushed)
            is_full = len(self._conditions) == MOST_PARTS
            if condition is None or is_full or expression_of(condition, self._query.full_schema) is None:
                yield pushed
            else:
                self._conditions.append(condition)


def _require_types(schema: StructType, table: pa.Schema) -> None:
    """Raises QueryError unless the declared columns have the types of the table."""
    expected = spark_schema(selected(table, schema.names))
    for declared, actual in zip(schema.fields, expected.fields, strict=True):
        if declared.dataType.simpleString() != actual.dataType.simpleString():
            raise QueryError(
                f"type of column {declared.name}", declared.dataType.simpleString(), actual.dataType.simpleString()
            )
