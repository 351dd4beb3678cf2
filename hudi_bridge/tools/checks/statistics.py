"""Compares the ranges in the metadata table, of columns and of functions, with those in the footers of base files."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import QueryType
from hudi_bridge.errors import HudiReadError
from hudi_bridge.indexes.expression_index import FUNCTIONS
from hudi_bridge.indexes.metadata_table import MetadataTable
from hudi_bridge.indexes.record_kinds import COLUMN_STATS, EXPRESSION_INDEX, PARTITION_STATS
from hudi_bridge.tools.checks.examined import Examined, Range
from hudi_bridge.tools.checks.findings import Finding, Severity, quoted

_CHECK, _OF_PARTITIONS, _OF_EXPRESSIONS = "column-stats", "partition-stats", "expression-stats"
_COMPARED = (bool, int, str)
"""The types of values that are the same in the index and in a footer; floating-point numbers leave NaN out."""


def column_stats(examined: Examined) -> Iterator[Finding]:
    """The range of a column in the index holds all values of the file: otherwise, filters leave out rows."""
    table = _index(examined, COLUMN_STATS)
    if table is not None:
        ranges = _ranges_of_files(examined, table, COLUMN_STATS)
        for path, column, known, stored in _too_narrow(examined, ranges):
            yield _finding(_CHECK, COLUMN_STATS, path, f"values of {quoted(column)}", known, stored)
        yield from _of_too_few_values(examined, ranges, _CHECK, COLUMN_STATS)


def partition_stats(examined: Examined) -> Iterator[Finding]:
    """The range of a column in a partition holds all values of its base files: otherwise, filters leave out rows."""
    table = _index(examined, PARTITION_STATS)
    if table is None:
        return
    of_partitions: dict[str, dict[str, Range]] = {}
    for part in table.all(PARTITION_STATS):
        _add_ranges(of_partitions, part)
    bases = [(piece.base_file.path, piece.partition_path) for piece in examined.slices if piece.base_file]
    ranges = {path: of_partitions.get(partition, {}) for path, partition in bases}
    for path, column, known, stored in _too_narrow(examined, ranges):
        yield _finding(
            _OF_PARTITIONS, PARTITION_STATS, path, f"values of {quoted(column)} in its partition", known, stored
        )
    yield from _of_too_few_values(examined, ranges, _OF_PARTITIONS, PARTITION_STATS)


def expression_stats(examined: Examined) -> Iterator[Finding]:
    """The range of a function in an index holds its results for the ends of the file's range of the column."""
    for name in examined.config.metadata_partitions:
        table = _index(examined, name) if name.startswith(EXPRESSION_INDEX) else None
        definition = None if table is None else table.definitions.get(name)
        function = None if definition is None else FUNCTIONS.get(definition.function)
        if table is None or definition is None or function is None or definition.kind != COLUMN_STATS:
            continue
        column = definition.source_fields[0]
        if column not in examined.planner.schema(QueryType.SNAPSHOT).names:
            continue
        if not function.takes(examined.planner.schema(QueryType.SNAPSHOT).field(column).type):
            continue
        for path, ranges in sorted(_ranges_of_files(examined, table, name).items()):
            ends = _ranges(examined, path).get(column)
            results = [] if ends is None else [function.of_value(end) for end in ends]
            known = ranges.get(column)
            if known is None or not results or None in results:
                continue
            stored = (min(results), max(results))
            if _leaves_out(known, stored):
                what = f"results of {definition.function}({quoted(column)})"
                yield _finding(_OF_EXPRESSIONS, name, path, what, known, stored)


def _index(examined: Examined, name: str) -> MetadataTable | None:
    """The metadata table if it has an index that can be used."""
    table = examined.metadata_table
    usable = table is not None and name in examined.config.metadata_partitions and table.why_not(name) is None
    return table if usable else None


def _ranges_of_files(examined: Examined, table: MetadataTable, index: str) -> Mapping[str, Mapping[str, Range]]:
    """The ranges in an index of the base files of the newest slices, by path and column."""
    bases = {piece.base_file.path.rpartition("/")[2]: piece.base_file for piece in examined.slices if piece.base_file}
    names = pa.array(sorted(bases), pa.string())
    indexed: dict[str, dict[str, Range]] = {}
    for part in table.all(index):
        _add_ranges(indexed, part.filter(pc.is_in(part.column("file_name"), names)))
    return {bases[name].path: ranges for name, ranges in indexed.items()}


def _add_ranges(found: dict[str, dict[str, Range]], rows: pa.Table) -> None:
    """Adds the ranges that are known, by name and column; both ends are None of nulls alone."""
    names = ("file_name", "column", "min_value", "max_value", "value_count", "null_count")
    columns = (rows.column(name).to_pylist() for name in names)
    for name, column, least, greatest, values, nulls in zip(*columns, strict=True):
        ends = _plain(least), _plain(greatest)
        if None not in ends or (values and values == nulls):
            found.setdefault(name, {})[column] = ends


def _too_narrow(
    examined: Examined, ranges: Mapping[str, Mapping[str, Range]]
) -> Iterator[tuple[str, str, Range, Range]]:
    """The base files and columns of which a footer has values outside of the known ranges, with both ranges."""
    for path, of_columns in sorted(ranges.items()):
        examined.progress("ranges of columns", 0, 0)
        for column, stored in sorted(_ranges(examined, path).items()):
            known = of_columns.get(column, (None, None))
            if _leaves_out(known, stored):
                yield path, column, known, stored


def _of_too_few_values(
    examined: Examined, ranges: Mapping[str, Mapping[str, Range]], check: str, index: str
) -> Iterator[Finding]:
    """The base files and columns of which a footer has no range for some values, which Hudi has counted as nulls."""
    for path, of_columns in sorted(ranges.items()):
        footer = examined.footers.get(path)
        if footer is None or isinstance(footer, HudiReadError):
            continue
        for column in sorted(of_columns.keys() & footer.without_ranges):
            least, greatest = of_columns[column]
            known = "only nulls" if least is None else f"values from {quoted(least)} to {quoted(greatest)}"
            yield Finding(
                severity=Severity.WARNING,
                check=check,
                path=path,
                found=f"in {index} {known} of {quoted(column)}",
                expected="no range, as the footer of the file has no statistics for some of the values",
                remedy="filters on the column leave out rows in Hudi, unless hoodie.enable.data.skipping is false",
            )


def _finding(check: str, index: str, path: str, what: str, known: Range, stored: Range) -> Finding:
    return Finding(
        severity=Severity.ERROR,
        check=check,
        path=path,
        found=f"in {index} {what} from {quoted(known[0])} to {quoted(known[1])}",
        expected=f"at least {quoted(stored[0])} to {quoted(stored[1])}, as the footer of the file says",
        remedy=f"DROP INDEX {index} and create it again; until then, filters may leave out rows",
    )


def _plain(value: Mapping[str, Any] | None) -> Any:  # noqa: ANN401 - of any type
    """The member of a value that is not null, None if none is."""
    return next((member for member in (value or {}).values() if member is not None), None)


def _leaves_out(known: Range, stored: Range) -> bool:
    kinds = {type(one) for one in (*known, *stored)}
    if len(kinds) != 1 or kinds.pop() not in _COMPARED:
        return False
    return bool(known[0] > stored[0] or known[1] < stored[1])


def _ranges(examined: Examined, path: str) -> Mapping[str, Range]:
    """The ranges of columns in a footer; none if it cannot be read, which another check says."""
    footer = examined.footers.get(path)
    return {} if footer is None or isinstance(footer, HudiReadError) else footer.ranges
