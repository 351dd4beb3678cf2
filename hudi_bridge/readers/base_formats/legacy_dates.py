"""Dates and times that Spark wrote in the hybrid calendar, converted to the proleptic Gregorian calendar.

The metadata in the footer record which calendar Spark used: up to 2.4 the hybrid one, then the one of the settings
``datetimeRebaseModeInWrite`` and ``int96RebaseModeInWrite``. Times are local times of the writer's time zone. Times
without a time zone are not rebased, nor are values of other writers.

Source: ``DataSourceUtils.datetimeRebaseSpec``, ``ParquetRowConverter`` and ``ParquetVectorUpdaterFactory`` of Spark.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.schema.casts import rebuild_list, rebuild_map, rebuild_struct
from hudi_bridge.schema.julian import JulianZone, first_known, first_unchanged, gregorian, julian_zone

_VERSION = b"org.apache.spark.version"
_TIME_ZONE = b"org.apache.spark.timeZone"
_LEGACY_DATES, _LEGACY_TIMES_OF_96_BITS = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
# Spark compares versions as text.
_FIRST_WITH_DATES, _FIRST_WITH_TIMES_OF_96_BITS = b"3.0.0", b"3.1.0"
_96_BITS, _NUMBERS = "INT96", ("INT32", "INT64")
_UNKNOWN = object()

_Array = Any
_Step = Callable[[_Array], _Array]


class LegacyDates:
    """The columns of a file whose values are rebased."""

    def __init__(self, steps: Mapping[str, _Step], errors: Mapping[str, UnsupportedTableError]) -> None:
        self._steps = steps
        self._errors = errors

    @classmethod
    def of(cls, footer: pq.FileMetaData, schema: pa.Schema, path: str, *, has_statistics: bool = True) -> Self | None:
        """The columns to rebase, by a footer and the columns of its file; None if all values stay as stored.

        With ``has_statistics``, columns are left out whose statistics show that the calendars agree on all values.
        """
        metadata = footer.metadata or {}
        version = metadata.get(_VERSION)
        if version is None:
            return None
        calendar = _Calendar(
            has_dates=version < _FIRST_WITH_DATES or _LEGACY_DATES in metadata,
            has_times_of_96_bits=version < _FIRST_WITH_TIMES_OF_96_BITS or _LEGACY_TIMES_OF_96_BITS in metadata,
            time_zone=metadata.get(_TIME_ZONE, b"").decode("utf-8", "replace"),
        )
        if not (calendar.has_dates or calendar.has_times_of_96_bits):
            return None
        leaves = _leaves(footer, footer.num_row_groups if has_statistics else 0, is_complete=has_statistics)
        steps, errors = {}, {}
        for field in schema:
            column = _Column(calendar, field.name, path)
            step = column.step(field.type, leaves)
            if step is not None:
                steps[field.name] = step
            if column.refused is not None:
                errors[field.name] = column.refused
        return cls(steps, errors) if steps else None

    @property
    def columns(self) -> frozenset[str]:
        """The top-level columns with values that are rebased. Statistics are of the stored values."""
        return frozenset(self._steps)

    def require_known(self, columns: Iterable[str]) -> None:
        """Requires that the values of columns can be rebased, as far as statistics show.

        Raises:
            UnsupportedTableError: times are in an unknown time zone.
        """
        for name in columns:
            if (error := self._errors.get(name)) is not None:
                raise error

    def rebased(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows in the proleptic Gregorian calendar; checks all values like ``require_known``."""
        for position, field in enumerate(rows.schema):
            if (step := self._steps.get(field.name)) is not None:
                rows = rows.set_column(position, field, step(rows.column(position)))
        return rows


class _Calendar(NamedTuple):
    """Which values of a file are in the hybrid calendar: dates and times, or times of 96 bits."""

    has_dates: bool
    has_times_of_96_bits: bool
    time_zone: str

    @property
    def zone(self) -> JulianZone | None:
        return julian_zone(self.time_zone) if self.time_zone else None

    def counts(self, kind: Any, physical_type: str) -> bool:  # noqa: ANN401 - a type of Arrow
        if pa.types.is_timestamp(kind):
            is_of_96_bits = physical_type == _96_BITS
            return self.has_times_of_96_bits if is_of_96_bits else self.has_dates and kind.tz is not None
        return self.has_dates and pa.types.is_date32(kind)


class _Leaf(NamedTuple):
    """A leaf column: its physical type, the minimum by its statistics, and whether all row groups have statistics."""

    physical_type: str
    minimum: int | None
    is_complete_minimum: bool


class _Column:
    """Plans the conversion of a top-level column; ``refused`` is the error for values that cannot be rebased."""

    def __init__(self, calendar: _Calendar, name: str, path: str) -> None:
        self._calendar = calendar
        self._name = name
        self._path = path
        self.refused: UnsupportedTableError | None = None

    def step(self, kind: Any, leaves: Iterator[_Leaf]) -> _Step | None:  # noqa: ANN401 - a type of Arrow
        """The conversion of arrays of a type, whose leaves come next; None if they stay as stored."""
        if pa.types.is_struct(kind):
            children = tuple((position, self.step(child.type, leaves)) for position, child in enumerate(kind))
            return partial(rebuild_struct, kind, children) if any(step for _, step in children) else None
        if pa.types.is_map(kind):
            key, item = self.step(kind.key_type, leaves), self.step(kind.item_type, leaves)
            return partial(rebuild_map, kind, key, item) if key or item else None
        if pa.types.is_list(kind):
            inner = self.step(kind.value_type, leaves)
            return partial(rebuild_list, kind, inner) if inner else None
        if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
            # Spark does not write these types, so their leaves are skipped.
            for inner in self._parts(kind):
                self.step(inner, leaves)
            return None
        leaf = next(leaves)
        if not self._calendar.counts(kind, leaf.physical_type):
            return None
        zone = self._calendar.zone
        if leaf.is_complete_minimum and (leaf.minimum is None or leaf.minimum >= first_unchanged(kind, zone)):
            return None
        first_convertible = first_known(kind, zone)
        if first_convertible is not None and leaf.minimum is not None and leaf.minimum < first_convertible:
            self.refused = self._error()
        return partial(self._converted, zone, first_convertible)

    @staticmethod
    def _parts(kind: Any) -> list[Any]:  # noqa: ANN401 - types of Arrow
        if isinstance(kind, pa.BaseExtensionType):
            return [kind.storage_type]
        return [kind.field(position).type for position in range(kind.num_fields)]

    def _converted(self, zone: JulianZone | None, first_convertible: int | None, values: _Array) -> _Array:
        if first_convertible is not None:
            minimum = pc.min(values.view(pa.int64())).as_py()
            if minimum is not None and minimum < first_convertible:
                raise self._error()
        return gregorian(values, zone)

    def _error(self) -> UnsupportedTableError:
        zone = f"of the time zone {self._calendar.time_zone}" if self._calendar.time_zone else "of no time zone"
        actual = f"{self._name} with local times {zone}, in {self._path}"
        supported = "times from 1900 on, or from the year 1 on in a time zone that Spark has tables for"
        return UnsupportedTableError("column in the calendar of Spark 2", actual, supported)


def _leaves(footer: pq.FileMetaData, row_groups: int, *, is_complete: bool) -> Iterator[_Leaf]:
    """Yields the leaves with the statistics of the first ``row_groups``; ``is_complete`` if these are all."""
    groups = [footer.row_group(number) for number in range(row_groups)]
    for column in range(footer.num_columns):
        physical_type = footer.schema.column(column).physical_type
        minima = [_minimum(group.column(column)) for group in groups]
        present = [minimum_of_chunk for minimum_of_chunk in minima if minimum_of_chunk is not _UNKNOWN]
        minimum = min((value for value in present if value is not None), default=None)
        yield _Leaf(physical_type, minimum, is_complete and len(present) == len(minima))


def _minimum(chunk: Any) -> Any:  # noqa: ANN401 - the stubs lack fields
    """The smallest number of a chunk; None if it has no values."""
    statistics = chunk.statistics
    if statistics is None or chunk.physical_type not in _NUMBERS:
        return _UNKNOWN
    if not statistics.has_min_max:
        return None if statistics.has_null_count and statistics.null_count == chunk.num_values else _UNKNOWN
    return int(statistics.min_raw)
