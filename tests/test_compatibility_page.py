"""That docs/compatibility.md says of the golden tables what the tests know of them."""

from tests.compatibility_page import BEGIN, END, FEATURES, PAGE, golden_tables, with_sections


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text()
    assert (page.count(BEGIN), page.count(END)) == (1, 1)
    assert page == with_sections(page), "python -m tests.compatibility_page writes it anew"


def test_every_group_is_said_to_be_about_something() -> None:
    assert {table.group for table in golden_tables()} == set(FEATURES)
