"""Footer statistics of a base file: bounds and nulls of its columns, and whether a column has one value in all rows."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.splits.split import RealtimeFileSplit

_NO_BOUNDS = (pa.ArrowException, ValueError, OverflowError, TypeError, NotImplementedError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """Statistics of one column over all row groups of a file; ``least`` and ``greatest`` are None if unknown.

    ``stored_bytes`` is its size in the file.
    """

    values: int
    stored_bytes: int
    nulls: int | None
    least: Any
    greatest: Any


def in_path_and_file(split: RealtimeFileSplit, stored: pa.Schema, footer: pq.FileMetaData) -> Mapping[str, bool]:
    """For each partition column with a value in the path, whether all rows of a file are known to have that value.

    A column that is not in the file has the value of the path if the query reads it from there.
    """
    statistics, from_path = column_statistics(footer, dict(split.partition_values)), split.path_values
    return {
        name: _all_equal(statistics.get(name), value, footer.num_rows) if name in stored.names else name in from_path
        for name, value in split.partition_values
    }


def _all_equal(statistics: ColumnStatistics | None, value: "pa.Scalar[Any]", rows: int) -> bool:
    """Whether statistics prove that a column has one value in all rows."""
    if statistics is None:
        return False
    if not value.is_valid:
        return statistics.nulls == rows
    try:
        wanted = value.as_py()
    except OverflowError:
        # Python has no dates before the year 1 or after 9999.
        return False
    return bool(statistics.nulls == 0 and statistics.least == wanted and statistics.greatest == wanted)


def column_statistics(footer: pq.FileMetaData, paths: Container[str] | None = None) -> Mapping[str, ColumnStatistics]:
    """The statistics of each column that is not inside a list or map, by dotted path; of some paths alone, if given."""
    columns = [footer.schema.column(position) for position in range(footer.num_columns)]
    unrepeated = {
        position: one.path
        for position, one in enumerate(columns)
        if one.max_repetition_level == 0 and (paths is None or one.path in paths)
    }
    return {path: _statistics(footer, position) for position, path in unrepeated.items()}


def _statistics(footer: pq.FileMetaData, position: int) -> ColumnStatistics:
    chunks = [footer.row_group(group).column(position) for group in range(footer.num_row_groups)]
    nulls = [None if chunk.statistics is None else chunk.statistics.null_count for chunk in chunks]
    least = greatest = None
    is_known = True
    for chunk, chunk_nulls in zip(chunks, nulls, strict=True):
        if chunk_nulls == chunk.num_values:
            continue
        is_known = is_known and chunk.statistics is not None and chunk.statistics.has_min_max
        if is_known:
            least, greatest, is_known = _wider(chunk.statistics, least, greatest)
    return ColumnStatistics(
        values=sum(chunk.num_values for chunk in chunks),
        stored_bytes=sum(chunk.total_compressed_size for chunk in chunks),
        nulls=None if None in nulls else sum(one or 0 for one in nulls),
        least=least if is_known else None,
        greatest=greatest if is_known else None,
    )


def _wider(statistics: Any, least: Any, greatest: Any) -> tuple[Any, Any, bool]:  # noqa: ANN401 - of any type
    """The bounds widened by one more row group, and whether they are known."""
    try:
        low, high = statistics.min, statistics.max
        return (
            low if least is None else min(least, low),
            high if greatest is None else max(greatest, high),
            True,
        )
    except _NO_BOUNDS:
        return None, None, False
