"""Hudi tables as lazy frames of Polars, which pass on the columns, the conditions and the number of rows they need.

Conditions of Polars become conditions of Arrow, so that files and row groups without matching rows are not read. All
rows that pass the condition of Polars pass that of Arrow, and perhaps others do: Polars checks its own again. In Polars
NaN is the greatest number and equals itself, and no statistics of files tell of NaN. So floats are only compared where
NaN does not pass. Polars hands an expression over as JSON whose form no release promises. What is not recognized is not
passed on.

Columns of Arrow become those of Polars: VARIANT the struct of its parts, and bytes of a fixed length bytes.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from io import StringIO
from operator import eq, ge, gt, le, lt, ne
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from hudi_bridge.common.imports import needing_extra
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.readers.filters import Joined, joined_by_and, joined_by_or
from hudi_bridge.schema.meta_columns import own_columns
from hudi_bridge.storage.storage import PathLike, StorageOptions
from hudi_bridge.table import HudiTable, OpenArguments, RowsArguments, opened, rows_of
from hudi_bridge.timeline.instant import InstantLike

with needing_extra("polars", "polars"):
    import polars as pl
    from polars.io.plugins import register_io_source

__all__ = ["scan", "scan_dataset"]

ArrowType: TypeAlias = Any
_Node: TypeAlias = Any
_Comparison = Callable[[pc.Expression, Any], pc.Expression]
_Expression: TypeAlias = Any
_Field = tuple[_Expression, ArrowType]
_COMPARISONS: dict[str, _Comparison] = {"Eq": eq, "NotEq": ne, "Lt": lt, "LtEq": le, "Gt": gt, "GtEq": ge}
_OPPOSITES = {"Eq": "NotEq", "NotEq": "Eq", "Lt": "GtEq", "LtEq": "Gt", "Gt": "LtEq", "GtEq": "Lt"}
_WITHOUT_NAN = ("Eq", "Lt", "LtEq")
"""The comparisons with a number that NaN does not pass in Polars either."""
_BOUNDS = {"Both": ("GtEq", "LtEq"), "Left": ("GtEq", "Lt"), "Right": ("Gt", "LtEq"), "None": ("Gt", "Lt")}
_ORDERED = (
    types.is_integer,
    types.is_floating,
    types.is_string,
    types.is_binary,
    types.is_decimal128,
    types.is_date32,
    types.is_time64,
    types.is_timestamp,
)
"""The types whose values Polars and Arrow order in the same way."""


def scan(
    path_or_table: PathLike | HudiTable,
    *,
    filesystem: Any = None,  # noqa: ANN401 - of any library
    options: Mapping[str, str] | None = None,
    payloads: Mapping[str, RecordPayload] | None = None,
    log_memory_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
    as_of: InstantLike | None = None,
    read_optimized: bool = False,
    after: InstantLike | None = None,
    up_to: InstantLike | None = None,
    meta_columns: bool = True,
) -> pl.LazyFrame:
    """The rows of a table as a lazy frame: its snapshot or, if asked, the base files alone or a range of commits.

    ``path_or_table`` is a path or URI as for ``HudiTable.open``, or an open table. ``filesystem``, ``options``,
    ``payloads``, ``log_memory_bytes`` and ``storage_options`` are those of ``HudiTable.open``, and ``as_of`` is that of
    ``HudiTable.snapshot``.
    ``read_optimized`` leaves out the changes in log files. ``after``, and optionally ``up_to``, ask for the rows that
    commits in that range have written, as ``HudiTable.incremental`` does. Without ``meta_columns``, the frame lacks
    Hudi's own columns.

    The frame stays at the instant that was newest at the time of this call, or at ``as_of``. No rows are read before
    Polars collects the frame, and each collection reads them anew. Errors of reading are raised by Polars as they are.

    Raises:
        QueryError: the arguments exclude one another, or an option is unknown or refused.
        InstantNotReadableError: files of the instant or of the range have been removed, or are incomplete.
        TableNotFoundError: there is no Hudi table.
        UnsupportedTableError: the table uses something that cannot be read correctly, or has a column whose type Polars
            lacks.
    """
    table = opened(
        path_or_table,
        OpenArguments(
            filesystem=filesystem,
            options=options,
            payloads=payloads,
            log_memory_bytes=log_memory_bytes,
            storage_options=storage_options,
        ),
    )
    rows = rows_of(table, RowsArguments(as_of=as_of, read_optimized=read_optimized, after=after, up_to=up_to))
    return _lazy(rows, rows.schema.names if meta_columns else own_columns(rows.schema.names))


def scan_dataset(dataset: HudiDataset) -> pl.LazyFrame:
    """The rows of a dataset of ``HudiTable``, such as ``HudiTable.changes``, as a lazy frame.

    Raises:
        UnsupportedTableError: Polars lacks the type of a column.
    """
    return _lazy(dataset, dataset.schema.names)


def _lazy(dataset: HudiDataset, names: list[str]) -> pl.LazyFrame:
    schema = pa.schema([dataset.schema.field(name) for name in names])
    # A dataset is planned once, so a plan that has it twice may read it once.
    return register_io_source(partial(_frames, dataset, names=names), schema=columns_of(schema), is_pure=True)


def _frames(
    dataset: HudiDataset,
    with_columns: list[str] | None,
    predicate: pl.Expr | None,
    n_rows: int | None,
    batch_size: int | None,
    names: list[str] | None = None,
) -> Iterator[pl.DataFrame]:
    """The frames of one collection, as ``register_io_source`` asks for them; ``names`` are all columns of the frame."""
    names = (names or dataset.schema.names) if with_columns is None else with_columns
    used = () if predicate is None else predicate.meta.root_names()
    needed = list(dict.fromkeys((*names, *used)))
    # Polars asks for the first rows, and keeps the rows among them that pass.
    condition = None if predicate is None or n_rows is not None else condition_of(predicate, dataset.schema)
    missing = n_rows
    if missing == 0:
        return
    # Closed by the end of this generator, which ends the threads that read ahead.
    with dataset.scanner(needed, condition).to_reader() as batches:
        for batch in batches:
            first = batch.slice(0, missing)
            frame = frame_of(first)
            # The condition may let more rows pass.
            passed = frame if predicate is None else frame.filter(predicate)
            if names:
                yield from passed.select(names).iter_slices(batch_size or max(1, passed.height))
            else:
                yield pl.DataFrame(height=passed.height)
            if missing is not None:
                missing -= first.num_rows
            if missing == 0:
                return


def columns_of(schema: pa.Schema) -> pl.Schema:
    """The columns of Polars for those of Arrow.

    Raises:
        UnsupportedTableError: Polars lacks the type of a column.
    """
    for field in schema:
        # Polars does not raise an exception for it: it panics.
        if (wide := _wide_decimal(field.type)) is not None:
            raise UnsupportedTableError(
                "type in Polars", f"{wide} in the column {field.name!r}", "decimals of up to 38 digits"
            )
    return pl.DataFrame(_unlabelled(schema).empty_table()).schema


def frame_of(batch: pa.RecordBatch) -> pl.DataFrame:
    """A batch as a frame with the types of ``columns_of``, and with its rows if it has no columns."""
    if not batch.num_columns:
        return pl.DataFrame(height=batch.num_rows)
    return pl.DataFrame(pa.RecordBatch.from_arrays(batch.columns, schema=_unlabelled(batch.schema)))


def type_of(kind: ArrowType) -> pl.DataType:
    """The type of Polars for one of Arrow."""
    return pl.Series(pa.array([], kind)).dtype


def _unlabelled(schema: pa.Schema) -> pa.Schema:
    """The schema without the label of VARIANT, which Polars takes for a type that has no operations."""
    return pa.schema([field.remove_metadata() for field in schema])


def _wide_decimal(kind: ArrowType) -> ArrowType | None:
    if types.is_decimal256(kind):
        return kind
    inner = (_wide_decimal(kind.field(index).type) for index in range(kind.num_fields)) if types.is_nested(kind) else ()
    return next((decimal for decimal in inner if decimal is not None), None)


def condition_of(predicate: pl.Expr, columns: pa.Schema) -> pc.Expression | None:
    """A condition of Arrow that all rows meet that pass the predicate; None if there is none."""
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
        condition = _Translation(columns).condition(tree, is_true=True)
    except (pl.exceptions.PolarsError, ValueError, RecursionError):
        # Functions of Python have no JSON, and Python has its own limit of levels.
        return None
    return None if condition is None else condition.condition


class _Translation:
    """Of the JSON of an expression over some columns."""

    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns

    def condition(self, node: _Node, *, is_true: bool) -> Joined | None:
        """A condition that all rows meet for which the node is true or, if ``is_true`` is not, false.

        Both are asked for, since NOT makes false of true, and null of null.
        """
        match node:
            case {
                "BinaryExpr": {"left": left, "op": "And" | "LogicalAnd" | "Or" | "LogicalOr" as name, "right": right}
            }:
                sides = [self.condition(side, is_true=is_true) for side in (left, right)]
                return joined_by_and(sides) if name.endswith("And") == is_true else joined_by_or(sides)
            case {"BinaryExpr": {"left": left, "op": str(name), "right": right}} if name in _COMPARISONS:
                return self._compared(left, name if is_true else _OPPOSITES[name], right)
            case {"Function": {"input": [inner], "function": {"Boolean": "Not"}}}:
                return self.condition(inner, is_true=not is_true)
            case {"Function": {"input": [inner], "function": {"Boolean": "IsNull" | "IsNotNull" as name}}}:
                return self._null_test(inner, is_null=(name == "IsNull") == is_true)
            case {"Function": {"input": [inner, values], "function": {"Boolean": {"IsIn": {"nulls_equal": False}}}}}:
                return self._listed(inner, values, is_true=is_true)
            case {
                "Function": {"input": [inner, low, high], "function": {"Boolean": {"IsBetween": {"closed": closed}}}}
            }:
                return self._between(inner, low, high, closed) if is_true and closed in _BOUNDS else None
            case {"Column": _}:
                field = self._field(node)
                if field is None or not types.is_boolean(field[1]):
                    return None
                return Joined(field[0] if is_true else ~field[0])
        return None

    def _compared(self, left: _Node, name: str, right: _Node) -> Joined | None:
        field = self._field(left)
        if field is None or (types.is_floating(field[1]) and name not in _WITHOUT_NAN):
            return None
        value = _value(right, field[1])
        return None if value is None else Joined(_COMPARISONS[name](field[0], value))

    def _null_test(self, inner: _Node, *, is_null: bool) -> Joined | None:
        field = self._field(inner)
        if field is None:
            return None
        return Joined(field[0].is_null() if is_null else field[0].is_valid())

    def _listed(self, inner: _Node, listed: _Node, *, is_true: bool) -> Joined | None:
        field = self._field(inner)
        # Arrow looks floats up by their bits, which differ between 0.0 and -0.0.
        if field is None or types.is_floating(field[1]):
            return None
        values = _values(listed, field[1])
        if values is None or values.null_count:
            return None
        is_in = field[0].isin(values)
        return Joined(is_in if is_true else ~is_in & field[0].is_valid())

    def _between(self, inner: _Node, low: _Node, high: _Node, closed: str) -> Joined | None:
        field = self._field(inner)
        if field is None:
            return None
        # NaN may pass the lower bound, never the upper one.
        ends = [
            None if value is None else Joined(_COMPARISONS[name](field[0], value))
            for name, value in zip(_BOUNDS[closed], (_value(low, field[1]), _value(high, field[1])), strict=True)
        ]
        return None if any(end is None for end in ends) else joined_by_and(ends)

    def _field(self, node: _Node) -> _Field | None:
        """A column, or a field of structs, with its type."""
        path = _path(node)
        if path is None:
            return None
        kind: ArrowType = pa.struct(list(self._columns))
        for name in path:
            if not types.is_struct(kind) or kind.get_field_index(name) < 0:
                return None
            kind = kind.field(name).type
        return pc.field(*path), kind


def _path(node: _Node) -> tuple[str, ...] | None:
    match node:
        case {"Column": str(name)}:
            return (name,)
        case {"Function": {"input": [inner], "function": {"StructExpr": {"FieldByName": str(name)}}}}:
            path = _path(inner)
            return None if path is None else (*path, name)
    return None


def _value(node: _Node, kind: ArrowType) -> "pa.Scalar[Any] | None":
    values = _values(node, kind)
    return values[0] if values is not None and len(values) == 1 and values[0].is_valid else None


def _values(node: _Node, kind: ArrowType) -> "pa.Array[Any] | None":
    """A literal, or the values of a list that is one, if it has the type of the column in Polars."""
    if not isinstance(node, dict) or "Literal" not in node or not any(is_kind(kind) for is_kind in _ORDERED):
        return None
    try:
        literal = pl.select(pl.Expr.deserialize(StringIO(json.dumps(node)), format="json")).to_series()
        is_list = isinstance(literal.dtype, pl.List)
        dtype = literal.dtype.inner if isinstance(literal.dtype, pl.List) else literal.dtype
        if dtype != type_of(kind) and not (types.is_decimal(kind) and isinstance(dtype, pl.Decimal)):
            return None
        values: Any = literal.to_arrow()
        array: pa.Array[Any] = (values.flatten() if is_list else values).cast(kind)
    except (pl.exceptions.PolarsError, pa.ArrowException, ValueError, TypeError):
        # NaN, for one, has no JSON; and not every decimal has the scale of the column.
        return None
    return array
