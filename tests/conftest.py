"""The order of tests, their share of the machine, and what needs a JDK or a browser.

``pytest --matrix`` ends with a table: of the golden queries of each group, how many passed through each engine.
``pytest --core`` collects what can be imported without any extra, ``pytest --beyond-core`` the rest, and ``pytest
--without PACKAGE`` what does without that.
"""

import logging
import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings

from tests.support.golden_cases import golden_group
from tests.support.imported_packages import core_packages, packages_of

LAST = (
    "cli",
    "tools/report_in_browser",
    "service",
    "connectors",
    "robustness",
    "properties",
    "table/test_peer.py",
    "table/test_golden.py",
    "integration",
)
"""Folders and modules that come after all other tests, in this order: the quickest to fail come first."""
JVM_FIXTURES = {"connect", "hdfs", "presto", "spark", "trino"}
BROWSER_FIXTURES = {"browser"}
THREADS = 2
"""Threads of a test process: more than one, so that tests meet them; its neighbours have the other cores."""

# How long an example takes says more of the machine than of the code.
settings.register_profile("usual", deadline=None)
settings.register_profile("quick", max_examples=25, deadline=None)
settings.load_profile("usual")

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
    "w": "operations of a changelog",
}
"""The groups of golden tables."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--matrix", action="store_true", help="print the golden queries passed by group and engine")
    parser.addoption("--core", action="store_true", help="leave out what imports a package of an extra, or a tool")
    parser.addoption("--without", action="append", default=[], help="leave out what imports this package")
    parser.addoption("--beyond-core", action="store_true", help="leave out what --core takes, but for tests of extras")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules, and folders with a conftest, by what they import; None leaves all else to pytest."""
    is_core, absent = config.getoption("--core"), set(config.getoption("--without"))
    module = collection_path / "conftest.py" if collection_path.is_dir() else collection_path
    is_imported = module.is_file() and (module.name == "conftest.py" or module.match("test_*.py"))
    if not is_imported or not (is_core or absent):
        return None
    packages = packages_of(module)
    return True if packages & absent or (is_core and not packages <= core_packages()) else None


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """One more process than cores: tests wait for servers and for processes, too."""
    return (yield) + 1


@pytest.fixture(scope="session", autouse=True)
def share_of_the_machine() -> Iterator[None]:
    """Keep readers and Arrow, in this process and in those that it starts, from taking all cores."""
    cores = pa.cpu_count()
    with pytest.MonkeyPatch.context() as patch:
        pa.set_cpu_count(THREADS)
        patch.setattr(os, "cpu_count", lambda: THREADS)
        patch.setenv("OMP_NUM_THREADS", str(THREADS))
        yield
    pa.set_cpu_count(cores)


@pytest.fixture(autouse=True)
def level_of_the_log() -> Iterator[None]:
    """Undo what a command that runs in this process, such as ``serve``, logs from now on."""
    logger = logging.getLogger("hudi_bridge")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    if config.getoption("--beyond-core"):
        beyond = {path: not packages_of(path) <= core_packages() for path in {item.path for item in items}}
        items[:] = [item for item in items if beyond[item.path] or item.get_closest_marker("extra")]
    for item in items:
        if JVM_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("jvm")
        if BROWSER_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("browser")
    # Tests of one file stay together, as they share fixtures.
    items.sort(key=lambda item: _turn(item.path.relative_to(here)))
    _note_engines(items)


def _turn(path: Path) -> int:
    return next((number for number, last in enumerate(LAST, start=1) if path.is_relative_to(last)), 0)


def _note_engines(items: Iterable[pytest.Item]) -> None:
    # Properties travel with the reports of xdist's workers; the items themselves do not.
    here = Path(__file__).parent
    for item in items:
        callspec: Any = getattr(item, "callspec", None)
        marker = item.get_closest_marker("engine")
        if "key" in getattr(callspec, "params", ()) and (marker or item.path == here / "table" / "test_golden.py"):
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
                cell = (str(properties["group"]), str(properties["engine"]))
                total[cell] += 1
                passed[cell] += outcome == "passed"
    engines = sorted({engine for _, engine in total})
    terminalreporter.section("golden queries passed")
    terminalreporter.write_line(f"{'':40}" + "".join(f"{engine:>14}" for engine in engines))
    for group, title in GROUPS.items():
        counts = (f"{passed[group, engine]} of {total[group, engine]}" for engine in engines)
        terminalreporter.write_line(f"{group}  {title:37}" + "".join(f"{count:>14}" for count in counts))
