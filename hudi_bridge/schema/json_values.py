"""JSON text -> its value, of which every text can be written again as UTF-8."""

import json
import re
from typing import Any

_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


def parse_json(data: str | bytes) -> Any:  # noqa: ANN401 - of any kind
    r"""The value; escapes like ``\ud800`` are halves of a character, and no text without their other half.

    Raises:
        ValueError: the text is not JSON, or not UTF-8.
        RecursionError: it is nested too deeply.
    """
    text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
    value = json.loads(text)
    if "\\u" in text or not text.isascii():
        _refuse_halves(value)
    return value


def _refuse_halves(value: object) -> None:
    match value:
        case str():
            if found := _HALF_CHARACTER.search(value):
                raise ValueError(f"half of a character, {found[0]!r}")
        case list():
            for item in value:
                _refuse_halves(item)
        case dict():
            for key, item in value.items():
                _refuse_halves(key)
                _refuse_halves(item)
