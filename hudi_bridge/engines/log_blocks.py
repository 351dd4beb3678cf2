"""The log blocks of a file slice, the layout of their records, and its record keys, for engines that use them directly.

A layout is JSON: ``{"width": 3, "fields": [[0, "string"], [null, "long"], [2, ["union", ["null", "double"]]]]}``. Its
fields are the writer's, in stored order. Each has a slot among the columns of the query, null if the query does not
need it, and a type: ``null``, ``boolean``, ``long``, ``millis`` (a long, times 1,000 in the query), ``float``,
``double``, ``string``, ``bytes``, ``["fixed", size]``, ``["decimal", scale, size or null]``, ``["enum", symbols]``,
``["array", type]``, ``["map", type]``, ``["row", types]``, ``["union", types]``, or ``["repeated", type]`` for values
that are mostly equal to the previous record's. Slots without a field are null.

Source: ``HoodieKeyLookupHandle`` of Hudi.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.indexes.footer_index import FooterIndex, cached_footer_index, footer_index
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.kinds import AvroRows
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.merge.arrays import Booleans, Column
from hudi_bridge.readers.block_decoder import BlockDecoder
from hudi_bridge.readers.log_scan import LogScan, read_live_blocks, read_log_file
from hudi_bridge.readers.request import RowRequest, SliceRead
from hudi_bridge.readers.split_columns import internal_schemas, record_keys
from hudi_bridge.schema.avro import (
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    arrow_schema,
    parse_avro_schema,
)
from hudi_bridge.schema.evolve import StoredAs
from hudi_bridge.schema.file_columns import Outcome, map_columns
from hudi_bridge.schema.meta_columns import META_COLUMNS, RECORD_KEY_COLUMN
from hudi_bridge.split_reader import open_reader_in
from hudi_bridge.splits.split import RealtimeFileSplit, stored_context
from hudi_bridge.storage.storage import Storage

Layout: TypeAlias = "str | list[Layout | int | None]"
_MAX_LEVELS = 8
_NULL_IN_BOTH = (Outcome.ADDED_LATER, Outcome.MISSING)
_NOT_IN_RESULT = (Outcome.DROPPED, Outcome.NOT_IN_QUERY)
_WIDENED = ("int", "long")
_REPEATED = (META_COLUMNS[0], *META_COLUMNS[3:])


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroRecords:
    """The Avro records of a block: record ``i`` is ``content[starts[i]:ends[i]]``, with offsets in bytes.

    Each record is preceded by its length, four bytes, big-endian.
    """

    content: pa.Buffer
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDeletes:
    """The deletes of a block, in block order.

    ``ordering`` has one array for each ordering field that the merge rule compares; ``always_deletes`` marks deletes
    without an ordering value.
    """

    keys: Column
    ordering: tuple[Column, ...]
    always_deletes: Booleans


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLogBlock:
    """A log block as stored.

    Attributes:
        log_path: the log file, relative to the table.
        offset: the start of the block in bytes.
        block_type: its type in lower case.
        instant_time: the instant that wrote it.
        turn: its number among the blocks that a read as of the split's instant applies, oldest first; None if it does
            not count.
        writer_schema: the Avro schema of a data block, as JSON.
        is_partial: whether its records have only the columns that were updated.
        records: None unless it is an Avro data block.
        deletes: None unless it is a delete block that counts.
    """

    log_path: str
    offset: int
    block_type: str
    instant_time: str | None
    turn: int | None
    writer_schema: str | None
    is_partial: bool
    records: AvroRecords | None
    deletes: LogDeletes | None

    @property
    def counts(self) -> bool:
        """Whether a read as of the split's instant uses the block."""
        return self.turn is not None


def iter_log_blocks(storage: Storage, split: RealtimeFileSplit) -> Iterator[StoredLogBlock]:
    """Yields all log blocks of a slice, oldest first.

    Raises:
        CorruptLogFileError: the content of a block does not match its header.
        UnsupportedTableError: a delete block has an unknown version.
        DataFileGoneError: a log file no longer exists.
    """
    split.context.require_no_completion_times("log blocks")
    if not split.log_paths:
        return
    turns = {(block.path, block.offset): turn for turn, block in enumerate(read_live_blocks(storage, split).blocks)}
    rule = split.context.merge_rule
    decoder = None if rule is None else BlockDecoder(split, ())
    for path, size in split.log_files:
        for block in scan_blocks(read_log_file(storage, split, path, size, on_disk=False), path).blocks:
            turn = turns.get((path, block.offset))
            is_applied = turn is not None and block.kind.holds_deletes
            yield StoredLogBlock(
                log_path=block.path,
                offset=block.offset,
                block_type=block.block_type.name.lower(),
                instant_time=block.instant_time,
                turn=turn,
                writer_schema=block.schema_text,
                is_partial=block.is_partial,
                records=_records(block),
                deletes=_deletes(block, decoder) if is_applied and decoder is not None else None,
            )


def _deletes(block: LogBlock, decoder: BlockDecoder) -> LogDeletes:
    deletes = decoder.decode(block)
    return LogDeletes(keys=deletes.keys, ordering=deletes.ordering, always_deletes=deletes.always_deletes)


def _records(block: LogBlock) -> AvroRecords | None:
    rows = block.kind.rows
    if not isinstance(rows, AvroRows) or not rows.are_plain:
        return None
    bounds = rows.bounds(block.content, block.path, block.content_offset)
    return AvroRecords(content=block.content, starts=bounds.starts, ends=bounds.ends)


def record_layout(split: RealtimeFileSplit, block: StoredLogBlock) -> str:
    """The layout of the records of an Avro data block, by the columns of the query.

    Raises:
        UnsupportedTableError: its columns do not have the query's names and types, or no layout can express them.
        CorruptTableError: the block has no schema, or one that is not Avro's.
    """
    writer = parse_avro_schema(block.writer_schema or "", block.log_path, block.offset)
    schema, path_values = split.context.schema, split.path_values
    location = f"in {block.log_path} at byte {block.offset}"
    if (reason := _why_not_by_name(split, block, arrow_schema(writer))) is not None:
        raise _unsupported(f"{reason}, {location}", "columns of the same names and types, or ints that are now longs")
    slots = {name: slot for slot, name in enumerate(schema.names) if name not in path_values}
    types = {field.name: _layout(field.type, f"{field.name}, {location}") for field in writer.fields}
    fields = [[slots.get(name), ["repeated", kind] if name in _REPEATED else kind] for name, kind in types.items()]
    return json.dumps({"width": len(schema), "fields": fields})


def _why_not_by_name(split: RealtimeFileSplit, block: StoredLogBlock, stored: pa.Schema) -> str | None:
    """The reason why columns of the query cannot be found by name in the block; None if they can."""
    context = split.context
    file_ids, query_ids = internal_schemas(block.instant_time or "", context)
    path_columns = tuple(name for name in context.path_columns if name in split.path_values)
    columns = map_columns(
        stored,
        context.schema,
        file_ids=file_ids,
        query_ids=query_ids,
        path_columns=path_columns,
        stored_as=StoredAs.AVRO,
        defaults=dict(context.field_defaults),
    )
    for column in columns:
        if column.outcome in _NOT_IN_RESULT or column.outcome is Outcome.FROM_PATH:
            continue
        is_within = "." in (column.column or "")
        is_same = column.outcome is Outcome.READ and column.column == column.file_column
        is_missing = column.outcome in _NULL_IN_BOTH and not is_within and column.column not in stored.names
        is_widened = (
            column.outcome is Outcome.CAST and (column.file_type, column.query_type) == _WIDENED and not is_within
        )
        if not (is_same or is_missing or is_widened):
            return f"{column.column}: {column}"
    for field in context.schema:
        if field.name in stored.names and field.name not in path_columns:
            stored_type = stored.field(field.name).type
            if stored_type != field.type and (stored_type, field.type) != (pa.int32(), pa.int64()):
                return f"{field.name} of type {stored_type}, which is {field.type} in the table"
    return None


def _unsupported(actual: str, supported: str) -> UnsupportedTableError:
    return UnsupportedTableError("log block to decode by its layout", actual, supported)


def _layout(avro: AvroType, column: str, level: int = 0) -> Layout:
    if level > _MAX_LEVELS:
        raise _unsupported(f"more than {_MAX_LEVELS} levels in column {column}", f"up to {_MAX_LEVELS} levels")
    match avro:
        case AvroPrimitive():
            return _primitive(avro, column)
        case AvroFixed():
            return _fixed(avro, column)
        case AvroEnum():
            return ["enum", list(avro.symbols)]
        case AvroArray():
            return ["array", _layout(avro.items, column, level + 1)]
        case AvroMap():
            return ["map", _layout(avro.values, column, level + 1)]
        case AvroUnion():
            if len(avro.members) > 1:
                raise _unsupported(f"several types in column {column}", "one type, or null")
            return ["union", [_layout(branch, column, level) for branch in avro.branches]]
        case AvroRecord():
            return ["row", [_layout(field.type, column, level + 1) for field in avro.fields]]


def _fixed(avro: AvroFixed, column: str) -> Layout:
    if avro.logical is None:
        return ["fixed", avro.size_bytes]
    if avro.logical.name != "decimal":
        raise _unsupported(f"a VECTOR in column {column}", "other types")
    return ["decimal", avro.logical.scale, avro.size_bytes]


def _primitive(avro: AvroPrimitive, column: str) -> Layout:
    logical = avro.logical.name if avro.logical is not None else None
    if logical == "decimal" and avro.logical is not None:
        return ["decimal", avro.logical.scale, None]
    if logical is not None and logical.endswith("-millis"):
        return "millis"
    if logical is not None and logical.endswith("-nanos"):
        raise _unsupported(f"nanoseconds in column {column}", "milliseconds and microseconds")
    return "long" if avro.kind in ("int", "long") else avro.kind


def base_key_range(storage: Storage, split: RealtimeFileSplit) -> tuple[str, str] | None:
    """The lowest and highest record key of the base file; None without a base file or if its footer has no range."""
    return _footer_index(storage, split).key_range


def log_record_keys(storage: Storage, split: RealtimeFileSplit, *, at_once: int = 1) -> Iterator[Column]:
    """Yields the keys of the records that the logs of a slice insert or update, a part at a time.

    ``at_once`` slices are read at the same time and share the memory for logs.
    """
    split = replace(split, context=stored_context(split.context))
    read = SliceRead(storage=storage, split=split, request=RowRequest.of(split.context.schema, ()), at_once=at_once)
    if not read.has_logs:
        return
    if split.context.is_lsm_tree:
        # Whether a record survives is decided beside the base rows.
        decoder = BlockDecoder(split, ())
        for block in read_live_blocks(storage, split).blocks:
            if block.is_data:
                yield decoder.keys(block).cast(pa.string())
        return
    scan = LogScan(read)
    for records in [scan.records()] if scan.parts == 1 else map(scan.records_of_part, range(scan.parts)):
        yield records.keys.slice(0, records.rows.num_rows).cast(pa.string())


def existing_keys(
    storage: Storage, split: RealtimeFileSplit, keys: Sequence[str], *, at_once: int = 1
) -> Iterator[Column]:
    """Yields the ``keys`` for which a snapshot has a row in this slice.

    The base file is not read if its footer, with its key range and Bloom filter, rules out all keys.
    """
    context = split.context
    if split.base_path is not None and not _footer_index(storage, split).possible(keys):
        if not split.log_paths:
            return
        # All rows with these keys, if any, are in the logs.
        split = replace(split, base_path=None, base_size_bytes=0)
    key_array = pa.array(keys, pa.string())
    row_filter = pc.field(RECORD_KEY_COLUMN).isin(key_array) if context.populates_meta_fields else None
    reader = open_reader_in(storage, split, context.key_columns, row_filter, use_threads=False, at_once=at_once)
    for batch in reader.batches():
        batch_keys: Any = record_keys(batch, context).cast(pa.string())
        yield pc.unique(batch_keys.filter(pc.is_in(batch_keys, value_set=key_array)))


def _footer_index(storage: Storage, split: RealtimeFileSplit) -> FooterIndex:
    """The key range and Bloom filter in the footer of the base file, from the cache if possible."""
    cached = cached_footer_index(storage, split)
    if cached is not None or split.base_path is None:
        return cached or FooterIndex(key_range=None, bloom_filter=None)
    return footer_index(storage, split)
