"""D: file slices and table services."""

from collections.abc import Callable

from tests.golden.generate.cases.log_formats import write_base
from tests.golden.generate.options import (
    BLOCK_FORMAT,
    CLUSTER,
    COMPACT,
    INDEX,
    LOG_COMPACT,
    SCHEDULE_CLUSTERING,
    SCHEDULE_COMPACTION,
    Options,
)
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer

BUCKETS: Options = {
    INDEX: "BUCKET",
    "hoodie.bucket.index.num.buckets": 2,
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.storage.layout.type": "BUCKET",
    "hoodie.storage.layout.partitioner.class": "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner",
}


@case("d_bucket_index_0150", "0.15.0", "bucket index (file ids start with the bucket number)", index=BUCKETS)
@case("d_bucket_index_120", "1.2.0", "bucket index (file ids start with the bucket number)", index=BUCKETS)
@case("d_log_only_0150", "0.15.0", "file groups made only of log files (in-memory index)", first=70000)
@case("d_log_only_120", "1.2.0", "file groups made only of log files (in-memory index)", first=71000)
@case("d_log_only_v6_by120", "1.2.0", "file groups made only of log files, table version 6", first=74000, version=6)
@case(
    "d_log_only_compacted_120",
    "1.2.0",
    "log-only file groups, then compaction, then more logs",
    first=75000,
    service=COMPACT,
)
@case(
    "d_log_only_pending_120",
    "1.2.0",
    "log-only file groups, compaction pending, then more logs",
    first=77000,
    service=SCHEDULE_COMPACTION,
)
@case(
    "d_log_only_pending_0150",
    "0.15.0",
    "log-only file groups, compaction pending, then more logs",
    first=78000,
    service=SCHEDULE_COMPACTION,
)
def d_log_only(
    w: Writer,
    *,
    index: Options | None = None,
    service: Options | None = None,
    first: int = 0,
    version: int | None = None,
) -> None:
    """The in-memory index is shared by all tables of a process, so that each has keys of its own, from ``first`` on."""
    w.use_table_version(version)
    w.options |= index or {INDEX: "INMEMORY"}
    end = first + 50
    w.upsert(range(first, end), 1, "ins")
    w.upsert(range(first, end, 3), 2, "u1")
    w.upsert(range(first, end, 6), 3, "d", "delete", options=service)
    w.upsert(range(first + 1, end + 10, 5), 4, "u2")


@case("d_pending_compaction_0150", "0.15.0", "pending compaction; logs before and after it")
@case("d_pending_compaction_120", "1.2.0", "pending compaction; logs before and after it")
@case("d_pending_compaction_v6_by120", "1.2.0", "pending compaction in table version 6 by 1.2.0", version=6)
@case(
    "d_pending_compaction_inflight_120",
    "1.2.0",
    "compaction in state inflight (requested turned inflight, base file missing)",
    inflight=True,
)
def d_pending(w: Writer, *, inflight: bool = False, version: int | None = None) -> None:
    write_base(w, version=version)
    w.upsert(range(0, 40, 2), 2, "u1")
    w.upsert(range(0, 40, 5), 3, "u2", options=SCHEDULE_COMPACTION)
    w.upsert(range(0, 40, 3), 4, "u3")
    w.upsert(range(0, 40, 8), 5, "d", "delete")
    if inflight:
        (requested,) = (w.path / ".hoodie").rglob("*.compaction.requested")
        requested.with_suffix(".inflight").touch()


@case("d_compacted_then_logs_0150", "0.15.0", "completed compaction, then more logs")
@case("d_compacted_then_logs_120", "1.2.0", "completed compaction, then more logs")
@case("d_compacted_only_102", "1.0.2", "completed compaction is the last action", only=True)
@case("d_two_compactions_nomdt_0150", "0.15.0", "two compactions", metadata=False, twice=True)
def d_compacted(w: Writer, *, only: bool = False, twice: bool = False, metadata: bool = True) -> None:
    write_base(w, metadata=metadata)
    w.upsert(range(0, 40, 2), 2, "u1")
    w.upsert(range(0, 40, 7), 3, "d", "delete", options=COMPACT)
    if only:
        return
    w.upsert(range(0, 40, 3), 4, "u3")
    if twice:
        w.upsert(range(0, 40, 4), 5, "u4", options=COMPACT)
    w.upsert([*range(0, 40, 14), 41], 6, "u5")


@case("d_log_compaction_120", "1.2.0", "log compaction (minor compaction)")
@case("d_log_compaction_0150", "0.15.0", "log compaction (minor compaction)")
def d_log_compaction(w: Writer) -> None:
    write_base(w)
    for step, tag in enumerate(["u1", "u2", "u3", "u4"]):
        w.upsert(range(step, 40, 2 + step), 2 + step, tag, options=LOG_COMPACT if step >= 2 else None)
    w.upsert(range(0, 40, 9), 9, "u5")


@case("d_log_compaction_alone_0150", "0.15.0", "log compaction; a range without the log files that it compacts")
@case("d_log_compaction_alone_102", "1.0.2", "log compaction; a range without the log files that it compacts")
@case("d_log_compaction_alone_120", "1.2.0", "log compaction; a range without the log files that it compacts")
def d_log_compaction_alone(w: Writer) -> None:
    w.questions.begins_later = w.release[:2] == (1, 0)
    write_base(w)
    w.upsert(range(0, 40, 2), 2, "u1")
    w.upsert(range(0, 40, 3), 3, "u2", options=LOG_COMPACT)


@case(
    "d_insert_overwrite_0150",
    "0.15.0",
    "insert_overwrite of one partition (replacecommit)",
    operation="insert_overwrite",
)
@case("d_insert_overwrite_120", "1.2.0", "insert_overwrite of one partition", operation="insert_overwrite")
@case("d_insert_overwrite_table_120", "1.2.0", "insert_overwrite_table", operation="insert_overwrite_table")
@case("d_delete_partition_0150", "0.15.0", "delete_partition", operation="delete_partition")
def d_overwrite(w: Writer, *, operation: str) -> None:
    part_of: Callable[[int], str] | None = None
    write_base(w)
    w.upsert(range(0, 40, 2), 2, "u1")
    if operation == "delete_partition":
        w.upsert([], 3, "x", operation, options={"hoodie.datasource.write.partitions.to.delete": "b"})
    else:
        part_of = _always_b
        w.write(w.rows(range(30, 50), 3, "ow", part_of=part_of), operation)
    w.write(w.rows(range(30, 50, 3), 4, "u2", part_of=part_of))


@case(
    "d_written_after_overwrite_120", "1.2.0", "updates of file groups that insert_overwrite_table replaced", first=76000
)
@case("d_written_after_overwrite_v6_by120", "1.2.0", "the same in table version 6", first=77000, version=6)
def d_written_after_overwrite(w: Writer, *, first: int, version: int | None = None) -> None:
    w.without_metadata_table()
    # This index still names the replaced file groups, as that of another writer does.
    w.options[INDEX] = "INMEMORY"
    w.use_table_version(version)
    w.upsert(range(first, first + 6), 1, "base", "insert")
    w.upsert([first, first + 1, first + 7], 2, "ow", "insert_overwrite_table")
    w.upsert(range(first, first + 4), 3, "u1")
    w.upsert([first + 2, first + 8], 4, "u2")
    w.upsert([first + 3], 5, "d", "delete")
    w.upsert([first + 4], 6, "u3")


def _always_b(_: int) -> str:
    return "b"


@case("d_clustering_done_0150", "0.15.0", "inline clustering done, then more logs")
@case("d_clustering_done_120", "1.2.0", "inline clustering done, then more logs")
@case("d_clustering_pending_0150", "0.15.0", "clustering scheduled, not executed", pending=True)
@case("d_clustering_pending_111", "1.1.1", "clustering scheduled, not executed", pending=True)
def d_clustering(w: Writer, *, pending: bool = False) -> None:
    write_base(w)
    w.upsert(range(40, 70), 2, "ins", "bulk_insert")
    w.upsert(range(0, 40, 4), 3, "u1")
    w.upsert(range(70, 90), 4, "ins2", "bulk_insert", options=SCHEDULE_CLUSTERING if pending else CLUSTER)
    if pending:
        # Hudi rejects updates of file groups that a pending plan names.
        w.upsert(range(200, 215), 5, "ins3", "bulk_insert")
    else:
        w.upsert(range(0, 90, 7), 5, "u2")


@case("d_cleaned_0150", "0.15.0", "compaction then clean: older slices removed")
@case("d_cleaned_120", "1.2.0", "compaction then clean: older slices removed")
@case(
    "d_cleaned_parquet_120",
    "1.2.0",
    "the same with Parquet log blocks: full scans pass over those of later commits",
    block_format="parquet",
)
def d_cleaned(w: Writer, *, block_format: str | None = None) -> None:
    w.options |= {
        BLOCK_FORMAT: block_format,
        "hoodie.clean.automatic": "true",
        "hoodie.cleaner.commits.retained": 1,
        "hoodie.clean.async": "false",
        "hoodie.keep.min.commits": 20,
        "hoodie.keep.max.commits": 30,
    }
    write_base(w)
    for step in range(4):
        w.upsert(range(step, 40, 2), 2 + step, f"u{step}", options=COMPACT if step % 2 else None)
    w.upsert(range(0, 40, 5), 9, "last")


@case("d_savepoint_120", "1.2.0", "savepoint")
@case("d_restore_0150", "0.15.0", "savepoint, more commits, restore to it, more commits", restore=True)
@case("d_restore_120", "1.2.0", "savepoint, more commits, restore to it, more commits", restore=True)
def d_savepoint(w: Writer, *, restore: bool = False) -> None:
    write_base(w)
    w.upsert(range(0, 40, 2), 2, "u1")
    w.register()
    saved = w.last()
    w.call(f"call create_savepoint(table => '{w.name}', commit_time => '{saved}')")
    w.upsert(range(0, 40, 3), 3, "u2")
    w.upsert([*range(0, 40, 5), 77, 78], 4, "u3")
    if restore:
        w.call(f"call rollback_to_savepoint(table => '{w.name}', instant_time => '{saved}')")
        w.upsert(range(0, 40, 7), 5, "u4")


@case("d_archived_0150", "0.15.0", "archived timeline (layout 1), 14 commits")
@case("d_archived_120", "1.2.0", "archived timeline (LSM history), 14 commits")
@case("d_archived_nomdt_120", "1.2.0", "archived timeline (LSM history), no metadata table", metadata=False)
@case("d_archived_v6_by120", "1.2.0", "archived timeline of table version 6 by 1.2.0", version=6, metadata=False)
def d_archived(w: Writer, *, metadata: bool = True, version: int | None = None) -> None:
    w.options |= {
        "hoodie.cleaner.commits.retained": 1,
        "hoodie.keep.min.commits": 3,
        "hoodie.keep.max.commits": 4,
        "hoodie.archive.automatic": "true",
        "hoodie.archive.async": "false",
        "hoodie.clean.async": "false",
        "hoodie.commits.archival.batch": 2,
        "hoodie.metadata.compact.max.delta.commits": 2,
        "hoodie.timeline.compaction.batch.size": 3,
    }
    write_base(w, version=version, metadata=metadata)
    for step in range(13):
        w.upsert(range(step, 40, 4), 2 + step, f"u{step}", options=COMPACT if step % 4 == 3 else None)
