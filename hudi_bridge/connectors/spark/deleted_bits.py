"""The base rows of few files that logs delete: an array of bits for each file, in which Spark finds a row by position.

An array is the only value of a subquery over rows that the plan holds, so that Spark needs no job for it, and
``explain`` does not print it. A join with the blocks of ``delta_columns`` needs a job to broadcast them, and hashes the
name of the file for each row.
"""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hudi_bridge.connectors.spark.delta_columns import BITS, BLOCKS_LAYOUT, FILE, PREFIX, Positions

MOST_FILES = 8
"""For each row, Spark compares the name of its file with those of the files one after the other."""

_WORD_BITS = 64


def deleted_bits(file: str, positions: Positions, rows: int) -> pa.RecordBatch:
    """All of a file that has so many rows as one block, in ``BLOCKS_LAYOUT``."""
    words = -(-rows // _WORD_BITS)
    is_set = np.zeros(words * _WORD_BITS, dtype=np.bool_)
    is_set[positions] = True
    array: Any = pa.array(np.packbits(is_set, bitorder="little").view("<i8"), pa.int64())
    bits = pa.ListArray.from_arrays(pa.array([0, words], pa.int32()), array).cast(BLOCKS_LAYOUT.field(BITS).type)
    return pa.RecordBatch.from_arrays([pa.array([file]), pa.array([0], pa.int64()), bits], schema=BLOCKS_LAYOUT)


def without_bits(spark: SparkSession, scan: DataFrame, files: Sequence[str], bits: DataFrame) -> DataFrame:
    """The rows of a ``base_file_scan`` of files, without those whose bit is set in the rows of ``deleted_bits``."""
    # Before Spark 4, a subquery is made of a name alone. It is not needed once it has been looked up.
    view = f"{PREFIX}{uuid4().hex}"
    of_file = f"(SELECT {BITS} FROM {view})"
    if len(files) > 1:
        # These names have no signs that need quoting.
        cases = (f"WHEN '{name}' THEN (SELECT {BITS} FROM {view} WHERE {FILE} = '{name}')" for name in files)
        of_file = f"CASE _metadata.file_name {' '.join(cases)} END"
    word = f"get({of_file}, cast(shiftright(_metadata.row_index, 6) AS int))"
    bit = f"cast(_metadata.row_index & {_WORD_BITS - 1} AS int)"
    bits.createTempView(view)
    try:
        return scan.where(f"(shiftright({word}, {bit}) & 1L) = 0L")
    finally:
        spark.catalog.dropTempView(view)
