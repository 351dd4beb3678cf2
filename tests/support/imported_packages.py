"""Which packages a test module needs, for ``pytest --core`` and ``pytest --without PACKAGE``.

What counts are imports at the top of a module and of the modules of this checkout that it imports; a test that asks for
a package of an extra while it runs has the marker ``extra``.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = {"hudi_bridge", "tests", "tools", "benchmarks", "examples"}


def packages_of(path: Path) -> set[str]:
    """The packages that pytest imports with a test module, from its folders too, besides those of this checkout."""
    before = [folder / "conftest.py" for folder in path.parents if folder.is_relative_to(ROOT)]
    return _imported_packages({_module_name(file) for file in (path, *before) if file.is_file()})


@cache
def core_packages() -> frozenset[str]:
    """What ``make test`` installs: the dependencies of the core, the group ``core``, and the standard library."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requirements = [*document["project"]["dependencies"], *document["dependency-groups"]["core"]]
    names = {re.split(r"[^\w-]", requirement, maxsplit=1)[0].replace("-", "_") for requirement in requirements}
    return frozenset(names | sys.stdlib_module_names)


def _imported_packages(modules: set[str]) -> set[str]:
    """The packages from elsewhere that modules of this checkout import, and those that these import."""
    packages, unseen, seen = set(), set(modules), set[str]()
    while unseen:
        module = unseen.pop()
        seen.add(module)
        names = _imports_of(module)
        packages |= {package for name in names if (package := name.partition(".")[0]) not in OURS}
        unseen |= {name for name in names if name.partition(".")[0] in OURS} - seen
    return packages


@cache
def _imports_of(module: str) -> frozenset[str]:
    """The modules that a module imports while it is imported, with the packages that hold them."""
    path = _file_of(module)
    if path is None:  # a folder, or a name in a module
        return frozenset()
    names = {name for statement in _statements(ast.parse(path.read_bytes())) for name in _named_by(statement)}
    return frozenset(".".join(name.split(".")[: end + 1]) for name in names for end in range(name.count(".") + 1))


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """The statements that run when a module is imported."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _statements(child)


def _named_by(statement: ast.AST) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    if isinstance(statement, ast.ImportFrom) and statement.module:
        yield statement.module
        yield from (f"{statement.module}.{alias.name}" for alias in statement.names)


def _file_of(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)
