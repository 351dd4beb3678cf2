"""Reads the rows of a base file that a selective request wants: first the columns that decide, then the others.

The other columns of a row group without a wanted row are not read.

Chooses the row groups of a base file that a read of its slice needs, and tells how much that is.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.caching import cached_property
from hudi_bridge.merge.arrays import Booleans, Column, Positions, as_booleans
from hudi_bridge.readers.base_file import BaseFileColumns, OpenBaseFile
from hudi_bridge.readers.request import RowRequest, rule_of
from hudi_bridge.readers.split_columns import record_keys

_MOST_HELD = 0.25
"""The part of the rows of a row group up to which the columns that decide are kept, not read twice."""
_SMALL_BYTES = 1 << 17
"""Columns of a row group that take no more in the file are read together."""

Keep = Callable[[pa.RecordBatch], Booleans]


class WantedRows:
    """Decides by record key and filter which rows of a base file a request wants."""

    def __init__(self, base: OpenBaseFile, request: RowRequest) -> None:
        context = base.split.context
        self._base = base
        self._request = request
        self._context = context
        self.columns: tuple[str, ...] = request.filter_columns
        """The columns that decide."""
        if request.record_keys is not None:
            self.columns = tuple(dict.fromkeys((*context.key_columns, *request.filter_columns)))

    @cached_property
    def _keys(self) -> BaseFileColumns:
        return self._base.view(self._context.key_columns)

    @cached_property
    def _filtered(self) -> BaseFileColumns:
        return self._base.view(self._request.filter_columns)

    def among(self, stored: pa.RecordBatch) -> Booleans:
        """A mask of the wanted rows among stored rows with ``columns``."""
        wanted = np.ones(stored.num_rows, dtype=np.bool_)
        if self._request.record_keys is not None:
            keys = record_keys(self._keys.evolve(stored), self._context)
            wanted = as_booleans(pc.is_in(keys, value_set=self._request.record_keys))
        if self._request.row_filter is not None and wanted.any():
            rows = np.flatnonzero(wanted)
            passes = self._request.passes(self._filtered.evolve(stored.take(pa.array(rows, pa.int64()))))
            wanted[rows[~passes]] = False
        return wanted

    def row_groups(self) -> frozenset[int]:
        """The row groups that may hold a wanted record key, by their statistics; all if keys do not matter."""
        groups = self._base.row_groups
        wanted = self._request.record_keys
        if wanted is None or len(self._context.key_columns) > 1:
            return frozenset(groups)
        (column,) = self._context.key_columns
        return frozenset(group for group in groups if _may_hold(self._base.text_range(group, column), wanted))


def _may_hold(text_range: tuple[str, str] | None, keys: Column) -> bool:
    if text_range is None:
        return True
    least, greatest = (pa.scalar(text, keys.type) for text in text_range)
    inside: Any = pc.and_(pc.greater_equal(keys, least), pc.less_equal(keys, greatest))
    return bool(pc.any(inside).as_py())


def kept_rows(
    first: BaseFileColumns, wanted: BaseFileColumns, group: int, keep: Keep
) -> Iterator[tuple[pa.RecordBatch, Positions]]:
    """The stored rows of a row group that ``keep`` chooses, with the columns of both views, and their positions in it.

    ``keep`` is called for all rows, in order, with the columns of ``first``, before the first batch is returned.
    """
    rows, chosen = 0, [np.empty(0, dtype=np.int64)]
    columns = first.file_columns
    rest = tuple(name for name in wanted.file_columns if name not in columns)
    if rest and first.stored_bytes(group, (*columns, *rest)) <= _SMALL_BYTES:
        # What is small is read at once.
        columns, rest = (*columns, *rest), ()
    held: list[pa.RecordBatch] | None = [] if columns else None
    most = _MOST_HELD * first.rows_of(group)
    for stored in first.stored_batches(group, columns=columns):
        found = np.flatnonzero(keep(stored))
        if len(found):
            chosen.append(found + rows)
            if held is not None:
                held.append(stored.take(pa.array(found, pa.int64())))
            if sum(map(len, chosen)) > most:
                held = None
        rows += stored.num_rows
    positions = np.concatenate(chosen)
    if not len(positions):
        return
    if held is None:
        both = dict.fromkeys((*first.file_columns, *wanted.file_columns))
        yield from _taken(wanted.stored_batches(group, columns=tuple(both)), positions)
        return
    parts = _one_batch(held)
    if rest:
        others = _one_batch([batch for batch, _ in _taken(wanted.stored_batches(group, columns=rest), positions)])
        parts = pa.record_batch([*parts.columns, *others.columns], schema=_both(parts.schema, others.schema))
    yield parts, positions


def _taken(batches: Iterator[pa.RecordBatch], positions: Positions) -> Iterator[tuple[pa.RecordBatch, Positions]]:
    """The rows at ascending positions; batches after the last one are not read."""
    start = 0
    for stored in batches:
        low, high = np.searchsorted(positions, [start, start + stored.num_rows])
        if low < high:
            yield stored.take(pa.array(positions[low:high] - start, pa.int64())), positions[low:high]
        start += stored.num_rows
        if positions[-1] < start:
            return


def _one_batch(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _both(one: pa.Schema, other: pa.Schema) -> pa.Schema:
    return pa.schema([*one, *other])


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroups:
    """The row groups that may hold rows of the result, and those of which only keys are matched with log records."""

    rows: frozenset[int]
    keys: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadExtent:
    """What a read needs of a base file, at most: row groups, of all of them, and the bytes of their column chunks."""

    row_groups: int = 0
    row_groups_read: int = 0
    bytes_read: int = 0


def groups_without_logs(wanted: BaseFileColumns, request: RowRequest, deciding: WantedRows | None) -> RowGroups:
    """The row groups of a base file that is read alone; ``deciding`` is given if the request is selective."""
    matching = frozenset(wanted.matching_row_groups(request))
    return RowGroups(rows=matching if deciding is None else matching & deciding.row_groups())


def groups_with_logs(
    base: OpenBaseFile,
    wanted: BaseFileColumns,
    request: RowRequest,
    deciding: WantedRows | None,
    *,
    merges_fields: bool,
) -> RowGroups:
    """The row groups of a base file that is merged with logs.

    A base row merged with a log record may pass the filter even if no row of its row group does. A base row may win
    over a log record, or be the first of several rows with the same key. Row groups without a wanted key have nothing
    to do with the log records, which all have wanted keys.
    """
    matching = wanted.matching_row_groups(request)
    concerned = frozenset(base.row_groups) if deciding is None else deciding.row_groups()
    if merges_fields:
        return RowGroups(rows=concerned)
    rows, last = concerned.intersection(matching), max(matching, default=-1)
    keys = frozenset(group for group in concerned - rows if rule_of(base.split).base_may_win or group < last)
    return RowGroups(rows=rows, keys=keys)


def extent(base: OpenBaseFile, groups: RowGroups, rows: Iterable[str], keys: Iterable[str] = ()) -> ReadExtent:
    """How much of a base file these row groups are: ``rows`` and ``keys`` are the columns of the file to read."""
    of_rows, of_keys = tuple(rows), tuple(keys)
    size = sum(base.stored_bytes(group, of_rows) for group in groups.rows)
    size += sum(base.stored_bytes(group, of_keys) for group in groups.keys)
    return ReadExtent(row_groups=len(base.row_groups), row_groups_read=len(groups.rows | groups.keys), bytes_read=size)
