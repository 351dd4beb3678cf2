from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Page, Request

from hudi_bridge.tools.report import Report, html_report
from tests.support.browser import running_chromium

Show = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    with running_chromium() as running:
        yield running


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a report, by default in a light page; the test fails if a page complains, asks or makes a request."""
    complaints: list[str] = []
    opened: list[Page] = []

    def on_console(message: ConsoleMessage) -> None:
        complaints.append(f"{message.type}: {message.text}")

    def on_error(error: Error) -> None:
        complaints.append(str(error))

    def on_dialog(dialog: Dialog) -> None:
        complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def call(report: Report, *, dark: bool = False) -> Page:
        target = tmp_path / "report.html"
        target.write_text(html_report(report), encoding="utf-8")
        page = browser.new_page(color_scheme="dark" if dark else "light")
        opened.append(page)

        def on_request(request: Request) -> None:
            if request.url != target.as_uri():
                complaints.append(f"request: {request.url}")

        page.on("console", on_console)
        page.on("pageerror", on_error)
        page.on("dialog", on_dialog)
        page.on("request", on_request)
        page.goto(target.as_uri())
        return page

    yield call
    for page in opened:
        page.wait_for_timeout(50)
        page.close()
    assert complaints == []
