"""The pages for contributors name modules that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "hudi_bridge"
_PATH = re.compile(r"[a-z_0-9]+(?:/[a-z_0-9]+)+(?:\.py|/)?|[a-z_0-9]+/")
_DOTTED = re.compile(r"[a-z_0-9]+(?:\.[a-z_0-9]+)+")


def named(page: str) -> list[str]:
    """The paths in a page's code spans, and its dotted names below folders of the package, as paths."""
    spans = re.findall(r"`([^`\n]+)`", (ROOT / page).read_text())
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    dotted = [span for span in spans if _DOTTED.fullmatch(span) and span.partition(".")[0] in folders]
    paths = [span for span in spans if _PATH.fullmatch(span)]
    return [*paths, *(name.replace(".", "/") for name in dotted)]


def exists(name: str) -> bool:
    places = (ROOT / name, PACKAGE / name, PACKAGE / f"{name}.py", PACKAGE / f"{name.rpartition('/')[0]}.py")
    return any(location.exists() for location in places)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/how-a-read-works.md"])
def test_the_modules_that_a_page_names_exist(page: str) -> None:
    names = named(page)
    assert len(names) > 20
    assert [name for name in names if not exists(name)] == []
