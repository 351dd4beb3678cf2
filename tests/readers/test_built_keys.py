"""Record keys of tables without meta columns, which are built from the key fields as Hudi 1.2 on Spark builds them."""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hudi_bridge import HudiTable, UnsupportedTableError, tools
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, sorted_column

NO_META = {"hoodie.populate.meta.fields": "false"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 8}
DAY = dt.date(1969, 12, 31)
MOMENT = dt.datetime(2023, 11, 14, 22, 13, 20, 1000, tzinfo=dt.UTC)


def logical(kind: str, name: str) -> Any:
    return {"type": kind, "logicalType": name}


def times(name: str) -> tuple[Any, list[Any], list[str]]:
    zone = None if name.startswith("local") else dt.UTC
    moments = [(MOMENT + dt.timedelta(days=number)).replace(tzinfo=zone) for number in range(3)]
    return logical("long", name), moments, [str(1700000000001000 + number * 86_400_000_000) for number in range(3)]


# The values of three keys, and their texts where Hudi 1.2 reads them.
KEYS: dict[str, tuple[Any, list[Any], list[str]]] = {
    "string": ("string", ["a", "b", "c"], ["a", "b", "c"]),
    "int": ("int", [-1, 0, 1], ["-1", "0", "1"]),
    "long": ("long", [-1, 0, 2**40], ["-1", "0", "1099511627776"]),
    "double": ("double", [1.0, 1e10, 1e-5], ["1.0", "1.0E10", "1.0E-5"]),
    "float": ("float", [0.10000000149011612, 16777216.0, -0.0], ["0.1", "1.6777216E7", "-0.0"]),
    "decimal": (DECIMAL, [Decimal("1.5"), Decimal("1e-8"), Decimal(-2)], ["1.50000000", "1E-8", "-2.00000000"]),
    "timestamp-micros": times("timestamp-micros"),
    "timestamp-millis": times("timestamp-millis"),
    "local-timestamp-micros": times("local-timestamp-micros"),
    "date": (logical("int", "date"), [DAY, DAY + dt.timedelta(1), DAY + dt.timedelta(2)], ["-1", "0", "1"]),
}
VERSIONS = (6, 9)


def written(
    folder: Path, kind: Any, values: Sequence[Any], deleted: str, *, version: int = 9, keys: str = "k"
) -> HudiTable:
    """A table with a row of each value, of which a log updates the first, and deletes one by the text of its key."""
    fields = (("id", "string"), ("k", kind), ("ts", "long"), ("value", "string"))
    options = NO_META | {"hoodie.table.recordkey.fields": keys}
    table = TableWriter(folder=folder, version=version, fields=fields, options=options).create()
    rows = [{"id": f"r{number}", "k": value, "ts": 1, "value": f"old {number}"} for number, value in enumerate(values)]
    table.commit(at(1), wrote=[table.base_file(at(1), rows)])
    log = table.log_file(
        at(2),
        [table.data_block(at(2), [rows[0] | {"ts": 2, "value": "new 0"}]), table.delete_block(at(2), [(deleted, 2)])],
        base_instant=at(1),
    )
    table.commit(at(2), wrote=[log])
    return table.open()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", one_in(3, KEYS))
def test_a_key_is_the_text_that_java_has_of_what_spark_holds(name: str, version: int, tmp_path: Path) -> None:
    kind, values, texts = KEYS[name]
    table = written(tmp_path / "t", kind, values, texts[1], version=version)
    snapshot = table.snapshot()
    assert sorted_column(snapshot.to_table(), "value") == ["new 0", "old 2"]
    with duckdb.connect() as connection:
        actual = connection.execute("SELECT value FROM snapshot WHERE value LIKE 'new%'").fetchall()
    assert actual == [("new 0",)]
    for number, expected in enumerate((["new 0"], [], ["old 2"])):
        assert snapshot.get(texts[number]).column("value").to_pylist() == expected
        (group,) = tools.history_of(table, texts[number]).file_groups
        assert group.result.column("value").to_pylist() == expected
    difference = tools.diff(table, at(1), columns=["value"]).to_table().sort_by("key").to_pylist()
    assert {row["key"]: row["op"] for row in difference} == {texts[0]: "update", texts[1]: "delete"}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_several_fields_are_built_of_the_same_texts(name: str, tmp_path: Path) -> None:
    kind, values, texts = KEYS[name]
    table = written(tmp_path / "t", kind, [*values, None], f"id:r1,k:{texts[1]}", keys="id,k")
    assert sorted_column(table.snapshot().to_table(), "value") == ["new 0", "old 2", "old 3"]
    assert table.snapshot().get(f"id:r2,k:{texts[2]}").column("value").to_pylist() == ["old 2"]
    assert table.snapshot().get("id:r3,k:__null__").column("value").to_pylist() == ["old 3"]


@pytest.mark.parametrize(
    ("keys", "deleted"), [("n.of", "1.5"), ("id,n.of", "id:r1,n.of:1.5"), ("n.id,n.of", "n.id:r1,n.of:1.5")]
)
def test_key_fields_may_be_within_structs(keys: str, deleted: str, tmp_path: Path) -> None:
    fields = [{"name": "of", "type": "double"}, {"name": "id", "type": "string"}]
    struct = {"type": "record", "name": "n", "fields": fields}
    options = NO_META | {"hoodie.table.recordkey.fields": keys}
    table = TableWriter(
        folder=tmp_path, fields=(("id", "string"), ("n", struct), ("ts", "long")), options=options
    ).create()
    rows = [{"id": f"r{number}", "n": {"of": number + 0.5, "id": f"r{number}"}, "ts": 1} for number in range(3)]
    table.base_file(at(1), rows)
    table.commit(at(1))
    table.log_file(at(2), [table.data_block(at(2), [rows[0] | {"ts": 2}]), table.delete_block(at(2), [(deleted, 2)])])
    table.commit(at(2))
    opened = table.open()
    actual = opened.snapshot().to_table(columns=["id", "ts"]).sort_by("id").to_pydict()
    assert actual == {"id": ["r0", "r2"], "ts": [2, 1]}
    (group,) = tools.history_of(opened, deleted).file_groups
    assert group.result.num_rows == 0


@pytest.mark.parametrize("kind", ["bytes", {"type": "array", "items": "long"}, logical("long", "time-micros")])
def test_keys_of_other_types_are_refused_where_they_are_merged(kind: Any, tmp_path: Path) -> None:
    value: Any = [1] if isinstance(kind, dict) and "items" in kind else dt.time(1) if isinstance(kind, dict) else b"a"
    table = written(tmp_path, kind, [value], "a")
    with pytest.raises(UnsupportedTableError, match="record key: found no meta columns, and k of type"):
        next(table.snapshot().splits())
    assert table.read_optimized().to_table().column("value").to_pylist() == ["old 0"]


def test_a_key_field_that_the_table_does_not_have_is_refused(tmp_path: Path) -> None:
    table = written(tmp_path, "long", [1], "1", keys="k,none")
    with pytest.raises(UnsupportedTableError, match="no column none"):
        next(table.snapshot().splits())
