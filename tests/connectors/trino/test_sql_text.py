"""Hostile names and values: they stay names and values, or are refused."""

import ast

import duckdb
import pyarrow as pa
import pytest

from hudi_bridge.connectors.trino.sql_text import (
    Dialect,
    ObjectNames,
    body,
    check_column_names,
    comment,
    field_identifier,
    identifier,
    literal,
    python_literal,
    unused_prefix,
)
from hudi_bridge.connectors.trino.sql_types import stored_type
from hudi_bridge.errors import HudiReadError, QueryError, UnsupportedTableError

HOSTILE = (
    "plain",
    'x"y',
    '"; DROP TABLE t; --',
    "it's",
    "'; DROP TABLE t; --",
    "a b",
    "a.b",
    "select",
    "ünï✓",
    "$$",
    "\\",
    "/* */",
    "-- comment",
    "{0}",
    "%s",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_identifiers_and_literals_come_back_as_they_were(name: str) -> None:
    with duckdb.connect() as connection:
        relation = connection.sql(f"SELECT {literal(name)} AS {identifier(name)}")
        assert relation.columns == [name]
        assert relation.fetchall() == [(name,)]


@pytest.mark.parametrize("name", ["", "a\nb", "\0", "a\x1bb", "\u2028", "\ud800"])
def test_control_characters_are_refused_in_names(name: str) -> None:
    with pytest.raises(UnsupportedTableError, match="name in SQL"):
        identifier(name)


@pytest.mark.parametrize("text", ["a\0b", "\udc00"])
def test_texts_that_no_engine_takes_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedTableError, match="text in SQL"):
        literal(text)


def test_a_comment_stays_on_its_line() -> None:
    assert comment("a\nDROP TABLE t\r\u2028") == "-- a DROP TABLE t  "


@pytest.mark.parametrize("name", [*(one for one in HOSTILE[1:] if one != "select"), "_x", ".x", "../x", "a/b", ""])
def test_names_of_objects_are_plain(name: str) -> None:
    with pytest.raises(QueryError, match="letters, digits"):
        ObjectNames(catalog="hive", schema="s", view=name, fingerprint="0")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a,b"], "commas"),
        ([" a"], "spaces"),
        (["a "], "spaces"),
        (["a", "A"], "more than case"),
        (["a\tb"], "control"),
    ],
)
def test_columns_that_hive_cannot_have_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(UnsupportedTableError, match=message):
        check_column_names(names)


@pytest.mark.parametrize("name", ["a:b", "a,b", "a>b", "", " a", 'a"b', "a\n", "a\nb"])
def test_fields_that_hive_cannot_have_are_refused(name: str) -> None:
    with pytest.raises(HudiReadError):
        field_identifier(name)
    with pytest.raises(HudiReadError):
        stored_type(pa.struct([(name, pa.int32())]), Dialect.TRINO, "s")


@pytest.mark.parametrize("value", [*HOSTILE, ("$$", None, True, "'''"), "\ud800", "\\$$"])
def test_python_literals_are_ascii_without_dollar_signs_and_come_back_as_they_were(value: object) -> None:
    text = python_literal(value)
    assert text.isascii()
    assert "$" not in text
    assert ast.literal_eval(text) == value


def test_a_body_that_ends_too_early_is_refused() -> None:
    with pytest.raises(UnsupportedTableError, match="dollar signs"):
        body("x = '$$'")


def test_a_prefix_is_no_columns() -> None:
    assert unused_prefix(["_LOG_x", "__log_y"], "_log_") == "___log_"
