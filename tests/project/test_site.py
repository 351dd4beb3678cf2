"""The site in a real browser: nothing is cut or sticks out, on wide and narrow screens; needs ``make docs``."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from playwright.sync_api import Browser, Page

import hudi_bridge
from tests.support.browser import running_chromium
from tests.support.snippets import ROOT

SITE = ROOT / "build" / "site"
OF_DOCS = (*sorted(path.stem for path in (ROOT / "docs").glob("*.md")), "index", "api/hudi_bridge.HudiTable")
STICKING_OUT = """() => {
  const scrolls = (element) => ["auto", "scroll", "hidden"].includes(getComputedStyle(element).overflowX);
  const inside = (element) => {
    for (let outer = element.parentElement; outer; outer = outer.parentElement) if (scrolls(outer)) return true;
    return false;
  };
  const out = [...document.querySelectorAll(".md-content *")].filter(
    (element) => element.getBoundingClientRect().right > innerWidth + 1 && !inside(element));
  const cut = [...document.querySelectorAll(".md-nav__link .md-ellipsis")].filter(
    (element) => element.offsetParent && element.scrollWidth > element.clientWidth + 1);
  return [...out, ...cut].map((element) => element.textContent.trim().slice(0, 80));
}"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
        """Says nothing."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of the site."""
    assert (SITE / "index.html").exists(), "make docs builds the site"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as running:
        yield running


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Page]:
    """The first page, on a wide and light screen."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page.goto(f"{site}/index.html")
    yield page
    page.close()


@pytest.mark.parametrize("name", OF_DOCS)
def test_nothing_is_cut_or_sticks_out(page: Page, site: str, name: str) -> None:
    page.goto(f"{site}/{name}.html")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert page.evaluate(STICKING_OUT) == []


def test_the_header_has_the_version(page: Page) -> None:
    assert hudi_bridge.__version__ in page.inner_text(".md-header__title")


def test_the_palette_follows_the_system_until_it_is_chosen(page: Page) -> None:
    seen = []
    for system in ("dark", "light"):
        page.emulate_media(color_scheme=system)
        page.reload()
        seen.append(page.get_attribute("body", "data-md-color-scheme"))
    for choice in ("Light", "Dark"):
        page.click(f"form[data-md-component=palette] label[title={choice}]")
        seen.append(page.get_attribute("body", "data-md-color-scheme"))
    assert seen == ["slate", "default", "default", "slate"]


def test_the_search_finds_an_error(page: Page) -> None:
    page.click(".md-search__input")
    page.wait_for_selector(".md-search-result__meta:has-text('Type to start searching')")
    page.keyboard.type("InstantNotReadableError", delay=20)
    page.wait_for_selector(".md-search-result__link[href*='errors.html']")
