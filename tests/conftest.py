"""``pytest --matrix`` ends with a table: of the golden queries of each group, how many passed through each engine."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tests.golden_cases import golden_group

ARROW = "arrow"
GROUPS = {
    "a": "table versions",
    "b": "merge rules",
    "c": "log formats",
    "d": "file slices and timeline",
    "e": "partitioning and keys",
    "f": "types",
    "g": "schema evolution",
    "h": "indexes",
    "i": "changes, copy-on-write, empty tables",
    "k": "concurrency, upgrades, SQL, filters",
    "v": "values",
}
"""The groups of golden tables."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--matrix", action="store_true", help="print the golden queries passed by group and engine")


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    # Properties travel with the reports of xdist's workers; the items themselves do not.
    for item in items:
        callspec: Any = getattr(item, "callspec", None)
        marker = item.get_closest_marker("engine")
        if "key" in getattr(callspec, "params", ()) and (marker or item.path.name == "test_golden.py"):
            case, _ = callspec.params["key"]
            item.user_properties += [("engine", marker.args[0] if marker else ARROW), ("group", golden_group(case))]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--matrix"):
        return
    passed: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            properties = dict(report.user_properties)
            if "engine" in properties:
                place = (str(properties["group"]), str(properties["engine"]))
                total[place] += 1
                passed[place] += outcome == "passed"
    engines = sorted({engine for _, engine in total})
    terminalreporter.section("golden queries passed")
    terminalreporter.write_line(f"{'':40}" + "".join(f"{engine:>14}" for engine in engines))
    for group, title in GROUPS.items():
        counts = (f"{passed[group, engine]} of {total[group, engine]}" for engine in engines)
        terminalreporter.write_line(f"{group}  {title:37}" + "".join(f"{count:>14}" for count in counts))
