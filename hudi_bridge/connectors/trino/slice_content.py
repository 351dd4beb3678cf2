"""A file slice -> what is published of it, so that SQL can merge it with its base file.

That is the winning log version of each record key, with what a merge with a base row has to know of it. The versions
are folded by the code that reads snapshots; of the base file, no more than the record keys are read. Where SQL cannot
read the base file or merge the slice, the merged rows of the whole slice are published instead.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.connectors.trino.compatibility import why_keys_unreadable, why_unreadable
from hudi_bridge.connectors.trino.log_columns import LogColumns
from hudi_bridge.dispatch import reader_for
from hudi_bridge.merge.arrays import Booleans, Column
from hudi_bridge.merge.columnar import FileSliceMerger
from hudi_bridge.merge.log_records import LogRecordMap
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.base_file import BaseFile
from hudi_bridge.readers.field_defaults import field_defaults
from hudi_bridge.readers.log_record_scanner import LogScan, log_memory_bytes, read_live_blocks
from hudi_bridge.readers.record_keys import key_columns, record_keys
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage

_MOST_ROW_BYTES = 300_000
"""Of a row that a Python function is given: it gets two of them, and its memory is small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceContent:
    """What is published of a slice: nothing if its base file says all.

    ``why_whole`` is why all of its rows are published, None if SQL merges them with those of its base file;
    ``reads_base`` is whether there are any. ``log_instants`` are those of its log blocks, whether or not they count.
    ``contested`` is how many of its ``records`` base rows have a say in, and ``merges_fields`` whether both sides then
    give fields to the row that comes of it.
    """

    batches: Iterable[pa.RecordBatch] = ()
    why_whole: str | None = None
    reads_base: bool = False
    log_instants: frozenset[str] = frozenset()
    records: int = 0
    contested: int = 0
    merges_fields: bool = False


def slice_content(storage: Storage, split: RealtimeFileSplit, columns: LogColumns, at_once: int = 1) -> SliceContent:
    """What is published of a slice; ``at_once`` slices share the memory for logs.

    The column of the name of the file is left null.

    Raises:
        HudiReadError: the slice cannot be read.
    """
    reader = _SliceReader(storage=storage, split=split, columns=columns, at_once=at_once)
    if split.base_path is None:
        return reader.whole("it has no base file")
    with BaseFile.open(storage, split, split.base_path, use_threads=False) as base:
        reason = why_unreadable(split, base)
        if reason is not None:
            return reader.whole(reason)
        rule = split.context.merge_rule
        content = SliceContent() if rule is None or not split.log_paths else reader.records(base, rule)
        return replace(content, reads_base=content.why_whole is None and base.footer.num_rows > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SliceReader:
    storage: Storage
    split: RealtimeFileSplit
    columns: LogColumns
    at_once: int

    def whole(self, reason: str) -> SliceContent:
        """All rows of the slice, merged."""
        instants = read_live_blocks(self.storage, self.split).instants if self.split.log_paths else frozenset()
        return SliceContent(batches=self._merged_rows(), why_whole=reason, log_instants=instants)

    def _merged_rows(self) -> Iterator[pa.RecordBatch]:
        request = RowRequest.of(self.split.context.schema)
        reader = reader_for(self.storage, self.split, request, use_threads=False, at_once=self.at_once)
        for rows in reader.batches():
            yield self._published(rows, {})

    def records(self, base: BaseFile, rule: MergeRule) -> SliceContent:
        """The winning log versions."""
        context = self.split.context
        if rule.payload is not None and rule.payload.changes_inserts:
            return self.whole("its payload changes rows that have no base row")
        if (reason := why_keys_unreadable(context)) is not None:
            return self.whole(reason)
        memory = log_memory_bytes(context, self.at_once)
        scan = LogScan(self.storage, self.split, rule, context.schema.names, memory)
        if scan.parts > 1:
            return self.whole("its log records are larger than the memory for them")
        log = scan.records()
        if rule.payload is not None and _widest_row(log.rows) > _MOST_ROW_BYTES:
            return self.whole("a log record is too large for a Python function")
        met = self._times_met(base, log)
        if met.max(initial=0) > 1:
            return self.whole("its base file has several rows of one record key")
        merge = FileSliceMerger(log, rule, field_defaults(context))
        contested = (met > 0) & ~(merge.wins_always & (log.is_delete | ~np.bool_(merge.merges_rows)))
        return SliceContent(
            batches=[self._record_batch(merge, contested, merges_fields=merge.merges_rows and rule.payload is None)],
            log_instants=scan.instants,
            records=len(log),
            contested=int(contested.sum()),
            merges_fields=bool(merge.merges_rows and rule.payload is None and contested.any()),
        )

    def _times_met(self, base: BaseFile, log: LogRecordMap) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """How many rows of the base file each log record meets by its key."""
        times = np.zeros(len(log), dtype=np.int64)
        keys = base.view(key_columns(self.split.context))
        for group in base.row_groups:
            for rows in keys.batches(group):
                hits: Column = pc.index_in(record_keys(rows, self.split.context), value_set=log.keys)
                found = hits.drop_null().to_numpy(zero_copy_only=False)
                times += np.bincount(found, minlength=len(log))
        return times

    def _record_batch(self, merge: FileSliceMerger, contested: Booleans, *, merges_fields: bool) -> pa.RecordBatch:
        columns, log = self.columns, merge.log_records
        values = {
            columns.key: log.keys,
            columns.contested: pa.array(contested),
            columns.delete: pa.array(log.is_delete),
            columns.explicit: pa.array(merge.compares_as_delete),
            columns.always: pa.array(log.always_deletes),
            **dict(zip(columns.ordering, log.ordering, strict=bool(columns.ordering))),
        }
        if merges_fields:
            values[columns.unset] = _unset(log)
        batches = log.rows.combine_chunks().to_batches()
        deletes = pa.record_batch(
            [pa.nulls(len(log) - log.rows.num_rows, field.type) for field in log.rows.schema], schema=log.rows.schema
        )
        rows = pa.concat_batches([*batches, deletes])  # type: ignore[attr-defined]
        return self._published(rows, values)

    def _published(self, rows: pa.RecordBatch, values: "dict[str, Column]") -> pa.RecordBatch:
        """Rows with the columns to merge by, of which those without values get what rows that meet nothing have."""
        columns, count = self.columns, rows.num_rows
        of_all = {
            columns.partition: pa.repeat(pa.scalar(self.split.partition_path), count),
            **dict.fromkeys((columns.contested, columns.delete, columns.explicit, columns.always), _false(count)),
            **values,
            **{name: rows.column(name) for name in self.split.context.schema.names},
        }
        arrays = [
            of_all[field.name].cast(field.type) if field.name in of_all else pa.nulls(count, field.type)
            for field in columns.schema
        ]
        return pa.record_batch(arrays, schema=columns.schema)


def _false(count: int) -> Column:
    return pa.array(np.zeros(count, dtype=np.bool_))


def _unset(log: LogRecordMap) -> Column:
    """For each record a list that says of each column whether it is unset; null for deletes."""
    names, rows = log.rows.schema.names, log.rows.num_rows
    nothing = np.zeros(rows, dtype=np.bool_)
    unset = np.stack([log.unset.get(name, nothing) for name in names], axis=1)
    ends = np.arange(1, rows + 1) * len(names)
    offsets = np.concatenate([[0], ends, np.full(len(log) - rows, rows * len(names))])
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(unset.reshape(-1)), mask=pa.array(log.is_delete)
    )


def _widest_row(rows: pa.Table) -> int:
    """The bytes of texts and binaries in the row that has most of them, at the top level."""
    sizes = np.zeros(rows.num_rows, dtype=np.int64)
    for column in rows.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            lengths = pc.binary_length(column).fill_null(0)
            sizes += np.asarray(lengths.to_numpy(), dtype=np.int64)
    return int(sizes.max(initial=0))
