"""The base rows of few files that logs delete, as one array of bits of which Spark finds each row's by its position.

The array is the only value of a subquery over rows that the plan holds, so that Spark needs no job for it, and
``explain`` does not print it. A join with the blocks of ``delta_columns`` needs a job to broadcast them, and hashes the
name of the file for each row.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from hudi_bridge.connectors.spark.delta_columns import BITS, BLOCK, BLOCK_ROWS, FILE, PREFIX

# For each row, Spark compares the name of its file with those of the files one after the other.
MOST_FILES = 8
# A bit for each row of the files becomes part of the plan, and of each task: 2 MB.
MOST_ROWS = 1 << 24

_WORD_BITS = 64
_WORDS = BLOCK_ROWS // _WORD_BITS

BITS_SCHEMA = StructType([StructField(BITS, ArrayType(LongType(), containsNull=False), nullable=False)])
_LAYOUT = pa.schema([pa.field(BITS, pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False)])


def are_few(rows_by_file: Mapping[str, int]) -> bool:
    """Whether files of so many rows have one array."""
    return len(rows_by_file) <= MOST_FILES and sum(rows_by_file.values()) <= MOST_ROWS


def bits_of(rows_by_file: Mapping[str, int], blocks: pa.RecordBatch) -> pa.RecordBatch:
    """One row with the bits of files, which are given with their numbers of rows, out of ``told_blocks``."""
    starts = first_words(rows_by_file)
    bits = np.zeros((sum(map(_blocks_of, rows_by_file.values())), _WORDS), dtype=np.int64)
    files: Any = blocks.column(FILE)
    words: Any = blocks.column(BITS)
    places = [starts[file] // _WORDS for file in files.to_pylist()]
    numbers = blocks.column(BLOCK).to_numpy(zero_copy_only=False)
    # A block is a row of the array: all have the same number of words.
    bits[np.array(places, dtype=np.int64) + numbers] = (
        words.flatten().to_numpy(zero_copy_only=False).reshape(-1, _WORDS)
    )
    array = pa.ListArray.from_arrays(pa.array([0, bits.size], pa.int32()), pa.array(bits.reshape(-1), pa.int64()))
    return pa.RecordBatch.from_arrays([array.cast(_LAYOUT.field(0).type)], schema=_LAYOUT)


def without_bits(spark: SparkSession, scan: DataFrame, rows_by_file: Mapping[str, int], bits: DataFrame) -> DataFrame:
    """The rows of a ``base_file_scan``, without those whose bit is set in the row of ``bits_of``."""
    starts = first_words(rows_by_file)
    start = ""
    if len(starts) > 1:
        # These names have no signs that need quoting.
        cases = (f"WHEN '{name}' THEN {word}" for name, word in starts.items())
        start = f"CASE _metadata.file_name {' '.join(cases)} END + "
    # Before Spark 4, a subquery is made of a name alone. It is not needed once it has been looked up.
    view = f"{PREFIX}{uuid4().hex}"
    word = f"get((SELECT {BITS} FROM {view}), {start}cast(shiftright(_metadata.row_index, 6) AS int))"
    bit = f"cast(_metadata.row_index & {_WORD_BITS - 1} AS int)"
    bits.createTempView(view)
    try:
        return scan.where(f"(shiftright({word}, {bit}) & 1L) = 0L")
    finally:
        spark.catalog.dropTempView(view)


def first_words(rows_by_file: Mapping[str, int]) -> dict[str, int]:
    """The place of each file's first word in the array."""
    starts, words = {}, 0
    for name, rows in rows_by_file.items():
        starts[name] = words
        words += _blocks_of(rows) * _WORDS
    return starts


def _blocks_of(rows: int) -> int:
    return -(-rows // BLOCK_ROWS)
