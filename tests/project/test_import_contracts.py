"""The contract of ours that ``pyproject.toml`` uses: what is not listed may not be imported."""

import grimp
import pytest

from tools import contracts

EDGES = [("app.door", "app.core.values"), ("app.door.inner", "app.core"), ("app.door", "json"), ("app.door", "numpy")]


@pytest.mark.parametrize(
    ("allowed", "external", "illegal"),
    [
        (["app.core"], False, []),
        (["app.core.values"], False, [("app.door.inner", "app.core", "7")]),
        (["app.core"], True, [("app.door", "numpy", "7")]),
    ],
)
def test_what_is_not_listed_may_not_be_imported(
    allowed: list[str], external: bool, illegal: list[tuple[str, str, str]]
) -> None:
    graph = grimp.ImportGraph()
    for name in ("app", "app.door", "app.door.inner", "app.core", "app.core.values"):
        graph.add_module(name)
    for name in ("json", "numpy"):
        graph.add_module(name, is_squashed=True)
    for importer, imported in EDGES:
        graph.add_import(importer=importer, imported=imported, line_number=7, line_contents="import")
    options = {"source_modules": ["app.door"], "allowed_modules": allowed, "external": str(external)}
    contract = contracts.AllowedContract(name="the door is narrow", session_options={}, contract_options=options)
    check = contract.check(graph, verbose=False)
    assert check.metadata["illegal"] == illegal
    assert check.kept == (not illegal)
