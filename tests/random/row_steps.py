"""Steps that write rows: operations of the data source, statements of SQL, columns that change."""

import threading
import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from tests.golden.generate.options import COMPACT, SCHEDULE_COMPACTION, Options
from tests.random.draw import Step
from tests.random.kinds import ALTERED, WIDER, arrow_type, column_types, pick, sql_literal, value
from tests.random.rows import PLACES, Row
from tests.random.writing import NotApplicableError, TableWriter, step

STRUCT = "struct<x:int,y:string>"

_FAILS = "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator"
_FAILING: Mapping[str, object] = {
    "hoodie.precommit.validators": _FAILS,
    "hoodie.precommit.validators.single.value.sql.queries": "select count(*) from <TABLE_NAME>#-1",
}
_NEW_TYPES = ("int", "string", "double", STRUCT, "date")


def compaction_perhaps(writer: TableWriter, chance: Random) -> Options:
    """Options of a write: sometimes a compaction, or the plan of one, comes with it."""
    drawn = chance.random()
    if not writer.table.is_merge_on_read or "compaction" in writer.table.services or drawn > 0.12:
        return {}
    return COMPACT if drawn < 0.06 else SCHEDULE_COMPACTION


# Operations of the data source.


@step
def bulk_insert(writer: TableWriter, chance: Random, one: Step) -> None:
    keys = writer.rows.new_keys(one.rows or chance.choice([5, 15, 30]))
    writer.write(writer.rows.batch(chance, keys, late=0), "bulk_insert")


@step
def insert(writer: TableWriter, chance: Random, one: Step) -> None:
    keys = writer.rows.new_keys(one.rows or chance.choice([3, 10, 30]))
    rows = writer.rows.batch(chance, keys, late=0)
    writer.write(rows, "insert", compaction_perhaps(writer, chance))


@step
def upsert(writer: TableWriter, chance: Random, one: Step) -> None:
    rows = updates(writer, chance, one)
    writer.write(rows, "upsert", compaction_perhaps(writer, chance))


def updates(writer: TableWriter, chance: Random, one: Step) -> list[Row]:
    """Versions of some keys and of new ones; sometimes several of a key."""
    keys = writer.rows.some_keys(chance) + writer.rows.new_keys(one.rows or chance.choice([0, 2, 8]))
    if keys and chance.random() < 0.35:
        keys += chance.choices(keys, k=min(6, len(keys)))
    rows = writer.rows.batch(chance, keys, deleted=0.15 if one.number else 0)
    chance.shuffle(rows)
    return rows


@step
def move(writer: TableWriter, chance: Random, one: Step) -> None:
    """Updates keys, many of which come with another partition."""
    keys = writer.rows.some_keys(chance, 0.3)
    writer.rows.moved |= {key: chance.randrange(PLACES) for key in keys if chance.random() < 0.6}
    writer.write(writer.rows.batch(chance, keys), "upsert", compaction_perhaps(writer, chance))


@step
def delete(writer: TableWriter, chance: Random, one: Step) -> None:
    rows = writer.rows.batch(chance, writer.rows.some_keys(chance, 0.15), late=0.4)
    writer.write(rows, "delete", compaction_perhaps(writer, chance))


@step
def insert_overwrite(writer: TableWriter, chance: Random, one: Step) -> None:
    """Replaces one partition."""
    rows = writer.rows
    if not writer.table.partition_fields:
        insert_overwrite_table(writer, chance, one)
        return
    home = rows.home(chance.randrange(PLACES))
    old = [key for key in range(rows.keys) if rows.home(key) == home][:8]
    new = [key for key in rows.new_keys(8) if rows.home(key) == home]
    writer.write(rows.batch(chance, old + new, late=0), "insert_overwrite")


@step
def insert_overwrite_table(writer: TableWriter, chance: Random, one: Step) -> None:
    keys = writer.rows.some_keys(chance, 0.6) + writer.rows.new_keys(3)
    writer.write(writer.rows.batch(chance, keys, late=0), "insert_overwrite_table")


@step
def delete_partition(writer: TableWriter, chance: Random, one: Step) -> None:
    partitions = writer.partitions()
    if len(partitions) < 2:
        raise NotApplicableError("fewer than two partitions")
    chosen = {"hoodie.datasource.write.partitions.to.delete": chance.choice(partitions)}
    writer.write([], "delete_partition", chosen)


@step
def failed_write(writer: TableWriter, chance: Random, one: Step) -> None:
    """A write whose validation fails after its files are there; its keys count as not written."""
    keys, done = writer.rows.keys, len(writer.completed())
    rows = updates(writer, chance, one)
    try:
        writer.write(rows, "upsert", _FAILING)
    except Exception:  # noqa: BLE001 - what the validator raises comes as any error of Java
        writer.rows.keys = keys
    if len(writer.completed()) > done:
        raise NotApplicableError("the write did not fail")


@step
def two_writers(writer: TableWriter, chance: Random, one: Step) -> None:
    """Two writes at a time, of keys of their own or of the same; sometimes a compaction is planned beside them."""
    keys = writer.rows.some_keys(chance, 0.5)
    parts = [keys[::2], keys[1::2] + keys[:3]] if chance.random() < 0.6 else [keys, keys]
    frames = [writer.frame(writer.rows.batch(chance, part)) for part in parts if part]
    errors: list[Exception] = []

    def write(frame: Any, delay: float) -> None:
        time.sleep(delay)
        try:
            writer.write_frame(frame, "upsert")
        except Exception as error:  # noqa: BLE001 - conflicts are refused in many ways
            errors.append(error)

    delays = (0, chance.random())
    threads = [threading.Thread(target=write, args=pair) for pair in zip(frames, delays, strict=False)]
    for thread in threads:
        thread.start()
    if chance.random() < 0.4:
        try:
            statement = f"call run_compaction(op => 'schedule', table => '{writer.name}')"
            writer.sql(statement, {"hoodie.compact.inline.max.delta.commits": 1})
        except Exception as error:  # noqa: BLE001 - as above
            errors.append(error)
    for thread in threads:
        thread.join()
    if len(errors) == len(threads):
        raise errors[0]


# Statements of SQL.


@step
def sql_update(writer: TableWriter, chance: Random, one: Step) -> None:
    columns = writer.rows.plain_columns
    if not columns:
        raise NotApplicableError("no column to set")
    name, kind = chance.choice(columns)
    has_literal = "<" not in kind and kind != "binary"
    text = sql_literal(value(chance, arrow_type(kind), 0.1)) if has_literal else "null"
    sets = [f"`{name}` = cast({text} as {kind})"]
    writer.rows.level += 10
    for ordering, ordering_kind in writer.table.ordering:
        if chance.random() < 0.7 and ordering_kind in ("int", "bigint"):
            sets.append(f"{ordering} = {writer.rows.level}")
    writer.sql(f"update {writer.name} set {', '.join(sets)} where {_has_some_id(writer, chance)}")


@step
def sql_delete(writer: TableWriter, chance: Random, one: Step) -> None:
    writer.sql(f"delete from {writer.name} where {_has_some_id(writer, chance)}")


def _has_some_id(writer: TableWriter, chance: Random) -> str:
    ids = [writer.rows.key(key)["id"] for key in writer.rows.some_keys(chance, 0.1)]
    return f"id in ({', '.join(map(sql_literal, ids))})"


@step
def sql_merge(writer: TableWriter, chance: Random, one: Step) -> None:
    """Updates all columns or some, and sometimes deletes, or inserts what is new."""
    table, columns = writer.table, writer.rows.plain_columns
    keys = writer.rows.some_keys(chance, 0.2) + writer.rows.new_keys(3)
    writer.frame(writer.rows.batch(chance, keys)).createOrReplaceTempView("source_rows")
    same_key = " and ".join(f"t.`{name}` = s.`{name}`" for name in table.key_fields)
    statement = f"merge into {writer.name} t using source_rows s on {same_key}"
    if chance.random() < 0.3:
        statement += " when matched and s.id like '%1' then delete"
    chosen = chance.sample(columns, max(1, len(columns) // 2)) if columns else []
    sets = ", ".join(f"t.`{name}` = s.`{name}`" for name, _ in [*chosen, *table.ordering])
    is_partial = chosen and chance.random() < 0.75
    statement += f" when matched then update set {sets if is_partial else '*'}"
    if chance.random() < 0.6:
        statement += " when not matched then insert *"
    writer.sql(statement)


# Columns that change.


@step
def add_column(writer: TableWriter, chance: Random, one: Step) -> None:
    writer.rows.columns.append((f"n{one.number}", pick(chance, column_types(writer.table.writer))))
    upsert(writer, chance, one)


@step
def widen(writer: TableWriter, chance: Random, one: Step) -> None:
    """Writes a column with a wider type."""
    name, kind = _a_column(writer, chance, WIDER)
    _replace(writer, name, (name, chance.choice(WIDER[kind])))
    upsert(writer, chance, one)


@step
def alter(writer: TableWriter, chance: Random, one: Step) -> None:
    """ALTER TABLE, where columns have ids; then most often a write with the new columns."""
    change = pick(chance, {"add": 3, "rename": 3, "drop": 2, "retype": 3, "move": 1, "nested": 1})
    plain = writer.rows.plain_columns
    if change == "add" or not plain:
        name, kind = f"a{one.number}", chance.choice(_NEW_TYPES)
        after = f" after {chance.choice(plain)[0]}" if plain and chance.random() < 0.4 else ""
        text = f"add columns ({name} {kind}{after})"
        writer.rows.columns.append((name, kind))
    elif change == "rename":
        name, kind = chance.choice(plain)
        text = f"rename column {name} to r{one.number}"
        _replace(writer, name, (f"r{one.number}", kind))
    elif change == "drop":
        name, _ = chance.choice(plain)
        text = f"drop column {name}"
        _replace(writer, name)
    elif change == "move":
        text = f"alter column {chance.choice(plain)[0]} {chance.choice(['first', 'after id'])}"
    elif change == "retype":
        name, kind = _a_column(writer, chance, ALTERED)
        wider = chance.choice(ALTERED[kind])
        text = f"alter column {name} type {wider}"
        _replace(writer, name, (name, wider))
    else:
        name, kind = _a_column(writer, chance, (STRUCT,))
        text, wider = chance.choice(
            [
                (f"add columns ({name}.z double)", "struct<x:int,y:string,z:double>"),
                (f"rename column {name}.x to x2", "struct<x2:int,y:string>"),
                (f"alter column {name}.x type bigint", "struct<x:bigint,y:string>"),
            ]
        )
        _replace(writer, name, (name, wider))
    writer.sql(f"alter table {writer.name} {text}")
    if chance.random() < 0.8:
        upsert(writer, chance, one)


def _a_column(
    writer: TableWriter, chance: Random, kinds: Sequence[str] | Mapping[str, Sequence[str]]
) -> tuple[str, str]:
    """A column of one of some types."""
    columns = [(name, kind) for name, kind in writer.rows.plain_columns if kind in kinds]
    if not columns:
        raise NotApplicableError("no column of a type that can change so")
    return chance.choice(columns)


def _replace(writer: TableWriter, name: str, *columns: tuple[str, str]) -> None:
    """Puts other columns in the place of one."""
    names = [column for column, _ in writer.rows.columns]
    position = names.index(name)
    writer.rows.columns[position : position + 1] = columns
