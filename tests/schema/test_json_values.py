import pytest

from hudi_bridge.schema.avro import parse_json


@pytest.mark.parametrize(
    "data", [b'{"a": ["\xc3\xbc", 1]}', '{"a": ["\\u00fc", 1]}', b'\xef\xbb\xbf{"a": ["\\u00fc", 1]}']
)
def test_text_and_bytes(data: str | bytes) -> None:
    assert parse_json(data) == {"a": ["ü", 1]}


def test_two_halves_are_a_character() -> None:
    assert parse_json('"\\ud83d\\ude00"') == "\U0001f600"


@pytest.mark.parametrize(
    "data", ['"\\ud800"', '["\\udfff"]', '{"a": {"\\ud800x": 1}}', b'"\xed\xa0\x80"', '["\ud800"]', b'"\xff"', "{", b""]
)
def test_half_of_a_character_is_no_text(data: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"character|utf-8|Expecting"):
        parse_json(data)
