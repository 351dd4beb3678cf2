"""K, k: writers that overlap in time."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.golden.generate.answers import short_error
from tests.golden.generate.cases.services import run_compaction
from tests.golden.generate.options import COMPACT, INDEX, MERGE_MODE, ORDERING, SCHEDULE_COMPACTION, Options
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPTIMISTIC: Options = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    "hoodie.write.lock.client.num_retries": 50,
}
NON_BLOCKING: Options = {
    **OPTIMISTIC,
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.table.type": "MERGE_ON_READ",
    INDEX: "BUCKET",
    "hoodie.index.bucket.engine": "SIMPLE",
    "hoodie.bucket.index.num.buckets": 2,
    "hoodie.bucket.index.hash.field": "id",
}


def slowly(frame: "DataFrame", seconds: float) -> "DataFrame":
    """A frame whose first row takes its time, so that the commit that writes it completes after others."""
    from pyspark.sql.functions import udf  # noqa: PLC0415 - the registry is read without Spark

    slept: list[bool] = []

    def late(name: str | None) -> str | None:
        if not slept:
            slept.append(True)
            time.sleep(seconds)
        return name

    return frame.withColumn("name", udf(late)("name"))


def together(w: Writer, *writes: tuple[float, Callable[[], None]]) -> None:
    """Runs writes that begin after so many seconds, each in a thread; notes which failed."""
    failed: list[str] = []

    def run(delay: float, write: Callable[[], None]) -> None:
        time.sleep(delay)
        try:
            write()
        except Exception as error:  # noqa: BLE001 - the loser of a conflict fails in many ways
            failed.append(f"writer after {delay} s failed: {short_error(error)}")

    threads = [threading.Thread(target=run, args=item) for item in writes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    w.notes += failed


@case("k_occ_conflict_left_0150", "0.15.0", "two writers, same file groups: one fails and is left")
def k_conflict(w: Writer) -> None:
    w.without_metadata_table()
    w.options |= {
        **OPTIMISTIC,
        "hoodie.client.heartbeat.interval_in_ms": 1000,
        "hoodie.client.heartbeat.tolerable.misses": 1,
    }

    def rows(keys: range, ts: int, tag: str) -> "DataFrame":
        return w.rows(keys, ts, tag, part_of=lambda key: "ab"[key % 2])

    w.write(rows(range(40), 1, "base"), "bulk_insert")
    together(
        w,
        (0, lambda: w.write(slowly(rows(range(0, 40, 2), 9, "slow"), 7))),
        (2.5, lambda: w.write(rows(range(0, 40, 3), 3, "fast"))),
    )
    w.write(rows(range(0, 40, 5), 4, "after"))


@case("k_nbcc_pending_120", "1.2.0", "NBCC: compaction scheduled while a slow writer runs, not executed")
def k_non_blocking(w: Writer) -> None:
    w.without_metadata_table()
    w.options |= NON_BLOCKING
    w.upsert(range(40), 1, "base")
    w.upsert(range(0, 40, 4), 2, "u1", options=COMPACT)
    together(
        w,
        (0, lambda: w.write(slowly(w.rows(range(0, 40, 2), 5, "slow"), 8))),
        (2, lambda: w.upsert(range(0, 40, 3), 4, "fast1")),
        (5.5, lambda: w.upsert(range(0, 40, 5), 6, "fast2", options=SCHEDULE_COMPACTION)),
    )
    w.upsert(range(0, 40, 6), 3, "after")
    w.upsert(range(0, 40, 9), 7, "d", "delete")


@case(
    "k_min_nbcc_pending_120",
    "1.2.0",
    "minimal: NBCC, commit time ordering, one key, slow writer completes after a compaction was scheduled",
    executed=False,
)
@case("k_min_nbcc_executed_120", "1.2.0", "the same, compaction then executed", executed=True)
def k_non_blocking_minimal(w: Writer, *, executed: bool) -> None:
    w.without_metadata_table()
    w.options |= {
        **NON_BLOCKING,
        "hoodie.bucket.index.num.buckets": 1,
        "hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING",
        MERGE_MODE: "COMMIT_TIME_ORDERING",
        ORDERING: None,
    }

    def rows(keys: Sequence[int], ts: int, tag: str) -> "DataFrame":
        return w.rows(keys, ts, tag, parts=["a"])

    w.write(rows(range(3), 1, "base"), options=COMPACT)
    together(
        w,
        (0, lambda: w.write(slowly(rows([0, 1], 5, "slow"), 8))),
        (2.5, lambda: w.write(rows([0, 2], 4, "fast"), options=SCHEDULE_COMPACTION)),
    )
    if executed:
        run_compaction(w)
