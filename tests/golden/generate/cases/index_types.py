"""K, j: index types that move records, between partitions or between buckets."""

from tests.golden.generate.options import (
    COMPACT,
    INDEX,
    SCHEDULE_CLUSTERING,
    SMALL_FILES,
    Options,
)
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer

GLOBAL_SIMPLE: Options = {INDEX: "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
CLUSTERING = "org.apache.hudi.client.clustering."
CONSISTENT_HASHING: Options = {
    INDEX: "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.bucket.index.num.buckets": 2,
    "hoodie.bucket.index.min.num.buckets": 1,
    "hoodie.bucket.index.max.num.buckets": 8,
    "hoodie.storage.layout.type": "BUCKET",
    "hoodie.storage.layout.partitioner.class": "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner",
    "hoodie.parquet.max.file.size": 4000,
    SMALL_FILES: 0,
    "hoodie.bucket.index.split.threshold": "1.0",
    "hoodie.bucket.index.merge.threshold": "0.05",
    "hoodie.clustering.plan.strategy.class": f"{CLUSTERING}plan.strategy.SparkConsistentBucketClusteringPlanStrategy",
    "hoodie.clustering.execution.strategy.class": (
        f"{CLUSTERING}run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
    ),
    "hoodie.clustering.updates.strategy": f"{CLUSTERING}update.strategy.SparkConsistentBucketDuplicateUpdateStrategy",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": 4000,
}


@case("j_move_gsimple_120", "1.2.0", "GLOBAL_SIMPLE, records move partition")
def j_move(w: Writer) -> None:
    w.without_metadata_table()
    w.options |= GLOBAL_SIMPLE

    def write(keys: range, ts: int, tag: str, shift: int, operation: str = "upsert") -> None:
        w.write(w.rows(keys, ts, tag, part_of=lambda key: "abc"[(key + shift) % 3]), operation)

    write(range(40), 10, "base", 0, "insert")
    write(range(0, 40, 2), 20, "newer-move", 1)
    write(range(0, 40, 3), 5, "late-move", 2)
    write(range(0, 40, 5), 30, "back", 0)
    write(range(0, 40, 7), 40, "d", 0, "delete")
    w.write(w.rows(range(1, 40, 6), 50, "to-new", parts=["z"]))


@case("j_ch_pending_exec_120", "1.2.0", "consistent hashing, resize pending with dual writes, then executed")
def j_consistent_hashing(w: Writer) -> None:
    w.without_metadata_table()
    w.options |= CONSISTENT_HASHING
    w.upsert(range(300), 1, "base")
    w.upsert(range(0, 300, 2), 2, "u1", options=COMPACT)
    w.upsert(range(0, 300, 3), 3, "u2", options=SCHEDULE_CLUSTERING)
    w.upsert(range(0, 330, 4), 4, "u3")
    w.upsert(range(0, 330, 7), 5, "d", "delete")
    w.register()
    options = ",".join(
        f"{name}={value}" for name, value in {**CONSISTENT_HASHING, "hoodie.metadata.enable": "false"}.items()
    )
    w.call(f"call run_clustering(table => '{w.name}', op => 'execute', options => '{options}')")
    w.upsert(range(0, 330, 5), 6, "u4")
