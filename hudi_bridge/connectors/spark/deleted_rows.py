"""Removes the base rows that logs delete or replace from Spark's scan of base files, by their positions.

The deleted positions of a file are bits, in rows of ``BLOCKS_SCHEMA``: bit ``n % 64`` of word ``n // 64`` in ``BITS``
is set if row ``n`` of the block is deleted or replaced. There are two forms:

- blocks: ``BLOCK`` is the number of a block of ``BLOCK_ROWS`` rows of the file ``FILE``. An anti join finds the block
  of a row, which needs a job to broadcast the blocks, and a hash of the file name for each row.
- bits: one block holds all rows of a file. It is an array literal of the plan: Spark needs no job for it, nor a plan of
  its own, as it would for a subquery. The JVM shows the literal's hash, not its values.

Source: ``LocalRelation``, ``UnsafeRow`` and ``Literal`` of Spark.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import bit_get, col, expr, get, lit, when
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

PREFIX = "_hudi_bridge_"
"""How all columns begin that this package adds to those of a table."""
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

MAX_BIT_FILES = 8
"""For each row, Spark compares the name of its file with the names of these files one after the other."""

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


def block_count(rows: int) -> int:
    """The number of blocks of a file of so many rows."""
    return -(-rows // BLOCK_ROWS)


def deleted_blocks(file: str, positions: Positions) -> pa.RecordBatch:
    """The blocks of positions in a base file, in ``BLOCKS_LAYOUT``."""
    blocks, block_indexes = np.unique(positions // BLOCK_ROWS, return_inverse=True)
    is_set = np.zeros((len(blocks), BLOCK_ROWS), dtype=np.bool_)
    is_set[block_indexes, positions % BLOCK_ROWS] = True
    words: Any = pa.array(np.packbits(is_set, axis=1, bitorder="little").reshape(-1).view("<i8"), pa.int64())
    ends: Any = pa.array(np.arange(0, len(words) + 1, _WORDS), pa.int32())
    bits = pa.ListArray.from_arrays(ends, words).cast(BLOCKS_LAYOUT.field(BITS).type)
    names: Any = pa.repeat(file, len(blocks))
    return pa.RecordBatch.from_arrays([names, pa.array(blocks, pa.int64()), bits], schema=BLOCKS_LAYOUT)


def deleted_bits(file: str, positions: Positions, rows: int) -> pa.RecordBatch:
    """One block for all ``rows`` of a base file, in ``BLOCKS_LAYOUT``."""
    words = -(-rows // _WORD_BITS)
    is_set = np.zeros(words * _WORD_BITS, dtype=np.bool_)
    is_set[positions] = True
    array: Any = pa.array(np.packbits(is_set, bitorder="little").view("<i8"), pa.int64())
    bits = pa.ListArray.from_arrays(pa.array([0, words], pa.int32()), array).cast(BLOCKS_LAYOUT.field(BITS).type)
    return pa.RecordBatch.from_arrays([pa.array([file]), pa.array([0], pa.int64()), bits], schema=BLOCKS_LAYOUT)


def without_blocks(scan: DataFrame, blocks: DataFrame) -> DataFrame:
    """The rows of a scan of base files whose bit is not set in ``blocks``, by an anti join."""
    # Spark finds a number much sooner than a name. The names are compared after the hashes.
    hashed = blocks.select("*", expr(f"xxhash64({FILE}, {BLOCK})").alias(_HASH))
    is_same_block = f"{_BASE_FILE} = {FILE} AND {_block_of(_POSITION)} = {BLOCK}"
    word, bit = (
        f"cast(shiftright({_POSITION} & {BLOCK_ROWS - 1}, 6) as int)",
        f"cast({_POSITION} & {_WORD_BITS - 1} as int)",
    )
    is_set = f"(shiftright({BITS}[{word}], {bit}) & 1L) = 1L"
    # Within a function, Spark does not take the names for keys of the join.
    condition = expr(f"{_BASE_HASH} = {_HASH} AND if({is_same_block}, {is_set}, false)")
    remaining = scan.select("*", *_position_columns()).join(hashed, condition, "left_anti")
    return remaining.drop(_BASE_FILE, _POSITION, _BASE_HASH)


def without_bits(scan: DataFrame, files: Sequence[str], bits: Mapping[str, Column]) -> DataFrame:
    """The rows of a scan of base files of ``files`` whose bit is not set in the array for the file in ``bits``."""
    of_file = bits[files[0]]
    if len(files) > 1:
        name, first, *others = col("_metadata.file_name"), *files
        of_file = reduce(lambda cases, file: cases.when(name == file, bits[file]), others, when(name == first, of_file))
    word = get(of_file, expr("cast(shiftright(_metadata.row_index, 6) AS int)"))
    return scan.where(bit_get(word, expr(f"cast(_metadata.row_index & {_WORD_BITS - 1} AS int)")) == lit(0))


def _position_columns() -> list[Column]:
    """The file and position of each row of a scan, and the hash of its block."""
    block = _block_of("_metadata.row_index")
    return [
        col("_metadata.file_name").alias(_BASE_FILE),
        col("_metadata.row_index").alias(_POSITION),
        expr(f"xxhash64(_metadata.file_name, {block})").alias(_BASE_HASH),
    ]


def _block_of(position: str) -> str:
    return f"shiftright({position}, {BLOCK_ROWS.bit_length() - 1})"
