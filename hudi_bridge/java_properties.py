r"""Parses Java properties files, in Latin-1 and the syntax of ``java.util.Properties``.

``#`` and ``!`` begin comments; ``=``, ``:`` or blanks end a key; an odd number of backslashes at the end of a line
joins the next line; ``\:``, ``\=``, ``\\``, ``\t``, ``\uXXXX`` are escapes.
"""

import re
from collections.abc import Iterator

_LINE_END = re.compile(r"\r\n|\n|\r")
_ESCAPE = re.compile(r"\\(?:u(.{0,4})|(.?))", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.?)*", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_properties(text: str) -> dict[str, str]:
    r"""The key-value pairs of a properties file; the last of equal keys counts.

    Raises:
        ValueError: ``\u`` is not followed by four hexadecimal digits.
    """
    pairs = (_split_line(line) for line in _iter_logical_lines(text))
    return {_unescape(key): _unescape(value) for key, value in pairs}


def _iter_logical_lines(text: str) -> Iterator[str]:
    parts: list[str] = []
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if not parts and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            parts.append(line[:-1])
            continue
        yield "".join(parts) + line
        parts = []
    if parts:
        yield "".join(parts)


def _split_line(line: str) -> tuple[str, str]:
    key = _KEY.match(line)
    assert key is not None
    value = line[key.end() :].lstrip(_BLANKS)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANKS)
    return key[0], value


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    unescaped = _ESCAPE.sub(_unescape_one, text)
    if not _SURROGATE.search(unescaped):
        return unescaped
    # Two escapes may be a surrogate pair.
    return unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unescape_one(match: re.Match[str]) -> str:
    digits, character = match.groups()
    if digits is None:
        return _ESCAPED.get(character, character)
    if not re.fullmatch("[0-9A-Fa-f]{4}", digits):
        raise ValueError(f"\\u{digits}")
    return chr(int(digits, 16))
