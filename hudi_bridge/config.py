r"""Reads ``.hoodie/hoodie.properties`` into a ``TableConfig``.

    table version  timeline layout  written by
    5              1                0.12, 0.13
    6              1                0.14, 0.15, and 1.x when told to
    8              2                1.0
    9              2                1.1, 1.2
    10             2                no release yet

A writer deletes and rewrites the file, with a copy in ``hoodie.properties.backup``. Meanwhile, either may be missing or
truncated.

It is in Latin-1 and the syntax of ``java.util.Properties``: ``#`` and ``!`` begin comments; ``=``, ``:`` or blanks end
a key; an odd number of backslashes at the end of a line joins the next line; ``\:``, ``\=``, ``\\``, ``\t``, ``\uXXXX``
are escapes.

Source: ``HoodieTableConfig`` of Hudi 0.12 to 1.2; ``ConfigUtils.fetchConfigs`` for the backup.
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import TypeVar

from hudi_bridge.errors import CorruptTimelineError, TableNotFoundError, UnsupportedTableError
from hudi_bridge.releases import (
    LSM_TREE,
    RELEASE_RULES,
    RELEASED_VERSIONS,
    TABLE_LAYOUTS,
    Release,
    ReleaseRules,
    TableLayout,
)
from hudi_bridge.storage.storage import Storage

_LINE_END = re.compile(r"\r\n|\n|\r")
_ESCAPE = re.compile(r"\\(?:u(.{0,4})|(.?))", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.?)*", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
HOODIE_FOLDER = ".hoodie"
PROPERTIES_PATH = f"{HOODIE_FOLDER}/hoodie.properties"
BACKUP_PATH = f"{HOODIE_FOLDER}/hoodie.properties.backup"
BASE_FILE_FORMATS = ("PARQUET", "ORC", "HFILE", "LANCE")
"""The formats of base files, in Hudi's words; in lower case, the extensions of their names."""
TIMESTAMP_GENERATOR = "TIMESTAMP"
"""The key generator whose partition fields are all formatted times."""
_TIMEBASED_PREFIX = "hoodie.keygen.timebased."
_MERGE_PREFIX = "hoodie.record.merge.property."
OPERATION_FIELD_KEY = "hoodie.allow.operation.metadata.field"
DELETE_MARKER_KEYS = ("hoodie.payload.delete.field", "hoodie.payload.delete.marker")
_MERGE_STRATEGY_KEYS = ("hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy")
_ORDERING_KEYS = ("hoodie.table.ordering.fields", "hoodie.table.precombine.field")
_BASE_FORMAT_KEYS = ("hoodie.table.base.file.format", "hoodie.table.ro.file.format")
_META_FIELDS_KEY = "hoodie.meta.fields.mode"
_KEYS_OF_11 = (_ORDERING_KEYS[0], "hoodie.table.format", _META_FIELDS_KEY)
_KEYS_OF_1X = (*_KEYS_OF_11, _MERGE_STRATEGY_KEYS[0], "hoodie.record.merge.mode", "hoodie.table.initial.version")
_LOG_FORMAT_KEYS = ("hoodie.table.log.file.format", "hoodie.table.rt.file.format")
_LOG_FORMAT = "HOODIE_LOG"
_UPDATES_ON_SAME_ORDER_KEY = "hoodie.payload.update.on.same.ordering.field"
BOOTSTRAP_INDEX = "HFileBootstrapIndex"
"""The name, without its package, of the only class of Hudi that finds the files of bootstrapped tables."""
_WHOLE_NUMBER = re.compile("[0-9]{1,9}")
_REQUIRED_KEYS = ("hoodie.table.name", "hoodie.table.type")
_HUDI_PACKAGES = ("org.apache.hudi", "org.apache.spark.sql.hudi")
_KEY_GENERATOR_TYPES = {
    "Simple": "SIMPLE",
    "Complex": "COMPLEX",
    "TimestampBased": TIMESTAMP_GENERATOR,
    "Custom": "CUSTOM",
    "Nonpartitioned": "NON_PARTITION",
    "GlobalDelete": "GLOBAL_DELETE",
    "AutoRecordGenWrapper": "AUTO_RECORD",
    "HoodieTableMetadata": "HOODIE_TABLE_METADATA",
    "Sql": "SPARK_SQL",
    "Uuid": "SPARK_SQL_UUID",
    "MergeInto": "SPARK_SQL_MERGE_INTO",
}
_Member = TypeVar("_Member", bound=Enum)


class TableType(StrEnum):
    """Whether a table writes updates to new base files or to log files. Source: ``HoodieTableType`` of Hudi."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class MergeMode(StrEnum):
    """Which version of a record wins: the latest, the one with the highest ordering value, or a payload's choice.

    Source: ``RecordMergeMode`` of Hudi.
    """

    COMMIT_TIME = "COMMIT_TIME_ORDERING"
    EVENT_TIME = "EVENT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class QueryType(StrEnum):
    """What a query reads: base files merged with logs, base files only, or rows or changes of a range of commits.

    All but the last are values of ``hoodie.datasource.query.type``. Source: ``DataSourceReadOptions`` of Hudi.
    """

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"
    INCREMENTAL = "incremental"
    CHANGES = "changes"


class PartitionFieldKind(StrEnum):
    """How a field becomes part of the partition path: its value as text, a formatted time, or one of the two.

    Tables of version 6 do not say which of the two it is for a field of the ``CustomKeyGenerator``.
    """

    SIMPLE = "SIMPLE"
    TIMESTAMP = "TIMESTAMP"
    UNKNOWN = ""


_KINDS_OF_FIELDS = {TIMESTAMP_GENERATOR: PartitionFieldKind.TIMESTAMP, "CUSTOM": PartitionFieldKind.UNKNOWN}
"""By key generator, the kind of a partition field for which the properties state none; otherwise it is simple."""


class CdcMode(StrEnum):
    """What the writer stores of a change in addition to the operation and the key."""

    OP_KEY_ONLY = "OP_KEY_ONLY"
    DATA_BEFORE = "DATA_BEFORE"
    DATA_BEFORE_AFTER = "DATA_BEFORE_AFTER"


class MetaFieldsMode(StrEnum):
    """Which meta columns have values: all, none, or commit times and file names. Source: ``MetaFieldsMode`` of Hudi."""

    ALL = "ALL"
    NONE = "NONE"
    COMMIT_TIME_ONLY = "COMMIT_TIME_ONLY"
    FILE_NAME_ONLY = "FILE_NAME_ONLY"
    COMMIT_TIME_AND_FILE_NAME = "COMMIT_TIME_AND_FILE_NAME"

    @property
    def has_commit_times(self) -> bool:
        """Whether rows have the commit that wrote them."""
        return self not in (MetaFieldsMode.NONE, MetaFieldsMode.FILE_NAME_ONLY)

    @property
    def is_selective(self) -> bool:
        """Whether rows have all meta columns, but values only in some of them."""
        return self not in (MetaFieldsMode.ALL, MetaFieldsMode.NONE)


class TimelineTimezone(StrEnum):
    """The time zone of the instants: UTC, or the local zone of the writers."""

    LOCAL = "LOCAL"
    UTC = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """The properties of a table that change how it is read.

    ``timeline_path`` and ``archived_path`` are relative to the table. ``key_generator`` is Hudi's name of the type
    (``SIMPLE``), the class name of a user's own, or None if the file names none. ``partition_field_kinds`` has one kind
    for each of ``partition_fields``. ``timebased_properties`` (``hoodie.keygen.timebased.*``) and ``merge_properties``
    (``hoodie.record.merge.property.*``) are pairs of a key without its prefix and a value. ``metadata_partitions`` are
    the indexes that are complete, ``metadata_partitions_inflight`` those that are being built. ``merge_mode`` is None
    unless the file states one. ``ranges_by_request`` is whether commits lie in a range by their requested times,
    instead of their completion times. ``allow_operation_field`` is whether rows have the operation of a changelog,
    None if only files tell. ``bootstrap_base_path`` is where the files were that the table was bootstrapped from,
    None if it was not, and ``bootstrap_index`` the class that finds them, without its package.
    ``index_definitions_path`` is where the definitions of indexes are, relative to the table, None for Hudi's default.
    ``paths_tell_values`` is whether the reader promises that rows have the values of their partition path, also in
    columns that are read from the files.
    ``is_lsm_tree`` is whether all files are sorted by record key. ``meta_fields`` is which meta columns have values.
    ``release`` is the release of Hudi that maintains the table, as whose rules it is read: each may also write older
    table versions.

    Made by ``HudiTable.config``.
    """

    table_path: str
    name: str
    database_name: str
    table_type: TableType
    table_version: int
    timeline_layout: int
    ranges_by_request: bool
    timeline_path: str
    archived_path: str
    timeline_timezone: TimelineTimezone
    record_key_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    partition_field_kinds: tuple[PartitionFieldKind, ...]
    key_generator: str | None
    timebased_properties: tuple[tuple[str, str], ...]
    base_file_format: str
    is_lsm_tree: bool
    bootstrap_base_path: str | None
    bootstrap_index: str
    index_definitions_path: str | None
    meta_fields: MetaFieldsMode
    allow_operation_field: bool | None
    drops_partition_columns: bool
    hive_style_partitioning: bool
    url_encode_partitions: bool
    slash_separated_dates: bool
    create_schema: str | None
    cdc_enabled: bool
    cdc_mode: CdcMode | None
    metadata_partitions: tuple[str, ...]
    metadata_partitions_inflight: tuple[str, ...]
    merge_mode: MergeMode | None
    merge_strategy_id: str | None
    payload_class: str | None
    legacy_payload_class: str | None
    partial_update_mode: str | None
    merge_properties: tuple[tuple[str, str], ...]
    record_merger_impls: tuple[str, ...]
    paths_tell_values: bool
    release: Release

    @property
    def layout(self) -> TableLayout:
        """What tables of this version store."""
        return TABLE_LAYOUTS[self.table_version]

    @property
    def rules(self) -> ReleaseRules:
        """How the release reads the table."""
        return RELEASE_RULES[self.release, self.timeline_layout]

    @property
    def populates_meta_fields(self) -> bool:
        """Whether rows have values in all meta columns."""
        return self.meta_fields is MetaFieldsMode.ALL

    @property
    def rows_tell_commits(self) -> bool:
        """Whether each row has the commit that wrote it.

        Logs of tables with values in some meta columns alone may lack it: no release of Hudi writes such logs.
        """
        is_in_files = self.table_type is TableType.COPY_ON_WRITE or not self.meta_fields.is_selective
        return self.meta_fields.has_commit_times and is_in_files

    @property
    def dropped_columns(self) -> tuple[str, ...]:
        """The partition columns that files and schemas lack, and that queries have as text.

        A partition field within a struct (``o.a``) is no column: its struct is in the files, and is never dropped.

        Source: ``TableSchemaResolver.appendPartitionColumns``.
        """
        if not self.drops_partition_columns:
            return ()
        return tuple(name for name in self.partition_fields if "." not in name)


def read_table_config(storage: Storage) -> TableConfig:
    """Reads the configuration of a table.

    Raises:
        TableNotFoundError: the folder is missing or holds no ``.hoodie``.
        CorruptTimelineError: the properties, and their backup if any, are missing, truncated or not readable.
        UnsupportedTableError: the table uses a version or a file format that cannot be read correctly.
    """
    first_error: CorruptTimelineError | None = None
    for path in (PROPERTIES_PATH, BACKUP_PATH):
        try:
            content = storage.read_bytes(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            return parse_table_config(_parse_whole_file(content, path), path, storage.shown_path)
        except CorruptTimelineError as error:
            # The other of the two files may be complete.
            first_error = first_error or error
    if first_error is not None:
        raise first_error
    raise _missing_properties(storage)


def parse_table_config(properties: Mapping[str, str], path: str, table_path: str) -> TableConfig:
    """Parses the properties of a table; ``path`` is their file, for errors.

    Raises:
        CorruptTimelineError: a value is invalid.
        UnsupportedTableError: the table uses a version or a file format that cannot be read correctly.
    """
    version = _integer(properties, "hoodie.table.version", 0, path)
    layout = _layout(properties, version, path)
    _refuse_unsupported(properties, layout)
    partition_fields, partition_field_kinds = _partition_fields(properties)
    cdc_enabled = _flag(properties, "hoodie.table.cdc.enabled")
    timeline_path, archived_path = _timeline_paths(properties, layout.timeline)
    return TableConfig(
        table_path=table_path,
        name=properties["hoodie.table.name"],
        database_name=properties.get("hoodie.database.name", ""),
        table_type=_member(TableType, properties["hoodie.table.type"], "table type"),
        table_version=version,
        timeline_layout=layout.timeline,
        ranges_by_request=not layout.has_completion_times,
        timeline_path=timeline_path,
        archived_path=archived_path,
        timeline_timezone=_member(
            TimelineTimezone,
            properties.get("hoodie.table.timeline.timezone", "LOCAL").upper(),
            "timeline timezone",
        ),
        record_key_fields=comma_separated(properties.get("hoodie.table.recordkey.fields")),
        ordering_fields=comma_separated(_first(properties, _ORDERING_KEYS)),
        partition_fields=partition_fields,
        partition_field_kinds=partition_field_kinds,
        key_generator=_key_generator(properties),
        timebased_properties=_with_prefix(properties, _TIMEBASED_PREFIX),
        base_file_format=(_first(properties, _BASE_FORMAT_KEYS) or "PARQUET").upper(),
        is_lsm_tree=_storage_layout(properties) == LSM_TREE,
        bootstrap_base_path=properties.get("hoodie.bootstrap.base.path") or None,
        bootstrap_index=_bootstrap_index(properties),
        index_definitions_path=properties.get("hoodie.table.index.defs.path") or None,
        meta_fields=_meta_fields(properties),
        allow_operation_field=_flag(properties, OPERATION_FIELD_KEY) if OPERATION_FIELD_KEY in properties else None,
        drops_partition_columns=_flag(properties, "hoodie.datasource.write.drop.partition.columns"),
        hive_style_partitioning=_flag(properties, "hoodie.datasource.write.hive_style_partitioning"),
        url_encode_partitions=_flag(properties, "hoodie.datasource.write.partitionpath.urlencode"),
        slash_separated_dates=_flag(properties, "hoodie.datasource.write.slash.separated.date.partitioning"),
        create_schema=properties.get("hoodie.table.create.schema") or None,
        cdc_enabled=cdc_enabled,
        cdc_mode=_cdc_mode(properties) if cdc_enabled else None,
        metadata_partitions=comma_separated(properties.get("hoodie.table.metadata.partitions")),
        metadata_partitions_inflight=comma_separated(properties.get("hoodie.table.metadata.partitions.inflight")),
        merge_mode=_merge_mode(properties),
        merge_strategy_id=_first(properties, _MERGE_STRATEGY_KEYS),
        payload_class=properties.get("hoodie.compaction.payload.class") or None,
        legacy_payload_class=properties.get("hoodie.table.legacy.payload.class") or None,
        partial_update_mode=properties.get("hoodie.table.partial.update.mode") or None,
        merge_properties=_merge_properties(properties),
        record_merger_impls=(),
        paths_tell_values=False,
        release=_release(properties, layout),
    )


def config_of_metadata_table(config: TableConfig) -> TableConfig:
    """The configuration of a table's metadata table, whose timeline has the same layout, in the default folders."""
    timeline_path, archived_path = _timeline_paths({}, config.timeline_layout)
    return replace(config, timeline_path=timeline_path, archived_path=archived_path, base_file_format="HFILE")


def _parse_whole_file(content: bytes, path: str) -> dict[str, str]:
    text = content.decode("latin-1")
    try:
        properties = parse_properties(text)
    except ValueError as error:
        raise CorruptTimelineError(path, None, f"the escape {error}", "\\u with four hexadecimal digits") from error
    missing = [key for key in _REQUIRED_KEYS if not properties.get(key)]
    if missing:
        raise CorruptTimelineError(path, None, "properties without " + ", ".join(missing), "the properties of a table")
    if not text.endswith(("\n", "\r")):
        raise CorruptTimelineError(path, len(content), "the end of the file inside a line", "a line end")
    checksum = properties.get("hoodie.table.checksum")
    expected = _checksum(properties)
    if checksum is not None and checksum != expected:
        raise CorruptTimelineError(path, None, f"hoodie.table.checksum {checksum}", expected)
    return properties


def _checksum(properties: Mapping[str, str]) -> str:
    full_name = f"{properties.get('hoodie.database.name', '')}.{properties['hoodie.table.name']}"
    return str(zlib.crc32(full_name.encode("utf-8", "replace")))


def _missing_properties(storage: Storage) -> CorruptTimelineError | TableNotFoundError:
    if storage.exists(HOODIE_FOLDER):
        return CorruptTimelineError(PROPERTIES_PATH, None, "no such file, and no backup", "the properties of the table")
    if not storage.exists(""):
        return TableNotFoundError(storage.shown_path, "there is no such folder")
    if storage.is_file(""):
        return TableNotFoundError(storage.shown_path, "this is a file, the path of a table is a folder")
    if not storage.list_directory("", must_exist=True):
        return TableNotFoundError(storage.shown_path, "the folder is empty")
    return TableNotFoundError(storage.shown_path, f"the folder holds no {HOODIE_FOLDER}")


def _layout(properties: Mapping[str, str], version: int, path: str) -> TableLayout:
    """The layout of a table version, if the timeline is as it says."""
    if version not in TABLE_LAYOUTS:
        raise UnsupportedTableError("table version", str(version), ", ".join(map(str, RELEASED_VERSIONS)))
    layout = TABLE_LAYOUTS[version]
    timeline = _integer(properties, "hoodie.timeline.layout.version", layout.timeline, path)
    if timeline != layout.timeline:
        raise UnsupportedTableError(
            "timeline layout", f"{timeline} in a table of version {version}", str(layout.timeline)
        )
    return layout


def _release(properties: Mapping[str, str], layout: TableLayout) -> Release:
    """The release that maintains a table: the oldest that writes its version, or a newer one that left properties."""
    if any(key in properties for key in _KEYS_OF_11):
        return Release.V1_1
    if any(key in properties for key in _KEYS_OF_1X):
        return max(layout.oldest_release, Release.V1_0)
    return layout.oldest_release


def _refuse_unsupported(properties: Mapping[str, str], layout: TableLayout) -> None:
    table_format = properties.get("hoodie.table.format") or "native"
    if table_format.lower() != "native":
        raise UnsupportedTableError("table format", table_format, "native")
    storage_layout = _storage_layout(properties)
    if storage_layout not in layout.storage_layouts:
        raise UnsupportedTableError("storage layout", storage_layout, ", ".join(layout.storage_layouts))
    base_file_format = _first(properties, _BASE_FORMAT_KEYS) or "PARQUET"
    if base_file_format.upper() not in BASE_FILE_FORMATS:
        raise UnsupportedTableError("base file format", base_file_format, ", ".join(BASE_FILE_FORMATS))
    if _flag(properties, "hoodie.table.multiple.base.file.formats.enable"):
        raise UnsupportedTableError("base file format", "several formats in one table", "one format")

    log_format = _first(properties, _LOG_FORMAT_KEYS) or _LOG_FORMAT
    log_formats = (_LOG_FORMAT, *layout.native_log_formats)
    if log_format.upper() not in log_formats:
        raise UnsupportedTableError("log file format", log_format, ", ".join(log_formats))
    for key in (_UPDATES_ON_SAME_ORDER_KEY, f"{_MERGE_PREFIX}{_UPDATES_ON_SAME_ORDER_KEY}"):
        if not _flag(properties, key, default=True):
            raise UnsupportedTableError("property of the payload", f"{key}=false", "true, as by default")


def _storage_layout(properties: Mapping[str, str]) -> str:
    return (properties.get("hoodie.table.storage.layout") or "default").lower()


def _timeline_paths(properties: Mapping[str, str], timeline_layout: int) -> tuple[str, str]:
    # Hudi 1.x also writes the folders of layout 2 for tables of layout 1, but does not use them.
    if timeline_layout == 1:
        return HOODIE_FOLDER, _join(HOODIE_FOLDER, properties.get("hoodie.archivelog.folder", "archived"))
    timeline_path = _join(HOODIE_FOLDER, properties.get("hoodie.timeline.path", "timeline"))
    return timeline_path, _join(timeline_path, properties.get("hoodie.timeline.history.path", "history"))


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if name else folder


def _partition_fields(
    properties: Mapping[str, str],
) -> tuple[tuple[str, ...], tuple[PartitionFieldKind, ...]]:
    generator = _key_generator(properties)
    default = _KINDS_OF_FIELDS.get(generator or "", PartitionFieldKind.SIMPLE)
    fields = []
    kinds = []
    for entry in comma_separated(properties.get("hoodie.table.partition.fields")):
        name, _, kind = entry.partition(":")
        fields.append(name)
        kinds.append(_member(PartitionFieldKind, kind.upper(), "partition field kind") if kind else default)
    return tuple(fields), tuple(kinds)


def _bootstrap_index(properties: Mapping[str, str]) -> str:
    if not _flag(properties, "hoodie.bootstrap.index.enable", default=True):
        return "NONE"
    class_name = properties.get("hoodie.bootstrap.index.class")
    if class_name:
        return class_name.rpartition(".")[2]
    kind = properties.get("hoodie.bootstrap.index.type") or "HFILE"
    return BOOTSTRAP_INDEX if kind == "HFILE" else kind


def _key_generator(properties: Mapping[str, str]) -> str | None:
    kind = properties.get("hoodie.table.keygenerator.type", "").upper().removesuffix("_AVRO")
    class_name = properties.get("hoodie.table.keygenerator.class", "")
    if kind and kind != "USER_PROVIDED":
        return kind
    package, _, simple_name = class_name.rpartition(".")
    if package.startswith(_HUDI_PACKAGES):
        stem = simple_name.removesuffix("KeyGenerator").replace("Avro", "")
        return _KEY_GENERATOR_TYPES.get(stem, class_name)
    return class_name or None


def _meta_fields(properties: Mapping[str, str]) -> MetaFieldsMode:
    # The mode counts more than the older property, which says less.
    if mode := properties.get(_META_FIELDS_KEY, "").strip():
        return _member(MetaFieldsMode, mode.upper(), _META_FIELDS_KEY)
    is_all = _flag(properties, "hoodie.populate.meta.fields", default=True)
    return MetaFieldsMode.ALL if is_all else MetaFieldsMode.NONE


def _merge_mode(properties: Mapping[str, str]) -> MergeMode | None:
    mode = properties.get("hoodie.record.merge.mode")
    return _member(MergeMode, mode.upper(), "record merge mode") if mode else None


def _merge_properties(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    # Before table version 9 the keys of the delete marker have no prefix.
    markers = {key: properties[key] for key in DELETE_MARKER_KEYS if key in properties}
    return tuple(sorted((markers | dict(_with_prefix(properties, _MERGE_PREFIX))).items()))


def _cdc_mode(properties: Mapping[str, str]) -> CdcMode:
    mode = properties.get("hoodie.table.cdc.supplemental.logging.mode", CdcMode.DATA_BEFORE_AFTER)
    return _member(CdcMode, mode.upper(), "change data capture mode")


def _with_prefix(properties: Mapping[str, str], prefix: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key.removeprefix(prefix), text) for key, text in properties.items() if key.startswith(prefix)))


def _first(properties: Mapping[str, str], keys: Iterable[str]) -> str | None:
    return next((properties[key] for key in keys if properties.get(key)), None)


def comma_separated(text: str | None) -> tuple[str, ...]:
    """The names in a comma-separated list; empty for None."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _flag(properties: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    text = properties.get(key, "").strip().lower()
    return text == "true" if text else default


def _integer(properties: Mapping[str, str], key: str, default: int, path: str) -> int:
    text = properties.get(key, "").strip()
    if not text:
        return default
    if not _WHOLE_NUMBER.fullmatch(text):
        raise CorruptTimelineError(path, None, f"{key}={text}", "a whole number")
    return int(text)


def _member(enum: type[_Member], text: str, feature: str) -> _Member:
    try:
        return enum(text.strip())
    except ValueError as error:
        raise UnsupportedTableError(feature, text, ", ".join(str(member.value) for member in enum)) from error


def parse_properties(text: str) -> dict[str, str]:
    r"""The key-value pairs of a properties file; the last of equal keys counts.

    Raises:
        ValueError: ``\u`` is not followed by four hexadecimal digits.
    """
    pairs = (_split_line(line) for line in _iter_logical_lines(text))
    return {_unescape(key): _unescape(value) for key, value in pairs}


def _iter_logical_lines(text: str) -> Iterator[str]:
    parts: list[str] = []
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if not parts and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            parts.append(line[:-1])
            continue
        yield "".join(parts) + line
        parts = []
    if parts:
        yield "".join(parts)


def _split_line(line: str) -> tuple[str, str]:
    key = _KEY.match(line)
    assert key is not None
    value = line[key.end() :].lstrip(_BLANKS)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANKS)
    return key[0], value


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    unescaped = _ESCAPE.sub(_unescape_one, text)
    if not _SURROGATE.search(unescaped):
        return unescaped
    # Two escapes may be a surrogate pair.
    return unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unescape_one(match: re.Match[str]) -> str:
    digits, character = match.groups()
    if digits is None:
        return _ESCAPED.get(character, character)
    if not re.fullmatch("[0-9A-Fa-f]{4}", digits):
        raise ValueError(f"\\u{digits}")
    return chr(int(digits, 16))
