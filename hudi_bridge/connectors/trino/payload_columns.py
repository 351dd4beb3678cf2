"""The text of a user's payload: as Python that Trino runs, and which columns it needs.

The text is the module of the payload's class, without its imports from this package. It may import only what Trino's
Python has, with its small memory: modules of the standard library.

Trino passes values to Python one by one, which is most of the cost of a payload. A column that
``combine_and_get_update_value`` only copies need not be passed: it is enough to know which of the two rows it comes
from. Only what is certain counts. The two rows, and variables that hold such a row, may be copied, returned, asked for
constant names and given values for constant names, and passed on to methods of the payload. If the text does anything
else with them, all columns are passed.

Source: trino-wasm-python, which has CPython 3.13 without threads, sockets and C extensions.
"""

import ast
import inspect
from collections.abc import Iterable, Iterator

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge.custom_payload import RecordPayload

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


def _unsupported(payload: RecordPayload, actual: str, supported: str) -> UnsupportedTableError:
    return UnsupportedTableError(f"payload {type(payload).__name__} as a Trino function", actual, supported)


_METHOD = "combine_and_get_update_value"
_ANYTHING = frozenset(("*", "__import__", "delattr", "eval", "exec", "globals", "locals", "setattr", "super", "vars"))
"""Names with which a text can do what its words do not say."""
_UNCERTAIN = (
    *(ast.AsyncFunctionDef, ast.Await, ast.ClassDef, ast.FunctionDef, ast.Global, ast.Match, ast.Nonlocal),
    *(ast.Yield, ast.YieldFrom),
)


class _UncertainError(Exception):
    """Raised for a text if it is not certain what it does with rows."""


def touched_columns(payload: RecordPayload) -> frozenset[str] | None:
    """The columns whose values a payload reads or makes; None if that could be any."""
    kind = type(payload)
    if kind.combine_and_get_update_value is RecordPayload.combine_and_get_update_value:
        return frozenset()
    tree = ast.parse(module_text(payload))
    names = _names(tree)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__]
    # Nothing but the body of the class may say what its methods are.
    is_plain = kind.__mro__ == (kind, RecordPayload, object) and not names.intersection((*_ANYTHING, kind.__name__))
    if len(classes) != 1 or not is_plain or not _has_plain_body(classes[0]):
        return None
    methods = {node.name: node for node in classes[0].body if isinstance(node, ast.FunctionDef)}
    try:
        touched = _Touched(methods, may_copy="dict" not in _bound_names(tree))
        touched.add_method(_METHOD, (True, True))
    except _UncertainError:
        return None
    return frozenset(touched.names)


def _has_plain_body(kind: ast.ClassDef) -> bool:
    """Whether a class has methods and a docstring alone, and no method in two versions or with a meaning of its own."""
    names = [node.name for node in kind.body if isinstance(node, ast.FunctionDef)]
    others = [node for node in kind.body if not isinstance(node, ast.FunctionDef | ast.Pass)]
    are_texts = all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in others)
    is_own = any(name.startswith("__") for name in names)
    return are_texts and len(names) == len(set(names)) and not (kind.decorator_list or kind.keywords or is_own)


def _names(tree: ast.AST) -> set[str]:
    """The names that a text uses or imports."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return used | {node.name for node in ast.walk(tree) if isinstance(node, ast.alias)}


def _bound_names(tree: ast.AST) -> set[str]:
    """The names that a text gives a meaning, anywhere."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name)
    return names


class _Touched:
    """Collects the columns that methods of a payload touch.

    Raises _UncertainError for whatever is not known to leave the other columns alone.
    """

    def __init__(self, methods: dict[str, ast.FunctionDef], *, may_copy: bool) -> None:
        self.names: set[str] = set()
        self._methods = methods
        self._may_copy = may_copy
        self._seen: set[tuple[str, tuple[bool, ...]]] = set()

    def add_method(self, name: str, is_row: tuple[bool, ...]) -> None:
        """Add what a method touches that returns a row; ``is_row`` says which of its arguments are rows."""
        if (name, is_row) in self._seen:
            return
        self._seen.add((name, is_row))
        method = self._methods.get(name)
        if method is None or method.decorator_list:
            raise _UncertainError
        given = method.args
        own, *others = [argument.arg for argument in (*given.posonlyargs, *given.args)] or [""]
        if given.vararg or given.kwarg or given.kwonlyargs or given.defaults or len(others) != len(is_row):
            raise _UncertainError
        rows = {other for other, is_one in zip(others, is_row, strict=True) if is_one}
        _Body(self, method.body, own, rows, may_copy=self._may_copy)


class _Body:
    """The body of a method; ``rows`` are the variables that hold rows."""

    def __init__(self, touched: _Touched, body: list[ast.stmt], own: str, rows: set[str], *, may_copy: bool) -> None:
        self._touched = touched
        self._own = own
        self._rows = rows
        self._may_copy = may_copy
        assigned = [
            (node.targets[0].id, node.value)
            for statement in body
            for node in ast.walk(statement)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        ]
        while new_rows := {name for name, value in assigned if self._is_row(value)} - self._rows:
            self._rows |= new_rows
        self._add_statements(body)

    def _is_row(self, node: ast.expr) -> bool:
        """Whether an expression has a row for its value, as far as one can tell before it is looked into."""
        match node:
            case ast.Name(id=name):
                return name in self._rows
            case ast.Dict(keys=keys, values=values):
                return any(key is None and self._is_row(value) for key, value in zip(keys, values, strict=True))
            case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, op=ast.BitOr(), right=other):
                return self._is_row(one) or self._is_row(other)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="copy")):
                return name in self._rows
            case ast.Call(func=ast.Name(id="dict") | ast.Attribute(value=ast.Name()), args=given):
                return any(map(self._is_row, given))
        return False

    def _add_statements(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self._add_statement(statement)

    def _add_statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Return(value=value):
                self._add_row(value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in self._rows:
                self._add_row(value)
            case (
                ast.Assign(targets=[ast.Subscript(value=ast.Name(id=row), slice=ast.Constant(value=str(name)))])
                | ast.AugAssign(target=ast.Subscript(value=ast.Name(id=row), slice=ast.Constant(value=str(name))))
            ) if row in self._rows:
                self._touched.names.add(name)
                self._add(node.value)
            case _:
                self._add_parts(node)

    def _add_row(self, node: ast.expr | None) -> None:
        """Add what an expression touches whose value is a row, or None."""
        match node:
            case None | ast.Constant(value=None):
                pass
            case ast.Name(id=name) if name in self._rows:
                pass
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    self._add_entry(key, value)
            case ast.IfExp(test=test, body=one, orelse=other):
                self._add(test)
                self._add_row(one)
                self._add_row(other)
            case ast.BinOp(left=one, op=ast.BitOr(), right=other):
                self._add_row(one)
                self._add_row(other)
            case ast.Call():
                self._add_call(node)
            case _:
                raise _UncertainError

    def _add_call(self, node: ast.Call) -> None:
        """Add what a call touches whose value is a row."""
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="copy"), args=[], keywords=[]) if (
                name in self._rows
            ):
                pass
            case ast.Call(func=ast.Name(id="dict"), args=[row], keywords=keywords) if self._may_copy:
                self._add_row(row)
                for keyword in keywords:
                    self._add_entry(None if keyword.arg is None else ast.Constant(keyword.arg), keyword.value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=own), attr=name), args=given, keywords=[]) if (
                own == self._own
            ):
                is_row = tuple(isinstance(argument, ast.Name) and argument.id in self._rows for argument in given)
                for argument, is_one in zip(given, is_row, strict=True):
                    if not is_one:
                        self._add(argument)
                self._touched.add_method(name, is_row)
            case _:
                raise _UncertainError

    def _add_entry(self, key: ast.expr | None, value: ast.expr) -> None:
        """Add what an entry of a row touches; a key of None is that of ``**value``."""
        match key:
            case None:
                self._add_row(value)
            case ast.Constant(value=str(name)):
                self._touched.names.add(name)
                self._add(value)
            case _:
                raise _UncertainError

    def _add(self, node: ast.AST) -> None:
        """Add what an expression touches whose value is no row."""
        match node:
            case ast.Subscript(value=ast.Name(id=row), slice=ast.Constant(value=str(name)), ctx=ast.Load()) if (
                row in self._rows
            ):
                self._touched.names.add(name)
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=row), attr="get"),
                args=[ast.Constant(value=str(name)), *others],
                keywords=[],
            ) if row in self._rows:
                self._touched.names.add(name)
                for other in others:
                    self._add(other)
            case ast.Compare(
                left=ast.Name(id=row), ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]
            ) if row in self._rows:
                pass
            case ast.Attribute(value=ast.Name(id=own), ctx=ast.Load()) if own == self._own:
                pass
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                raise _UncertainError
            case ast.Name(id=name) if name in self._rows or name == self._own:
                raise _UncertainError
            case _:
                self._add_parts(node)

    def _add_parts(self, node: ast.AST) -> None:
        if isinstance(node, _UNCERTAIN) or (isinstance(node, ast.arg | ast.alias) and self._is_name_of_row(node)):
            raise _UncertainError
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.stmt):
                self._add_statement(part)
            else:
                self._add(part)

    def _is_name_of_row(self, node: "ast.arg | ast.alias") -> bool:
        name = node.arg if isinstance(node, ast.arg) else (node.asname or node.name)
        return name in self._rows
