"""G: columns added, dropped, renamed, moved and promoted, by writes and by ALTER TABLE (schema on read)."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tests.golden.generate.options import (
    BLOCK_FORMAT,
    COLUMN_DROP,
    COLUMN_STATS,
    HIVE_STYLE,
    KEY_GENERATOR,
    KEY_GENERATORS,
    PARTITION_PATH,
    SCHEMA_ON_READ,
    SMALL_FILES,
)
from tests.golden.generate.registry import case
from tests.golden.generate.timeline import properties
from tests.golden.generate.writer import Writer, with_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COMPACTION = "hoodie.compact.inline"
COMPACTION_AFTER = "hoodie.compact.inline.max.delta.commits"

# Evolved by writes.


@case("g_add_column_0150", "0.15.0", "schema-on-write: columns added at the end in later commits")
@case("g_add_column_120", "1.2.0", "schema-on-write: columns added at the end in later commits")
def g_add_column(w: Writer) -> None:
    extra = {"extra": "concat('x-', id)"}
    more = {
        **extra,
        "st": "if(ts > 0, struct(qty as q, name as n), null)",
        "arr": "if(ts > 0, array(coalesce(price, 0D)), null)",
    }
    w.upsert(range(30), 1, "base", "bulk_insert")
    w.upsert(range(0, 30, 3), 2, "u1")
    w.write(with_columns(w.rows([*range(0, 30, 4), 31, 32], 3, "u2"), extra))
    w.write(with_columns(w.rows(range(0, 30, 5), 4, "u3"), more))
    w.write(with_columns(w.rows(range(40, 50), 5, "new", parts=["z"]), more), "bulk_insert")


@case("g_widen_0150", "0.15.0", "schema-on-write: int->long, int->double, float->double, long->double, int->string ...")
@case("g_widen_120", "1.2.0", "schema-on-write: int->long, int->double, float->double, long->double")
def g_widen(w: Writer) -> None:
    narrow = (
        "id string, part string, ts bigint, i_l int, i_f int, i_d int, l_f bigint, l_d bigint, f_d float, "
        "nest struct<a:int,b:string>, arr array<int>"
    )
    wide = (
        "id string, part string, ts bigint, i_l bigint, i_f float, i_d double, l_f float, l_d double, f_d double, "
        "nest struct<a:bigint,b:string>, arr array<bigint>"
    )

    def before(keys: Sequence[int], ts: int) -> "DataFrame":
        return w.frame(
            (
                (
                    *(f"k{k}", "pq"[k % 2], ts, k * 1000, 16777217 + k, -k, 2**40 + k, 2**53 + k, 0.1 * k),
                    *((k, "n"), [k, k + 1]),
                )
                for k in keys
            ),
            narrow,
        )

    def after(keys: Sequence[int], ts: int) -> "DataFrame":
        return w.frame(
            (
                (
                    *(f"k{k}", "pq"[k % 2], ts, 2**33 + k, 1.5 * k, 2.25 * k, 0.1 + k, 0.2 * k, 0.1 * k),
                    *((2**34 + k, "m"), [2**35, 3]),
                )
                for k in keys
            ),
            wide,
        )

    w.write(before(range(20), 1), "bulk_insert")
    w.write(before(range(0, 20, 4), 2))
    w.write(after(range(0, 24, 3), 3))
    w.write(after(range(1, 20, 6), 4))


@case("g_reconcile_0150", "0.15.0", "hoodie.datasource.write.reconcile.schema: incoming batch lacks columns")
@case("g_reconcile_120", "1.2.0", "hoodie.datasource.write.reconcile.schema: incoming batch lacks columns")
def g_reconcile(w: Writer) -> None:
    w.options["hoodie.datasource.write.reconcile.schema"] = "true"
    w.upsert(range(30), 1, "base", "bulk_insert")
    w.write(with_columns(w.rows(range(0, 30, 3), 2, "u1"), {"extra": "if(id > '', 'e', null)"}))
    w.write(w.rows(range(0, 30, 4), 3, "u2").drop("qty"))
    w.write(w.rows(range(0, 30, 5), 4, "u3").drop("name"))


@case(
    "g_required_column_120", "1.2.0", "schema-on-write: numbers that must not be null, which an older base file lacks"
)
def g_required(w: Writer) -> None:
    w.options |= {
        "hoodie.datasource.write.reconcile.schema": "true",
        KEY_GENERATOR: KEY_GENERATORS + "NonpartitionedKeyGenerator",
        PARTITION_PATH: "",
        SMALL_FILES: 0,
    }
    # Columns of literals must not be null. An upsert that brings the first ones is refused.
    required = {"must": "1.5D", "num": "7"}
    w.upsert(range(6), 1, "base", "bulk_insert")
    w.write(with_columns(w.rows([8], 2, "new"), required), "bulk_insert")
    w.write(with_columns(w.rows([0, 3], 3, "u"), required))
    w.questions.filters = [[["must", "<", 1.0]], [["num", "=", 7]]]


@case("g_drop_column_write_0150", "0.15.0", "schema-on-write: column dropped (allow.auto.evolution.column.drop)")
def g_drop_write(w: Writer) -> None:
    w.options[COLUMN_DROP] = "true"
    w.upsert(range(30), 1, "base", "bulk_insert")
    w.upsert(range(0, 30, 3), 2, "u1")
    w.write(w.rows(range(0, 30, 4), 3, "u2").drop("qty"))


# Evolved by ALTER TABLE.

KEY = "concat('k', lpad(id, 3, '0'))"
PART = "if(id % 2 = 0, 'p', 'q')"


class EvolvingTable:
    """A table of SQL with schema on read; ``columns`` stand between the key, the ordering value and the partition."""

    def __init__(self, w: Writer, columns: str, block_format: str | None = None, *, keep_logs: bool = False) -> None:
        self.w = w
        w.set(SCHEMA_ON_READ, "true")
        # Without this, 1.x refuses to rename and to drop.
        w.set(COLUMN_DROP, "true")
        w.set("hoodie.spark.sql.insert.into.operation", "upsert")
        w.set("hoodie.index.bloom.num_entries", "500")
        w.set("hoodie.bloom.index.filter.dynamic.max.entries", "2000")
        if block_format is not None:
            w.set(BLOCK_FORMAT, block_format)
        if keep_logs:
            w.set(COMPACTION, "false")
        w.reader_options[SCHEMA_ON_READ] = "true"
        w.sql(
            f"create table {w.name} (id string, ts bigint, {columns}, part string) using hudi partitioned by (part) "
            f"location '{w.path}' tblproperties (type='mor', primaryKey='id', preCombineField='ts')"
        )

    def insert(self, keys: range, ts: int, values: Sequence[str], part: str = PART) -> None:
        """Upserts by SQL; ``values`` are expressions over ``id``, in the order of the columns."""
        self.w.sql(f"insert into {self.w.name} select {KEY}, {ts}L, {', '.join(values)}, {part} from {_numbers(keys)}")

    def upsert(self, keys: range, ts: int, values: Mapping[str, str], part: str = PART) -> None:
        """Upserts by the data source, for which the order of columns does not matter."""
        all_values = {"id": KEY, "ts": f"{ts}L", "part": part, **values}
        selected = ", ".join(f"{all_values[name]} as `{name}`" for name in self.w.columns())
        actual = properties(self.w.path)
        options = {
            "hoodie.table.name": self.w.name,
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            HIVE_STYLE: actual.get(HIVE_STYLE, "true"),
            KEY_GENERATOR: actual.get("hoodie.table.keygenerator.class", "org.apache.hudi.keygen.SimpleKeyGenerator"),
            "hoodie.datasource.write.reconcile.schema": "true",
            "hoodie.upsert.shuffle.parallelism": "2",
            SCHEMA_ON_READ: "true",
        }
        for name in (COMPACTION, COMPACTION_AFTER, COLUMN_STATS):
            if name in self.w.settings:
                options[name] = self.w.spark.conf.get(name) or ""
        frame = self.w.sql(f"select {selected} from {_numbers(keys)}")
        frame.write.format("hudi").options(**options).mode("append").save(str(self.w.path))

    def alter(self, change: str) -> bool:
        """Changes the schema; releases refuse some changes, which is noted."""
        if not self.w.try_sql(f"alter table {self.w.name} {change}"):
            return False
        self.w.sql(f"refresh table {self.w.name}")
        return True

    def type_of(self, column: str) -> str:
        """The type that a column has now."""
        return self.w.spark.table(self.w.name).schema[column].dataType.simpleString()


def _numbers(keys: range) -> str:
    return f"range({keys.start}, {keys.stop}, {keys.step}, 1)"


Story = Callable[..., None]
BOTH = {"0150": "0.15.0", "120": "1.2.0"}
OLD = range(20)
NEW = range(100, 106)


def in_both(stem: str, covers: str) -> Callable[[Story], Story]:
    """Registers a story for the releases that evolve schemas differently."""

    def register(story: Story) -> Story:
        for suffix, release in BOTH.items():
            case(f"{stem}_{suffix}", release, covers)(story)
        return story

    return register


@case("g_logs_drop_120", "1.2.0", "schema-on-read, logs not compacted: drop", keep_logs=True)
@case("g_sor_drop_111", "1.1.1", "schema-on-read: DROP COLUMN")
@in_both("g_sor_drop", "schema-on-read: DROP COLUMN")
def g_drop(w: Writer, *, keep_logs: bool = False) -> None:
    t = EvolvingTable(w, "a int, b string, z double", keep_logs=keep_logs)
    t.insert(OLD, 1, ["cast(id as int)", "concat('b', id)", "id/2D"])
    t.insert(range(0, 20, 3), 2, ["cast(-id as int)", "'u1'", "id/4D"])
    t.alter("drop column b")
    t.insert(range(0, 24, 4), 3, ["cast(id*10 as int)", "id/8D"])
    t.insert(NEW, 4, ["7", "0.5D"], "'r'")


@in_both("g_sor_add", "schema-on-read: ADD COLUMN at the end, FIRST and AFTER")
def g_add(w: Writer) -> None:
    t = EvolvingTable(w, "a int, b string")
    t.insert(OLD, 1, ["cast(id as int)", "concat('b', id)"])
    t.insert(range(0, 20, 3), 2, ["cast(-id as int)", "'u1'"])
    t.alter("add columns (z double)")
    t.alter("add columns (y string after a)")
    t.alter("add columns (st struct<p:int,q:string>)")
    values = {
        "a": "cast(id*10 as int)",
        "b": "'u2'",
        "z": "id/4D",
        "y": "'y'",
        "st": "named_struct('p', cast(id as int), 'q', 'Q')",
    }
    t.upsert(range(0, 24, 4), 3, values)
    t.upsert(NEW, 3, values, "'r'")


@case("g_logs_rename_0150", "0.15.0", "schema-on-read, logs not compacted: rename", keep_logs=True)
@in_both("g_sor_rename", "schema-on-read: RENAME COLUMN")
def g_rename(w: Writer, *, keep_logs: bool = False) -> None:
    t = EvolvingTable(w, "a int, b string, st struct<p:int,q:string>", keep_logs=keep_logs)
    struct = "named_struct('p', cast(id as int), 'q', 'Q')"
    t.insert(OLD, 1, ["cast(id as int)", "concat('b', id)", struct])
    t.insert(range(0, 20, 3), 2, ["cast(-id as int)", "'u1'", struct])
    t.alter("rename column b to bb")
    t.insert(range(0, 24, 4), 3, ["cast(id*10 as int)", "'u2'", struct])
    t.alter("rename column a to aa")
    t.insert(range(0, 24, 5), 4, ["cast(id*100 as int)", "'u3'", struct])
    t.insert(NEW, 4, ["7", "'new'", struct], "'r'")


@case("g_logs_rename_readd_120", "1.2.0", "schema-on-read, logs not compacted: rename_readd", keep_logs=True)
@in_both("g_sor_rename_readd", "schema-on-read: RENAME a to a2, then ADD a again (other meaning), swap names")
def g_rename_readd(w: Writer, *, keep_logs: bool = False) -> None:
    t = EvolvingTable(w, "a int, b string", keep_logs=keep_logs)
    t.insert(OLD, 1, ["cast(id as int)", "concat('b', id)"])
    t.insert(range(0, 20, 3), 2, ["cast(-id as int)", "'u1'"])
    t.alter("rename column a to a2")
    t.insert(range(0, 20, 7), 3, ["cast(id*5 as int)", "'u2'"])
    t.alter("add columns (a int)")
    t.insert(range(0, 24, 4), 4, ["cast(id*10 as int)", "'u3'", "cast(999 as int)"])
    t.insert(NEW, 5, ["7", "'n'", "8"], "'r'")


@case("g_logs_drop_readd_0150", "0.15.0", "schema-on-read, logs not compacted: drop_readd", keep_logs=True)
@in_both("g_sor_drop_readd", "schema-on-read: DROP a, ADD a with another type")
def g_drop_readd(w: Writer, *, keep_logs: bool = False) -> None:
    t = EvolvingTable(w, "a int, b string", keep_logs=keep_logs)
    t.insert(OLD, 1, ["cast(id as int)", "concat('b', id)"])
    t.insert(range(0, 20, 3), 2, ["cast(-id as int)", "'u1'"])
    t.alter("drop column a")
    t.insert(range(0, 20, 7), 3, ["'u2'"])
    t.alter("add columns (a string)")
    t.insert(range(0, 24, 4), 4, ["'u3'", "concat('a', id)"])
    t.insert(NEW, 5, ["'n'", "'s'"], "'r'")


PROMOTIONS = {
    "int": ("int", "cast(id * 1000003 - 7 as int)", ("bigint", "float", "double", "string", "decimal(12,2)")),
    "long": ("bigint", "id * 10000000019 - 5", ("float", "double", "string", "decimal(24,2)")),
    "float": ("float", "cast(id * 1.1 - 3.3 as float)", ("double", "string", "decimal(14,4)")),
    "double": ("double", "cast(id * 1.1D - 1e7D as double)", ("string", "decimal(20,6)")),
    "decimal": (
        "decimal(10,2)",
        "cast(id * 1.25 - 10 as decimal(10,2))",
        ("decimal(14,2)", "decimal(38,10)", "string"),
    ),
    "string": ("string", "", ("date", "decimal(10,3)")),
    "date": ("date", "date_add(date '2019-12-30', cast(id * 11 as int))", ("string",)),
}
"""By the first type of the columns: that type in SQL, its values, and the types that the columns are promoted to."""
OLD_TEXTS = {
    "date": "cast(date_add(date '2020-02-27', cast(id as int)) as string)",
    "decimal(10,3)": "cast(cast(id * 1.125 as decimal(10,3)) as string)",
}
"""Texts that can be promoted to a type."""
PROMOTED_VALUES = {
    "bigint": "id + 5000000000L",
    "float": "cast(id * 0.3 as float)",
    "double": "id * 0.7D",
    "string": "concat('s', id)",
    "date": "date_add(date '2021-01-01', cast(id as int))",
}


@case("g_logs_type_int_0150", "0.15.0", "schema-on-read, logs not compacted: type_int", source="int", keep_logs=True)
@case(
    "g_logs_type_string_0150",
    "0.15.0",
    "schema-on-read, logs not compacted: type_string",
    source="string",
    keep_logs=True,
)
@case(
    "g_logs_type_decimal_120",
    "1.2.0",
    "schema-on-read, logs not compacted: type_decimal",
    source="decimal",
    keep_logs=True,
)
@case(
    "g_logs_type_float_120", "1.2.0", "schema-on-read, logs not compacted: type_float", source="float", keep_logs=True
)
@case(
    "g_sor_type_int_parquet_120",
    "1.2.0",
    "schema-on-read: promotions from int, Parquet log blocks",
    source="int",
    block_format="parquet",
)
def g_promote(w: Writer, *, source: str, block_format: str | None = None, keep_logs: bool = False) -> None:
    first_type, value, targets = PROMOTIONS[source]
    names = [f"c{index}" for index in range(len(targets))]
    if w.release >= (1, 0) and source != "int":
        # Statistics of a promoted column break the writer of 1.x.
        w.set(COLUMN_STATS, "false")
    columns = ", ".join(f"{name} {first_type}" for name in [*names, "keep"])
    t = EvolvingTable(w, columns, block_format, keep_logs=keep_logs)

    def old(target: str) -> str:
        return OLD_TEXTS[target] if source == "string" else f"if(id % 5 = 4, null, {value})"

    kept = old(targets[0])
    t.insert(OLD, 1, [*(old(target) for target in targets), kept])
    t.insert(range(0, 20, 3), 2, [*(old(target).replace("id *", "(id+1) *") for target in targets), kept])
    done = [t.alter(f"alter column {name} type {target}") for name, target in zip(names, targets, strict=True)]

    def new(target: str, *, promoted: bool) -> str:
        type_ = target if promoted else first_type
        if type_.startswith("decimal"):
            return f"cast(id * 2.5 as {type_})"
        return f"if(id % 7 = 6, null, {PROMOTED_VALUES[type_]})" if promoted else old(target)

    values = [*(new(target, promoted=one) for target, one in zip(targets, done, strict=True)), kept]
    t.insert(range(0, 24, 4), 3, values)
    t.insert(NEW, 4, values, "'r'")


for _source in PROMOTIONS:
    for _suffix, _release in BOTH.items():
        case(
            f"g_sor_type_{_source}_{_suffix}",
            _release,
            f"schema-on-read: every promotion from {_source}",
            source=_source,
        )(g_promote)


@case("g_logs_nested_0150", "0.15.0", "schema-on-read, logs not compacted: nested", keep_logs=True)
@in_both("g_sor_nested", "schema-on-read: nested field add/rename/drop/promote")
def g_nested(w: Writer, *, keep_logs: bool = False) -> None:
    t = EvolvingTable(
        w,
        "s struct<a:int,b:string,n:struct<x:int,y:string>>, ar array<struct<k:int,v:string>>, "
        "m map<string,struct<k:int,v:string>>",
        keep_logs=keep_logs,
    )
    lists = [
        "array(named_struct('k', cast(id as int), 'v', 'v'))",
        "map('k', named_struct('k', cast(id as int), 'v', 'v'))",
    ]
    inner = "named_struct('x', cast(id as int), 'y', 'y')"
    values = [f"named_struct('a', cast(id as int), 'b', concat('b', id), 'n', {inner})", *lists]
    t.insert(OLD, 1, values)
    t.insert(range(0, 20, 3), 2, values)
    t.alter("add columns (s.c double)")
    t.alter("rename column s.b to bb")
    t.alter("alter column s.a type bigint")
    t.alter("add columns (s.n.z int after x)")
    t.alter("rename column s.n.y to yy")
    text = json.dumps(
        {"a": 5, "b": "B", "bb": "BB", "c": 1.5, "n": {"x": 1, "z": 2, "y": "Y", "yy": "YY"}},
    )
    t.insert(range(0, 24, 4), 3, [f"from_json('{text}', '{t.type_of('s')}')", *lists])
    t.alter("drop column s.bb")
    dropped = [f"from_json('{text}', '{t.type_of('s')}')", *lists]
    t.insert(range(0, 24, 5), 4, dropped)
    t.insert(NEW, 5, dropped, "'r'")


@in_both("g_sor_collections", "schema-on-read: fields inside array<struct> / map<struct>")
def g_collections(w: Writer) -> None:
    t = EvolvingTable(w, "ar array<struct<k:int,v:string>>, m map<string,struct<k:int,v:string>>")
    values = [
        "array(named_struct('k', cast(id as int), 'v', 'v'))",
        "map('k', named_struct('k', cast(id as int), 'v', 'v'))",
    ]
    t.insert(OLD, 1, values)
    t.insert(range(0, 20, 3), 2, values)
    t.alter("add columns (ar.element.w double)")
    t.alter("rename column m.value.v to vv")
    t.alter("alter column ar.element.k type bigint")
    items = t.type_of("ar")
    number = 3_000_000_000 if "bigint" in items else 3
    evolved = [
        f"""from_json('[{{"k":{number},"v":"V","w":1.5}}]', '{items}')""",
        f"""from_json('{{"q":{{"k":1,"v":"v","vv":"VV"}}}}', '{t.type_of("m")}')""",
    ]
    t.insert(range(0, 24, 4), 3, evolved)
    t.insert(NEW, 4, evolved, "'r'")


@in_both("g_sor_reorder", "schema-on-read: columns moved FIRST / AFTER")
def g_reorder(w: Writer) -> None:
    t = EvolvingTable(w, "a int, b string, z double")
    t.insert(OLD, 1, ["cast(id as int)", "concat('b', id)", "id/2D"])
    t.insert(range(0, 20, 3), 2, ["cast(-id as int)", "'u1'", "id/4D"])
    t.alter("alter column z after ts")
    t.alter("alter column b after z")
    values = {"a": "cast(id*10 as int)", "b": "'u2'", "z": "id/8D"}
    t.upsert(range(0, 24, 4), 3, values)
    t.upsert(NEW, 3, values, "'r'")


@in_both("g_sor_mixed", "schema-on-read: rename + promote + add + drop, compaction in between, more logs")
def g_mixed(w: Writer) -> None:
    if w.release >= (1, 0):
        # See g_promote.
        w.set(COLUMN_STATS, "false")
    t = EvolvingTable(w, "a int, b string, f float, s struct<x:int,y:string>")
    struct = "named_struct('x', cast(id as int), 'y', 'Y')"
    t.insert(range(30), 1, ["cast(id as int)", "concat('b', id)", "cast(id*1.1 as float)", struct])
    t.insert(range(0, 30, 3), 2, ["cast(-id as int)", "'u1'", "cast(id*1.3 as float)", struct])
    t.alter("rename column a to aa")
    t.alter("alter column aa type bigint")
    t.insert(range(0, 30, 4), 3, ["id + 5000000000L", "'u2'", "cast(id*1.7 as float)", struct])
    t.alter("alter column f type double")
    t.alter("drop column b")
    t.alter("add columns (b bigint after ts)")
    values = {"aa": "id + 6000000000L", "b": "id * 2", "f": "id * 0.1D", "s": struct}
    t.upsert(range(0, 30, 5), 4, values)
    w.set(COMPACTION, "true")
    w.set(COMPACTION_AFTER, "1")
    t.upsert(range(1, 30, 6), 5, values)
    w.set(COMPACTION, "false")
    t.alter("rename column f to g")
    values = {"aa": "id + 7000000000L", "b": "id * 3", "g": "id * 0.2D", "s": struct}
    t.upsert(range(2, 30, 7), 6, values)
    t.upsert(range(100, 104), 6, values, "'r'")
