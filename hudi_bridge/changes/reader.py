"""Reads a split of changes: from the change data files of the writer, or by comparing its slices.

A block of change data has one Avro record per change. Its fields depend on the supplemental logging mode:

    OP_KEY_ONLY         op, record_key                  both images are read from the slices before and after
    DATA_BEFORE         op, record_key, before          the image after is read from the slice after
    DATA_BEFORE_AFTER   op, ts_ms, before, after

A block may also have these fields as columns, with the images as structs.

Source: ``HoodieCDCUtils``, ``HoodieCDCLogRecordIterator``, ``CDCFileGroupIterator``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.changes.row_differences import (
    DELETE,
    INSERT,
    UPDATE,
    Changes,
    Images,
    Structs,
    no_images,
    repeated,
    structs,
    structs_of,
)
from hudi_bridge.changes.slice_differences import StateChanges, all_rows, rows_of_slice
from hudi_bridge.changes.split import AFTER, BEFORE, OPERATION, ChangeSplit, GroupChange
from hudi_bridge.errors import CorruptLogFileError
from hudi_bridge.logformat.avro_columns import decode_avro_block
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.merge.arrays import Column
from hudi_bridge.readers.base_file import data_file_gone
from hudi_bridge.readers.request import SplitRead
from hudi_bridge.readers.split_columns import plan_file_evolution
from hudi_bridge.schema.avro import AvroRecord, parse_avro_schema
from hudi_bridge.schema.avro_types import AvroType, AvroUnion, arrow_schema
from hudi_bridge.schema.evolve import StoredAs
from hudi_bridge.splits.split import RealtimeFileSplit

_RECORD_KEY = "record_key"
_OPERATIONS = (INSERT, UPDATE, DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoggedRows:
    """The rows of a block; ``avro`` is their type, None if they are stored as columns."""

    rows: pa.RecordBatch
    block: LogBlock
    avro: AvroRecord | None
    stored_as: StoredAs

    def type_of_image(self, name: str) -> AvroRecord | None:
        """The Avro type of an image; None if it is not a record."""
        fields = () if self.avro is None else self.avro.fields
        return next((_record_of(field.type) for field in fields if field.name == name), None)

    def corrupt(self, actual: str, expected: str) -> CorruptLogFileError:
        """The error for unexpected content of the file."""
        return CorruptLogFileError(self.block.path, self.block.offset, actual, expected)


class ChangeLog:
    """The logged changes of one file group; holds one file at a time in memory, with the rows it needs from slices."""

    def __init__(self, read: SplitRead[ChangeSplit], group: GroupChange) -> None:
        self._read = read
        self._image = read.split.image
        self._group = group
        self._requested = frozenset(read.request.needed)

    def changes(self) -> Iterator[Changes]:
        """All changes, one block at a time.

        Raises:
            CorruptLogFileError: a file is damaged or inconsistent with the slices.
            DataFileGoneError: a file no longer exists.
        """
        for path in self._group.cdc_paths:
            try:
                data = self._read.storage.read_bytes(path)
            except FileNotFoundError as error:
                raise data_file_gone(self._read.storage, self._image, path) from error
            scan = scan_blocks(data, path)
            for corrupt in scan.corrupt:
                raise CorruptLogFileError(path, corrupt.offset, corrupt.reason, "whole blocks of change data")
            for block in scan.blocks:
                yield self._of_block(block)

    def _of_block(self, block: LogBlock) -> Changes:
        columns, content, path, offset = block.kind.columns, block.content, block.path, block.content_offset
        if block.block_type is BlockType.CDC_DATA and columns is not None:
            rows = columns.decode(content, columns.schema(content, path, offset).names, path, offset)
            return self._of_rows(_LoggedRows(rows=rows, block=block, avro=None, stored_as=columns.stored_as))
        if block.block_type is not BlockType.CDC_DATA or block.schema_text is None:
            actual = f"a {block.block_type.name} block" if block.schema_text else "a block without SCHEMA"
            raise CorruptLogFileError(block.path, block.offset, actual, "a block of change data")
        writer = parse_avro_schema(block.schema_text, block.path, block.offset)
        rows = decode_avro_block(content, writer, None, path, offset)
        return self._of_rows(_LoggedRows(rows=rows, block=block, avro=writer, stored_as=StoredAs.AVRO))

    def _of_rows(self, logged: _LoggedRows) -> Changes:
        rows = logged.rows
        names = frozenset(rows.schema.names)
        texts = {name for name in names if pa.types.is_string(rows.schema.field(name).type)}
        if OPERATION not in texts or (_RECORD_KEY not in texts and not {BEFORE, AFTER} <= names):
            raise logged.corrupt(", ".join(rows.schema.names), "op and both images or a key")
        operations = rows.column(OPERATION)
        unknown = operations.filter(pc.invert(pc.is_in(operations, value_set=pa.array(_OPERATIONS))))
        if len(unknown):
            raise logged.corrupt(f"the operation {unknown[0].as_py()!r}", "i, u or d")
        return Changes(
            operations=operations,
            instants=repeated(self._group.instant, rows.num_rows),
            before=self._images(logged, BEFORE, pc.not_equal(operations, pa.scalar(INSERT))),
            after=self._images(logged, AFTER, pc.not_equal(operations, pa.scalar(DELETE))),
        )

    def _images(self, logged: _LoggedRows, name: str, exists: "pa.BooleanArray") -> Images:
        rows = logged.rows
        if name not in self._requested:
            return no_images(self._image.schema, rows.num_rows)
        if name in rows.schema.names:
            stored: Any = rows.column(name)
            avro = logged.type_of_image(name)
            if not pa.types.is_struct(stored.type) or (logged.avro is not None and avro is None):
                raise logged.corrupt(f"{name} that is no record", "a record")
            return Images(rows=self._evolved(logged, stored, avro), logged_as=avro, is_logged=True)
        split = self._group.before if name == BEFORE else self._group.after
        return self._images_of_slice(logged, rows.column(_RECORD_KEY), split, exists)

    def _evolved(self, logged: _LoggedRows, stored: Structs, avro: AvroRecord | None) -> Structs:
        """Stored images converted to the table's columns."""
        schema = self._image.schema
        fields = pa.schema(list(stored.type)) if avro is None else arrow_schema(avro)
        evolution = plan_file_evolution(
            fields, schema, self._group.instant, self._image, logged.block.path, stored_as=logged.stored_as
        )
        batch = pa.RecordBatch.from_arrays(stored.flatten(), schema=fields)
        return structs(evolution.apply(batch).columns, schema.names, stored.is_null())

    def _images_of_slice(
        self, logged: _LoggedRows, keys: Column, split: RealtimeFileSplit | None, exists: "pa.BooleanArray"
    ) -> Images:
        """The row of a slice for each change, by record key; null where ``exists`` is false."""
        existing_keys = keys.filter(exists)
        if not len(existing_keys):
            return no_images(self._image.schema, len(keys))
        if split is None:
            raise logged.corrupt("changes of a file slice that is not there", "a slice")
        slice_keys, rows = self._rows_of_keys(split, pc.unique(existing_keys))
        indices = pc.index_in(existing_keys, value_set=slice_keys)
        if indices.null_count:
            key = existing_keys.filter(indices.is_null())[0].as_py()
            raise logged.corrupt(f"the record key {key!r}", f"a key of {split.file_id}")
        taken = structs_of(rows.take(indices))
        positions = np.cumsum(exists.to_numpy(zero_copy_only=False)) - 1
        return Images(rows=taken.take(pa.array(positions, mask=~exists.to_numpy(zero_copy_only=False))))

    def _rows_of_keys(self, split: RealtimeFileSplit, keys: Column) -> tuple[Any, pa.Table]:
        """The rows of a slice with the given record keys, and their keys."""
        context = split.context
        filter_keys = keys if context.populates_meta_fields else None
        rows = all_rows(rows_of_slice(self._read, split, "", filter_keys), context.schema)
        return rows.keys.combine_chunks(), rows.rows


def _record_of(avro: AvroType) -> AvroRecord | None:
    members = avro.members if isinstance(avro, AvroUnion) else (avro,)
    return members[0] if len(members) == 1 and isinstance(members[0], AvroRecord) else None


class ChangeReader:
    """Reads one split of changes, and its file slices. ``batches`` can be called again."""

    def __init__(self, read: SplitRead[ChangeSplit]) -> None:
        self._read = read
        self.schema = pa.schema([read.split.context.schema.field(name) for name in read.request.columns])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes that pass the filter, in no particular order."""
        for changes in self._changes():
            batch = changes.batch(self._read.split, self._read.request)
            if batch.num_rows:
                yield batch

    def _changes(self) -> Iterator[Changes]:
        groups = self._read.split.groups
        if not any(group.cdc_paths for group in groups):
            yield from StateChanges(self._read).changes()
            return
        for group in groups:
            yield from ChangeLog(self._read, group).changes()
