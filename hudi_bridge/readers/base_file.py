"""Base files: what all formats share, the columns of a query in them, and the selection of their rows.

Row groups are skipped by statistics only if the filter's columns have not evolved since the file was written. A
selective request reads first the columns that select rows, then the others for the selected rows only. Meta columns are
read as dictionaries and returned as plain text.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge.common.caching import cached_property
from hudi_bridge.config import read_table_config
from hudi_bridge.errors import CorruptBaseFileError, DataFileGoneError, HudiReadError
from hudi_bridge.logformat.parquet import first_line
from hudi_bridge.merge.arrays import Booleans, Column, Positions, as_booleans
from hudi_bridge.readers.column_ranges import Range, columns_with_ranges, may_pass
from hudi_bridge.readers.request import RowRequest, rule_of
from hudi_bridge.readers.split_columns import plan_file_evolution, record_keys, with_path_columns, without_path_columns
from hudi_bridge.schema.evolve import Evolution, StoredAs
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN, META_COLUMNS, RECORD_KEY_COLUMN
from hudi_bridge.schema.variant_paths import VariantPath, part_to_read
from hudi_bridge.splits.notes import warn_of_missing_meta_columns
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.ranges import FileOfRanges
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.timeline import load_timeline

# These columns hold few distinct values per file, some of them long. As dictionaries, they are cheap to filter.
DICTIONARY_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")
ROWS_PER_BATCH = 131_072
"""The most rows of a batch."""
_MIN_BATCH_ROWS = 256
_BATCH_BYTES, _MATERIALIZED_BATCH_BYTES = 1 << 21, 1 << 23
"""About the bytes of a batch in memory: of a stream, and if the consumer keeps all rows."""
_COLUMN_BYTES = 1 << 14
"""About the least bytes of a column of a batch: with fewer, a call of Arrow takes longer than its values."""
_MIN_VALUE_BYTES = 12
"""About the least memory of a value; values of a dictionary take almost nothing in the file."""
_MAX_BUFFERED = 0.25
"""Up to this share of selected rows, the selector's columns are buffered; otherwise they are read again."""
_SMALL_BYTES = 1 << 17
"""If the columns of a row group take no more bytes in the file, all are read at once."""
Select = Callable[[pa.RecordBatch], Booleans]


class OpenBaseFile(ABC):
    """An open base file of a split, in any format; a context manager.

    Its rows are in one or more row groups, which are read one at a time. A format without statistics inherits the
    methods about statistics.
    """

    stored_as = StoredAs.PARQUET
    """The format of the values, which decides how they are converted to other types."""

    def __init__(self, split: RealtimeFileSplit, path: str, arrow_schema: pa.Schema, rows: Sequence[int]) -> None:
        """Takes the numbers of rows of all row groups.

        The metadata of ``arrow_schema`` are what Hudi's writer adds, such as the key range and the Bloom filter.
        """
        self._split = self.split = split
        self.path = path
        self.arrow_schema = arrow_schema
        self.row_group_starts = np.cumsum([0, *rows])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Closes the file."""

    @abstractmethod
    def batches(
        self, row_group: int, columns: Sequence[str], rows_per_batch: int, then: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one row group in top-level columns of the file, as stored.

        The same columns of the row group ``then``, which is read next, may be fetched meanwhile.

        Raises:
            CorruptBaseFileError: the data cannot be decoded.
        """

    @abstractmethod
    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:
        """The stored size of top-level columns in a row group, in bytes."""

    @abstractmethod
    def leaf_bytes(self, row_group: int, columns: Iterable[str]) -> Iterable[int]:
        """The uncompressed size, in bytes, of each leaf of top-level columns in a row group, as far as it is known."""

    @property
    def row_groups(self) -> range:
        """The numbers of all row groups."""
        return range(len(self.row_group_starts) - 1)

    @property
    def num_rows(self) -> int:
        """The number of rows of the file."""
        return int(self.row_group_starts[-1])

    def rows_of(self, row_group: int) -> int:
        """The number of rows of a row group."""
        return int(self.row_group_starts[row_group + 1] - self.row_group_starts[row_group])

    @property
    def is_fetched(self) -> bool:
        """Whether whole columns of a row group are fetched before they are decoded."""
        return False

    @property
    def parquet_footer(self) -> pq.FileMetaData | None:
        """The footer of a Parquet file that has all columns, so that engines can read it in place; otherwise None."""
        return None

    def matching_row_groups(self, row_filter: pc.Expression, schema: pa.Schema) -> list[int]:  # noqa: ARG002 - of formats with statistics
        """The row groups whose statistics do not rule out that a row passes the filter.

        ``schema`` has the columns that the filter refers to; they come from the file or from the partition path.
        """
        return list(self.row_groups)

    def ranges(self, column: str) -> Sequence[Range | bool]:  # noqa: ARG002 - of formats with statistics
        """The range of a column of the query in each row group; False if it is unknown."""
        return [False] * len(self.row_groups)

    def text_range(self, row_group: int, column: str) -> tuple[str, str] | None:  # noqa: ARG002 - of formats with statistics
        """The least and greatest text of a top-level column in a row group; None if the statistics lack them."""
        return None

    def leaf_columns(self, column: str) -> Sequence[str]:  # noqa: ARG002 - of formats that read leaves
        """The names by which ``batches`` reads the leaves of a top-level column one by one, in order; none if it does
        not.
        """
        return ()

    def view(
        self, columns: Iterable[str], *, materialized: bool = False, variant_paths: Sequence[VariantPath] = ()
    ) -> "BaseFileColumns":
        """Some of the query's columns of the file; ``materialized`` if the caller keeps all rows, so that batches are
        larger. Of VARIANT columns with ``variant_paths``, the values may have these paths alone.
        """
        return BaseFileColumns(
            self, self._split, tuple(columns), materialized=materialized, variant_paths=variant_paths
        )


class BaseFileColumns:
    """Some of the query's columns of a base file, in the given order and with the query's types."""

    def __init__(
        self,
        base: OpenBaseFile,
        split: RealtimeFileSplit,
        columns: tuple[str, ...],
        *,
        materialized: bool,
        variant_paths: Sequence[VariantPath] = (),
    ) -> None:
        context = split.context
        self.schema = pa.schema([context.schema.field(name) for name in columns])
        self._base = base
        self._split = split
        self._filter_view: BaseFileColumns | None = None
        self._following: dict[int, int] = {}
        self._batch_bytes = _MATERIALIZED_BATCH_BYTES if materialized else _BATCH_BYTES
        self._plain = PlainColumns()
        require_meta_columns(base, split, columns)
        self._evolution: Evolution = plan_file_evolution(
            base.arrow_schema,
            without_path_columns(self.schema, split),
            split.base_instant_time,
            context,
            base.path,
            stored_as=base.stored_as,
        )
        self._leaves: dict[str, tuple[str, ...]] = {}
        if variant_paths:
            self._read_in_part(variant_paths)

    def _read_in_part(self, paths: Sequence[VariantPath]) -> None:
        """Reads of shredded columns only what the paths within them need."""
        parts = {}
        for column, source in self._evolution.rebuilt.items():
            steps = {path.steps for path in paths if path.column == column}
            leaves = self._base.leaf_columns(source) if steps else ()
            if leaves:
                parts[source], numbers = part_to_read(self._base.arrow_schema.field(source).type, steps)
                self._leaves[source] = tuple(leaves[number] for number in numbers)
        self._evolution = self._evolution.of_parts(parts)

    def matching_row_groups(self, request: RowRequest) -> list[int]:
        """The row groups that may have rows that pass the filter, by statistics.

        Statistics of columns that have evolved since the file was written are not used. Positions in a filter refer to
        the schema of the table; Arrow would look them up in the schema of the file.
        """
        if request.row_filter is None or request.has_positions:
            return list(self._base.row_groups)
        unchanged = {
            column.field.name
            for column in self._evolution.columns
            if column.source == column.field.name and column.step is None and not _may_hold_nan(column.field.type)
        }
        if not unchanged.union(self._split.path_values).issuperset(request.filter_columns):
            return self._row_groups_in_range(request.row_filter, request.filter_columns)
        return self._base.matching_row_groups(request.row_filter, self.schema)

    def _row_groups_in_range(self, row_filter: pc.Expression, columns: Sequence[str]) -> list[int]:
        """The row groups by the ranges of columns, which, unlike Arrow's check, respect NaN and wider types."""
        groups = self._base.row_groups
        ranges = {
            name: (
                self._split.context.schema.field(name).type,
                self._base.ranges(name),
            )
            for name in columns_with_ranges(columns, self._split.context)
        }
        return list(compress(groups, may_pass(row_filter, ranges, len(groups)).tolist())) if ranges else list(groups)

    def expect(self, row_groups: Sequence[int]) -> None:
        """Announces the order in which row groups will be read, so that they can be fetched ahead."""
        self._following = dict(pairwise(row_groups))

    @property
    def file_columns(self) -> tuple[str, ...]:
        """The columns of the file in stored batches."""
        return self._evolution.file_columns

    @property
    def is_partial(self) -> bool:
        """Whether columns are read in part, so that stored batches of other views do not fit."""
        return bool(self._leaves)

    def names_to_read(self, columns: Iterable[str]) -> tuple[str, ...]:
        """The names by which columns of the file are read: of those that are read in part, the leaves."""
        return tuple(leaf for name in columns for leaf in self._leaves.get(name, (name,)))

    def has_columns_of(self, other: "BaseFileColumns") -> bool:
        """Whether stored batches have all file columns that ``other`` needs."""
        return set(other._evolution.file_columns).issubset(self._evolution.file_columns)  # noqa: SLF001 - of this class

    def passing(
        self, stored: pa.RecordBatch, request: RowRequest, without: Positions | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yields the stored rows that pass the request's filter, with its columns, as one batch or none.

        The rows at the positions ``without`` are dropped. Rows are dropped before the columns are evolved.
        """
        keep: Booleans | None = None
        if request.row_filter is not None:
            keep = request.passes(self._filtered(request).evolve(stored))
        if without is not None and len(without):
            keep = np.ones(stored.num_rows, dtype=np.bool_) if keep is None else keep
            keep[without] = False
        if keep is not None and not keep.all():
            stored = stored.filter(pa.array(keep))
        if stored.num_rows:
            yield self.evolve(stored).select(list(request.columns))

    def _filtered(self, request: RowRequest) -> "BaseFileColumns":
        if self._filter_view is None:
            self._filter_view = self._base.view(request.filter_columns)
        return self._filter_view

    def batches(self, row_group: int, rows_per_batch: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one row group.

        Raises:
            CorruptBaseFileError: the data cannot be decoded.
        """
        return map(self.evolve, self.stored_batches(row_group, rows_per_batch))

    def rows_per_batch(self, row_group: int, columns: Iterable[str]) -> int:
        """The number of rows for which some top-level columns of the file take a few megabytes."""
        rows = max(1, self.rows_of(row_group))
        leaves = self._base.leaf_bytes(row_group, self.names_to_read(columns))
        widths = [max(_MIN_VALUE_BYTES, size // rows) for size in leaves]
        size = max(self._batch_bytes, len(widths) * _COLUMN_BYTES)
        return min(ROWS_PER_BATCH, max(_MIN_BATCH_ROWS, size // max(1, sum(widths))))

    def rows_of(self, row_group: int) -> int:
        """The number of rows of a row group."""
        return self._base.rows_of(row_group)

    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:
        """The stored size of top-level columns in a row group, in bytes."""
        return self._base.stored_bytes(row_group, self.names_to_read(columns))

    def stored_batches(
        self, row_group: int, rows_per_batch: int | None = None, columns: tuple[str, ...] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one row group as stored; drop what is not needed before ``evolve``.

        ``columns`` are top-level columns of the file, by default ``file_columns``. By default, a batch takes a few
        megabytes.

        Raises:
            CorruptBaseFileError: the data cannot be decoded, or the number of rows differs from the footer's.
        """
        names = self._evolution.file_columns if columns is None else columns
        expected, rows = self.rows_of(row_group), 0
        most_rows = self.rows_per_batch(row_group, names) if rows_per_batch is None else rows_per_batch
        stored_names = self.names_to_read(names)
        for batch in self._base.batches(row_group, stored_names, most_rows, self._following.get(row_group)):
            rows += batch.num_rows
            yield batch
        # A damaged page may end a column early without an error.
        if rows != expected:
            actual = f"{rows} rows in row group {row_group}"
            raise CorruptBaseFileError(self._base.path, None, actual, f"{expected}, as the footer says")

    def evolve(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        """Converts stored rows to the query's columns."""
        rows = self._plain.without_dictionaries(stored.select(list(self._evolution.file_columns)))
        return with_path_columns(self._evolution.apply(rows), self.schema, self._split)


class PlainColumns:
    """Decodes dictionary columns. Batches whose rows all have the same text share one array."""

    def __init__(self) -> None:
        self._repeated: dict[str, tuple[str, Any]] = {}

    def without_dictionaries(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows with dictionary columns as plain text."""
        for position, field in enumerate(stored.schema):
            if _is_read_as_dictionary(field):
                column = self._plain(field.name, stored.column(position))
                stored = stored.set_column(position, _decoded_field(field), column)
        return stored

    def _plain(self, name: str, column: Any) -> Any:  # noqa: ANN401 - an array with a dictionary
        if len(column.dictionary) != 1 or column.null_count or not column.dictionary[0].is_valid:
            return column.dictionary_decode()
        text = column.dictionary[0].as_py()
        # Other threads may replace the entry, so it is read once.
        repeated_text, repeated = self._repeated.get(name, (None, ()))
        if repeated_text != text or len(repeated) < len(column):
            repeated = pa.repeat(column.dictionary[0], len(column))
            self._repeated[name] = text, repeated
        return repeated[: len(column)]


def decoded_schema(stored: pa.Schema) -> pa.Schema:
    """The schema with dictionary columns as plain text."""
    # ``set`` shares the metadata, which may hold a Bloom filter of a megabyte; a new schema would copy it.
    for position, field in enumerate(stored):
        if _is_read_as_dictionary(field):
            stored = stored.set(position, _decoded_field(field))
    return stored


def _decoded_field(field: Any) -> Any:  # noqa: ANN401 - of any type
    return field.with_type(field.type.value_type)


def _is_read_as_dictionary(field: Any) -> bool:  # noqa: ANN401 - of any type
    return field.name in DICTIONARY_COLUMNS and pa.types.is_dictionary(field.type)


def require_meta_columns(base: OpenBaseFile, split: RealtimeFileSplit, columns: Iterable[str]) -> None:
    """Requires the meta columns that decide which rows are returned; warns of others, which are null.

    Hudi fails without keys to merge by. Without commit times, an incremental query of 1.x returns only rows from the
    logs, and one of 0.x fails.

    Raises:
        CorruptBaseFileError: a column that decides on rows is missing.
    """
    context = split.context
    expected_columns = set(META_COLUMNS) if context.populates_meta_fields else set()
    required = set()
    if context.populates_meta_fields and context.merge_rule is not None and split.log_paths:
        required.add(RECORD_KEY_COLUMN)
    if context.commit_times is not None:
        required.add(COMMIT_TIME_COLUMN)
    missing = (expected_columns | required).difference(base.arrow_schema.names)
    if not missing:
        return
    if missing_required := sorted(missing & required):
        expected = "the meta columns, as hoodie.populate.meta.fields is true"
        if not context.populates_meta_fields:
            expected = "commit times, as hoodie.meta.fields.mode says"
        raise CorruptBaseFileError(base.path, None, f"no column {', '.join(missing_required)}", expected)
    if nulls := sorted(missing.intersection(columns)):
        warn_of_missing_meta_columns(context.table_path, base.path, nulls)


def _may_hold_nan(kind: pa.DataType) -> bool:
    """Whether values of the type may be NaN, which statistics leave out."""
    if pa.types.is_nested(kind):
        return any(_may_hold_nan(kind.field(position).type) for position in range(kind.num_fields))
    return pa.types.is_floating(kind)


class RowSelector:
    """Selects the rows of a base file that a request asks for, by record key and filter."""

    def __init__(self, base: OpenBaseFile, request: RowRequest) -> None:
        context = base.split.context
        self._base = base
        self._request = request
        self._context = context
        self.columns: tuple[str, ...] = request.filter_columns
        """The columns by which rows are selected."""
        if request.record_keys is not None:
            self.columns = tuple(dict.fromkeys((*context.key_columns, *request.filter_columns)))

    @cached_property
    def _keys(self) -> BaseFileColumns:
        return self._base.view(self._context.key_columns)

    @cached_property
    def _filtered(self) -> BaseFileColumns:
        return self._base.view(self._request.filter_columns)

    def mask(self, stored: pa.RecordBatch) -> Booleans:
        """A mask of the requested rows among stored rows with ``columns``."""
        selected = np.ones(stored.num_rows, dtype=np.bool_)
        if self._request.record_keys is not None:
            keys = record_keys(self._keys.evolve(stored), self._context)
            selected = as_booleans(pc.is_in(keys, value_set=self._request.record_keys))
        if self._request.row_filter is not None and selected.any():
            rows = np.flatnonzero(selected)
            passes = self._request.passes(self._filtered.evolve(stored.take(pa.array(rows, pa.int64()))))
            selected[rows[~passes]] = False
        return selected

    def row_groups(self) -> frozenset[int]:
        """The row groups whose statistics do not rule out all requested record keys; all if the request has no keys."""
        groups = self._base.row_groups
        keys = self._request.record_keys
        if keys is None or len(self._context.key_columns) > 1:
            return frozenset(groups)
        (column,) = self._context.key_columns
        return frozenset(group for group in groups if _may_hold(self._base.text_range(group, column), keys))


def _may_hold(text_range: tuple[str, str] | None, keys: Column) -> bool:
    if text_range is None:
        return True
    least, greatest = (pa.scalar(text, keys.type) for text in text_range)
    inside: Any = pc.and_(pc.greater_equal(keys, least), pc.less_equal(keys, greatest))
    return bool(pc.any(inside).as_py())


def selected_rows(
    selector_view: BaseFileColumns, view: BaseFileColumns, group: int, select: Select
) -> Iterator[tuple[pa.RecordBatch, Positions]]:
    """Yields the stored rows of a row group that ``select`` selects, with their positions in the row group.

    They have the columns of both views. ``select`` is called for all rows in order, with the columns of
    ``selector_view``, before the first batch is returned.
    """
    rows, parts_of_positions = 0, [np.empty(0, dtype=np.int64)]
    columns = selector_view.file_columns
    rest = tuple(name for name in view.file_columns if name not in columns)
    if rest and not view.is_partial and selector_view.stored_bytes(group, (*columns, *rest)) <= _SMALL_BYTES:
        # A second request would take longer than the bytes.
        columns, rest = (*columns, *rest), ()
    buffer: list[pa.RecordBatch] | None = [] if columns else None
    max_buffered = _MAX_BUFFERED * selector_view.rows_of(group)
    for stored in selector_view.stored_batches(group, columns=columns):
        indices = np.flatnonzero(select(stored))
        if len(indices):
            parts_of_positions.append(indices + rows)
            if buffer is not None:
                buffer.append(stored.take(pa.array(indices, pa.int64())))
            if sum(map(len, parts_of_positions)) > max_buffered:
                buffer = None
        rows += stored.num_rows
    positions = np.concatenate(parts_of_positions)
    if not len(positions):
        return
    if buffer is None:
        names = dict.fromkeys((*selector_view.file_columns, *view.file_columns))
        yield from _taken(view.stored_batches(group, columns=tuple(names)), positions)
        return
    selected = _one_batch(buffer)
    if rest:
        others = _one_batch([batch for batch, _ in _taken(view.stored_batches(group, columns=rest), positions)])
        selected = pa.record_batch([*selected.columns, *others.columns], schema=_both(selected.schema, others.schema))
    yield selected, positions


def _taken(batches: Iterator[pa.RecordBatch], positions: Positions) -> Iterator[tuple[pa.RecordBatch, Positions]]:
    """The rows at ascending positions; batches after the last position are not read."""
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


def _both(first: pa.Schema, other: pa.Schema) -> pa.Schema:
    return pa.schema([*first, *other])


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroups:
    """Row groups that may have rows of the result, and row groups from which only keys are read to
    match log records.
    """

    rows: frozenset[int]
    keys: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadExtent:
    """Upper bounds for a read of a base file: all row groups, row groups that are read, and bytes
    of their column chunks.
    """

    row_groups: int = 0
    row_groups_read: int = 0
    bytes_read: int = 0


def groups_without_logs(view: BaseFileColumns, request: RowRequest, selector: RowSelector | None) -> RowGroups:
    """The row groups to read without logs; ``selector`` is given for a selective request."""
    matching = frozenset(view.matching_row_groups(request))
    return RowGroups(rows=matching if selector is None else matching & selector.row_groups())


def groups_with_logs(
    base: OpenBaseFile,
    view: BaseFileColumns,
    request: RowRequest,
    selector: RowSelector | None,
    *,
    merges_fields: bool,
) -> RowGroups:
    """The row groups to read of a base file with logs.

    With ``merges_fields``, a merged row may pass the filter even if no row of its row group does. Otherwise, keys of
    such row groups still matter if a base row may win over a log record, or may be the first of several rows with the
    same key. Row groups without a requested key do not matter, because all log records have requested keys.
    """
    matching = view.matching_row_groups(request)
    candidates = frozenset(base.row_groups) if selector is None else selector.row_groups()
    if merges_fields:
        return RowGroups(rows=candidates)
    rows, last = candidates.intersection(matching), max(matching, default=-1)
    keys = frozenset(group for group in candidates - rows if rule_of(base.split).base_may_win or group < last)
    return RowGroups(rows=rows, keys=keys)


def extent(base: OpenBaseFile, groups: RowGroups, rows: Iterable[str], keys: Iterable[str] = ()) -> ReadExtent:
    """The extent of reading the columns ``rows`` of ``groups.rows`` and the columns ``keys`` of ``groups.keys``."""
    row_columns, key_columns = tuple(rows), tuple(keys)
    size = sum(base.stored_bytes(group, row_columns) for group in groups.rows)
    size += sum(base.stored_bytes(group, key_columns) for group in groups.keys)
    return ReadExtent(row_groups=len(base.row_groups), row_groups_read=len(groups.rows | groups.keys), bytes_read=size)


def data_file_gone(storage: Storage, planned: RealtimeFileSplit | ReadContext, path: str) -> DataFileGoneError:
    """The error for a missing data file; the timeline is read again, so that it names the newest instant."""
    return DataFileGoneError(path, planned.latest_instant, _newest_instant(storage))


def _newest_instant(storage: Storage) -> str | None:
    try:
        latest = load_timeline(storage, read_table_config(storage)).latest_commit()
    except HudiReadError:
        return None
    return latest.requested_time if latest else None


def open_stored(storage: Storage, split: RealtimeFileSplit, path: str) -> tuple[pa.NativeFile, FileOfRanges | None]:
    """Opens the base file; the second value fetches its ranges if it is in a store.

    Raises:
        FileNotFoundError: the file no longer exists.
        StorageError: the file cannot be opened.
    """
    if storage.is_local:
        return storage.open_input(path), None
    fetched = storage.prefetched.get(path)
    if isinstance(fetched, pa.Buffer):
        return pa.BufferReader(fetched), None
    # The caller closes the file after use, so it must not be found again.
    storage.prefetched.pop(path, None)
    ranges = storage.open_ranges(path, split.base_size_bytes or None) if fetched is None else fetched
    return pa.PythonFile(ranges, mode="r"), ranges


def cause_of(
    storage: Storage,
    split: RealtimeFileSplit,
    path: str,
    error: Exception,
    decode: Callable[[pa.NativeFile], object],
    kind: str,
) -> HudiReadError:
    """The error to raise for an Arrow error: the file is not in the format ``kind``, it is
    missing, or the storage failed.
    """
    failure = storage.failure_of(path, error, decode)
    if failure is None:
        return CorruptBaseFileError(path, None, first_line(error), f"a readable {kind} file")
    return failure if isinstance(failure, HudiReadError) else data_file_gone(storage, split, path)
