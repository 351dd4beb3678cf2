"""The Spark data source ``hudi_bridge`` (PySpark 4.0 or later).

The table is pinned when a DataFrame is created. Another process lists the files when Spark plans a query, once for all
actions of the DataFrame.

Source: ``PythonDataSourceV2`` and ``plan_data_source_read`` of Spark.
"""

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from hudi_bridge.caching import cached_property
from hudi_bridge.connectors.spark.errors import noting_error_details
from hudi_bridge.connectors.spark.filters import Condition, condition_of, expression_of
from hudi_bridge.connectors.spark.options import parse_options
from hudi_bridge.connectors.spark.plan import PinnedQuery, Plan, selected
from hudi_bridge.connectors.spark.stream import HudiBridgeStreamReader, stream_options
from hudi_bridge.connectors.spark.tasks import read_task
from hudi_bridge.connectors.spark.types import spark_schema
from hudi_bridge.engines import MOST_PARTS
from hudi_bridge.errors import QueryError

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
            query = self._query
            _require_types(schema, query.full_schema)
            pushes = KEEPS_FILTERS_APART or query.options.pushes_filters
            kind = FilteringReader if pushes else HudiBridgeReader
            return kind(query, schema.names, self.parallelism)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """The reader of a stream."""
        with noting_error_details():
            query = PinnedQuery.of(stream_options(self._query.options))
            _require_types(schema, query.full_schema)
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
    def _plan(self) -> Plan:
        with noting_error_details():
            return self._query.plan(self._columns, self._conditions, self._parallelism)

    def __getstate__(self) -> dict[str, Any]:
        # Spark pickles a reader for its executors before it asks for the partitions. They do not need the plan.
        return {"_reading": self._plan.reading}

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
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
