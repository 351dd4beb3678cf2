"""A plugin of dbt-duckdb: Hudi tables as the sources of a dbt project.

A source is a view over a dataset that passes on columns and conditions. All models of one run see the same instant of a
table. Sources of a range, ``query: incremental`` and ``query: changes``, have two columns more:

    _hudi_after         where the range begins: every query has a condition ``_hudi_after = '...'``
    _hudi_next_after    where the next range begins: a model stores it with its rows

So the state of a model is in its own table. dbt replaces both in one transaction or neither, and ``--full-refresh``
begins anew. A query without the condition, or with one that DuckDB does not pass on, is refused: rows would be missing,
or be there twice.
"""

import weakref
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from functools import partial, wraps
from threading import Lock, local
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.catalogs.uris import uri_in_catalog
from hudi_bridge.changes.split import ChangeFormat, change_schema
from hudi_bridge.common.imports import needing_extra
from hudi_bridge.config import QueryType
from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.errors import HudiReadError, QueryError, TableNotFoundError
from hudi_bridge.readers.filters import allowed_values
from hudi_bridge.readers.request import referenced_columns
from hudi_bridge.schema.meta_columns import META_COLUMNS
from hudi_bridge.storage.masking import masked
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import EARLIEST, InstantLike

with needing_extra("dbt", "dbt", "dbt_common", "duckdb"):
    import duckdb
    from dbt.adapters.duckdb.environments.local import LocalEnvironment
    from dbt.adapters.duckdb.plugins import BasePlugin
    from dbt.adapters.duckdb.utils import SourceConfig
    from dbt_common.exceptions import DbtRuntimeError
    from dbt_common.invocation import get_invocation_id

    from hudi_bridge.connectors.duckdb.dialect import refusing_wrong_conditions
    from hudi_bridge.connectors.duckdb.file_system import Read, Source

AFTER, NEXT_AFTER = "_hudi_after", "_hudi_next_after"
_RANGES = QueryType.INCREMENTAL, QueryType.CHANGES
_QUERIES = QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED, *_RANGES
_PLACES = "path", "root", "catalog"
_OF_PLUGIN = "root", "catalog", "options", "storage_options", "meta_columns", "other_meta"
_OF_SOURCE = *_PLACES, "table", "query", "as_of", "options", "storage_options", "meta_columns"
_OF_DBT = "plugin", "materialization", "save_mode"
"""What dbt-duckdb itself reads in the settings of a source."""
_LOADING = Lock()
_VIEW = "VIEW"
"""Written in this way, dbt-duckdb leaves it to us to register what a view is over."""
_CONDITION = f"WHERE {AFTER} = '...' directly on the source, with an instant or '{EARLIEST}' as a literal"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """What the YAML of a source asks for, with the defaults of the plugin.

    ``place`` is one of path, root and catalog, ``location`` its value.
    """

    place: str
    location: str
    table: str
    query: QueryType | None
    as_of: InstantLike | None
    options: Mapping[str, str]
    storage_options: Mapping[str, Any]
    meta_columns: bool
    is_view: bool

    @classmethod
    def of(cls, source: SourceConfig, defaults: Mapping[str, Any], other_meta: Collection[str]) -> Self:
        """The settings of a source.

        Raises:
            QueryError: an option is unknown or has an invalid value, or options contradict each other.
        """
        given: dict[str, Any] = dict(source.meta)
        refuse_unknown(given, (*_OF_SOURCE, *_OF_DBT, *other_meta), "name it in other_meta of the plugin")
        places = {name: given.get(name) for name in _PLACES if given.get(name)}
        places = places or {name: defaults[name] for name in _PLACES if defaults.get(name)}
        if "path" not in places and len(places) != 1:
            raise QueryError("source", " and ".join(places) or "no place of the table", "one of path, root and catalog")
        place = "path" if "path" in places else next(iter(places))
        query = given.get("query")
        if query is not None and query not in _QUERIES:
            raise QueryError("query", repr(query), ", ".join(_QUERIES))
        if query in _RANGES and "as_of" in given:
            raise QueryError("as_of", f"it beside query: {query}", "a source of its own for another instant")
        materialization = str(given.get("materialization", _VIEW)).lower()
        if query in _RANGES and materialization != _VIEW.lower():
            raise QueryError("materialization", repr(materialization), f"view, for query: {query}")
        meta_columns = given.get("meta_columns", defaults.get("meta_columns", True))
        if not isinstance(meta_columns, bool):
            raise QueryError("meta_columns", repr(meta_columns), "true or false")
        of_source = f"{source.schema}.{source.identifier}" if place == "catalog" else source.identifier
        as_of = given.get("as_of")
        return cls(
            place=place,
            location=str(places[place]),
            table=str(given.get("table", of_source)),
            query=None if query is None else QueryType(query),
            # YAML takes an instant of digits for a number.
            as_of=as_of if as_of is None or isinstance(as_of, date) else str(as_of),
            options={name: _text(value) for name, value in _both("options", defaults, given).items()},
            storage_options=_both("storage_options", defaults, given),
            meta_columns=meta_columns,
            is_view=materialization == _VIEW.lower(),
        )

    @property
    def table_id(self) -> str:
        """A text that is the same for settings that open the same table in the same way."""
        options = sorted(self.options.items()), sorted(map(repr, self.storage_options.items()))
        return repr((self.place, self.location, "" if self.place == "path" else self.table, options))

    def open(self) -> HudiTable:
        """The table.

        Raises:
            TableNotFoundError: there is no such table.
            HudiReadError: it cannot be opened.
        """
        storage_options = self.storage_options or None
        if self.place == "root":
            storage = Roots.of([self.location], [], storage_options).find_by_name(self.table)
            if storage is None:
                where = f"{masked(self.location)}/{self.table.replace('.', '/')}"
                raise TableNotFoundError(where, "there is no table of that name")
            return HudiTable.of(storage, self.options, {})
        path = self.location if self.place == "path" else uri_in_catalog(self.location, self.table)
        return HudiTable.open(path, options=self.options, storage_options=storage_options)


def refuse_unknown(given: Iterable[str], names: Collection[str], remedy: str) -> None:
    """Raises QueryError if a name is not among the expected ones."""
    for name in given:
        if name not in names:
            similar = get_close_matches(name, names, 1)
            expected = f"{similar[0]}, perhaps; " if similar else ""
            raise QueryError(
                "option", repr(name), f"{expected}one of {', '.join(names)}; if it is not for us, {remedy}"
            )


def _both(name: str, defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping of the plugin with that of a source, whose values count."""
    values: dict[str, Any] = {}
    for settings in (defaults, given):
        mapping = settings.get(name) or {}
        if not isinstance(mapping, Mapping):
            raise QueryError(name, repr(mapping), "a mapping of names to values")
        values |= mapping
    return values


def _text(value: Any) -> str:  # noqa: ANN401 - what YAML has read
    """The value of a read option: YAML reads some as numbers and truth values."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeSource:
    """The rows or the changes of the range that the condition of a query names."""

    table: HudiTable
    query: QueryType
    columns: pa.Schema
    """Of the table or its changes, then those of the range."""

    @classmethod
    def of(cls, table: HudiTable, query: QueryType, *, meta_columns: bool) -> Self:
        """The source of a table, whose columns come before those of the range."""
        rows = table.schema if query is QueryType.INCREMENTAL else change_schema(table.schema, ChangeFormat.ROWS)
        names = [name for name in rows.names if meta_columns or name not in META_COLUMNS]
        taken = {name.lower() for name in names} & {AFTER, NEXT_AFTER}
        if taken:
            raise QueryError("table", f"a column named {min(taken)}", f"none, for query: {query}")
        added = [pa.field(name, pa.string()) for name in (AFTER, NEXT_AFTER)]
        return cls(table=table, query=query, columns=pa.schema([*map(rows.field, names), *added]))

    def read(self, names: Sequence[str], row_filter: pc.Expression | None) -> Iterable[pa.RecordBatch]:
        """Some columns of the rows that pass a condition.

        Raises:
            QueryError: the condition does not say where the range begins.
            InstantNotReadableError: the range cannot be read, as for ``HudiTable.incremental`` and ``changes``.
        """
        after = self._after(row_filter)
        dataset = self._dataset(after)
        assert row_filter is not None
        used = {*names, *referenced_columns(row_filter, self.columns)}
        # Without a column, a batch does not have the number of its rows.
        read = [name for name in self.columns.names[:-2] if name in used] or self.columns.names[:1]
        values = pa.scalar(after, pa.string()), pa.scalar(dataset.next_after, pa.string())
        for batch in dataset.to_batches(read):
            constants = [pa.repeat(value, batch.num_rows) for value in values]
            whole = pa.Table.from_arrays([*batch.columns, *constants], [*read, AFTER, NEXT_AFTER])
            yield from whole.filter(row_filter).select(list(names)).to_batches()

    def _after(self, row_filter: pc.Expression | None) -> str:
        values = None if row_filter is None else allowed_values(row_filter, AFTER)
        distinct = set() if values is None else set(values.to_pylist())
        if len(distinct) != 1:
            shown = "none that DuckDB passes on" if row_filter is None else " ".join(str(row_filter).split())
            raise QueryError(f"condition on {AFTER}", shown, _CONDITION)
        return str(distinct.pop())

    def _dataset(self, after: str) -> HudiDataset:
        if self.query is QueryType.CHANGES:
            return self.table.changes(after)
        # A snapshot has all rows as they are, also where the first commits are no longer on the timeline.
        return self.table.snapshot() if after == EARLIEST else self.table.incremental(after)


def rows_of(table: HudiTable, settings: SourceSettings) -> Source:
    """What DuckDB reads of a table.

    Raises:
        QueryError: the settings do not fit the table.
        InstantNotReadableError: files of the instant were removed.
    """
    read: Read
    if settings.query in _RANGES:
        of_range = RangeSource.of(table, QueryType(settings.query), meta_columns=settings.meta_columns)
        columns, read = of_range.columns, of_range.read
    else:
        rows = _dataset(table, settings)
        names = [name for name in rows.schema.names if settings.meta_columns or name not in META_COLUMNS]
        columns, read = pa.schema(list(map(rows.schema.field, names))), partial(_batches, rows)
    if not columns.names:
        raise QueryError("table", "no columns, since nothing has been written yet", "a table with a completed commit")
    return Source(columns, refusing_wrong_conditions(columns, read), deque(maxlen=1))


def _batches(rows: HudiDataset, columns: Sequence[str], row_filter: pc.Expression | None) -> Iterable[pa.RecordBatch]:
    return rows.to_batches(list(columns), row_filter)


def _dataset(table: HudiTable, settings: SourceSettings) -> HudiDataset:
    match settings.query:
        case QueryType.SNAPSHOT:
            return table.snapshot(settings.as_of)
        case QueryType.READ_OPTIMIZED:
            return table.read_optimized(settings.as_of)
        case _:  # what a catalog or an option says
            return table.query(settings.as_of)


def _load_one_at_a_time() -> None:
    """Lets threads of dbt load sources one after another: of two that replace a view at once, DuckDB fails one."""
    load_source = LocalEnvironment.load_source

    @wraps(load_source)
    def load_alone(*arguments: Any) -> None:  # noqa: ANN401 - those of the method
        with _LOADING:
            load_source(*arguments)

    if not hasattr(load_source, "__wrapped__"):
        LocalEnvironment.load_source = load_alone


class Plugin(BasePlugin):  # type: ignore[misc]  # dbt-duckdb has no types
    """The plugin, under the name that dbt-duckdb looks for."""

    def initialize(self, plugin_config: dict[str, Any]) -> None:
        """Takes the defaults for all sources from the profile.

        Raises:
            DbtRuntimeError: an option is unknown.
        """
        # They come with the settings of DuckDB in the profile.
        settings = (self.creds.settings if self.creds else None) or {}
        self._defaults = {name: value for name, value in plugin_config.items() if name not in settings}
        try:
            refuse_unknown(self._defaults, _OF_PLUGIN, "it does not belong into the plugin's config")
        except QueryError as error:
            raise DbtRuntimeError(f"plugin {self.name}: {error}") from error
        _load_one_at_a_time()
        self._of_thread = local()
        self._run = ""
        self._tables: dict[str, HudiTable] = {}
        self._rows: dict[str, Source] = {}
        self._registered: dict[str, Source] = {}

    def configure_cursor(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Makes the sources known to a new cursor."""
        for name, rows in tuple(self._registered.items()):
            cursor.register(name, rows)
        cursors = getattr(self._of_thread, "cursors", ())
        self._of_thread.cursors = [*(ref for ref in cursors if ref() is not None), weakref.ref(cursor)]

    def load(self, source_config: SourceConfig) -> Source:
        """The rows of a source; within a run, those of one instant.

        Raises:
            DbtRuntimeError: the settings or the table cannot be read.
        """
        try:
            settings = SourceSettings.of(source_config, self._defaults, self._defaults.get("other_meta") or ())
            rows = self._load(settings)
        except (HudiReadError, OSError) as error:
            raise DbtRuntimeError(f"source {source_config.schema}.{source_config.identifier}: {error}") from error
        if settings.is_view:
            # Otherwise, dbt-duckdb makes the rows known to new cursors, and fails where other threads add to them.
            source_config.meta["materialization"] = _VIEW
            self._register(f"{source_config.table_name().replace('.', '_')}_df", rows)
        return rows

    def default_materialization(self) -> str:
        """A view, so that columns and conditions are passed on."""
        return _VIEW

    def _register(self, name: str, rows: Source) -> None:
        """Makes a source known to later cursors, and to those that the model has opened by a query of its own."""
        self._registered[name] = rows
        for ref in getattr(self._of_thread, "cursors", ()):
            with suppress(duckdb.ConnectionException):  # it has been closed
                cursor = ref()
                if cursor is not None:
                    cursor.register(name, rows)

    def _load(self, settings: SourceSettings) -> Source:
        if self._run != get_invocation_id():
            self._run = get_invocation_id()
            self._tables, self._rows = {}, {}
        if settings.table_id not in self._tables:
            self._tables[settings.table_id] = settings.open()
        if repr(settings) not in self._rows:
            self._rows[repr(settings)] = rows_of(self._tables[settings.table_id], settings)
        return self._rows[repr(settings)]
