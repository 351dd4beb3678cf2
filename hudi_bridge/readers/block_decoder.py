"""Decodes the blocks of the log files of a split.

Puts small log blocks together that follow one another, to be decoded at once.

What a step costs besides the records, such as a call of Arrow or NumPy, would be most of the time for each of them.

Estimates the memory that log records take, before they are decoded.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import OPERATION_FIELD_KEY
from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.avro_columns import decode_avro_records
from hudi_bridge.logformat.avro_cursors import Ints
from hudi_bridge.logformat.block import LogBlock, is_native, native_deletes, parse_record_positions
from hudi_bridge.logformat.delete_records import parse_delete_block
from hudi_bridge.logformat.kinds import BLOCK_KINDS, AvroRows, ColumnRows
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.merge.arrays import Booleans, Column, Positions, all_positions, as_booleans, ordering_type
from hudi_bridge.merge.record_map import LogRecords, data_records, delete_records, has_default_ordering, selected
from hudi_bridge.readers.base_formats.footers import is_foreign
from hudi_bridge.readers.request import rule_of
from hudi_bridge.readers.split_columns import plan_file_evolution, record_keys, with_path_columns, without_path_columns
from hudi_bridge.schema.avro import AvroRecord, arrow_schema, parse_avro_schema
from hudi_bridge.schema.evolve import Evolution, StoredAs
from hudi_bridge.schema.meta_columns import (
    COMMIT_TIME_COLUMN,
    FILE_NAME_COLUMN,
    META_COLUMNS,
    OPERATION_COLUMN,
    PARTITION_PATH_COLUMN,
)
from hudi_bridge.splits.file_slice import file_id_of
from hudi_bridge.splits.notes import warn_of_foreign_rows, warn_of_missing_meta_columns
from hudi_bridge.splits.split import RealtimeFileSplit

_SMALL_BYTES = 1 << 18
"""The size of the content of a small block, at most."""
_RUN_BYTES = 1 << 21
"""The size of the contents of small blocks that are put together, at most."""


def runs(blocks: deque[LogBlock], likeness: Callable[[LogBlock], Hashable]) -> Iterator[list[LogBlock]]:
    """The blocks in their order: small ones together, if they have an equal ``likeness`` that is not None, or one.

    Takes them out of ``blocks`` as they are given.
    """
    while blocks:
        run = [blocks.popleft()]
        size = run[0].content.size
        alike = likeness(run[0]) if size <= _SMALL_BYTES else None
        while alike is not None and blocks and likeness(blocks[0]) == alike:
            more = blocks[0].content.size
            if more > _SMALL_BYTES or size + more > _RUN_BYTES:
                break
            run.append(blocks.popleft())
            size += more
        yield run


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
    kind = block.kind
    if kind.holds_deletes and is_native(block):
        # The deletes are a Parquet file, whose only wide columns are texts.
        kind, row_bytes = BLOCK_KINDS[BlockType.PARQUET_DATA], 0
    return kind.bytes_when_decoded(block.content, row_bytes, block.path, block.content_offset, is_small=is_small)


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


_PARQUET = ".parquet"
_PIECE_RECORDS = 1 << 15
"""The most records of a block that are decoded at a time: decoding takes several times as much memory as they do."""
_PIECE_BYTES = 1 << 23


class BlockDecoder:
    """Decodes the log blocks of one split; blocks with the same writer schema share its parsing and evolution.

    With ``wanted_keys``, only the record keys of all records are decoded, and of the wanted ones the columns. Records
    have the positions in the base file that ``told`` gives; without it, none.
    """

    def __init__(
        self,
        split: RealtimeFileSplit,
        columns: Iterable[str],
        wanted_keys: "Column | None" = None,
        *,
        told: "ToldPositions | None" = None,
    ) -> None:
        context, rule = split.context, rule_of(split)
        needed = dict.fromkeys([*columns, *context.key_columns, *rule.columns_in(context.schema)])
        self.schema = pa.schema([context.schema.field(name) for name in needed])
        self._row_bytes = bytes_of_row(self.schema)
        self._block_schema = without_path_columns(self.schema, split)
        self._key_schema = pa.schema([context.schema.field(name) for name in context.key_columns])
        self._split = split
        self._rule = rule
        self._wanted_keys = wanted_keys
        self._told = told
        self._writers: dict[str, AvroRecord] = {}
        self._evolutions: dict[tuple[str, str, BlockType, bool, bool], Evolution] = {}

    def decode(self, block: LogBlock) -> LogRecords:
        """The records of a data or delete block.

        Raises:
            CorruptLogFileError: the content is not what its header says.
        """
        match block.kind.rows:
            case AvroRows():
                datums = self.datums(block)
                return self._records(block, datums, self._positions(block, len(datums)))
            case ColumnRows() as columns:
                return self._column_records(block, columns)
        if not block.kind.holds_deletes:
            raise ValueError(f"a {block.block_type.name} block has no records to merge")
        deletes = self._deletes(block)
        wanted = self._wanted(deletes.keys)
        return deletes if wanted is None else selected(deletes, wanted)

    def pieces(self, block: LogBlock, *, are_held: bool = True) -> Iterator[LogRecords]:
        """The records of a data or delete block as those of ``decode``, some at a time in their order.

        Unless all ``are_held`` in the end, fewer at a time where they become much larger than their block.

        Raises:
            CorruptLogFileError: the content is not what its header says.
        """
        if not isinstance(block.kind.rows, AvroRows):
            yield self.decode(block)
            return
        datums = self.datums(block)
        positions = self._positions(block, len(datums))
        size = max(1, block.content.size, 0 if are_held else len(datums) * self._row_bytes)
        most = min(_PIECE_RECORDS, 1 + _PIECE_BYTES * len(datums) // size)
        for start in range(0, max(1, len(datums)), most):
            piece = slice(start, start + most)
            yield self._records(block, datums.between(piece), positions if positions is None else positions[piece])

    def in_order(self, blocks: deque[LogBlock], *, are_held: bool = True) -> Iterator[LogRecords]:
        """The records of data and delete blocks as those of ``pieces``.

        Takes the blocks out of ``blocks`` as they are decoded.

        Raises:
            CorruptLogFileError: the content of a block is not what its header says.
        """
        for run in runs(blocks, self.likeness):
            if len(run) == 1:
                yield from self.pieces(run[0], are_held=are_held)
            else:
                yield self.of_run(run, *self.joined(run))

    def likeness(self, block: LogBlock) -> Hashable:
        """Equal for blocks that can be decoded together, in equal partitions; None for one decoded alone."""
        if not block.kind.has_plain_rows:
            return None
        instant = "" if self._split.context.schema_history is None else block.instant_time
        has_positions = self._told is not None and self._told.is_of(block)
        return block.schema_text, block.is_partial, instant, has_positions

    def joined(self, blocks: Sequence[LogBlock]) -> "tuple[Datums, list[int]]":
        """Where the records of Avro blocks are, one block after another, and the number of records of each.

        Raises:
            CorruptLogFileError: the content of a block is not what its header says.
        """
        datums = [self.datums(block) for block in blocks]
        if len(datums) == 1:
            return datums[0], [len(datums[0])]
        offsets = np.cumsum([0, *(one.data.size for one in datums[:-1])])
        joined = Datums(
            data=pa.py_buffer(b"".join(one.data for one in datums)),
            starts=np.concatenate([one.starts + offset for one, offset in zip(datums, offsets, strict=True)]),
            ends=np.concatenate([one.ends + offset for one, offset in zip(datums, offsets, strict=True)]),
            keys=None,
        )
        return joined, list(map(len, datums))

    def of_run(self, blocks: Sequence[LogBlock], datums: "Datums", counts: Sequence[int]) -> LogRecords:
        """The records of blocks of equal ``likeness`` that are ``joined``.

        Raises:
            CorruptLogFileError: the content of a block is not what its header says.
        """
        positions = all_positions(list(map(self._positions, blocks, counts)))
        try:
            return self._records(blocks[0], datums, positions)
        except CorruptLogFileError:
            self.find_damage(blocks)
            raise

    def find_damage(self, blocks: Iterable[LogBlock]) -> None:
        """Decode blocks one by one; what is wrong with blocks that are ``joined`` is said of the first of them.

        Raises:
            CorruptLogFileError: the content of a block is not what its header says.
        """
        for block in blocks:
            self.decode(block)

    def together(self, blocks: Sequence[LogBlock]) -> tuple[LogRecords, list[int]]:
        """The records of blocks of equal ``likeness``, one block after another, and the number of records of each.

        They have no positions. Errors name the first of the blocks: decode them one by one to find out which it is.

        Raises:
            CorruptLogFileError: the content is not what its header says.
        """
        datums, counts = self.joined(blocks)
        return self._data(blocks[0], self._stored_datums(blocks[0], datums, of_keys=False), None, None), counts

    def is_merged(self, block: LogBlock) -> bool:
        """Whether a data or delete block takes part in merging; Parquet blocks without a row of the range may not.

        A block has the rows of one commit.

        Source: ``HoodieSparkParquetReader.getUnsafeRowIterator``, which is given the filter on the commit time.

        Raises:
            CorruptLogFileError: the content is not what its header says.
        """
        context, columns = self._split.context, block.kind.rows
        times = context.commit_times if context.filters_parquet_blocks else None
        if times is None or not isinstance(columns, ColumnRows) or columns.stored_as is not StoredAs.PARQUET:
            return True
        content, path, offset = block.content, block.path, block.content_offset
        if COMMIT_TIME_COLUMN not in columns.schema(content, path, offset).names:
            return True
        rows = columns.decode(content, (COMMIT_TIME_COLUMN,), path, offset)
        values = pa.array(sorted(times), rows.schema.field(0).type)
        return bool(pc.any(pc.is_in(rows.column(0), values)).as_py())

    def keys(self, block: LogBlock) -> Column:
        """The record keys of a data block.

        Raises:
            CorruptLogFileError: the content is not what its header says.
        """
        if isinstance(block.kind.rows, ColumnRows):
            return self._keys_of(block, self._stored_columns(block, block.kind.rows, of_keys=True))
        return self._keys_of(block, self._stored_datums(block, self.datums(block), of_keys=True))

    def _wanted(self, keys: Column) -> Booleans | None:
        """Which of the keys are wanted; None for all."""
        if self._wanted_keys is None:
            return None
        return as_booleans(pc.is_in(keys, value_set=self._wanted_keys))

    def _keys_of(self, block: LogBlock, rows: pa.RecordBatch) -> Column:
        keys = record_keys(with_path_columns(rows, self._key_schema, self._split), self._split.context)
        if keys.null_count:
            found = f"{keys.null_count} records without a record key"
            raise CorruptLogFileError(block.path, block.offset, found, "a record key in each record")
        return keys

    def _positions(self, block: LogBlock, records: int) -> Positions | None:
        return None if self._told is None else self._told.positions(block, records)

    def _data(
        self, block: LogBlock, stored: pa.RecordBatch, positions: Positions | None, wanted: Booleans | None
    ) -> LogRecords:
        """The given rows of a block; ``wanted`` tells which of those that have the positions are given."""
        rows = with_path_columns(stored, self.schema, self._split)
        self._check_origin(block, stored)
        return data_records(
            rows,
            self._keys_of(block, rows),
            self._rule,
            absent=self._absent(block),
            base_positions=positions if positions is None or wanted is None else positions[wanted],
        )

    def _check_origin(self, block: LogBlock, stored: pa.RecordBatch) -> None:
        """Warn if the first row of a block says that it was written into another file or partition.

        Nothing is decoded for that. Blocks of several slices may be decoded together, so that the file tells the slice.
        """
        if not stored.num_rows or not self._split.context.populates_meta_fields:
            return
        folder, _, name = block.path.rpartition("/")
        for column, own in ((PARTITION_PATH_COLUMN, folder), (FILE_NAME_COLUMN, file_id_of(name))):
            position = stored.schema.get_field_index(column)
            text = None if position < 0 else stored.column(position)[0].as_py()
            if text is not None and is_foreign(column, text, own):
                warn_of_foreign_rows(self._split.context.table_path, block.path, column, text)

    def _absent(self, block: LogBlock) -> frozenset[str]:
        """The columns that a partial update left out."""
        if not block.is_partial:
            return frozenset()
        columns = self._evolution(block, arrow_schema(self._writer(block)), of_keys=False).columns
        return frozenset(column.field.name for column in columns if column.source is None)

    def _deletes(self, block: LogBlock) -> LogRecords:
        fields = self._rule.ordering_fields if self._rule.uses_ordering else ()
        if is_native(block):
            return self._native_deletes(block, fields)
        deletes = parse_delete_block(block)
        ordering_types = [ordering_type(name, self.schema) for name in fields]
        orderings = deletes.ordering_as(ordering_types)
        without_ordering = ~np.asarray(orderings.comparable.to_numpy(zero_copy_only=False), dtype=np.bool_)
        if self._rule.precedence.orders_as_0x:
            without_ordering |= deletes.unlike_rows_of(ordering_types)
        return delete_records(
            deletes.record_keys,
            orderings.columns,
            without_ordering | np.asarray(deletes.is_default),
            self._positions(block, len(deletes)),
        )

    def _native_deletes(self, block: LogBlock, fields: Sequence[str]) -> LogRecords:
        stored = native_deletes(block, fields)
        types = [ordering_type(name, self.schema) for name in fields]
        ordering = tuple(column.cast(kind) for column, kind in zip(stored.columns[1:], types, strict=True))
        always_deletes = has_default_ordering(ordering, stored.num_rows)
        positions = self._positions(block, stored.num_rows)
        return delete_records(stored.column(0).cast(pa.string()), ordering, always_deletes, positions)

    def _records(self, block: LogBlock, datums: "Datums", positions: Positions | None) -> LogRecords:
        wanted = None
        if self._wanted_keys is not None:
            wanted = self._wanted(self._keys_of(block, self._stored_datums(block, datums, of_keys=True)))
        return self._data(block, self._stored_datums(block, datums.chosen(wanted), of_keys=False), positions, wanted)

    def rows(self, block: LogBlock, datums: "Datums") -> pa.RecordBatch:
        """Records of a block of Avro datums in the columns of ``schema``; raises like ``decode``."""
        stored = self._stored_datums(block, datums, of_keys=False)
        return with_path_columns(stored, self.schema, self._split)

    def datums(self, block: LogBlock) -> "Datums":
        """Where the records of a block of Avro datums are; raises like ``decode``."""
        rows = block.kind.rows
        if not isinstance(rows, AvroRows):
            raise ValueError(f"a {block.block_type.name} block has no Avro datums")  # noqa: TRY004 - of a block, not a type
        bounds = rows.bounds(block.content, block.path, block.content_offset)
        return Datums(data=bounds.data, starts=bounds.starts, ends=bounds.ends, keys=bounds.keys)

    def _stored_datums(self, block: LogBlock, datums: "Datums", *, of_keys: bool) -> pa.RecordBatch:
        """The records at the bounds in the columns of the query, or those of the record key."""
        writer = self._writer(block)
        evolution = self._evolution(block, arrow_schema(writer), of_keys=of_keys)
        rows = decode_avro_records(
            datums.data,
            datums.starts,
            datums.ends,
            writer,
            evolution.file_columns,
            block.path,
            block.content_offset,
        )
        if datums.keys is not None:
            # The record key is the key of the cell; in the value, the field is an empty string.
            key_column = self._split.context.key_columns[0]
            position = rows.schema.get_field_index(key_column)
            rows = rows if position < 0 else rows.set_column(position, key_column, datums.keys)
        return evolution.apply(rows)

    def _column_records(self, block: LogBlock, columns: ColumnRows) -> LogRecords:
        wanted = None
        if self._wanted_keys is not None:
            wanted = self._wanted(self._keys_of(block, self._stored_columns(block, columns, of_keys=True)))
        rows = self._stored_columns(block, columns, of_keys=False)
        chosen = rows if wanted is None else rows.filter(pa.array(wanted))
        return self._data(block, chosen, self._positions(block, rows.num_rows), wanted)

    def _stored_columns(self, block: LogBlock, columns: ColumnRows, *, of_keys: bool) -> pa.RecordBatch:
        """The rows of a file of columns in the columns of the query, or those of the record key."""
        content, path, offset = block.content, block.path, block.content_offset
        evolution = self._evolution(block, columns.schema(content, path, offset), of_keys=of_keys)
        return evolution.apply(columns.decode(content, evolution.file_columns, path, offset))

    def _writer(self, block: LogBlock) -> AvroRecord:
        text = block.schema_text
        if text is None:
            raise CorruptLogFileError(block.path, block.offset, "a data block without SCHEMA", "the writer's schema")
        if text not in self._writers:
            self._writers[text] = parse_avro_schema(text, block.path, block.offset)
        return self._writers[text]

    def _evolution(self, block: LogBlock, file_schema: pa.Schema, *, of_keys: bool) -> Evolution:
        instant = block.instant_time or ""
        known = (block.schema_text or "", instant, block.block_type, block.is_partial, of_keys)
        if known not in self._evolutions:
            self._require_known_operations(block, file_schema)
            self._require_one_kind_of_merging(block)
            self._require_meta_columns(block, file_schema)
            self._evolutions[known] = plan_file_evolution(
                file_schema,
                without_path_columns(self._key_schema, self._split) if of_keys else self._block_schema,
                instant,
                self._split.context,
                block.path,
                stored_as=block.stored_as,
                defaults=self._split.context.field_defaults if block.has_defaults else (),
            )
        return self._evolutions[known]

    def _require_meta_columns(self, block: LogBlock, file_schema: pa.Schema) -> None:
        """Checks that a block has the meta columns that tell which rows are returned; warns of others, which are null.

        A block without record keys is refused when they are decoded.
        """
        context = self._split.context
        missing = set(META_COLUMNS).difference(file_schema.names) if context.populates_meta_fields else None
        if not missing:
            return
        if context.commit_times is not None and COMMIT_TIME_COLUMN in missing:
            expected = "the meta columns, as hoodie.populate.meta.fields is true"
            raise CorruptLogFileError(block.path, block.offset, f"no column {COMMIT_TIME_COLUMN}", expected)
        if nulls := sorted(missing.intersection(self.schema.names)):
            warn_of_missing_meta_columns(context.table_path, block.path, nulls)

    def _require_one_kind_of_merging(self, block: LogBlock) -> None:
        """Refuses partial updates in a table with a partial update mode.

        From the first of them on, Hudi merges a slice without the mode. No release of Hudi writes both.

        Source: ``BufferedRecordMergerFactory.create``, ``KeyBasedFileGroupRecordBuffer.processDataBlock``.
        """
        if block.is_partial and self._rule.fills_by_mode:
            found = f"rows of some columns in {block.path}, in a table with a partial update mode"
            raise UnsupportedTableError("partial update", found, "either of the two")

    def _require_known_operations(self, block: LogBlock, file_schema: pa.Schema) -> None:
        """Refuses rows with the operation of a changelog in a table that does not have the column.

        Among them are deletes. Writers do not record in the table that they write the column, and Hudi opens a data
        file of each table to see.
        """
        context = self._split.context
        if context.populates_meta_fields and OPERATION_COLUMN in set(file_schema.names) - set(context.schema.names):
            raise UnsupportedTableError(
                "changelog",
                f"the column {OPERATION_COLUMN} in {block.path}",
                f"such tables if the option {OPERATION_FIELD_KEY}=true is given",
            )


class ToldPositions:
    """The positions in the base file of a split that its log blocks tell.

    They count up to the first block that tells none: from there on, Hudi goes by record keys. They never count for
    base files that are not Parquet.

    Source: ``PositionBasedFileGroupRecordBuffer`` and ``HoodieFileGroupReader`` of Hudi.
    """

    def __init__(self, split: RealtimeFileSplit, blocks: Sequence[LogBlock], base_rows: int) -> None:
        """Those of all ``blocks`` that count, oldest first, in a base file of so many rows."""
        self._instant = split.base_instant_time
        self._base_rows = base_rows
        is_parquet = split.base_path is not None and split.base_path.endswith(_PARQUET)
        leading = takewhile(self._tells, blocks) if is_parquet and base_rows else ()
        self._places = frozenset((block.path, block.offset) for block in leading)
        self.are_complete = 0 < len(blocks) == len(self._places)
        """Whether all blocks tell positions, so that base rows are found by these and not by their record keys."""

    def _tells(self, block: LogBlock) -> bool:
        return block.record_positions is not None and block.base_file_instant_of_positions == self._instant

    def is_of(self, block: LogBlock) -> bool:
        """Whether positions of the block count."""
        return (block.path, block.offset) in self._places

    def positions(self, block: LogBlock, records: int) -> Positions | None:
        """The positions of so many records of a block; None if the block tells none that the base file has.

        Raises:
            CorruptLogFileError: the positions cannot be read.
        """
        positions = parse_record_positions(block, self._instant, records) if self.is_of(block) else None
        return None if positions is None or not (positions < self._base_rows).all() else positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Datums:
    """Where Avro datums are in ``data``, and their record keys in an HFile."""

    data: pa.Buffer
    starts: Ints
    ends: Ints
    keys: "Column | None"

    def __len__(self) -> int:
        return len(self.starts)

    def between(self, piece: slice) -> "Datums":
        """A run of them."""
        keys = None if self.keys is None else self.keys[piece]
        return Datums(data=self.data, starts=self.starts[piece], ends=self.ends[piece], keys=keys)

    def at(self, positions: Positions) -> "Datums":
        """Those at ascending positions."""
        keys = None if self.keys is None else self.keys.take(pa.array(positions, pa.int64()))
        return Datums(data=self.data, starts=self.starts[positions], ends=self.ends[positions], keys=keys)

    def chosen(self, wanted: Booleans | None) -> "Datums":
        """Those that are wanted, or all."""
        return self if wanted is None else self.at(np.flatnonzero(wanted))
