"""The properties of each kind of log block, in one table.

``BLOCK_KINDS`` has an entry for each ``BlockType``, ``native`` one for each kind of native log file. A kind with rows
has a decoder: for Avro datums, whose schema is in the block's header (``AvroRows``), or for a columnar file with its
own schema (``ColumnRows``). A new kind of block is a new entry; code that reads blocks asks the entry, not the type.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from hudi_bridge.errors import HudiReadError
from hudi_bridge.logformat.avro_columns import content_bounds, stated_records
from hudi_bridge.logformat.avro_cursors import Ints
from hudi_bridge.logformat.hfile import read_hfile
from hudi_bridge.logformat.hfile_blocks import HFileSource, parse_trailer
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.parquet import decode_parquet_block, parquet_block_schema, rows_and_bytes
from hudi_bridge.schema.evolve import StoredAs

_TIMES_IN_MEMORY = 2
"""Records are in memory twice: as they are decoded, and as they survive."""


class DatumBounds(NamedTuple):
    """The bounds of a block's Avro datums in ``data``, and their record keys if these are stored
    outside of the datums.
    """

    data: pa.Buffer
    starts: Ints
    ends: Ints
    keys: "pa.Array[Any] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroRows:
    """Rows as Avro datums of the schema in the block's header.

    ``bounds`` returns the bounds of the datums, ``count`` their number, or 0 if the content is damaged. Both take the
    content, the path of the file, and the offset of the content in it. Plain rows are stored uncompressed, each after
    its length: blocks of one schema can be concatenated, a record can be decoded alone, and the UTF-8 bytes of record
    keys can be searched. The writer has removed the values of a column named ``blanked``.
    """

    bounds: Callable[[pa.Buffer, str, int], DatumBounds]
    count: Callable[[pa.Buffer, str, int], int]
    are_plain: bool
    blanked: str | None = None

    @property
    def stored_as(self) -> StoredAs:
        """The format of the values."""
        return StoredAs.AVRO

    def decoded_bytes(self, content: pa.Buffer, row_bytes: int, path: str, offset: int) -> int:
        """About the memory of the decoded rows in bytes, without their texts."""
        return self.count(content, path, offset) * row_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRows:
    """Rows as a columnar file with its own schema.

    ``schema`` and ``decode`` (of some columns) take the content, the path of the log file, and the offset of the
    content in it. ``size`` returns the number of rows and the uncompressed bytes, or zeros if the content is damaged.
    """

    stored_as: StoredAs
    schema: Callable[[pa.Buffer, str, int], pa.Schema]
    decode: Callable[[pa.Buffer, Sequence[str], str, int], pa.RecordBatch]
    size: Callable[[pa.Buffer], tuple[int, int]]

    def decoded_bytes(self, content: pa.Buffer, row_bytes: int, _path: str, _offset: int) -> int:
        """About the memory of the decoded rows in bytes."""
        rows, uncompressed = self.size(content)
        return max(uncompressed, rows * row_bytes)


RowFormat: TypeAlias = AvroRows | ColumnRows


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockKind:
    """A kind of log block.

    Attributes:
        rows: how rows are decoded; None for a kind without rows to merge.
        holds_deletes: whether the block has deletes.
        columns: how deletes or change data are decoded, if they are stored as columns.
        memory_factor: the least memory for the records, as a multiple of the size of the content.
    """

    rows: RowFormat | None = None
    holds_deletes: bool = False
    columns: ColumnRows | None = None
    memory_factor: int = 0

    def bytes_when_decoded(self, content: pa.Buffer, row_bytes: int, path: str, offset: int, *, is_small: bool) -> int:
        """About the memory for the records of a block in bytes, while they are decoded and copied.

        The number of records in a small compressed block is not read.
        """
        decoded = 0
        if self.rows is not None and not (is_small and self.is_compressed):
            decoded = self.rows.decoded_bytes(content, row_bytes, path, offset)
        elif self.columns is not None and not is_small:
            # The only wide columns of deletes are texts.
            decoded = self.columns.decoded_bytes(content, 0, path, offset)
        return max(self.memory_factor * content.size, _TIMES_IN_MEMORY * decoded)

    @property
    def has_plain_rows(self) -> bool:
        """Whether rows are uncompressed Avro datums, one after another."""
        return isinstance(self.rows, AvroRows) and self.rows.are_plain

    @property
    def is_compressed(self) -> bool:
        """Whether rows may take much more memory than the content, so that their number must be read."""
        return self.rows is not None and not self.has_plain_rows


def _bounds_in_content(content: pa.Buffer, path: str, offset: int) -> DatumBounds:
    content = pa.py_buffer(content)
    starts, ends = content_bounds(content, path, offset)
    return DatumBounds(data=content, starts=starts, ends=ends, keys=None)


def _bounds_in_hfile(content: pa.Buffer, path: str, offset: int) -> DatumBounds:
    hfile = read_hfile(content, path, offset)
    return DatumBounds(data=hfile.values, starts=hfile.value_starts, ends=hfile.value_ends, keys=hfile.keys)


def cells_of_hfile(content: pa.Buffer, path: str, offset: int) -> int:
    """The number of cells of an HFile; 0 if its end is damaged."""
    try:
        return parse_trailer(HFileSource(buffer=content, path=path, offset=offset)).entry_count
    except HudiReadError:
        # Decoding the block raises the error.
        return 0


PARQUET_ROWS = ColumnRows(
    stored_as=StoredAs.PARQUET, schema=parquet_block_schema, decode=decode_parquet_block, size=rows_and_bytes
)
BLOCK_KINDS: Mapping[BlockType, BlockKind] = {
    BlockType.COMMAND: BlockKind(),
    BlockType.DELETE: BlockKind(holds_deletes=True, memory_factor=_TIMES_IN_MEMORY),
    BlockType.CORRUPT: BlockKind(),
    BlockType.AVRO_DATA: BlockKind(
        rows=AvroRows(bounds=_bounds_in_content, count=lambda content, *_: stated_records(content), are_plain=True),
        memory_factor=_TIMES_IN_MEMORY,
    ),
    BlockType.HFILE_DATA: BlockKind(
        rows=AvroRows(bounds=_bounds_in_hfile, count=cells_of_hfile, are_plain=False),
        memory_factor=6,
    ),
    BlockType.PARQUET_DATA: BlockKind(rows=PARQUET_ROWS, memory_factor=8),
    # Change data is read from its own files, and never merged.
    BlockType.CDC_DATA: BlockKind(),
}
