"""How DuckDB selects the columns of a query from a base file to get the values that Hudi reads."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from hudi_bridge.connectors.duckdb.dialect import list_of_texts, quote_identifier, quote_text
from hudi_bridge.engines import StoredBaseFile
from hudi_bridge.engines.stored_base_file import in_path_and_file
from hudi_bridge.releases import FloatWidening
from hudi_bridge.schema.file_columns import ColumnMapping, Outcome
from hudi_bridge.splits.split import RealtimeFileSplit


def literal(value: "pa.Scalar[Any]") -> str | None:
    """A literal of a text, a whole number, a truth value, a date or null; None for a value of another type."""
    kind: Any = value.type
    if not value.is_valid:
        return "NULL"
    if pa.types.is_string(kind):
        return quote_text(value.as_py())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return str(value.as_py())
    if pa.types.is_date32(kind):
        return f"DATE {quote_text(value.cast(pa.string()).as_py())}"
    return None


_NULL = (Outcome.ADDED_LATER, Outcome.ANOTHER_COLUMN, Outcome.MISSING, Outcome.NO_FIELD)
_STORED = (Outcome.READ, Outcome.CAST)
_VIRTUAL = ("filename", "file_index", "file_row_number")
"""The columns that DuckDB adds to those of a file; a column of the same name would hide them."""
_DECIMAL = re.compile(r"DECIMAL\((?P<digits>\d+),(?P<scale>\d+)\)")


@dataclass(frozen=True, slots=True)
class BaseFileColumns:
    """Where each column of the query comes from in a base file; files with equal columns can be scanned together.

    ``layout`` describes the file's columns as stored. ``sources`` has for each column of the query the name of a column
    of the file, or None if it is null or, for the columns in ``from_path``, has the value of the partition path.
    ``rows`` is the number of rows.
    """

    layout: str
    sources: tuple[str | None, ...]
    from_path: frozenset[str]
    rows: int = field(compare=False)


class NotByDuckDBError(Exception):
    """The reason why DuckDB cannot read a base file as Hudi does; also held as a value in place of its columns."""

    @classmethod
    def of(cls, error: duckdb.Error, path: str) -> "NotByDuckDBError":
        """The reason for a base file that DuckDB has refused."""
        return cls(str(error).partition("\n")[0].replace(path, "its base file"))


def columns_of(split: RealtimeFileSplit, base: StoredBaseFile) -> BaseFileColumns:
    """Where the columns of the query come from.

    Raises:
        NotByDuckDBError: some of them cannot be read by DuckDB.
    """
    if (reason := base.reason_unreadable(ignores_case=True)) is not None:
        raise NotByDuckDBError(reason)
    if not {name.lower() for name in base.schema.names}.isdisjoint(_VIRTUAL):
        raise NotByDuckDBError("it has a column with the name of one that DuckDB adds")
    by_column = {mapping.column: mapping for mapping in base.columns if mapping.column is not None}
    from_path = _from_path(split, base, by_column)
    sources: list[str | None] = []
    for name in split.context.schema.names:
        mapping = by_column[name]
        if name in from_path or mapping.outcome in _NULL:
            sources.append(None)
        elif name in split.path_values or mapping.outcome not in _STORED:
            raise NotByDuckDBError(f"{name}: {mapping}")
        else:
            sources.append(mapping.file_column)
    return BaseFileColumns(_layout(base), tuple(sources), from_path, base.rows)


def _from_path(
    split: RealtimeFileSplit, base: StoredBaseFile, by_column: Mapping[str, ColumnMapping]
) -> frozenset[str]:
    """The columns with a literal value in the partition path that is the value of all rows."""
    is_in_path_and_file = in_path_and_file(split, base.schema, base.footer)
    columns = set()
    for name, value in split.partition_values:
        is_same = is_in_path_and_file[name] and name in by_column and by_column[name].outcome is Outcome.READ
        if (name in split.path_values or is_same) and literal(value) is not None:
            columns.add(name)
    return frozenset(columns)


def _layout(base: StoredBaseFile) -> str:
    # The first line has the address of the object, the second the name that the writer gave to the schema.
    return str(base.footer.schema).split("\n", 2)[2]


def types_of(rows: duckdb.DuckDBPyRelation) -> dict[str, str]:
    """The types of DuckDB by column."""
    return dict(zip(rows.columns, map(str, rows.types), strict=True))


def stored_types(connection: duckdb.DuckDBPyConnection, path: str) -> dict[str, str]:
    """The types that DuckDB reads the columns of a file as.

    Raises:
        NotByDuckDBError: DuckDB cannot or must not open the file.
    """
    try:
        return types_of(connection.sql(f"FROM {read_parquet([path])}"))
    except duckdb.Error as error:
        raise NotByDuckDBError.of(error, path) from error


def read_parquet(paths: Sequence[str]) -> str:
    """A table function that scans base files; ``file_row_number`` and ``filename`` come with it."""
    # Statistics leave NaN out, which is the greatest number to DuckDB. The others would be settings of the connection.
    options = "hive_partitioning = false, binary_as_string = false, can_have_nan = true"
    return f"read_parquet({list_of_texts(paths)}, {options})"


def expressions(
    columns: BaseFileColumns,
    stored: Mapping[str, str],
    types: Mapping[str, str],
    schema: pa.Schema,
    path_values: Mapping[str, "PathValues"],
    widening: FloatWidening,
) -> dict[str, str]:
    """An expression for each column of the query, over the columns of the files.

    Raises:
        NotByDuckDBError: DuckDB reads a column as another type.
    """
    by_name = {}
    for name, source in zip(schema.names, columns.sources, strict=True):
        kind = types[name]
        if name in columns.from_path:
            by_name[name] = f"CAST({path_values[name].expression} AS {kind})"
        elif source is None:
            by_name[name] = f"CAST(NULL AS {kind})"
        elif (seen := stored.get(source)) == kind:
            by_name[name] = quote_identifier(source)
        elif seen is not None and _is_widened(seen, kind, widening):
            by_name[name] = f"CAST({quote_identifier(source)} AS {kind})"
        else:
            raise NotByDuckDBError(f"{name}: DuckDB reads it as {seen}, not as {kind}")
    return by_name


def _is_widened(stored: str, query_type: str, widening: FloatWidening) -> bool:
    """Whether a cast of DuckDB from one of its types to another gives the values of Hudi's."""
    if (stored, query_type) == ("FLOAT", "DOUBLE"):
        return widening is FloatWidening.EXACT
    decimals = _DECIMAL.fullmatch(stored), _DECIMAL.fullmatch(query_type)
    if decimals[0] and decimals[1]:
        return decimals[0]["scale"] == decimals[1]["scale"] and int(decimals[0]["digits"]) < int(decimals[1]["digits"])
    return (stored, query_type) == ("INTEGER", "BIGINT")


class PathValues:
    """The values of a partition column by folder."""

    def __init__(self) -> None:
        self._by_folder: dict[str, str] = {}

    def add(self, path: str, value: "pa.Scalar[Any]") -> None:
        """Adds the value in the folder of a file."""
        text = literal(value)
        assert text is not None, "columns_of takes only values with a literal from the path"
        self._by_folder[path.rpartition("/")[0]] = text

    @property
    def expression(self) -> str:
        """The value for each row of a scan; DuckDB passes over files whose value does not meet a condition."""
        if len(values := set(self._by_folder.values())) == 1:
            return values.pop()
        entries = ", ".join(f"{quote_text(folder)}: {value}" for folder, value in self._by_folder.items())
        return f"map_extract_value(MAP {{{entries}}}, parse_dirpath(filename))"
