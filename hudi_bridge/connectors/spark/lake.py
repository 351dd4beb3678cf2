"""All tables of a folder, of a database of a catalog, or of a catalog, as temporary views of a Spark session.

    ROOT/trips            trips
    ROOT/sales/orders     sales__orders

    trips_ro              read optimized: base files alone
    trips__at_TIME        as of an instant, in any format that Hudi accepts; trips_ro__at_TIME likewise
    trips_incremental     with ``after``: the rows that a range of commits wrote
    trips_changes         with ``after``: the changes of records in that range
    trips_changes__after_TIME__up_to_TIME      with the range in the name; the end may be left out
    trips_timeline        the instants of the active timeline
    trips_commits         the same, with what completed commits have done
    trips_file_slices     the file slices of the snapshot; trips_file_slices__at_TIME those as of an instant
    trips_files           the base and log files of the snapshot; trips_files__at_TIME likewise
    trips_log_blocks      and others of ``hudi_bridge.inspection.VIEWS``, once a statement of ``Lake.sql`` names them

Names may also be those of ``connectors.lakes.tables``. Views of names with an instant are made when a statement of
``Lake.sql`` has them.

A view is a lazy DataFrame of two steps: a Spark task plans the query, and others read. One task is enough for metadata.
A data source in Python would need a process for each view, to say which columns it has, and PySpark 3.5 has none.
"""

import logging
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from hudi_bridge.catalogs.uris import is_catalog_uri, open_namespace
from hudi_bridge.changes.split import ChangeFormat
from hudi_bridge.common.display import html_of_properties
from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_while_waiting
from hudi_bridge.config import QueryType
from hudi_bridge.connectors.lakes.roots import Roots, is_table
from hudi_bridge.connectors.lakes.tables import (
    DEFAULT_NAMESPACE,
    CatalogTables,
    Namespace,
    TablesByName,
    parse_table_name,
)
from hudi_bridge.connectors.spark.errors import noting_error_details
from hudi_bridge.connectors.spark.frames import read
from hudi_bridge.connectors.spark.jobs import quoted, read_task
from hudi_bridge.connectors.spark.options import (
    AS_OF,
    BEGIN,
    END,
    INCREMENTAL_FORMAT,
    SparkQuery,
    parse_options,
    settings_of_tables,
)
from hudi_bridge.connectors.spark.plan import PinnedQuery
from hudi_bridge.connectors.spark.sessions import (
    dropping_zip_importers,
    on_workers,
    parallelism_of,
    require_same_python,
    runs_locally,
)
from hudi_bridge.connectors.spark.types import arrow_layout, in_layout, spark_schema
from hudi_bridge.errors import HudiReadError, QueryError, TableNotFoundError
from hudi_bridge.inspection import VIEWS
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.options import QUERY_TYPE_KEY, with_query_type
from hudi_bridge.storage.storage import PathLike, Storage, StorageOptions, path_text
from hudi_bridge.table import HudiTable

_LOG = logging.getLogger(__name__)

READ_OPTIMIZED, INCREMENTAL, CHANGES = "_ro", "_incremental", "_changes"
"""Suffixes of the names of views, as in DuckDB."""
_RANGE = re.compile(
    rf"_?(?P<kind>{INCREMENTAL}|{CHANGES})(?:__after_(?P<after>.+?)(?:__up_to_(?P<up_to>.+))?)?",
    re.DOTALL | re.IGNORECASE,
)
_OF_TABLE, _OF_INSTANT = (
    "|".join(suffix for suffix, view in VIEWS.items() if view.has_instants is has_instants)
    for has_instants in (False, True)
)
_METADATA = re.compile(
    rf"_?(?:(?P<table>{_OF_TABLE})|(?P<instant>{_OF_INSTANT})(?P<at>(?:__at_|@).+)?)", re.DOTALL | re.IGNORECASE
)
_WORD = re.compile(r"`((?:[^`]|``)+)`|(\w+)")


def attach_all(
    spark: SparkSession,
    root: PathLike,
    prefix: str = "",
    *,
    options: Mapping[str, str] | None = None,
    payloads: Mapping[str, RecordPayload] | None = None,
    log_memory_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
    as_of: str | None = None,
    after: str | None = None,
    up_to: str | None = None,
) -> "Lake":
    """Makes temporary views of all tables below a folder or in a catalog. Tables are opened; no files of theirs listed.

    ``root`` is the path or URI of a folder, or the URI of a database such as ``hive://metastore:9083/sales``, or of a
    whole catalog. Views have the names of the tables after ``prefix``, with ``__`` between the levels of a namespace.
    Temporary views of these names are replaced. ``options``, ``payloads``, ``log_memory_bytes`` and ``storage_options``
    are those of ``read``, for all tables. All views of a table show it as of ``as_of`` or, without it, as of its newest
    instant at the time of this call, until ``Lake.refresh``. With ``after``, and optionally ``up_to``, there are also
    views of that range of commits.

    A table that cannot be opened gets no view; ``Lake.failed`` has the reason.

    Raises:
        QueryError: a table of the session has one of the names, the folder is itself a table, an option is unknown or
            refused, or local workers run another version of Python.
        TableNotFoundError: there is no such folder or database.
        StorageError: the store or the catalog does not answer.
    """
    given = settings_of_tables(options, log_memory_bytes, storage_options)
    if up_to is not None and after is None:
        raise QueryError("up_to", repr(up_to), "an after as well, where the range begins")
    bounds = {} if after is None else {BEGIN: after} | ({} if up_to is None else {END: up_to})
    if runs_locally(spark):
        require_same_python(spark)
    tables, namespace = _open(path_text(root), storage_options)
    settings = LakeSettings(options=given, payloads=payloads or {}, as_of=as_of, bounds=bounds)
    return Lake(spark, tables, namespace, prefix, settings)


def _open(root: str, storage_options: StorageOptions | None) -> tuple[TablesByName, Namespace]:
    if is_catalog_uri(root):
        catalog, namespace = open_namespace(root)
        tables = CatalogTables(catalog, storage_options)
        if namespace and not tables.has_namespace(namespace):
            raise TableNotFoundError(catalog.shown_uri, f"there is no database {'.'.join(namespace)!r}")
        return tables, namespace
    folder = Storage.open(root, options=storage_options)
    if not folder.exists(""):
        raise TableNotFoundError(folder.shown_path, "there is no such folder")
    if is_table(folder):
        raise QueryError("root", f"the table {folder.shown_path}", "a folder of tables; read takes a table")
    return Roots(folders=(folder,), tables={}), ()


Location = tuple[Namespace, str]
"""Where a table is: its namespace and its name there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSettings:
    """What all tables are read with. ``bounds`` are the options of the range of commits, if there is one."""

    options: Mapping[str, str]
    payloads: Mapping[str, RecordPayload] = field(repr=False)
    as_of: str | None
    bounds: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """A view by its name in Spark: a table, the options that choose the query, and the kind of metadata, if any."""

    name: str
    location: Location
    query: Mapping[str, str]
    metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A table at the instant that its views show."""

    table: HudiTable
    path: str
    query_type: QueryType


class Lake:
    """Hudi tables as temporary views of a Spark session, as returned by ``attach_all``."""

    def __init__(
        self,
        spark: SparkSession,
        tables: TablesByName,
        namespace: Namespace,
        prefix: str,
        settings: LakeSettings,
    ) -> None:
        """Makes the views; raises like ``attach_all``."""
        self.spark = spark
        self._lookup = tables
        self._namespace = namespace
        self._prefix = prefix
        self._settings = settings
        self._locations: dict[str, list[Location]] = {}
        self._opened: dict[Location, _Opened] = {}
        self._views: dict[str, _View] = {}
        self._failed: dict[str, Exception] = {}
        self.refresh()

    def __repr__(self) -> str:
        return f"<Lake: {len(self._views)} views of {len(self._locations)} tables>"

    def _repr_html_(self) -> str:
        return html_of_properties("Lake", (("tables", self.tables()), ("views", self.names)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the views that there are."""
        return tuple(sorted(view.name for view in self._views.values()))

    @property
    def failed(self) -> dict[str, Exception]:
        """Why there is no view of a name, or no list of a folder, by name."""
        return dict(self._failed)

    def tables(self) -> list[str]:
        """The names of the views of all tables that there are, also of those that could not be opened."""
        return sorted(self._name(location) for locations in self._locations.values() for location in locations)

    def paths(self) -> dict[str, str]:
        """The path or URI of each table that could be opened, by the name of its view."""
        return {self._name(location): opened.path for location, opened in self._opened.items()}

    def refresh(self) -> None:
        """Lists the tables again, and makes all views anew: they show the newest instant from then on.

        Raises:
            QueryError: a table of the session has one of the names.
        """
        again = tuple(self._views.values())
        self._opened, self._locations, self._failed = {}, {}, {}
        for location in self._iter_locations():
            self._locations.setdefault(self._name(location).lower(), []).append(location)
        views = {view.name.lower(): view for name in self._locations for view in self._standing_views(name)}
        self._refuse_tables(views)
        self.detach()
        map_while_waiting(self._try_to_open, [*{view.location for view in views.values()}], REQUESTS_AT_ONCE)
        for view in (*views.values(), *again):
            if view.location in self._opened and view.name.lower() not in self._views:
                self._try_to_make(view)

    def detach(self) -> None:
        """Removes the views."""
        for view in self._views.values():
            self.spark.catalog.dropTempView(view.name)
        self._views.clear()

    def attach(self, name: str) -> DataFrame:
        """Makes the view of a name such as ``trips__at_20260131080000``, if there is none, and returns its rows.

        Raises:
            QueryError: no table has this name, or more than one.
            HudiReadError: the table cannot be opened.
        """
        view = self._views.get(name.lower()) or self._view_of(name)
        if view is None:
            raise self._no_view(name)
        if view.name.lower() not in self._views:
            self._make(view)
        return self.spark.table(quoted(view.name))

    def read(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002 - as ``read`` calls it
        *,
        meta_columns: bool = True,
    ) -> DataFrame:
        """What the view of a name shows, by ``read``: Spark scans the base files, and logs are merged at once.

        Raises:
            QueryError: no table has this name, or more than one; or as for ``read``.
            HudiReadError: the table cannot be read.
        """
        view = self._view_of(name)
        if view is None:
            raise self._no_view(name)
        opened = self._open(view.location)
        if view.metadata is not None:
            rows = self._rows(view)
            rows = rows if filter is None else rows.where(filter)
            return rows if columns is None else rows.select([col(quoted(column)) for column in columns])
        return read(
            self.spark,
            opened.path,
            columns,
            filter,
            options=self._options_of(view, opened),
            payloads=self._settings.payloads,
            meta_columns=meta_columns,
        )

    def sql(self, statement: str) -> DataFrame:
        """Makes the views that a statement may name and that are missing, and returns ``spark.sql(statement)``.

        Raises:
            HudiReadError: a table of the statement cannot be opened.
            pyspark.errors.AnalysisException: the statement does not fit.
        """
        failed: list[HudiReadError | OSError] = []
        for word in {backticked.replace("``", "`") or bare for backticked, bare in _WORD.findall(statement)}:
            try:
                view = None if word.lower() in self._views else self._view_of(word)
                if view is not None:
                    self._make(view)
            except (HudiReadError, OSError) as error:
                # The word may be that of a column or of a text.
                failed.append(error)
        try:
            return self.spark.sql(statement)
        except Exception as error:
            if not failed:
                raise
            raise failed[0] from error

    def _iter_locations(self) -> Iterator[Location]:
        """All tables; those of a database are in its namespace."""
        if self._namespace:
            yield from ((self._namespace, name) for name in self._lookup.table_names(self._namespace))
        else:
            yield from self._lookup.walk(self._note_failure)

    def _note_failure(self, name: str, error: Exception) -> None:
        _LOG.warning("%s has no view: %s", ascii(name), error)
        self._failed[name] = error

    def _no_view(self, name: str) -> QueryError:
        return QueryError(
            "name", repr(name), f"a name of {', '.join(self.tables()) or 'a table, of which there are none'}"
        )

    def _name(self, location: Location) -> str:
        namespace, table = location
        levels = () if namespace == DEFAULT_NAMESPACE else namespace[len(self._namespace) :]
        return self._prefix + "__".join((*levels, table))

    def _standing_views(self, name: str) -> Iterator[_View]:
        """The views of a table that need no instant in their name."""
        of_range = (INCREMENTAL, CHANGES) if self._settings.bounds else ()
        usual = (suffix for suffix, metadata in VIEWS.items() if metadata.is_usual)
        for suffix in ("", READ_OPTIMIZED, *of_range, *usual):
            try:
                # The name with a suffix may be that of another table.
                view = self._view_of(name + suffix)
            except QueryError as error:
                self._note_failure(name + suffix, error)
            else:
                if view is not None:
                    yield view

    def _view_of(self, word: str) -> _View | None:
        """The view that a name stands for, by the longest name of a table that it begins with."""
        key = word.lower()
        for name in sorted(filter(key.startswith, self._locations), key=len, reverse=True):
            # A small letter may take more characters than its capital.
            suffix = word[len(word) - len(key) + len(name) :]
            of_metadata = _METADATA.fullmatch(suffix)
            query = self._query(suffix if of_metadata is None else of_metadata["at"] or "")
            if query is not None:
                location = self._only(name)
                metadata = None if of_metadata is None else (of_metadata["table"] or of_metadata["instant"]).lower()
                return _View(name=self._name(location) + suffix, location=location, query=query, metadata=metadata)
        return None

    def _query(self, suffix: str) -> dict[str, str] | None:
        """The options of the query that a suffix stands for; None if it is no suffix."""
        at = {} if self._settings.as_of is None else {AS_OF: self._settings.as_of}
        if suffix == "":
            return at
        in_range = _RANGE.fullmatch(suffix)
        if in_range is not None:
            given = {BEGIN: in_range["after"], END: in_range["up_to"]}
            in_name = {name: value for name, value in given.items() if value is not None}
            bounds = in_name or self._settings.bounds
            has_changes = in_range["kind"].lower() == CHANGES
            changes = {INCREMENTAL_FORMAT: ChangeFormat.ROWS.value} if has_changes else {}
            return {QUERY_TYPE_KEY: SparkQuery.INCREMENTAL.value, **changes, **bounds} if bounds else None
        is_short = suffix.lower().startswith(READ_OPTIMIZED)
        parsed = parse_table_name(f"t_{suffix}" if is_short else f"t{suffix}")
        if parsed.table != "t":
            return None
        if parsed.as_of is not None:
            at = {AS_OF: parsed.as_of}
        if parsed.query_type is QueryType.READ_OPTIMIZED:
            return at | {QUERY_TYPE_KEY: SparkQuery.READ_OPTIMIZED.value}
        return at

    def _only(self, name: str) -> Location:
        locations = self._locations[name]
        if len(locations) > 1:
            several = ", ".join(repr(".".join((*namespace, table))) for namespace, table in locations)
            raise QueryError("table", several, f"only one table that Spark may call {name}, in any case of letters")
        return locations[0]

    def _refuse_tables(self, names: Mapping[str, _View]) -> None:
        """Raises QueryError if a table of the session has one of the names, as views would hide it."""
        for row in self.spark.sql("SHOW TABLES").collect():
            if not row["isTemporary"] and row["tableName"].lower() in names:
                table = f"{row['namespace']}.{row['tableName']}"
                raise QueryError("prefix", repr(self._prefix), f"another prefix, as views would hide the table {table}")

    def _try_to_open(self, location: Location) -> None:
        try:
            self._open(location)
        except (HudiReadError, OSError) as error:
            self._note_failure(self._name(location), error)

    def _open(self, location: Location) -> _Opened:
        if location not in self._opened:
            located = self._lookup.look_up(*location)
            if located is None:
                raise TableNotFoundError(".".join((*location[0], location[1])), "there is no table of that name")
            storage = located.storage
            # Of a local table, the absolute path: workers may run in another folder.
            path = storage.root if storage.is_local else storage.table_path
            query = parse_options({**self._settings.options, "path": path})
            table = PinnedQuery.of(query, self._settings.payloads).table
            self._opened[location] = _Opened(table=table, path=path, query_type=located.query_type)
        return self._opened[location]

    def _try_to_make(self, view: _View) -> None:
        try:
            self._make(view)
        except (HudiReadError, OSError) as error:
            self._note_failure(view.name, error)

    def _make(self, view: _View) -> None:
        self._rows(view).createOrReplaceTempView(quoted(view.name))
        self._views[view.name.lower()] = view

    def _rows(self, view: _View) -> DataFrame:
        """The rows of a view, which are planned when they are asked for."""
        opened = self._open(view.location)
        if view.metadata is not None:
            return lazy_metadata(self.spark, opened.table, view.metadata, view.query.get(AS_OF))
        options = parse_options({**self._options_of(view, opened), "path": opened.path})
        return lazy_frame(self.spark, PinnedQuery(options=options, table=opened.table))

    def _options_of(self, view: _View, opened: _Opened) -> Mapping[str, str]:
        return {**with_query_type(self._settings.options, opened.query_type), **view.query}


def lazy_frame(spark: SparkSession, query: PinnedQuery) -> DataFrame:
    """The rows of a query, which one Spark task plans each time that they are asked for."""
    parallelism = parallelism_of(spark)
    tasks = _only_task(spark).mapInArrow(on_workers(partial(_plan_tasks, query, parallelism)), "task binary")
    return tasks.repartition(parallelism).mapInArrow(on_workers(_read_tasks), spark_schema(query.schema))


def lazy_metadata(spark: SparkSession, table: HudiTable, kind: str, as_of: str | None) -> DataFrame:
    """The rows of one of ``VIEWS``, which one Spark task reads each time that they are asked for."""
    describe = on_workers(partial(_describe, table, kind, as_of))
    return _only_task(spark).mapInArrow(describe, spark_schema(VIEWS[kind].schema_of(table, as_of)))


def _only_task(spark: SparkSession) -> DataFrame:
    return spark.range(0, 1, 1, 1)


def _plan_tasks(query: PinnedQuery, parallelism: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with dropping_zip_importers(), noting_error_details():
        for _ in batches:
            plan = query.plan(parallelism=parallelism)
            # Payloads may be of classes that the driver's program has in no module.
            tasks: list[bytes] = [cloudpickle.dumps((plan.reading, task)) for task in plan.tasks]  # type: ignore[no-untyped-call]
            yield pa.RecordBatch.from_arrays([pa.array(tasks, pa.binary())], ["task"])


def _read_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with dropping_zip_importers():
        for batch in batches:
            for task in batch.column(0):
                yield from read_task(*pickle.loads(task.as_py()))  # noqa: S301 - from another task of this job


def _describe(
    table: HudiTable, kind: str, as_of: str | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with dropping_zip_importers(), noting_error_details():
        for _ in batches:
            view = VIEWS[kind]
            rows = view.rows(table, as_of)
            if view.has_instants:
                table.require_files_of(table.snapshot(as_of).instant)
            yield from in_layout(iter(rows.to_batches()), arrow_layout(rows.schema))
