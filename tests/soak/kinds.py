"""The tables of a soak: their versions, how writers share them, and the options that they are written with."""

from dataclasses import dataclass

KEYS, CITIES = 80, 3
OCC, NBCC = "occ", "nbcc"
LOCKED = {
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.write.lock.client.num_retries": "50",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    # A writer that was killed counts as dead after some seconds.
    "hoodie.client.heartbeat.interval_in_ms": "1000",
    "hoodie.client.heartbeat.tolerable.misses": "8",
}
COMMON = {
    **LOCKED,
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "4",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.async": "false",
    "hoodie.clean.commits.retained": "2",
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.archive.automatic": "true",
    "hoodie.archive.async": "false",
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "7",
    "hoodie.commits.archival.batch": "2",
}
CONCURRENCY = {
    OCC: {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "6",
        "hoodie.parquet.small.file.limit": "0",
    },
    NBCC: {
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "SIMPLE",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.bucket.index.hash.field": "id",
    },
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table: ``concurrency`` says how two writers share it."""

    version: int
    concurrency: str

    @property
    def name(self) -> str:
        """The name of the table, and of its folder."""
        return f"{self.concurrency}_v{self.version}"

    @property
    def options(self) -> dict[str, str]:
        """What each write is done with; one table of each concurrency has a metadata table."""
        return {
            **COMMON,
            **CONCURRENCY[self.concurrency],
            "hoodie.table.name": self.name,
            "hoodie.write.table.version": str(self.version),
            "hoodie.metadata.enable": str(self.version == 9).lower(),
        }


def kinds_of(versions: tuple[int, ...]) -> list[Kind]:
    """The kinds of tables of some versions; writers that do not block each other came with version 8."""
    return [
        Kind(version, concurrency)
        for version in versions
        for concurrency in (OCC, NBCC)
        if concurrency == OCC or version >= 8
    ]
