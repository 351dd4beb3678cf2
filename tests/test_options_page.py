"""docs/options.md names all read options and environment variables, and no others."""

import re
from pathlib import Path

from hudi_bridge.options import READ_OPTION_KEYS

ROOT = Path(__file__).parents[1]
READ_OPTIONS, VARIABLES = (ROOT / "docs" / "options.md").read_text(encoding="utf-8").split("## Environment variables")


def names_in(section: str) -> list[str]:
    """The first cells of a table."""
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def test_the_page_lists_each_read_option_once() -> None:
    assert sorted(names_in(READ_OPTIONS)) == sorted(READ_OPTION_KEYS)


def test_the_page_lists_each_environment_variable_once() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "hudi_bridge").rglob("*.py")]
    read = {name for source in sources for name in re.findall(r"\bHUDI_(?:BRIDGE|SPARK)_[A-Z_]+\b", source)}
    assert sorted(names_in(VARIABLES)) == sorted(read)
