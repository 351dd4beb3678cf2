"""Merges logs in a Spark job, and gives the result to plans of Spark.

On an executor, a ``DeltaJob`` runs for each task of the merge. It yields the rows that logs add and the positions of
the base rows that they delete, each batch with its kind. It reports every slice to the driver, also which base files
Spark may read. There are two ways to keep what it yields, chosen by ``merge_logs``:

- ``_KeptLogs`` uses private classes of Spark (``jvm``). Arrow batches stay in the executors as the workers have sent
  them, and Spark takes columns from them. Positions of deleted rows become part of the plan.
- ``_CheckpointedLogs`` uses the public API alone: ``mapInArrow``, ``localCheckpoint`` and an anti join. Spark converts
  the batches to rows of its own, each use of a DataFrame broadcasts the deleted positions in a job, and rows that an
  executor loses cannot be computed again.

With both, Spark's ``ContextCleaner`` frees the rows when no DataFrame is left that refers to them.
"""

import gc
import os
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, col
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from hudi_bridge.connectors.spark.deleted_rows import (
    BITS,
    BLOCK_ROWS,
    BLOCKS_LAYOUT,
    BLOCKS_SCHEMA,
    FILE,
    MAX_BIT_FILES,
    PREFIX,
    Positions,
    block_count,
    deleted_bits,
    deleted_blocks,
    without_bits,
    without_blocks,
)
from hudi_bridge.connectors.spark.errors import noting_error_details
from hudi_bridge.connectors.spark.jobs import map_one_per_task, quoted
from hudi_bridge.connectors.spark.jvm import COLLECTED, Jvm, KeptBatches, KindBatch, Reports, jvm_of, run_and_keep
from hudi_bridge.connectors.spark.native_columns import reason_file_not_native
from hudi_bridge.connectors.spark.plan import Listing, Reading, load_split
from hudi_bridge.connectors.spark.sessions import parallelism_of, release_in_thread
from hudi_bridge.connectors.spark.types import arrow_layout, in_layout, spark_schema
from hudi_bridge.connectors.split_tasks import pack
from hudi_bridge.engines import SliceDelta, StoredBaseFile, slice_delta_in
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

DeltaTask: TypeAlias = tuple[tuple[int, bytes], ...]
"""The slices that one Spark task merges: the index of each in the listing, and the pickled split."""

ROWS, BLOCKS = COLLECTED + 1, COLLECTED + 2
"""The kinds of batches that Spark keeps: rows of the table, and blocks of deleted positions."""

# Rows of the base file whose deleted positions are in one batch.
_ROWS_PER_BATCH = BLOCK_ROWS * 1024
# The JVM's usual collector (G1) copies small arrays several times, and has to find room for a large one in one piece.
_MAX_BATCH_BYTES = 1 << 23


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSlice:
    """What the merge of a slice reports to the driver.

    ``reason`` says why Spark must not read its base file; the other fields are 0 then. Of the base file, logs remove
    ``deleted`` rows and leave ``remaining`` rows. They add ``added`` rows, of ``added_bytes`` in Arrow. ``kept_blocks``
    counts the blocks of deleted positions that Spark keeps; the others are collected by the driver, as ``deleted_bits``
    if ``in_bits`` is set.
    """

    reason: str | None = None
    deleted: int = 0
    remaining: int = 0
    added: int = 0
    added_bytes: int = 0
    kept_blocks: int = 0
    in_bits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaJob:
    """What all tasks of a merge have in common; called for each task.

    The driver collects at most ``max_collected_blocks`` blocks of deleted positions from a task, in one form only:
    ``deleted_bits`` with ``prefers_bits``, and ``deleted_blocks`` otherwise. Spark keeps the other positions as blocks.
    """

    reading: Reading
    max_collected_blocks: int
    prefers_bits: bool
    use_threads: bool

    def __call__(self, task: DeltaTask, reports: Reports[MergedSlice]) -> Iterator[KindBatch]:
        """Yields ``ROWS`` that logs add and deleted positions; reports each slice by its index."""
        storages: dict[str, Storage] = {}
        budget = self.max_collected_blocks
        with noting_error_details():
            for index, pickled in task:
                split = load_split(pickled, self.reading.contexts)
                assert isinstance(split, RealtimeFileSplit)
                path = split.context.table_path
                if path not in storages:
                    storages[path] = split.context.open_storage()
                # As many tasks as the machine has cores may share its memory.
                at_once = os.cpu_count() or 1
                with slice_delta_in(
                    storages[path], split, self.reading.schema.names, use_threads=self.use_threads, at_once=at_once
                ) as delta:
                    base = delta.base_file
                    reason = None if base is None else reason_file_not_native(split, base, self.reading.schema)
                    if reason is not None:
                        reports[index] = MergedSlice(reason=reason)
                        continue
                    added, added_bytes = yield from self._added_rows(delta)
                    deletes = _Deletes()
                    if base is not None:
                        deletes = self._deletes(base, delta.deleted_positions, budget)
                        yield from ((deletes.kind, batch) for batch in deletes.batches)
                    budget -= deletes.collected_blocks
                    reports[index] = MergedSlice(
                        added=added,
                        added_bytes=added_bytes,
                        deleted=0 if base is None else len(delta.deleted_positions),
                        remaining=0 if base is None else base.rows - len(delta.deleted_positions),
                        kept_blocks=deletes.kept_blocks,
                        in_bits=deletes.in_bits,
                    )

    def _added_rows(self, delta: SliceDelta) -> Generator[KindBatch, None, tuple[int, int]]:
        """Yields the rows that logs add and that pass the filter; returns their number and size in bytes."""
        added = added_bytes = 0
        for rows in in_layout(_filtered(self.reading, delta), arrow_layout(self.reading.schema)):
            added += rows.num_rows
            added_bytes += rows.nbytes
            yield from ((ROWS, batch) for batch in _small_batches(rows))
        return added, added_bytes

    def _deletes(self, base: StoredBaseFile, positions: Positions, budget: int) -> "_Deletes":
        """The deleted positions of a base file; the driver collects them if they have at most ``budget`` blocks."""
        # Spark does not scan a file without remaining rows.
        if not len(positions) or len(positions) == base.rows:
            return _Deletes()
        name, all_blocks = base.path.rpartition("/")[2], block_count(base.rows)
        if self.prefers_bits and all_blocks <= budget:
            bits = deleted_bits(name, positions, base.rows)
            return _Deletes(kind=COLLECTED, blocks=all_blocks, batches=(bits,), in_bits=True)
        batches = tuple(_block_batches(name, positions))
        blocks = sum(batch.num_rows for batch in batches)
        is_collected = not self.prefers_bits and blocks <= budget
        return _Deletes(kind=COLLECTED if is_collected else BLOCKS, blocks=blocks, batches=batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deletes:
    """The deleted positions of a base file: their batches, all of one kind, which count as ``blocks``."""

    kind: int = COLLECTED
    blocks: int = 0
    batches: tuple[pa.RecordBatch, ...] = ()
    in_bits: bool = False

    @property
    def collected_blocks(self) -> int:
        return self.blocks if self.kind == COLLECTED else 0

    @property
    def kept_blocks(self) -> int:
        return self.blocks - self.collected_blocks


def _block_batches(file: str, positions: Positions) -> Iterator[pa.RecordBatch]:
    """The blocks of at least one position in a base file."""
    for start in range(0, int(positions[-1]) + 1, _ROWS_PER_BATCH):
        first, end = np.searchsorted(positions, (start, start + _ROWS_PER_BATCH))
        if first < end:
            yield deleted_blocks(file, positions[first:end])


def _filtered(reading: Reading, delta: SliceDelta) -> Iterator[pa.RecordBatch]:
    """The rows that logs add and that pass the filter."""
    for rows in delta.rows():
        if reading.row_filter is None:
            yield rows
        else:
            yield from pa.Table.from_batches([rows]).filter(reading.row_filter).to_batches()


def _small_batches(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that are not too large for the JVM."""
    max_rows = 1 + rows.num_rows * _MAX_BATCH_BYTES // max(1, rows.nbytes)
    for start in range(0, rows.num_rows, max_rows):
        yield rows.slice(start, max_rows)


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
