"""The numbers of Hudi's log file format: magic, versions, block types, header keys, kinds of ordering values.

A log file is a run of blocks without a file header. Integers are big-endian. One block, as
``HoodieLogFormatWriter`` writes it and ``HoodieLogFileReader`` reads it:

    offset  width  meaning
    0       6      magic ``#HUDI#``
    6       8      size N: bytes from offset 14 to the end of the block, trailing length included
    14      4      log format version
    18      4      block type
    22      4      number of header entries; each is a 4-byte key, a 4-byte length, and UTF-8
    ...     8      content length
    ...     ...    content
    ...     4      number of footer entries, coded as those of the header; 0 so far
    6 + N   8      trailing length: N + 6, the magic included and the size field left out
"""

import struct
from enum import IntEnum

MAGIC = b"#HUDI#"

# HoodieLogFormatVersion; version 0 has no block type, header or footer and was written before Hudi 0.5 only.
LOG_FORMAT_VERSION = 1

SIZE_FIELD = struct.Struct(">q")
COUNT_FIELD = struct.Struct(">i")
HEADER_ENTRY = struct.Struct(">ii")
# Size, log format version, block type and number of header entries, right after the magic.
BLOCK_START = struct.Struct(">qiii")

# What the size field does not count: the magic and the size field itself.
UNCOUNTED_SIZE = len(MAGIC) + SIZE_FIELD.size
# Version, type, header count, content length, footer count and trailing length of a block that holds nothing.
MIN_BLOCK_SIZE = 4 + 4 + 4 + 8 + 4 + 8


class BlockType(IntEnum):
    """What a block holds: ``HoodieLogBlock.HoodieLogBlockType``, the same in Hudi 0.12 to 1.2."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


DATA_BLOCK_TYPES = frozenset({BlockType.AVRO_DATA, BlockType.HFILE_DATA, BlockType.PARQUET_DATA})


class HeaderKey(IntEnum):
    """Keys of a block header: ``HoodieLogBlock.HeaderMetadataType``; 0.12 has 0 to 3, 0.15 has 0 to 6."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


class CommandType(IntEnum):
    """Commands of a command block: ``HoodieCommandBlock.HoodieCommandBlockTypeEnum``."""

    ROLLBACK = 0


class ContentVersion(IntEnum):
    """``HoodieLogBlock.version``, the first int32 of Avro and delete contents.

    One counter for both kinds of content: Hudi 0.12 stamps 2, Hudi 0.15 to 1.2 stamp 3. A delete block
    changes its coding with every step (``HoodieDeleteBlock``); an Avro block has one layout for all three.
    """

    KRYO_KEYS = 1
    KRYO_DELETE_RECORDS = 2
    AVRO_DELETE_RECORDS = 3


class OrderingKind(IntEnum):
    """Kinds of an ordering value in a delete block: branches of ``HoodieDeleteRecord.orderingVal``.

    ``LOCAL_DATE`` occurs inside an array only, where it is branch 12 (Hudi 1.1 and later).
    """

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    ARRAY = 12
    LOCAL_DATE = 13
