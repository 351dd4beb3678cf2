"""K, q: ordering fields of other types, change data capture, tables without meta columns. r: filters."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.golden.generate.cases.index_types import GLOBAL_SIMPLE
from tests.golden.generate.options import (
    CLUSTER,
    COMPACT,
    INDEX,
    KEY_GENERATOR,
    KEY_GENERATORS,
    ORDERING,
    PAYLOAD,
    PAYLOADS,
    SCHEDULE_COMPACTION,
    SMALL_FILES,
    Options,
)
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer, key_number, with_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Event = tuple[int, int, str] | tuple[int, int, str, bool]
EVENTS: tuple[tuple[str, tuple[Event, ...]], ...] = (
    ("insert", tuple((key, 10, "base") for key in range(24))),
    (
        "upsert",
        (
            (0, 5, "late"),
            (1, 10, "tie"),
            (2, 20, "new"),
            (3, 5, "x", True),
            (4, 10, "x", True),
            (5, 20, "x", True),
            (6, 20, "x"),
            (7, 20, "x", True),
            (8, 9, "nine"),
            (9, 100, "hundred"),
        ),
    ),
    ("delete", ((10, 5, ""), (12, 20, ""), (2, 20, ""), (13, 10, ""))),
    (
        "upsert",
        ((6, 15, "y"), (7, 15, "y"), (10, 6, "re"), (5, 21, "re"), (13, 5, "re-late"), (14, 10, "tie2")),
    ),
)


def frames_of_events(w: Writer) -> "Iterator[tuple[str, DataFrame]]":
    schema = "id string, part string, qty int, name string, _hoodie_is_deleted boolean"
    for operation, events in EVENTS:
        rows = [(f"k{key:02d}", "ab"[key % 2], qty, text, any(deleted)) for key, qty, text, *deleted in events]
        yield operation, w.frame(rows, schema)


@case(
    "q_ord_ts_pre_120",
    "1.2.0",
    "ordering field of kind ts_pre",
    field="o",
    value="timestamp'1965-01-01 00:00:00' + make_interval(0,0,0,0,0,0, qty * 0.5)",
)
@case(
    "q_ord_nested_0150",
    "0.15.0",
    "ordering field of kind nested",
    field="o.a.ts",
    value="named_struct('a', named_struct('ts', cast(qty as bigint)))",
)
def q_ordering(w: Writer, *, field: str, value: str) -> None:
    w.without_metadata_table()
    w.options[ORDERING] = field
    w.options[PAYLOAD] = PAYLOADS + "DefaultHoodieRecordPayload" if w.release < (1, 0) else None
    w.questions.read_optimized = False
    w.questions.time_travels, w.questions.ranges = 0, 1
    for operation, frame in frames_of_events(w):
        w.write(with_columns(frame, {"o": value}), operation)


@case("q_cdc_key_0150", "0.15.0", "CDC OP_KEY_ONLY, MOR, compaction, overwrite, delete_partition", mode="op_key_only")
@case(
    "q_cdc_move_120",
    "1.2.0",
    "CDC with records that move partition (GLOBAL_SIMPLE)",
    mode="data_before_after",
    moving=True,
)
def q_changes(w: Writer, *, mode: str, moving: bool = False) -> None:
    w.without_metadata_table()
    w.options |= {
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
        SMALL_FILES: 0,
    }
    if moving:
        w.options |= GLOBAL_SIMPLE

    def write(
        keys: range, ts: int, tag: str, shift: int, operation: str = "upsert", options: Options | None = None
    ) -> None:
        part_of = (lambda key: "abc"[(key + shift) % 3]) if moving else None
        w.write(w.rows(keys, ts, tag, part_of=part_of), operation, options)

    write(range(24), 1, "base", 0, "insert")
    write(range(0, 30, 2), 2, "u1", 1)
    write(range(0, 24, 3), 0, "late", 0)
    write(range(0, 24, 5), 3, "d", 0, "delete")
    write(range(0, 24, 4), 4, "u2", 1, options=COMPACT)
    write(range(0, 24, 6), 5, "u3", 2)
    w.write(w.rows(range(3, 9), 6, "ow", parts=["b"]), "insert_overwrite")
    write(range(3, 24, 4), 7, "u4", 0, options=None if moving else CLUSTER)
    w.upsert([], 8, "x", "delete_partition", options={"hoodie.datasource.write.partitions.to.delete": "a"})
    write(range(10), 9, "again", 0)


@case("q_nometa_mor_120", "1.2.0", "no meta columns, MOR, updates, deletes, compaction, clustering")
def q_no_meta_columns(w: Writer) -> None:
    w.without_metadata_table()
    w.options |= {
        "hoodie.populate.meta.fields": "false",
        INDEX: "SIMPLE",
        SMALL_FILES: 0,
        KEY_GENERATOR: KEY_GENERATORS + "SimpleKeyGenerator",
    }
    w.upsert(range(30), 10, "base", "bulk_insert")
    w.upsert(range(0, 30, 2), 20, "u")
    w.upsert(range(0, 30, 3), 5, "late", options=COMPACT)
    w.upsert(range(0, 30, 5), 30, "d", "delete")
    w.upsert(range(1, 40, 4), 25, "u2")
    w.upsert(range(40, 50), 1, "ins", "insert", options=CLUSTER)


FILTERS = (
    ("part = 'a'", "pc.field('part') == 'a'", "part = 'a'"),
    ("part in ('a','zz')", "pc.field('part').isin(['a','zz'])", "part in ('a','zz')"),
    ("not (part = 'a')", "~(pc.field('part') == 'a')", "not (part = 'a')"),
    ("part is null", "pc.field('part').is_null()", "part is null"),
    (
        "part is null or part > 'a'",
        "pc.field('part').is_null() | (pc.field('part') > 'a')",
        "part is null or part > 'a'",
    ),
    ("part <> 'b' and ts > 1", "(pc.field('part') != 'b') & (pc.field('ts') > 1)", "part <> 'b' and ts > 1"),
    ("id = 'k00007'", "pc.field('id') == 'k00007'", "id = 'k00007'"),
    (
        "id in ('k00007','k00008','nope')",
        "pc.field('id').isin(['k00007','k00008','nope'])",
        "id in ('k00007','k00008','nope')",
    ),
    ("id like 'k0001%'", "pc.starts_with(pc.field('id'), 'k0001')", "id like 'k0001%'"),
    ("id not in ('k00007')", "~pc.field('id').isin(['k00007'])", "id not in ('k00007')"),
    ("_hoodie_record_key = 'k00004'", "pc.field('_hoodie_record_key') == 'k00004'", "_hoodie_record_key = 'k00004'"),
    ("ts = 3", "pc.field('ts') == 3", "ts = 3"),
    ("ts >= 2 and ts < 4", "(pc.field('ts') >= 2) & (pc.field('ts') < 4)", "ts between 2 and 3"),
    ("ts is null", "pc.field('ts').is_null()", "ts is null"),
    ("name is null", "pc.field('name').is_null()", "name is null"),
    (
        "name is not null and name not like 'base%'",
        "~pc.starts_with(pc.field('name'), 'base')",
        "name not like 'base%'",
    ),
    ("name like 'u1%'", "pc.starts_with(pc.field('name'), 'u1')", "name like 'u1%'"),
    ("name = 'base-4'", "pc.field('name') == 'base-4'", "name = 'base-4'"),
    ("st.a = 4", "pc.field('st','a') == 4", "st.a = 4"),
    ("st.n.x is null", "pc.field('st','n','x').is_null()", "st.n.x is null"),
    ("st.b like 'u%'", "pc.starts_with(pc.field('st','b'), 'u')", "st.b like 'u%'"),
    ("st is null", "pc.field('st').is_null()", "st is null"),
    (
        "t < timestamp'2020-01-01 05:00:00'",
        "pc.field('t') < pa.scalar(dt.datetime(2020,1,1,5), pa.timestamp('us','UTC'))",
        "t < timestamptz '2020-01-01 05:00:00+00'",
    ),
    (
        "d in (date'2020-01-03', date'2020-01-05')",
        "pc.field('d').isin([dt.date(2020,1,3), dt.date(2020,1,5)])",
        "d in (date '2020-01-03', date '2020-01-05')",
    ),
    ("price > 0 and not (qty < 0)", "(pc.field('price') > 0) & ~(pc.field('qty') < 0)", "price > 0 and not (qty < 0)"),
    ("price + qty > 0", "(pc.field('price') + pc.field('qty').cast('double')) > 0", "price + qty > 0"),
    ("dec = 4.50", "pc.field('dec') == Decimal('4.50')", "dec = 4.50"),
    ("upper(name) = 'U2-6'", "pc.utf8_upper(pc.field('name')) == 'U2-6'", "upper(name) = 'U2-6'"),
    ("price <=> null", "pc.field('price').is_null()", "price is not distinct from null"),
    ("coalesce(qty, 0) = 0", "pc.coalesce(pc.field('qty'), 0) == 0", "coalesce(qty, 0) = 0"),
    ("_hoodie_commit_time > '2'", "pc.field('_hoodie_commit_time') > '2'", "_hoodie_commit_time > '2'"),
    (
        "name <> 'base-4' or name is null",
        "(pc.field('name') != 'base-4') | pc.field('name').is_null()",
        "name <> 'base-4' or name is null",
    ),
    (
        "length(id) = 6 and size(arr) = 2",
        "(pc.utf8_length(pc.field('id')) == 6) & (pc.list_value_length(pc.field('arr')) == 2)",
        "length(id) = 6 and len(arr) = 2",
    ),
    ("false", "pa.scalar(False) == pa.scalar(True)", "false"),
    (
        "ts = 3 or (part = 'a' and id < 'k00010')",
        "(pc.field('ts') == 3) | ((pc.field('part') == 'a') & (pc.field('id') < 'k00010'))",
        "ts = 3 or (part = 'a' and id < 'k00010')",
    ),
    ("_hoodie_partition_path = 'b'", "pc.field('_hoodie_partition_path') == 'b'", "_hoodie_partition_path = 'b'"),
)
"""Conditions as SQL of Spark, as Arrow expressions, and as SQL of DuckDB."""


@case("r_filters_120", "1.2.0", "many filters: base, logs, compaction, several row groups")
def r_filters(w: Writer) -> None:
    w.without_metadata_table()
    w.options |= {"hoodie.parquet.block.size": 3000, "hoodie.parquet.page.size": 500}
    w.questions.time_travels = w.questions.ranges = 1
    number = key_number()
    nested = (
        f"named_struct('a', {number}, 'b', name, "
        f"'n', named_struct('x', case when {number} % 2 = 0 then null else {number} end))"
    )
    columns = {
        "st": f"case when {number} % 9 = 0 then null else {nested} end",
        "t": f"timestamp'2020-01-01 00:00:00' + make_interval(0,0,0,0,{number})",
        "d": f"date_add(date'2020-01-01', {number} % 10)",
        "dec": f"cast({number} + 0.5 as decimal(12,2))",
        "arr": f"case when {number} % 5 = 0 then null else array({number}, ts) end",
    }
    parts = (None, "a", "b", "a")

    def write(keys: range, ts: int, tag: str, operation: str = "upsert", options: Options | None = None) -> None:
        rows = w.rows(keys, ts, tag, part_of=lambda key: parts[key % len(parts)])
        w.write(with_columns(rows, columns), operation, options)

    write(range(60), 1, "base", "insert")
    write(range(0, 60, 2), 2, "u1")
    write(range(0, 60, 3), 3, "u2", options=SCHEDULE_COMPACTION)
    write(range(0, 60, 6), 0, "late")
    write(range(0, 60, 7), 4, "d", "delete")
    for condition in FILTERS:
        w.questions.ask_filtered(*condition)
