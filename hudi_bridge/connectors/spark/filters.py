"""Converts filters that Spark pushes down into Arrow expressions that select the same rows.

In Spark, NaN is the greatest number and equals itself. Conditions that Arrow could evaluate differently are not taken.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import eq, ge, gt, le, lt
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.engines import one_of

Literal: TypeAlias = Any
_Comparison = Callable[[pc.Expression, Any], pc.Expression]

_COMPARISONS: dict[str, _Comparison] = {
    "EqualTo": eq,
    "GreaterThan": gt,
    "GreaterThanOrEqual": ge,
    "LessThan": lt,
    "LessThanOrEqual": le,
}
_ABOVE = ("GreaterThan", "GreaterThanOrEqual")
_TEXT = {"StringStartsWith": pc.starts_with, "StringEndsWith": pc.ends_with, "StringContains": pc.match_substring}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A comparison, named as in Spark's data source API: ``EqualTo``, ``In``, ``IsNull``, ….

    ``path`` leads from a column to a field. ``values`` are the literals, as Python values or as text (for a column of
    any type); empty for null tests.
    """

    name: str
    path: tuple[str, ...]
    values: tuple[Literal, ...] = ()
    is_negated: bool = False


def condition_of(pushed: Any) -> Condition | None:  # noqa: ANN401 - a class of PySpark 4.1 or later
    """The condition of a filter of ``pyspark.sql.datasource``; None unless it compares with literals."""
    name = type(pushed).__name__
    if name == "Not":
        inner = condition_of(pushed.child)
        if inner is None or inner.is_negated:
            return None
        return Condition(name=inner.name, path=inner.path, values=inner.values, is_negated=True)
    if name in ("IsNull", "IsNotNull"):
        return Condition(name=name, path=tuple(pushed.attribute))
    if name in _COMPARISONS or name in _TEXT or name == "EqualNullSafe":
        return Condition(name=name, path=tuple(pushed.attribute), values=(pushed.value,))
    if name == "In":
        return Condition(name=name, path=tuple(pushed.attribute), values=tuple(pushed.value))
    return None


def expression_of(condition: Condition, schema: pa.Schema) -> pc.Expression | None:
    """The expression that selects exactly the rows that meet the condition; None if Arrow cannot express it."""
    kind = _type_at(condition.path, schema)
    if kind is None:
        return None
    column = pc.field(*condition.path)
    if condition.name in ("IsNull", "IsNotNull"):
        is_null = column.is_null()
        return is_null if (condition.name == "IsNull") != condition.is_negated else ~is_null
    values = _scalars(condition.values, kind)
    if values is None:
        return None
    holds = _holds(condition.name, column, values, kind)
    if holds is None:
        return None
    expression: pc.Expression = holds
    if condition.is_negated:
        # A comparison with null is unknown, and so is its negation. Only ``<=>`` is true or false.
        expression = ~holds & ~column.is_null()
        if condition.name == "EqualNullSafe":
            expression = pc.or_kleene(~holds, column.is_null())
    try:
        schema.empty_table().filter(expression)
    except (pa.ArrowException, KeyError, TypeError):
        return None
    return expression


def _holds(
    name: str, column: pc.Expression, values: Sequence["pa.Scalar[Any]"], kind: pa.DataType
) -> pc.Expression | None:
    if name in _TEXT:
        return _TEXT[name](column, values[0].as_py()) if pa.types.is_string(kind) else None
    if name == "In":
        return one_of(column, pa.array([value.as_py() for value in values], kind)) if values else None
    comparison = _COMPARISONS.get("EqualTo" if name == "EqualNullSafe" else name)
    if comparison is None:
        return None
    holds = comparison(column, values[0])
    return holds | pc.is_nan(column) if name in _ABOVE and pa.types.is_floating(kind) else holds


def _scalars(values: Sequence[Literal], kind: pa.DataType) -> "list[pa.Scalar[Any]] | None":
    """Literals in the type of a column; None if one is null, NaN, or not a value of that type."""
    scalars: list[pa.Scalar[Any]] = []
    for value in values:
        if value is None or value != value or (isinstance(value, Decimal) and not value.is_finite()):  # noqa: PLR0124 - NaN
            return None
        try:
            # A text may hold a value of any type.
            scalar = pa.scalar(value).cast(kind) if isinstance(value, str) else pa.scalar(value, kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return None
        if not scalar.is_valid or scalar.as_py() != scalar.as_py():
            return None
        scalars.append(scalar)
    return scalars


def _type_at(path: Sequence[str], schema: pa.Schema) -> pa.DataType | None:
    """The type of a column or field; None if there is none, or if its values cannot be compared."""
    fields = {field.name: field for field in schema}
    kind: pa.DataType | None = None
    for name in path:
        field = fields.get(name)
        if field is None:
            return None
        kind = field.type
        fields = {child.name: child for child in kind} if isinstance(kind, pa.StructType) else {}
    return None if kind is None or pa.types.is_nested(kind) else kind
