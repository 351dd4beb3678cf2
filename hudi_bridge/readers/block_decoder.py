"""Decodes the log blocks of a split into records with the columns of the query.

Consecutive small blocks are decoded together, because the calls of Arrow and NumPy would take longer than their
records. Before anything is decoded, the memory for the records can be estimated.
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
from hudi_bridge.logformat.avro_columns import bounds_in_pieces, decode_avro_records, stated_records
from hudi_bridge.logformat.avro_cursors import Ints
from hudi_bridge.logformat.block import LogBlock, parse_record_positions
from hudi_bridge.logformat.delete_records import parse_delete_block
from hudi_bridge.logformat.kinds import AvroRows, ColumnRows
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
    RECORD_KEY_COLUMN,
)
from hudi_bridge.splits.file_slice import file_id_of
from hudi_bridge.splits.notes import warn_of_foreign_rows, warn_of_missing_meta_columns
from hudi_bridge.splits.split import RealtimeFileSplit

_SMALL_BYTES = 1 << 18
"""The largest content of a block that is decoded together with others."""
_GROUP_BYTES = 1 << 21
"""The largest content of small blocks that are decoded together."""
_MAX_COMPRESSION = 1024
"""Blocks that would fit into memory even at this compression ratio are not inspected."""
_OFFSET_BITS = 32
_PARQUET = ".parquet"
_CHUNK_RECORDS = 1 << 15
"""The most records that are decoded at a time. Decoding takes several times the memory of the decoded records."""
_CHUNK_BYTES = 1 << 23


def adjacent_groups(blocks: deque[LogBlock], decode_key: Callable[[LogBlock], Hashable]) -> Iterator[list[LogBlock]]:
    """Yields the blocks in order, in groups of adjacent small blocks that have an equal ``decode_key``.

    Large blocks, and blocks whose key is None, are alone in their group. Blocks are removed from ``blocks`` when they
    are yielded, so that their memory can be freed.
    """
    while blocks:
        group = [blocks.popleft()]
        size = group[0].content.size
        key = decode_key(group[0]) if size <= _SMALL_BYTES else None
        while key is not None and blocks and decode_key(blocks[0]) == key:
            next_size = blocks[0].content.size
            if next_size > _SMALL_BYTES or size + next_size > _GROUP_BYTES:
                break
            group.append(blocks.popleft())
            size += next_size
        yield group


def bytes_of_row(schema: pa.Schema) -> int:
    """The approximate memory of a row, in bytes, without the contents of its texts and lists."""
    return -(-sum(_bits(field.type) for field in schema) // 8)


def bytes_when_decoded(blocks: Iterable[LogBlock], row_bytes: int, memory_bytes: int) -> int:
    """The approximate memory of the blocks' records, in bytes, while they are decoded and copied.

    Texts take their size in the block, or their uncompressed size. All else takes ``row_bytes`` for each record,
    because a null takes a byte in Avro, or less if compressed, but the full width of a value in Arrow.

    The number of records of a compressed block is read only if it might exceed ``memory_bytes``.
    """
    record_blocks = [block for block in blocks if block.holds_records]
    is_small = _MAX_COMPRESSION * sum(block.content.size for block in record_blocks) <= memory_bytes
    return sum(
        block.kind.bytes_when_decoded(block.content, row_bytes, block.path, block.content_offset, is_small=is_small)
        if block.read_into is None
        else block.kind.memory_factor * max(block.content_bytes, _stated_records(block) * row_bytes)
        for block in record_blocks
    )


def _stated_records(block: LogBlock) -> int:
    return stated_records(block.content, block.content_bytes)


def _bits(kind: pa.DataType) -> int:
    """The bits of a value with its validity bit; of texts and lists only the offset."""
    if pa.types.is_struct(kind):
        return 1 + sum(_bits(kind.field(position).type) for position in range(kind.num_fields))
    if pa.types.is_fixed_size_list(kind):
        return int(1 + kind.list_size * _bits(kind.value_type))
    try:
        return 1 + kind.bit_width
    except ValueError:
        return 1 + _OFFSET_BITS


class BlockDecoder:
    """Decodes the log blocks of one split.

    Blocks with the same writer schema share the parsed schema and its evolution. With ``wanted_keys``, the other
    columns are decoded only for records with these keys. With ``record_positions``, records have their positions in the
    base file.
    """

    def __init__(
        self,
        split: RealtimeFileSplit,
        columns: Iterable[str],
        wanted_keys: "Column | None" = None,
        *,
        record_positions: "RecordPositions | None" = None,
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
        self._record_positions = record_positions
        self._writers: dict[str, AvroRecord] = {}
        self._evolutions: dict[tuple[str, str, StoredAs, bool, bool], Evolution] = {}

    def decode(self, block: LogBlock) -> LogRecords:
        """The records of a data or delete block.

        Raises:
            CorruptLogFileError: the content does not match the block's header.
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
        mask = self._wanted_mask(deletes.keys)
        return deletes if mask is None else selected(deletes, mask)

    def decode_in_chunks(self, block: LogBlock, *, materialized: bool = True) -> Iterator[LogRecords]:
        """Yields the records of ``decode`` in order, a limited number at a time.

        If the caller does not keep all records (``materialized``), chunks are smaller for records that are much larger
        in memory than in their block.

        Raises:
            CorruptLogFileError: the content does not match the block's header.
        """
        if not isinstance(block.kind.rows, AvroRows):
            yield self.decode(block)
            return
        if block.read_into is None:
            datums = self.datums(block)
            yield from self._in_chunks(block, [datums], len(datums), materialized=materialized)
            return
        pieces = _pieces_of(block, block.read_into)
        try:
            yield from self._in_chunks(block, pieces, _stated_records(block), materialized=materialized)
        except CorruptLogFileError:
            # An error in the whole content names the record and the byte.
            self.find_damage([block.whole()])
            raise

    def _in_chunks(
        self, block: LogBlock, pieces: "Iterable[Datums]", records: int, *, materialized: bool
    ) -> Iterator[LogRecords]:
        positions = self._positions(block, records)
        stored = block.content.size if block.read_into is None else block.content_bytes
        size = max(1, stored, 0 if materialized else records * self._row_bytes)
        chunk_records = min(_CHUNK_RECORDS, 1 + _CHUNK_BYTES * records // size)
        before = 0
        for datums in pieces:
            for start in range(0, max(1, len(datums)), chunk_records):
                chunk = datums.between(slice(start, start + chunk_records))
                own = None if positions is None else positions[before : before + len(chunk)]
                yield self._records(block, chunk, own)
                before += len(chunk)

    def decode_all(self, blocks: deque[LogBlock], *, materialized: bool = True) -> Iterator[LogRecords]:
        """Yields the records of data and delete blocks in order, as ``decode_in_chunks`` does.

        Blocks are removed from ``blocks`` when they are decoded.

        Raises:
            CorruptLogFileError: the content of a block does not match its header.
        """
        for group in adjacent_groups(blocks, self.decode_key):
            if len(group) == 1:
                yield from self.decode_in_chunks(group[0], materialized=materialized)
            else:
                yield self.decode_group(group, *self.concatenate(group))

    def decode_key(self, block: LogBlock) -> Hashable:
        """A key that is equal for blocks of equal partitions that can be decoded together.

        None for a block that must be decoded alone.
        """
        if not block.kind.has_plain_rows or block.read_into is not None:
            return None
        instant = "" if self._split.context.schema_history is None else block.instant_time
        has_positions = self._record_positions is not None and self._record_positions.covers(block)
        return block.schema_text, block.is_partial, instant, has_positions

    def concatenate(self, blocks: Sequence[LogBlock]) -> "tuple[Datums, list[int]]":
        """The Avro datums of all blocks in one buffer, and the number of records of each block.

        Raises:
            CorruptLogFileError: the content of a block does not match its header.
        """
        datums = [self.datums(block) for block in blocks]
        if len(datums) == 1:
            return datums[0], [len(datums[0])]
        offsets = np.cumsum([0, *(part.data.size for part in datums[:-1])])
        concatenated = Datums(
            data=pa.py_buffer(b"".join(part.data for part in datums)),
            starts=np.concatenate([part.starts + offset for part, offset in zip(datums, offsets, strict=True)]),
            ends=np.concatenate([part.ends + offset for part, offset in zip(datums, offsets, strict=True)]),
            keys=None,
        )
        return concatenated, list(map(len, datums))

    def decode_group(self, blocks: Sequence[LogBlock], datums: "Datums", counts: Sequence[int]) -> LogRecords:
        """The records of blocks with equal ``decode_key``, given the result of ``concatenate``.

        Raises:
            CorruptLogFileError: the content of a block does not match its header.
        """
        positions = all_positions(list(map(self._positions, blocks, counts)))
        try:
            return self._records(blocks[0], datums, positions)
        except CorruptLogFileError:
            self.find_damage(blocks)
            raise

    def find_damage(self, blocks: Iterable[LogBlock]) -> None:
        """Decodes blocks one by one, so that the error names the damaged block instead of the first of its group.

        Raises:
            CorruptLogFileError: the content of a block does not match its header.
        """
        for block in blocks:
            self.decode(block)

    def decode_concatenated(self, blocks: Sequence[LogBlock]) -> tuple[LogRecords, list[int]]:
        """The records of blocks with equal ``decode_key``, without positions, and the number of records of each block.

        An error names the first block; use ``find_damage`` to get the damaged one.

        Raises:
            CorruptLogFileError: the content of a block does not match its header.
        """
        datums, counts = self.concatenate(blocks)
        return self._data(blocks[0], self._stored_datums(blocks[0], datums, of_keys=False), None, None), counts

    def is_merged(self, block: LogBlock) -> bool:
        """Whether a data or delete block takes part in merging.

        An incremental query leaves out Parquet blocks without a commit time of its range. A block has rows of one
        commit.

        Source: ``HoodieSparkParquetReader.getUnsafeRowIterator``, which is given the filter on the commit time.

        Raises:
            CorruptLogFileError: the content does not match the block's header.
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
            CorruptLogFileError: the content does not match the block's header.
        """
        if isinstance(block.kind.rows, ColumnRows):
            return self._keys_of(block, self._stored_columns(block, block.kind.rows, of_keys=True))
        return self._keys_of(block, self._stored_datums(block, self.datums(block), of_keys=True))

    def _wanted_mask(self, keys: Column) -> Booleans | None:
        """A mask of the keys that are wanted; None if all are."""
        if self._wanted_keys is None:
            return None
        return as_booleans(pc.is_in(keys, value_set=self._wanted_keys))

    def _keys_of(self, block: LogBlock, rows: pa.RecordBatch) -> Column:
        keys = record_keys(with_path_columns(rows, self._key_schema, self._split), self._split.context)
        if keys.null_count:
            actual = f"{keys.null_count} records without a record key"
            raise CorruptLogFileError(block.path, block.offset, actual, "a record key in each record")
        return keys

    def _positions(self, block: LogBlock, records: int) -> Positions | None:
        return None if self._record_positions is None else self._record_positions.positions(block, records)

    def _data(
        self, block: LogBlock, stored: pa.RecordBatch, positions: Positions | None, mask: Booleans | None
    ) -> LogRecords:
        """The log records for the stored rows; ``mask`` selects the ``positions`` of these rows."""
        rows = with_path_columns(stored, self.schema, self._split)
        self._check_origin(block, stored)
        return data_records(
            rows,
            self._keys_of(block, rows),
            self._rule,
            absent=self._absent(block),
            base_positions=positions if positions is None or mask is None else positions[mask],
        )

    def _check_origin(self, block: LogBlock, stored: pa.RecordBatch) -> None:
        """Warns if the first row of a block was written into another file or partition, by its meta columns.

        Only columns that were decoded anyway are checked.
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
        if block.kind.columns is not None:
            return self._column_deletes(block, block.kind.columns, fields)
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

    def _column_deletes(self, block: LogBlock, columns: ColumnRows, fields: Sequence[str]) -> LogRecords:
        """The deletes of a block that has a column of record keys, and one for each ordering field."""
        content, path, offset = block.content, block.path, block.content_offset
        names = [RECORD_KEY_COLUMN, *fields]
        missing = set(names) - set(columns.schema(content, path, offset).names)
        if missing:
            raise CorruptLogFileError(path, offset, f"deletes without {', '.join(sorted(missing))}", "record keys")
        stored = columns.decode(content, names, path, offset).select(names)
        if stored.column(0).null_count:
            raise CorruptLogFileError(path, offset, "a delete without a record key", "a record key")
        types = [ordering_type(name, self.schema) for name in fields]
        ordering = tuple(column.cast(kind) for column, kind in zip(stored.columns[1:], types, strict=True))
        always_deletes = has_default_ordering(ordering, stored.num_rows)
        positions = self._positions(block, stored.num_rows)
        return delete_records(stored.column(0).cast(pa.string()), ordering, always_deletes, positions)

    def _records(self, block: LogBlock, datums: "Datums", positions: Positions | None) -> LogRecords:
        mask = None
        if self._wanted_keys is not None:
            mask = self._wanted_mask(self._keys_of(block, self._stored_datums(block, datums, of_keys=True)))
        return self._data(block, self._stored_datums(block, datums.where(mask), of_keys=False), positions, mask)

    def rows(self, block: LogBlock, datums: "Datums") -> pa.RecordBatch:
        """The records of a block of Avro datums with the columns of ``schema``; raises like ``decode``."""
        stored = self._stored_datums(block, datums, of_keys=False)
        return with_path_columns(stored, self.schema, self._split)

    def datums(self, block: LogBlock) -> "Datums":
        """The bounds of the records in a block of Avro datums; raises like ``decode``."""
        rows = block.kind.rows
        if not isinstance(rows, AvroRows):
            raise ValueError(f"a {block.block_type.name} block has no Avro datums")  # noqa: TRY004 - of a block, not a type
        bounds = rows.bounds(block.content, block.path, block.content_offset)
        return Datums(data=bounds.data, starts=bounds.starts, ends=bounds.ends, keys=bounds.keys)

    def _stored_datums(self, block: LogBlock, datums: "Datums", *, of_keys: bool) -> pa.RecordBatch:
        """Decodes datums to the columns of the query, or to the key columns, as far as files store them."""
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
        mask = None
        if self._wanted_keys is not None:
            mask = self._wanted_mask(self._keys_of(block, self._stored_columns(block, columns, of_keys=True)))
        rows = self._stored_columns(block, columns, of_keys=False)
        selected_rows = rows if mask is None else rows.filter(pa.array(mask))
        return self._data(block, selected_rows, self._positions(block, rows.num_rows), mask)

    def _stored_columns(self, block: LogBlock, columns: ColumnRows, *, of_keys: bool) -> pa.RecordBatch:
        """Decodes a columnar block to the columns of the query, or to the key columns, as far as files store them."""
        content, path, offset = block.content, block.path, block.content_offset
        evolution = self._evolution(block, columns.schema(content, path, offset), of_keys=of_keys)
        return evolution.apply(columns.decode(content, evolution.file_columns, path, offset))

    def _writer(self, block: LogBlock) -> AvroRecord:
        text = block.schema_text
        if text is None:
            raise CorruptLogFileError(block.path, block.offset, "a data block without SCHEMA", "the writer's schema")
        if text not in self._writers:
            self._writers[text] = parse_avro_schema(text, block.path, block.offset)
        blanked = block.kind.rows.blanked if isinstance(block.kind.rows, AvroRows) else None
        if blanked is not None and any(field.name == blanked for field in self._writers[text].fields):
            raise UnsupportedTableError("HFile log file", f"a column named {blanked}, in {block.path}", "other names")
        return self._writers[text]

    def _evolution(self, block: LogBlock, file_schema: pa.Schema, *, of_keys: bool) -> Evolution:
        instant = block.instant_time or ""
        key = (block.schema_text or "", instant, block.stored_as, block.is_partial, of_keys)
        if key not in self._evolutions:
            self._require_known_operations(block, file_schema)
            self._require_one_kind_of_merging(block)
            self._require_meta_columns(block, file_schema)
            self._evolutions[key] = plan_file_evolution(
                file_schema,
                without_path_columns(self._key_schema, self._split) if of_keys else self._block_schema,
                instant,
                self._split.context,
                block.path,
                stored_as=block.stored_as,
                defaults=self._split.context.field_defaults if block.has_defaults else (),
            )
        return self._evolutions[key]

    def _require_meta_columns(self, block: LogBlock, file_schema: pa.Schema) -> None:
        """Requires the meta column that decides which rows are returned; warns of others, which are null.

        Missing record keys are refused when they are decoded.
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

        From the first partial update on, Hudi merges a slice without the mode. No release of Hudi writes both.

        Source: ``BufferedRecordMergerFactory.create``, ``KeyBasedFileGroupRecordBuffer.processDataBlock``.
        """
        if block.is_partial and self._rule.fills_by_mode:
            actual = f"rows of some columns in {block.path}, in a table with a partial update mode"
            raise UnsupportedTableError("partial update", actual, "either of the two")

    def _require_known_operations(self, block: LogBlock, file_schema: pa.Schema) -> None:
        """Refuses rows with a changelog operation in a table without this column, because some of them are deletes.

        Writers do not record in the table's configuration that they write the column. Hudi opens a data file of each
        table to find out.
        """
        context = self._split.context
        if context.populates_meta_fields and OPERATION_COLUMN in set(file_schema.names) - set(context.schema.names):
            raise UnsupportedTableError(
                "changelog",
                f"the column {OPERATION_COLUMN} in {block.path}",
                f"such tables if the option {OPERATION_FIELD_KEY}=true is given",
            )


def _pieces_of(block: LogBlock, read_into: Callable[[int, memoryview], None]) -> "Iterator[Datums]":
    """Yields the datums of each piece of a block's content; the next piece overwrites them."""
    content, size = block.content, block.content_bytes
    for data, starts, ends in bounds_in_pieces(content, size, read_into, block.path, block.content_offset):
        yield Datums(data=data, starts=starts, ends=ends, keys=None)


class RecordPositions:
    """The positions in the base file that are stored in the log blocks of a split.

    Positions are used up to the first block without valid ones; from there on, Hudi matches by record key. They are not
    used for base files in other formats than Parquet.

    Source: ``PositionBasedFileGroupRecordBuffer`` and ``HoodieFileGroupReader`` of Hudi.
    """

    def __init__(self, split: RealtimeFileSplit, blocks: Sequence[LogBlock], base_rows: int) -> None:
        """Takes all blocks that count, oldest first, and the number of rows of the base file."""
        self._instant = split.base_instant_time
        self._base_rows = base_rows
        is_parquet = split.base_path is not None and split.base_path.endswith(_PARQUET)
        leading = takewhile(self._has_positions, blocks) if is_parquet and base_rows else ()
        self._block_offsets = frozenset((block.path, block.offset) for block in leading)
        self.are_complete = 0 < len(blocks) == len(self._block_offsets)
        """Whether all blocks store valid positions, so that base rows are matched by position."""

    def _has_positions(self, block: LogBlock) -> bool:
        return block.record_positions is not None and block.base_file_instant_of_positions == self._instant

    def covers(self, block: LogBlock) -> bool:
        """Whether the positions of a block are used."""
        return (block.path, block.offset) in self._block_offsets

    def positions(self, block: LogBlock, records: int) -> Positions | None:
        """Base-file positions of a block's records; None if the block stores none that are valid for this base file.

        Raises:
            CorruptLogFileError: the positions cannot be decoded.
        """
        positions = parse_record_positions(block, self._instant, records) if self.covers(block) else None
        return None if positions is None or not (positions < self._base_rows).all() else positions


@dataclass(frozen=True, slots=True, kw_only=True)
class Datums:
    """Avro datums: their bounds in ``data``, and the record keys of an HFile, which are stored outside of them."""

    data: pa.Buffer
    starts: Ints
    ends: Ints
    keys: "Column | None"

    def __len__(self) -> int:
        return len(self.starts)

    def between(self, bounds: slice) -> "Datums":
        """The datums of a slice."""
        keys = None if self.keys is None else self.keys[bounds]
        return Datums(data=self.data, starts=self.starts[bounds], ends=self.ends[bounds], keys=keys)

    def at(self, positions: Positions) -> "Datums":
        """The datums at ascending positions."""
        keys = None if self.keys is None else self.keys.take(pa.array(positions, pa.int64()))
        return Datums(data=self.data, starts=self.starts[positions], ends=self.ends[positions], keys=keys)

    def where(self, mask: Booleans | None) -> "Datums":
        """The datums that a mask selects; all if it is None."""
        return self if mask is None else self.at(np.flatnonzero(mask))
