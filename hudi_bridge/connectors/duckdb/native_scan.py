"""A snapshot in DuckDB: its own scan of base files, and beside it what logs change.

``NativeScan`` says which base files DuckDB scans, and by which SQL. ``MergedRows`` has the positions of rows to leave
out of the scan, and the rows to add.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.threads import iter_parallel, map_in_threads, most_at_once
from hudi_bridge.config import QueryType
from hudi_bridge.connectors.duckdb.base_files import (
    BaseFileColumns,
    NotByDuckDBError,
    PathValues,
    columns_of,
    expressions,
    read_parquet,
    stored_types,
    types_of,
)
from hudi_bridge.connectors.duckdb.dialect import quote_identifier
from hudi_bridge.connectors.duckdb.file_system import Errors, TableFiles
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.engines import MergedSlices, context_identity, slice_delta_in
from hudi_bridge.errors import HudiReadError
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.split_reader import open_reader_in
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

MOST_SLICES = 2_000
"""With more, opening each base file to see its columns would take longer than many queries."""

FILE, ROW = "__hudi_file", "__hudi_row"
"""The columns that tell rows of the scan apart: a number for the base file, and the position in it, from 0."""

_THREADS = 16
_UNREADABLE = NotByDuckDBError("its base file cannot be read")
_PATTERN_SIGNS = "*?[\\"
"""DuckDB takes a path with one of these for a pattern, which more files may match later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewPlan:
    """How the rows of a view are read.

    ``by_duckdb`` slices have a base file that DuckDB scans itself, or none at all; ``by_hudi_bridge`` counts the other
    slices by the reason why their rows are read by hudi-bridge. With a reason for the whole view, slices are not
    counted. ``merged`` of the slices have log files.

    Part of ``Attached``.
    """

    by_duckdb: int
    by_hudi_bridge: Mapping[str, int]
    merged: int
    reason: str | None = None

    @property
    def is_native(self) -> bool:
        """Whether DuckDB scans all base files itself."""
        return self.reason is None and not self.by_hudi_bridge


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeScan:
    """The base files that DuckDB scans.

    ``sql`` selects the columns of the query, ``FILE`` and ``ROW``; it is None if there are no such files.
    ``file_numbers`` has the values of ``FILE`` by path. ``path_columns`` are those whose values come from the partition
    path in all files, ``constant_columns`` those of them that have one value.
    """

    plan: ViewPlan
    splits: tuple[RealtimeFileSplit, ...]
    sql: str | None
    file_numbers: Mapping[str, int]
    path_columns: frozenset[str]
    constant_columns: frozenset[str]

    def reads(self, split: RealtimeFileSplit) -> bool:
        """Whether DuckDB scans the base file of a slice, or the slice has none."""
        return split.base_path is None or split.base_path in self.file_numbers


@dataclass
class NativeScanPlanner:
    """Plans scans. What was read of a base file is cached for later plans, such as that after ``refresh``."""

    connection: duckdb.DuckDBPyConnection
    storage: Storage
    errors: Errors
    _files: TableFiles | None = None
    _cached: dict[tuple[str, Hashable], BaseFileColumns | NotByDuckDBError] = field(default_factory=dict)

    def plan(self, dataset: HudiDataset) -> NativeScan:
        """The scan of a snapshot or read-optimized query, as far as DuckDB reads base files as Hudi does."""
        if (reason := self._reason_against_all(dataset)) is not None:
            return _by_hudi_bridge(reason)
        splits = [file_slice for split in islice(dataset.splits(), MOST_SLICES + 1) for file_slice in split.slices]
        if len(splits) > MOST_SLICES:
            return _by_hudi_bridge(f"there are more than {MOST_SLICES:,} file slices")
        return self._scan(dataset, splits)

    def location(self, path: str) -> str:
        """The name of a base file for DuckDB."""
        return self.storage.resolve(path) if self._files is None else self._files.url(path)

    def close(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Takes the file system of the scans from a connection, which may be another cursor of the planner's."""
        if self._files is not None:
            connection.unregister_filesystem(self._files.protocol)
            self._files = None

    def _open_files(self, splits: Sequence[RealtimeFileSplit]) -> None:
        """Gives DuckDB the base files that are not on this machine."""
        if self.storage.is_local:
            return
        sizes = {split.base_path: split.base_size_bytes for split in splits if split.base_path is not None}
        if self._files is None:
            self._files = TableFiles(self.storage, sizes, self.errors)
            self.connection.register_filesystem(self._files)
        self._files.sizes |= sizes

    def _reason_against_all(self, dataset: HudiDataset) -> str | None:
        names = [name.lower() for name in dataset.schema.names]
        if len(set(names)) < len(names):
            return "names of columns differ in nothing but case"
        if not {FILE, ROW}.isdisjoint(names):
            return f"a column has the name {FILE} or {ROW}"
        if dataset.context.completion_times is not None:
            return "rows have completion times, which no file has"
        return None

    def _scan(self, dataset: HudiDataset, splits: list[RealtimeFileSplit]) -> NativeScan:
        reasons: Counter[str] = Counter()
        with_base = [split for split in splits if split.base_path is not None]
        self._open_files(with_base)
        numbers: dict[str, int] = {}
        for base_path, number in self._file_numbers([split.base_path or "" for split in with_base]).items():
            if isinstance(number, NotByDuckDBError):
                reasons[str(number)] += 1
            else:
                numbers[base_path] = number
        if len(set(numbers.values())) < len(numbers):
            return _by_hudi_bridge("two of its files have one number")
        with_base = [split for split in with_base if split.base_path in numbers]
        columns_by_file = self._columns_of(dataset, with_base)
        groups: defaultdict[BaseFileColumns, list[tuple[int, RealtimeFileSplit]]] = defaultdict(list)
        for split, columns in zip(with_base, columns_by_file, strict=True):
            if isinstance(columns, NotByDuckDBError):
                reasons[str(columns)] += 1
            else:
                groups[columns].append((columns.rows, split))
        selects, scanned, path_columns = [], [], set(dataset.schema.names)
        for columns, counted in groups.items():
            group = _typical_first(counted)
            try:
                selects.append(self._select(dataset, columns, group))
            except NotByDuckDBError as reason:
                reasons[str(reason)] += len(group)
                continue
            scanned += group
            path_columns &= columns.from_path
        without_base = [split for split in splits if split.base_path is None]
        native = (*scanned, *without_base)
        merged = sum(bool(split.log_paths) for split in splits)
        return NativeScan(
            plan=ViewPlan(by_duckdb=len(native), by_hudi_bridge=dict(reasons), merged=merged),
            splits=tuple(splits),
            sql=" UNION ALL ".join(selects) or None,
            file_numbers={path: numbers[path] for split in scanned if (path := split.base_path) is not None},
            path_columns=frozenset(path_columns) if scanned else frozenset(),
            constant_columns=frozenset(name for name in path_columns if _is_constant(name, scanned)),
        )

    def _columns_of(
        self, dataset: HudiDataset, splits: list[RealtimeFileSplit]
    ) -> list[BaseFileColumns | NotByDuckDBError]:
        """The columns of each base file, or the reason why DuckDB cannot read it; opens files that are not known."""
        # What differs between a snapshot and its read-optimized query does not concern base files, as a rule.
        query = context_identity(replace(dataset.context, query_type=QueryType.READ_OPTIMIZED, merge_rule=None))
        keys = [(query, (split.base_path, split.base_size_bytes, split.partition_values)) for split in splits]
        cached = {key: self._cached[key] for key in keys if key in self._cached}
        unknown = [(key, split) for key, split in zip(keys, splits, strict=True) if key not in cached]
        looked_up = map_in_threads(lambda item: self._look(item[1]), unknown, _THREADS)
        cached.update(zip((key for key, _ in unknown), looked_up, strict=True))
        others = {key: value for key, value in self._cached.items() if key[0] != query}
        # A file that could not be read may be read the next time.
        self._cached = others | {key: value for key, value in cached.items() if value is not _UNREADABLE}
        return [cached[key] for key in keys]

    def _look(self, split: RealtimeFileSplit) -> BaseFileColumns | NotByDuckDBError:
        try:
            with slice_delta_in(self.storage, split, ()) as delta:
                assert delta.base_file is not None, "only slices with a base file are looked at"
                return columns_of(split, delta.base_file)
        except NotByDuckDBError as reason:
            return reason.with_traceback(None)
        except HudiReadError:
            # A query that needs the file raises the error.
            return _UNREADABLE

    def _select(self, dataset: HudiDataset, columns: BaseFileColumns, splits: list[RealtimeFileSplit]) -> str:
        paths = [self.location(split.base_path or "") for split in splits]
        path_values: dict[str, PathValues] = defaultdict(PathValues)
        for split, path in zip(splits, paths, strict=True):
            for name, value in split.partition_values:
                if name in columns.from_path:
                    path_values[name].add(path, value)
        types = types_of(self.connection.from_arrow(dataset.schema.empty_table()))
        selected = expressions(
            columns,
            stored_types(self.connection, paths[0]),
            types,
            dataset.schema,
            path_values,
            dataset.context.float_widening,
        )
        items = [f"{value} AS {quote_identifier(name)}" for name, value in selected.items()]
        items += [f"hash(filename) AS {FILE}", f"file_row_number AS {ROW}"]
        return f"SELECT {', '.join(items)} FROM {read_parquet(paths)}"

    def _file_numbers(self, paths: Sequence[str]) -> dict[str, int | NotByDuckDBError]:
        """For each base file a number that DuckDB can find for each row without comparing paths, or a reason.

        The reason is that DuckDB would not name the file as it is told to.
        """
        names = {path: self.location(path) for path in paths}
        plain = [name for name in names.values() if not any(sign in name for sign in _PATTERN_SIGNS)]
        is_pattern = NotByDuckDBError("its path has a sign of patterns")
        is_missing = NotByDuckDBError("DuckDB does not find its base file, or has another name for it")
        numbers: dict[str, int | NotByDuckDBError] = dict.fromkeys(names.values(), is_pattern)
        numbers.update(dict.fromkeys(plain, is_missing))
        try:
            numbers.update(self._hashes_of_files(plain))
        except duckdb.Error:
            # One of the names is to blame.
            for name in plain:
                try:
                    numbers.update(self._hashes_of_files([name]))
                except duckdb.Error as error:
                    numbers[name] = NotByDuckDBError.of(error, name)
        return {path: numbers[name] for path, name in names.items()}

    def _hashes_of_files(self, names: Sequence[str]) -> list[tuple[str, int]]:
        """The files that DuckDB finds by names, as it calls them, with a hash of the name."""
        return self.connection.execute("SELECT file, hash(file) FROM glob($names)", {"names": names}).fetchall()


def _typical_first(counted: Sequence[tuple[int, RealtimeFileSplit]]) -> list[RealtimeFileSplit]:
    """The slices, with the one whose number of rows is nearest to the average first.

    DuckDB assumes that each file has as many rows as the first, to estimate what joins will cost.
    """
    average = sum(rows for rows, _ in counted) / len(counted)
    first = min(counted, key=lambda item: abs(item[0] - average))
    return [first[1], *(split for _, split in counted if split is not first[1])]


def _is_constant(name: str, splits: Sequence[RealtimeFileSplit]) -> bool:
    return len({dict(split.partition_values)[name] for split in splits}) == 1


def _by_hudi_bridge(reason: str) -> NativeScan:
    plan = ViewPlan(by_duckdb=0, by_hudi_bridge={}, merged=0, reason=reason)
    return NativeScan(
        plan=plan, splits=(), sql=None, file_numbers={}, path_columns=frozenset(), constant_columns=frozenset()
    )


FILE_NUMBER, POSITION = "__hudi_gone_file", "__hudi_gone_row"


class MergedRows:
    """The rows that are not in the scan, and the positions of rows in the scan that are gone; read for each query.

    Log files are merged once, with the columns of the first query that needs them. DuckDB asks for rows and positions
    in two threads. Where positions come first in the first query, nothing tells its columns yet, and all are merged.
    """

    def __init__(self, storage: Storage, dataset: HudiDataset, scan: NativeScan, merges: MergedSlices) -> None:
        self._storage = storage
        self._dataset = dataset
        self._scan = scan
        self._merges = merges
        self._asked: Sequence[str] = dataset.schema.names
        self._merged = tuple(split for split in scan.splits if split.log_paths and scan.reads(split))
        self._has_rows = bool(self._merged) or not all(map(scan.reads, scan.splits))

    @property
    def has_rows(self) -> bool:
        """Whether there may be rows that are not in the scan."""
        return self._has_rows

    @property
    def has_positions(self) -> bool:
        """Whether there may be rows in the scan that are gone."""
        return any(split.base_path is not None for split in self._merged)

    @property
    def positions_schema(self) -> pa.Schema:
        """The file number, the position, and the columns of the partition path by which slices can be chosen."""
        fields = [self._dataset.schema.field(name) for name in self.path_columns]
        return pa.schema([pa.field(FILE_NUMBER, pa.uint64()), pa.field(POSITION, pa.int64()), *fields])

    @property
    def path_columns(self) -> tuple[str, ...]:
        """The columns of the partition path that are equal, and not null, in a row and in its position.

        Columns with one value in all slices are left out: by a condition on them, DuckDB reads all positions or none.
        """
        values = [dict(split.partition_values) for split in self._merged]
        return tuple(
            name
            for name in self._dataset.schema.names
            if name in self._scan.path_columns - self._scan.constant_columns
            and all(name in values_of_file and values_of_file[name].is_valid for values_of_file in values)
        )

    def announce(self, columns: Sequence[str]) -> None:
        """Says which columns of the rows a query needs."""
        self._asked = columns

    def rows(self, columns: Sequence[str], row_filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        """The rows that pass a condition and are not in the scan."""
        request = RowRequest.of(self._dataset.schema, columns, row_filter)
        # The logs of a slice are merged for its positions in any case.
        splits = [
            file_slice
            for split in self._dataset.splits(row_filter, use_indexes=False)
            for file_slice in split.slices
            if file_slice.log_paths or not self._scan.reads(file_slice)
        ]
        at_once = most_at_once(len(splits))
        yield from iter_parallel([partial(self._rows_of, split, request, at_once) for split in splits])

    def positions(self, columns: Sequence[str], row_filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        """The positions of rows in the scan that are gone, in the slices that pass a condition on the path."""
        schema = self.positions_schema
        request = RowRequest.of(schema, columns, row_filter)
        splits = [split for split in self._merged if split.base_path is not None]
        yield from iter_parallel([partial(self._positions_of, split, schema, request) for split in splits])

    def _rows_of(self, split: RealtimeFileSplit, request: RowRequest, at_once: int) -> Iterator[pa.RecordBatch]:
        if not self._scan.reads(split):
            reader = open_reader_in(
                self._storage, split, request.columns, request.row_filter, use_threads=at_once == 1, at_once=at_once
            )
            yield from reader.batches()
            return
        for batch in self._merges.rows(split, request.needed):
            yield request.apply(batch)

    def _positions_of(
        self, split: RealtimeFileSplit, schema: pa.Schema, request: RowRequest
    ) -> Iterator[pa.RecordBatch]:
        path_row = _path_row(split, schema.names[2:], schema)
        of_filter = list(request.filter_columns)
        is_by_path = of_filter and set(of_filter) <= set(path_row.schema.names)
        if is_by_path and not request.passes(path_row.select(of_filter))[0]:
            return
        positions = self._merges.deleted_positions(split, self._asked)
        number = pa.scalar(self._scan.file_numbers[split.base_path or ""], pa.uint64())
        columns = [pa.repeat(number, len(positions)), pa.array(positions, pa.int64())]
        columns += [pa.repeat(path_row.column(name)[0], len(positions)) for name in path_row.schema.names]
        yield request.apply(pa.record_batch(columns, schema=schema))


def _path_row(split: RealtimeFileSplit, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    """One row with the values of some columns of the partition path."""
    values = dict(split.partition_values)
    fields = [schema.field(name) for name in names]
    columns = [pa.array([values[field.name]], field.type) for field in fields]
    return pa.record_batch(columns, schema=pa.schema(fields))
