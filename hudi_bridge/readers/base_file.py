"""Base files: what all formats have in common, and the columns of a query in them.

Row groups are skipped by statistics only if the filter's columns have not evolved since the file was written.

Meta columns that a base file is read with as dictionaries, and their plain form, which a query returns.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, pairwise
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge.errors import CorruptBaseFileError
from hudi_bridge.merge.arrays import Booleans, Positions
from hudi_bridge.readers.column_ranges import Range, columns_with_ranges, may_pass
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.readers.split_columns import plan_file_evolution, with_path_columns, without_path_columns
from hudi_bridge.schema.evolve import Evolution, StoredAs
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN, META_COLUMNS, RECORD_KEY_COLUMN
from hudi_bridge.splits.notes import warn_of_missing_meta_columns
from hudi_bridge.splits.split import RealtimeFileSplit

# These columns hold few distinct values per file, some of them long. As dictionaries, they are cheap to filter.
DICTIONARY_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")


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


ROWS_PER_BATCH = 131_072
"""The most rows of a batch."""
_FEWEST_ROWS = 256
_BATCH_BYTES, _HELD_BATCH_BYTES = 1 << 21, 1 << 23
"""About the bytes of a batch in memory: of a stream, and where all rows are held in the end."""
_COLUMN_BYTES = 1 << 14
"""About the bytes of a column of a batch, at least: with fewer, a step costs more than the values."""
_LEAST_VALUE_BYTES = 12
"""What a value takes in memory at least, about: those that a dictionary replaces take almost nothing in the file."""


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
