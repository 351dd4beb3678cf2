"""The error tree: what each error says, what it is, that it survives pickling, and that docs/errors.md explains it."""

import ast
import pickle
import re
from concurrent.futures import ProcessPoolExecutor
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import hudi_bridge
from hudi_bridge.errors import (
    CorruptBaseFileError,
    CorruptLogFileError,
    CorruptTableError,
    CorruptTimelineError,
    DataFileGoneError,
    HudiReadError,
    InstantNotReadableError,
    MergeError,
    QueryError,
    SchemaEvolutionError,
    StorageError,
    TableNotFoundError,
    UnsupportedTableError,
)

GONE = (
    "p: the file is gone; it was removed (cleaned) after the read as of 001 was planned; "
    "open the table again and read it"
)
CASES: tuple[tuple[type[HudiReadError], dict[str, Any], str], ...] = (
    (TableNotFoundError, {"path": "/t", "reason": "gone"}, "/t: not a Hudi table: gone"),
    (QueryError, {"argument": "a", "found": "b", "expected": "c"}, "a: found b, expected c"),
    (
        InstantNotReadableError,
        {"instant": "001", "reason": "cleaned", "earliest": "002"},
        "as of 001: cleaned; the earliest instant still readable is 002",
    ),
    (InstantNotReadableError, {"instant": "001", "reason": "cleaned", "earliest": None}, "as of 001: cleaned"),
    (
        UnsupportedTableError,
        {"feature": "payload", "found": "Own", "supported": "others"},
        "unsupported payload: found Own, supported: others",
    ),
    *(
        (kind, {"path": "p", "offset": offset, "found": "x", "expected": "y"}, f"p{place}: found x, expected y")
        for kind in (CorruptTableError, CorruptTimelineError, CorruptLogFileError, CorruptBaseFileError)
        for offset, place in ((None, ""), (0, " at byte 0"), (7, " at byte 7"))
    ),
    (
        DataFileGoneError,
        {"path": "p", "query_instant": "001", "newest_instant": "002"},
        f"{GONE} as of 002",
    ),
    (
        DataFileGoneError,
        {"path": "p", "query_instant": "001", "newest_instant": None},
        f"{GONE} as it stands now",
    ),
    (
        DataFileGoneError,
        {"path": "p", "query_instant": "001", "newest_instant": "001"},
        (
            "p: there is no such file, although it is one of the newest commit, 001: it was lost, or the metadata "
            "table names it wrongly; with the option hoodie.metadata.enable=false files are listed in storage, and "
            "doctor tells what is wrong"
        ),
    ),
    (
        DataFileGoneError,
        {"path": "p", "query_instant": None, "newest_instant": None},
        (
            "p: the file is gone; it was removed (archived, rolled back or cleaned) after the table was opened; "
            "open it again"
        ),
    ),
    (
        SchemaEvolutionError,
        {"column": "c", "from_type": "x", "to_type": "y", "path": "p"},
        "p: column c: x cannot be read as y",
    ),
    (StorageError, {"path": "p", "operation": "read", "reason": "r", "errno": 5}, "p: cannot read: r"),
    (StorageError, {"path": "p", "operation": "list", "reason": "r", "errno": None}, "p: cannot list: r"),
    (MergeError, {"merge_mode": "m", "record_key": "k", "reason": "r"}, "record 'k' under m: r"),
)
PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
FOREIGN = {
    "403",
    "Metadata not found",
    "No module named 'hudi_bridge'",
    "Permission denied",
    "Unexpected PUFFIN file format",
    "access denied",
}
"""Texts on the page that stores, engines and Python have."""
_FRAMES = re.compile(r"…|: found |, expected |, supported: |^unsupported |: |\.avro$")
"""What stands between the literal parts of a message."""
BUILT_INS = {TableNotFoundError: FileNotFoundError, DataFileGoneError: FileNotFoundError, QueryError: ValueError}


def fail(error: HudiReadError) -> None:
    raise error


@pytest.mark.parametrize(("kind", "facts", "sentence"), CASES)
def test_errors_say_what_they_know(kind: type[HudiReadError], facts: dict[str, Any], sentence: str) -> None:
    error = kind(**facts)
    assert str(error) == sentence
    assert {name: getattr(error, name) for name in facts} == facts


@pytest.mark.parametrize(("kind", "facts", "sentence"), CASES)
@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_errors_survive_pickling(
    kind: type[HudiReadError], facts: dict[str, Any], sentence: str, protocol: int
) -> None:
    for found in (pickle.loads(pickle.dumps(kind(**facts), protocol)), copy(kind(**facts))):
        assert type(found) is kind
        assert str(found) == sentence
        assert {name: getattr(found, name) for name in facts} == facts


def test_errors_arrive_from_another_process() -> None:
    error = DataFileGoneError("p", "001", "002")
    with ProcessPoolExecutor(1) as pool, pytest.raises(DataFileGoneError) as caught:
        pool.submit(fail, error).result()
    assert (caught.value.path, caught.value.newest_instant) == ("p", "002")


def test_the_tree() -> None:
    for kind, _, _ in CASES:
        assert issubclass(kind, HudiReadError)
        for base, built_in in BUILT_INS.items():
            assert issubclass(kind, built_in) is (
                issubclass(kind, base)
                or any(issubclass(kind, other) for other, same in BUILT_INS.items() if same is built_in)
            )
    for kind in (CorruptTimelineError, CorruptLogFileError, CorruptBaseFileError):
        assert issubclass(kind, CorruptTableError)
    assert issubclass(InstantNotReadableError, QueryError)


def test_missing_files_are_missing_files_to_whoever_asks_the_built_in_error() -> None:
    for error in (TableNotFoundError("/t", "gone"), DataFileGoneError("p", "001", "002")):
        assert not isinstance(error.errno, str)
        assert error.filename in (None, error.path)


def test_every_query_error_names_its_argument() -> None:
    error: QueryError = InstantNotReadableError("001", "cleaned", None)
    assert error.argument == "as_of"
    assert "001" in error.found
    assert error.expected


def test_every_class_is_exported_and_covered() -> None:
    kinds = {kind for kind, _, _ in CASES} | {HudiReadError}
    exported = {getattr(hudi_bridge, name) for name in hudi_bridge.__all__}
    assert kinds == {kind for kind in exported if isinstance(kind, type) and issubclass(kind, Exception)}


def test_the_page_has_a_section_for_every_class() -> None:
    sections = re.findall(r"^## (\w+Error)$", PAGE, re.MULTILINE)
    assert sections == [
        HudiReadError.__name__,
        *dict.fromkeys(kind.__name__ for kind in sorted({kind for kind, _, _ in CASES}, key=by_definition)),
    ]


def by_definition(kind: type[HudiReadError]) -> int:
    return list(vars(hudi_bridge.errors)).index(kind.__name__)


def test_the_page_quotes_messages_that_there_are() -> None:
    cells = re.findall(r"^\| (`.*?`[^|]*) \|", PAGE.split("\n## TableNotFoundError\n")[1], re.MULTILINE)
    messages = {message for cell in cells for message in re.findall(r"`([^`]+)`", cell)}
    assert messages > FOREIGN
    parts = {part for message in messages - FOREIGN for part in _FRAMES.split(message) if part.strip()}
    assert len(parts) > len(messages)
    assert {part for part in parts if not any(part in text for text in texts_of_the_package())} == set()


@cache
def texts_of_the_package() -> frozenset[str]:
    """The literal parts of all texts in the sources of the package, but for docstrings."""
    texts = set[str]()
    for path in Path(hudi_bridge.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        constants = (node for node in nodes if isinstance(node, ast.Constant) and id(node) not in docstrings)
        texts |= {node.value for node in constants if isinstance(node.value, str)}
    return frozenset(texts)
