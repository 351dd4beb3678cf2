"""A folder of Hudi tables as a database of a DuckDB connection.

Few tables are opened at once, so that all statements of the connection find them; of many, each when it is named.

    ROOT/trips            lake.trips
    ROOT/sales/orders     lake.sales.orders
    ROOT/a/b/c            lake."a.b".c

A name may have the suffixes of the views of ``attach``, and those of ``connectors.lakes.tables`` for the query type and
the instant. Views of metadata beside the usual ones are made when ``Lake.sql`` meets their name. DuckDB does not tell
which tables a statement names, so they are looked up in its text.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from typing import Any

import duckdb

from hudi_bridge.common.display import html_of_properties
from hudi_bridge.config import QueryType
from hudi_bridge.connectors.duckdb.attached import CACHE_BYTES, READ_OPTIMIZED, Attached
from hudi_bridge.connectors.duckdb.dialect import quote_identifier
from hudi_bridge.connectors.duckdb.merge_folder import merge_store
from hudi_bridge.connectors.duckdb.native_scan import ViewPlan
from hudi_bridge.connectors.lakes.roots import Roots, is_table
from hudi_bridge.connectors.lakes.tables import DEFAULT_NAMESPACE, MergingByTable, Namespace, parse_table_name
from hudi_bridge.engines import MergeStore
from hudi_bridge.errors import HudiReadError, QueryError, TableNotFoundError
from hudi_bridge.inspection import VIEWS
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.options import require_table_options
from hudi_bridge.storage.storage import PathLike, Storage, StorageOptions
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import InstantLike

_TOKEN = re.compile(
    r"""(?P<passed>--[^\n]*|/\*.*?\*/|[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|(?P<tag>\$\w*\$).*?(?P=tag))"""
    r"""|(?P<quoted>"(?:[^"]|"")*")|(?P<bare>[^\W\d][\w$]*)|(?P<dot>\.)|(?P<number>\d[\w.]*)|(?P<other>\S)""",
    re.DOTALL,
)
_NAME = r"""(?:"(?:[^"]|"")*"|[^\W\d][\w$]*)"""
_DOTTED_NAME = re.compile(rf"\s*{_NAME}(?:\s*\.\s*{_NAME})*\s*")

Chain = tuple[str, ...]
"""The parts of a name such as ``lake.sales.orders``, without quotes."""


def name_chains(statement: str, reserved: Container[str] = ()) -> Iterator[Chain]:
    """All names of a statement, and keywords that are not ``reserved``; what strings and comments hold is left out."""
    chain: list[str] = []
    continues = False
    for token in _TOKEN.finditer(statement):
        kind = token.lastgroup
        if kind == "bare" and not continues and token[0].lower() in reserved:
            kind = "other"
        if kind in ("quoted", "bare"):
            if chain and not continues:
                yield tuple(chain)
                chain = []
            chain.append(_unquoted(token[0]))
        elif chain and kind != "dot":
            yield tuple(chain)
            chain = []
        continues = kind == "dot"
    if chain:
        yield tuple(chain)


def parse_name(text: str) -> Chain | None:
    """The parts of a text that is one name, such as ``sales."orders@2026-01-31"``; None if it is none."""
    return next(name_chains(text)) if _DOTTED_NAME.fullmatch(text) else None


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


_LOG = logging.getLogger(__name__)
_MAIN = "main"
"""DuckDB's name for the schema of what names no schema."""
_SUFFIXES = sorted((READ_OPTIMIZED, *VIEWS), key=len)
"""The suffixes of views. The first that leaves the name of a table is meant, and after an instant the last."""
_MISSING = re.compile(r'Table with name ("?)(.+?)\1 does not exist')
_TOO_MANY_PARTS = "NameListToString NOT IMPLEMENTED"
"""What DuckDB before 2.0 says of a name of more than three parts."""
_NO_CATALOG = re.compile('Catalog "(.+?)" does not exist')
"""What it says of a name of three parts."""
EAGER_TABLES = 100
"""How many tables of a local folder are opened at once, each in some 40 ms of CPU time."""
_SPELLED_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def attach_all(
    connection: duckdb.DuckDBPyConnection,
    root: PathLike,
    name: str = "lake",
    *,
    filesystem: Any = None,  # noqa: ANN401 - of any library
    options: Mapping[str, str] | None = None,
    payloads: Mapping[str, RecordPayload] | None = None,
    log_memory_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
    as_of: InstantLike | None = None,
    cache: PathLike | None = None,
    cache_bytes: int = CACHE_BYTES,
    meta_columns: bool = True,
    eager_tables: int | None = None,
) -> "Lake":
    """Makes a database of a connection from all tables below a folder.

    If there are no more than ``eager_tables``, all are opened now, and any statement of the connection finds them.
    Otherwise each is opened when ``Lake.sql`` first meets its name. The default is 100 for a local folder, and 0
    elsewhere, where opening takes requests.

    The database is in memory, also if the connection has one in a file, into which nothing gets. All cursors of the
    connection see it. ``root`` is a path or URI; ``filesystem``, ``options``, ``payloads``, ``log_memory_bytes`` and
    ``storage_options`` are those of ``HudiTable.open``, for all tables. ``as_of`` is that of ``HudiTable.snapshot``,
    for all tables whose names tell no instant. ``cache`` and ``cache_bytes`` are those of ``attach``, for all tables
    together, and ``meta_columns`` is that of ``attach``.

    Raises:
        QueryError: the connection has a database with this name, the folder is itself a table, or an option is unknown
            or refused.
        TableNotFoundError: there is no such folder.
    """
    folder = Storage.open(root, filesystem, storage_options)
    if not folder.exists(""):
        raise TableNotFoundError(folder.shown_path, "there is no such folder")
    if is_table(folder):
        raise QueryError("root", f"the table {folder.shown_path}", "a folder of tables; attach takes a table")
    require_table_options(options or {})
    merging = MergingByTable(options=options or {}, payloads=payloads or {}, log_memory_bytes=log_memory_bytes)
    merges = merge_store(cache, cache_bytes)
    roots = Roots(folders=(folder,), tables={})
    if eager_tables is None:
        eager_tables = EAGER_TABLES if folder.is_local else 0
    return Lake(connection, roots, name, merging, merges, as_of, meta_columns=meta_columns, eager_tables=eager_tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What a name asks for: a table, the instant, and the name that ``attach`` is to give it in a schema."""

    schema: str
    namespace: Namespace
    table: str
    view: str
    as_of: InstantLike | None
    read_optimized_as: str | None = None
    """A further name for the read optimized view."""


@dataclass(frozen=True, slots=True)
class _Named:
    """What a name of a statement asks for, and the suffix of ``VIEWS`` that it ends in, if any."""

    asked: _Asked
    metadata: str = ""


class Lake:
    """A database of Hudi tables in a DuckDB ``connection``, as returned by ``attach_all``.

    A table is opened with the lake if there are few, and otherwise when ``sql``, ``attach`` or ``attach_named_in``
    first meet its name. It shows its newest instant from then on until ``refresh``. Other statements of the connection
    see the tables that are open.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        roots: Roots,
        name: str,
        merging: MergingByTable,
        merges: MergeStore,
        as_of: InstantLike | None = None,
        *,
        meta_columns: bool = True,
        eager_tables: int = 0,
    ) -> None:
        self.connection = connection
        self.name = name
        self._eager_tables = eager_tables
        self._roots = roots
        self._merging = merging
        self._merges = merges
        self._as_of = as_of
        self._meta_columns = meta_columns
        self._tables: dict[tuple[Namespace, str], HudiTable] = {}
        self._attached: dict[_Asked, Attached] = {}
        self._further: defaultdict[_Asked, set[str]] = defaultdict(set)
        self._listings: dict[Namespace, list[str]] = {}
        self._failed: dict[tuple[str, str], HudiReadError | OSError] = {}
        self._closed: dict[tuple[str, str], HudiReadError | OSError] = {}
        self._unknown: list[tuple[str, str]] = []
        self._named: list[_Asked] = []
        taken = connection.execute(
            "SELECT database_name FROM duckdb_databases() WHERE lower(database_name) = lower(?)", [name]
        ).fetchall()
        if taken:
            raise QueryError("name", f"the database {taken[0][0]!r} of the connection", "another name, or DETACH first")
        # READ_WRITE, as views are made in it even if the connection may only read its file.
        connection.execute(f"ATTACH ':memory:' AS {quote_identifier(name)} (READ_WRITE)")
        self._attach_few()

    def __repr__(self) -> str:
        return f"<Lake {self.name!r}: {len(self._attached)} tables of {self._places!r} open>"

    def _repr_html_(self) -> str:
        return html_of_properties("Lake", (("path", self._places), ("name", self.name), ("open", tuple(self.instants))))

    @property
    def instants(self) -> dict[str, str]:
        """The tables that are open, as their names are written in SQL, and the instants that they show."""
        return {self._spelled(asked.schema, asked.view): attached.instant for asked, attached in self._attached.items()}

    @property
    def opened(self) -> dict[str, HudiTable]:
        """The tables that are open, as their names are written in SQL."""
        return {self._spelled(asked.schema, asked.view): attached.table for asked, attached in self._attached.items()}

    def plan(self) -> dict[str, ViewPlan]:
        """How DuckDB reads the rows of the tables that are open, by the name of the view: see ``Attached.plan``."""
        plans = ((asked.schema, attached.plan()) for asked, attached in self._attached.items())
        return {self._spelled(schema, name): plan for schema, views in plans for name, plan in views.items()}

    def tables(self) -> list[str]:
        """The names of all tables, as they are written in SQL after the name of the database; none is opened.

        Folders that cannot be listed are left out, and logged with the reason.
        """
        return sorted(
            self._spelled(_schema_of(namespace), table) for namespace, table in self._roots.walk(_log_failure)
        )

    def sql(self, statement: str, *, params: object = None) -> duckdb.DuckDBPyRelation | None:
        """Opens the tables that a statement names, and returns ``connection.sql(statement, params=params)``.

        A table with the name of a column is opened, too; whether it can be read does not matter then.

        Raises:
            QueryError: the database has no table of a name.
            HudiReadError: a table of the statement cannot be opened.
            duckdb.Error: the statement fails; ``cause_of`` tells the cause if it is a table's.
        """
        self.attach_named_in(statement)
        try:
            return self.connection.sql(statement, params=params)
        except duckdb.Error as error:
            cause = self.cause_of(error)
            if cause is None:
                raise
            raise cause from error

    def attach_named_in(self, statement: str) -> None:
        """Opens the tables that a statement names, for ``connection.execute`` and the like.

        A table that cannot be opened is passed over: ``cause_of`` returns its error for the error of the statement.
        """
        self._listings.clear()
        self._failed.clear()
        self._unknown.clear()
        self._named.clear()
        homes = list(self._homes())
        # A statement may name a table more than once.
        for chain in dict.fromkeys(name_chains(statement, self._reserved)):
            for schema, word in self._meanings(chain, homes):
                self._try_to_attach(schema, word)
            # Nested namespaces need quotes: for a hint, if they have none.
            self._unknown += [(".".join(part[:-1]), part[-1]) for part in (chain, chain[1:]) if part[2:]]

    def attach(self, name: str) -> str:
        """Opens a table by its name as in SQL, such as ``sales.orders``; returns the instant that it shows.

        Raises:
            QueryError: the database has no such table, or more than one.
            HudiReadError: the table cannot be opened.
        """
        parts = parse_name(name)
        if parts is None:
            raise QueryError("name", repr(name), 'a name as in SQL, such as sales.orders or "trips@2026-01-31"')
        self._listings.clear()
        if len(parts) > 1 and parts[0].lower() == self.name.lower():
            parts = parts[1:]
        schema, word = ".".join(parts[:-1]) or _MAIN, parts[-1]
        named = self._meaning(schema, word)
        if named is None:
            raise self._no_table(name, schema, word)
        return self._show(named).instant

    def refresh(self) -> None:
        """Shows the newest instants of the tables that are open, but of those that a name or ``as_of`` pins.

        A table that can no longer be opened is closed; the next statement that names it tells why. New tables are
        opened as by ``attach_all``.
        """
        before = self._attached
        self._listings.clear()
        self._tables, self._attached = {}, {}
        for asked, attached in before.items():
            try:
                self._attach(asked)
            except (HudiReadError, OSError):
                self._drop(asked, attached)
            attached.release(self.connection)
        self._attach_few()

    def detach(self) -> None:
        """Removes the database; it must not be the current one of the connection (``USE``)."""
        self.connection.execute(f"DETACH {quote_identifier(self.name)}")
        for attached in self._attached.values():
            attached.release(self.connection)
        self._attached.clear()
        self._tables.clear()

    def cause_of(self, error: BaseException) -> HudiReadError | OSError | None:
        """The error of a table, or of a name that is no table's, that caused an error of a statement; None if none is.

        Names are those of the statement that ``sql`` or ``attach_named_in`` was last called with, and of tables that
        could not be opened with the lake.
        """
        for attached in self._attached.values():
            cause = attached.cause_of(error)
            if cause is not None:
                return cause
        word = self._missing_name(error)
        if word is None:
            return None
        for (schema, name), failure in (*self._failed.items(), *self._closed.items()):
            if self._is_called(word, schema, name):
                return failure
        for schema, name in self._unknown:
            if self._is_called(word, schema, name):
                return self._no_table(word, schema, name)
        for asked in self._named:
            if self._is_called(word, asked.schema, asked.view):
                began = f"one that began before {self._spelled(asked.schema, asked.view)} was opened"
                return QueryError("transaction", began, "COMMIT or ROLLBACK first")
        return None

    def _missing_name(self, error: BaseException) -> str | None:
        """The name of a table that DuckDB has not found, as its error spells it."""
        names = (f"{schema}.{name}" for schema, name in self._unknown if "." in schema)
        if isinstance(error, duckdb.ParserException) and _TOO_MANY_PARTS in str(error):
            # The error does not tell the name. That of the database comes first.
            return next((name.partition(".")[2] for name in names if name.count(".") > 2), None)  # noqa: PLR2004
        if isinstance(error, duckdb.BinderException) and (catalog := _NO_CATALOG.search(str(error))):
            return next((name for name in names if name.startswith(f"{catalog[1]}.")), None)
        missing = _MISSING.search(str(error)) if isinstance(error, duckdb.CatalogException) else None
        return None if missing is None else missing[2]

    def _homes(self) -> Iterator[str]:
        """The schemas of this database in which the connection looks for names without one."""
        [(path,)] = self.connection.execute("SELECT current_setting('search_path')").fetchall()
        for home in name_chains(path):
            if home[0].lower() == self.name.lower():
                yield home[1] if len(home) > 1 else _MAIN

    def _meanings(self, chain: Chain, homes: list[str]) -> list[tuple[str, str]]:
        """The schemas and names that a name of a statement may stand for, with columns and fields after it."""
        candidates = []
        if chain[0].lower() == self.name.lower():
            candidates += [(chain[1], name) for name in chain[2:3]] + [(_MAIN, name) for name in chain[1:2]]
        if homes:
            candidates += [(chain[0], name) for name in chain[1:2]] + [(home, chain[0]) for home in homes]
        return candidates

    def _attach_few(self) -> None:
        """Opens all tables, unless there are more than are opened at once; those that cannot be opened are logged."""
        self._closed.clear()
        self._listings.clear()
        walked = islice(self._roots.walk(_log_failure), self._eager_tables + 1) if self._eager_tables else ()
        names = sorted((_schema_of(namespace), table) for namespace, table in walked)
        if len(names) > self._eager_tables:
            return
        for schema, word in names:
            try:
                named = self._meaning(schema, word)
                if named is not None:
                    self._attach(named.asked)
            except (HudiReadError, OSError) as error:
                self._closed[schema, word] = error
                _LOG.warning("%s cannot be opened: %s", ascii(self._spelled(schema, word)), error)

    def _try_to_attach(self, schema: str, word: str) -> None:
        try:
            named = self._meaning(schema, word)
            if named is not None:
                self._show(named)
                self._named.append(named.asked)
                return
            # For USE: the name may be that of a schema.
            namespaces = [namespace for namespace in self._namespaces(word) if self._roots.has_namespace(namespace)]
            if namespaces:
                with self.connection.cursor() as cursor:
                    self._create_schema(cursor, _schema_of(namespaces[0]))
            self._unknown.append((schema, word))
        except (HudiReadError, OSError) as error:
            self._failed[schema, word] = error

    def _meaning(self, schema: str, word: str) -> _Named | None:
        """What a name asks for; the exact name of a table comes before all suffixes."""
        location = self._find(schema, word)
        if location is not None:
            asked = _Asked(
                schema=_schema_of(location[0]),
                namespace=location[0],
                table=location[1],
                view=location[1],
                as_of=self._as_of,
            )
            return _Named(asked)
        with_instant = self._with_instant(schema, word)
        meaning = None if with_instant is None else _Named(with_instant)
        for suffix in _SUFFIXES:
            if word.lower().endswith(suffix):
                named = self._meaning(schema, word[: -len(suffix)])
                if named is not None and not named.metadata and named.asked.read_optimized_as is None:
                    meaning = _Named(named.asked, suffix if suffix in VIEWS else "")
                    if named.asked.view == named.asked.table:
                        break
        return meaning

    def _show(self, named: _Named) -> Attached:
        """Opens what a name asks for, with the view that it names."""
        asked, suffix = named.asked, named.metadata
        if suffix and not VIEWS[suffix].is_usual:
            self._further[asked].add(suffix)
        attached = self._attach(asked)
        if suffix not in ("", *attached.metadata_views):
            with self._cursor_in(asked.schema) as cursor:
                attached.show(suffix, cursor)
        return attached

    def _with_instant(self, schema: str, word: str) -> _Asked | None:
        parsed = parse_table_name(word)
        name = self._find(schema, parsed.table) if parsed.table != word else None
        if name is None:
            return None
        namespace, table = name
        view, read_optimized_as = word, None
        if parsed.query_type is QueryType.READ_OPTIMIZED:
            view, read_optimized_as = table if parsed.as_of is None else f"{table}@{parsed.as_of}", word
        return _Asked(
            schema=_schema_of(namespace),
            namespace=namespace,
            table=table,
            view=view,
            as_of=parsed.as_of or self._as_of,
            read_optimized_as=read_optimized_as,
        )

    def _find(self, schema: str, word: str) -> tuple[Namespace, str] | None:
        """The only table with this name, whatever its case."""
        matching = [
            (namespace, name)
            for namespace in self._namespaces(schema)
            for name in self._folders(namespace)
            if name.lower() == word.lower() and self._roots.find_exact(namespace, name) is not None
        ]
        if len(matching) > 1:
            several = ", ".join(repr("/".join((*namespace, name))) for namespace, name in matching)
            raise QueryError("table", several, f"only one table that DuckDB may call {word}, in any case of letters")
        return matching[0] if matching else None

    def _namespaces(self, schema: str) -> list[Namespace]:
        """The namespaces that a schema stands for; more than one if their names differ in case or dots alone."""
        default = [DEFAULT_NAMESPACE] if schema.lower() == _MAIN else []
        return default + list(self._matching((), schema.lower()))

    def _matching(self, above: Namespace, rest: str) -> Iterator[Namespace]:
        for name in self._folders(above):
            if rest == name.lower():
                yield (*above, name)
            elif rest.startswith(f"{name.lower()}."):
                yield from self._matching((*above, name), rest[len(name) + 1 :])

    def _folders(self, namespace: Namespace) -> list[str]:
        if namespace not in self._listings:
            self._listings[namespace] = self._roots.folder_names(namespace)
        return self._listings[namespace]

    def _attach(self, asked: _Asked) -> Attached:
        if asked not in self._attached:
            table = self._open(asked)
            with self._cursor_in(asked.schema) as cursor:
                attached = Attached(
                    cursor,
                    table,
                    asked.view,
                    asked.as_of,
                    None,
                    self._merges,
                    meta_columns=self._meta_columns,
                    metadata_views=self._further[asked],
                )
                if asked.read_optimized_as is not None:
                    name = self._qualified(asked.schema, asked.read_optimized_as)
                    base_files = self._qualified(asked.schema, asked.view + READ_OPTIMIZED)
                    cursor.execute(f"CREATE OR REPLACE VIEW {name} AS FROM {base_files}")
            self._attached[asked] = attached
            self._restore_hidden(asked, attached)
        return self._attached[asked]

    @contextmanager
    def _cursor_in(self, schema: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor with a current schema and a transaction of its own; it is closed, as it would keep a file locked."""
        with self.connection.cursor() as cursor:
            self._create_schema(cursor, schema)
            cursor.execute(f"USE {self._qualified(schema)}")
            yield cursor

    def _restore_hidden(self, asked: _Asked, attached: Attached) -> None:
        """Makes views anew whose names ``attach`` has just given to views of another table."""
        names = {name.lower() for name in attached.names[1:]}
        for other in [
            attached
            for attached in self._attached
            if attached.schema == asked.schema and attached.view.lower() in names
        ]:
            del self._attached[other]
            self._attach(other)

    def _open(self, asked: _Asked) -> HudiTable:
        location = asked.namespace, asked.table
        if location not in self._tables:
            storage = self._roots.find_exact(*location)
            if storage is None:
                raise TableNotFoundError("/".join((*asked.namespace, asked.table)), "there is no table of that name")
            settings = self._merging.of(storage)
            self._tables[location] = HudiTable.of(
                storage, settings.options, settings.payloads, settings.log_memory_bytes
            )
        return self._tables[location]

    def _drop(self, asked: _Asked, attached: Attached) -> None:
        further = () if asked.read_optimized_as is None else (asked.read_optimized_as,)
        with self.connection.cursor() as cursor:
            for name in (*attached.names, *further):
                cursor.execute(f"DROP VIEW IF EXISTS {self._qualified(asked.schema, name)}")

    def _create_schema(self, cursor: duckdb.DuckDBPyConnection, schema: str) -> None:
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {self._qualified(schema)}")

    def _is_called(self, spelling: str, schema: str, name: str) -> bool:
        """Whether DuckDB may mean a name by what it has not found."""
        return spelling.lower() in {
            ".".join(parts).lower() for parts in ((name,), (schema, name), (self.name, schema, name))
        }

    def _no_table(self, spelling: str, schema: str, word: str) -> QueryError:
        """The error for a name that is no table's, with names like it."""
        names = {name.lower(): name for namespace in self._namespaces(schema) for name in self._folders(namespace)}
        similar = [self._spelled(schema, names[match]) for match in get_close_matches(word.lower(), names)]
        expected = f"a table such as {' or '.join(similar)}" if similar else f"a table of {self._places}"
        return QueryError("table", repr(spelling), expected)

    def _spelled(self, schema: str, name: str) -> str:
        parts = (name,) if schema == _MAIN else (schema, name)
        return ".".join(map(self._quoted_if_needed, parts))

    def _quoted_if_needed(self, name: str) -> str:
        is_bare = _SPELLED_BARE.fullmatch(name) is not None and name.lower() not in self._keywords
        return name if is_bare else quote_identifier(name)

    def _qualified(self, *names: str) -> str:
        return ".".join(map(quote_identifier, (self.name, *names)))

    @cached_property
    def _keywords(self) -> Mapping[str, str]:
        """The keywords of SQL that names may need quotes to be, with their categories."""
        query = "SELECT keyword_name, keyword_category FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        with self.connection.cursor() as cursor:
            return dict(cursor.execute(query).fetchall())

    @cached_property
    def _reserved(self) -> frozenset[str]:
        return frozenset(name for name, category in self._keywords.items() if category == "reserved")

    @property
    def _places(self) -> str:
        return ", ".join(folder.shown_path for folder in self._roots.folders)


def _schema_of(namespace: Namespace) -> str:
    return _MAIN if namespace == DEFAULT_NAMESPACE else ".".join(namespace)


def _log_failure(name: str, error: Exception) -> None:
    _LOG.warning("%s cannot be listed: %s", ascii(name), error)
