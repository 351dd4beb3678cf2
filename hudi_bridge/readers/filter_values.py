"""The values that a filter allows in a column: those of ``=`` and ``IN``, below any ``AND`` and ``OR``.

pyarrow has no access to the parts of an expression. What it is pickled as is read instead: a record batch whose
metadata lists the nodes in prefix order, with literals and options in its columns:

    call        name of the function; its arguments follow, up to end
    field_ref   name of a column; for nested fields, nested_field_ref and the number of names, then those names
    literal     number of the column with the value
    options     number of the column with the function's options
    end         name of the function

Any other form gives no values, so that nothing is concluded from it.

Source: ``arrow::compute::Serialize``.
"""

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.caching import BoundedCache
from hudi_bridge.merge.arrays import Column

_MOST_NODES = 10_000
_MOST_LEVELS = 50
_PARSED = BoundedCache(16)
MATCH_ANY = "or_kleene", "or"
MATCH_ALL = "and_kleene", "and"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of one of Arrow's functions; ``options`` are its options as a struct, None without."""

    name: str
    arguments: tuple["Node", ...]
    options: Any


@dataclass(frozen=True, slots=True)
class Field:
    """A top-level column."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: "pa.Scalar[Any]"


Node: TypeAlias = "Call | Field | Literal | None"
"""None is a part that is not understood."""


def allowed_values(row_filter: pc.Expression, column: str) -> "Column | None":
    """The values of a column among which is that of every row passing the filter; None if the filter has no such list.

    The values have the types that the filter gives, and no particular order; none of them is null.
    """
    return _allowed(parsed_filter(row_filter), Field(column))


def allowed_results(row_filter: pc.Expression, function: str, column: str) -> "Column | None":
    """The same of the results of one of Arrow's functions over a column, without options."""
    subject = Call(name=function, arguments=(Field(column),), options=None)
    return _allowed(parsed_filter(row_filter), subject)


def parsed_filter(row_filter: pc.Expression) -> Node:
    """The tree of an expression; each slice asks for that of the same filter."""
    # An expression has no hash. While it is in the cache, no other has its id.
    known = _PARSED.get(id(row_filter))
    if known is None:
        try:
            known = row_filter, _parsed(row_filter)
        except (pa.ArrowException, LookupError, ValueError, TypeError, AttributeError):
            known = row_filter, None
        _PARSED.put(id(row_filter), known, 1)
    root: Node = known[1]
    return root


def _allowed(node: Node, subject: "Call | Field") -> "Column | None":
    if not isinstance(node, Call):
        return None
    if node.name in MATCH_ALL:
        known = [values for one in node.arguments if (values := _allowed(one, subject)) is not None]
        return min(known, key=len, default=None)
    if node.name in MATCH_ANY:
        found = [_allowed(one, subject) for one in node.arguments]
        return _joined([values for values in found if values is not None]) if None not in found else None
    if node.name == "if_else" and never_passes(node.arguments[-1]):
        # DuckDB writes IN this way.
        return _allowed(Call(name="and_kleene", arguments=node.arguments[:-1], options=None), subject)
    if node.name == "equal":
        return _equal(node.arguments, subject)
    if node.name == "is_in" and node.arguments == (subject,) and node.options is not None:
        return listed_values(node.options)
    return None


def never_passes(node: Node) -> bool:
    """Whether a part of a filter is a constant that is not true."""
    return isinstance(node, Literal) and not node.value.as_py()


def _equal(arguments: tuple[Node, ...], subject: "Call | Field") -> "Column | None":
    for one, other in (arguments, arguments[::-1]):
        if one == subject and isinstance(other, Literal):
            # Not by way of Python, which does not have all dates and times.
            literal: Any = other.value
            value: Column = pa.repeat(literal, 1)
            return value.drop_null()
    return None


def listed_values(options: Any) -> "Column | None":  # noqa: ANN401 - a scalar of any struct
    """The values of the options of ``is_in``; None if null is one of them."""
    values = options["value_set"].values
    return values if isinstance(values, pa.Array) and not values.null_count else None


def _joined(parts: list[Column]) -> "Column | None":
    if len({part.type for part in parts}) != 1:
        return None
    return pa.concat_arrays(parts)


def _parsed(row_filter: pc.Expression) -> Node:
    reduced: Any = row_filter.__reduce__()
    _, (serialized,) = reduced
    with pa.ipc.open_file(serialized) as reader:
        batch = reader.get_batch(0)
    entries = _metadata_entries(batch.schema)
    return None if len(entries) > _MOST_NODES else _root(entries, batch)


def _root(entries: Iterable[tuple[str, str]], batch: pa.RecordBatch) -> Node:
    """The tree of the entries, without recursion: what a client joins is often a chain of hundreds of calls."""
    calls = [_OpenCall("")]
    left = iter(entries)
    for kind, text in left:
        match kind:
            case "call":
                calls.append(_OpenCall(text))
            case "end":
                call = calls.pop()
                if call.name != text:
                    raise ValueError(text)
                calls[-1].take(*call.closed())
            case "options":
                calls[-1].options = batch.column(int(text))[0]
            case "field_ref":
                calls[-1].take(Field(text), 0)
            case "literal":
                calls[-1].take(Literal(batch.column(int(text))[0]), 0)
            case "nested_field_ref":
                for _ in range(int(text)):
                    next(left, None)
                calls[-1].take(None, 0)
            case _:
                raise ValueError(kind)
    ((root,),) = (call.arguments for call in calls)
    return root


@dataclass(slots=True)
class _OpenCall:
    """A call that is being read, with the levels of calls below it."""

    name: str
    arguments: list[Node] = field(default_factory=list)
    options: Any = None
    levels: int = 0

    def take(self, argument: Node, levels: int) -> None:
        """Add an argument; AND within AND and OR within OR become one call."""
        if isinstance(argument, Call) and argument.name == self.name and self.name in (*MATCH_ANY, *MATCH_ALL):
            self.arguments += argument.arguments
            levels -= 1
        else:
            self.arguments.append(argument)
        self.levels = max(self.levels, levels + 1)

    def closed(self) -> tuple[Node, int]:
        """The whole call and its levels; one of too many is not understood."""
        if self.levels > _MOST_LEVELS:
            return None, 0
        return Call(name=self.name, arguments=tuple(self.arguments), options=self.options), self.levels


class _SchemaOfC(ctypes.Structure):
    """The first fields of ``ArrowSchema`` in Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata_entries(schema: pa.Schema) -> list[tuple[str, str]]:
    """The entries of the metadata, in order; as a dictionary, they would lose all but one of each key.

    The metadata is a count of entries, then for each the length and bytes of its key and of its value.
    """
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    capsule = schema.__arrow_c_schema__()
    address = _SchemaOfC.from_address(pointer_of(capsule, b"arrow_schema")).metadata
    if not address:
        return []

    def read_number() -> int:
        nonlocal address
        number = ctypes.c_int32.from_address(address).value
        address += 4
        return number

    def read_text() -> str:
        nonlocal address
        length = read_number()
        text = ctypes.string_at(address, length).decode()
        address += length
        return text

    return [(read_text(), read_text()) for _ in range(read_number())]
