"""Columns of Parquet files that have dates and times of the hybrid calendar, and their values in the Gregorian one.

The facts in the footer tell which calendar Spark wrote: up to 2.4 the hybrid one, then that of the settings
``datetimeRebaseModeInWrite`` and ``int96RebaseModeInWrite``. Times are local ones of the writer's time zone. Times
without a time zone are not rebased, nor are the values of other writers.

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
# Compared as text.
_FIRST_WITH_DATES, _FIRST_WITH_TIMES_OF_96_BITS = b"3.0.0", b"3.1.0"
_96_BITS, _NUMBERS = "INT96", ("INT32", "INT64")
_UNKNOWN = object()

_Array = Any
_Step = Callable[[_Array], _Array]


class LegacyDates:
    """The columns of a file whose values are rebased, if there are some that the calendars differ in."""

    def __init__(self, steps: Mapping[str, _Step], not_known: Mapping[str, UnsupportedTableError]) -> None:
        self._steps = steps
        self._not_known = not_known

    @classmethod
    def of(cls, footer: pq.FileMetaData, schema: pa.Schema, path: str, *, has_statistics: bool = True) -> Self | None:
        """The columns of a file with a footer and these columns; None if all values are as stored.

        That is so where statistics show that there is no value which the calendars differ in. They are not looked at
        unless the footer ``has_statistics``.
        """
        facts = footer.metadata or {}
        version = facts.get(_VERSION)
        if version is None:
            return None
        calendar = _Calendar(
            has_dates=version < _FIRST_WITH_DATES or _LEGACY_DATES in facts,
            has_times_of_96_bits=version < _FIRST_WITH_TIMES_OF_96_BITS or _LEGACY_TIMES_OF_96_BITS in facts,
            time_zone=facts.get(_TIME_ZONE, b"").decode("utf-8", "replace"),
        )
        if not (calendar.has_dates or calendar.has_times_of_96_bits):
            return None
        leaves = _leaves(footer, footer.num_row_groups if has_statistics else 0, is_complete=has_statistics)
        steps, not_known = {}, {}
        for field in schema:
            column = _Column(calendar, field.name, path)
            step = column.step(field.type, leaves)
            if step is not None:
                steps[field.name] = step
            if column.refused is not None:
                not_known[field.name] = column.refused
        return cls(steps, not_known) if steps else None

    @property
    def columns(self) -> frozenset[str]:
        """The columns of which values are rebased, with nested fields. Statistics are of the values as stored."""
        return frozenset(self._steps)

    def require_known(self, columns: Iterable[str]) -> None:
        """Raises if statistics show that values of some columns depend on what the file does not tell.

        Raises:
            UnsupportedTableError: times are of a time zone that is not known.
        """
        for name in columns:
            if (error := self._not_known.get(name)) is not None:
                raise error

    def rebased(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows in the proleptic Gregorian calendar; raises like ``require_known``, by the values."""
        for position, field in enumerate(rows.schema):
            if (step := self._steps.get(field.name)) is not None:
                rows = rows.set_column(position, field, step(rows.column(position)))
        return rows


class _Calendar(NamedTuple):
    """What a footer tells: whether dates and times, or those of 96 bits, are of the hybrid calendar."""

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
    """A column of values of a file, the least value that statistics tell, if any, and whether it is that of all."""

    physical_type: str
    least: int | None
    is_of_all: bool


class _Column:
    """The steps of a top-level column, and the error for those of its values that are not known, by statistics."""

    def __init__(self, calendar: _Calendar, name: str, path: str) -> None:
        self._calendar = calendar
        self._name = name
        self._path = path
        self.refused: UnsupportedTableError | None = None

    def step(self, kind: Any, leaves: Iterator[_Leaf]) -> _Step | None:  # noqa: ANN401 - a type of Arrow
        """The conversion of arrays of a type, whose leaves come next; None if they stay as they are."""
        if pa.types.is_struct(kind):
            children = tuple((place, self.step(child.type, leaves)) for place, child in enumerate(kind))
            return partial(rebuild_struct, kind, children) if any(step for _, step in children) else None
        if pa.types.is_map(kind):
            key, item = self.step(kind.key_type, leaves), self.step(kind.item_type, leaves)
            return partial(rebuild_map, kind, key, item) if key or item else None
        if pa.types.is_list(kind):
            inner = self.step(kind.value_type, leaves)
            return partial(rebuild_list, kind, inner) if inner else None
        if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
            # Of types that Spark does not write, the leaves are passed over.
            for inner in self._parts(kind):
                self.step(inner, leaves)
            return None
        leaf = next(leaves)
        if not self._calendar.counts(kind, leaf.physical_type):
            return None
        zone = self._calendar.zone
        if leaf.is_of_all and (leaf.least is None or leaf.least >= first_unchanged(kind, zone)):
            return None
        known = first_known(kind, zone)
        if known is not None and leaf.least is not None and leaf.least < known:
            self.refused = self._error()
        return partial(self._converted, zone, known)

    @staticmethod
    def _parts(kind: Any) -> list[Any]:  # noqa: ANN401 - types of Arrow
        if isinstance(kind, pa.BaseExtensionType):
            return [kind.storage_type]
        return [kind.field(place).type for place in range(kind.num_fields)]

    def _converted(self, zone: JulianZone | None, known: int | None, values: _Array) -> _Array:
        if known is not None:
            least = pc.min(values.view(pa.int64())).as_py()
            if least is not None and least < known:
                raise self._error()
        return gregorian(values, zone)

    def _error(self) -> UnsupportedTableError:
        zone = f"of the time zone {self._calendar.time_zone}" if self._calendar.time_zone else "of no time zone"
        found = f"{self._name} with local times {zone}, in {self._path}"
        supported = "times from 1900 on, or from the year 1 on in a time zone that Spark has tables for"
        return UnsupportedTableError("column in the calendar of Spark 2", found, supported)


def _leaves(footer: pq.FileMetaData, row_groups: int, *, is_complete: bool) -> Iterator[_Leaf]:
    """The leaves, by the statistics of the first ``row_groups``; ``is_complete`` if there are no others."""
    groups = [footer.row_group(number) for number in range(row_groups)]
    for place in range(footer.num_columns):
        physical_type = footer.schema.column(place).physical_type
        found = [_least(group.column(place)) for group in groups]
        known = [one for one in found if one is not _UNKNOWN]
        least = min((low for low in known if low is not None), default=None)
        yield _Leaf(physical_type, least, is_complete and len(known) == len(found))


def _least(chunk: Any) -> Any:  # noqa: ANN401 - the stubs lack fields
    """The least number of a chunk, None if it has no values."""
    statistics = chunk.statistics
    if statistics is None or chunk.physical_type not in _NUMBERS:
        return _UNKNOWN
    if not statistics.has_min_max:
        return None if statistics.has_null_count and statistics.null_count == chunk.num_values else _UNKNOWN
    return int(statistics.min_raw)
