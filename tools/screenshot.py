"""Draws docs/report.png: the timeline of a golden table, as Chromium shows it in a report."""

from pathlib import Path

from hudi_bridge import HudiTable
from hudi_bridge.tools.report import gather, html_report
from tests.support.browser import running_chromium
from tests.support.golden_cases import CACHE, golden_table

TARGET = Path(__file__).parents[1] / "docs" / "report.png"
TABLE = "k_nbcc_pending_120"
"""It has writers that overlap, and a compaction that is under way."""
NOW = "2026-11-22 03:00:00"
WIDTH = 1100


def main() -> None:
    """Writes the picture."""
    page_file = CACHE / "report.html"
    page_file.write_text(html_report(gather(HudiTable.open(golden_table(TABLE)), now=NOW)), encoding="utf-8")
    with running_chromium() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": WIDTH}, color_scheme="light")
        page.goto(page_file.as_uri())
        page.locator("svg .instant").last.click()
        page.locator("#timeline").screenshot(path=TARGET)
    page_file.unlink()
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
