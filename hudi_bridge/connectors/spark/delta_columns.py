"""The columns of the DataFrame that tells what logs do to base files; those of the table follow them.

``PIECE`` is a ``Piece``. A row of the table has nothing else. Deleted positions are told by ``FILE``, the name of a
base file, ``BLOCK``, the number of a block of ``BLOCK_ROWS`` of its rows, and ``BITS``, in which bit ``n % 64`` of word
``n // 64`` is set if row ``n`` of the block is deleted or replaced. A slice has ``PLACE``, its index, and either
``REASON``, why Spark must not read its base file, or the numbers of rows that the logs have ``DELETED`` from the base
file, ``LEFT`` in it, and ``ADDED``.
"""

from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.functions import col, expr
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from hudi_bridge.connectors.spark.types import arrow_layout, spark_schema

PREFIX = "_hudi_bridge_"
PIECE = f"{PREFIX}piece"
FILE = f"{PREFIX}file"
BLOCK = f"{PREFIX}block"
BITS = f"{PREFIX}bits"
PLACE = f"{PREFIX}place"
REASON = f"{PREFIX}reason"
DELETED = f"{PREFIX}deleted"
LEFT = f"{PREFIX}left"
ADDED = f"{PREFIX}added"

POSITION = f"{PREFIX}position"
"""The position of a row in its base file, in a scan of base files."""

BLOCK_ROWS = 2048
_WORD_BITS = 64
_WORDS = BLOCK_ROWS // _WORD_BITS

Positions: TypeAlias = npt.NDArray[np.int64]
"""Positions of rows in a base file, from 0."""

_TYPES = {
    PIECE: (pa.int8(), ByteType()),
    FILE: (pa.string(), StringType()),
    BLOCK: (pa.int64(), LongType()),
    BITS: (pa.list_(pa.field("element", pa.int64())), ArrayType(LongType())),
    PLACE: (pa.int32(), IntegerType()),
    REASON: (pa.string(), StringType()),
    DELETED: (pa.int64(), LongType()),
    LEFT: (pa.int64(), LongType()),
    ADDED: (pa.int64(), LongType()),
}


class Piece(IntEnum):
    """What a row of the DataFrame is."""

    ROW = 0
    BLOCK = 1
    SLICE = 2


def is_piece(piece: Piece) -> Column:
    """Whether a row is such a piece."""
    return col(PIECE) == int(piece)


def delta_schema(table: pa.Schema) -> StructType:
    """The columns in Spark's types, with those of a table."""
    own = [StructField(name, kind) for name, (_, kind) in _TYPES.items()]
    return StructType([*own, *spark_schema(table).fields])


def delta_layout(table: pa.Schema) -> pa.Schema:
    """The columns in the Arrow types that Spark takes, with those of a table."""
    own = [pa.field(name, kind) for name, (kind, _) in _TYPES.items()]
    return pa.schema([*own, *arrow_layout(table)])


def deleted_blocks(positions: Positions) -> "tuple[pa.Array[Any], pa.Array[Any]]":
    """``BLOCK`` and ``BITS`` of positions."""
    blocks, places = np.unique(positions // BLOCK_ROWS, return_inverse=True)
    is_set = np.zeros((len(blocks), BLOCK_ROWS), dtype=np.bool_)
    is_set[places, positions % BLOCK_ROWS] = True
    words: Any = pa.array(np.packbits(is_set, axis=1, bitorder="little").reshape(-1).view("<i8"), pa.int64())
    ends: Any = pa.array(np.arange(0, len(words) + 1, _WORDS), pa.int32())
    return pa.array(blocks, pa.int64()), pa.ListArray.from_arrays(ends, words).cast(_TYPES[BITS][0])


def is_deleted(position: str) -> Column:
    """Whether the bit of a position is set, in a row of its block."""
    word, bit = f"cast(shiftright({position} % {BLOCK_ROWS}, 6) as int)", f"cast({position} % {_WORD_BITS} as int)"
    return expr(f"(shiftright({BITS}[{word}], {bit}) & 1L) = 1L")
