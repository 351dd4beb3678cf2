"""The options of a reader: which are followed, ignored or refused, and the values of a table.

Every entrance (Python, DuckDB, Polars, Spark, the command line, the service) checks its options against
``READ_OPTIONS``. An option that would change rows, and is not followed, is refused; so is a name that is not listed.
``ReadOptions`` are the values, with payloads and memory; what tables do not record goes into their ``TableConfig``.

Source: ``DataSourceReadOptions``, ``HoodieReaderConfig``, ``HoodieCommonConfig``, ``HoodieMetadataConfig`` and
``HoodieMemoryConfig`` of Hudi 0.15 to 1.2.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Self

from hudi_bridge.config import DELETE_MARKER_KEYS, OPERATION_FIELD_KEY, QueryType, TableConfig, comma_separated
from hudi_bridge.errors import QueryError, UnsupportedTableError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.releases import FIRST_VERSION_WITH_COMPLETION_TIMES, RELEASED_VERSIONS, Release

_RECORD_MERGERS_KEYS = (
    "hoodie.write.record.merge.custom.implementation.classes",
    "hoodie.datasource.write.record.merger.impls",
)
FULL_SCAN_FALLBACK_KEY = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"
HOLLOW_COMMITS_KEY = "hoodie.read.timeline.holes.resolution.policy"
READ_AS_RELEASE_KEY = "hudi_bridge.read.as.release"
BOOTSTRAP_SOURCE_KEY = "hudi_bridge.bootstrap.source"
BLOB_SOURCE_KEY = "hudi_bridge.blob.source"
BLOB_MODE_KEY = "hoodie.read.blob.inline.mode"
READ_UNRELEASED_KEY = "hudi_bridge.read.unreleased"
PATHS_TELL_VALUES_KEY = "hudi_bridge.paths.tell.values"
METADATA_TABLE_KEY = "hoodie.metadata.enable"
DATA_SKIPPING_KEY = "hoodie.enable.data.skipping"
QUERY_TYPE_KEY = "hoodie.datasource.query.type"
VIEW_TYPE_KEY = "hoodie.datasource.view.type"
_INDEX_TYPE_KEY = "hoodie.index.type"
_BUCKET_ENGINE_KEY = "hoodie.index.bucket.engine"
_BUCKET_COUNT_KEY = "hoodie.bucket.index.num.buckets"
_BUCKET_FIELDS_KEY = "hoodie.bucket.index.hash.field"
RANGE_VERSION_KEY = "hoodie.datasource.read.incr.table.version"
END_SCHEMA_KEY = "hoodie.datasource.read.schema.use.end.instanttime"
COLUMN_IDS_KEY = "hoodie.schema.on.read.enable"
COMPLETION_TIMES_KEY = "hudi_bridge.completion.times"
OPTIMIZED_LOG_SCAN_KEY = "hoodie.optimized.log.blocks.scan.enable"
_FLAG_KEYS = (
    OPERATION_FIELD_KEY,
    READ_UNRELEASED_KEY,
    PATHS_TELL_VALUES_KEY,
    COMPLETION_TIMES_KEY,
    FULL_SCAN_FALLBACK_KEY,
    END_SCHEMA_KEY,
    COLUMN_IDS_KEY,
    METADATA_TABLE_KEY,
    DATA_SKIPPING_KEY,
    OPTIMIZED_LOG_SCAN_KEY,
)
_QUERY_OF_VIEW = {"read_optimized": "snapshot", "realtime": "snapshot", "incremental": "incremental"}
"""The query types by Hudi's words before 0.6, as Hudi translates them."""
_RELEASE_NUMBER = re.compile(r"(0|1)\.([0-9]{1,3})(?:\.[0-9]{1,3})?")


class Effect(StrEnum):
    """What becomes of an option: it is followed; it is an argument of single queries; it changes no row; refused."""

    HONOURED = "honoured"
    OF_QUERY = "of a query"
    HARMLESS = "harmless"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ReadOption:
    """A read option.

    ``meaning`` says what it does, in Hudi if it is refused. ``allowed`` is the value at which a refused option changes
    nothing, None if there is none. ``argument`` is what an option of a query is called outside of Spark.
    """

    name: str
    effect: Effect
    meaning: str
    allowed: str | None = None
    argument: str = ""


def _honoured() -> Iterator[ReadOption]:
    meanings = {
        "hoodie.payload.delete.field": "the column of the delete marker",
        "hoodie.payload.delete.marker": "the value of the delete marker",
        "hoodie.allow.operation.metadata.field": "whether rows have the operation of a changelog",
        "hoodie.write.record.merge.custom.implementation.classes": "the record mergers of the writers",
        "hoodie.datasource.write.record.merger.impls": "the record mergers of the writers",
        "hudi_bridge.read.as.release": "the release whose rules apply",
        "hudi_bridge.bootstrap.source": "the files that the table was bootstrapped from",
        "hudi_bridge.blob.source": "the files that BLOB columns refer to",
        "hoodie.read.blob.inline.mode": "whether BLOBs in Lance files are references or bytes",
        "hudi_bridge.read.unreleased": "whether table version 10 is read",
        "hudi_bridge.paths.tell.values": "whether rows have the values of their partition path",
        "hudi_bridge.completion.times": "whether rows have the completion times of their commits",
        "hoodie.datasource.read.incr.fallback.fulltablescan.enable": "whether ranges become full scans",
        "hoodie.read.timeline.holes.resolution.policy": "what to do where a write in a range is running",
        "hoodie.datasource.read.incr.table.version": "by which times commits lie in a range",
        "hoodie.datasource.read.schema.use.end.instanttime": "whether a range has the columns of its end",
        "hoodie.schema.on.read.enable": "whether columns are found by their ids",
        "hoodie.optimized.log.blocks.scan.enable": "whether log compactions replace blocks, by the rules of 0.x",
        "hoodie.metadata.enable": "whether the metadata table is read",
        "hoodie.enable.data.skipping": "whether indexes are used",
        "hoodie.datasource.query.type": "what a query reads",
        "hoodie.datasource.view.type": "what a query reads, by the words of Hudi before 0.6",
        "hoodie.index.type": "the index of the writers",
        "hoodie.index.bucket.engine": "the engine of their bucket index",
        "hoodie.bucket.index.num.buckets": "how many buckets a partition has",
        "hoodie.bucket.index.hash.field": "the fields that are hashed",
    }
    for name, meaning in meanings.items():
        yield ReadOption(name, Effect.HONOURED, meaning)


def _of_queries() -> Iterator[ReadOption]:
    arguments = {
        "as.of.instant": ("the instant of a time travel", "as_of"),
        "hoodie.datasource.read.begin.instanttime": ("where a range begins", "after"),
        "hoodie.datasource.read.end.instanttime": ("where a range ends", "up_to"),
        "hoodie.datasource.query.incremental.format": ("rows or changes", "incremental or changes"),
        "hoodie.datasource.streaming.startOffset": ("where a stream begins", "after"),
    }
    for name, (meaning, argument) in arguments.items():
        yield ReadOption(name, Effect.OF_QUERY, meaning, argument=argument)


def _harmless() -> Iterator[ReadOption]:
    groups = {
        "how files are found": (
            "hoodie.file.index.enable",
            "hoodie.file.index.cache.use.spillable.map",
            "hoodie.file.index.cache.spillable.mem",
            "hoodie.file.listing.parallelism",
            "hoodie.datasource.read.file.index.listing.mode",
            "hoodie.datasource.read.file.index.listing.partition-path-prefix.analysis.enabled",
            "hoodie.datasource.read.file.index.optimize.listing.using.path.filter",
            "hoodie.datasource.read.file.index.list.partitions.from.catalog",
            "hoodie.spark.polaris.catalog.class",
        ),
        "how the metadata table is read": (
            "hoodie.metadata.dir.filter.regex",
            "hoodie.metadata.file.cache.max.size.mb",
            "hoodie.metadata.max.reader.buffer.size",
            "hoodie.metadata.max.reader.memory",
            "hoodie.metadata.optimized.log.blocks.scan.enable",
            "hoodie.metadata.spillable.map.path",
            "hoodie.hfile.block.cache.enabled",
            "hoodie.hfile.block.cache.size",
            "hoodie.hfile.block.cache.ttl.minutes",
            "_hoodie.hfile.use.native.reader",
        ),
        "which indexes are used": (
            "hoodie.metadata.index.bloom.filter.enable",
            "hoodie.metadata.index.column.stats.enable",
            "hoodie.metadata.index.column.stats.column.list",
            "hoodie.metadata.index.column.stats.processing.mode.override",
            "hoodie.metadata.index.column.stats.inMemory.projection.threshold",
            "hoodie.metadata.index.expression.enable",
            "hoodie.metadata.index.partition.stats.enable",
            "hoodie.metadata.index.secondary.enable",
            "hoodie.metadata.global.record.level.index.enable",
            "hoodie.metadata.record.index.enable",
            "hoodie.metadata.record.level.index.enable",
        ),
        "how log blocks are read": ("hoodie.compaction.lazy.block.read",),
        "memory and disk": (
            "hoodie.common.diskmap.compression.enabled",
            "hoodie.common.spillable.diskmap.type",
            "hoodie.memory.compaction.fraction",
            "hoodie.memory.compaction.max.size",
            "hoodie.memory.dfs.buffer.max.size",
            "hoodie.memory.merge.fraction",
            "hoodie.memory.merge.max.size",
            "hoodie.memory.spillable.map.path",
            "hoodie.lance.read.allocator.size.bytes",
            "hoodie.lance.read.metadata.allocator.size.bytes",
        ),
        "writers alone": (
            "hoodie.datasource.write.reconcile.schema",
            "hoodie.write.set.null.for.missing.columns",
            "hoodie.fs.atomic_creation.support",
        ),
    }
    for meaning, names in groups.items():
        for name in names:
            yield ReadOption(name, Effect.HARMLESS, meaning)


def _refused() -> Iterator[ReadOption]:
    relation = "another relation: the timeline, or the files, instead of rows"
    fewer = "leaves out files, and rows with them"
    ordering = "orders the records of tables that do not say by what"
    reader = "another reader, of other rules"
    options: Mapping[str, tuple[str, str | None]] = {
        "hoodie.datasource.merge.type": ("returns rows of logs beside those that they replace", "payload_combine"),
        "hoodie.realtime.merge.skip": ("returns rows of logs beside those that they replace", "false"),
        "hoodie.datasource.read.incr.filters": ("further conditions; a query has its own", ""),
        "hoodie.datasource.read.incr.path.glob": (fewer, ""),
        "hoodie.datasource.read.incr.skip_compact": (fewer, "false"),
        "hoodie.datasource.read.incr.skip_cluster": (fewer, "false"),
        "hoodie.datasource.read.paths": (fewer, None),
        "hoodie.base.path": ("the folder of the table, which the path names", None),
        "hoodie.assume.date.partitioning": (fewer, "false"),
        "hoodie.datasource.read.extract.partition.values.from.path": (
            "takes values of partition columns from the path instead of the files", "false",
        ),
        "hoodie.datasource.read.partition.value.extractor.enabled": (
            "has a class of Java make values of partition columns from the path", "false",
        ),
        "hoodie.datasource.read.streaming.table.version": ("orders the commits of a stream by other times", None),
        "hoodie.datasource.read.create.filesystem.relation": (relation, None),
        "hoodie.datasource.read.table.valued.function.filesystem.relation.subpath": (relation, None),
        "hoodie.datasource.read.table.valued.function.timeline.relation": (relation, None),
        "hoodie.datasource.read.table.valued.function.timeline.relation.archived": (relation, None),
        "hoodie.datasource.read.use.new.parquet.file.format": (reader, "false"),
        "hoodie.file.group.reader.enabled": (reader, "true"),
        "hoodie.compaction.reverse.log.read": ("reads log blocks from the last to the first", "false"),
        "hoodie.merge.use.record.positions": ("where false, rows with the same key are merged otherwise", "true"),
        "hoodie.datasource.write.precombine.field": (ordering, None),
        "hoodie.payload.ordering.field": (ordering, None),
        "hoodie.payload.update.on.same.ordering.field": ("where false, the older of two equal records wins", "true"),
        "hoodie.record.merge.mode": ("merges records by another rule than that of the table", None),
    }  # fmt: skip
    for name, (meaning, allowed) in options.items():
        yield ReadOption(name, Effect.REFUSED, meaning, allowed=allowed)


READ_OPTIONS: Mapping[str, ReadOption] = {
    option.name: option for options in (_honoured(), _of_queries(), _harmless(), _refused()) for option in options
}
"""By name."""
_BY_LOWER_CASE = {name.lower(): name for name in READ_OPTIONS}


def names_of(*effects: Effect) -> tuple[str, ...]:
    """The names of the options with some effects."""
    return tuple(option.name for option in READ_OPTIONS.values() if option.effect in effects)


READ_OPTION_KEYS = names_of(Effect.HONOURED)
"""The options that change how a table is read; all but six have Hudi's names."""


def spelled(name: str) -> str:
    """The name of an option as Hudi spells it, for one in another case; others are returned as they are."""
    return _BY_LOWER_CASE.get(name.lower(), name)


def require_read_options(options: Mapping[str, str], more: Iterable[str] = ()) -> None:
    """Raises unless all options can be followed, or change nothing; ``more`` are further names.

    Raises:
        QueryError: there is no mapping, a name is not a read option, a value is no text, or the option would change
            rows and is not followed.
    """
    if not isinstance(options, Mapping):
        raise QueryError("options", repr(options), "a mapping of names to values")
    others = tuple(more)
    for name, value in options.items():
        option = READ_OPTIONS.get(name)
        if name in others:
            continue
        if option is None:
            raise QueryError("options", str(name), _nearest(str(name), (*READ_OPTIONS, *others)))
        require_text(name, value)
        if option.effect is Effect.OF_QUERY:
            raise QueryError(f"options: {name}", repr(value), f"{option.argument} of a query instead: {option.meaning}")
        if option.effect is Effect.REFUSED and value.lower() != option.allowed:
            instead = "no such option" if option.allowed is None else f"{option.allowed!r} or no such option"
            raise QueryError(f"options: {name}", repr(value), f"{instead}: in Hudi, {option.meaning}")
    for key in _FLAG_KEYS:
        # Also where a table makes no use of them.
        _flag(options, key)


def require_table_options(options: Mapping[str, str]) -> None:
    """Raises unless tables that are opened later can be opened with the options.

    Raises:
        QueryError: as for ``require_read_options``, or a value is not one that the option has.
    """
    require_read_options(options)
    ReadOptions.of(options)


def require_text(name: str, value: object) -> None:
    """Raises QueryError unless the value of an option is a text, as Hudi's options are."""
    if not isinstance(value, str):
        expected = f"a text, such as {str(value).lower()!r}"
        raise QueryError(f"options: {name}", f"{value!r}, a {type(value).__name__}", expected)


def _nearest(name: str, names: Iterable[str]) -> str:
    by_lower_case = {known.lower(): known for known in names}
    close = get_close_matches(name.lower(), by_lower_case, n=1)
    return f"{by_lower_case[close[0]]}, the nearest name" if close else "a read option; docs/options.md lists them"


class HollowCommitPolicy(StrEnum):
    """What to do if a write in the range is still running; the names are those of Hudi's option."""

    FAIL = "FAIL"
    BLOCK = "BLOCK"


class OnFilesGone(StrEnum):
    """What a read of the newest state does when files that it needs were removed after the table was opened."""

    ERROR = "error"
    REPLAN = "replan"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options that are not part of the ``TableConfig``.

    ``payloads`` are the user's own, by Java class name; ``log_memory_bytes`` is as in a split. ``full_scan_fallback``
    says whether an incremental query whose files were removed reads the whole table instead; if None, the table version
    decides. ``hollow_commits`` says what to do if a write in the range is still running. ``overrides_release``
    says whether the user has named the release whose rules apply, ``uses_metadata_table`` whether the metadata table
    may be read. Without ``data_skipping``, indexes are not used. ``bucket_count`` is the number of buckets of a simple
    bucket index, None if there is none or if it is not known; ``bucket_fields`` are the fields that it hashes, by
    default the record key fields. ``query_type`` is that of queries that do not say theirs. ``bootstrap_source`` is the
    folder of the files that a table was bootstrapped from, which may be read; None if they may not. ``blob_sources``
    are the folders of files that BLOB columns refer to, whose bytes are read; with ``blob_content``, BLOBs in Lance
    files are their bytes instead of references into the files. ``range_version`` is the table version by whose rules
    commits lie in a range, None for the table's own; with ``end_schema`` a range has the columns of its end, where
    Hudi gives them; without ``column_ids``, columns are found by name. ``completion_times`` says whether rows have the
    completion times of their commits. With ``optimized_log_scan``, log compactions of 0.x replace blocks.
    """

    payloads: Mapping[str, RecordPayload] = field(default_factory=dict)
    log_memory_bytes: int | None = None
    full_scan_fallback: bool | None = None
    hollow_commits: HollowCommitPolicy = HollowCommitPolicy.FAIL
    overrides_release: bool = False
    uses_metadata_table: bool = True
    data_skipping: bool = True
    bucket_count: int | None = None
    bucket_fields: tuple[str, ...] = ()
    query_type: QueryType = QueryType.SNAPSHOT
    bootstrap_source: str | None = None
    blob_sources: tuple[str, ...] = ()
    blob_content: bool = False
    range_version: int | None = None
    end_schema: bool = False
    column_ids: bool = True
    completion_times: bool = False
    optimized_log_scan: bool = False

    @classmethod
    def of(
        cls,
        options: Mapping[str, str],
        payloads: Mapping[str, RecordPayload] | None = None,
        log_memory_bytes: int | None = None,
    ) -> Self:
        """Parses the options.

        Raises:
            QueryError: a value is not one of Hudi's, a payload is none, or the memory is not a number above 0.
        """
        _require_payloads(payloads or {})
        _require_memory(log_memory_bytes)
        policy = options.get(HOLLOW_COMMITS_KEY, HollowCommitPolicy.FAIL).upper()
        if policy not in set(HollowCommitPolicy):
            raise QueryError(f"options: {HOLLOW_COMMITS_KEY}", repr(policy), " or ".join(HollowCommitPolicy))
        return cls(
            payloads=dict(payloads or {}),
            log_memory_bytes=log_memory_bytes,
            full_scan_fallback=_flag(options, FULL_SCAN_FALLBACK_KEY),
            hollow_commits=HollowCommitPolicy(policy),
            overrides_release=READ_AS_RELEASE_KEY in options,
            uses_metadata_table=_flag(options, METADATA_TABLE_KEY) is not False,
            data_skipping=_flag(options, DATA_SKIPPING_KEY) is not False,
            bucket_count=_bucket_count(options),
            bucket_fields=comma_separated(options.get(_BUCKET_FIELDS_KEY)),
            query_type=_query_type(options),
            bootstrap_source=options.get(BOOTSTRAP_SOURCE_KEY) or None,
            blob_sources=comma_separated(options.get(BLOB_SOURCE_KEY)),
            blob_content=_blob_content(options),
            range_version=range_version(options),
            end_schema=_flag(options, END_SCHEMA_KEY) is True,
            column_ids=_flag(options, COLUMN_IDS_KEY) is not False,
            completion_times=_flag(options, COMPLETION_TIMES_KEY) is True,
            optimized_log_scan=_flag(options, OPTIMIZED_LOG_SCAN_KEY) is True,
        )


def _require_payloads(payloads: Mapping[str, object]) -> None:
    for name, payload in payloads.items():
        if not isinstance(payload, RecordPayload):
            raise QueryError("payloads", f"{payload!r} for {name}", "an instance of RecordPayload or RecordMerger")


def _require_memory(log_memory_bytes: object) -> None:
    is_number = isinstance(log_memory_bytes, int) and not isinstance(log_memory_bytes, bool) and log_memory_bytes > 0
    if not (log_memory_bytes is None or is_number):
        raise QueryError("log_memory_bytes", repr(log_memory_bytes), "a number of bytes above 0")


def _flag(options: Mapping[str, str], key: str) -> bool | None:
    """The value of an option that is true or false, None if it is not given."""
    text = options.get(key)
    if text is not None and text.lower() not in ("true", "false"):
        raise QueryError(f"options: {key}", repr(text), "true or false")
    return None if text is None else text.lower() == "true"


def query_type_text(options: Mapping[str, str]) -> tuple[str, str] | None:
    """The option that says what a query reads, and its value in the words of today; None if neither option is given.

    Raises:
        QueryError: the value of the older option is not one of Hudi's.
    """
    if QUERY_TYPE_KEY in options:
        return QUERY_TYPE_KEY, options[QUERY_TYPE_KEY].lower()
    if VIEW_TYPE_KEY not in options:
        return None
    view = options[VIEW_TYPE_KEY]
    if view.lower() not in _QUERY_OF_VIEW:
        raise QueryError(f"options: {VIEW_TYPE_KEY}", repr(view), " or ".join(_QUERY_OF_VIEW))
    return VIEW_TYPE_KEY, _QUERY_OF_VIEW[view.lower()]


def with_query_type(options: Mapping[str, str], query_type: QueryType) -> dict[str, str]:
    """The options with a query type, for those that say none themselves."""
    return dict(options) if query_type_text(options) else {QUERY_TYPE_KEY: query_type.value, **options}


def _query_type(options: Mapping[str, str]) -> QueryType:
    key, text = query_type_text(options) or (QUERY_TYPE_KEY, QueryType.SNAPSHOT)
    if text not in (QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED):
        expected = f"{QueryType.SNAPSHOT} or {QueryType.READ_OPTIMIZED}"
        raise QueryError(f"options: {key}", repr(options[key]), expected)
    return QueryType(text)


def range_version(options: Mapping[str, str]) -> int | None:
    """The table version by whose rules commits lie in a range; None for that of the table."""
    text = options.get(RANGE_VERSION_KEY)
    if text is not None and not re.fullmatch("[0-9]{1,3}", text):
        raise QueryError(f"options: {RANGE_VERSION_KEY}", repr(text), "a table version")
    return None if text is None else int(text)


def _blob_content(options: Mapping[str, str]) -> bool:
    """Whether BLOBs in Lance files are their bytes; references into the files by default, as in Hudi."""
    text = options.get(BLOB_MODE_KEY, "DESCRIPTOR")
    if text.upper() not in ("CONTENT", "DESCRIPTOR"):
        raise QueryError(f"options: {BLOB_MODE_KEY}", repr(text), "CONTENT or DESCRIPTOR")
    return text.upper() == "CONTENT"


def _bucket_count(options: Mapping[str, str]) -> int | None:
    text = options.get(_BUCKET_COUNT_KEY)
    if text is not None and not re.fullmatch("[1-9][0-9]{0,7}", text.strip()):
        raise QueryError(f"options: {_BUCKET_COUNT_KEY}", repr(text), "a whole number of buckets")
    is_simple = options.get(_BUCKET_ENGINE_KEY, "SIMPLE").upper() == "SIMPLE"
    has_buckets = options.get(_INDEX_TYPE_KEY, "").upper() == "BUCKET" and is_simple
    return int(text) if text is not None and has_buckets else None


def with_read_options(config: TableConfig, options: Mapping[str, str]) -> TableConfig:
    """Adds the options of a reader to a configuration.

    They supply what tables do not record: of Hudi 0.x the delete marker, the record mergers, and whether Hudi 1.x
    writes the table now without having changed its properties, and whether rows have the values of their partition
    path; of any release, whether rows have the operation of a changelog. Options of single queries have no effect here.

    Raises:
        QueryError: an option is unknown or refused, or its value is invalid.
        UnsupportedTableError: no release of Hudi writes such tables yet, and no option says to read them all the same.
    """
    require_read_options(options)
    if not config.layout.is_released and not _flag(options, READ_UNRELEASED_KEY):
        raise _unreleased(config)
    markers = {name: options[name] for name in DELETE_MARKER_KEYS if name in options}
    if READ_AS_RELEASE_KEY in options:
        config = _as_release(config, options[READ_AS_RELEASE_KEY])
    has_operations = _flag(options, OPERATION_FIELD_KEY)
    version = range_version(options)
    asks_for_requests = version is not None and version < FIRST_VERSION_WITH_COMPLETION_TIMES
    return replace(
        config,
        allow_operation_field=config.allow_operation_field if has_operations is None else has_operations,
        merge_properties=tuple((dict(config.merge_properties) | markers).items()),
        ranges_by_request=config.ranges_by_request or asks_for_requests,
        paths_tell_values=_flag(options, PATHS_TELL_VALUES_KEY) is True,
        record_merger_impls=comma_separated(",".join(options.get(key, "") for key in _RECORD_MERGERS_KEYS)),
    )


def _unreleased(config: TableConfig) -> UnsupportedTableError:
    versions, version = ", ".join(map(str, RELEASED_VERSIONS)), config.table_version
    supported = f"{versions}, and with the option {READ_UNRELEASED_KEY}=true {version} as it is planned"
    return UnsupportedTableError("table version", f"{version}, which no release of Hudi writes", supported)


def _as_release(config: TableConfig, text: str) -> TableConfig:
    match = _RELEASE_NUMBER.fullmatch(text.strip())
    if match is None:
        raise QueryError(f"options: {READ_AS_RELEASE_KEY}", repr(text), "a release of Hudi, such as 0.15 or 1.2")
    release = Release.of_number(int(match[1]), int(match[2]))
    if release < config.layout.oldest_release:
        expected = f"a release that reads table version {config.table_version}"
        raise QueryError(f"options: {READ_AS_RELEASE_KEY}", repr(text), expected)
    return replace(config, release=release)
