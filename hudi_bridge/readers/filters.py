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

The record keys that a filter allows, so that a read may look them up.

A filter names them by ``_hoodie_record_key``, or by the record key fields where the key generator copies their values
into the key: one field as ``value`` or, in some releases, as ``field:value``; several as ``field:value,field:value``.

Source: ``KeyGenUtils.getRecordKey`` and ``ComplexAvroKeyGenerator`` of Hudi.

Conditions of Arrow joined by AND and OR, of no more parts than Arrow can take.

Arrow makes one chain of the parts that are joined, however they are nested, and goes along the chain by recursion. Ten
thousand parts overflow a stack of 8 MiB, which ends the process. So what would have too many parts is taken for true.

Source: ``Canonicalize`` in Arrow's ``compute/expression.cc``.
"""

import ctypes
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from math import prod
from operator import and_, or_
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.caching import BoundedCache
from hudi_bridge.config import TableConfig
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.arrays import Column
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.splits.split import ReadContext

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


RecordKey: TypeAlias = str | int | Mapping[str, str | int | None]
"""A record key as text, the whole number of a key of one field, or the values of all record key fields."""
MOST_KEYS = 100_000
"""A filter with more keys is read as any other filter."""

_NULL_PART = "__null__"
_EMPTY_PART = "__empty__"


def keys_of_filter(row_filter: pc.Expression | None, context: ReadContext) -> "Column | None":
    """The record keys among which is that of every row passing the filter; None if it does not name any.

    They are texts, and may include keys of which the table has no rows.
    """
    if row_filter is None:
        return None
    by_meta_column, by_fields = _by_meta_column(row_filter, context), _by_fields(row_filter, context)
    found = by_fields if by_meta_column is None else by_meta_column
    return None if found is None else text_column(found)


def text_column(keys: Iterable[str]) -> Column:
    """Record keys as a column.

    Raises:
        QueryError: a key is no Unicode text.
    """
    try:
        return pa.array(sorted(keys), pa.string())
    except UnicodeEncodeError as error:
        raise QueryError("keys", ascii(error.object), "Unicode text") from error


def spellings_of(keys: RecordKey | Iterable[RecordKey], context: ReadContext | TableConfig) -> Column:
    """The ways to write one key, or each of some, as in ``_hoodie_record_key``, as a column.

    Raises:
        QueryError: a key does not fit the record key fields, or is no Unicode text.
    """
    given = [keys] if isinstance(keys, str | int | Mapping) else keys
    return text_column({text for key in given for text in spelled_keys(key, context)})


def spelled_keys(key: object, context: ReadContext | TableConfig) -> tuple[str, ...]:
    """The ways to write a key as in ``_hoodie_record_key``; a record has one of them.

    ``key`` is the record key as text, the whole number of a key of one field, or a mapping with the values of all
    record key fields.

    Raises:
        QueryError: the key does not fit the record key fields.
    """
    if isinstance(key, str):
        return (key,)
    names = context.record_key_fields
    if isinstance(key, int) and len(names) == 1:
        key = {names[0]: key}
    if not isinstance(key, Mapping) or not all(_is_part(value) for value in key.values()):
        raise QueryError("keys", repr(key), "texts as in _hoodie_record_key, or texts and numbers by record key field")
    if set(key) != set(names):
        raise QueryError("keys", f"fields {', '.join(map(str, key))}", f"record key fields {', '.join(names)}")
    return _spellings(names, tuple(_part(key[name], len(names)) for name in names), context)


def _by_meta_column(row_filter: pc.Expression, context: ReadContext) -> set[str] | None:
    if not context.populates_meta_fields:
        return None
    return _texts(allowed_values(row_filter, RECORD_KEY_COLUMN), pa.string())


def _by_fields(row_filter: pc.Expression, context: ReadContext) -> set[str] | None:
    if not context.fields_spell_keys:
        return None
    names = context.record_key_fields
    parts = []
    for name in names:
        texts = _texts(allowed_values(row_filter, name), context.schema.field(name).type)
        # Releases differ in how an empty text becomes part of a key.
        if texts is None or "" in texts:
            return None
        parts.append(texts)
    if prod(map(len, parts)) > MOST_KEYS:
        return None
    return {spelling for values in product(*parts) for spelling in _spellings(names, values, context)}


def _texts(values: "Column | None", column_type: pa.DataType) -> set[str] | None:
    """Distinct values as texts; None for values of types that might be written otherwise."""
    if values is None or len(values) > MOST_KEYS:
        return None
    if not len(values):
        return set()
    as_text = _is_text(values.type) and _is_text(column_type)
    as_number = pa.types.is_integer(values.type) and pa.types.is_integer(column_type)
    return set(map(str, values.to_pylist())) if as_text or as_number else None


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_part(value: object) -> bool:
    return value is None or (isinstance(value, str | int) and not isinstance(value, bool))


def _part(value: object, fields: int) -> str:
    if fields == 1:
        return str(value)
    return _NULL_PART if value is None else str(value) or _EMPTY_PART


def _spellings(names: tuple[str, ...], values: tuple[str, ...], context: ReadContext | TableConfig) -> tuple[str, ...]:
    named = ",".join(f"{name}:{value}" for name, value in zip(names, values, strict=True))
    if len(names) > 1:
        return (named,)
    return (values[0], named) if context.populates_meta_fields else values


MOST_PARTS = 500
"""They take less than half a MiB, the smallest stack of a thread that is in use."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A condition, and how many were joined for it."""

    condition: pc.Expression
    parts: int = 1


Known: TypeAlias = Joined | None
"""None is a condition that every row may pass."""


def joined_by_and(conditions: Iterable[Known]) -> Known:
    """A condition that all rows meet which meet each condition; of too many, those with most parts are left out."""
    taken: list[Joined] = []
    left = MOST_PARTS
    for one in sorted((one for one in conditions if one is not None), key=lambda one: one.parts):
        if one.parts > left:
            break
        left -= one.parts
        taken.append(one)
    return _combined(reduce(and_, (one.condition for one in taken)), taken) if taken else None


def joined_by_or(conditions: Iterable[Known]) -> Known:
    """A condition that all rows meet which meet one of the conditions; None if they have too many parts."""
    taken: list[Joined] = []
    left = MOST_PARTS
    for one in conditions:
        if one is None or one.parts > left:
            return None
        left -= one.parts
        taken.append(one)
    if not taken:
        return Joined(pc.scalar(False))  # noqa: FBT003 - a literal of the expression language
    return _combined(reduce(or_, (one.condition for one in taken)), taken)


def one_of(column: pc.Expression, values: Column) -> pc.Expression:
    """A condition that is true where a column equals one of the values, and not null where it is null.

    The values have the column's type. They are no nulls, and no NaN.
    """
    if pa.types.is_floating(values.type):
        # In a list, numbers are found by their bits, which 0.0 and -0.0 do not share.
        zeros: Column = pa.array([0.0, -0.0] if 0.0 in values.to_pylist() else [], values.type)
        values = pa.concat_arrays([values, zeros])
    return column.isin(values)


def _combined(condition: pc.Expression, taken: Iterable[Joined]) -> Joined:
    return Joined(condition, sum(one.parts for one in taken))
