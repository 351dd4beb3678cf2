"""The names in the text of SQL statements."""

import re
from collections.abc import Container, Iterator

_TOKEN = re.compile(
    r"""(?P<passed>--[^\n]*|/\*.*?\*/|[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|(?P<tag>\$\w*\$).*?(?P=tag))"""
    r"""|(?P<quoted>"(?:[^"]|"")*")|(?P<bare>[^\W\d][\w$]*)|(?P<dot>\.)|(?P<number>\d[\w.]*)|(?P<other>\S)""",
    re.DOTALL,
)
_NAME = r"""(?:"(?:[^"]|"")*"|[^\W\d][\w$]*)"""
_DOTTED_NAME = re.compile(rf"\s*{_NAME}(?:\s*\.\s*{_NAME})*\s*")

Chain = tuple[str, ...]
"""The parts of a name such as ``lake.sales.orders``, without quotes."""


def name_chains(statement: str, reserved: Container[str] = ()) -> Iterator[Chain]:
    """All names of a statement, and keywords that are not ``reserved``; what strings and comments hold is left out."""
    chain: list[str] = []
    continues = False
    for token in _TOKEN.finditer(statement):
        kind = token.lastgroup
        if kind == "bare" and not continues and token[0].lower() in reserved:
            kind = "other"
        if kind in ("quoted", "bare"):
            if chain and not continues:
                yield tuple(chain)
                chain = []
            chain.append(_unquoted(token[0]))
        elif chain and kind != "dot":
            yield tuple(chain)
            chain = []
        continues = kind == "dot"
    if chain:
        yield tuple(chain)


def parse_name(text: str) -> Chain | None:
    """The parts of a text that is one name, such as ``sales."orders@2026-01-31"``; None if it is none."""
    return next(name_chains(text)) if _DOTTED_NAME.fullmatch(text) else None


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
