"""The rows of a file slice that are published, so that SQL can merge them with the base file.

They are the surviving log version of each record key, with the columns that a merge needs. The log versions are merged
by the code that reads snapshots; of the base file, only the record keys and their field are read. If SQL cannot read
the base file or merge the slice, the merged rows of the whole slice are published instead.

Contested rows are divided into batches, one for each call of a Trino function. A call costs time, and the memory of
Trino's Python is small: a call with texts of 2 MiB fails. So small rows go in batches, and large ones by themselves. A
row belongs to a batch by a hash of its key, so that no row has to be counted.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.connectors.trino.compatibility import LogColumns, why_keys_unreadable, why_unreadable
from hudi_bridge.connectors.trino.functions import why_not_passed
from hudi_bridge.connectors.trino.sql_types import Engine
from hudi_bridge.engines import SliceDelta, StoredBaseFile, SurvivingLogRecords, slice_delta_in
from hudi_bridge.engines.stored_base_file import in_path_and_file
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.split_reader import open_reader_in
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

_MOST_ROW_BYTES = 300_000
"""The limit of a row for a Python function, which gets two rows and has a small memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceContent:
    """The published rows of a slice; none if no log record counts.

    ``why_whole`` is why all rows of the slice are published; None if SQL merges log records with the base file.
    ``reads_base`` is whether SQL reads the base file, and ``path_in_file`` whether all of its rows have the values that
    the partition path tells. ``counted_instants`` holds for the instants of the log blocks whether they count.
    ``contested`` is how many of the ``records`` have to be compared with their base row, and ``merges_fields`` whether
    the merged row then has fields of both. ``joins_by_field`` is whether base rows find their log records by the only
    record key field, too.
    """

    batches: Iterable[pa.RecordBatch] = ()
    why_whole: str | None = None
    reads_base: bool = False
    path_in_file: bool = False
    counted_instants: Mapping[str, bool] = field(default_factory=dict)
    records: int = 0
    contested: int = 0
    merges_fields: bool = False
    joins_by_field: bool = True


def slice_content(storage: Storage, split: RealtimeFileSplit, columns: LogColumns, at_once: int = 1) -> SliceContent:
    """The content to publish of a slice; the memory for logs is divided by ``at_once``.

    The ``file`` column is null.

    Raises:
        HudiReadError: the slice cannot be read.
    """
    reader = _SliceReader(storage=storage, split=split, columns=columns, at_once=at_once)
    with slice_delta_in(storage, split, at_once=at_once) as delta:
        base, counted = delta.base_file, delta.counted_instants
        if base is None:
            content = reader.whole("it has no base file")
        elif (reason := why_unreadable(base, columns)) is not None:
            content = reader.whole(reason)
        else:
            content = reader.records(delta)
            reads_base = content.why_whole is None and base.rows > 0
            content = replace(content, reads_base=reads_base, path_in_file=_is_path_in_file(split, base))
    return replace(content, counted_instants=counted)


def unmerged_content(storage: Storage, split: RealtimeFileSplit, columns: LogColumns) -> SliceContent:
    """What a view needs to know of a slice whose log blocks Trino merges; nothing of it is published here.

    Raises:
        UnsupportedTableError: SQL cannot read the base file, or not merge it with log records.
        HudiReadError: the slice cannot be read.
    """
    with slice_delta_in(storage, split) as delta:
        base = delta.base_file
        reason = None if base is None else why_unreadable(base, columns)
        if reason is None and base is None and split.path_values.keys() != set(split.context.path_columns):
            reason = "its partition path does not tell the values of the partition columns"
        if reason is None and split.log_paths and split.context.merge_rule is not None:
            reason = why_keys_unreadable(split.context) or delta.why_keys_not_unique()
        if reason is not None:
            description = f"{reason}, in file group {split.file_id} of partition {split.partition_path!r}"
            raise UnsupportedTableError(
                "file slice to merge in Trino", description, "slices that SQL can read and merge"
            )
        reads_base = base is not None and base.rows > 0
        return SliceContent(reads_base=reads_base, counted_instants=delta.counted_instants, joins_by_field=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SliceReader:
    storage: Storage
    split: RealtimeFileSplit
    columns: LogColumns
    at_once: int

    def whole(self, reason: str) -> SliceContent:
        """The merged rows of the whole slice."""
        return SliceContent(batches=self._merged_rows(), why_whole=reason)

    def _merged_rows(self) -> Iterator[pa.RecordBatch]:
        reader = open_reader_in(self.storage, self.split, use_threads=False, at_once=self.at_once)
        for rows in reader.batches():
            yield self._published(rows, {})

    def records(self, delta: SliceDelta) -> SliceContent:
        """The surviving log records, or the whole slice if SQL cannot merge them."""
        rule = self.split.context.merge_rule
        if (
            rule is not None
            and self.split.log_paths
            and (reason := why_keys_unreadable(self.split.context)) is not None
        ):
            return self.whole(reason)
        log = delta.log_records()
        if log is None:
            return SliceContent()
        if isinstance(log, str):
            return self.whole(log)
        if (reason := self._why_not_by_function(log)) is not None:
            return self.whole(reason)
        return SliceContent(
            batches=[self._record_batch(log)],
            records=len(log),
            contested=int(log.contested.sum()),
            merges_fields=bool(log.merges_fields and log.contested.any()),
            joins_by_field=bool(log.key_values),
        )

    def _why_not_by_function(self, log: SurvivingLogRecords) -> str | None:
        """Why contested records need a function that the engine cannot run; None if they need none, or it can."""
        rule = self.split.context.merge_rule
        if self.columns.engine is Engine.TRINO:
            if rule is None or rule.payload is None:
                return None
            if _widest_row(log.rows) > _MOST_ROW_BYTES:
                return "a log record is too large for a Python function"
            return why_not_passed(self.split.context.schema, rule.payload) if log.contested.any() else None
        if not log.contested.any():
            return None
        if self.columns.cut_times and any(_has_microseconds(column.type) for column in log.ordering):
            return "Presto would cut the ordering values to milliseconds"
        if rule is not None and rule.payload is not None:
            return f"Presto has no functions for the payload {rule.payload_class}"
        return None

    def _record_batch(self, log: SurvivingLogRecords) -> pa.RecordBatch:
        columns = self.columns
        values = {
            columns.key: log.keys,
            columns.contested: pa.array(log.contested),
            columns.delete: pa.array(log.is_delete),
            columns.explicit: pa.array(log.compares_as_delete),
            columns.always: pa.array(log.always_deletes),
            **dict(zip(columns.ordering, log.ordering, strict=True)),
            **log.key_values,
        }
        if log.merges_fields:
            values[columns.unset] = _unset(log)
        return self._published(log.rows, values)

    def _published(self, rows: pa.RecordBatch, values: "dict[str, pa.Array[Any]]") -> pa.RecordBatch:
        """Rows with all log columns; those without ``values`` are false or null, as for rows without a base row."""
        columns, count = self.columns, rows.num_rows
        of_all = {
            columns.partition: pa.repeat(pa.scalar(self.split.partition_path), count),
            **dict.fromkeys((columns.contested, columns.delete, columns.explicit, columns.always), _false(count)),
            **{name: rows.column(name) for name in self.split.context.schema.names},
            **values,
        }
        arrays = [
            of_all[field.name].cast(field.type, safe=not columns.cut_times)
            if field.name in of_all
            else pa.nulls(count, field.type)
            for field in columns.schema
        ]
        return pa.record_batch(arrays, schema=columns.schema)


def _is_path_in_file(split: RealtimeFileSplit, base: StoredBaseFile) -> bool:
    is_in_path_and_file = in_path_and_file(split, base.schema, base.footer)
    return all(
        name in base.schema.names and is_in_path_and_file.get(name, False) for name in split.context.path_columns
    )


def _has_microseconds(kind: Any) -> bool:  # noqa: ANN401 - a type of Arrow
    return pa.types.is_timestamp(kind) and kind.unit == "us"


def _false(count: int) -> "pa.Array[Any]":
    return pa.array(np.zeros(count, dtype=np.bool_))


def _unset(log: SurvivingLogRecords) -> "pa.Array[Any]":
    """For each record, a list of whether each column is unset; null for deletes."""
    names, nothing = log.rows.schema.names, np.zeros(len(log), dtype=np.bool_)
    rows = len(log) - int(log.is_delete.sum())
    unset = np.stack([log.unset.get(name, nothing)[:rows] for name in names], axis=1)
    ends = np.arange(1, rows + 1) * len(names)
    offsets = np.concatenate([[0], ends, np.full(len(log) - rows, rows * len(names))])
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(unset.reshape(-1)), mask=pa.array(log.is_delete)
    )


def _widest_row(rows: pa.RecordBatch) -> int:
    """The size in bytes of the strings and binaries in the widest row; nested ones are not counted."""
    sizes = np.zeros(rows.num_rows, dtype=np.int64)
    for column in rows.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            lengths: Any = pc.binary_length(column)  # type: ignore[call-overload]  # the stubs lack strings
            sizes += np.asarray(lengths.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    return int(sizes.max(initial=0))


_MOST_VALUES = 8_000
"""The most values of a batch, on average."""
_CLASSES = ((1_000, 100), (10_000, 10))
"""The longest texts of a base row and its log record together, and the rows of a batch of such rows, on average."""


def batch(schema: pa.Schema, passed: pa.Schema, contested: int) -> str:
    """The SQL expression for the batch of a base row ``b`` and its log record ``l``; ``contested`` counts all rows.

    ``passed`` are the columns that a call gets. The sizes of nested values are not known to SQL: rows with such columns
    make a batch each.
    """
    alone = "CAST(b.place AS varchar) || '/' || CAST(b.record_key AS varchar)"
    if any(pa.types.is_nested(field.type) for field in passed):
        return alone
    texts = [
        f"COALESCE(length({alias}.c{schema.get_field_index(field.name)}), 0)"
        for field in passed
        if pa.types.is_string(field.type) or pa.types.is_binary(field.type) or pa.types.is_fixed_size_binary(field.type)
        for alias in ("b", "l")
    ]
    size = " + ".join(texts) or "0"
    most_rows = max(1, _MOST_VALUES // (2 * max(1, len(passed))))
    cases = (
        f"WHEN {size} <= {longest} THEN"
        f" '{number}:' || CAST(mod(crc32(to_utf8({alone})), {math.ceil(contested / min(rows, most_rows))}) AS varchar)"
        for number, (longest, rows) in enumerate(_CLASSES)
    )
    return f"CASE {' '.join(cases)} ELSE {alone} END"
