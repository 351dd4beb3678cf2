"""The base rows of few files that logs delete: an array of bits for each file, in which Spark finds a row by position.

An array is a literal of the plan, so that Spark needs no job for it, nor a plan of its own, as for a subquery; the JVM
shows its hash, not its values. A join with the blocks of ``delta_columns`` needs a job to broadcast them, and hashes
the name of the file for each row.

Source: ``LocalRelation``, ``UnsafeRow`` and ``Literal`` of Spark.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import bit_get, col, expr, get, lit, when

from hudi_bridge.connectors.spark.delta_columns import BITS, BLOCKS_LAYOUT, BLOCKS_SCHEMA, FILE, Positions
from hudi_bridge.connectors.spark.java import java_class

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
