"""Comparisons of a filter with literals: from Spark's forms of a filter into Arrow expressions.

A ``Condition`` comes from a filter that Spark pushes into a data source (``condition_of``), or from a SQL text
(``parse_filter``). ``expression_of`` makes it an Arrow expression that selects the same rows. In Spark, NaN is the
greatest number and equals itself; a condition that Arrow could evaluate differently gives no expression.

Spark parses the SQL text: it plans the filter over an empty table and returns the plan as JSON, expressions in
pre-order. What cannot be pushed down is skipped, since Spark evaluates the whole condition again. Where nothing returns
the plan, only texts of the simplest form are understood (``simple_conditions``).
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from operator import eq, ge, gt, le, lt
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructType

from hudi_bridge.connectors.spark.jvm import jvm_of
from hudi_bridge.readers.filters import one_of

Literal: TypeAlias = Any
_Comparison = Callable[[pc.Expression, Any], pc.Expression]

_ARROW_COMPARISONS: dict[str, _Comparison] = {
    "EqualTo": eq,
    "GreaterThan": gt,
    "GreaterThanOrEqual": ge,
    "LessThan": lt,
    "LessThanOrEqual": le,
}
_ABOVE = ("GreaterThan", "GreaterThanOrEqual")
_ARROW_TEXT_MATCHES = {
    "StringStartsWith": pc.starts_with,
    "StringEndsWith": pc.ends_with,
    "StringContains": pc.match_substring,
}


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
        return _negated(condition_of(pushed.child))
    if name in ("IsNull", "IsNotNull"):
        return Condition(name=name, path=tuple(pushed.attribute))
    if name in _ARROW_COMPARISONS or name in _ARROW_TEXT_MATCHES or name == "EqualNullSafe":
        return Condition(name=name, path=tuple(pushed.attribute), values=(pushed.value,))
    if name == "In":
        return Condition(name=name, path=tuple(pushed.attribute), values=tuple(pushed.value))
    return None


def _negated(condition: Condition | None) -> Condition | None:
    return None if condition is None or condition.is_negated else replace(condition, is_negated=True)


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
    if name in _ARROW_TEXT_MATCHES:
        return _ARROW_TEXT_MATCHES[name](column, values[0].as_py()) if pa.types.is_string(kind) else None
    if name == "In":
        return one_of(column, pa.array([value.as_py() for value in values], kind)) if values else None
    comparison = _ARROW_COMPARISONS.get("EqualTo" if name == "EqualNullSafe" else name)
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


Node: TypeAlias = dict[str, Any]

_COLUMN = "AttributeReference"
_OTHER_COLUMN = "column of another table"
_COMPARISONS = ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual")
_TEXT = {"StartsWith": "StringStartsWith", "EndsWith": "StringEndsWith", "Contains": "StringContains"}
_MIRRORED = {
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
}
# Types whose literals Spark writes in a form that Arrow parses.
_LITERAL_TYPES = ("boolean", "integer", "long", "float", "double", "string", "date", "decimal")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedFilter:
    """The columns of a SQL condition, and conditions that every matching row meets."""

    columns: tuple[str, ...]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class _Tree:
    kind: str
    node: Node
    children: "tuple[_Tree, ...]"


def parse_filter(spark: SparkSession, schema: StructType, text: str) -> ParsedFilter:
    """Parses a SQL condition over the columns of a schema.

    Without access to the JVM, nothing returns Spark's plan: the condition gives columns that its text may name, and
    conditions if it is a simple one.

    Raises:
        pyspark.errors.AnalysisException: the text is not a condition over these columns.
    """
    jvm = jvm_of(spark)
    if jvm is None:
        # Analyzes the condition; Spark Connect does so only when it is asked for the schema.
        _ = spark.createDataFrame([], schema).where(text).schema
        return ParsedFilter(columns=_columns_in_text(schema.names, text), conditions=simple_conditions(schema, text))
    # Spark does not optimize away a filter over an empty RDD, as it would over no local rows.
    plans = jvm.filter_plans(spark.createDataFrame(spark.sparkContext.emptyRDD(), schema), text)
    named = {
        tree.node["name"]
        for condition in _filters(plans.analyzed, plans.columns)
        for tree in _trees(condition)
        if tree.kind == _COLUMN
    }
    conditions = tuple(
        condition
        for tree in _filters(plans.optimized, plans.columns)
        for conjunct in _conjuncts(tree)
        if (condition := _condition(conjunct)) is not None
    )
    return ParsedFilter(columns=tuple(name for name in schema.names if name in named), conditions=conditions)


def _columns_in_text(names: Sequence[str], text: str) -> tuple[str, ...]:
    """The columns that a condition may refer to: all whose name occurs in it, in whatever case."""
    lower = text.lower()
    # Without these, Spark has no way to refer to a column but by its name.
    if not text.isascii() or "*" in text or "identifier" in lower:
        return tuple(names)
    return tuple(name for name in names if not name.isascii() or name.replace("`", "``").lower() in lower)


_SIGNS = {"=": "EqualTo", "==": "EqualTo", "!=": "EqualTo", "<>": "EqualTo"} | {
    ">": "GreaterThan",
    ">=": "GreaterThanOrEqual",
    "<": "LessThan",
    "<=": "LessThanOrEqual",
}
_NEGATED_SIGNS = ("!=", "<>")
# Without escapes, and without the variables that Spark replaces in a text.
_LITERAL = r"(?:'[^'\\$]*'|-?[0-9]{1,18})"
_SIMPLE = re.compile(
    rf"""\s*(?:(?P<name>[a-z_][a-z0-9_]*)|`(?P<quoted>[^`$]+)`)
    (?: \s*(?P<sign><=(?!>)|>=|<>|!=|==?|<|>)\s*(?P<value>{_LITERAL})
      | \s+in\s*\(\s*(?P<values>{_LITERAL}(?:\s*,\s*{_LITERAL})*)\s*\)
      | \s+is\s+(?P<negation>not\s+)?null )
    (?:\s+and\s+(?=\S)|\s*$)""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_NOT_NAMES = ("case", "exists", "false", "not", "null", "true")


def simple_conditions(schema: StructType, text: str) -> tuple[Condition, ...]:
    """The conditions of a text that compares columns of texts or whole numbers with literals of their kind.

    None unless that, ``IN`` or a null test, joined by ``AND``, is all of the text: what else it says may change the
    meaning of any part, such as a comment, or an ``OR``.
    """
    conditions = []
    position = 0
    while position < len(text):
        match = _SIMPLE.match(text, position)
        condition = None if match is None else _simple_condition(schema, match)
        if match is None or condition is None:
            return ()
        conditions.append(condition)
        position = match.end()
    return tuple(conditions)


def _simple_condition(schema: StructType, match: "re.Match[str]") -> Condition | None:
    name = match["name"] or match["quoted"]
    fields = [field for field in schema.fields if field.name.lower() == name.lower()]
    if len(fields) != 1 or (match["name"] or "").lower() in _NOT_NAMES:
        return None
    path = (fields[0].name,)
    if match["value"] is None and match["values"] is None:
        return Condition(name="IsNull" if match["negation"] is None else "IsNotNull", path=path)
    literals = re.findall(_LITERAL, match["value"] or match["values"])
    if not all(_is_of_type(literal, fields[0].dataType) for literal in literals):
        return None
    values = tuple(literal.strip("'") for literal in literals)
    if match["values"] is not None:
        return Condition(name="In", path=path, values=values)
    return Condition(name=_SIGNS[match["sign"]], path=path, values=values, is_negated=match["sign"] in _NEGATED_SIGNS)


def _is_of_type(literal: str, kind: DataType) -> bool:
    """Whether Spark compares the values of a column with a literal as they are."""
    return kind == StringType() if literal.startswith("'") else kind in (IntegerType(), LongType())


def _filters(plan: str, names: Mapping[int, str]) -> Iterator[_Tree]:
    """The conditions of all filters of a plan; ``names`` are those of the columns, by expression ID.

    A subquery has columns of other tables, which may have the same names.
    """
    for node in json.loads(plan):
        if _kind(node) == "Filter":
            yield _tree(iter(node["condition"]), names)


def _kind(node: Node) -> str:
    return str(node["class"]).rpartition(".")[2]


def _tree(nodes: Iterator[Node], names: Mapping[int, str]) -> _Tree:
    """An expression; columns are named as in ``names``, whatever the spelling in the text, or are of another kind."""
    node = next(nodes)
    kind = _kind(node)
    if kind == _COLUMN:
        name = names.get(node["exprId"]["id"])
        kind, node = (_OTHER_COLUMN, node) if name is None else (kind, node | {"name": name})
    return _Tree(kind, node, tuple(_tree(nodes, names) for _ in range(node["num-children"])))


def _trees(tree: _Tree) -> Iterator[_Tree]:
    yield tree
    for child in tree.children:
        yield from _trees(child)


def _conjuncts(tree: _Tree) -> Iterator[_Tree]:
    if tree.kind == "And":
        for child in tree.children:
            yield from _conjuncts(child)
    else:
        yield tree


def _condition(tree: _Tree) -> Condition | None:
    if tree.kind == "Not":
        return _negated(_condition(tree.children[0]))
    if tree.kind in (_COLUMN, "GetStructField") and _is_boolean(tree):
        path = _path(tree)
        return None if path is None else Condition(name="EqualTo", path=path, values=("true",))
    path = _path(tree.children[0]) if tree.children else None
    values = tuple(_literal(child) for child in tree.children[1:])
    if tree.kind in _MIRRORED and path is None and len(tree.children) > 1:
        path, values = _path(tree.children[1]), (_literal(tree.children[0]),)
        return _compared(_MIRRORED[tree.kind], path, values)
    if tree.kind in ("IsNull", "IsNotNull"):
        return None if path is None else Condition(name=tree.kind, path=path)
    if tree.kind in _COMPARISONS or tree.kind == "In":
        return _compared(tree.kind, path, values)
    if tree.kind in _TEXT:
        return _compared(_TEXT[tree.kind], path, values)
    return None


def _compared(name: str, path: tuple[str, ...] | None, values: tuple[str | None, ...]) -> Condition | None:
    literals = tuple(value for value in values if value is not None)
    if path is None or not literals or len(literals) != len(values):
        return None
    return Condition(name=name, path=path, values=literals)


def _is_boolean(tree: _Tree) -> bool:
    return tree.kind == _COLUMN and tree.node["dataType"] == "boolean"


def _path(tree: _Tree) -> tuple[str, ...] | None:
    if tree.kind == _COLUMN:
        return (tree.node["name"],)
    if tree.kind == "GetStructField" and tree.node.get("name"):
        outer = _path(tree.children[0])
        return None if outer is None else (*outer, tree.node["name"])
    return None


def _literal(tree: _Tree) -> str | None:
    """The text of a literal; None for null and for any other expression."""
    if tree.kind != "Literal":
        return None
    kind = tree.node["dataType"]
    is_supported = isinstance(kind, str) and kind.partition("(")[0] in _LITERAL_TYPES
    return tree.node["value"] if is_supported else None
