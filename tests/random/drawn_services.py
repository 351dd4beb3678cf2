"""Draws what a table has beside its rows: indexes, the form of files, table services, and the steps."""

from collections.abc import Mapping
from random import Random

from tests.golden.generate.cases.index_types import CONSISTENT_HASHING
from tests.golden.generate.options import BLOCK_FORMAT, COLUMN_STATS, INDEX, LOG_COMPACT, METADATA, SMALL_FILES
from tests.golden.generate.releases import number
from tests.random.draw import DMS, MYSQL, NON_BLOCKING, OPTIMISTIC, POSTGRES, Draw, Step
from tests.random.kinds import pick

CONSISTENT = "CONSISTENT"
IN_MEMORY = "INMEMORY"
BY_BUCKET = ("BUCKET", CONSISTENT)

_INDEXES: Mapping[str, float] = {
    "SIMPLE": 4,
    "BLOOM": 4,
    "GLOBAL_SIMPLE": 1.5,
    "GLOBAL_BLOOM": 1,
    "BUCKET": 3,
    CONSISTENT: 2,
    "RECORD_INDEX": 2.5,
    "RECORD_LEVEL_INDEX": 1,
    IN_MEMORY: 2.5,
}
_AGGRESSIVE_CLEANING: Mapping[str, object] = {
    "hoodie.clean.automatic": True,
    "hoodie.clean.async": False,
    "hoodie.cleaner.commits.retained": 1,
    "hoodie.clean.commits.retained": 1,
    "hoodie.keep.max.commits": 4,
    "hoodie.archive.automatic": True,
    "hoodie.archive.async": False,
    "hoodie.commits.archival.batch": 1,
    "hoodie.metadata.compact.max.delta.commits": 2,
    "hoodie.timeline.compaction.batch.size": 3,
}
STEPS: Mapping[str, float] = {
    "upsert": 14,
    "insert": 3,
    "delete": 4,
    "bulk_insert": 1.5,
    "insert_overwrite": 1.5,
    "insert_overwrite_table": 0.4,
    "sql_update": 2,
    "sql_delete": 1.5,
    "sql_merge": 3,
    "add_column": 1.2,
    "widen": 1,
    "rollback": 1.2,
    "savepoint": 0.8,
    "restore": 0.8,
    "clean": 0.8,
    "archive": 0.6,
    "failed_write": 1.2,
    "schedule_clustering": 0.8,
    "cluster": 1,
}
"""The steps that any table may have, and how often."""
_COUNTS_OF_STEPS = (4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 11, 14)
_UNSUITED_TO_SQL = ("timestamp", "custom", "null", "odd")


def draw_index(table: Draw, chance: Random) -> None:
    """Draws the index that finds records to update, and those in the metadata table."""
    weights = dict(_INDEXES)
    if not table.is_merge_on_read:
        weights |= {CONSISTENT: 0, IN_MEMORY: 0}
    if table.begins_in is not None:
        weights[IN_MEMORY] = 0  # the next session does not have it
    if table.writer < (1, 1) or table.table_version < 9:
        weights["RECORD_LEVEL_INDEX"] = 0
    table.index = pick(chance, weights) if table.has_meta_fields else "SIMPLE"
    table.set_options({INDEX: "BUCKET" if table.index in BY_BUCKET else table.index})
    if table.index == "BUCKET":
        buckets = {"hoodie.index.bucket.engine": "SIMPLE", "hoodie.bucket.index.num.buckets": chance.choice([1, 2, 3])}
        table.set_options({**buckets, "hoodie.bucket.index.hash.field": "id"})
    if table.index == CONSISTENT:
        table.set_options(CONSISTENT_HASHING)
    moves = chance.random() < 0.8
    for name in ("simple", "bloom", "record"):
        table.set_options({f"hoodie.{name}.index.update.partition.path": moves})
    _draw_metadata(table, chance)


def _draw_metadata(table: Draw, chance: Random) -> None:
    needs_metadata = table.index.startswith("RECORD")
    table.has_metadata = needs_metadata or chance.random() < 0.25
    table.set_options({METADATA: table.has_metadata})
    if not table.has_metadata:
        return
    indexes = []
    if table.index == "RECORD_INDEX":
        indexes.append("record index")
        names = ("hoodie.metadata.record.index.enable", "hoodie.metadata.global.record.level.index.enable")
        table.set_options(dict.fromkeys(names, True))
    if table.index == "RECORD_LEVEL_INDEX":
        indexes.append("record index")
        table.set_options({"hoodie.metadata.record.level.index.enable": True})
    # Hudi 1.0 fails to write the statistics of many types.
    has_stats = chance.random() < 0.6 and table.writer[:2] != (1, 0)
    table.set_options({COLUMN_STATS: has_stats})
    if table.writer >= (1, 0):
        of_partitions = has_stats and chance.random() < 0.7
        table.set_options({"hoodie.metadata.index.partition.stats.enable": of_partitions})
        indexes += ["partition stats"] if of_partitions else []
    indexes += ["column stats"] if has_stats else []
    if chance.random() < 0.35:
        indexes.append("bloom filters")
        bloom = {"hoodie.metadata.index.bloom.filter.enable": True, "hoodie.bloom.index.use.metadata": True}
        table.set_options({**bloom, "hoodie.metadata.index.bloom.filter.column.list": "id"})
    if table.writer >= (1, 0):
        indexes += [name for name in ("secondary index", "expression index") if chance.random() < 0.5]
        if "record index" not in indexes and "secondary index" in indexes:
            indexes.remove("secondary index")
    table.metadata_indexes = indexes
    table.set_options({"hoodie.metadata.compact.max.delta.commits": chance.choice([2, 3, 10])})


def draw_files(table: Draw, chance: Random) -> None:
    """Draws the form of base and log files."""
    formats = {"default": 4, "avro": 2, "parquet": 3, "hfile": 0 if table.writer >= (1, 0) else 1}
    table.log_format = "parquet" if table.merging == "spark merger" else pick(chance, formats)
    small_blocks = chance.random() < 0.2 and not table.has_metadata
    table.set_options(
        {
            BLOCK_FORMAT: None if table.log_format == "default" else table.log_format,
            "hoodie.logfile.data.block.max.size": 700 if small_blocks else None,
            SMALL_FILES: pick(chance, {0: 2, 104857600: 3}),
            "hoodie.bulkinsert.shuffle.parallelism": chance.choice([1, 1, 2]),
            "hoodie.parquet.compression.codec": chance.choice(["gzip", "snappy", "zstd", "uncompressed"]),
            "hoodie.datasource.write.row.writer.enable": False if chance.random() < 0.1 else None,
        }
    )
    if chance.random() < 0.4 and table.index != CONSISTENT:
        split = {"hoodie.copyonwrite.insert.auto.split": False}
        table.set_options({**split, "hoodie.copyonwrite.insert.split.size": chance.choice([10, 25])})
    if table.writer >= (1, 0) and chance.random() < 0.3:
        table.set_options({"hoodie.write.record.positions": chance.choice([True, False])})


def draw_services(table: Draw, chance: Random) -> None:
    """Draws change data capture, table services that run with the writes, and the mode of concurrency."""
    cdc = pick(chance, {None: 7, "op_key_only": 1, "data_before": 1, "data_before_after": 1})
    if cdc and table.has_meta_fields and table.index not in (IN_MEMORY, CONSISTENT):
        table.cdc = cdc
        table.set_options({"hoodie.table.cdc.enabled": True, "hoodie.table.cdc.supplemental.logging.mode": cdc})
    if chance.random() < 0.5 and table.index not in BY_BUCKET:
        # Without it, updates of file groups in a pending clustering are refused.
        strategy = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
        table.set_options({"hoodie.clustering.updates.strategy": strategy})
    compacts = table.is_merge_on_read and chance.random() < 0.3
    table.set_options({"hoodie.compact.inline": compacts})
    if compacts:
        table.services.append("compaction")
        table.set_options({"hoodie.compact.inline.max.delta.commits": chance.choice([2, 3])})
    if table.index not in BY_BUCKET and chance.random() < 0.15:
        table.services.append("clustering")
        every = {"hoodie.clustering.inline": True, "hoodie.clustering.inline.max.commits": chance.choice([2, 3])}
        table.set_options(every)
        if chance.random() < 0.5:
            table.set_options({"hoodie.clustering.plan.strategy.sort.columns": "id"})
    if table.is_merge_on_read and not compacts and chance.random() < 0.25:
        table.services.append("log compaction")
        table.set_options(LOG_COMPACT)
    table.cleaning = pick(chance, {"off": 4, "aggressive": 3, "default": 2})
    if table.cleaning == "off":
        table.set_options({"hoodie.clean.automatic": False, "hoodie.archive.automatic": False})
    elif table.cleaning == "aggressive":
        table.set_options({**_AGGRESSIVE_CLEANING, "hoodie.keep.min.commits": 2 + (table.writer >= (1, 0))})
    _draw_concurrency(table, chance)


def _draw_concurrency(table: Draw, chance: Random) -> None:
    by_bucket = table.is_merge_on_read and table.index == "BUCKET" and not table.cdc
    if by_bucket and table.writer >= (1, 0) and table.table_version >= 8 and chance.random() < 0.6:
        table.concurrency = NON_BLOCKING
    elif chance.random() < 0.08:
        table.concurrency = OPTIMISTIC
    if table.concurrency is None:
        return
    mode = table.concurrency if table.writer >= (1, 0) else table.concurrency.lower()
    table.set_options(
        {
            "hoodie.table.type": table.table_type,
            "hoodie.write.concurrency.mode": mode,
            "hoodie.cleaner.policy.failed.writes": "LAZY",
            "hoodie.clean.failed.writes.policy": "LAZY",
            "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
            "hoodie.write.lock.client.num_retries": 50,
        }
    )


def draw_steps(table: Draw, chance: Random) -> None:
    """Draws the steps, the first of which creates the table."""
    weights = _weights(table)
    creators = ["insert", "upsert"] if table.index in (*BY_BUCKET, IN_MEMORY) else ["bulk_insert", "insert", "upsert"]
    if table.drops_partition_columns:
        creators.remove("upsert")  # a table that an upsert creates keeps its partition columns
    names = [chance.choice(creators)]
    names += [pick(chance, weights) for _ in range(chance.choice(_COUNTS_OF_STEPS) - 1)]
    for kind in ("secondary index", "expression index"):
        if kind in table.metadata_indexes:
            names.insert(chance.randrange(1, len(names)), f"create_{kind.replace(' ', '_')}")
    turn = 0
    if table.begins_in is not None:
        turn = chance.randrange(1, len(names))
        if number(table.release) >= (1, 0) and chance.random() < 0.6:
            names.insert(chance.randrange(turn, len(names) + 1), "upgrade")
        names.append("upsert")
    rows = chance.choice([12, 20, 40, 60, 90])
    table.steps = [
        Step(
            number=index,
            name=name,
            release=table.first_release if index < turn or table.begins_in is None else table.release,
            rows=rows if index == 0 else None,
        )
        for index, name in enumerate(names)
    ]


def _weights(table: Draw) -> dict[str, float]:
    weights = dict(STEPS)
    if table.is_merge_on_read:
        weights |= {"schedule_compaction": 2, "compact": 2}
    weights["delete_partition"] = 0 if table.partition == "none" else 1
    weights["move"] = 5 if table.moves_records else 0.3
    without_sql = table.payload in (DMS, MYSQL, POSTGRES) or not table.has_meta_fields
    if without_sql or table.partition in _UNSUITED_TO_SQL:
        weights |= dict.fromkeys(("sql_update", "sql_merge", "sql_delete"), 0 if without_sql else 0.5)
    if table.index in (*BY_BUCKET, IN_MEMORY):
        weights["bulk_insert"] = 0.3 if table.index == "BUCKET" else 0
    if table.index == IN_MEMORY:
        rare = ("insert_overwrite", "insert_overwrite_table", "schedule_clustering", "cluster", "rollback", "restore")
        weights |= dict.fromkeys(rare, 0.2)
    if table.index == "BUCKET":
        weights |= {"schedule_clustering": 0, "cluster": 0}
    if table.index == CONSISTENT:
        weights |= {"schedule_clustering": 2, "cluster": 2}
    weights["two_writers"] = 5 if table.concurrency else 0
    if table.table_version < 9 and table.begins_in is None and table.writer >= (1, 2):
        weights["upgrade"] = 0.8
    if table.has_column_ids:
        weights |= {"alter": 7, "add_column": 0, "widen": 0}
    return weights
