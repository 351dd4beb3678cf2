"""Parses the options of a DataFrame reader, which have Hudi's names.

Options that change no row are ignored. Unknown names are refused, and so are options that would change rows but are not
followed (``READ_OPTIONS``).

Source: ``DataSourceOptions`` of Hudi (``DataSourceReadOptions``).
"""

import csv
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hudi_bridge.changes.split import ChangeFormat
from hudi_bridge.errors import QueryError
from hudi_bridge.options import (
    QUERY_TYPE_KEY,
    READ_OPTION_KEYS,
    VIEW_TYPE_KEY,
    Effect,
    names_of,
    query_type_text,
    require_read_options,
    require_text,
    spelled,
)
from hudi_bridge.storage.storage import StorageOptions
from hudi_bridge.timeline.instant import EARLIEST

AS_OF = "as.of.instant"
BEGIN = "hoodie.datasource.read.begin.instanttime"
END = "hoodie.datasource.read.end.instanttime"
INCREMENTAL_FORMAT = "hoodie.datasource.query.incremental.format"
START_OFFSET = "hoodie.datasource.streaming.startOffset"
COLUMNS = "columns"
WITH_META_COLUMNS = "metaColumns"
MAX_PARTITION_BYTES = "maxPartitionBytes"
MAX_INSTANTS_PER_TRIGGER = "maxInstantsPerTrigger"
LOG_MEMORY_BYTES = "logMemoryBytes"
PUSH_FILTERS = "pushFilters"
MAX_NATIVE_FILES = "maxNativeFiles"
STORAGE = "storage."
"""What names of storage options begin with."""

DEFAULT_PARTITION_BYTES = 128 << 20
# Spark looks for each file of a scan on its own, and holds all their names in the plan.
DEFAULT_NATIVE_FILES = 10_000
LATEST_STATE = "latest_state"

_OWN_OPTIONS = (
    COLUMNS,
    WITH_META_COLUMNS,
    MAX_PARTITION_BYTES,
    MAX_INSTANTS_PER_TRIGGER,
    LOG_MEMORY_BYTES,
    PUSH_FILTERS,
    MAX_NATIVE_FILES,
    "path",
)
_OWN_NAMES = (*_OWN_OPTIONS, *names_of(Effect.OF_QUERY))
_BY_LOWER_CASE = {name.lower(): name for name in _OWN_NAMES}
_CATALOG_OPTIONS = ("owner", "provider")
_EXPECTED_PATH = (
    "load(path), or a temporary view with the option path: Spark does not tell sources in Python where a table of a "
    "catalog lies"
)


class SparkQuery(StrEnum):
    """The query type of a DataFrame, by Hudi's names; ``splits`` describes the plan of a snapshot."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"
    INCREMENTAL = "incremental"
    SPLITS = "splits"


_QUERY_TYPES = (QUERY_TYPE_KEY, VIEW_TYPE_KEY)
_OF_ONE_INSTANT = (SparkQuery.SNAPSHOT, SparkQuery.READ_OPTIMIZED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """What to read, and how to divide it into tasks.

    ``columns`` is None for all, without Hudi's own unless ``meta_columns``. ``begin`` (exclusive) and ``end``
    (inclusive) bound an incremental query; with a ``change_format`` it returns changes. If the query has more than
    ``native_files`` base files, this package's reader reads all of them. ``table_options`` and ``storage_options`` go
    to ``HudiTable.open``.
    """

    path: str
    query: SparkQuery = SparkQuery.SNAPSHOT
    as_of: str | None = None
    begin: str | None = None
    end: str | None = None
    change_format: ChangeFormat | None = None
    start_offset: str = EARLIEST
    columns: tuple[str, ...] | None = None
    meta_columns: bool = True
    partition_bytes: int = DEFAULT_PARTITION_BYTES
    max_instants_per_trigger: int | None = None
    log_memory_bytes: int | None = None
    pushes_filters: bool = False
    native_files: int = DEFAULT_NATIVE_FILES
    table_options: tuple[tuple[str, str], ...] = ()
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def parse_options(options: Mapping[str, str]) -> SparkOptions:
    """Parses the options of a DataFrame reader; names are case-insensitive.

    Raises:
        QueryError: an option is unknown, has an invalid value, or contradicts another.
    """
    given = {name.lower(): value for name, value in options.items()}
    _refuse(options)
    path = given.get("path")
    if not path:
        raise QueryError("path", "no path", _EXPECTED_PATH)
    query = _query(given)
    if query is SparkQuery.INCREMENTAL and AS_OF in given:
        raise QueryError(AS_OF, given[AS_OF], "no time travel in an incremental query, which has an end of its own")
    if query is not SparkQuery.INCREMENTAL:
        _refuse_others(given, (BEGIN, END), f"it with {QUERY_TYPE_KEY}={SparkQuery.INCREMENTAL}, or {START_OFFSET}")
    changes = _change_format(given)
    meta_columns = _flag(given, WITH_META_COLUMNS, default="true")
    if changes is not None and not meta_columns:
        raise QueryError(WITH_META_COLUMNS, "false for changes", "columns of their images, such as before.id")
    if query is not SparkQuery.INCREMENTAL and changes is not None:
        raise QueryError(QUERY_TYPE_KEY, query, f"{SparkQuery.INCREMENTAL}, with {INCREMENTAL_FORMAT}")
    return SparkOptions(
        path=path,
        query=query,
        as_of=given.get(AS_OF),
        begin=given.get(BEGIN),
        end=given.get(END),
        change_format=changes,
        start_offset=given.get(START_OFFSET.lower(), EARLIEST),
        columns=None if COLUMNS not in given else _names(given[COLUMNS]),
        meta_columns=meta_columns,
        partition_bytes=_number(given, MAX_PARTITION_BYTES) or DEFAULT_PARTITION_BYTES,
        max_instants_per_trigger=_number(given, MAX_INSTANTS_PER_TRIGGER),
        log_memory_bytes=_number(given, LOG_MEMORY_BYTES),
        pushes_filters=_flag(given, PUSH_FILTERS),
        native_files=_native_files(given),
        table_options=tuple(
            (name, given[name])
            for name in READ_OPTION_KEYS
            # A range of commits, or the splits, of what the path names.
            if name in given and (name not in _QUERY_TYPES or query in _OF_ONE_INSTANT)
        ),
        storage_options=tuple(
            (name.removeprefix(STORAGE), value) for name, value in given.items() if name.startswith(STORAGE)
        ),
    )


def require_batch(options: Mapping[str, str]) -> None:
    """Raises QueryError for an option of streams, which a batch query would not follow."""
    given = {name.lower(): value for name, value in options.items()}
    _refuse_others(given, (START_OFFSET, MAX_INSTANTS_PER_TRIGGER), "a stream (readStream), or no such option")


def require_stream(options: SparkOptions) -> None:
    """Raises QueryError for an option of batch queries, which a stream, of what commits write, would not follow."""
    given = {AS_OF: options.as_of, BEGIN: options.begin, END: options.end}
    instants = {name: value for name, value in given.items() if value is not None}
    _refuse_others(instants, instants, f"no such option for a stream, which begins at {START_OFFSET}")
    if options.query not in (SparkQuery.SNAPSHOT, SparkQuery.INCREMENTAL):
        raise QueryError(
            QUERY_TYPE_KEY, f"{options.query} for a stream", f"{SparkQuery.INCREMENTAL}, or no such option"
        )


def settings_of_tables(
    options: Mapping[str, str] | None,
    log_memory_bytes: int | None,
    storage_options: StorageOptions | None,
    queries: Collection[SparkQuery] = _OF_ONE_INSTANT,
) -> dict[str, str]:
    """The options that several tables are read with, by their usual names; ``queries`` are the types to choose from.

    Raises:
        QueryError: an option is unknown, is refused, has an invalid value, or belongs to single queries.
    """
    given = {_named(name): value for name, value in (options or {}).items()}
    require_batch(given)
    of_queries = names_of(Effect.OF_QUERY)
    _refuse_others(given, of_queries, "what says it for one query: an argument, or the name of a view")
    given |= {f"{STORAGE}{name}": value for name, value in (storage_options or {}).items()}
    if log_memory_bytes is not None:
        given[LOG_MEMORY_BYTES] = str(log_memory_bytes)
    query = parse_options({**given, "path": "/"}).query
    if query not in queries:
        raise QueryError(QUERY_TYPE_KEY, repr(query.value), " or ".join(queries))
    return given


def _refuse_others(given: Mapping[str, str], names: Iterable[str], expected: str) -> None:
    for name in names:
        value = given.get(name, given.get(name.lower()))
        if value is not None:
            raise QueryError(name, repr(value), expected)


def _named(name: str) -> str:
    """An option's name in its usual letters."""
    return _BY_LOWER_CASE.get(name.lower(), spelled(name))


def _refuse(options: Mapping[str, str]) -> None:
    if {name.lower() for name in options}.issuperset(_CATALOG_OPTIONS):
        raise QueryError("CREATE TABLE", "a table of a catalog", _EXPECTED_PATH)
    named = {_named(name): value for name, value in options.items()}
    of_table = {name: value for name, value in named.items() if not name.lower().startswith(STORAGE)}
    for name, value in of_table.items():
        require_text(name, value)
        if "." not in name and name not in _OWN_NAMES:
            expected = f"an option of this format; those of a store are {STORAGE}NAME"
            raise QueryError("options", name, expected)
    require_read_options(of_table, _OWN_NAMES)


def _query(given: Mapping[str, str]) -> SparkQuery:
    key, text = query_type_text(given) or (QUERY_TYPE_KEY, SparkQuery.SNAPSHOT)
    try:
        return SparkQuery(text)
    except ValueError as error:
        raise QueryError(key, repr(given[key]), "one of " + ", ".join(SparkQuery)) from error


def _change_format(given: Mapping[str, str]) -> ChangeFormat | None:
    text = given.get(INCREMENTAL_FORMAT, LATEST_STATE).lower()
    if text == LATEST_STATE:
        return None
    if text not in set(ChangeFormat):
        raise QueryError(INCREMENTAL_FORMAT, repr(text), ", ".join((LATEST_STATE, *ChangeFormat)))
    return ChangeFormat(text)


def _names(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list or in a JSON list, which allows commas and quotes in names."""
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except ValueError as error:
            raise QueryError(COLUMNS, repr(text), "names with commas between them, or a JSON list") from error
        if not all(isinstance(name, str) for name in names):
            raise QueryError(COLUMNS, repr(text), "a JSON list of names")
        return tuple(names)
    return tuple(next(csv.reader([text], skipinitialspace=True), []))


def _number(given: Mapping[str, str], name: str, least: int = 1) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise QueryError(name, repr(text), f"a whole number above {least - 1}" if least else "a whole number")
    return int(text)


def _native_files(given: Mapping[str, str]) -> int:
    number = _number(given, MAX_NATIVE_FILES, least=0)
    return DEFAULT_NATIVE_FILES if number is None else number


def _flag(given: Mapping[str, str], name: str, default: str = "false") -> bool:
    text = given.get(name.lower(), default).lower()
    if text not in ("true", "false"):
        raise QueryError(name, repr(text), "true or false")
    return text == "true"
