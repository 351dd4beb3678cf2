"""What notebooks show, in a real browser, on a page with the style that JupyterLab gives to tables."""

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from playwright.sync_api import Browser

from hudi_bridge import HudiTable, tools
from tests.support.golden_cases import golden_table
from tests.tools.report.reports import BREAKOUT, FOLDER, SCRIPT, hostile_table
from tests.tools.report_in_browser.colours import COLOURS, LEAST_CONTRAST, luminance

NOTEBOOK = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; font: 13px sans-serif; background: {background}; color: {text}; }}
table {{ border-collapse: collapse; border: none; font-size: 12px; }}
td, th, tr {{ text-align: right; vertical-align: middle; padding: .5em; white-space: normal; max-width: none; }}
tbody tr:nth-child(odd) {{ background: {stripes}; }}
</style><div class="output">{shown}</div>"""
LIGHT = {"background": "#ffffff", "text": "#212121", "stripes": "#f5f5f5"}
DARK = {"background": "#111111", "text": "#e0e0e0", "stripes": "#212121"}
WIDTH = 900


def shown(table: HudiTable, *more: Any) -> str:
    """All that a notebook shows of a table."""
    snapshot = table.snapshot()
    condition: Any = pc.field(table.schema.names[-1]).is_valid()
    objects: list[Any] = [
        table,
        snapshot,
        table.timeline,
        table.schema_history,
        snapshot.explain(condition),
        tools.doctor(table),
        tools.diff(table, "earliest"),
        *more,
    ]
    return "\n".join(item._repr_html_() for item in objects)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_tables_of_a_notebook_can_be_read(browser: Browser, tmp_path: Path, theme: dict[str, str]) -> None:
    target = tmp_path / "notebook.html"
    table = HudiTable.open(golden_table("a_story_v9_120"))
    content = shown(table, tools.history_of(table, "k00001"))
    target.write_text(NOTEBOOK.format(shown=content, **theme), encoding="utf-8")
    page = browser.new_page(viewport={"width": WIDTH, "height": 900})
    page.goto(target.as_uri())
    for colour, _ in page.evaluate(COLOURS, "td, th, caption"):
        for name in ("background", "stripes"):
            behind = [int(theme[name][location : location + 2], 16) for location in (1, 3, 5)]
            lighter, darker = sorted((luminance(colour), luminance(behind)), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= LEAST_CONTRAST
    aligned = page.evaluate("[...document.querySelectorAll('td, th')].map((one) => getComputedStyle(one).textAlign)")
    assert set(aligned) == {"left"}
    captions = page.locator("caption").all_inner_texts()
    assert {"Diagnosis", "Findings", "Explanation", "Timeline", "Schema history", "RecordHistory"} <= set(captions)
    page.close()


def test_hostile_names_run_nothing_in_a_notebook(browser: Browser, tmp_path: Path) -> None:
    target = tmp_path / "notebook.html"
    table = hostile_table(tmp_path / "table").open()
    content = shown(table, tools.history_of(table, SCRIPT))
    target.write_text(NOTEBOOK.format(shown=content, **LIGHT), encoding="utf-8")
    page = browser.new_page()
    page.goto(target.as_uri())
    assert page.evaluate("window.hacked") is None
    tags = page.evaluate("[...new Set([...document.querySelectorAll('.output *')].map((one) => one.tagName))].sort()")
    assert tags == ["CAPTION", "TABLE", "TBODY", "TD", "TH", "TR"]
    text = page.locator(".output").inner_text()
    assert FOLDER in text
    assert BREAKOUT in text
    page.close()
