"""The columns of rows that tell what logs delete from base files.

``FILE`` is the name of a base file, ``BLOCK`` the number of a block of ``BLOCK_ROWS`` of its rows, and in ``BITS`` bit
``n % 64`` of word ``n // 64`` is set if row ``n`` of the block is deleted or replaced.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col, expr
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

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
