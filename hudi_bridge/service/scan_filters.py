"""Turns the filter of a scan request, which is JSON, into a condition by which Hudi's indexes rule out file slices.

All rows that pass the filter pass the condition as well. A part that is not understood counts as true, also within
``not``, so that it rules out nothing.

Source: ``Predicate`` of the Iceberg REST catalog specification.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions.literals import AboveMax, BelowMin, literal
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from hudi_bridge.connectors.iceberg.columns import Columns
from hudi_bridge.errors import QueryError
from hudi_bridge.readers.filters import Joined, joined_by_and, joined_by_or, one_of

MOST_LEVELS = 64
_MOST_NODES = 100_000
_COMPARED = (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)
_UNFIT = (ValueError, TypeError, OverflowError, ArithmeticError, NotImplementedError, pa.ArrowException)

Test: TypeAlias = pc.Expression | bool
"""Of Arrow; True for what every row may pass, False for what none does."""

Condition: TypeAlias = Joined | bool
"""The same, of some tests."""

_OPPOSITES = {
    "eq": "not-eq",
    "lt": "gt-eq",
    "gt": "lt-eq",
    "in": "not-in",
    "starts-with": "not-starts-with",
    "is-null": "not-null",
    "is-nan": "not-nan",
}
_OPPOSITE: Mapping[str, str] = _OPPOSITES | {value: name for name, value in _OPPOSITES.items()}
_OF_TWO_OPERANDS = ("eq", "not-eq", "lt", "lt-eq", "gt", "gt-eq", "starts-with", "not-starts-with")


def require_moderate(predicate: Any) -> None:  # noqa: ANN401 - JSON
    """Raises QueryError if a filter is nested too deeply, or has too many parts.

    Raises:
        QueryError: the filter has more than ``MOST_LEVELS`` levels or 100,000 parts.
    """
    level, nodes = [predicate], 0
    for _ in range(MOST_LEVELS):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, Mapping):
                inner += value.values()
            elif isinstance(value, list):
                inner += value
        nodes += len(inner)
        if nodes > _MOST_NODES:
            raise QueryError("filter", f"more than {_MOST_NODES:,} parts", f"at most {_MOST_NODES:,}")
        if not inner:
            return
        level = inner
    raise QueryError("filter", f"more than {MOST_LEVELS} levels", f"at most {MOST_LEVELS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFilter:
    """Reads filters that name columns of ``bound_to``, for a snapshot that has ``columns``.

    The two differ where a client asks for an earlier snapshot by the names of today: columns are found by id.
    """

    bound_to: Schema
    columns: Columns
    case_sensitive: bool

    def condition(self, predicate: Any) -> pc.Expression | None:  # noqa: ANN401 - JSON
        """The condition of a filter; None if it rules out nothing."""
        condition = self._of(predicate, negated=False)
        if isinstance(condition, Joined):
            return condition.condition
        return None if condition else pc.scalar(False)  # noqa: FBT003 - a literal of the expression language

    def _of(self, predicate: Any, *, negated: bool) -> Condition:  # noqa: ANN401 - JSON
        if isinstance(predicate, bool):
            return predicate is not negated
        if not isinstance(predicate, Mapping):
            return True
        match predicate.get("type"):
            case "true" | "false" as constant:
                return (constant == "true") is not negated
            case "not":
                return self._of(predicate.get("child"), negated=not negated)
            case "and" | "or" as joined:
                sides = [self._of(predicate.get(side), negated=negated) for side in ("left", "right")]
                return _all(sides) if (joined == "and") is not negated else _any(sides)
            case str() as name if name in _OPPOSITE:
                test = self._test(_OPPOSITE[name] if negated else name, predicate, negated=negated)
                return Joined(test) if isinstance(test, pc.Expression) else test
            case _:
                return True

    def _test(self, name: str, predicate: Mapping[str, Any], *, negated: bool) -> Test:
        try:
            column, kind = self._column(_operand(predicate, "left" if name in _OF_TWO_OPERANDS else "child"))
            if name in ("is-null", "not-null"):
                return column.is_null() if name == "is-null" else column.is_valid()
            if not isinstance(kind, _COMPARED) or (negated and isinstance(kind, FloatType | DoubleType)):
                # Where NaN is neither less nor greater, the negation of a comparison is not the opposite one.
                return True
            if isinstance(kind, FloatType) and name in ("not-eq", "not-in"):
                # To a client that compares doubles, no float may equal the literal.
                return True
            if name in _OF_TWO_OPERANDS:
                value = _value(predicate["right"] if "right" in predicate else predicate["value"], kind)
                test = _compared(name, column, value, kind)
            elif name in ("in", "not-in"):
                values = [_value(value, kind) for value in _literals(predicate.get("values"))]
                test = ~column.isin(_array(values)) if name == "not-in" else _is_in(column, values)
            else:
                return True
        except (*_UNFIT, LookupError):
            return True
        # Rows without a value pass a negated test in some engines.
        is_negation = negated or name.startswith("not-")
        return test | column.is_null() if is_negation and isinstance(test, pc.Expression) else test

    def _column(self, term: Any) -> tuple[pc.Expression, IcebergType]:  # noqa: ANN401 - JSON
        """The column that a term refers to, and its type.

        Raises:
            LookupError: it refers to none, or to a field within one.
        """
        if isinstance(term, Mapping) and term.get("type") == "reference":
            term = term.get("id", term.get("name"))
        id_ = self._id(term) if isinstance(term, str) else term
        for field in self.columns.schema.fields:
            if field.field_id == id_:
                return pc.field(field.name), field.field_type
        raise LookupError

    def _id(self, name: str) -> int:
        try:
            return self.bound_to.find_field(name, case_sensitive=self.case_sensitive).field_id
        except ValueError as error:
            raise LookupError from error


def _operand(predicate: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - JSON
    return predicate[name] if name in predicate else predicate.get("term")


def _literals(values: Any) -> Sequence[Any]:  # noqa: ANN401 - JSON
    if isinstance(values, Mapping) and values.get("type") == "literals":
        values = values.get("values")
    if not isinstance(values, list):
        raise TypeError
    return values


def _value(value: Any, kind: PrimitiveType) -> "pa.Scalar[Any]":  # noqa: ANN401 - JSON
    """A literal as a value of a column's type.

    Raises:
        ValueError: it is none, or lies beyond the type's range, where no comparison can be left out.
    """
    if isinstance(value, Mapping) and value.get("type") == "literal":
        value = value.get("value")
    if not isinstance(value, bool | int | float | str) or isinstance(value, bool) != isinstance(kind, BooleanType):
        raise TypeError
    if isinstance(kind, FloatType | DoubleType):
        number = float(value)
        if math.isnan(number):
            raise ValueError
        return _single(number) if isinstance(kind, FloatType) else pa.scalar(number, pa.float64())
    given: Any = value
    converted = literal(given).to(kind)
    if isinstance(converted, AboveMax | BelowMin):
        raise TypeError
    match kind:
        case DateType():
            days: pa.Scalar[Any] = pa.scalar(converted.value, pa.int32()).cast(pa.date32())
            return days
        case TimestampType():
            return pa.scalar(converted.value, pa.timestamp("us"))
        case TimestamptzType():
            return pa.scalar(converted.value, pa.timestamp("us", "UTC"))
        case DecimalType():
            return pa.scalar(converted.value, pa.decimal128(kind.precision, kind.scale))
        case _:
            plain: pa.Scalar[Any] = pa.scalar(converted.value)
            return plain


def _single(number: float) -> "pa.Scalar[Any]":
    """The float of 32 bits nearest to a number: what is less than the number is not greater than that float.

    Raises:
        ValueError: no float is near, or another is as near, which the client may have meant.
    """
    rounded = pa.scalar(number, pa.float32())
    nearest: float = rounded.as_py()
    if math.isinf(nearest) and nearest != number:
        raise ValueError
    with np.errstate(all="ignore"):
        # Where there is none, infinity follows.
        other = float(np.nextafter(np.float32(nearest), np.float32(math.copysign(math.inf, number - nearest))))
    if number != nearest and number - nearest == other - number:
        raise ValueError
    return rounded


def _array(values: "Sequence[pa.Scalar[Any]]") -> "pa.Array[Any]":
    if not values:
        raise ValueError
    array: pa.Array[Any] = pa.array([value.as_py() for value in values], values[0].type)
    return array


def _is_in(column: pc.Expression, values: "Sequence[pa.Scalar[Any]]") -> Test:
    return one_of(column, _array(values)) if values else False


def _compared(name: str, column: pc.Expression, value: "pa.Scalar[Any]", kind: IcebergType) -> Test:
    scalar: Any = value  # the stubs lack scalars of Arrow
    constant = pc.scalar(scalar)
    match name:
        case "starts-with" if isinstance(kind, StringType):
            return _starts_with(column, value.as_py())
        case "eq":
            return column == constant
        case "not-eq":
            return column != constant
    if isinstance(kind, FloatType | DoubleType):
        # Engines do not agree on whether NaN is greater than all numbers, and -0.0 less than 0.0.
        return column <= constant if name in ("lt", "lt-eq") else True
    orders: Mapping[str, Callable[[], pc.Expression]] = {
        "lt": lambda: column < constant,
        "lt-eq": lambda: column <= constant,
        "gt": lambda: column > constant,
        "gt-eq": lambda: column >= constant,
    }
    return orders[name]() if name in orders else True


def _starts_with(column: pc.Expression, start: str) -> Test:
    if not start:
        return column.is_valid()
    least = column >= pc.scalar(start)
    following = ord(start[-1]) + 1
    # Texts are compared by their bytes, in which signs before the surrogates come in the order of their numbers.
    is_plain = following < 0xD800  # noqa: PLR2004 - the first surrogate
    return least & (column < pc.scalar(start[:-1] + chr(following))) if is_plain else least


def _all(conditions: Sequence[Condition]) -> Condition:
    if any(condition is False for condition in conditions):
        return False
    return joined_by_and(condition for condition in conditions if isinstance(condition, Joined)) or True


def _any(conditions: Sequence[Condition]) -> Condition:
    if any(condition is True for condition in conditions):
        return True
    joined = [condition for condition in conditions if isinstance(condition, Joined)]
    return (joined_by_or(joined) or True) if joined else False
