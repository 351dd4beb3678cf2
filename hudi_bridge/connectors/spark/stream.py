"""A table as a source of Structured Streaming: each micro-batch is an incremental query.

An offset is a completion time (in table versions up to 6, a requested time): all commits up to it have been delivered.
A batch holds the latest state of each row at its end, and no deleted rows, as with Hudi's own source. After a full
table scan for cleaned files, a row that a later commit changed arrives with that commit only.

Source: ``HoodieStreamSourceV2`` of Hudi, ``python_streaming_source_runner`` of Spark.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from hudi_bridge.connectors.spark.errors import noting_error_details
from hudi_bridge.connectors.spark.options import SparkOptions, SparkQuery
from hudi_bridge.connectors.spark.plan import PinnedQuery
from hudi_bridge.connectors.spark.tasks import read_task
from hudi_bridge.options import (
    END_SCHEMA_KEY,
    FULL_SCAN_FALLBACK_KEY,
    HOLLOW_COMMITS_KEY,
    RANGE_VERSION_KEY,
    HollowCommitPolicy,
)
from hudi_bridge.timeline.instant import EARLIEST

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.0 and 4.1 ask for the latest offset once, which has the same effect.
    SupportsTriggerAvailableNow = object  # type: ignore[assignment, misc]

Offset = Mapping[str, str]

_OF_BATCHES = (RANGE_VERSION_KEY, END_SCHEMA_KEY)
"""Options that Hudi follows in batch queries, and not in streams."""
_AFTER = "after"
_LATEST = "latest"


def stream_options(options: SparkOptions) -> SparkOptions:
    """The options of a stream, with defaults that let it continue after cleaning and wait for pending commits."""
    defaults = {FULL_SCAN_FALLBACK_KEY: "true", HOLLOW_COMMITS_KEY: HollowCommitPolicy.BLOCK}
    given = {name: value for name, value in options.table_options if name not in _OF_BATCHES}
    return replace(
        options,
        query=SparkQuery.INCREMENTAL,
        as_of=None,
        table_options=tuple((defaults | given).items()),
    )


class HudiBridgeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Finds and plans new commits on the driver; reads them on executors."""

    def __init__(self, query: PinnedQuery, columns: Sequence[str], parallelism: int | None) -> None:
        self._query = query
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
            most = self._query.options.max_instants_per_trigger
            if most is not None and after is not None:
                times = times[:most]
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

    def commit(self, end: Offset) -> None:
        """Remembers the end of the batch. Spark's checkpoint holds all other state."""
        self._position = end[_AFTER]

    def _refreshed(self) -> PinnedQuery:
        return replace(self._query, table=self._query.table.refresh())
