"""HTML pages of one file: their style for light and dark screens, their head, and text in them.

A page loads nothing: its policy allows its own style and script, by their hashes, and no request. Names come from
outside: control characters and characters that change the direction of text are shown as escapes.
"""

import base64
import hashlib
from html import escape

STYLE = """
:root { color-scheme: light dark; --line: #8885; --dim: #666; --error: #c62828; --warning: #9a5b00; --advice: #1565c0; }
@media (prefers-color-scheme: dark) {
  :root { --dim: #aaa; --error: #ff8a80; --warning: #ffcc66; --advice: #90caf9; }
}
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1.5rem; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { border-top: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.whole { white-space: nowrap; }
code { font-family: ui-monospace, monospace; font-size: .9em; }
.dim, .info { color: var(--dim); }
.error { color: var(--error); font-weight: 600; }
.warning { color: var(--warning); font-weight: 600; }
.advice { color: var(--advice); }
"""


def page_start(title: str, style: str = STYLE, script: str | None = None) -> str:
    """A page up to the tag of its body, with a policy that allows this style, this script, and no request.

    ``script`` has to stand in the page as the whole content of a ``script`` element.
    """
    scripts = "" if script is None else f" script-src {_hash(script)};"
    policy = f"default-src 'none'; style-src {_hash(style)};{scripts} base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{page_text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
    )


def header_cell(name: str, *, is_number: bool = False) -> str:
    """The head of a column."""
    kind = ' class="number"' if is_number else ""
    return f'<th scope="col"{kind}>{page_text(name)}</th>'


def page_text(text: object) -> str:
    """A text as HTML, also between double quotes; see ``shown``."""
    return escape(shown(str(text)))


def shown(text: str) -> str:
    """The text with escapes for what is not printable: control characters, and lone surrogates of file names."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
