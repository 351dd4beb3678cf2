"""K, l: table services in odd orders."""

from tests.golden.generate.options import (
    CLUSTER,
    COMPACT,
    LOG_COMPACT,
    SCHEDULE_COMPACTION,
    SMALL_FILES,
    Options,
)
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer

ARCHIVE: Options = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.commits.retained": 1,
    "hoodie.clean.async": "false",
    "hoodie.clean.commits.retained": 1,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
    "hoodie.archive.automatic": "true",
    "hoodie.archive.async": "false",
    "hoodie.commits.archival.batch": 1,
    "hoodie.timeline.compaction.batch.size": 2,
}


def run_compaction(w: Writer) -> None:
    """Executes the compaction that is pending. The procedure takes its options from the session."""
    w.register()
    for name, value in w.write_options().items():
        if not name.startswith(("hoodie.datasource", "hoodie.table.name")) and "parallelism" not in name:
            w.set(name, value)
    w.call(f"call run_compaction(op => 'run', table => '{w.name}')")


@case("l_storm_120", "1.2.0", "log compaction, compaction, clustering, clean, archive interleaved")
def l_storm(w: Writer) -> None:
    w.without_metadata_table()
    w.options[SMALL_FILES] = 0
    w.upsert(range(40), 1, "base", "bulk_insert")
    w.upsert(range(0, 40, 2), 2, "u1")
    w.upsert(range(0, 50, 3), 3, "u2")
    w.upsert(range(0, 40, 4), 4, "u3", options=LOG_COMPACT)
    w.upsert(range(0, 40, 5), 5, "d", "delete")
    w.upsert(range(0, 60, 6), 6, "u4", options=COMPACT)
    w.upsert(range(60, 80), 7, "i", "insert", options=CLUSTER)
    w.upsert(range(0, 80, 3), 8, "u5")
    w.upsert(range(0, 80, 4), 9, "u6", options=SCHEDULE_COMPACTION)
    w.upsert(range(0, 80, 5), 10, "u7", options=LOG_COMPACT)
    w.upsert(range(0, 80, 7), 11, "u8", options=ARCHIVE)
    run_compaction(w)
    w.upsert(range(0, 90, 9), 12, "u9", options=ARCHIVE)


@case(
    "l_overwrite_mix_0150", "0.15.0", "insert_overwrite_table, delete_partition, drop partition, re-insert, compaction"
)
def l_overwrite(w: Writer) -> None:
    w.without_metadata_table()

    def write(part: str, keys: range, ts: int, tag: str, options: Options | None = None) -> None:
        w.write(w.rows(keys, ts, tag, parts=[part]), options=options)

    w.upsert(range(40), 1, "base", "bulk_insert")
    w.upsert(range(0, 40, 2), 2, "u1")
    w.upsert(range(20, 40), 3, "owt", "insert_overwrite_table")
    w.upsert(range(20, 50, 3), 4, "u2")
    w.upsert([], 5, "x", "delete_partition", options={"hoodie.datasource.write.partitions.to.delete": "b,c"})
    write("b", range(20), 6, "re")
    write("b", range(0, 20, 2), 7, "re-u", COMPACT)
    w.register()
    w.try_sql(f"alter table {w.name} drop partition (part='a')")
    write("a", range(0, 20, 5), 8, "a-again")
    write("b", range(0, 20, 3), 9, "u")
