"""Constants of Hudi's log file format.

A log file is a sequence of blocks without a file header. Integers are big-endian. A block:

    offset  width  meaning
    0       6      magic ``#HUDI#``
    6       8      size N: bytes from offset 14 to the end of the block
    14      4      log format version
    18      4      block type
    22      4      number of header entries; each is a 4-byte key, a 4-byte length, and UTF-8
    ...     8      content length
    ...     ...    content
    ...     4      number of footer entries, encoded like header entries; always 0 so far
    6 + N   8      N + 6, which counts the magic but not the size field

Source: ``HoodieLogFormatWriter`` and ``HoodieLogFileReader``.
"""

import struct
from enum import IntEnum

MAGIC = b"#HUDI#"

# HoodieLogFormatVersion. Version 0, written only before Hudi 0.5, has no block type, header or footer.
LOG_FORMAT_VERSION = 1

SIZE_FIELD = struct.Struct(">q")
COUNT_FIELD = struct.Struct(">i")
HEADER_ENTRY = struct.Struct(">ii")
# The fields after the magic: size, log format version, block type and number of header entries.
BLOCK_START = struct.Struct(">qiii")

# The bytes that the size field does not count: the magic and the size field itself.
UNCOUNTED_SIZE = len(MAGIC) + SIZE_FIELD.size
# The size of an empty block: version, type, header count, content length, footer count and trailing length.
MIN_BLOCK_SIZE = 4 + 4 + 4 + 8 + 4 + 8


class BlockType(IntEnum):
    """The content of a block (``HoodieLogBlock.HoodieLogBlockType``); the same in Hudi 0.12 to 1.2."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """Keys of a block header (``HoodieLogBlock.HeaderMetadataType``); 0.12 has 0 to 3, 0.15 has 0 to 6."""

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
    """Commands of a command block (``HoodieCommandBlock.HoodieCommandBlockTypeEnum``)."""

    ROLLBACK = 0


class ContentVersion(IntEnum):
    """``HoodieLogBlock.version``, the first int32 of the content of Avro and delete blocks.

    Hudi 0.12 writes 2, Hudi 0.15 to 1.2 write 3, in both kinds of block. Each version encodes deletes in
    another way (``HoodieDeleteBlock``); Avro blocks have the same layout in all three.
    """

    KRYO_KEYS = 1
    KRYO_DELETE_RECORDS = 2
    AVRO_DELETE_RECORDS = 3


class OrderingKind(IntEnum):
    """Kinds of ordering value in a delete block: the branches of the union ``HoodieDeleteRecord.orderingVal``.

    ``LOCAL_DATE`` occurs only within an array, where it is branch 12 (Hudi 1.1 and later). ``UTF8`` is text in Kryo
    with Avro's class for text, which rows have too.
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
    UTF8 = 14
