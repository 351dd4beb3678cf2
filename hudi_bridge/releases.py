"""What depends on the release of Hudi that maintains a table, and on the table's version.

A table is read as the release would read it that maintains it: ``RELEASE_RULES`` says how releases differ in that.
A table version says what is stored, whatever the release: ``TABLE_LAYOUTS`` says how versions differ. Everything else
reads the attributes of ``TableConfig.rules`` and ``TableConfig.layout``, so a new release or version is a new entry
here, and a new difference a new field.

Which rules merge records is in ``merge.rules``, whose entries name the releases for which they hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

LSM_TREE = "lsm_tree"
"""The storage layout of file groups whose files are sorted by record key."""


class Series(StrEnum):
    """The series of a release. Each commit shows which of the two wrote it."""

    V0 = "0.x"
    V1 = "1.x"


class Release(StrEnum):
    """Releases of Hudi that read tables differently; texts sort from the oldest release to the newest.

    Part of a ``TableConfig``, for the readers of this package: it may change with any release of Hudi Bridge.
    """

    V0 = "0.x"
    V1_0 = "1.0"
    V1_1 = "1.1"

    @classmethod
    def of_number(cls, major: int, minor: int) -> "Release":
        """The release with the rules of a release number, such as 0.15 or 1.2."""
        if major < 1:
            return cls.V0
        return cls.V1_0 if (major, minor) < (1, 1) else cls.V1_1


class PathColumns(StrEnum):
    """Which partition columns are read from the partition path, if the files have them too.

    ``ALL_OF_BASE_FILES``: all of them, in queries that read base files alone and whose columns have no ids; in other
    queries none. ``SIMPLE_FIELDS``: in all queries, those that are neither formatted times nor ordering fields.
    """

    ALL_OF_BASE_FILES = "all of base files"
    SIMPLE_FIELDS = "simple fields"


class FloatWidening(StrEnum):
    """Which stored floats become a double by their text (0.2), instead of exactly (0.20000000298)."""

    EXACT = "exact"
    BY_TEXT_IN_PARQUET_COLUMNS = "by text in Parquet columns"
    BY_TEXT = "by text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRules:
    """How a release of Hudi reads a table, apart from merging. Each field names its source in Hudi.

    Part of a ``TableConfig``, for the readers of this package: it may change with any release of Hudi Bridge.

    ``series``: the series that writes commits of this kind. ``HoodieWriteStat.prevBaseFile`` is new in 1.x.

    ``path_columns``: which partition columns are read from the path.
    ``HoodieBaseHadoopFsRelationFactory.partitionColumnsToRead``.

    ``shows_formatted_times``: partition columns of the timestamp-based key generator are text even if they are read
    from the files. ``SparkHoodieTableFileIndex``, whose partition schema has texts for them.

    ``ranges_as_in_0x``: incremental queries read partition columns from the files and merge by the rules of 0.x.
    ``MergeOnReadIncrementalRelationV1`` and ``IncrementalRelationV1``, with which 1.0 still reads tables of version 6.

    ``cow_ranges_have_operation``: incremental queries of COPY_ON_WRITE tables return the operation of a changelog.
    ``IncrementalRelation`` of 0.x does not; ``HoodieIncrementalFileIndex`` of 1.x does.

    ``cow_ranges_may_end_in_old_schema``: the option for the schema of the range's end has an effect in COPY_ON_WRITE
    tables. ``IncrementalRelation`` of 0.x follows it; ``HoodieIncrementalFileIndex`` of 1.x does not know it.

    ``ranges_know_earlier_replacements``: ranges of completion times know the replace commits before them.
    ``MergeOnReadIncrementalRelationV2`` has the whole active timeline; earlier relations have that of the range.

    ``ranges_stop_at_later_blocks``: of a log file, what follows the first block of a later write is not read.
    ``AbstractHoodieLogRecordReader`` of 0.x.

    ``filters_base_rows_before_merge``: incremental queries filter base rows by commit time before merging, not after.
    The file group reader of 1.x does, which 1.0 does not use for tables of version 6.

    ``filters_parquet_blocks``: the filter on the commit time also leaves out Parquet log blocks.
    ``SparkFileFormatInternalRowReaderContext`` of 1.1.

    ``knows_defaults``: fields that a file lacks have the defaults of the table's schema. 1.0 reads into a schema made
    of Spark's, which has none (``HoodieFileGroupReaderBasedParquetFileFormat``).

    ``float_widening``: how floats become doubles in tables without column ids; with ids, all releases go by text.
    0.x takes the exact values that Parquet and Avro return. 1.0 casts the top-level columns of Parquet files and of
    Parquet log blocks (``Spark3ParquetSchemaEvolutionUtils``). 1.1 also rewrites Avro records (``HoodieAvroUtils``).

    ``replaces_compacted_blocks``: the block of a log compaction replaces its originals. ``scanInternalV1`` of log
    readers before 1.2 merges both, in the order of the files.

    ``has_optimized_log_scan``: an option asks for the replacement where it is not the rule. 1.0 does not follow it.

    ``trusts_metadata_instants``: what a completed instant wrote to the metadata table counts, even if the table's
    timeline does not know the instant. ``HoodieTableMetadataUtil.getValidInstantTimestamps`` of 0.x asks the timeline.
    """

    series: Series
    path_columns: PathColumns
    shows_formatted_times: bool
    ranges_as_in_0x: bool
    cow_ranges_have_operation: bool
    cow_ranges_may_end_in_old_schema: bool
    ranges_know_earlier_replacements: bool
    ranges_stop_at_later_blocks: bool
    filters_base_rows_before_merge: bool
    filters_parquet_blocks: bool
    knows_defaults: bool
    float_widening: FloatWidening
    replaces_compacted_blocks: bool
    has_optimized_log_scan: bool
    trusts_metadata_instants: bool


_V0 = ReleaseRules(
    series=Series.V0,
    path_columns=PathColumns.ALL_OF_BASE_FILES,
    shows_formatted_times=False,
    ranges_as_in_0x=True,
    cow_ranges_have_operation=False,
    cow_ranges_may_end_in_old_schema=True,
    ranges_know_earlier_replacements=False,
    ranges_stop_at_later_blocks=True,
    filters_base_rows_before_merge=False,
    filters_parquet_blocks=False,
    knows_defaults=True,
    float_widening=FloatWidening.EXACT,
    replaces_compacted_blocks=False,
    has_optimized_log_scan=True,
    trusts_metadata_instants=False,
)
_V1_0_IN_LAYOUT_1 = ReleaseRules(
    series=Series.V1,
    path_columns=PathColumns.SIMPLE_FIELDS,
    shows_formatted_times=True,
    ranges_as_in_0x=True,
    cow_ranges_have_operation=True,
    cow_ranges_may_end_in_old_schema=False,
    ranges_know_earlier_replacements=False,
    ranges_stop_at_later_blocks=False,
    filters_base_rows_before_merge=False,
    filters_parquet_blocks=False,
    knows_defaults=False,
    float_widening=FloatWidening.BY_TEXT_IN_PARQUET_COLUMNS,
    replaces_compacted_blocks=False,
    has_optimized_log_scan=False,
    trusts_metadata_instants=True,
)
_V1_0 = replace(_V1_0_IN_LAYOUT_1, ranges_as_in_0x=False, filters_base_rows_before_merge=True)
_V1_1 = replace(
    _V1_0,
    ranges_know_earlier_replacements=True,
    filters_parquet_blocks=True,
    knows_defaults=True,
    float_widening=FloatWidening.BY_TEXT,
    replaces_compacted_blocks=True,
)

RELEASE_RULES: Mapping[tuple[Release, int], ReleaseRules] = {
    (Release.V0, 1): _V0,
    (Release.V1_0, 1): _V1_0_IN_LAYOUT_1,
    (Release.V1_0, 2): _V1_0,
    (Release.V1_1, 1): _V1_1,
    (Release.V1_1, 2): _V1_1,
}
"""The rules by release and timeline layout: 1.x reads tables of both layouts, with different classes in 1.0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """What tables of a version store. Each field names its source in Hudi.

    Part of a ``TableConfig``, for the readers of this package: it may change with any release of Hudi Bridge.

    ``timeline``: the number of the timeline's layout (``TimelineLayoutVersion``).

    ``oldest_release``: the oldest release that reads such tables (``HoodieTableVersion``).

    ``is_released``: whether a release of Hudi writes such tables.

    ``has_completion_times``: instants have completion times, by which commits lie in ranges
    (``InstantFileNameGeneratorV2``).

    ``archives_in_logs``: the archived timeline is in log files, instead of Parquet files with a manifest
    (``ArchivedTimelineV1``, ``ArchivedTimelineV2``).

    ``logs_name_their_own_instant``: log files are named after the instant that wrote them, not after that of their base
    file (``FSUtils.makeLogFileName``, ``HoodieTableVersion.EIGHT``).

    ``native_log_formats``: the formats, in Hudi's words, of log files that are whole files in a format of base files
    (RFC-103, ``HoodieFileFormat``), beside those of blocks; such tables may state one as the format of their logs.

    ``storage_layouts``: how files of a file group may be organized, in Hudi's words: ``lsm_tree`` are files that are
    sorted by record key (RFC-103, ``CommonClientUtils.validateTableVersion``).

    ``states_merge_mode``: the merge mode of the properties decides, not the payload class
    (``HoodieTableConfig.inferMergingConfigs``).

    ``metadata_has_all_rollbacks``: a rollback is written to the metadata table even if its write never was, because
    the rollback may have added a log block (``RollbackHelperV1``). Later ones only remove files (``RollbackHelper``).

    ``is_of_one_series``: only releases of one series write such tables, so that properties and commits cannot disagree
    about it. Both series write version 6.
    """

    timeline: int
    oldest_release: Release
    is_released: bool
    has_completion_times: bool
    archives_in_logs: bool
    logs_name_their_own_instant: bool
    native_log_formats: tuple[str, ...]
    storage_layouts: tuple[str, ...]
    states_merge_mode: bool
    metadata_has_all_rollbacks: bool
    is_of_one_series: bool


_LAYOUT_1 = TableLayout(
    timeline=1,
    oldest_release=Release.V0,
    is_released=True,
    has_completion_times=False,
    archives_in_logs=True,
    logs_name_their_own_instant=False,
    native_log_formats=(),
    storage_layouts=("default",),
    states_merge_mode=False,
    metadata_has_all_rollbacks=True,
    is_of_one_series=False,
)
_LAYOUT_2 = TableLayout(
    timeline=2,
    oldest_release=Release.V1_0,
    is_released=True,
    has_completion_times=True,
    archives_in_logs=False,
    logs_name_their_own_instant=True,
    native_log_formats=(),
    storage_layouts=("default",),
    states_merge_mode=True,
    metadata_has_all_rollbacks=False,
    is_of_one_series=True,
)
_OF_1_1 = replace(_LAYOUT_2, oldest_release=Release.V1_1)
_OF_MAIN = replace(
    _OF_1_1,
    is_released=False,
    native_log_formats=("PARQUET", "ORC", "HFILE", "LANCE"),
    storage_layouts=("default", LSM_TREE),
)

TABLE_LAYOUTS: Mapping[int, TableLayout] = {
    5: _LAYOUT_1,
    6: _LAYOUT_1,
    8: _LAYOUT_2,
    9: _OF_1_1,
    10: _OF_MAIN,
}
"""The layouts by table version. Version 10 is that of Hudi's main branch after 1.2; an option has it read."""

RELEASED_VERSIONS = tuple(version for version, layout in TABLE_LAYOUTS.items() if layout.is_released)
"""The table versions that are read without an option."""
FIRST_VERSION_WITH_COMPLETION_TIMES = min(
    version for version, layout in TABLE_LAYOUTS.items() if layout.has_completion_times
)
"""Ranges are of completion times from this table version on."""
