"""Parses JSON, and refuses strings with unpaired surrogates, which cannot be encoded as UTF-8."""

import json
import re
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_json(data: str | bytes) -> Any:  # noqa: ANN401 - of any kind
    r"""The value of a JSON text.

    Raises:
        ValueError: the text is not JSON or not UTF-8, or has half of a surrogate pair, such as ``\ud800``.
        RecursionError: the text is nested too deeply.
    """
    text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
    value = json.loads(text)
    if "\\u" in text or not text.isascii():
        _refuse_surrogates(value)
    return value


def _refuse_surrogates(value: object) -> None:
    match value:
        case str():
            if surrogate := _SURROGATE.search(value):
                raise ValueError(f"half of a character, {surrogate[0]!r}")
        case list():
            for item in value:
                _refuse_surrogates(item)
        case dict():
            for key, item in value.items():
                _refuse_surrogates(key)
                _refuse_surrogates(item)
