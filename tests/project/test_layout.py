"""Where tests are: folders mirror the package, and what several tests use is in no test module."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
PACKAGE = TESTS.parent / "hudi_bridge"
OF_THEIR_OWN = {
    "golden": "tables written by Hudi, and what wrote them",
    "integration": "servers of Trino and Presto, other libraries",
    "project": "the repository itself: pages, contracts, exported names",
    "properties": "whatever rows are drawn",
    "random": "tables that Hudi writes at random",
    "robustness": "damage, interrupts, faults of storage",
    "soak": "readers beside writers",
    "support": "what tests of several folders use",
    "table": "modules at the root of the package",
    "tools/report_in_browser": "the page of a report, opened",
    "typing": "what mypy says of public names",
}
"""Folders of tests that stand for no folder of the package."""


def test_folders_mirror_the_package() -> None:
    folders = {folder.relative_to(TESTS).as_posix() for module in modules() if (folder := module.parent) != TESTS}
    own = {name for name in folders if any(Path(name).is_relative_to(item) for item in OF_THEIR_OWN)}
    assert [name for name in sorted(folders - own) if not (PACKAGE / name).is_dir()] == []
    assert [name for name in OF_THEIR_OWN if not (TESTS / name).is_dir() or (PACKAGE / name).is_dir()] == []


def test_no_module_lies_loose() -> None:
    assert [path.name for path in TESTS.glob("*.py")] == ["conftest.py"]


def test_nothing_is_imported_from_a_test_module() -> None:
    """Another module that needs something of it imports its tests, fixtures and dependencies, too."""
    assert [f"{path.relative_to(TESTS)}: {name}" for path in modules() for name in imported_test_modules(path)] == []


def modules() -> Iterator[Path]:
    return TESTS.rglob("*.py")


def imported_test_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        yield from (name for name in names if is_test_module(name))


def is_test_module(name: str) -> bool:
    parts = name.split(".")
    return (
        parts[0] == TESTS.name
        and parts[-1].startswith("test_")
        and TESTS.joinpath(*parts[1:]).with_suffix(".py").is_file()
    )
