"""Options of Hudi's writer that several cases use."""

from collections.abc import Mapping

Options = Mapping[str, str | int | None]
"""Options of a write; None removes a default."""

TABLE_TYPE = "hoodie.datasource.write.table.type"
RECORD_KEY = "hoodie.datasource.write.recordkey.field"
PARTITION_PATH = "hoodie.datasource.write.partitionpath.field"
ORDERING = "hoodie.datasource.write.precombine.field"
KEY_GENERATOR = "hoodie.datasource.write.keygenerator.class"
HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
URL_ENCODED = "hoodie.datasource.write.partitionpath.urlencode"
SLASHED_DATES = "hoodie.datasource.write.slash.separated.date.partitioning"
PAYLOAD = "hoodie.datasource.write.payload.class"
MERGE_MODE = "hoodie.record.merge.mode"
TABLE_VERSION = "hoodie.write.table.version"
METADATA = "hoodie.metadata.enable"
COLUMN_STATS = "hoodie.metadata.index.column.stats.enable"
BLOCK_FORMAT = "hoodie.logfile.data.block.format"
INDEX = "hoodie.index.type"
SMALL_FILES = "hoodie.parquet.small.file.limit"
SCHEMA_ON_READ = "hoodie.schema.on.read.enable"
COLUMN_DROP = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"

KEY_GENERATORS = "org.apache.hudi.keygen."
PAYLOADS = "org.apache.hudi.common.model."

COMPACT: Options = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": 1}
SCHEDULE_COMPACTION: Options = {
    "hoodie.compact.schedule.inline": "true",
    "hoodie.compact.inline.max.delta.commits": 1,
}
CLUSTER: Options = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": 1}
SCHEDULE_CLUSTERING: Options = {
    "hoodie.clustering.schedule.inline": "true",
    "hoodie.clustering.inline.max.commits": 1,
}
LOG_COMPACT: Options = {
    "hoodie.log.compaction.enable": "true",
    "hoodie.log.compaction.inline": "true",
    "hoodie.log.compaction.blocks.threshold": 2,
}

DEFAULTS: Options = {
    TABLE_TYPE: "MERGE_ON_READ",
    RECORD_KEY: "id",
    ORDERING: "ts",
    PARTITION_PATH: "part",
    "hoodie.compact.inline": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.upsert.shuffle.parallelism": 2,
    "hoodie.insert.shuffle.parallelism": 2,
    "hoodie.bulkinsert.shuffle.parallelism": 1,
    "hoodie.delete.shuffle.parallelism": 2,
    "hoodie.bloom.index.parallelism": 2,
    # Small bloom filters in the footers of base files.
    "hoodie.index.bloom.num_entries": 500,
    "hoodie.bloom.index.filter.dynamic.max.entries": 2000,
}
"""The defaults for writing tables."""
DEFAULTS_OF_K: Options = {
    **DEFAULTS,
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.simple.index.parallelism": 2,
    "hoodie.global.simple.index.parallelism": 2,
    "hoodie.rollback.parallelism": 2,
    "hoodie.finalize.write.parallelism": 2,
    "hoodie.markers.delete.parallelism": 2,
    "hoodie.cleaner.parallelism": 2,
    "hoodie.archive.delete.parallelism": 2,
    "hoodie.file.listing.parallelism": 2,
}
"""The defaults of group K, whose tables run only the table services that a case asks for."""
