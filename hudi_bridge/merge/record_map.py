"""From the log records of a file slice, block after block, to one surviving version for each record key.

The survivors are held as Arrow columns: the keys with a row first, aligned with those rows, then the keys whose
survivor is a delete.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.merge.fold import fold_versions
from hudi_bridge.merge.payloads import DELETE_OPERATIONS, IS_DELETED_COLUMN, OPERATION_COLUMN, MergeRule
from hudi_bridge.merge.ranks import ordering_ranks

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecords:
    """The records of one block, in their order.

    ``rows`` holds the records of a data block, None for a delete block. ``ordering`` holds one array for each ordering
    field, in the types of the query's columns. ``always_deletes`` marks deletes without an ordering value of their own.
    """

    keys: pa.Array
    rows: pa.RecordBatch | None
    ordering: tuple[pa.Array, ...]
    is_delete: BoolArray
    always_deletes: BoolArray


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecordMap:
    """The surviving log version of each record key.

    ``keys[i]`` belongs to ``rows[i]`` for the first ``rows.num_rows`` keys; the keys after those are deleted.
    """

    keys: pa.Array
    rows: pa.Table
    ordering: tuple[pa.Array, ...]
    always_deletes: BoolArray

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def is_delete(self) -> BoolArray:
        """For each key, whether its survivor deletes the record."""
        return np.arange(len(self.keys)) >= self.rows.num_rows


def data_records(rows: pa.RecordBatch, keys: pa.Array, rule: MergeRule) -> LogRecords:
    """The records of a data block; rows that carry a delete mark are deletes."""
    is_delete = _marked_deletes(rows, rule)
    ordering = _ordering_columns(rows, rule)
    return LogRecords(
        keys=keys,
        rows=rows,
        ordering=ordering,
        is_delete=is_delete,
        always_deletes=is_delete & _has_default_ordering(ordering, rows.num_rows),
    )


def _ordering_columns(rows: pa.RecordBatch, rule: MergeRule) -> tuple[pa.Array, ...]:
    return tuple(rows.column(name) for name in rule.ordering_fields) if rule.orders_logs else ()


def _has_default_ordering(ordering: Sequence[pa.Array], rows: int) -> BoolArray:
    if len(ordering) != 1:
        return np.full(rows, not ordering)
    column = ordering[0]
    if not pa.types.is_int32(column.type):
        return _as_bools(column.is_null())
    return _as_bools(pc.equal(column.fill_null(0), 0))


def _marked_deletes(rows: pa.RecordBatch, rule: MergeRule) -> BoolArray:
    marked = np.zeros(rows.num_rows, dtype=np.bool_)
    names = rows.schema.names
    if IS_DELETED_COLUMN in names and pa.types.is_boolean(rows.schema.field(IS_DELETED_COLUMN).type):
        marked |= _as_bools(rows.column(IS_DELETED_COLUMN))
    if OPERATION_COLUMN in names:
        marked |= _as_bools(pc.is_in(rows.column(OPERATION_COLUMN), value_set=pa.array(DELETE_OPERATIONS)))
    if rule.delete_marker is not None and rule.delete_marker[0] in names:
        field, marker = rule.delete_marker
        marked |= _as_bools(pc.equal(rows.column(field).cast(pa.string()), marker))
    return marked


def _as_bools(column: pa.Array) -> BoolArray:
    return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)  # noqa: FBT003


def build_record_map(blocks: Sequence[LogRecords], rule: MergeRule, schema: pa.Schema) -> LogRecordMap:
    """The survivors among the records of all blocks, which are given oldest first; ``schema`` is that of the rows."""
    keys = pa.chunked_array([block.keys for block in blocks], type=pa.string()).combine_chunks()
    rows = pa.Table.from_batches([block.rows for block in blocks if block.rows is not None], schema=schema)
    fields = len(rule.ordering_fields) if rule.orders_logs else 0
    ordering = tuple(
        pa.chunked_array(
            [block.ordering[position] for block in blocks], type=schema.field(rule.ordering_fields[position]).type
        ).combine_chunks()
        for position in range(fields)
    )
    is_delete = np.concatenate([block.is_delete for block in blocks]) if blocks else np.zeros(0, dtype=np.bool_)
    always = np.concatenate([block.always_deletes for block in blocks]) if blocks else is_delete
    in_rows = np.concatenate([np.full(len(block.keys), block.rows is not None) for block in blocks]) if blocks else is_delete
    row_of_version = np.cumsum(in_rows) - 1

    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    distinct = len(encoded.dictionary)
    if distinct == len(keys):
        survivors = np.arange(len(keys))
    else:
        ranks = ordering_ranks(ordering, len(keys), nulls_as_zero=rule.nulls_as_zero)
        survivors = fold_versions(rule.kind, codes, distinct, ranks, is_delete, always)
    survivors = np.concatenate([survivors[~is_delete[survivors]], survivors[is_delete[survivors]]])
    kept_rows = row_of_version[survivors[~is_delete[survivors]]]
    untouched = len(kept_rows) == rows.num_rows and bool((np.diff(kept_rows) == 1).all())
    return LogRecordMap(
        keys=keys.take(pa.array(survivors)),
        rows=rows if untouched else rows.take(pa.array(kept_rows)),
        ordering=tuple(column.take(pa.array(survivors)) for column in ordering),
        always_deletes=always[survivors],
    )
