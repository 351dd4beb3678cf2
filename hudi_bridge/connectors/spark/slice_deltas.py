"""Merges the logs of file slices on an executor, and decides which base files Spark may read.

The base rows of few files that logs delete: an array of bits for each file, in which Spark finds a row by position.

An array is a literal of the plan, so that Spark needs no job for it, nor a plan of its own, as for a subquery; the JVM
shows its hash, not its values. A join with the blocks of ``delta_columns`` needs a job to broadcast them, and hashes
the name of the file for each row.

Source: ``LocalRelation``, ``UnsafeRow`` and ``Literal`` of Spark.

The columns of rows that tell what logs delete from base files.

``FILE`` is the name of a base file, ``BLOCK`` the number of a block of ``BLOCK_ROWS`` of its rows, and in ``BITS`` bit
``n % 64`` of word ``n // 64`` is set if row ``n`` of the block is deleted or replaced.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import bit_get, col, expr, get, lit, when
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from hudi_bridge.connectors.spark.kept_rows import TOLD, Reports, Sent, java_class
from hudi_bridge.connectors.spark.native_columns import why_not_native
from hudi_bridge.connectors.spark.native_files import noting_error_details
from hudi_bridge.connectors.spark.plan import Reading, load_split
from hudi_bridge.connectors.spark.types import arrow_layout, in_layout
from hudi_bridge.engines import SliceDelta, slice_delta_in
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

PREFIX = "_hudi_bridge_"
FILE = f"{PREFIX}file"
BLOCK = f"{PREFIX}block"
BITS = f"{PREFIX}bits"

_BASE_FILE = f"{PREFIX}base_file"
_POSITION = f"{PREFIX}position"
_BASE_HASH = f"{PREFIX}base_hash"
_HASH = f"{PREFIX}hash"
BLOCK_ROWS = 2048
_WORD_BITS = 64
_WORDS = BLOCK_ROWS // _WORD_BITS

Positions: TypeAlias = npt.NDArray[np.int64]
"""Positions of rows in a base file, from 0."""

_TYPES = {
    FILE: (pa.string(), StringType()),
    BLOCK: (pa.int64(), LongType()),
    BITS: (pa.list_(pa.field("element", pa.int64())), ArrayType(LongType())),
}

BLOCKS_SCHEMA = StructType([StructField(name, kind) for name, (_, kind) in _TYPES.items()])
BLOCKS_LAYOUT = pa.schema([pa.field(name, kind) for name, (kind, _) in _TYPES.items()])
"""The Arrow types of the same columns, as Spark takes them."""


def blocks_in(rows: int) -> int:
    """The number of blocks of a file of so many rows."""
    return -(-rows // BLOCK_ROWS)


def deleted_blocks(file: str, positions: Positions) -> pa.RecordBatch:
    """The blocks of positions in a base file, in ``BLOCKS_LAYOUT``."""
    blocks, places = np.unique(positions // BLOCK_ROWS, return_inverse=True)
    is_set = np.zeros((len(blocks), BLOCK_ROWS), dtype=np.bool_)
    is_set[places, positions % BLOCK_ROWS] = True
    words: Any = pa.array(np.packbits(is_set, axis=1, bitorder="little").reshape(-1).view("<i8"), pa.int64())
    ends: Any = pa.array(np.arange(0, len(words) + 1, _WORDS), pa.int32())
    bits = pa.ListArray.from_arrays(ends, words).cast(BLOCKS_LAYOUT.field(BITS).type)
    names: Any = pa.repeat(file, len(blocks))
    return pa.RecordBatch.from_arrays([names, pa.array(blocks, pa.int64()), bits], schema=BLOCKS_LAYOUT)


def _columns_of_place() -> list[Column]:
    """What a scan of base files tells of the place of each row."""
    block = _block_of("_metadata.row_index")
    return [
        col("_metadata.file_name").alias(_BASE_FILE),
        col("_metadata.row_index").alias(_POSITION),
        expr(f"xxhash64(_metadata.file_name, {block})").alias(_BASE_HASH),
    ]


def without_deleted(scan: DataFrame, blocks: DataFrame) -> DataFrame:
    """The rows of a ``base_file_scan``, without those whose bit in ``blocks`` is set."""
    # Spark finds a number much sooner than a name; the name is compared with what has been found.
    hashed = blocks.select("*", expr(f"xxhash64({FILE}, {BLOCK})").alias(_HASH))
    same = f"{_BASE_FILE} = {FILE} AND {_block_of(_POSITION)} = {BLOCK}"
    word, bit = (
        f"cast(shiftright({_POSITION} & {BLOCK_ROWS - 1}, 6) as int)",
        f"cast({_POSITION} & {_WORD_BITS - 1} as int)",
    )
    is_set = f"(shiftright({BITS}[{word}], {bit}) & 1L) = 1L"
    # Within a function, the names are no keys of the join.
    placed = scan.select("*", *_columns_of_place())
    left = placed.join(hashed, expr(f"{_BASE_HASH} = {_HASH} AND if({same}, {is_set}, false)"), "left_anti")
    return left.drop(_BASE_FILE, _POSITION, _BASE_HASH)


def _block_of(position: str) -> str:
    return f"shiftright({position}, {BLOCK_ROWS.bit_length() - 1})"


MOST_FILES = 8
"""For each row, Spark compares the name of its file with those of the files one after the other."""


def deleted_bits(file: str, positions: Positions, rows: int) -> pa.RecordBatch:
    """All of a file that has so many rows as one block, in ``BLOCKS_LAYOUT``."""
    words = -(-rows // _WORD_BITS)
    is_set = np.zeros(words * _WORD_BITS, dtype=np.bool_)
    is_set[positions] = True
    array: Any = pa.array(np.packbits(is_set, bitorder="little").view("<i8"), pa.int64())
    bits = pa.ListArray.from_arrays(pa.array([0, words], pa.int32()), array).cast(BLOCKS_LAYOUT.field(BITS).type)
    return pa.RecordBatch.from_arrays([pa.array([file]), pa.array([0], pa.int64()), bits], schema=BLOCKS_LAYOUT)


def without_bits(spark: SparkSession, scan: DataFrame, files: Sequence[str], told: Any) -> DataFrame:  # noqa: ANN401
    """The rows of a ``base_file_scan`` of files, without those whose bit is set in their ``deleted_bits``.

    These are among ``told``, the rows of ``BLOCKS_SCHEMA`` as the JVM has them (``KeptBatches.told_rows``).
    """
    bits = _literals(spark, files, told)
    of_file = bits[files[0]]
    if len(files) > 1:
        name, first, *others = col("_metadata.file_name"), *files
        of_file = reduce(lambda cases, file: cases.when(name == file, bits[file]), others, when(name == first, of_file))
    word = get(of_file, expr("cast(shiftright(_metadata.row_index, 6) AS int)"))
    return scan.where(bit_get(word, expr(f"cast(_metadata.row_index & {_WORD_BITS - 1} AS int)")) == lit(0))


def _literals(spark: SparkSession, files: Sequence[str], told: Any) -> dict[str, Column]:  # noqa: ANN401
    file_at, bits_at = map(BLOCKS_SCHEMA.fieldNames().index, (FILE, BITS))
    kind = spark._jsparkSession.parseDataType(BLOCKS_SCHEMA[BITS].dataType.json())  # noqa: SLF001
    literal = java_class(spark, "org.apache.spark.sql.catalyst.expressions.Literal")
    found: dict[str, Column] = {}
    for place in range(told.size()):
        row = told.apply(place)
        file = row.getString(file_at)
        if file in files:
            found[file] = lit(literal(row.getArray(bits_at), kind))
    return found


DeltaTask: TypeAlias = tuple[tuple[int, bytes], ...]
"""The slices that one Spark task merges: the place of each among all, and the pickled split."""

ROWS, BLOCKS = TOLD + 1, TOLD + 2
"""The kinds of batches that are kept: rows of the table, and blocks of deleted positions."""

# Of the base file.
_ROWS_PER_BATCH = BLOCK_ROWS * 1024
# The JVM's usual collector (G1) copies small arrays several times, and has to find room for a large one in one piece.
_PIECE_BYTES = 1 << 23


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSlice:
    """What the merge of a slice tells the driver.

    ``reason`` says why Spark must not read its base file; the rest is 0 then. The logs have ``deleted`` rows of the
    base file, ``left`` others in it, and ``added`` some, of ``added_bytes`` in Arrow. Of the deleted positions,
    ``blocks_kept`` blocks are kept, and others are told; ``in_bits`` says that they are told as ``deleted_bits``.
    """

    reason: str | None = None
    deleted: int = 0
    left: int = 0
    added: int = 0
    added_bytes: int = 0
    blocks_kept: int = 0
    in_bits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaJob:
    """What all tasks have in common.

    Each tells the driver at most ``most_blocks`` blocks of deleted positions, or nothing but as many bits if there are
    ``few_files``.
    """

    reading: Reading
    most_blocks: int
    few_files: bool
    use_threads: bool

    def __call__(self, task: DeltaTask, reports: Reports[MergedSlice]) -> Iterator[Sent]:
        """The ``ROWS`` that logs add, and deleted positions, told or kept; reports every slice by its place."""
        reading = self.reading
        storages: dict[str, Storage] = {}
        room = self.most_blocks
        with noting_error_details():
            for place, pickled in task:
                split = load_split(pickled, reading.contexts)
                assert isinstance(split, RealtimeFileSplit)
                path = split.context.table_path
                if path not in storages:
                    storages[path] = split.context.open_storage()
                # As many tasks as the machine has cores may share its memory.
                at_once = os.cpu_count() or 1
                with slice_delta_in(
                    storages[path], split, reading.schema.names, use_threads=self.use_threads, at_once=at_once
                ) as delta:
                    base = delta.base_file
                    reason = None if base is None else why_not_native(split, base, reading.schema)
                    if reason is not None:
                        reports[place] = MergedSlice(reason=reason)
                        continue
                    added = added_bytes = 0
                    for rows in in_layout(_passing(reading, delta), arrow_layout(reading.schema)):
                        added += rows.num_rows
                        added_bytes += rows.nbytes
                        yield from ((ROWS, piece) for piece in _pieces(rows))
                    if base is None:
                        reports[place] = MergedSlice(added=added, added_bytes=added_bytes)
                        continue
                    positions, name = delta.deleted_positions, base.path.rpartition("/")[2]
                    left = base.rows - len(positions)
                    in_bits = self.few_files and blocks_in(base.rows) <= room
                    deletes: list[pa.RecordBatch] = []
                    # Without any row left, the file is not read.
                    if len(positions) and left:
                        deletes += [deleted_bits(name, positions, base.rows)] if in_bits else _blocks(name, positions)
                    blocks = blocks_in(base.rows) if in_bits else sum(batch.num_rows for batch in deletes)
                    # Of few files, nothing but bits is told.
                    is_told = blocks <= room and in_bits == self.few_files
                    yield from ((TOLD if is_told else BLOCKS, batch) for batch in deletes)
                    if deletes and is_told:
                        room -= blocks
                    reports[place] = MergedSlice(
                        added=added,
                        added_bytes=added_bytes,
                        deleted=len(positions),
                        left=left,
                        blocks_kept=0 if is_told else blocks,
                        in_bits=in_bits,
                    )


def _blocks(file: str, positions: Positions) -> Iterator[pa.RecordBatch]:
    """The blocks of positions, one at least, in a base file."""
    for start in range(0, int(positions[-1]) + 1, _ROWS_PER_BATCH):
        first, end = np.searchsorted(positions, (start, start + _ROWS_PER_BATCH))
        if first < end:
            yield deleted_blocks(file, positions[first:end])


def _passing(reading: Reading, delta: SliceDelta) -> Iterator[pa.RecordBatch]:
    """The rows of a delta that pass the filter."""
    for rows in delta.rows():
        if reading.row_filter is None:
            yield rows
        else:
            yield from pa.Table.from_batches([rows]).filter(reading.row_filter).to_batches()


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of which none is too large for the JVM."""
    most = 1 + rows.num_rows * _PIECE_BYTES // max(1, rows.nbytes)
    for start in range(0, rows.num_rows, most):
        yield rows.slice(start, most)
