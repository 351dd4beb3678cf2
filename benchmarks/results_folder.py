"""Where pages of results are kept: ``results/``, named by their day."""

import datetime as dt
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def today() -> str:
    """The day of a run, in UTC."""
    return str(dt.datetime.now(dt.UTC).date())


def keep(page: str, name: str) -> Path:
    """Write a page of results; returns its path."""
    path = RESULTS / f"{today()}-{name}.md"
    path.write_text(page)
    return path
