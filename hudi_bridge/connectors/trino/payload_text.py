"""A user's payload -> Python text that defines it without this package.

The text is the module of the payload's class, without its imports from this package. It may import only what Trino's
Python has, with its small memory: modules of the standard library.

Source: trino-wasm-python, which has CPython 3.13 without threads, sockets and C extensions.
"""

import ast
import inspect
from collections.abc import Iterator

from hudi_bridge.engines import RecordPayload
from hudi_bridge.errors import UnsupportedTableError

INSTANCE = "PAYLOAD"
_OWN = "hudi_bridge"
_MODULES = frozenset(
    (
        *("__future__", "abc", "array", "base64", "bisect", "calendar", "collections", "contextlib", "copy", "csv"),
        *("datetime", "decimal", "enum", "fractions", "functools", "gzip", "hashlib", "heapq", "hmac", "io"),
        *("itertools", "json", "math", "numbers", "operator", "re", "string", "struct", "textwrap", "time", "types"),
        *("typing", "unicodedata", "uuid", "zlib"),
    )
)
"""Modules that Trino's Python can import; ``dataclasses`` and ``inspect``, for instance, do not fit its memory."""


def payload_text(payload: RecordPayload) -> str:
    """Python text that ends with the payload under the name ``PAYLOAD``.

    Raises:
        UnsupportedTableError: the payload needs more than its text, or modules that Trino's Python lacks.
    """
    kind, text = type(payload), module_text(payload)
    tree = ast.parse(text)
    for name in _imported(tree):
        if name not in _MODULES | {_OWN}:
            raise _unsupported(payload, f"import of {name}", ", ".join(sorted(_MODULES)))
    base = inspect.getsource(RecordPayload)
    return f"{base}\n\n{without_imports(text, _OWN, '__future__')}\n\n{INSTANCE} = {kind.__name__}()"


def module_text(payload: RecordPayload) -> str:
    """The text of the module of a payload's class, with the class at its top.

    Raises:
        UnsupportedTableError: the payload needs more than its text.
    """
    kind = type(payload)
    if getattr(payload, "__dict__", {}):
        raise _unsupported(payload, "an object with attributes", "a payload that is made without arguments")
    try:
        module = inspect.getmodule(kind)
        text = inspect.getsource(module) if module is not None else ""
    except (OSError, TypeError) as error:
        raise _unsupported(payload, f"a class without a source file ({error})", "a class in a module") from error
    if kind.__qualname__ != kind.__name__ or f"class {kind.__name__}" not in text:
        raise _unsupported(payload, f"the class {kind.__qualname__}", "a class at the top of a module")
    return text


def without_imports(text: str, *packages: str) -> str:
    """Python text without its docstring and without its ``from`` imports of these packages."""
    tree = ast.parse(text)
    lines = text.splitlines()
    for number, node in enumerate(tree.body):
        is_docstring = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        names = {name.partition(".")[0] for name in _imported(ast.Module([node], []))}
        if is_docstring or (isinstance(node, ast.ImportFrom) and names.intersection(packages)):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return "\n".join(lines).strip("\n")


def _imported(tree: ast.Module) -> Iterator[str]:
    """The top-level modules that a text imports, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or ".").partition(".")[0] if node.level == 0 else "."


def _unsupported(payload: RecordPayload, found: str, supported: str) -> UnsupportedTableError:
    return UnsupportedTableError(f"payload {type(payload).__name__} as a Trino function", found, supported)
