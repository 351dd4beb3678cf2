"""Runs the merge of logs as a Spark job, and gives its result to plans of Spark.

There are two ways, chosen by ``merge_logs``:

- ``_KeptLogs`` uses private classes of Spark (``jvm``). Arrow batches stay in the executors as the workers have sent
  them, and Spark takes columns from them. Positions of deleted rows become part of the plan.
- ``_CheckpointedLogs`` uses the public API alone: ``mapInArrow``, ``localCheckpoint`` and an anti join. Spark converts
  the batches to rows of its own, each use of a DataFrame broadcasts the deleted positions in a job, and rows that an
  executor loses cannot be computed again.

With both, Spark's ``ContextCleaner`` frees the rows when no DataFrame is left that refers to them.
"""

import gc
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import partial
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, col
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from hudi_bridge.connectors.spark.deleted_rows import (
    BITS,
    BLOCKS_LAYOUT,
    BLOCKS_SCHEMA,
    FILE,
    MAX_BIT_FILES,
    PREFIX,
    without_bits,
    without_blocks,
)
from hudi_bridge.connectors.spark.jobs import map_one_per_task, quoted
from hudi_bridge.connectors.spark.jvm import Jvm, KeptBatches, Reports, jvm_of, run_and_keep
from hudi_bridge.connectors.spark.plan import Listing
from hudi_bridge.connectors.spark.sessions import parallelism_of, release_in_thread
from hudi_bridge.connectors.spark.slice_deltas import BLOCKS, ROWS, DeltaJob, DeltaTask, MergedSlice
from hudi_bridge.connectors.spark.types import arrow_layout, spark_schema
from hudi_bridge.connectors.split_tasks import pack

# About what opening a base file costs, as bytes of a task.
_FOOTER_WEIGHT = 1 << 18
# Blocks of deleted positions: how many pass through the driver into the plan, and how many into each executor.
_MAX_COLLECTED_BLOCKS = 10_000
_MAX_BROADCAST_BLOCKS = 100_000
_BLOCK_BYTES = 400

_COLLECT_GARBAGE_AFTER_BYTES = 1 << 27
_KEPT_BYTES: "WeakKeyDictionary[SparkSession, int]" = WeakKeyDictionary()
"""What Spark has kept for a session since Python last collected its garbage for it."""

_KIND = f"{PREFIX}kind"
_REPORT = f"{PREFIX}report"
_REPORTS = 0


class Deletes(Enum):
    """The form of the deleted positions of a base file (``deleted_rows``)."""

    NONE = auto()
    BITS = auto()
    BLOCKS = auto()

    @classmethod
    def of(cls, merged: MergedSlice) -> "Deletes":
        """The form for a slice whose base file has remaining rows."""
        if not merged.deleted:
            return cls.NONE
        return cls.BITS if merged.in_bits else cls.BLOCKS


class MergedLogs(ABC):
    """What the logs of slices do to their base files; made by ``merge_logs``.

    ``slices`` has what the merge reports, by the index of the slice in the listing.
    """

    slices: Mapping[int, MergedSlice]

    @abstractmethod
    def added_rows(self) -> DataFrame:
        """The rows that logs add, in the columns of the listing."""

    @abstractmethod
    def remaining_rows(self, scan: DataFrame, files: Sequence[str], deletes: Deletes) -> DataFrame:
        """The rows of a scan of base files, ``files``, that logs do not delete, given the form of the deletes."""


def merge_logs(
    spark: SparkSession, listing: Listing, indexes: Sequence[int], meanwhile: Callable[[], object] = bool
) -> MergedLogs:
    """Merges the logs of the slices at some indexes of a listing in a Spark job, which ends before this returns.

    The driver may call ``meanwhile`` while the tasks run.

    Raises:
        pyspark.errors.PySparkException: a task has failed, with the text of its error.
    """

    def meanwhile_on_driver() -> None:
        meanwhile()
        _collect_garbage(spark)

    cores = parallelism_of(spark)
    splits = [listing.splits[index] for index in indexes]
    weights = [split.weight if split.has_logs else _FOOTER_WEIGHT for split in splits]
    groups = pack(weights, listing.options.partition_bytes, cores)
    tasks: list[DeltaTask] = [tuple((indexes[at], splits[at].pickled) for at in group) for group in groups]
    jvm = jvm_of(spark)
    job = DeltaJob(
        reading=listing.reading,
        max_collected_blocks=0 if jvm is None else _MAX_COLLECTED_BLOCKS // len(tasks),
        prefers_bits=jvm is not None
        and sum(split.has_logs and split.base_path is not None for split in splits) <= MAX_BIT_FILES,
        # Cores without a task are free for the threads of others.
        use_threads=2 * len(tasks) <= cores,
    )
    merged: MergedLogs
    if jvm is None:
        meanwhile_on_driver()
        merged = _CheckpointedLogs(spark, tasks, job)
    else:
        merged = _KeptLogs(jvm, listing, run_and_keep(jvm, tasks, job, meanwhile_on_driver))
    kept_bytes = sum(part.added_bytes + part.kept_blocks * _BLOCK_BYTES for part in merged.slices.values())
    _KEPT_BYTES[spark] = _KEPT_BYTES.get(spark, 0) + kept_bytes
    return merged


def _collect_garbage(spark: SparkSession) -> None:
    """Collects Python's garbage if much has been kept since; by itself, Python may not do so for hours."""
    if _KEPT_BYTES.get(spark, 0) >= _COLLECT_GARBAGE_AFTER_BYTES:
        _KEPT_BYTES[spark] = 0
        gc.collect()


class _KeptLogs(MergedLogs):
    def __init__(self, jvm: Jvm, listing: Listing, batches: KeptBatches[MergedSlice]) -> None:
        self._jvm = jvm
        self._schema = spark_schema(listing.reading.schema)
        self._batches = batches
        self.slices = batches.reports

    def added_rows(self) -> DataFrame:
        return self._batches.rows(ROWS, self._schema, sum(merged.added_bytes for merged in self.slices.values()))

    def remaining_rows(self, scan: DataFrame, files: Sequence[str], deletes: Deletes) -> DataFrame:
        match deletes:
            case Deletes.NONE:
                return scan
            case Deletes.BITS:
                rows = self._batches.collected_rows(BLOCKS_SCHEMA)
                return without_bits(scan, files, self._jvm.array_literals(rows, BLOCKS_SCHEMA, FILE, BITS))
            case Deletes.BLOCKS:
                return without_blocks(scan, self._blocks())

    def _blocks(self) -> DataFrame:
        blocks = self._batches.collected(BLOCKS_SCHEMA)
        count = _kept_blocks(self.slices)
        if count:
            blocks = blocks.unionByName(self._batches.rows(BLOCKS, BLOCKS_SCHEMA, count * _BLOCK_BYTES))
        return broadcast(blocks) if count <= _MAX_BROADCAST_BLOCKS else blocks


class _CheckpointedLogs(MergedLogs):
    """Rows of all kinds and pickled reports are rows of one DataFrame, whose other columns are null."""

    def __init__(self, spark: SparkSession, tasks: Sequence[DeltaTask], job: DeltaJob) -> None:
        self._names = job.reading.schema.names
        marks = [StructField(_KIND, IntegerType()), StructField(_REPORT, BinaryType())]
        columns = StructType([*marks, *BLOCKS_SCHEMA, *spark_schema(job.reading.schema)])
        # Without the checkpoint, each use of a DataFrame would merge again.
        self._rows = map_one_per_task(spark, tasks, partial(_rows_of_all_kinds, job), columns).localCheckpoint()
        release_in_thread(self._rows)
        reports: Reports[MergedSlice] = {}
        for row in self._of_kind(_REPORTS, [_REPORT]).collect():
            reports.update(pickle.loads(row[0]))  # noqa: S301 - from the tasks of this job
        self.slices = reports

    def added_rows(self) -> DataFrame:
        return self._of_kind(ROWS, self._names)

    def remaining_rows(self, scan: DataFrame, files: Sequence[str], deletes: Deletes) -> DataFrame:  # noqa: ARG002 - of all files
        if deletes is Deletes.NONE:
            return scan
        blocks = self._of_kind(BLOCKS, BLOCKS_SCHEMA.names)
        return without_blocks(scan, broadcast(blocks) if _kept_blocks(self.slices) <= _MAX_BROADCAST_BLOCKS else blocks)

    def _of_kind(self, kind: int, names: Sequence[str]) -> DataFrame:
        return self._rows.where(col(_KIND) == kind).select([col(quoted(name)) for name in names])


def _kept_blocks(slices: Mapping[int, MergedSlice]) -> int:
    return sum(merged.kept_blocks for merged in slices.values())


def _rows_of_all_kinds(job: DeltaJob, task: DeltaTask) -> Iterator[pa.RecordBatch]:
    """The batches of a task and its reports, widened to the columns of all kinds."""
    marks = [pa.field(_KIND, pa.int32()), pa.field(_REPORT, pa.binary())]
    layout = pa.schema([*marks, *BLOCKS_LAYOUT, *arrow_layout(job.reading.schema)])
    reports: Reports[MergedSlice] = {}
    for kind, batch in job(task, reports):
        yield _widened(kind, batch, layout)
    yield _widened(_REPORTS, pa.record_batch([pa.array([pickle.dumps(reports)])], names=[_REPORT]), layout)


def _widened(kind: int, batch: pa.RecordBatch, layout: pa.Schema) -> pa.RecordBatch:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns[_KIND] = pa.repeat(pa.scalar(kind, pa.int32()), batch.num_rows)
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(batch.num_rows, field.type) for field in layout
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=layout)
