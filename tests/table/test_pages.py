import base64
import hashlib
import re
from pathlib import Path

import pytest

from hudi_bridge.common.display import page_start, page_text, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("city=sf", "city=sf"),
        ("Zürich 東京 🚕", "Zürich 東京 🚕"),
        ("</script>", "&lt;/script&gt;"),
        ("a\"b'c&", "a&quot;b&#x27;c&amp;"),
        ("a\x1b[2J\nb", r"a\x1b[2J\nb"),
        ("a\u2028b", r"a\u2028b"),
        ("txt\u202egpj.exe", r"txt\u202egpj.exe"),
        ("\ud800", r"\ud800"),
    ],
)
def test_text_in_a_page_is_only_text(text: str, expected: str) -> None:
    assert page_text(text) == expected


def test_what_is_shown_can_be_encoded() -> None:
    assert "".join(map(shown, map(chr, range(0x110000)))).encode()


def test_a_page_allows_its_own_style_and_script_and_nothing_else() -> None:
    script = "document.title = 'é';\n"
    start = page_start("<a>", script=script)
    actual = re.search(r"<style>(.*?)</style>", start, re.DOTALL)
    assert actual is not None

    def hash_of(content: str) -> str:
        return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()

    assert (
        f"default-src 'none'; style-src 'sha256-{hash_of(actual[1])}'; script-src 'sha256-{hash_of(script)}'; " in start
    )
    assert "<title>&lt;a&gt;</title>" in start
    assert "script-src" not in page_start("a")


def test_the_picture_in_the_docs_is_small() -> None:
    picture = Path(__file__).parents[2] / "docs" / "report.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 150_000
