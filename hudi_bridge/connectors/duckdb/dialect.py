"""DuckDB's SQL: names and texts in it, and what its releases get wrong of rows that come from Arrow.

Before 2.0, DuckDB passes on comparisons of numbers as if there were no NaN, which is the greatest number to DuckDB, and
lists of values as if -0.0 were not 0.0; it does not check the rows again. So columns with such values are kept from it:
their conditions stay in DuckDB. The same holds for unsigned numbers, of which it cannot pass on lists.

DuckDB 1.5 ends with an error where it passes the Bloom filter of a join on to rows from Arrow (duckdb-python#463).
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.imports import how_to_install
from hudi_bridge.errors import QueryError
from hudi_bridge.readers.filters import Call, Field, Node, parsed_filter
from hudi_bridge.readers.request import referenced_columns

TESTED = ("1.4", "1.5", "2.0")
"""The releases that ``make full`` runs the golden tables on."""
_NUMBERS = tuple(map(int, duckdb.__version__.split(".")[:2]))
_PASSES_ALL_FILTERS = _NUMBERS >= (2, 0)
_FAILS_AT_BLOOM_FILTERS = _NUMBERS == (1, 5)
_JOIN_FILTERS = "join_filter_pushdown"


def require_tested(version: str = duckdb.__version__) -> None:
    """Warns of a release of DuckDB that is newer than the tested ones, or between them.

    Raises:
        ImportError: it is older than the tested releases.
    """
    minor = ".".join(version.split(".")[:2])
    if minor in TESTED:
        return
    tested = f"{', '.join(TESTED[:-1])} and {TESTED[-1]}"
    if _numbers(minor) < _numbers(TESTED[0]):
        raise ImportError(
            f"hudi_bridge.connectors.duckdb needs DuckDB {TESTED[0]} or newer, and this is {version}: "
            f"{how_to_install('duckdb')}"
        )
    warnings.warn(
        f"DuckDB {version} was not tested with Hudi Bridge: conditions may lose rows; tested are {tested}", stacklevel=3
    )


def _numbers(minor: str) -> tuple[int, ...]:
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in minor.split("."))


def make_joins_work(connection: duckdb.DuckDBPyConnection) -> None:
    """Switches off filters of joins for the whole database, where DuckDB would end with an error."""
    if not _FAILS_AT_BLOOM_FILTERS:
        return
    [(disabled,)] = connection.execute("SELECT current_setting('disabled_optimizers')").fetchall()
    names = [name for name in disabled.split(",") if name]
    if _JOIN_FILTERS not in names:
        connection.execute(f"SET disabled_optimizers = '{','.join((*names, _JOIN_FILTERS))}'")


def from_arrow(connection: duckdb.DuckDBPyConnection, rows: Any) -> duckdb.DuckDBPyRelation:  # noqa: ANN401 - a dataset or a table
    """The rows of a dataset or table of Arrow as a relation, to whose columns conditions may be put."""
    relation, types = connection.from_arrow(rows), rows.schema.types
    if not any(map(_is_kept_from_arrow, types)):
        return relation
    names = [quote_identifier(name) for name in relation.columns]
    # DuckDB takes this for another value than the column, and does not pass on its conditions.
    values = [
        f"COALESCE({name}, NULL)" if _is_kept_from_arrow(kind) else name
        for name, kind in zip(names, types, strict=True)
    ]
    return relation.project(", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True)))


def refusing_wrong_conditions(
    schema: pa.Schema, read: Callable[[Sequence[str], pc.Expression | None], Iterable[pa.RecordBatch]]
) -> Callable[[Sequence[str], pc.Expression | None], Iterable[pa.RecordBatch]]:
    """What reads the rows, for a dataset that is registered as it is, and so gets conditions on all columns.

    It raises QueryError for conditions that DuckDB may have got wrong.
    """
    unpushed = {field.name for field in schema if _is_kept_from_arrow(field.type)}
    if not unpushed:
        return read

    def read_unless_wrong(names: Sequence[str], row_filter: pc.Expression | None) -> Iterable[pa.RecordBatch]:
        compared = set() if row_filter is None else set(_compared(parsed_filter(row_filter)))
        if row_filter is not None and None in compared:
            compared |= set(referenced_columns(row_filter, schema))
        if wrong := sorted(unpushed & compared):
            raise QueryError(
                f"condition on {wrong[0]}",
                f"{row_filter}, with which DuckDB {duckdb.__version__} loses NaN",
                f"DuckDB 2.0 or newer, or coalesce({quote_identifier(wrong[0])}, NULL) in its place",
            )
        return read(names, row_filter)

    return read_unless_wrong


def _compared(node: Node) -> Iterator[str | None]:
    """The columns of a condition other than those that are only tested for null; None for what is not understood."""
    if isinstance(node, Field) or node is None:
        yield None if node is None else node.name
    elif isinstance(node, Call) and not (node.name in ("is_null", "is_valid") and isinstance(node.arguments[0], Field)):
        for argument in node.arguments:
            yield from _compared(argument)


def _is_kept_from_arrow(kind: Any) -> bool:  # noqa: ANN401 - pyarrow's types have no common stub
    """Whether DuckDB must not pass on conditions on a column of a type."""
    if _PASSES_ALL_FILTERS:
        return False
    if pa.types.is_struct(kind):
        return any(_is_kept_from_arrow(field.type) for field in kind)
    return pa.types.is_floating(kind) or pa.types.is_uint64(kind)


def without_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with copies of nested columns that are slices of longer ones.

    In structs within others, DuckDB before 2.0 takes the values of other rows for those of a slice; 2.0 refuses them.
    """
    if not any(_is_sliced(column) for column in batch.columns):
        return batch
    every_row = pa.array(range(batch.num_rows), pa.int64())
    columns = [column.take(every_row) if _is_sliced(column) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _is_sliced(column: Any, level: int = 0) -> bool:  # noqa: ANN401 - an array of any type
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _is_sliced(column.storage, level)
    if not pa.types.is_nested(kind):
        return level > 0 and column.offset > 0
    if column.offset:
        return True
    if pa.types.is_struct(kind):
        return any(_is_sliced(column.field(index), level + 1) for index in range(kind.num_fields))
    if pa.types.is_map(kind):
        return _is_sliced(column.keys, level + 1) or _is_sliced(column.items, level + 1)
    return _is_sliced(column.values, level + 1)


def quote_identifier(name: str) -> str:
    """A name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def sql_names(names: Sequence[str]) -> list[str]:
    """The names of columns in SQL, where case makes no difference: names that differ only in case get numbers.

    ``name`` and ``Name`` become ``name_1`` and ``Name_2``. DuckDB would take both for the first one; so it finds
    neither, and its error has the names with the numbers.
    """
    counts, taken = Counter(map(str.lower, names)), {name.lower() for name in names}
    numbers = {name: count(1) for name, times in counts.items() if times > 1}
    unique_names = []
    for name in names:
        unique = name
        while unique.lower() in taken and name.lower() in numbers:
            unique = f"{name}_{next(numbers[name.lower()])}"
        taken.add(unique.lower())
        unique_names.append(unique)
    return unique_names


def quote_text(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"


def list_of_texts(texts: Iterable[str]) -> str:
    """A list literal of strings."""
    return f"[{', '.join(map(quote_text, texts))}]"
