"""The public names, written down once more, so that none comes or goes unnoticed."""

import importlib
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

import hudi_bridge
from hudi_bridge import HudiReadError

PUBLIC = {
    "ChangeFormat",
    "ChangeSplit",
    "CorruptBaseFileError",
    "CorruptLogFileError",
    "CorruptTableError",
    "CorruptTimelineError",
    "DataFileGoneError",
    "HudiDataset",
    "HudiReadError",
    "HudiTable",
    "InstantNotReadableError",
    "MergeError",
    "QueryError",
    "QueryType",
    "RealtimeFileSplit",
    "RecordPayload",
    "SchemaEvolutionError",
    "SplitReader",
    "StorageError",
    "TableNotFoundError",
    "UnsupportedTableError",
    "open_reader",
}
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
MODULES = sorted(module.name for module in pkgutil.walk_packages(hudi_bridge.__path__, "hudi_bridge."))


def test_the_public_names_are_these() -> None:
    assert set(hudi_bridge.__all__) == PUBLIC
    assert all(hasattr(hudi_bridge, name) for name in PUBLIC)
    assert list(hudi_bridge.__all__) == sorted(hudi_bridge.__all__)


def test_the_version_is_written_in_one_place() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", hudi_bridge.__version__)
    project = tomllib.loads(PROJECT.read_text())
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "hudi_bridge.__version__"}


def test_every_error_of_the_tree_is_public() -> None:
    tree = [HudiReadError]
    for error in tree:
        tree += error.__subclasses__()
    assert {error.__name__ for error in tree} <= PUBLIC


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is_for(name: str) -> None:
    assert importlib.import_module(name).__doc__
