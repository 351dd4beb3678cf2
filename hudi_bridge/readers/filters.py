"""What a filter requires: values of a column, record keys, and conditions that stay small enough for Arrow.

pyarrow gives no access to the parts of an expression, so its pickled form is parsed: a record batch whose metadata
lists the nodes in prefix order, with literals and options in its columns:

    call        name of the function; its arguments follow, up to end
    field_ref   name of a column; for nested fields, nested_field_ref and the number of names, then those names
    literal     number of the column with the value
    options     number of the column with the function's options
    end         name of the function

Nothing is concluded from other forms.

A filter names record keys by ``_hoodie_record_key``, or by the record key fields where the key generator copies their
values into the key: one field as ``value`` or, in some releases, as ``field:value``; several as
``field:value,field:value``.

Arrow flattens conditions that are joined by AND or OR, and follows the chain by recursion: ten thousand parts overflow
a stack of 8 MiB and end the process. Conditions with too many parts are therefore taken to be true.

Source: ``arrow::compute::Serialize`` and ``Canonicalize`` of Arrow; ``KeyGenUtils.getRecordKey`` and
``ComplexAvroKeyGenerator`` of Hudi.
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
Node: TypeAlias = "Call | Field | Literal | None"
"""None is a part that is not understood."""
RecordKey: TypeAlias = str | int | Mapping[str, str | int | None]
"""A record key as text, the whole number of a key of one field, or the values of all record key fields by name."""
MOST_KEYS = 100_000
"""A filter with more keys is applied to rows like any other, without a lookup."""
_NULL_PART = "__null__"
_EMPTY_PART = "__empty__"
MOST_PARTS = 500
"""With so many, Arrow's recursion takes less than half a MiB, the smallest stack of a thread in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of an Arrow function; ``options`` are its options as a struct scalar, or None."""

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


def allowed_values(row_filter: pc.Expression, column: str) -> "Column | None":
    """Values that a filter allows in a column, by ``=`` and ``IN`` below AND and OR; None if it does not restrict them.

    Every row that passes has one of them. They have the types of the filter's literals, no order, and no nulls.
    """
    return _allowed(parsed_filter(row_filter), Field(column))


def allowed_results(row_filter: pc.Expression, function: str, column: str) -> "Column | None":
    """As ``allowed_values``, for the results of an Arrow function of a column, without options."""
    subject = Call(name=function, arguments=(Field(column),), options=None)
    return _allowed(parsed_filter(row_filter), subject)


def parsed_filter(row_filter: pc.Expression) -> Node:
    """The tree of an expression. It is cached, because each slice asks for the tree of the same filter."""
    # Expressions have no hash. The cache holds the expression, so that no other one can get its id.
    cached = _PARSED.get(id(row_filter))
    if cached is None:
        try:
            cached = row_filter, _parsed(row_filter)
        except (pa.ArrowException, LookupError, ValueError, TypeError, AttributeError):
            cached = row_filter, None
        _PARSED.put(id(row_filter), cached, 1)
    root: Node = cached[1]
    return root


def _allowed(node: Node, subject: "Call | Field") -> "Column | None":
    if not isinstance(node, Call):
        return None
    if node.name in MATCH_ALL:
        restrictions = [values for argument in node.arguments if (values := _allowed(argument, subject)) is not None]
        return min(restrictions, key=len, default=None)
    if node.name in MATCH_ANY:
        alternatives = [_allowed(argument, subject) for argument in node.arguments]
        return _joined([values for values in alternatives if values is not None]) if None not in alternatives else None
    if node.name == "if_else" and never_passes(node.arguments[-1]):
        # DuckDB writes IN this way.
        return _allowed(Call(name="and_kleene", arguments=node.arguments[:-1], options=None), subject)
    if node.name == "equal":
        return _equal(node.arguments, subject)
    if node.name == "is_in" and node.arguments == (subject,) and node.options is not None:
        return listed_values(node.options)
    return None


def never_passes(node: Node) -> bool:
    """Whether a part of a filter is a constant other than true."""
    return isinstance(node, Literal) and not node.value.as_py()


def _equal(arguments: tuple[Node, ...], subject: "Call | Field") -> "Column | None":
    for operand, other in (arguments, arguments[::-1]):
        if operand == subject and isinstance(other, Literal):
            # Python cannot represent all dates and times, so the value stays in Arrow.
            literal: Any = other.value
            value: Column = pa.repeat(literal, 1)
            return value.drop_null()
    return None


def listed_values(options: Any) -> "Column | None":  # noqa: ANN401 - a scalar of any struct
    """The listed values in the options of ``is_in``; None if null is among them."""
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
    """The tree of the entries, built without recursion: clients join hundreds of calls in a chain."""
    calls = [_OpenCall("")]
    remaining = iter(entries)
    for kind, text in remaining:
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
                    next(remaining, None)
                calls[-1].take(None, 0)
            case _:
                raise ValueError(kind)
    ((root,),) = (call.arguments for call in calls)
    return root


@dataclass(slots=True)
class _OpenCall:
    """A call whose arguments are still being read; ``levels`` counts the calls nested in it."""

    name: str
    arguments: list[Node] = field(default_factory=list)
    options: Any = None
    levels: int = 0

    def take(self, argument: Node, levels: int) -> None:
        """Adds an argument; nested ANDs, and nested ORs, are flattened into one call."""
        if isinstance(argument, Call) and argument.name == self.name and self.name in (*MATCH_ANY, *MATCH_ALL):
            self.arguments += argument.arguments
            levels -= 1
        else:
            self.arguments.append(argument)
        self.levels = max(self.levels, levels + 1)

    def closed(self) -> tuple[Node, int]:
        """The complete call and its levels; None if it is nested too deeply."""
        if self.levels > _MOST_LEVELS:
            return None, 0
        return Call(name=self.name, arguments=tuple(self.arguments), options=self.options), self.levels


class _CSchema(ctypes.Structure):
    """The first fields of ``ArrowSchema`` in Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata_entries(schema: pa.Schema) -> list[tuple[str, str]]:
    """The entries of the metadata in order. pyarrow returns a dictionary, which loses repeated keys.

    The metadata is the number of entries, then the length and bytes of the key and the value of each.
    """
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    capsule = schema.__arrow_c_schema__()
    address = _CSchema.from_address(pointer_of(capsule, b"arrow_schema")).metadata
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


def keys_of_filter(row_filter: pc.Expression | None, context: ReadContext) -> "Column | None":
    """The record keys that a filter allows, as texts; None if it does not restrict them.

    Every row that passes has one of them. The table may lack some.
    """
    if row_filter is None:
        return None
    by_meta_column, by_fields = _by_meta_column(row_filter, context), _by_fields(row_filter, context)
    keys = by_fields if by_meta_column is None else by_meta_column
    return None if keys is None else text_column(keys)


def text_column(keys: Iterable[str]) -> Column:
    """Record keys as a column of sorted texts.

    Raises:
        QueryError: a key is not valid Unicode.
    """
    try:
        return pa.array(sorted(keys), pa.string())
    except UnicodeEncodeError as error:
        raise QueryError("keys", ascii(error.object), "Unicode text") from error


def spellings_of(keys: RecordKey | Iterable[RecordKey], context: ReadContext | TableConfig) -> Column:
    """A column of all spellings of one or several keys in ``_hoodie_record_key``.

    Raises:
        QueryError: a key does not fit the record key fields, or is not valid Unicode.
    """
    given = [keys] if isinstance(keys, str | int | Mapping) else keys
    return text_column({text for key in given for text in spelled_keys(key, context)})


def spelled_keys(key: object, context: ReadContext | TableConfig) -> tuple[str, ...]:
    """All spellings of a key in ``_hoodie_record_key``; a record has one of them.

    Args:
        key: the record key as text, the whole number of a key of one field, or a mapping with the values of all record
            key fields.
        context: the names of the record key fields, and whether the table has meta columns.

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
    """Distinct values as texts; None if the key generator may write values of this type in another way."""
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


@dataclass(frozen=True, slots=True)
class Joined:
    """A condition, and the number of conditions that were joined to it."""

    condition: pc.Expression
    parts: int = 1


Condition: TypeAlias = Joined | None
"""None is a condition that every row may pass."""


def joined_by_and(conditions: Iterable[Condition]) -> Condition:
    """The conditions joined by AND. If they have too many parts, the ones with most parts are left out."""
    joined: list[Joined] = []
    parts_left = MOST_PARTS
    for condition in sorted(
        (condition for condition in conditions if condition is not None), key=lambda condition: condition.parts
    ):
        if condition.parts > parts_left:
            break
        parts_left -= condition.parts
        joined.append(condition)
    return _combined(reduce(and_, (condition.condition for condition in joined)), joined) if joined else None


def joined_by_or(conditions: Iterable[Condition]) -> Condition:
    """The conditions joined by OR; None if they have too many parts."""
    joined: list[Joined] = []
    parts_left = MOST_PARTS
    for condition in conditions:
        if condition is None or condition.parts > parts_left:
            return None
        parts_left -= condition.parts
        joined.append(condition)
    if not joined:
        return Joined(pc.scalar(False))  # noqa: FBT003 - a literal of the expression language
    return _combined(reduce(or_, (condition.condition for condition in joined)), joined)


def one_of(column: pc.Expression, values: Column) -> pc.Expression:
    """A condition that is true where a column equals one of the values, and false where it is null.

    The values have the column's type, and include no null or NaN.
    """
    if pa.types.is_floating(values.type):
        # ``isin`` compares numbers by their bits, so 0.0 and -0.0 differ.
        zeros: Column = pa.array([0.0, -0.0] if 0.0 in values.to_pylist() else [], values.type)
        values = pa.concat_arrays([values, zeros])
    return column.isin(values)


def _combined(condition: pc.Expression, parts: Iterable[Joined]) -> Joined:
    return Joined(condition, sum(part.parts for part in parts))
