"""The blocks of README and docs that need no server and no JDK, run on real tables; see tests/support/snippets.py."""

import re
from pathlib import Path

import pytest

from tests.support import snippets
from tests.support.snippets import NOT_CODE, PAGES, ROOT, RUN_BY, Session, blocks, blocks_of, commands, expected
from tests.support.strength import one_in

OURS = "tests/project/test_snippets.py"
MINE = blocks_of(OURS)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
LINKED = (*PAGES, "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md", "tests/golden/README.md")


@pytest.mark.parametrize("page", one_in(10, MINE))
def test_the_blocks_of_a_page_do_what_it_says(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session.of(tmp_path)
    for block in MINE[page]:
        session.run(block)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_by_some_test(page: str) -> None:
    for block in blocks(page):
        if block.language not in NOT_CODE:
            runner = RUN_BY.get((block.language, block.engine))
            assert runner, f"nobody runs {block.place}"
            assert (ROOT / runner).exists()
    outside = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert "```" not in outside, "a fence that is not closed, or is indented"
    assert not re.search(r"^\n {4}\S", outside, re.MULTILINE), "code without a fence, which nobody runs"


def slug(heading: str) -> str:
    """The anchor of a heading, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", LINKED)
def test_links_lead_somewhere(page: str) -> None:
    content = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for link in _LINK.findall(content):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        assert target.exists(), f"{page}: {link}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, f"{page}: {link}"


def test_output_may_be_left_out_where_the_page_says_so() -> None:
    assert expected("a\n…\nb").search("x\na\n1\n2\nb")
    assert expected("a … c").search("a b c")
    assert not expected("a\nb").search("a\nc\nb")
    assert not expected("a\n…\nb").search("b\na")


def test_commands_go_on_after_a_backslash() -> None:
    (first, second) = commands("$ one --a \\\n    --b\nsaid\n$ two\n")
    assert first.line.split() == ["one", "--a", "--b"]
    assert first.output == "said\n"
    assert second.line == "two"


@pytest.mark.parametrize(
    "line", ["pip install hudi-bridge", "pip install .[cli]", "pip install '.[no]'", "pip install '.[cli,no]'"]
)
def test_lines_that_install_something_else_are_found(line: str) -> None:
    with pytest.raises(AssertionError):
        snippets.check_pip_install(line)


def test_targets_that_are_not_there_are_found() -> None:
    snippets.check_make("make demo     # this one is")
    with pytest.raises(AssertionError):
        snippets.check_make("make nothing")
