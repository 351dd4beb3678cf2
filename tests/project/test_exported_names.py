"""The public names, written down once more, so that none comes or goes unnoticed."""

import builtins
import dataclasses
import enum
import importlib
import inspect
import pkgutil
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, ForwardRef, get_args, get_origin

import pytest

import hudi_bridge
from hudi_bridge import (
    HudiReadError,
    HudiTable,
    ReadContext,
    RecordMerger,
    RecordPayload,
    SplitPlanner,
    engines,
    inspection,
    tools,
)
from hudi_bridge.connectors.duckdb import Attached, Lake, ViewPlan, attach, attach_all
from hudi_bridge.connectors.polars import scan, scan_dataset
from hudi_bridge.releases import Release, ReleaseRules, TableLayout
from hudi_bridge.schema.internal import InternalSchema

PUBLIC = {
    "Action",
    "BaseFile",
    "BatchScanner",
    "ChangeFormat",
    "ChangeSplit",
    "CorruptBaseFileError",
    "CorruptLogFileError",
    "CorruptTableError",
    "CorruptTimelineError",
    "DataFileGoneError",
    "Explanation",
    "FileColumns",
    "FileSlice",
    "HudiDataset",
    "HudiReadError",
    "HudiTable",
    "Instant",
    "InstantNotReadableError",
    "InstantRange",
    "InstantState",
    "LogFile",
    "MergeError",
    "MergeMode",
    "OnFilesGone",
    "PruningStep",
    "QueryError",
    "QueryType",
    "ReadContext",
    "RealtimeCompactedReader",
    "RealtimeFileSplit",
    "RecordMerger",
    "RecordPayload",
    "SchemaEvolutionError",
    "SchemaProposal",
    "SchemaVersion",
    "SkippedBlocks",
    "SliceToRead",
    "Split",
    "SplitPlanner",
    "StorageError",
    "TableConfig",
    "TableNotFoundError",
    "TableType",
    "Timeline",
    "UnsupportedTableError",
    "VariantPath",
    "VersionToMerge",
    "open_reader",
    "variant_path",
}
TOOLS = {
    "BaseCheck",
    "Diagnosis",
    "FileGroupHistory",
    "Finding",
    "Limits",
    "RecordHistory",
    "RecordVersion",
    "Severity",
    "SliceCost",
    "TableDifference",
    "UncountedVersion",
    "UnreadablePlace",
    "Verdict",
    "diff",
    "doctor",
    "examine",
    "find_versions",
    "history_of",
}
BESIDE = {
    "hudi_bridge.changes.split": {"GroupChange"},
    "hudi_bridge.config": {"CdcMode", "MetaFieldsMode", "PartitionFieldKind", "TimelineTimezone"},
    "hudi_bridge.engines": {"SliceDelta", "StoredBaseFile", "SurvivingLogRecords", "slice_delta"},
    "hudi_bridge.schema.difference": {"SchemaChange", "SchemaChangeKind"},
    "hudi_bridge.schema.file_columns": {"ColumnMapping", "Outcome"},
    "hudi_bridge.schema.infer": {"SchemaAmbiguity", "SchemaAmbiguityKind"},
    "hudi_bridge.schema.internal": {"InternalSchema"},
    "hudi_bridge.splits.file_slice": {"LogFileName"},
}
"""What public names lead to, and few programs name: public where it is. Pages of the API have these, too."""
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
OPAQUE = {ReadContext, InternalSchema, Release, ReleaseRules, SplitPlanner, TableLayout}
"""Classes whose docstrings say that their fields are not for users."""
FOR_CONNECTORS = "storage"
"""The parameter with which a connector hands over what it has open already, and the property to get it from."""
FREE = (
    "_duckdb",
    "builtins",
    "collections.abc",
    "datetime",
    "duckdb",
    "numpy",
    "os",
    "polars",
    "pyarrow",
    "types",
    "typing",
)
"""Modules of which any class may be named: those of Python, Arrow, NumPy and the engine of a connector."""
WITH_OTHER_LIBRARIES = {f"hudi_bridge.connectors.{library}" for library in ("daft", "dask", "dbt", "ray")}
"""Modules that only the environments of ``make libraries`` and ``make dbt`` can import."""
MODULES = sorted(
    {module.name for module in pkgutil.walk_packages(hudi_bridge.__path__, "hudi_bridge.")} - WITH_OTHER_LIBRARIES
)


@pytest.mark.parametrize(("module", "names"), [(hudi_bridge, PUBLIC), (tools, TOOLS)])
def test_the_public_names_are_these(module: ModuleType, names: set[str]) -> None:
    assert set(module.__all__) == names
    assert all(hasattr(module, name) for name in names)
    assert list(module.__all__) == sorted(module.__all__)


def test_the_doors_are_narrow() -> None:
    assert len(PUBLIC) <= 50
    assert len(engines.__all__) <= 20


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


EXPORTED = [
    *(getattr(hudi_bridge, name) for name in sorted(PUBLIC)),
    *(getattr(tools, name) for name in sorted(TOOLS)),
    *(getattr(importlib.import_module(module), name) for module, names in BESIDE.items() for name in sorted(names)),
    *(getattr(inspection, name) for name in dir(inspection) if name.startswith("inspect_")),
]


@pytest.mark.parametrize(
    "exported",
    [*EXPORTED, attach, Attached, attach_all, Lake, ViewPlan, scan, scan_dataset],
    ids=lambda one: one.__name__,
)
def test_what_is_taken_and_returned_is_public_too(exported: Any) -> None:
    named = {kind for annotation, place in annotations(exported) for kind in kinds(annotation, place)}
    assert named or issubclass(exported, Exception | enum.Enum)
    known = {item for item in (*EXPORTED, Attached, Lake, ViewPlan) if isinstance(item, type)}
    assert {kind for kind in named - known - OPAQUE if not kind.__module__.startswith(FREE)} == set()


@pytest.mark.parametrize(
    "exported",
    [
        item
        for item in EXPORTED
        if isinstance(item, type)
        and not issubclass(item, Exception | enum.Enum)
        and item not in (HudiTable, RecordMerger, RecordPayload, tools.Limits)
    ],
    ids=lambda one: one.__name__,
)
def test_a_class_that_users_do_not_make_says_what_makes_it(exported: type) -> None:
    makers = re.findall(r"(?:[Mm]ade by|Part of an?) ``(?:hudi_bridge\.tools\.)?(\w+)", exported.__doc__ or "")
    assert makers
    assert set(makers) <= PUBLIC.union(TOOLS, *BESIDE.values())


def annotations(exported: Any) -> Iterator[tuple[Any, Any]]:
    """What a public function, or the public parts of a class, are annotated with, and the module in which it means
    something.
    """
    position = sys.modules[exported.__module__]
    if inspect.isfunction(exported):
        yield from ((one, position) for name, one in exported.__annotations__.items() if name != FOR_CONNECTORS)
        return
    if exported in OPAQUE:
        yield str, position
        return
    for name, member in vars(exported).items():
        function = getattr(member, "__func__", None) or getattr(member, "fget", None) or getattr(member, "func", member)
        if inspect.isfunction(function) and not name.startswith("_") and name != FOR_CONNECTORS:
            yield from annotations(function)
    if dataclasses.is_dataclass(exported):
        for field in dataclasses.fields(exported):
            if not field.name.startswith("_"):
                yield field.type, position


def kinds(annotation: Any, place: Any) -> Iterator[type]:
    """The classes that an annotation names, at any depth, also where it is a text."""
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        for name in re.findall(r"[A-Za-z_][\w.]*", annotation):
            first, *parts = name.split(".")
            actual = vars(place).get(first, getattr(builtins, first, None))
            for part in parts:
                actual = getattr(actual, part)
            yield from kinds(actual, place)
    elif arguments := annotation if isinstance(annotation, list) else get_args(annotation):
        for item in (*arguments, get_origin(annotation)):
            yield from kinds(item, place)
    elif isinstance(annotation, type):
        yield annotation
