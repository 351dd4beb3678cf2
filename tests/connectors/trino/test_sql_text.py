"""Hostile names and values: they stay names and values, or are refused."""

import ast
from functools import partial

import duckdb
import pyarrow as pa
import pytest

from hudi_bridge.connectors.trino.sql_types import (
    Dialect,
    ObjectNames,
    body,
    check_column_names,
    comment,
    decoded_type,
    field_identifiers,
    identifier,
    literal,
    passed_type,
    python_literal,
    shown,
    shown_type,
    stored_type,
    unused_prefix,
)
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


@pytest.mark.parametrize("name", [*(item for item in HOSTILE[1:] if item != "select"), "_x", ".x", "../x", "a/b", ""])
def test_names_of_objects_are_plain(name: str) -> None:
    with pytest.raises(QueryError, match="letters, digits"):
        ObjectNames(catalog="hive", schema="s", view=name, fingerprint="0")


TWINS = (["a", "A"], ["\u212a", "k"], ["s", "\u017f"], ["\u03a3", "\u03c2"], ["\u0130"])
"""Names that SQL takes for one, or does not find by its lower case: the signs of kelvin, long s, sigma, dotted I."""


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a,b"], "commas"),
        ([" a"], "spaces"),
        (["a "], "spaces"),
        *((names, "more than case") for names in TWINS[:-1]),
        (TWINS[-1], "letters in lower case"),
        (["a\tb"], "control"),
    ],
)
def test_columns_that_hive_cannot_have_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(UnsupportedTableError, match=message):
        check_column_names(names)


@pytest.mark.parametrize(
    "names", [*([name] for name in ("a:b", "a,b", "a>b", "x.y", "1a", "", " a", 'a"b', "a\n", "a\nb")), *TWINS]
)
def test_fields_that_hive_cannot_have_are_refused(names: list[str]) -> None:
    with pytest.raises(HudiReadError):
        field_identifiers(names, Dialect.TRINO)
    kind = pa.struct([(name, pa.int32()) for name in names])
    within = pa.map_(pa.string(), pa.list_(pa.struct([("inner", kind)])))
    for whole in (kind, within):
        for type_of in (partial(stored_type, dialect=Dialect.TRINO), shown_type, passed_type, decoded_type):
            with pytest.raises(HudiReadError):
                type_of(whole, path="s")


def test_fields_are_named_in_lower_case_as_hive_has_them() -> None:
    row = pa.struct([("X", pa.int32()), ("yZ", pa.time64("us")), ("Ä", pa.list_(pa.struct([("Select", pa.date32())])))])
    kind = pa.map_(pa.string(), row)
    fields = '"x" integer, "yz" {}, "ä" array(row("select" {}))'
    assert stored_type(kind, Dialect.TRINO, "s") == f"map(varchar, row({fields.format('bigint', 'date')}))"
    assert shown_type(kind, "s") == f"map(varchar, row({fields.format('time(6)', 'date')}))"
    assert decoded_type(kind, "s") == f"array(row(k varchar, v row({fields.format('bigint', 'integer')})))"
    assert f"AS row({fields.format('time(6)', 'date')}))" in shown("c", row, Dialect.TRINO)


@pytest.mark.parametrize("name", ["ünï", "a b", "日本"])
def test_presto_has_fields_of_plain_names_alone(name: str) -> None:
    kinds = [pa.list_(pa.struct([(field, pa.int32())])) for field in ("aB_1", name)]
    assert stored_type(kinds[0], Dialect.PRESTO, "l") == 'array(row("ab_1" integer))'
    with pytest.raises(UnsupportedTableError, match=f"field name in Presto: found {name!r}"):
        stored_type(kinds[1], Dialect.PRESTO, "l")


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
