"""The columns of rows that tell what logs delete from base files.

``FILE`` is the name of a base file, ``BLOCK`` the number of a block of ``BLOCK_ROWS`` of its rows, and in ``BITS`` bit
``n % 64`` of word ``n // 64`` is set if row ``n`` of the block is deleted or replaced. Where such rows are too many for
the driver, they are kept among the rows of the table that logs add: those have nulls in these columns.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.functions import expr
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from hudi_bridge.connectors.spark.types import arrow_layout, spark_schema

PREFIX = "_hudi_bridge_"
FILE = f"{PREFIX}file"
BLOCK = f"{PREFIX}block"
BITS = f"{PREFIX}bits"

POSITION = f"{PREFIX}position"
"""The position of a row in its base file, in a scan of base files."""

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


def delta_schema(table: pa.Schema) -> StructType:
    """The columns in Spark's types, with those of a table."""
    return StructType([*BLOCKS_SCHEMA.fields, *spark_schema(table).fields])


def delta_layout(table: pa.Schema) -> pa.Schema:
    """The columns in the Arrow types that Spark takes, with those of a table."""
    return pa.schema([*BLOCKS_LAYOUT, *arrow_layout(table)])


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


def without_deleted(scan: DataFrame, blocks: DataFrame) -> DataFrame:
    """The rows of a scan, with ``FILE`` and ``POSITION``, without those whose bit in ``blocks`` is set."""
    shift = BLOCK_ROWS.bit_length() - 1
    # Spark finds a number much sooner than a name; the name is compared with what has been found.
    left = scan.withColumn(_HASH, expr(f"xxhash64({FILE}, shiftright({POSITION}, {shift}))")).alias("base")
    right = blocks.withColumn(_HASH, expr(f"xxhash64({FILE}, {BLOCK})")).alias("deleted")
    same = f"base.{FILE} = deleted.{FILE} AND shiftright({POSITION}, {shift}) = deleted.{BLOCK}"
    word, bit = (
        f"cast(shiftright({POSITION} & {BLOCK_ROWS - 1}, 6) as int)",
        f"cast({POSITION} & {_WORD_BITS - 1} as int)",
    )
    is_set = f"(shiftright({BITS}[{word}], {bit}) & 1L) = 1L"
    # Within a function, the names are no keys of the join.
    return left.join(right, expr(f"base.{_HASH} = deleted.{_HASH} AND if({same}, {is_set}, false)"), "left_anti")
