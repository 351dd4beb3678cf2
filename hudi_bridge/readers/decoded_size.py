"""Estimates the memory that log records take, before they are decoded."""

from collections.abc import Iterable
from typing import assert_never

import pyarrow as pa

from hudi_bridge.errors import HudiReadError
from hudi_bridge.logformat.avro_columns import stated_records
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.hfile_blocks import HFileSource, parse_trailer
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.native import is_native
from hudi_bridge.logformat.parquet import rows_and_bytes

_TIMES_IN_MEMORY = 2
"""How often records are in memory at the same time: as they are decoded, and as they survive."""
_TIMES_OF_HFILE = 6
_TIMES_OF_PARQUET = 8
_MOST_TIMES_COMPRESSED = 1024
"""Compressed blocks that would fit into memory at this ratio are not looked into."""
_OFFSET_BITS = 32


def bytes_of_row(schema: pa.Schema) -> int:
    """About the bytes of memory for a row of these columns, without its texts and the elements of its lists."""
    return -(-sum(_bits(field.type) for field in schema) // 8)


def bytes_when_decoded(blocks: Iterable[LogBlock], row_bytes: int, memory_bytes: int) -> int:
    """About the bytes of memory for the records of blocks as they are decoded, and once more as they survive.

    Texts take what they take in the content of a block, or without its compression. All else takes ``row_bytes`` for
    each record: a null is a byte in Avro, and almost nothing if it is compressed, but as wide as any value in Arrow.

    Of compressed blocks, the number of records is read only if they could exceed ``memory_bytes``.
    """
    counted = [block for block in blocks if block.holds_records]
    is_small = _MOST_TIMES_COMPRESSED * sum(block.content.size for block in counted) <= memory_bytes
    return sum(_of_block(block, row_bytes, is_small=is_small) for block in counted)


def _of_block(block: LogBlock, row_bytes: int, *, is_small: bool) -> int:
    content = block.content
    match block.block_type:
        case BlockType.AVRO_DATA:
            return _TIMES_IN_MEMORY * max(content.size, stated_records(content) * row_bytes)
        case BlockType.DELETE:
            return _of_parquet(content, 0, is_small=is_small) if is_native(block) else _TIMES_IN_MEMORY * content.size
        case BlockType.HFILE_DATA:
            records = 0 if is_small else _cells(block)
            return max(_TIMES_OF_HFILE * content.size, _TIMES_IN_MEMORY * records * row_bytes)
        case BlockType.PARQUET_DATA:
            return _of_parquet(content, row_bytes, is_small=is_small)
        case BlockType.COMMAND | BlockType.CDC_DATA | BlockType.CORRUPT:
            return 0
        case _:
            assert_never(block.block_type)


def _of_parquet(content: pa.Buffer, row_bytes: int, *, is_small: bool) -> int:
    rows, inflated = (0, 0) if is_small else rows_and_bytes(content)
    return max(_TIMES_OF_PARQUET * content.size, _TIMES_IN_MEMORY * max(inflated, rows * row_bytes))


def _cells(block: LogBlock) -> int:
    """The number of cells of an HFile; 0 if it is damaged, which decoding tells."""
    try:
        return parse_trailer(
            HFileSource(buffer=block.content, path=block.path, offset=block.content_offset)
        ).entry_count
    except HudiReadError:
        return 0


def _bits(kind: pa.DataType) -> int:
    """The bits of a value in memory, and of its being valid; of texts and lists, those of where they end."""
    if pa.types.is_struct(kind):
        return 1 + sum(_bits(kind.field(position).type) for position in range(kind.num_fields))
    if pa.types.is_fixed_size_list(kind):
        return int(1 + kind.list_size * _bits(kind.value_type))
    try:
        return 1 + kind.bit_width
    except ValueError:
        return 1 + _OFFSET_BITS
