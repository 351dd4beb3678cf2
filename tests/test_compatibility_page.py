"""That docs/compatibility.md says of the golden tables what the tests know of them."""

import re
from pathlib import Path

import pytest

import hudi_bridge
from tests import refusals
from tests.compatibility_page import BEGIN, END, FEATURES, PAGE, golden_tables, with_sections
from tests.refusals import ELSEWHERE, REFUSALS, Refusal, error_of


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text()
    marks = (BEGIN, END, refusals.BEGIN, refusals.END)
    assert [page.count(mark) for mark in marks] == [1] * len(marks)
    assert page == with_sections(page), "python -m tests.compatibility_page writes it anew"


def test_every_group_is_said_to_be_about_something() -> None:
    assert {table.group for table in golden_tables()} == set(FEATURES)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.what)
def test_what_the_page_says_is_refused_is_refused(refusal: Refusal) -> None:
    assert error_of(refusal).supported


def test_all_that_is_refused_is_said_somewhere() -> None:
    root = Path(hudi_bridge.__file__).parent
    sources = (path for path in root.rglob("*.py") if "connectors" not in path.parts)
    raised = re.compile(r'UnsupportedTableError\(\s*"([^"]+)"')
    features = {name for path in sources for name in raised.findall(path.read_text())}
    shown = {error_of(refusal).feature for refusal in REFUSALS}
    assert features - shown == ELSEWHERE.keys() - shown
