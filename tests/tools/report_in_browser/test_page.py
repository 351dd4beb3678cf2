"""The page in a real browser: how it looks, what a keyboard reaches, what it finds, and what it does not run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from hudi_bridge.tools.report import Report, gather, html_report
from tests.tools.report.reports import BREAKOUT, FOLDER, IMAGE, SCRIPT, SLICES, hostile_table, large, trips
from tests.tools.report_in_browser.colours import COLOURS, LEAST_CONTRAST, luminance

Show = Callable[..., Page]
FOCUSED = """() => {
  const one = document.activeElement;
  const style = getComputedStyle(one);
  const hit = one.querySelector(".hit");
  const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  return {
    place: [...document.querySelectorAll("*")].indexOf(one),
    name: one.id || one.dataset.instant || one.value || one.textContent.trim(),
    visible: outlined || (hit !== null && getComputedStyle(hit).stroke !== "none"),
    onScreen: one.getBoundingClientRect().top >= 0 && one.getBoundingClientRect().left >= 0,
  };
}"""
ROWS = "body => [...body.rows].map((row) => [...row.cells].map((cell) => cell.innerText))"
BREAKING_IN = """() => new Promise((resolve) => {
  const blocked = [];
  document.addEventListener("securitypolicyviolation", (event) => {
    blocked.push(event.effectiveDirective);
    if (blocked.length === 4) resolve(blocked.sort());
  });
  const into = document.createElement("div");
  document.body.append(into);
  into.innerHTML = '<img src="data:," onerror="window.hacked = 1"><p style="color: red">';
  const script = document.createElement("script");
  script.textContent = "window.hacked = 2";
  into.append(script);
})"""


@pytest.fixture(scope="module")
def small() -> Report:
    return trips("trip-7", "trip-1", "none")


@pytest.fixture(scope="module")
def many() -> Report:
    return large()


def rows(page: Page, table: str) -> list[list[str]]:
    """The texts of the rows that a table shows."""
    actual: list[list[str]] = page.locator(f"#{table} tbody").evaluate(ROWS)
    return actual


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read_on_light_and_dark_screens(show: Show, small: Report, dark: bool) -> None:
    page = show(small, dark=dark)
    assert page.title().startswith("trips")
    assert page.locator("html").evaluate("one => getComputedStyle(one).colorScheme") == "light dark"
    # What Chromium paints a page with that has no background of its own.
    background = (18, 18, 18) if dark else (255, 255, 255)
    for selector in ("body", ".dim", ".info", ".write", ".service", ".undo", ".savepoint", "tbody td"):
        actual = page.evaluate(COLOURS, selector)
        assert actual, selector
        for colour, is_dark in actual:
            lighter, darker = sorted((luminance(colour), luminance(background)), reverse=True)
            assert is_dark == dark
            assert (lighter + 0.05) / (darker + 0.05) >= LEAST_CONTRAST, (selector, colour)


def test_a_keyboard_reaches_everything_in_order_and_shows_where_it_is(show: Show, small: Report) -> None:
    page = show(small)
    focused: list[dict[str, Any]] = []
    while True:
        page.keyboard.press("Tab")
        now = page.evaluate(FOCUSED)
        if focused and now["place"] <= focused[-1]["place"]:
            break
        focused.append(now)
    names = [item["name"] for item in focused]
    assert [item["name"] for item in focused if not (item["visible"] and item["onScreen"])] == []
    assert names[:3] == ["Skip to the content", "Findings", "Timeline"]
    expected = ["error", "warning", "advice", "info", "3", "instants-search", "requested", "20261122081117834"]
    expected += [
        "partitions-search",
        "nyc",
        "slices-search",
        "history-search",
        "groups",
        "10 columns now",
        "records-search",
    ]
    assert [name for name in names if name in expected] == expected


def test_the_first_link_skips_to_the_content(show: Show, small: Report) -> None:
    page = show(small)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_arrow_keys_lead_along_the_timeline(show: Show, small: Report) -> None:
    page = show(small)
    assert page.locator("#instant").inner_text() == "Choose an instant."
    page.locator("svg .instant").last.focus()
    assert "20261122081117834" in page.locator("#instant").inner_text()
    page.keyboard.press("ArrowLeft")
    shown = page.locator("#instant").inner_text().splitlines()
    assert shown[:2] == ["instant", "20261122081116787"]
    assert "0 inserted, 0 updated, 2 deleted" in shown
    page.keyboard.press("Home")
    assert "BULK_INSERT" in page.locator("#instant").inner_text()
    page.keyboard.press("ArrowLeft")
    assert "BULK_INSERT" in page.locator("#instant").inner_text()
    assert page.locator("svg .instant[tabindex='0']").count() == 1
    page.get_by_role("button", name="20261122081111382").click()
    assert "20261122081111382" in page.locator("#instant").inner_text()


def test_one_of_10_000_slices_is_found(show: Show, many: Report) -> None:
    page = show(many)
    status = page.locator("#slices-status")
    assert status.inner_text() == f"{SLICES:,} file slices, the first 25 shown"
    assert len(rows(page, "slices")) == 25
    page.get_by_role("searchbox", name="Search file slices").fill("0000270B-")
    assert status.inner_text() == f"1 of {SLICES:,} file slices"
    assert rows(page, "slices") == [
        ["day=2026-0195", "0000270b-5bd1-4f45-acb8-dd9021af7b73-0", "986.3 KiB", "703.1 KiB", "6", "6", "0.71"]
    ]
    page.locator("#slices-search").fill("nowhere")
    assert (status.inner_text(), rows(page, "slices")) == (f"0 of {SLICES:,} file slices", [])
    page.locator("#slices-search").fill("")
    page.locator("#slices-more").click()
    assert len(rows(page, "slices")) == 50


def test_a_partition_shows_its_slices(show: Show, many: Report) -> None:
    page = show(many)
    assert page.locator("#partitions-status").inner_text() == "200 partitions, the first 25 shown"
    page.locator("#partitions-search").fill("0042")
    ((name, slices, *_),) = rows(page, "partitions")
    assert (name, slices) == ("day=2026-0042", "50")
    page.get_by_role("button", name="day=2026-0042").press("Enter")
    assert page.evaluate("document.activeElement.id") == "slices-search"
    assert page.locator("#slices-status").inner_text() == f"50 of {SLICES:,} file slices, the first 25 shown"
    assert {row[0] for row in rows(page, "slices")} == {"day=2026-0042"}
    page.get_by_role("button", name="Those of all partitions").click()
    assert page.locator("#slices-status").inner_text() == f"{SLICES:,} file slices, the first 25 shown"


def test_a_column_is_sorted_by_its_head(show: Show, many: Report) -> None:
    page = show(many)
    head = page.locator("#slices thead th").nth(2)
    assert head.get_attribute("aria-sort") == "none"
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert rows(page, "slices")[0][1].startswith("0000270f-")
    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert rows(page, "slices")[0][1].startswith("00000000-")
    page.locator("#slices thead th").first.get_by_role("button").click()
    assert (head.get_attribute("aria-sort"), rows(page, "slices")[0][0]) == ("none", "day=2026-0000")


def test_findings_are_filtered_by_severity(show: Show, many: Report) -> None:
    page = show(many)
    visible = page.locator("tr[data-severity]:visible")
    assert page.locator("#findings-status").inner_text() == "40 of 40 findings"
    for severity in ("warning", "advice", "info"):
        page.get_by_role("checkbox", name=severity).press("Space")
    assert page.locator("#findings-status").inner_text() == "10 of 40 findings"
    assert {row.get_attribute("data-severity") for row in visible.all()} == {"error"}
    page.get_by_role("checkbox", name="info").check()
    assert visible.count() == 20


def test_hostile_names_run_nothing(show: Show, tmp_path: Path) -> None:
    page = show(gather(hostile_table(tmp_path).open(), [SCRIPT], now="2026-01-03"))
    assert page.locator("h1").inner_text() == BREAKOUT
    assert page.locator("img").count() == 0
    assert rows(page, "partitions")[0][0] == FOLDER
    page.get_by_role("button", name=FOLDER).click()
    assert rows(page, "slices")[0][:2] == [FOLDER, "<i>f1-0"]
    page.locator("svg .instant").nth(1).focus()
    assert page.locator(".group .label").first.inner_text() == f"{FOLDER} / <i>f1-0 1 slice"
    page.locator(".group").first.click()
    assert FOLDER in page.locator("#slice").inner_text()
    text = page.locator("#instant").inner_text()
    assert IMAGE in text
    assert BREAKOUT + r"txt\u202egpj.exe\u2028" in text
    assert page.locator("article.record h3").inner_text() == SCRIPT
    assert page.evaluate("window.hacked") is None


def test_markup_that_came_in_could_not_run_or_load_anything(browser: Browser, small: Report, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text(html_report(small), encoding="utf-8")
    page = browser.new_page()
    page.goto(target.as_uri())
    blocked = page.evaluate(BREAKING_IN)
    assert blocked == ["img-src", "script-src-attr", "script-src-elem", "style-src-attr"]
    assert page.evaluate("window.hacked") is None
    page.close()


def test_the_story_of_a_record_is_shown_and_found(show: Show, small: Report) -> None:
    page = show(small)
    stories = page.locator("article.record:visible")
    assert page.locator("#records-status").inner_text() == "3 of 3 records"
    page.get_by_role("searchbox", name="Search records").fill("TRIP-7")
    assert stories.count() == 1
    winner = stories.locator("tr.winner")
    assert "replaces 1: higher ordering 20 than 10; wins" in winner.inner_text()
    assert "fare = 27.0" in winner.inner_text()
    page.locator("#records-search").fill("not in the table")
    assert stories.locator("h3").all_inner_texts() == ["none"]


def test_arrow_keys_lead_through_10_000_slices_of_all_times(show: Show, many: Report) -> None:
    page = show(many)
    assert page.locator("#history-status").inner_text() == f"{SLICES // 2:,} file groups"
    # Those in view alone are in the page.
    assert page.locator(".group").count() < 30
    page.locator("#groups").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    lines = page.locator("#slice").inner_text().splitlines()
    assert lines[:4] == ["partition", "day=2026-0001", "file group", "00000001-5bd1-4f45-acb8-dd9021af7b73-0"]
    assert "2 of 2, since 2026-01-01 00:00:10" in lines
    page.keyboard.press("ArrowLeft")
    assert "superseded by 2026-01-01 00:00:10" in page.locator("#slice").inner_text()
    page.keyboard.press("End")
    assert "00001387-" in page.locator("#slice").inner_text()
    chosen = page.locator(".group[aria-selected='true']")
    assert chosen.get_attribute("id") == page.locator("#groups").get_attribute("aria-activedescendant")
    assert chosen.is_visible()
    assert page.locator(".group").count() < 30


def test_file_groups_are_searched_for_and_chosen_by_what_waits(show: Show, many: Report) -> None:
    page = show(many)
    page.get_by_role("searchbox", name="Search file groups").fill("DAY=2026-0003")
    assert page.locator("#history-status").inner_text() == f"25 of {SLICES // 2:,} file groups"
    page.get_by_label("Show").select_option("waiting")
    waiting = page.locator(".group .dim").all_inner_texts()
    assert {text.strip() for text in waiting} == {"2 slices, 1 waiting for the cleaner"}
    page.locator(".group").first.locator(".bar.waits").first.click()
    assert "waits for it" in page.locator("#slice").inner_text()
    page.get_by_label("Show").select_option("unfinished")
    assert (page.locator(".group").count(), page.locator("#history-status").inner_text()[:5]) == (0, "0 of ")


def test_a_bar_begins_and_ends_where_the_slice_does(show: Show, many: Report) -> None:
    page = show(many)
    track = page.locator(".group .track").nth(1)
    old, new = (track.locator(".bar.base").nth(number).bounding_box() for number in (0, 1))
    whole = track.bounding_box()
    assert old is not None
    assert new is not None
    assert whole is not None
    assert old["x"] + old["width"] == pytest.approx(new["x"], abs=1.5)
    assert new["x"] + new["width"] == pytest.approx(whole["x"] + whole["width"], abs=1.5)
    mark = track.locator(".write").first.bounding_box()
    assert mark is not None
    assert old["x"] < mark["x"] < new["x"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_narrow_page_is_no_wider_than_its_screen(show: Show, small: Report, many: Report, dark: bool) -> None:
    for report in (small, many):
        page = show(report, dark=dark)
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") == 390
