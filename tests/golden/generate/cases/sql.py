"""E, k, n: what SQL statements write."""

from tests.golden.generate.options import COLUMN_DROP, METADATA, SCHEMA_ON_READ, SLASHED_DATES
from tests.golden.generate.registry import case
from tests.golden.generate.writer import Writer

OF_THE_SESSION = {
    METADATA: "false",
    "hoodie.compact.inline": "false",
    "hoodie.upsert.shuffle.parallelism": "2",
    "hoodie.insert.shuffle.parallelism": "2",
    "hoodie.simple.index.parallelism": "2",
    "hoodie.bulkinsert.shuffle.parallelism": "2",
    "hoodie.delete.shuffle.parallelism": "2",
}


def create(w: Writer, columns: str, **keys: str) -> None:
    for name, value in OF_THE_SESSION.items():
        w.set(name, value)
    properties = ", ".join(f"{name}='{value}'" for name, value in {"type": "mor", **keys}.items())
    w.sql(
        f"create table {w.name} ({columns}) using hudi partitioned by (part) location '{w.path}' "
        f"tblproperties ({properties}, '{METADATA}'='false')"
    )


@case("e_slash_dates_120", "1.2.0", "slash-separated dates (yyyy/MM/dd), a null, a value of one level")
def e_slash_dates(w: Writer) -> None:
    keys = {"primaryKey": "id", "preCombineField": "ts", SLASHED_DATES: "true"}
    create(w, "id string, ts bigint, name string, part string", **keys)
    w.sql(
        f"insert into {w.name} select concat('k', id), 1L, concat('n', id), "
        "element_at(array('2026-01-31', '2026-02-01', '2027-01-31', 'x', 'a/b-c', null), cast(id % 6 as int) + 1) "
        "from range(12)"
    )
    w.sql(f"update {w.name} set name = concat(name, '-u'), ts = 2L where id in ('k0', 'k1', 'k3', 'k5')")
    w.sql(f"delete from {w.name} where id = 'k6'")
    for condition, expression in (
        ("part = '2026-01-31'", "pc.field('part') == '2026-01-31'"),
        ("part > '2026-01-31'", "pc.field('part') > '2026-01-31'"),
        ("part in ('2026/01/31', 'x')", "pc.field('part').isin(['2026/01/31', 'x'])"),
        ("part is null", "pc.field('part').is_null()"),
    ):
        w.questions.ask_filtered(condition, expression, condition)


@case("n_merge_every_120", "1.2.0", "MERGE INTO with every clause, expressions, UPDATE, DELETE")
def n_merge(w: Writer) -> None:
    name = w.name
    create(
        w,
        "id int, name string, price double, s struct<a:int,b:string>, m map<string,int>, arr array<int>, ts bigint, "
        "part string",
        primaryKey="id",
        preCombineField="ts",
    )
    w.sql(
        f"insert into {name} select cast(id as int), concat('n', id), id * 1.5D, "
        "named_struct('a', cast(id as int), 'b', concat('b', id)), map('k', cast(id as int)), "
        "array(cast(id as int), 7), cast(10 as bigint), concat('p', id % 2) from range(24)"
    )
    source = (
        "(select cast(id as int) id, concat('src', id) name, id * 100.25D price, "
        "named_struct('a', cast(id * 2 as int), 'b', cast(null as string)) s, map('z', cast(id as int)) m, "
        "cast(null as array<int>) arr, cast(20 as bigint) ts, concat('p', id % 2) part from range(0, 36, 3)) s"
    )
    matched = f"merge into {name} t using {source} on t.id = s.id and t.part = s.part when matched and"
    w.try_sql(
        f"{matched} s.id % 4 = 0 then delete "
        "when matched and s.id % 4 = 1 then update set price = s.price * 3 - 1, ts = s.ts "
        "when not matched and s.id > 27 then insert *"
    )
    w.try_sql(f"{matched} s.id % 4 = 2 then update set name = concat('m-', s.name), s = s.s, ts = s.ts")
    w.try_sql(f"{matched} s.id % 12 = 3 then update set * ")
    w.try_sql(f"update {name} set name = upper(name), ts = cast(30 as bigint) where id % 5 = 0")
    w.try_sql(
        f"merge into {name} t using (select id, part, cast(5 as bigint) ts, -1D price from {name} where id % 7 = 0) s "
        "on t.id = s.id and t.part = s.part when matched then update set price = s.price, ts = s.ts"
    )
    w.try_sql(f"delete from {name} where id in (2, 11, 30)")
    w.try_sql(
        f"merge into {name} t using (select 2 id, 'p0' part, cast(40 as bigint) ts, 'back' name) s on t.id = s.id "
        "when not matched then insert (id, part, ts, name) values (s.id, s.part, s.ts, s.name)"
    )
    w.try_sql(
        f"update {name} set s = named_struct('a', s.a + 1, 'b', 'upd'), m = map_concat(m, map('q', id)), "
        "arr = array(id) where id % 6 = 1"
    )


@case("n_alter_0150", "0.15.0", "MERGE/UPDATE between ALTER add/rename/drop/type")
def n_alter(w: Writer) -> None:
    name = w.name
    create(
        w,
        "id int, name string, qty int, price float, s struct<a:int,b:string>, arr array<struct<x:int,y:string>>, "
        "ts bigint, part string",
        primaryKey="id",
        preCombineField="ts",
    )
    w.set(SCHEMA_ON_READ, "true")
    w.set(COLUMN_DROP, "true")
    w.reader_options[SCHEMA_ON_READ] = "true"
    w.sql(
        f"insert into {name} select cast(id as int) id, concat('n', id) name, cast(id as int) qty, "
        "cast(id + 0.2 as float) price, named_struct('a', cast(id as int), 'b', concat('b', id)), "
        "array(named_struct('x', cast(id as int), 'y', 'q')), cast(10 as bigint), concat('p', id % 2) from range(20)"
    )

    def alter(change: str) -> None:
        w.sql(f"alter table {name} {change}")

    def update(values: str, ts: int, condition: str) -> None:
        w.try_sql(f"update {name} set {values}, ts = cast({ts} as bigint) where {condition}")

    update("qty = qty + 100", 11, "id % 3 = 0")
    alter("add columns (extra string)")
    update("extra = concat('e', id)", 12, "id % 4 = 0")
    alter("rename column name to title")
    w.try_sql(
        f"merge into {name} t using (select cast(id as int) id, concat('p', id % 2) part, concat('M', id) title, "
        "cast(13 as bigint) ts from range(0, 26, 5)) s on t.id = s.id and t.part = s.part "
        "when matched then update set title = s.title, ts = s.ts"
    )
    alter("alter column qty type bigint")
    update("qty = qty + 10000000000", 14, "id % 6 = 0")
    alter("drop column price")
    alter("add columns (price string)")
    update("price = 'new'", 15, "id % 7 = 0")
    w.try_sql(f"alter table {name} add columns (s.c double)")
    w.try_sql(f"alter table {name} rename column s.b to bb")
    update("s = named_struct('a', 1, 'bb', 'sb', 'c', 2.5D)", 16, "id % 8 = 1")
    w.try_sql(f"delete from {name} where id = 17")


@case("n_pkless_120", "1.2.0", "no record key: INSERT, UPDATE, DELETE, MERGE, compaction")
def n_pkless(w: Writer) -> None:
    name = w.name
    # Hudi 1.2 runs out of memory in incremental queries to this table.
    w.questions.incremental = False
    create(w, "id int, name string, price double, part string")
    for numbers in ("range(20)", "range(10, 25)"):
        w.sql(
            f"insert into {name} select cast(id as int), concat('n', id), id * 1.5D, concat('p', id % 2) from {numbers}"
        )
    w.sql(f"update {name} set name = 'upd', price = price + 1 where id % 3 = 0")
    w.sql(f"delete from {name} where id % 5 = 0")
    w.try_sql(
        f"merge into {name} t using ("
        "select 4 id, 'p0' part, 'mrg' name, 9.5D price union all select 99, 'p1', 'new', 1D) s "
        "on t.id = s.id and t.part = s.part when matched then update set name = s.name when not matched then insert *"
    )
    w.sql(f"update {name} set price = -1 where name = 'upd' and part = 'p1'")
