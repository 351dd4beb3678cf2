"""What is imported when: starting costs what is needed."""

import ast
import importlib
import inspect
import os
import subprocess
import sys
from itertools import starmap
from types import ModuleType

import pytest

import hudi_bridge
from hudi_bridge import tools
from hudi_bridge.cli.app import _COMMANDS
from tests.support.golden_cases import golden_trips
from tests.support.strength import one_in

OPEN = "from hudi_bridge import HudiTable; table = HudiTable.open(sys.argv[1])"


def imported(program: str, *arguments: str) -> set[str]:
    """The modules that a program has imported at its end, in a process of its own."""
    whole = f"import sys\n{program}\nprint('imported:', *sys.modules)"
    command = [sys.executable, "-c", whole, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(ended.stdout.rpartition("imported:")[2].split())


def test_the_package_alone_imports_no_more_than_what_imports_its_names() -> None:
    actual = {name for name in imported("import hudi_bridge") if name.startswith("hudi_bridge")}
    assert actual == {"hudi_bridge", "hudi_bridge.common", "hudi_bridge.common.imports"}


def test_a_table_is_opened_and_planned_without_what_only_some_questions_need() -> None:
    actual = imported(
        f"{OPEN}; table.file_slices(); table.schema; table.timeline.commits()", str(golden_trips() / "trips")
    )
    assert {"hudi_bridge.table", "pyarrow"} <= actual
    assert actual & {"duckdb", "fastavro", "fsspec", "pandas", "pyarrow.dataset"} == set()
    later = {
        "changes.plan",
        "indexes.candidates",
        "indexes.secondary_index",
        "splits.schema_history",
        "tools.trace.record_trace",
    }
    assert actual & {f"hudi_bridge.{name}" for name in later} == set()
    assert "pyarrow.dataset" in imported(f"{OPEN}; table.snapshot()", str(golden_trips() / "trips"))


def test_all_rows_are_read_without_the_indexes_that_only_filters_and_keys_ask() -> None:
    read = f"{OPEN}; table.snapshot().to_table()"
    actual = imported(read, str(golden_trips() / "trips"))
    asked = {"expression_index", "key_index", "record_index"}
    assert actual & {f"hudi_bridge.indexes.{name}" for name in asked} == set()


@pytest.mark.parametrize("module", [hudi_bridge, tools])
def test_names_are_imported_from_where_the_type_checker_finds_them(module: ModuleType) -> None:
    imports = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.ImportFrom)]
    # A type checker takes a name for a public one if it is imported as itself.
    homes = {name.asname: node.module for node in imports for name in node.names if name.asname == name.name}
    assert homes == module._HOMES
    assert set(homes) == set(module.__all__) <= set(dir(module))
    for name, home in homes.items():
        assert getattr(module, name) is getattr(importlib.import_module(str(home)), name)


def test_the_help_of_the_command_line_imports_no_command() -> None:
    actual = imported("from hudi_bridge.cli.main import run; run(['--help'])")
    commands = {command.module for command in _COMMANDS.values()}
    assert actual & {*commands, "duckdb", "pandas", "hudi_bridge.table", "pyarrow.dataset"} == set()
    actual = imported("from hudi_bridge.cli.main import run; run(['info', sys.argv[1]])", str(golden_trips() / "trips"))
    assert actual & commands == {"hudi_bridge.cli.inspection"}
    assert actual & {"duckdb", "pandas", "pyarrow.dataset"} == set()


@pytest.mark.skipif(sys.platform != "linux", reason="the C library and huge pages of Linux")
@pytest.mark.parametrize(
    ("given", "pool", "is_disabled"),
    one_in(
        3,
        starmap(
            pytest.param,
            [
                ({}, "system", 1),
                ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc", 1),
                ({"ARROW_DEFAULT_MEMORY_POOL": "mimalloc", "MIMALLOC_ALLOW_THP": "1"}, "mimalloc", 0),
            ],
        ),
    ),
)
def test_the_command_line_allocates_sparingly_unless_it_is_told_otherwise(
    given: dict[str, str], pool: str, is_disabled: int
) -> None:
    program = """
import atexit, ctypes, sys
ctypes.CDLL(None).prctl(41, 0, 0, 0, 0)  # a parent's choice would be inherited
from hudi_bridge.cli.main import main
import pyarrow as pa
atexit.register(lambda: print(pa.default_memory_pool().backend_name, ctypes.CDLL(None).prctl(42, 0, 0, 0, 0)))
main()
"""
    variables = ("ARROW_DEFAULT_MEMORY_POOL", "MIMALLOC_ALLOW_THP")
    environment = {name: text for name, text in os.environ.items() if name not in variables} | given
    command = [sys.executable, "-c", program, "info", str(golden_trips() / "trips")]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert ended.stdout.endswith(f"{pool} {is_disabled}\n")


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux")
@pytest.mark.parametrize(
    ("imports", "given", "pool"),
    [
        ("hudi_bridge, pyarrow", {}, "system"),
        ("hudi_bridge, pyarrow", {"ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, "mimalloc"),
        ("pyarrow, hudi_bridge", {}, "mimalloc"),
    ],
)
def test_arrow_allocates_by_the_c_library_unless_it_is_loaded_or_told_otherwise(
    imports: str, given: dict[str, str], pool: str
) -> None:
    program = f"import {imports}; print(pyarrow.default_memory_pool().backend_name)"
    variables = {name: text for name, text in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=variables | given)
    assert ended.stdout == f"{pool}\n"


@pytest.mark.parametrize("name", _COMMANDS)
def test_the_list_of_commands_says_of_each_what_its_own_help_says(name: str) -> None:
    position = _COMMANDS[name]
    paragraph, _, _ = str(position.load(name).help).partition("\n\n")
    assert " ".join(paragraph.split()) == position.help
