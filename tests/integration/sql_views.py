"""Tests of the views of ``trino sql`` that Trino and Presto share, against the answers of Hudi."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from hudi_bridge import HudiTable, UnsupportedTableError
from hudi_bridge.connectors.trino.sql_types import Engine
from tests.connectors.iceberg.golden import KEYS
from tests.integration.adding_payload import AddingPayload
from tests.integration.sql_route import FIELDS, ORDERINGS, SqlRoute, in_two_cities, ordered, written
from tests.support.golden_cases import golden_nested
from tests.support.golden_queries import QUERIES, Key, answer_of, query_id
from tests.support.table_writer import TableWriter, at

SEQUENCES = (
    None,
    "",
    "x",
    "1",
    "2.10",
    "2.9",
    "000010.9",
    "2.9 ",
    "2.9\n",
    "1.2.3",
    "3.",
    ".3",
    "\u0663.1",
    "9" * 19 + ".1",
)
CONDITIONS = ("true", "id = 'x'", "id IS NOT NULL", "ts > 3", "raw IS NULL", "city = 'rome'", "city IS NOT NULL")


NESTED = {query.case: query for query in golden_nested() if query.kind == "snapshot"}
NOT_IN_PRESTO = "names_not_ascii"
"""The table whose names of fields Presto does not read."""


def all_fields(case: str, source: str) -> tuple[str, list[Any]]:
    """A query for each field of the innermost structs of ``names``, or ``names_not_ascii``, and the rows of Hudi.

    These are in a struct, in a list, and in a struct in a map.
    """
    answer = answer_of(NESTED[case])
    column = answer.column_names[-1]
    names = [field.name for field in answer.schema.field(column).type.field("S").type]
    places = (f'{column}."S"', f'{column}."L"[1]', f'{column}."M"[\'k\']."Inner"')
    fields = ", ".join(f'{location}."{name}"' for location in places for name in names)
    rows = [(row["id"], row[column]) for row in answer.to_pylist() if row[column] is not None]
    expected = [
        [key, *(struct[name] for struct in (top["S"], top["L"][0], dict(top["M"])["k"]["Inner"]) for name in names)]
        for key, top in rows
    ]
    return f"SELECT id, {fields} FROM {source} WHERE {column} IS NOT NULL ORDER BY id", sorted(expected)


def parametrize_snapshots(metafunc: pytest.Metafunc, cases: Sequence[str]) -> None:
    """Ask for the newest snapshot of some golden tables; with ``--matrix``, for all snapshots."""
    if "key" in metafunc.fixturenames:
        every = [key for key in KEYS if QUERIES[key].kind == "snapshot"]
        keys = every if metafunc.config.getoption("--matrix") else [(case, 0) for case in cases]
        metafunc.parametrize("key", keys, ids=query_id)


def adding_table(folder: Path) -> HudiTable:
    """A table with a payload of the user's own, which adds numbers up."""
    options = {"hoodie.record.merge.mode": "CUSTOM", "hoodie.compaction.payload.class": "com.acme.Adding"}
    changes = [{"id": key, "ts": 1, "n": n, "note": f"log {key}"} for key, n in (("a", 10), ("b", -1), ("d", 5))]
    writer = written(folder / "t", lambda writer: writer.data_block(at(2), changes), options)
    return HudiTable.open(str(writer.folder), payloads={"com.acme.Adding": AddingPayload()})


class ViewTests:
    """To be inherited where there is a fixture ``route``; ``error`` is what the server's client raises."""

    error: ClassVar[type[Exception]]

    def test_golden_rows_are_those_of_hudi(self, route: SqlRoute, key: Key) -> None:
        table = HudiTable.open(str(QUERIES[key].table))
        route.create(route.publish(table))
        assert route.differences_from(answer_of(QUERIES[key])) == []

    @pytest.mark.parametrize("case", NESTED)
    def test_nested_rows_are_those_of_hudi(self, route: SqlRoute, case: str) -> None:
        publication = route.publish(HudiTable.open(str(NESTED[case].table)))
        if case == NOT_IN_PRESTO and route.engine is Engine.PRESTO:
            with pytest.raises(UnsupportedTableError, match="field name in Presto: found 'ünï'"):
                route.create(publication)
            return
        route.create(publication)
        assert route.differences_from(answer_of(NESTED[case])) == []
        if case.startswith("names"):
            sql, rows = all_fields(case, "v")
            assert route.query(sql) == rows

    @pytest.mark.parametrize("version", [6, 9])
    @ORDERINGS
    def test_ordering_values_compare_as_in_hudi(
        self, route: SqlRoute, version: int, kind: str, values: list[Any]
    ) -> None:
        table = ordered(route.folder / "t", version, kind, values).open()
        publication = route.publish(table)
        assert publication.contested > 0
        route.create(publication)
        assert route.differences_from(table.snapshot().to_table()) == []

    def test_partial_updates_take_other_fields_from_the_base_row(self, route: SqlRoute) -> None:
        changes = [{"id": "a", "ts": 6, "n": 7}, {"id": "b", "ts": 4, "n": 8}]
        table = written(
            route.folder / "t", lambda writer: writer.data_block(at(2), changes, only=("id", "ts", "n")), {}
        ).open()
        publication = route.publish(table)
        assert (publication.whole, publication.merges_fields) == (0, True)
        route.create(publication)
        assert route.differences_from(table.snapshot().to_table()) == []
        assert route.query("SELECT id, n, note FROM v ORDER BY id") == [
            ["a", 7, "base a"],
            ["b", 1, "base b"],
            ["c", 1, "base c"],
        ]

    def test_defaults_are_filled_in_for_contested_rows_alone(self, route: SqlRoute) -> None:
        changes = [{"id": "a", "ts": 6, "n": 7, "note": None}, {"id": "d", "ts": 6, "n": 1, "note": None}]
        options = {
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
        }
        table = written(route.folder / "t", lambda writer: writer.data_block(at(2), changes), options).open()
        publication = route.publish(table)
        assert publication.contested == 1
        assert publication.records == 2
        assert (publication.whole, publication.merges_fields) == (0, True)
        route.create(publication)
        assert route.differences_from(table.snapshot().to_table()) == []

    def test_a_payload_of_the_users_own_decides_on_contested_rows(self, route: SqlRoute) -> None:
        table = adding_table(route.folder)
        route.create(route.publish(table))
        assert route.query("SELECT id, n, note FROM v ORDER BY id") == [
            ["a", 11, "base a + log a"],
            ["c", 1, "base c"],
            ["d", 5, "log d"],
        ]
        assert route.differences_from(table.snapshot().to_table()) == []

    @pytest.mark.parametrize("changed", [False, True])
    def test_the_field_of_a_key_need_not_be_the_key(self, route: SqlRoute, changed: bool) -> None:
        def row(key: str, ts: int, value: str) -> dict[str, Any]:
            return {"_hoodie_record_key": f"id:{key}", "id": key, "ts": ts, "n": 1, "note": value}

        writer = TableWriter(folder=route.folder / "t", fields=FIELDS).create()
        writer.base_file(at(1), [row(key, 5, "base") for key in "abc"])
        later = {"id": "z"} if changed else {}
        changes = [row("a", 6, "log") | later, row("b", 4, "log"), row("d", 1, "log")]
        writer.log_file(at(2), [writer.data_block(at(2), changes)])
        writer.commit(at(1))
        writer.commit(at(2))
        table = writer.open()
        publication = route.publish(table)
        assert (publication.contested, publication.key_field) == (2, None if changed else "id")
        route.create(publication)
        assert route.differences_from(table.snapshot().to_table()) == []
        for key in "abcdz":
            rows = [["log" if key in "adz" else "base"]] if key in ("bcdz" if changed else "abcd") else []
            assert route.query(f"SELECT note FROM v WHERE id = '{key}'") == rows

    def test_sequences_compare_as_in_hudi(self, route: SqlRoute) -> None:
        pairs = [(f"{i}/{j}", one, other) for i, one in enumerate(SEQUENCES) for j, other in enumerate(SEQUENCES)]
        writer = TableWriter(
            folder=route.folder / "t",
            version=6,
            fields=(("id", "string"), ("_event_seq", "string"), ("side", "string")),
            options={
                "hoodie.compaction.payload.class": "org.apache.hudi.common.model.debezium.MySqlDebeziumAvroPayload",
                "hoodie.table.precombine.field": "_event_seq",
            },
        ).create()
        writer.base_file(at(1), [{"id": key, "_event_seq": one, "side": "base"} for key, one, _ in pairs])
        changes = [{"id": key, "_event_seq": other, "side": "log"} for key, _, other in pairs]
        writer.log_file(at(2), [writer.data_block(at(2), changes)], base_instant=at(1))
        writer.commit(at(1))
        writer.commit(at(2))
        table = writer.open()
        publication = route.publish(table)
        assert publication.context.merge_rule is not None
        assert publication.context.merge_rule.sequences_against_base
        assert publication.contested == len(pairs)
        route.create(publication)
        assert route.differences_from(table.snapshot().to_table()) == []

    def test_a_view_keeps_its_rows_until_it_is_made_again(self, route: SqlRoute) -> None:
        first = [{"id": "a", "ts": 6, "n": 2, "note": "first"}]
        writer = written(route.folder / "t", lambda writer: writer.data_block(at(2), first), {})
        route.create(route.publish(writer.open()))
        before = route.query("SELECT id, note FROM v ORDER BY id")
        second = [{"id": "a", "ts": 7, "n": 3, "note": "second"}, {"id": "z", "ts": 1, "n": 1, "note": "new"}]
        writer.log_file(at(3), [writer.data_block(at(3), second)])
        writer.commit(at(3))
        publication = route.publish(writer.open())
        assert route.query("SELECT id, note FROM v ORDER BY id") == before
        route.create(publication)
        assert route.query("SELECT id, note FROM v ORDER BY id") == [
            ["a", "second"],
            ["b", "base b"],
            ["c", "base c"],
            ["z", "new"],
        ]

    def test_base_files_that_are_being_written_are_not_opened(self, route: SqlRoute) -> None:
        change = [{"id": "a", "ts": 6, "n": 2, "note": "log"}]
        writer = written(route.folder / "t", lambda writer: writer.data_block(at(2), change), {})
        route.create(route.publish(writer.open()))
        (base,) = writer.folder.glob("*.parquet")
        for number in range(20):
            (writer.folder / f"f{number}-0_0-1-1_{at(3)}.parquet").write_bytes(base.read_bytes()[:-50])
        assert route.query("SELECT id, note FROM v ORDER BY id") == [["a", "log"], ["b", "base b"], ["c", "base c"]]

    @pytest.mark.parametrize("place", ["t/rome/*.parquet", "published/*/log/*-*.parquet", "published/*/slices/*"])
    def test_a_file_that_is_gone_is_an_error_whatever_is_asked(self, route: SqlRoute, place: str) -> None:
        table = in_two_cities(route.folder / "t").open()
        route.create(route.publish(table))
        assert route.differences_from(table.snapshot().to_table()) == []
        (gone,) = route.folder.glob(place)
        gone.unlink()
        for condition in CONDITIONS:
            with pytest.raises(self.error, match="has to be published again"):
                route.query(f"SELECT count(*) FROM v WHERE {condition}")
        if "slices" not in place:
            assert route.query("SELECT count(*) FROM v WHERE city = 'oslo'") == [[3]]
