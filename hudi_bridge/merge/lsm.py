"""Merges the files of an LSM tree: runs of records in the order of their keys, the oldest run first.

Runs are merged a window at a time: the records up to the least of the last keys of their chunks. A chunk that is alone
in its window is passed on as it is. Otherwise, only base rows whose key occurs more than once take part, as the first
versions, in the order in which Hudi merges: the base file's rows of one key, then those of each log file. Base rows of
other keys are returned as they are stored, even if they are marked as deleted.

So a merge holds two chunks of each run, and hashes only the keys in a window.

Source: ``LsmFileGroupRecordIterator`` of Hudi's main branch (RFC-103), which merges each record into the result so far
by ``BufferedRecordMerger.deltaMerge``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import CorruptTableError
from hudi_bridge.merge.arrays import Booleans, Column, Positions, Value, as_booleans
from hudi_bridge.merge.record_map import LogRecords, build_record_map, selected
from hudi_bridge.merge.rules import MergeRule

_NO_POSITIONS: Positions = np.empty(0, dtype=np.int64)
_FROM_LOGS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Adjacent records of a run, in the order of their keys, with their row numbers in the file.

    ``is_distinct`` is whether no key is known to occur twice.
    """

    records: LogRecords
    positions: Positions
    is_distinct: bool = True

    def __len__(self) -> int:
        return len(self.positions)

    def key(self, index: int) -> bytes:
        """The UTF-8 bytes of a key, by which runs are sorted."""
        return key_at(self.records.keys, index)

    def between(self, start: int, end: int) -> "Chunk":
        """The records from ``start`` up to ``end``; nothing is copied."""
        records = self.records
        return Chunk(
            records=replace(
                records,
                keys=records.keys[start:end],
                rows=None if records.rows is None else records.rows.slice(start, end - start),
                ordering=tuple(column[start:end] for column in records.ordering),
                is_delete=records.is_delete[start:end],
                always_deletes=records.always_deletes[start:end],
                marked=records.marked[start:end],
            ),
            positions=self.positions[start:end],
            is_distinct=self.is_distinct,
        )

    def first_after(self, key: bytes) -> int:
        """The index of the first record with a greater key."""
        low, high = 0, len(self)
        if self.key(high - 1) <= key:
            return high
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.key(middle) <= key else (low, middle)
        return low


def key_at(keys: Column, index: int) -> bytes:
    """The UTF-8 bytes of a record key."""
    stored: bytes = keys[index].as_buffer().to_pybytes()
    return stored


def _joined(first: Chunk, second: Chunk) -> Chunk:
    a, b = first.records, second.records
    rows = None
    if a.rows is not None and b.rows is not None:
        rows = pa.concat_batches([a.rows, b.rows])  # type: ignore[attr-defined]
    return Chunk(
        records=replace(
            a,
            keys=pa.concat_arrays([a.keys, b.keys]),
            rows=rows,
            ordering=tuple(pa.concat_arrays(list(pair)) for pair in zip(a.ordering, b.ordering, strict=True)),
            is_delete=np.concatenate([a.is_delete, b.is_delete]),
            always_deletes=np.concatenate([a.always_deletes, b.always_deletes]),
            marked=np.concatenate([a.marked, b.marked]),
        ),
        positions=np.concatenate([first.positions, second.positions]),
        is_distinct=False,
    )


class SortedRun:
    """A file of an LSM tree, read a chunk ahead; all records of a key are in one chunk."""

    def __init__(
        self, path: str, chunks: Iterable[Chunk], failure: type[CorruptTableError], *, is_base: bool = False
    ) -> None:
        """Takes the records of the file at a path; ``failure`` is raised if they are not in order."""
        self.is_base = is_base
        self.current: Chunk | None = None
        self._path = path
        self._failure = failure
        self._chunks = iter(chunks)
        self._last: tuple[bytes, int] | None = None
        self._next = self._read()
        self._advance()

    def _advance(self) -> None:
        self.current, self._next = self._next, self._read()
        while self.current is not None and self._next is not None:
            key = self.current.key(-1)
            if self._next.key(0) != key:
                break
            # The versions of a key go on in the next chunk.
            same = self._next.first_after(key)
            self.current = _joined(self.current, self._next.between(0, same))
            rest = self._next.between(same, len(self._next))
            self._next = rest if len(rest) else self._read()

    def _read(self) -> Chunk | None:
        for chunk in self._chunks:
            if len(chunk):
                is_distinct = self._require_order(chunk)
                self._last = chunk.key(-1), int(chunk.positions[-1])
                return replace(chunk, is_distinct=is_distinct)
        return None

    def _require_order(self, chunk: Chunk) -> bool:
        """Requires that keys ascend; whether each occurs once."""
        keys = chunk.records.keys
        if self._last is not None and chunk.key(0) < self._last[0]:
            raise self._disorder(*self._last, chunk, 0)
        earlier, later = keys[:-1], keys[1:]
        if pc.all(pc.less(earlier, later)).as_py() is not False:
            return True
        wrong = np.flatnonzero(as_booleans(pc.greater(earlier, later)))
        if len(wrong):
            before = int(wrong[0])
            raise self._disorder(chunk.key(before), int(chunk.positions[before]), chunk, before + 1)
        return False

    def _disorder(self, key: bytes, row: int, chunk: Chunk, index: int) -> CorruptTableError:
        shown = [text.decode("utf-8", "replace") for text in (chunk.key(index), key)]
        actual = f"the record key {shown[0]!r} in row {chunk.positions[index]} after {shown[1]!r} in row {row}"
        return self._failure(self._path, None, actual, "rows in the order of their keys, as in a file of an LSM tree")

    def take_until(self, key: bytes) -> Chunk | None:
        """Takes the records of the current chunk up to a key; None if there are none."""
        chunk = self.current
        if chunk is None or chunk.key(0) > key:
            return None
        end = chunk.first_after(key)
        if end == len(chunk):
            self._advance()
            return chunk
        self.current = chunk.between(end, len(chunk))
        return chunk.between(0, end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The merged records of a range of keys.

    Attributes:
        base: the records of the base file, if there are any.
        superseded: marks the base rows that are replaced, deleted or merged.
        added: the rows that come from the logs, or from rows of several files, in the order of their keys.
        places: for each of them, the number of base rows with a lower key.
    """

    base: Chunk | None
    superseded: Booleans
    added: pa.RecordBatch
    places: Positions

    def rows(self, columns: Sequence[str], passes: Callable[[pa.RecordBatch], Booleans] | None) -> pa.RecordBatch:
        """The rows that pass, in the order of their keys."""
        names = list(columns)
        base = None if self.base is None else self.base.records.rows
        added, added_rows = self.added.select(names), _passing(self.added, passes)
        if base is None:
            return added if len(added_rows) == added.num_rows else added.take(pa.array(added_rows, pa.int64()))
        mask = ~self.superseded
        if passes is not None and mask.any():
            mask &= passes(base)
        if not len(added_rows):
            return base.select(names) if mask.all() else base.select(names).filter(pa.array(mask))
        base_rows = np.flatnonzero(mask)
        before = np.searchsorted(base_rows, self.places[added_rows])
        order = np.insert(base_rows, before, base.num_rows + added_rows)
        both: pa.RecordBatch = pa.concat_batches([base.select(names), added])  # type: ignore[attr-defined]
        return both.take(pa.array(order, pa.int64()))


def _passing(rows: pa.RecordBatch, passes: Callable[[pa.RecordBatch], Booleans] | None) -> Positions:
    return np.arange(rows.num_rows) if passes is None or not rows.num_rows else np.flatnonzero(passes(rows))


class LsmMerge:
    """Merges runs whose rows have the columns of a schema."""

    def __init__(self, rule: MergeRule, schema: pa.Schema, defaults: Mapping[str, Value]) -> None:
        self._rule = rule
        self._defaults = defaults
        self._nothing = pa.RecordBatch.from_pylist([], schema=schema)
        self._number = "".join(schema.names) + "#"
        # Numbers tell base rows that survive unchanged from rows of the logs.
        self._schema = schema.append(pa.field(self._number, pa.int64()))

    def windows(self, runs: Sequence[SortedRun]) -> Iterator[Window]:
        """Yields the records of all runs, oldest run first, in the order of their keys.

        Raises:
            CorruptTableError: a run is not sorted.
            MergeError: fields cannot be merged.
        """
        while chunks := [run.current for run in runs if run.current is not None]:
            last = min(chunk.key(-1) for chunk in chunks)
            parts = [(run.is_base, part) for run in runs if (part := run.take_until(last)) is not None]
            base = next((part for is_base, part in parts if is_base), None)
            yield self._merged(base, [part for is_base, part in parts if not is_base])

    def _merged(self, base: Chunk | None, logs: Sequence[Chunk]) -> Window:
        rows = 0 if base is None else len(base)
        contested = np.zeros(rows, dtype=np.bool_) if base is None else _contested(base, logs)
        if not contested.any() and len(logs) <= 1 and all(log.is_distinct for log in logs):
            stored = self._nothing if not logs else self._without_deletes(logs[0].records)
            keys, unchanged = _keys_of_rows(logs), _NO_POSITIONS
        else:
            stored, keys, unchanged = self._folded(base, contested, logs)
        superseded = contested.copy()
        superseded[unchanged] = False
        places = _NO_POSITIONS if base is None or not len(keys) else _places(base.records.keys, contested, keys)
        return Window(base=base, superseded=superseded, added=stored, places=places)

    def _without_deletes(self, records: LogRecords) -> pa.RecordBatch:
        if records.rows is None:
            return self._nothing
        return records.rows.filter(pa.array(~records.is_delete)) if records.is_delete.any() else records.rows

    def _folded(
        self, base: Chunk | None, contested: Booleans, logs: Sequence[Chunk]
    ) -> tuple[pa.RecordBatch, Column, Positions]:
        """The surviving rows that are not rows of the base file as they are, their keys, and the indexes of those that
        are.
        """
        blocks = [self._numbered(log.records, np.full(len(log), _FROM_LOGS)) for log in logs]
        if base is not None and contested.any():
            blocks.insert(0, self._numbered(selected(base.records, contested), np.flatnonzero(contested)))
        survivors = build_record_map(blocks, self._rule, self._schema, self._defaults)
        numbers = survivors.rows.column(self._number).to_numpy()
        unchanged = np.zeros(len(numbers), dtype=np.bool_) if self._rule.fill is not None else numbers != _FROM_LOGS
        changed = np.flatnonzero(~unchanged)
        keys = survivors.keys.take(pa.array(changed, pa.int64()))
        if pc.all(pc.less(keys[:-1], keys[1:])).as_py() is False:
            order = pc.array_sort_indices(keys)
            keys, changed = keys.take(order), changed[order.to_numpy()]
        rows = survivors.rows.select(self._nothing.schema.names).take(pa.array(changed, pa.int64())).combine_chunks()
        return next(iter(rows.to_batches()), self._nothing), keys, numbers[unchanged]

    def _numbered(self, records: LogRecords, numbers: Positions) -> LogRecords:
        if records.rows is None:
            # A delete of a file is compared as one in a row: both are merged by ``BufferedRecordMerger.deltaMerge``.
            return replace(records, marked=records.is_delete)
        rows = pa.record_batch([*records.rows.columns, pa.array(numbers, pa.int64())], schema=self._schema)
        return replace(records, rows=rows)


def _keys_of_rows(logs: Sequence[Chunk]) -> Column:
    """The keys of the rows of at most one log."""
    if not logs or logs[0].records.rows is None:
        return pa.array([], pa.string())
    records = logs[0].records
    return records.keys.filter(pa.array(~records.is_delete)) if records.is_delete.any() else records.keys


def _contested(base: Chunk, logs: Sequence[Chunk]) -> Booleans:
    """Marks the base rows whose key occurs more than once."""
    keys = base.records.keys
    contested = np.zeros(len(base), dtype=np.bool_)
    if logs:
        others = pa.concat_arrays([log.records.keys for log in logs])
        contested |= as_booleans(pc.is_in(keys, value_set=others))
    if not base.is_distinct:
        same = as_booleans(pc.equal(keys[:-1], keys[1:]))
        contested[:-1] |= same
        contested[1:] |= same
    return contested


def _places(base: Column, contested: Booleans, keys: Column) -> Positions:
    """For each of the ascending keys, the number of lower keys in the base file.

    Only keys that the base file does not have are looked for, each between those that it has.
    """
    indexes = np.flatnonzero(contested)
    matches: Column = pc.index_in(keys, value_set=base.filter(pa.array(contested)))
    is_match = matches.is_valid().to_numpy(zero_copy_only=False)
    low = np.zeros(len(keys), dtype=np.int64)
    high = np.full(len(keys), len(base))
    matched = indexes[matches.drop_null().to_numpy(zero_copy_only=False)]
    low[is_match] = high[is_match] = matched
    low = np.maximum.accumulate(low)
    high = np.minimum.accumulate(high[::-1])[::-1].copy()
    while len(open_ := np.flatnonzero(low < high)):
        middle = (low[open_] + high[open_]) // 2
        is_lower = as_booleans(pc.less(base.take(pa.array(middle, pa.int64())), keys.take(pa.array(open_, pa.int64()))))
        low[open_[is_lower]] = middle[is_lower] + 1
        high[open_[~is_lower]] = middle[~is_lower]
    return low
