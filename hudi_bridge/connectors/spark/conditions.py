"""Parses a SQL condition into the columns it refers to and the comparisons that can be pushed down.

Spark plans the condition over an empty table and returns the plan as JSON: expressions in pre-order. What cannot be
pushed down is skipped: Spark evaluates the whole condition again.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from hudi_bridge.connectors.spark.filters import Condition

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

    Raises:
        pyspark.errors.AnalysisException: the text is not a condition over these columns.
    """
    empty = spark.createDataFrame(spark.sparkContext.emptyRDD(), schema)
    # The only access to Spark's parser.
    output = empty._jdf.queryExecution().analyzed().output()  # noqa: SLF001
    execution = empty.where(text)._jdf.queryExecution()  # noqa: SLF001
    # A subquery has columns of other tables, which may have the same names.
    own = {output.apply(number).exprId().id(): name for number, name in enumerate(schema.names)}
    named = {
        tree.node["name"]
        for condition in _conditions(execution.analyzed(), own)
        for tree in _trees(condition)
        if tree.kind == _COLUMN
    }
    conditions = tuple(
        condition
        for tree in _conditions(execution.optimizedPlan(), own)
        for part in _conjuncts(tree)
        if (condition := _condition(part)) is not None
    )
    columns = tuple(name for name in schema.names if name in named)
    return ParsedFilter(columns=columns, conditions=conditions)


def _conditions(plan: Any, own: Mapping[int, str]) -> Iterator[_Tree]:  # noqa: ANN401 - an object of the JVM
    for node in json.loads(plan.toJSON()):
        if _kind(node) == "Filter":
            yield _tree(iter(node["condition"]), own)


def _kind(node: Node) -> str:
    return str(node["class"]).rpartition(".")[2]


def _tree(nodes: Iterator[Node], own: Mapping[int, str]) -> _Tree:
    """An expression; columns have the names of ``own``, whatever the spelling in the text, or are of another kind."""
    node = next(nodes)
    kind = _kind(node)
    if kind == _COLUMN:
        name = own.get(node["exprId"]["id"])
        kind, node = (_OTHER_COLUMN, node) if name is None else (kind, node | {"name": name})
    return _Tree(kind, node, tuple(_tree(nodes, own) for _ in range(node["num-children"])))


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
        inner = _condition(tree.children[0])
        if inner is None or inner.is_negated:
            return None
        return Condition(name=inner.name, path=inner.path, values=inner.values, is_negated=True)
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
    known = tuple(value for value in values if value is not None)
    if path is None or not known or len(known) != len(values):
        return None
    return Condition(name=name, path=path, values=known)


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
