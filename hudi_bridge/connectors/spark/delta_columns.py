"""The columns of the DataFrame that tells what logs do to base files; those of the table follow them.

``PIECE`` is a ``Piece``. A row of the table has nothing else. A position has ``FILE``, the name of a base file, and
``POSITION``, from 0. A slice has ``PLACE``, its index, and either ``REASON``, why Spark must not read its base file, or
the numbers of rows that the logs have ``DELETED`` from the base file, ``LEFT`` in it, and ``ADDED``.
"""

from enum import IntEnum

import pyarrow as pa
from pyspark.sql.types import ByteType, IntegerType, LongType, StringType, StructField, StructType

from hudi_bridge.connectors.spark.types import arrow_layout, spark_schema

PREFIX = "_hudi_bridge_"
PIECE = f"{PREFIX}piece"
FILE = f"{PREFIX}file"
POSITION = f"{PREFIX}position"
PLACE = f"{PREFIX}place"
REASON = f"{PREFIX}reason"
DELETED = f"{PREFIX}deleted"
LEFT = f"{PREFIX}left"
ADDED = f"{PREFIX}added"

_TYPES = {
    PIECE: (pa.int8(), ByteType()),
    FILE: (pa.string(), StringType()),
    POSITION: (pa.int64(), LongType()),
    PLACE: (pa.int32(), IntegerType()),
    REASON: (pa.string(), StringType()),
    DELETED: (pa.int64(), LongType()),
    LEFT: (pa.int64(), LongType()),
    ADDED: (pa.int64(), LongType()),
}


class Piece(IntEnum):
    """What a row of the DataFrame is."""

    ROW = 0
    POSITION = 1
    SLICE = 2


def delta_schema(table: pa.Schema) -> StructType:
    """The columns in Spark's types, with those of a table."""
    own = [StructField(name, kind) for name, (_, kind) in _TYPES.items()]
    return StructType([*own, *spark_schema(table).fields])


def delta_layout(table: pa.Schema) -> pa.Schema:
    """The columns in the Arrow types that Spark takes, with those of a table."""
    own = [pa.field(name, kind) for name, (kind, _) in _TYPES.items()]
    return pa.schema([*own, *arrow_layout(table)])
