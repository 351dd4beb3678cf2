import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.connectors.duckdb import quote_identifier
from hudi_bridge.connectors.duckdb.lake import Chain, name_chains, parse_name


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("a.b.c", [("a", "b", "c")]),
        ("a . b, c", [("a", "b"), ("c",)]),
        ('"a.b"."c ""d"""', [("a.b", 'c "d"')]),
        ("x FROM y", [("x",), ("FROM",), ("y",)]),
        ("a 'b.c' d", [("a",), ("d",)]),
        ("a 'it''s b' c", [("a",), ("c",)]),
        (r"a E'it\'s b' c", [("a",), ("c",)]),
        ("a $$b$$ $x$ c $$ d $x$ e", [("a",), ("e",)]),
        ("a -- b\n.c /* d */ e", [("a",), ("c",), ("e",)]),
        ("a.1 + b.2e5 c", [("a",), ("b",), ("c",)]),
        ("t.x = 1.5", [("t", "x")]),
        ("größe.été_1", [("größe", "été_1")]),
        ("a::b", [("a",), ("b",)]),
        ("", []),
        ("'not closed a", [("not",), ("closed",), ("a",)]),
    ],
)
def test_names_of_a_statement(statement: str, names: list[Chain]) -> None:
    assert list(name_chains(statement)) == names


def test_reserved_words_are_names_in_quotes_or_after_a_dot() -> None:
    statement = 'SELECT a FROM "select", x.select, select.y'
    assert list(name_chains(statement, {"select", "from"})) == [("a",), ("select",), ("x", "select"), ("y",)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("trips", ("trips",)),
        ("sales.orders", ("sales", "orders")),
        (' sales . "orders@2026-01-31 12:00" ', ("sales", "orders@2026-01-31 12:00")),
        ("trips@2026", None),
        ("a b", None),
        ("a.", None),
        (".a", None),
        ("a-b", None),
        ("", None),
        ('"a', None),
    ],
)
def test_a_text_that_is_one_name(text: str, name: Chain | None) -> None:
    assert parse_name(text) == name


@given(name=st.lists(st.text(), min_size=1, max_size=3), text=st.text(), comment=st.text())
def test_names_in_quotes_are_found_beside_any_text_and_comment(name: list[str], text: str, comment: str) -> None:
    dotted = ".".join(map(quote_identifier, name))
    literal = "'" + text.replace("'", "''") + "'"
    line = comment.replace("\n", " ")
    statement = f"SELECT {literal} -- {line}\nFROM {dotted} /* {comment.replace('*/', '')} */ WHERE x = {literal}"
    assert list(name_chains(statement)) == [("SELECT",), ("FROM",), tuple(name), ("WHERE",), ("x",)]
    assert parse_name(dotted) == tuple(name)
