"""Compares the ranges of columns in the metadata table with those in the footers of base files."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge.doctor.examined import Examined
from hudi_bridge.doctor.findings import Finding, Severity, quoted
from hudi_bridge.errors import HudiReadError
from hudi_bridge.logformat.parquet import PARQUET_ERRORS
from hudi_bridge.metadata.record_kinds import COLUMN_STATS
from hudi_bridge.storage import Storage

_CHECK = "column-stats"
_COMPARED = (bool, int, str)
"""The types of values that are the same in the index and in a footer; floating-point numbers leave NaN out."""
Range: TypeAlias = tuple[Any, Any]


def column_stats(examined: Examined) -> Iterator[Finding]:
    """The range of a column in the index holds all values of the file: otherwise, filters leave out rows."""
    table = examined.metadata_table
    if table is None or COLUMN_STATS not in examined.config.metadata_partitions or table.why_not(COLUMN_STATS):
        return
    bases = {piece.base_file.path.rpartition("/")[2]: piece.base_file for piece in examined.slices if piece.base_file}
    names = pa.array(sorted(bases), pa.string())
    indexed: dict[str, dict[str, Range]] = {}
    for part in table.all(COLUMN_STATS):
        rows = part.filter(pc.is_in(part.column("file_name"), names))
        columns = (rows.column(name).to_pylist() for name in ("file_name", "column", "min_value", "max_value"))
        for name, column, least, greatest in zip(*columns, strict=True):
            indexed.setdefault(name, {})[column] = (_plain(least), _plain(greatest))
    for name, ranges in sorted(indexed.items()):
        path = bases[name].path
        examined.progress("ranges of columns", 0, 0)
        for column, stored in sorted(_ranges(examined.storage, path).items()):
            known = ranges.get(column, (None, None))
            if _leaves_out(known, stored):
                yield Finding(
                    severity=Severity.ERROR,
                    check=_CHECK,
                    path=path,
                    found=f"in {COLUMN_STATS} values of {quoted(column)} from {quoted(known[0])} to {quoted(known[1])}",
                    expected=f"at least {quoted(stored[0])} to {quoted(stored[1])}, as the footer of the file says",
                    remedy="DROP INDEX column_stats and create it again; until then, filters may leave out rows",
                )


def _plain(value: Mapping[str, Any] | None) -> Any:  # noqa: ANN401 - of any type
    """The member of a value that is not null, None if none is."""
    return next((member for member in (value or {}).values() if member is not None), None)


def _leaves_out(known: Range, stored: Range) -> bool:
    kinds = {type(one) for one in (*known, *stored)}
    if len(kinds) != 1 or kinds.pop() not in _COMPARED:
        return False
    return bool(known[0] > stored[0] or known[1] < stored[1])


def _ranges(storage: Storage, path: str) -> dict[str, Range]:
    """The ranges of columns in a footer; none if it cannot be read, which another check says."""
    try:
        with storage.open_input(path) as opened, pq.ParquetFile(opened) as file:
            metadata = file.metadata
    except (HudiReadError, *PARQUET_ERRORS):
        return {}
    found: dict[str, Range] = {}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for chunk in map(group.column, range(group.num_columns)):
            statistics = chunk.statistics
            if statistics is None or not statistics.has_min_max:
                continue
            least, greatest = statistics.min, statistics.max
            earlier = found.get(chunk.path_in_schema, (least, greatest))
            found[chunk.path_in_schema] = (min(least, earlier[0]), max(greatest, earlier[1]))
    return found
