"""H: indexes by which readers prune files."""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from tests.golden.generate.options import COLUMN_STATS, INDEX
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer, key_number, with_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS = 900
ALL = ("column_stats", "bloom_filters", "record_index")


@case("h_bloom_footer_0150", "0.15.0", "bloom filter in base file footers; 6 file groups in each of 3 partitions")
@case("h_bloom_footer_120", "1.2.0", "bloom filter in base file footers; 6 file groups in each of 3 partitions")
@case("h_column_stats_0150", "0.15.0", "metadata: column_stats", indexes=ALL[:1])
@case("h_column_stats_120", "1.2.0", "metadata: column_stats + partition_stats", indexes=ALL[:1])
@case("h_bloom_mdt_120", "1.2.0", "metadata: bloom_filters", indexes=ALL[1:2])
@case("h_record_index_0150", "0.15.0", "metadata: record index", indexes=ALL[2:])
@case("h_record_index_120", "1.2.0", "metadata: record index", indexes=ALL[2:])
@case("h_partitioned_record_index_120", "1.2.0", "metadata: record index of each partition", indexes=("partitioned",))
@case("h_all_indexes_120", "1.2.0", "metadata: column_stats, partition_stats, bloom_filters, record index", indexes=ALL)
def h_index(w: Writer, *, indexes: Collection[str] = ()) -> None:
    w.options |= {"hoodie.index.bloom.num_entries": 60, "hoodie.bloom.index.filter.dynamic.max.entries": 200}
    if "column_stats" in indexes:
        w.options[COLUMN_STATS] = "true"
    elif w.release >= (1, 0):
        w.options |= {COLUMN_STATS: "false", "hoodie.metadata.index.partition.stats.enable": "false"}
    if "bloom_filters" in indexes:
        w.options |= {
            "hoodie.metadata.index.bloom.filter.enable": "true",
            "hoodie.metadata.index.bloom.filter.column.list": "id",
        }
    if "record_index" in indexes:
        w.options |= {
            "hoodie.metadata.record.index.enable": "true",
            "hoodie.metadata.record.index.min.filegroup.count": 2,
            "hoodie.metadata.record.index.max.filegroup.count": 2,
            INDEX: "RECORD_INDEX",
        }

    if "partitioned" in indexes:
        w.options |= {
            "hoodie.metadata.record.level.index.enable": "true",
            "hoodie.metadata.record.level.index.min.filegroup.count": 2,
            "hoodie.metadata.record.level.index.max.filegroup.count": 2,
            "hoodie.datasource.write.hive_style_partitioning": "true",
            INDEX: "RECORD_LEVEL_INDEX",
        }

    def rows(keys: Iterable[int], ts: int, tag: str, added: int) -> "DataFrame":
        return with_columns(w.rows(keys, ts, tag), {"ts": f"cast(substr(id, 2) as bigint) + {added}"})

    # Six bulk inserts, each of its own keys: six file groups in each partition, whose keys and values do not overlap.
    base = rows(range(KEYS), 1, "base", 0).sortWithinPartitions("part", "id")
    for part in range(6):
        w.write(base.where(f"{key_number()} div 150 = {part}").coalesce(1), "bulk_insert")
    w.write(rows(range(0, KEYS, 10), 2, "u2", 1000))
    w.write(rows(range(140, 160), 3, "u3", 2000))
    w.write(rows(range(0, KEYS, 45), 4, "u4", 3000), "delete")
    w.questions.filters = [
        [["id", "=", "k00155"]],
        [["part", "=", "b"], ["ts", ">=", 2000]],
        [["id", ">=", "k00700"], ["id", "<", "k00720"]],
        [["qty", "<", -1500000000]],
        [["part", "=", "a"], ["id", "=", "k00000"]],
        [["price", ">", 990.0]],
    ]


@case("h_secondary_index_120", "1.2.0", "secondary index + record index by SQL", index="idx_city on {name} (city)")
@case(
    "h_expression_index_102",
    "1.0.2",
    "expression index by SQL",
    index="idx_dt on {name} using column_stats(at) options(expr='from_unixtime', format='yyyy-MM-dd')",
)
def h_sql_index(w: Writer, *, index: str) -> None:
    w.set("hoodie.metadata.record.index.enable", "true")
    w.set("hoodie.index.bloom.num_entries", "100")
    if w.release >= (1, 1):
        w.set("hoodie.write.concurrency.mode", "optimistic_concurrency_control")
        w.set("hoodie.write.lock.provider", "org.apache.hudi.client.transaction.lock.InProcessLockProvider")
        w.set("hoodie.clean.failed.writes.policy", "LAZY")
    w.sql(
        f"create table {w.name} (id string, ts bigint, city string, fare double, at bigint, part string) using hudi "
        f"partitioned by (part) location '{w.path}' tblproperties (type='mor', primaryKey='id', preCombineField='ts')"
    )
    w.set("hoodie.spark.sql.insert.into.operation", "upsert")
    for end, step, ts in ((100, 1, 1), (110, 3, 2)):
        w.sql(
            f"insert into {w.name} select concat('k', lpad(id, 4, '0')), {ts}L, concat('city', id % 7), id / 3D, "
            f"1700000000 + id * 40000, if(id % 2 = 0, 'p', 'q') from range(0, {end}, {step}, 1)"
        )
    w.sql(f"delete from {w.name} where id in ('k0000', 'k0007')")
    # At the end: SQL upserts of a table that has such an index fail in 1.2.0 with a NullPointerException.
    w.sql(f"create index {index.format(name=w.name)}")
    w.questions.filters = [[["city", "=", "city3"]]]


@case(
    "h_secondary_index_updated_120",
    "1.2.0",
    "secondary index, then updates and deletes in logs, and new rows",
    indexes=("idx_city on {name} (city)",),
)
@case(
    "h_sql_indexes_updated_102",
    "1.0.2",
    "secondary and expression indexes, then updates and deletes in logs, new rows, and a compaction",
    indexes=(
        "idx_city on {name} (city)",
        "idx_low on {name} using column_stats(city) options(expr='lower')",
        "idx_dt on {name} using column_stats(at) options(expr='from_unixtime', format='yyyy-MM-dd')",
    ),
)
def h_sql_indexes_updated(w: Writer, *, indexes: Collection[str]) -> None:
    w.set("hoodie.metadata.record.index.enable", "true")
    w.set("hoodie.index.bloom.num_entries", "50")
    if w.release >= (1, 1):
        # Where the metadata table has base files, 1.2.0 fails to write column stats and expression indexes.
        w.set(COLUMN_STATS, "false")
        w.set("hoodie.write.concurrency.mode", "optimistic_concurrency_control")
        w.set("hoodie.write.lock.provider", "org.apache.hudi.client.transaction.lock.InProcessLockProvider")
        w.set("hoodie.clean.failed.writes.policy", "LAZY")
    groups = {
        "hoodie.metadata.record.index.min.filegroup.count": "2",
        "hoodie.metadata.record.index.max.filegroup.count": "2",
    }
    small_files = {"hoodie.parquet.small.file.limit": "0", "hoodie.merge.small.file.group.candidates.limit": "0"}
    for name, value in (groups | small_files).items():
        w.set(name, value)
    w.sql(
        f"create table {w.name} (id string, ts {w.ordering_type}, city string, zone int, at bigint, part string) "
        f"using hudi partitioned by (part) location '{w.path}' "
        "tblproperties (type='mor', primaryKey='id', preCombineField='ts')"
    )
    w.set("hoodie.spark.sql.insert.into.operation", "insert")
    for start in range(0, 120, 40):
        w.sql(
            f"insert into {w.name} select concat('k', lpad(id, 4, '0')), cast(1 as {w.ordering_type}), "
            f"concat('City', id div 10), cast(id div 20 as int), 1700000000 + id * 40000, if(id % 2 = 0, 'p', 'q') "
            f"from range({start}, {start + 40}, 1, 1)"
        )
    for index in indexes:
        w.sql(f"create index {index.format(name=w.name)}")
    w.options |= groups | {
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.metadata.record.index.enable": "true",
        COLUMN_STATS: "false" if w.release >= (1, 1) else "true",
        INDEX: "RECORD_INDEX",
    }

    def changed(keys: Iterable[int], ts: int, city: str, zone: str = "zone") -> None:
        chosen = ", ".join(f"'k{key:04d}'" for key in keys)
        rows = w.sql(
            f"select id, cast({ts} as {w.ordering_type}) ts, {city} city, {zone} zone, at, part from {w.name} "
            f"where id in ({chosen})"
        )
        w.write(w.frame(rows.collect(), rows.schema))

    changed(range(0, 10, 3), 3, "'Moved'", "cast(99 as int)")
    changed((1, 2, 41), 3, "cast(null as string)")
    changed((4, 42), 4, r"'a$b\\c'")
    # Too late to count.
    changed((9, 43, 80), 0, "'Late'")
    # Not by bulk_insert: 1.2.0 does not enter its rows into a secondary index, and so does not find them.
    rows = w.sql(
        f"select concat('k', lpad(id, 4, '0')) id, cast(1 as {w.ordering_type}) ts, 'New' city, cast(7 as int) zone, "
        "1700000000 + id * 40000 at, 'p' part from range(120, 122, 1, 1)"
    )
    w.write(rows, "insert")
    if w.release < (1, 1):
        w.sql(f"update {w.name} set city = 'City0', ts = 5 where id = 'k0081'")
    rows = w.sql(f"select id, ts, city, zone, at, part from {w.name} where id in ('k0007', 'k0082')")
    w.write(rows, "delete")
    w.questions.filters = [[["city", "=", "City0"]], [["city", "=", "Moved"]], [["city", "=", "New"]]]


@case("h_stats_of_nan_120", "1.2.0", "column stats of numbers, some of which are NaN, in base files and logs")
def h_stats_of_nan(w: Writer) -> None:
    w.options[COLUMN_STATS] = "true"

    def write(keys: Iterable[int], ts: int, price: str, operation: str) -> None:
        w.write(with_columns(w.rows(keys, ts, "x"), {"price": price}).coalesce(1), operation)

    number = f"cast({key_number()} as double)"
    write(range(10), 1, number, "bulk_insert")
    write(range(10, 20), 1, f"if(id = 'k00015', double('NaN'), {number})", "bulk_insert")
    write(range(20, 30), 1, "double('NaN')", "bulk_insert")
    write((3, 4), 2, f"if(id = 'k00003', double('NaN'), {number} + 100)", "upsert")
    write((5, 15), 3, f"{number} + 200", "upsert")
    w.questions.filters = [[["price", "<", 15]], [["price", "=", 14]]]
