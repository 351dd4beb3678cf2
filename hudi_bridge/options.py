"""The options of a reader: Hudi's read options, payloads, memory.

Source: ``HoodieReaderConfig``, ``DataSourceReadOptions``, ``HoodieCommonConfig``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from hudi_bridge.config import (
    DELETE_MARKER_KEYS,
    OPERATION_FIELD_KEY,
    QueryType,
    TableConfig,
    comma_separated,
)
from hudi_bridge.errors import QueryError, UnsupportedTableError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.option_table import Effect, names_of, require_read_options
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
READ_OPTION_KEYS = names_of(Effect.HONOURED)
"""The options that change how a table is read; all but five have Hudi's names."""
_QUERY_OF_VIEW = {"read_optimized": "snapshot", "realtime": "snapshot", "incremental": "incremental"}
"""The query types by Hudi's words before 0.6, as Hudi translates them."""
_RELEASE_NUMBER = re.compile(r"(0|1)\.([0-9]{1,3})(?:\.[0-9]{1,3})?")


class HollowCommitPolicy(StrEnum):
    """What to do if a write in the range is still running; the names are those of Hudi's option."""

    FAIL = "FAIL"
    BLOCK = "BLOCK"


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
    Hudi gives them; without ``column_ids``, columns are found by name.
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
    is_simple = options.get(_BUCKET_ENGINE_KEY, "SIMPLE").upper() == "SIMPLE"
    if text is None or options.get(_INDEX_TYPE_KEY, "").upper() != "BUCKET" or not is_simple:
        return None
    if not re.fullmatch("[1-9][0-9]{0,7}", text.strip()):
        raise QueryError(f"options: {_BUCKET_COUNT_KEY}", repr(text), "a whole number of buckets")
    return int(text)


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
    if not config.layout.is_released:
        config = _unreleased(config, options)
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


def _unreleased(config: TableConfig, options: Mapping[str, str]) -> TableConfig:
    """The options without the metadata table, since nobody knows yet how its log files are written."""
    if not _flag(options, READ_UNRELEASED_KEY):
        versions, version = ", ".join(map(str, RELEASED_VERSIONS)), config.table_version
        supported = f"{versions}, and with the option {READ_UNRELEASED_KEY}=true {version} as it is planned"
        found = f"{version}, which no release of Hudi writes"
        raise UnsupportedTableError("table version", found, supported)
    return replace(config, metadata_partitions=(), metadata_partitions_inflight=())


def _as_release(config: TableConfig, text: str) -> TableConfig:
    match = _RELEASE_NUMBER.fullmatch(text.strip())
    if match is None:
        raise QueryError(f"options: {READ_AS_RELEASE_KEY}", repr(text), "a release of Hudi, such as 0.15 or 1.2")
    release = Release.of_number(int(match[1]), int(match[2]))
    if release < config.layout.oldest_release:
        expected = f"a release that reads table version {config.table_version}"
        raise QueryError(f"options: {READ_AS_RELEASE_KEY}", repr(text), expected)
    return replace(config, release=release)
