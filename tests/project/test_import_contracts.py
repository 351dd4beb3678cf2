"""What import-linter cannot say by itself of the contracts in ``pyproject.toml``."""

import pkgutil
import tomllib
from pathlib import Path

import hudi_bridge

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
FOR_CONNECTORS = {
    "caching",
    "catalogs",
    "config",
    "dataset",
    "display",
    "engines",
    "errors",
    "imports",
    "inspection",
    "operations",
    "option_table",
    "options",
    "split_reader",
    "storage",
    "table",
    "threads",
}
"""The modules and packages that connectors may import anything of."""


def test_a_module_that_is_new_is_closed_to_connectors_unless_it_is_opened_here() -> None:
    contracts = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (closed,) = (
        one["forbidden_modules"] for one in contracts if one["name"].startswith("connectors and the service know")
    )
    modules = {module.name for module in pkgutil.iter_modules(hudi_bridge.__path__)}
    assert {name.rpartition(".")[2] for name in closed} == modules - FOR_CONNECTORS - {"cli", "connectors", "service"}
