"""Columns whose names differ in case alone, in DuckDB, to which case makes no difference."""

from pathlib import Path

import duckdb
import pytest

from hudi_bridge.cli.main import run
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.connectors.duckdb.dialect import sql_names
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

FIELDS = (("id", "string"), ("ts", "long"), ("name", "string"), ("Name", "string"))


@pytest.fixture
def twins(tmp_path: Path) -> str:
    table = TableWriter(folder=tmp_path / "t", fields=FIELDS).create()
    table.base_file(at(1), [{"id": key, "ts": 1, "name": f"low {key}", "Name": f"HIGH {key}"} for key in "abc"])
    table.log_file(at(2), [table.data_block(at(2), [{"id": "b", "ts": 2, "name": "new", "Name": "NEW"}])])
    table.commit(at(1))
    table.commit(at(2))
    return str(table.folder)


def read(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert run(["read", *arguments]) == 0
    return capfd.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["id", "ts"], ["id", "ts"]),
        (["name", "x", "Name"], ["name_1", "x", "Name_2"]),
        (["NAME_1", "name", "Name", "nAme"], ["NAME_1", "name_2", "Name_3", "nAme_4"]),
    ],
)
def test_names_that_differ_in_case_alone_have_numbers(names: list[str], expected: list[str]) -> None:
    assert sql_names(names) == expected
    assert len({name.lower() for name in expected}) == len(expected)


def test_views_have_both_columns_and_neither_without_its_number(twins: str) -> None:
    with duckdb.connect() as connection:
        attach(connection, twins, "t")
        for view in ("t", "t_ro"):
            rows = connection.sql(f"SELECT id, name_1, Name_2 FROM {view} WHERE Name_2 = 'HIGH c'").fetchall()
            assert rows == [("c", "low c", "HIGH c")]
            with pytest.raises(duckdb.BinderException, match="Name_2"):
                connection.sql(f"SELECT Name FROM {view}")


@pytest.mark.parametrize(
    ("condition", "keys"),
    [("ts > 1", ["b"]), ("name_1 LIKE 'low%'", ["a", "c"]), ("Name_2 = 'HIGH c'", ["c"]), ("name_1 = Name_2", [])],
)
@pytest.mark.parametrize("columns", one_in(3, ["id,Name", "id,name", "Name,id,name"]))
def test_conditions_of_the_command_line_find_rows(
    twins: str, condition: str, keys: list[str], columns: str, capfd: pytest.CaptureFixture[str]
) -> None:
    head, *rows = read(capfd, twins, "--where", condition, "--columns", columns, "-f", "csv")
    assert head.replace('"', "") == columns
    everything = read(capfd, twins, "--columns", columns, "-f", "csv")[1:]
    assert sorted(rows) == sorted(row for row in everything if any(key in _id(row, columns) for key in keys))


def _id(row: str, columns: str) -> str:
    return row.split(",")[columns.split(",").index("id")]


def test_a_name_without_its_number_is_refused_with_both(twins: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["read", twins, "--where", "name = 'new'"]) == 1
    complaint = capfd.readouterr().err
    assert "name_1" in complaint
    assert "Name_2" in complaint


@pytest.mark.parametrize("command", ["trace", "explain", "diff"])
def test_other_commands_take_such_conditions(command: str, twins: str, capfd: pytest.CaptureFixture[str]) -> None:
    instants = [at(1), at(2)] if command == "diff" else []
    assert run([command, twins, *instants, "--where", "Name_2 = 'NEW'"]) == 0
    assert "b" in capfd.readouterr().out
