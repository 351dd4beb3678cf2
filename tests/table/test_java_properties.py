import pytest

from hudi_bridge.config import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b\n", {"a": "b"}),
        ("a:b\r\nc d\rE", {"a": "b", "c": "d", "E": ""}),
        ("a  =  b c \n", {"a": "b c "}),
        ("a=:b\na==b\n", {"a": "=b"}),
        ("# x=1\n ! y=2\n\n \t\f\nz=3", {"z": "3"}),
        ("a=# no comment\n", {"a": "# no comment"}),
        (r"a\:b\=c\ d=e", {"a:b=c d": "e"}),
        (r"a={\"type\"\:\"record\"}", {"a": '{"type":"record"}'}),
        (r"a=\t\n\r\f\\\q", {"a": "\t\n\r\f\\q"}),
        (r"a=\u00e9\u4E2D", {"a": "\u00e9\u4e2d"}),
        (r"a=\ud83d\ude00", {"a": "\U0001f600"}),
        (r"a=\ud83d!", {"a": "\ufffd!"}),
        ("a=b\\\n   c\\\r\n\td\ne=f", {"a": "bcd", "e": "f"}),
        ("a=b\\\n# c\n", {"a": "b# c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=\x85\u2028\nb=1", {"a": "\x85\u2028", "b": "1"}),
        ("", {}),
    ],
)
def test_syntax(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("escape", [r"\u12", r"\u12g4", r"\u", r"\u+123"])
def test_a_bad_unicode_escape_is_refused(escape: str) -> None:
    with pytest.raises(ValueError, match=r"\\u"):
        parse_properties(f"a={escape}\n")
