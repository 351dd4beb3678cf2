"""Base files: what all formats have in common, the columns of a query in them, and which of their rows are read.

Row groups are skipped by statistics only if the filter's columns have not evolved since the file was written. A
selective request reads first the columns that decide, then the others: those of a row group without a wanted row are
not read. Meta columns are read as dictionaries; a query returns their plain form.
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
from hudi_bridge.errors import CorruptBaseFileError
from hudi_bridge.merge.arrays import Booleans, Column, Positions, as_booleans
from hudi_bridge.readers.column_ranges import Range, columns_with_ranges, may_pass
from hudi_bridge.readers.request import RowRequest, rule_of
from hudi_bridge.readers.split_columns import plan_file_evolution, record_keys, with_path_columns, without_path_columns
from hudi_bridge.schema.evolve import Evolution, StoredAs
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN, META_COLUMNS, RECORD_KEY_COLUMN
from hudi_bridge.splits.notes import warn_of_missing_meta_columns
from hudi_bridge.splits.split import RealtimeFileSplit

# These columns hold few distinct values per file, some of them long. As dictionaries, they are cheap to filter.
DICTIONARY_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")
ROWS_PER_BATCH = 131_072
"""The most rows of a batch."""
_FEWEST_ROWS = 256
_BATCH_BYTES, _HELD_BATCH_BYTES = 1 << 21, 1 << 23
"""About the bytes of a batch in memory: of a stream, and where all rows are held in the end."""
_COLUMN_BYTES = 1 << 14
"""About the bytes of a column of a batch, at least: with fewer, a step costs more than the values."""
_LEAST_VALUE_BYTES = 12
"""What a value takes in memory at least, about: those that a dictionary replaces take almost nothing in the file."""
_MOST_HELD = 0.25
"""The part of the rows of a row group up to which the columns that decide are kept, not read twice."""
_SMALL_BYTES = 1 << 17
"""Columns of a row group that take no more in the file are read together."""
Keep = Callable[[pa.RecordBatch], Booleans]


class OpenBaseFile(ABC):
    """An open base file of a split, in any format; a context manager.

    Its rows are in row groups, one or more, which are read one at a time. A format without statistics leaves the
    methods about them as they are here.
    """

    stored_as = StoredAs.PARQUET
    """The format of the values, which says how they are converted to other types."""

    def __init__(self, split: RealtimeFileSplit, path: str, arrow_schema: pa.Schema, rows: Sequence[int]) -> None:
        """A base file with the numbers of ``rows`` of its row groups.

        The metadata of ``arrow_schema`` are the facts that Hudi's writer adds, such as the key range and Bloom filter.
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
        """Close the file."""

    @abstractmethod
    def batches(
        self, row_group: int, columns: Sequence[str], rows_per_batch: int, then: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one row group, in top-level columns of the file, as stored.

        Those columns of the row group that is read ``then`` may be fetched meanwhile.

        Raises:
            CorruptBaseFileError: the data cannot be decoded.
        """

    @abstractmethod
    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:
        """The stored size of some top-level columns in a row group."""

    @abstractmethod
    def leaf_bytes(self, row_group: int, columns: Iterable[str]) -> Iterable[int]:
        """The size without compression of each leaf of some top-level columns in a row group, as far as it is known."""

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
        """Whether columns are fetched as a whole before they are decoded."""
        return False

    @property
    def parquet_footer(self) -> pq.FileMetaData | None:
        """The footer, if the file is Parquet and has all columns, so that engines may read it in place."""
        return None

    def matching_row_groups(self, row_filter: pc.Expression, schema: pa.Schema) -> list[int]:  # noqa: ARG002 - of formats with statistics
        """The row groups that may hold rows passing a filter, by their statistics.

        ``schema`` holds the columns that the filter refers to; they must come from the file or from the partition path.
        """
        return list(self.row_groups)

    def ranges(self, column: str) -> Sequence[Range | bool]:  # noqa: ARG002 - of formats with statistics
        """The range of a column of the query in each row group, False where it is not known."""
        return [False] * len(self.row_groups)

    def text_range(self, row_group: int, column: str) -> tuple[str, str] | None:  # noqa: ARG002 - of formats with statistics
        """The least and greatest text of a top-level column in a row group; None if its statistics do not tell."""
        return None

    def view(self, columns: Iterable[str], *, are_held: bool = False) -> "BaseFileColumns":
        """Some of the query's columns of the file; ``are_held`` if all rows that pass are held in the end."""
        return BaseFileColumns(self, self._split, tuple(columns), are_held=are_held)


class BaseFileColumns:
    """Some of the query's columns of a base file, in the order given and with the query's types."""

    def __init__(
        self, base: OpenBaseFile, split: RealtimeFileSplit, columns: tuple[str, ...], *, are_held: bool
    ) -> None:
        context = split.context
        self.schema = pa.schema([context.schema.field(name) for name in columns])
        self._base = base
        self._split = split
        self._filter_view: BaseFileColumns | None = None
        self._following: dict[int, int] = {}
        self._batch_bytes = _HELD_BATCH_BYTES if are_held else _BATCH_BYTES
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

    def matching_row_groups(self, request: RowRequest) -> list[int]:
        """The row groups that may hold rows passing the filter, as far as statistics tell.

        Positions in a filter are those of the table's schema; Arrow would look them up in the file's.
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
        """The row groups by the ranges of columns, which take NaN and wider types into account, as Arrow does not."""
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
        """Tell the order in which row groups are going to be read."""
        self._following = dict(pairwise(row_groups))

    @property
    def file_columns(self) -> tuple[str, ...]:
        """The columns of the file that the stored batches have."""
        return self._evolution.file_columns

    def has_columns_of(self, other: "BaseFileColumns") -> bool:
        """Whether the stored batches have all the file columns that ``other`` needs."""
        return set(other._evolution.file_columns).issubset(self._evolution.file_columns)  # noqa: SLF001 - of this class

    def passing(
        self, stored: pa.RecordBatch, request: RowRequest, without: Positions | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The stored rows that pass the request's filter, with its columns, as one batch or none.

        The rows at the positions ``without`` are dropped. All rows are dropped before the columns are evolved.
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
        """The rows of one row group.

        Raises:
            CorruptBaseFileError: the data cannot be decoded.
        """
        return map(self.evolve, self.stored_batches(row_group, rows_per_batch))

    def rows_per_batch(self, row_group: int, columns: Iterable[str]) -> int:
        """The number of rows of which some of the file's top-level columns take a few megabytes at most, about."""
        rows = max(1, self.rows_of(row_group))
        leaves = self._base.leaf_bytes(row_group, columns)
        widths = [max(_LEAST_VALUE_BYTES, size // rows) for size in leaves]
        size = max(self._batch_bytes, len(widths) * _COLUMN_BYTES)
        return min(ROWS_PER_BATCH, max(_FEWEST_ROWS, size // max(1, sum(widths))))

    def rows_of(self, row_group: int) -> int:
        """The number of rows of a row group."""
        return self._base.rows_of(row_group)

    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:
        """The bytes of top-level columns of a row group in the file."""
        return self._base.stored_bytes(row_group, columns)

    def stored_batches(
        self, row_group: int, rows_per_batch: int | None = None, columns: tuple[str, ...] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one row group as stored; drop what is not needed before ``evolve``.

        ``columns`` are top-level columns of the file, by default ``file_columns``. By default, a batch takes a few
        megabytes.

        Raises:
            CorruptBaseFileError: the data cannot be decoded, or the number of rows is not that of the footer.
        """
        names = self._evolution.file_columns if columns is None else columns
        expected, rows = self.rows_of(row_group), 0
        most_rows = self.rows_per_batch(row_group, names) if rows_per_batch is None else rows_per_batch
        for batch in self._base.batches(row_group, names, most_rows, self._following.get(row_group)):
            rows += batch.num_rows
            yield batch
        # A damaged page may end a column early without an error.
        if rows != expected:
            found = f"{rows} rows in row group {row_group}"
            raise CorruptBaseFileError(self._base.path, None, found, f"{expected}, as the footer says")

    def evolve(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        """Converts stored rows to the query's columns."""
        rows = self._plain.without_dictionaries(stored.select(list(self._evolution.file_columns)))
        return with_path_columns(self._evolution.apply(rows), self.schema, self._split)


class PlainColumns:
    """Gives these columns as plain text. Batches of which all rows have the same text share it."""

    def __init__(self) -> None:
        self._repeated: dict[str, tuple[str, Any]] = {}

    def without_dictionaries(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows, with these columns as plain text."""
        for position, field in enumerate(stored.schema):
            if _is_read_as_dictionary(field):
                column = self._plain(field.name, stored.column(position))
                stored = stored.set_column(position, _decoded_field(field), column)
        return stored

    def _plain(self, name: str, column: Any) -> Any:  # noqa: ANN401 - an array with a dictionary
        if len(column.dictionary) != 1 or column.null_count or not column.dictionary[0].is_valid:
            return column.dictionary_decode()
        text = column.dictionary[0].as_py()
        # Other threads may put other arrays there.
        known, repeated = self._repeated.get(name, (None, ()))
        if known != text or len(repeated) < len(column):
            repeated = pa.repeat(column.dictionary[0], len(column))
            self._repeated[name] = text, repeated
        return repeated[: len(column)]


def decoded_schema(stored: pa.Schema) -> pa.Schema:
    """The schema with plain text."""
    # The metadata, which may hold a bloom filter of a megabyte, are shared: a new schema would take copies of them.
    for position, field in enumerate(stored):
        if _is_read_as_dictionary(field):
            stored = stored.set(position, _decoded_field(field))
    return stored


def _decoded_field(field: Any) -> Any:  # noqa: ANN401 - of any type
    return field.with_type(field.type.value_type)


def _is_read_as_dictionary(field: Any) -> bool:  # noqa: ANN401 - of any type
    return field.name in DICTIONARY_COLUMNS and pa.types.is_dictionary(field.type)


def require_meta_columns(base: OpenBaseFile, split: RealtimeFileSplit, columns: Iterable[str]) -> None:
    """Checks that a file has the meta columns that tell which rows are returned; warns of others, which are null.

    Hudi fails without keys to merge by. Of ranges, 1.x returns the rows that logs alone tell, and 0.x fails.

    Raises:
        CorruptBaseFileError: a column is missing that decides on rows.
    """
    context = split.context
    missing = set(META_COLUMNS).difference(base.arrow_schema.names) if context.populates_meta_fields else None
    if not missing:
        return
    merges = context.merge_rule is not None and bool(split.log_paths)
    deciding = {RECORD_KEY_COLUMN} if merges else set()
    if context.commit_times is not None:
        deciding.add(COMMIT_TIME_COLUMN)
    if lost := sorted(missing & deciding):
        expected = "the meta columns, as hoodie.populate.meta.fields is true"
        raise CorruptBaseFileError(base.path, None, f"no column {', '.join(lost)}", expected)
    if nulls := sorted(missing.intersection(columns)):
        warn_of_missing_meta_columns(context.table_path, base.path, nulls)


def _may_hold_nan(kind: pa.DataType) -> bool:
    """Whether values of the type may be NaN, which statistics leave out."""
    if pa.types.is_nested(kind):
        return any(_may_hold_nan(kind.field(position).type) for position in range(kind.num_fields))
    return pa.types.is_floating(kind)


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
